"""Masks at both ends of a link, without a network: what is held back, masked anew, and added up."""

import asyncio
import dataclasses
import shutil
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from tacit import graphs, privacy
from tacit.algorithms import distributed_online
from tacit.core.errors import ConfigError, ContractError, LedgerError, MessageRefused, PrivacyError
from tacit.peer import run_in_process
from tacit.peer.machine.rounds import RoundMachine
from tacit.peer.masking.masker import Masker, masker_of
from tacit.peer.masking.pairing import TAG_BYTES, partners_of, unmatched
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.peer.node.exchange import Parcel, Position
from tacit.peer.node.links import NodeLinks
from tacit.peer.node.node import Node
from tacit.peer.node.service import PeerService
from tacit.peer.node.store import PeerStore
from tacit.peer.transport.codec import Codec
from tacit.peer.transport.frames import Header
from tests.peer.masked import AGENTS, HandPads, algorithm, noise_on, partners_at, session_name, setting, stream
from tests.peer.masked import true_shares as shares_of
from tests.peer.settings import SEED, Setting

B, ALL = "peer-0", ("peer-1", "peer-2", "peer-3")
FIRST, MIDDLE, LAST = ALL


def masker(own, pads):
    return Masker(own, setting().functions.specs, {("peers", B): ALL}, {B: pads}.get)


def parcel(t=1, value=5):
    return Parcel("peers", 0, t, B, np.full(3, value, "<i4").tobytes())


def standing(*partners):
    pads = HandPads()
    pads.sessions = {partner: session_name(partner) for partner in partners}
    return pads


def noise(masked):
    return noise_on(masked.content, np.full(3, 5))


class TestWhatLeaves:
    """One sender's side."""

    def test_nothing_leaves_before_there_is_a_secret_with_every_partner(self):
        pads = standing(FIRST)
        one = masker(MIDDLE, pads)
        assert one.masked(B, [parcel()]) == ()
        assert pads.asked == []
        pads.sessions[LAST] = session_name("late")
        (left,) = one.masked(B, [parcel()])
        assert pads.asked == [(FIRST, 1, 0), (LAST, 1, 0)]
        assert left.masks == session_name(FIRST)[:TAG_BYTES] + session_name("late")[:TAG_BYTES]
        assert noise(left).all()

    def test_nothing_leaves_before_a_start(self):
        assert masker(FIRST, None).masked(B, [parcel()]) == ()

    def test_what_is_asked_for_again_is_the_same_bytes(self):
        pads = standing(MIDDLE)
        one = masker(FIRST, pads)
        first = one.masked(B, [parcel(1)])
        both = one.masked(B, [parcel(1), parcel(2)])
        assert both[:1] == first
        assert one.masked(B, [parcel(1), parcel(2)]) == both
        assert pads.asked == [(MIDDLE, 1, 0), (MIDDLE, 2, 0)]
        assert not np.any(noise(both[0]) == noise(both[1]))

    def test_what_is_confirmed_is_forgotten(self):
        one = masker(FIRST, standing(MIDDLE))
        one.masked(B, [parcel(1), parcel(2)])
        one.masked(B, [parcel(2)])
        assert list(one._kept[B]) == [(2, 0)]

    def test_a_new_process_masks_what_waits_as_before(self):
        pads = standing(FIRST, LAST)
        before = masker(MIDDLE, pads).masked(B, [parcel(1), parcel(2)])
        assert masker(MIDDLE, standing(FIRST, LAST)).masked(B, [parcel(1), parcel(2)]) == before

    def test_one_that_has_to_wait_holds_back_those_behind_it(self):
        pads = standing(FIRST)
        one = masker(MIDDLE, pads)
        assert one.masked(B, [parcel(1), parcel(2)]) == ()
        pads.sessions[LAST] = session_name(LAST)
        assert [left.round for left in one.masked(B, [parcel(1), parcel(2)])] == [1, 2]
        assert pads.asked == [(FIRST, 1, 0), (LAST, 1, 0), (FIRST, 2, 0), (LAST, 2, 0)]

    def test_masks_of_a_pair_cancel(self):
        sides = {name: standing() for name in ALL}
        for pair in ((FIRST, MIDDLE), (MIDDLE, LAST)):
            for own, other in (pair, pair[::-1]):
                sides[own].sessions[other] = session_name(*pair)
        left = {name: masker(name, pads).masked(B, [parcel()])[0] for name, pads in sides.items()}
        total = sum(np.frombuffer(one.content, "<u4") for one in left.values())
        np.testing.assert_array_equal(total, 15)
        assert all(noise(one).all() for one in left.values())

    def test_somebody_has_to_share_the_masks(self):
        for names in ((FIRST,), (MIDDLE, LAST), ()):
            with pytest.raises(ConfigError, match=r"expected 'peer-1' and"):
                Masker(FIRST, setting().functions.specs, {("peers", B): names}, {}.get)

    def test_a_model_too_large_for_a_key_stream_is_refused_at_once(self, monkeypatch):
        monkeypatch.setattr("tacit.peer.masking.masker.LARGEST_PAD", 3 * 25 - 1)
        with pytest.raises(ConfigError, match="a message of phase 0 takes 75 words"):
            masker(FIRST, standing(MIDDLE))


def test_partners_are_those_of_the_other_side():
    for receiver in range(AGENTS):
        senders = [f"peer-{k}" for k in range(AGENTS) if k != receiver]
        for own in senders:
            partners, adds = partners_of(own, senders)
            assert partners == partners_at(own, f"peer-{receiver}")
            assert adds == (len(partners) == 1)


class TestMatching:
    """Whose message a receiver still waits for."""

    ONE, TWO, OTHER = b"session1", b"session2", b"session3"

    def test_the_absent(self):
        assert unmatched([1, 2, 3], {}) == {1, 2, 3}
        assert unmatched([1, 2, 3], {1: self.ONE, 2: self.ONE + self.TWO}) == {3}

    def test_all_here_and_agreed(self):
        assert unmatched([1, 2, 3], {1: self.ONE, 2: self.ONE + self.TWO, 3: self.TWO}) == set()

    def test_who_names_another_session_and_its_partner(self):
        assert unmatched([1, 2, 3], {1: self.OTHER, 2: self.ONE + self.TWO, 3: self.TWO}) == {1, 2}
        assert unmatched([1, 2, 3], {1: self.ONE, 2: self.ONE + self.TWO, 3: self.OTHER}) == {2, 3}
        assert unmatched([1, 2, 3], {1: self.TWO, 2: self.ONE + self.TWO, 3: self.ONE}) == {1, 2, 3}
        assert unmatched([1, 2, 3], {1: self.OTHER, 2: self.ONE + self.TWO}) == {1, 2, 3}


@pytest.fixture
def bench(tmp_path):
    """All nodes after they began round 1, and the pads of each at each receiver."""
    nodes, pads = {}, {}
    for name, plan in setting().plans.items():
        own = pads[name] = {other: HandPads() for other in setting().plans if other != name}
        store = PeerStore.create(tmp_path / name, NOTHING_BOOKED, "job")
        node = nodes[name] = Node(plan, store, 1.0, 0.0, setting().functions, own.get)
        node.begin(setting().batch(name, 0), 0.0)
        for other in node.sends_to:
            node.confirmed(other, Position(1, 0))
    yield nodes, pads
    for node in nodes.values():
        node.store.close()


def agree(pads, *pair, life=1, receiver=B):
    for own, other in (pair, pair[::-1]):
        pads[own][receiver].sessions[other] = session_name(*pair, life)


def started_anew(nodes, pads, name):
    """As if it were another process, with whatever store: nothing is known of what was masked."""
    nodes[name].masker._kept.clear()
    pads[name][B].last.clear()


def carry(nodes, sender, receiver=B):
    found = []
    for one in nodes[sender].waiting(receiver):
        message = nodes[receiver].codec.unpack(one.phase, one.content)
        nodes[receiver].receive(sender, one.links, one.phase, one.round, message, one.masks)
        found.append(one)
    return found


class TestNodes:
    """Both sides, with stores."""

    def test_what_is_kept_is_not_masked_and_what_leaves_is(self, bench):
        nodes, pads = bench
        assert nodes[FIRST].waiting(B) == ()
        assert nodes[FIRST].unconfirmed(B) == 1
        agree(pads, FIRST, MIDDLE)
        (left,) = nodes[FIRST].waiting(B)
        (kept,) = [one for one in nodes[FIRST].store.outbox() if one.receiver == B]
        assert kept.masks == b""
        assert noise_on(left.content, np.frombuffer(kept.content, "<i4")).all()
        nodes[FIRST].confirmed(B, Position(2, 0))
        assert (nodes[FIRST].waiting(B), nodes[FIRST].unconfirmed(B)) == ((), 0)

    def test_what_leaves_is_booked_at_no_charge(self, bench):
        for node in bench[0].values():
            assert node.store.ledger.releases == 1
            assert node.store.ledger.spent() == (0, 0, 0)

    def test_what_lacks_its_mask_is_not_taken_for_delivered(self, bench):
        node = bench[0][FIRST]
        links = SimpleNamespace(
            node=node,
            dialers={B: SimpleNamespace(connected=True)},
            turn=asyncio.Lock(),
            apply_news=lambda: None,
            _waiters=[],
        )
        links.until = partial(NodeLinks.until, links)
        links.undelivered = partial(NodeLinks.undelivered, links)
        service = SimpleNamespace(links=links)

        async def scenario():
            await asyncio.wait_for(PeerService.delivered(service, 3600), 0.05)

        assert node.waiting(B) == ()
        with pytest.raises(TimeoutError):
            asyncio.run(scenario())
        node.confirmed(B, Position(2, 0))
        asyncio.run(scenario())

    def test_a_round_goes_on_when_masks_cancel_and_not_before(self, bench):
        nodes, pads = bench
        receiver = nodes[B]
        agree(pads, FIRST, MIDDLE)
        agree(pads, MIDDLE, LAST)
        for name in ALL:
            carry(nodes, name)
        assert receiver.due(0.0)
        agree(pads, FIRST, MIDDLE, life=2)
        started_anew(nodes, pads, FIRST)
        carry(nodes, FIRST)  # the newest version counts, even if the one before would have done
        assert not receiver.due(0.0)
        assert receiver.missing() == {FIRST, MIDDLE}
        with pytest.raises(ContractError, match="without peer-1, peer-2"):
            receiver.proceed(0.0)
        with pytest.raises(ContractError, match=r"messages of 1, 2 .*masks"):
            receiver.machine.proceed()
        started_anew(nodes, pads, MIDDLE)
        carry(nodes, MIDDLE)
        assert receiver.due(0.0)
        receiver.proceed(0.0)
        reference = run_in_process(
            algorithm(privacy.on_grid()), graphs.complete(AGENTS), stream(3), rounds=1, seed=SEED
        ).models[0]
        np.testing.assert_array_equal(receiver.model(), reference[0])

    def test_the_same_version_twice_is_refused(self, bench):
        nodes, pads = bench
        agree(pads, FIRST, MIDDLE)
        carry(nodes, FIRST)
        with pytest.raises(MessageRefused, match="repeated"):
            carry(nodes, FIRST)

    def test_a_message_after_the_round_is_refused(self, bench):
        nodes, pads = bench
        agree(pads, FIRST, MIDDLE)
        agree(pads, MIDDLE, LAST)
        for name in ALL:
            carry(nodes, name)
        nodes[B].proceed(0.0)
        with pytest.raises(MessageRefused, match=r"repeated|stale"):
            carry(nodes, FIRST)

    @pytest.mark.parametrize("tags", [0, 1, 3])
    def test_tags_for_other_partners_are_refused(self, bench, tags):
        nodes, _ = bench
        message = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), nodes[B].specs[0].message)
        with pytest.raises(MessageRefused, match=rf"{tags} sessions, .*agents 1, 3"):
            nodes[B].receive(MIDDLE, "peers", 0, 1, message, bytes(TAG_BYTES * tags))
        assert MIDDLE in nodes[B].missing()


class TestOldCopies:
    """A store that was put back would put a mask on a second value."""

    def again(self, node, folder, **opened):
        node.store.close()
        store = PeerStore.open(folder, NOTHING_BOOKED, "job", **opened)
        pads = {other: standing(*partners_at(MIDDLE, other)) for other in node.sends_to}
        return Node(node.plan, store, 1.0, 0.0, setting().functions, pads.get)

    def test_nothing_leaves_before_the_receiver_has_said_where_it_stands(self, bench, tmp_path):
        node = self.again(bench[0][MIDDLE], tmp_path / MIDDLE)
        assert node.waiting(B) == ()
        assert node.unconfirmed(B) == 1
        node.confirmed(B, Position(1, 0))
        assert len(node.waiting(B)) == 1
        node.store.close()

    def test_a_receiver_that_is_further_shows_it(self, bench, tmp_path):
        node = self.again(bench[0][MIDDLE], tmp_path / MIDDLE)
        with pytest.raises(MessageRefused, match=r"round 3, phase 0.*round 1: .*new epoch"):
            node.confirmed(B, Position(3, 0))
        assert node.waiting(B) == ()
        node.store.close()

    def test_a_witness_knows_it(self, tmp_path):
        path, old, witness = tmp_path / "store", tmp_path / "old", tmp_path / "witness"
        plan, store = setting().plans[MIDDLE], PeerStore.create(path, NOTHING_BOOKED, "job", witness)
        store.close()
        shutil.copy(path, old)
        store = PeerStore.open(path, NOTHING_BOOKED, "job", witness)
        with store:
            Node(plan, store, 1.0, 0.0, setting().functions, {}.get).begin(setting().batch(MIDDLE, 0), 0.0)
        shutil.copy(old, path)
        with pytest.raises(LedgerError, match="rolled back"):
            PeerStore.open(path, NOTHING_BOOKED, "job", witness)


class TestRefusals:
    """What could not be masked does not begin."""

    def plan(self, **changes):
        return dataclasses.replace(setting().plans[FIRST], **changes)

    def test_a_node_without_pads(self, tmp_path):
        store = PeerStore.create(tmp_path / "store", NOTHING_BOOKED, "job")
        words = r"'local_graph_homomorphic' of 'adapt_then_combine'.*give it `pads`"
        with store, pytest.raises(PrivacyError, match=words):
            Node(self.plan(), store, 1.0, 0.0, setting().functions)

    def test_a_plan_that_does_not_say_who_else_sends(self):
        with pytest.raises(ConfigError, match="'peer-0' over 'peers' is not known"):
            masker_of(self.plan(co_senders={}), setting().functions.specs, {}.get)

    @pytest.mark.parametrize(
        "changes",
        [{"longest_delay": 1}, {"algorithm": algorithm()._replace(missing="renormalise")}],
        ids=["delay", "goes on without"],
    )
    def test_a_job_that_does_not_wait(self, changes):
        with pytest.raises(ConfigError, match="every sender's message"):
            masker_of(self.plan(**changes), setting().functions.specs, {}.get)

    def test_a_parcel_of_a_masked_phase_without_masks_is_never_framed(self, bench):
        codec = bench[0][FIRST].codec
        with pytest.raises(PrivacyError, match="without masks"):
            next(codec.frames(parcel()._replace(content=bytes(codec.layouts[0].size))))

    def test_a_header_with_masks_where_there_are_none_and_the_other_way_round(self, bench):
        plain = Setting("plain", distributed_online(algorithm().objective), graphs.complete(AGENTS), stream(3), 1)
        for codec, masks in ((bench[0][FIRST].codec, b""), (Codec("job", plain.functions.specs), bytes(8))):
            layout = codec.layouts[0]
            header = Header(0, 1, bytes(layout.size), masks)
            with pytest.raises(MessageRefused, match=rf"masks\): {len(masks)} bytes of tags"):
                codec.expect(header)


def test_machines_in_memory_run_under_masks_that_cancel(monkeypatch):
    heard = {}
    original = RoundMachine.receive

    def listening(machine, envelope):
        heard[f"peer-{envelope.sender}", f"peer-{envelope.receiver}", envelope.round] = envelope
        original(machine, envelope)

    shares, expected = shares_of(3, 3, dtype="float64")
    monkeypatch.setattr(RoundMachine, "receive", listening)
    run = run_in_process(algorithm(), graphs.complete(AGENTS), stream(3), rounds=3, dtype="float64")
    np.testing.assert_array_equal(run.models, expected)
    assert heard.keys() == shares.keys()
    masks = {}
    for key, envelope in heard.items():
        (leaf,) = jax.tree.leaves(envelope.message)
        masks[key] = leaf - shares[key]
        assert np.all(masks[key])
        assert key[2] == 1 or np.all(masks[key] != masks[*key[:2], key[2] - 1])
        assert len(envelope.masks) == TAG_BYTES * len(partners_at(*key[:2]))
