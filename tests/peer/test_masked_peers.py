"""Masked messages between running peers, over real mutual TLS: what is on the wire, and what becomes of it."""

import asyncio
import itertools
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from tacit import graphs
from tacit.core.errors import TacitError
from tacit.peer.transport.frames import HEADER, parse
from tacit.peer.transport.outgoing import OutgoingLink
from tests.peer.masked import (
    AGENTS,
    NOISE_STD,
    SCALE,
    algorithm,
    noise_on,
    partners_at,
    stream,
    sum_of_two,
    true_shares,
)
from tests.peer.mutated_frames import read
from tests.peer.services import Federation, plans

ROUNDS, DIM = 6, 250
FALSE_ALARM = 1e-6
"""Of each of the three tests of a law over all messages. Masks come from real keys, so that every run can fail for
nothing, with a chance below 1e-5."""


class Sent(NamedTuple):
    """One message as it was written to a link."""

    sender: str
    receiver: str
    round: int
    masks: bytes
    content: bytes


class KilledError(TacitError):
    """Stands for the end of a process."""


class Watched(Federation):
    """A federation of whose links every frame is kept as it is handed to TLS, and whose peers can be killed."""

    def __init__(self, directory, monkeypatch):
        super().__init__(
            directory, plans(algorithm(), graphs.complete(AGENTS), stream(DIM)), stream(DIM), rounds=ROUNDS
        )
        self.frames: list[Sent] = []
        self.doomed: dict[tuple[str, int], str] = {}
        """(Name, round) -> when in that round it is to be killed."""
        self.struck = asyncio.Queue()
        federation, made = self, OutgoingLink.__init__

        def tapped(link, name, secured, codec, dispatch, events):
            made(link, name, secured, codec, dispatch, events)
            sender, put = dispatch.node.plan.name, link.stream.put

            def noted(*parts):
                put(*parts)
                ((kind, payload),) = read(b"".join(parts))
                if kind != HEADER:
                    return
                header = parse(HEADER, memoryview(payload))  # these messages are short: a frame is a message
                federation.frames.append(Sent(sender, name, header.round, header.masks, bytes(header.content)))
                if federation.doomed.get((sender, header.round)) == "sent":
                    federation._strike(sender, header.round)

            link.stream.put = noted

        monkeypatch.setattr(OutgoingLink, "__init__", tapped)

    def _strike(self, name, at_round):
        del self.doomed[name, at_round]
        self.services[name].fault = KilledError("killed")  # nothing more is committed or waited for
        self.struck.put_nowait(name)

    async def launch(self, name):
        service = await super().launch(name)
        store, loop = service._store, asyncio.get_running_loop()
        commit = store.commit

        def fragile(**what):
            rounds = {parcel.round for parcel in what["parcels"]}
            when = next((self.doomed[name, t] for t in rounds if (name, t) in self.doomed), None)
            if when == "committed":
                commit(**what)
            if when in ("computed", "committed"):
                loop.call_soon_threadsafe(self._strike, name, *rounds)
                raise KilledError("killed")
            commit(**what)

        store.commit = fragile
        return service

    async def go(self, deaths=0):
        """Run all rounds; whoever is struck is closed and starts again from its store."""
        try:
            async with asyncio.timeout(300):
                for name in self.plans:
                    await self.launch(name)
                self.connect()
                for _ in range(deaths):
                    name = await self.struck.get()
                    await self.services[name].stop()
                    await self.launch(name)
                    self.connect(name)
                for service in self.services.values():
                    await service.finished.wait()
                    assert service.fault is None
                    assert service.faults() == []
                    assert f"standard deviation {NOISE_STD:g}" in service.status()["privacy"]["holds"]
                    assert service.status()["unconfirmed"].keys() == set(self.plans) - {service.node.plan.name}
        finally:
            await self.stop()


@pytest.fixture(scope="module")
def expected():
    return true_shares(ROUNDS, DIM)


def noises(federation, shares):
    """Number of partners -> all that was added to messages of senders with that many, per distinct version."""
    found = defaultdict(list)
    for one in dict.fromkeys(federation.frames):
        noise = noise_on(one.content, shares[one[:3]])
        found[len(partners_at(one.sender, one.receiver))].append(noise)
    return found


def exact(federation, models):
    for agent, name in enumerate(federation.plans):
        for t in range(1, ROUNDS + 1):
            np.testing.assert_array_equal(federation.models[name][t], models[t - 1, agent])


def masked_as_declared(federation, shares):
    """Every message that was written carries masks that fit the law; none is what it would be without."""
    found = noises(federation, shares)
    for number, law in ((1, stats.laplace.cdf), (2, sum_of_two)):
        together = np.concatenate(found[number]) / SCALE
        assert stats.kstest(together, law).pvalue > FALSE_ALARM
        for noise in found[number]:  # so many numbers hardly ever miss the law together
            assert stats.kstest(noise / SCALE, law).pvalue > FALSE_ALARM / len(federation.frames)


def test_the_sum_is_exact_and_every_message_looks_like_noise(tmp_path, monkeypatch, expected):
    shares, models = expected
    federation = Watched(tmp_path, monkeypatch)
    asyncio.run(federation.go())
    exact(federation, models)
    masked_as_declared(federation, shares)
    assert {one[:3] for one in federation.frames} == shares.keys()
    by_edge = defaultdict(list)
    for one in dict.fromkeys(federation.frames):
        by_edge[one[:2]].append(noise_on(one.content, shares[one[:3]]))
    for rounds in by_edge.values():  # no mask comes again
        for earlier, later in itertools.pairwise(rounds):
            assert np.mean(earlier == later) < 0.01
            assert stats.spearmanr(earlier, later).pvalue > FALSE_ALARM / len(federation.frames)


def test_masking_peers_die_in_the_middle_of_rounds_and_come_back(tmp_path, monkeypatch, expected):
    shares, models = expected
    federation = Watched(tmp_path, monkeypatch)
    federation.doomed = {("peer-1", 2): "computed", ("peer-2", 3): "committed", ("peer-1", 4): "sent"}
    asyncio.run(federation.go(deaths=3))
    assert not federation.doomed
    exact(federation, models)
    masked_as_declared(federation, shares)
    versions = defaultdict(list)
    for one in federation.frames:
        versions[one[:3]].append((one.masks, one.content))
    assert versions.keys() == shares.keys()
    assert any(len(times) > 1 for times in versions.values()), "nothing was sent again"
    for times in versions.values():
        assert len(set(times)) == 1  # no value leaves under a second mask
