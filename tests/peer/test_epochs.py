"""A new epoch, agreed on while the peers run: state and budget go on, nothing is released twice, whoever is killed when."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from tacit import graphs, objectives, privacy
from tacit.algorithms import distributed_online, zcdp_admm
from tacit.core.errors import ConfigError, MessageRefused
from tacit.peer.membership.carry import continued_state
from tacit.peer.membership.epochs import MARGIN, Kind
from tacit.peer.membership.proposals import Proposal
from tacit.privacy.ledger import Budget, inspect
from tests.peer.epochs import JOBS, EpochNetwork, TwoEpochs, part_of
from tests.peer.stores import MEMORY
from tests.peer.weather import CALM, Weather

FIRST = tuple(f"peer-{k}" for k in range(5))
SECOND = ("peer-0", "peer-2", "peer-3", "peer-4", "peer-5")
LINKS = (
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)],  # by id in FIRST
    [(0, 1), (1, 2), (2, 3), (0, 2), (3, 4), (4, 0)],  # by id in SECOND: 4 - 0 is gone, 0 - 3 is new
)
ROUNDS = 20
QUICK = dataclasses.replace(CALM, data_gap=0.01, latency=0.005)


@pytest.fixture
def folder():
    """Where syncs cost nothing."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


def _graph(links):
    one, other = zip(*links, strict=True)
    return graphs.Graph.from_edges(5, [*one, *other], [*other, *one])


@functools.cache
def _setting(name, booked=False, missing="wait"):
    if name == "distributed_online":
        noise = {"mechanism": privacy.laplace(1.0, clip=1.0, adjacency="dataset")} if booked else {}
        method = distributed_online(objectives.squared(), 0.05, missing=missing, **noise)
    else:
        method = zcdp_admm(objectives.squared(), penalty=0.5)
    return TwoEpochs(name, method, [_graph(links) for links in LINKS], (FIRST, SECOND), ROUNDS, booked)


def _admm(state, views):
    degree = float(views["peers"].into.degree)
    return state._replace(others=degree * state.u, gamma=jnp.zeros_like(state.u))


@pytest.mark.parametrize(
    ("name", "carried"), [("distributed_online", lambda state, views: state), ("zcdp_admm", _admm)]
)
def test_a_run_over_two_epochs_is_that_of_states_carried_over(name, carried, folder):
    setting = _setting(name)
    network = EpochNetwork(setting, 1, folder, QUICK, told={"peer-3": 0.15})
    try:
        network.run(60.0)
        assert network.finished
        assert network.gone == {"peer-1"}
        began = {host.node.links.epochs.began for host in network.hosts.values() if host.node is not None}
        (first,) = began
        assert 8 < first < ROUNDS
        wanted = setting.reference(first - 1, carried)
        for host in network.hosts.values():
            if host.node is not None:
                np.testing.assert_allclose(host.node.model(), wanted[host.name], atol=1e-6)
    finally:
        network.close()


def test_memories_of_links_go_with_their_neighbours():
    setting = _setting("distributed_online")
    before, after = (setting.epochs[k]["peer-0"] for k in (0, 1))

    def init(key, params, views):  # a memory of each sender: 7 at first
        return {"model": params, "heard": jnp.full(views["peers"].into.agent.shape, 7.0)}

    method = before.algorithm._replace(init={"peer": init}, continuation={"peer": lambda state, views: state})
    before, after = (dataclasses.replace(plan, algorithm=method) for plan in (before, after))
    with before.precision():
        state = {"model": before.params, "heard": jnp.asarray([10.0, 1.0, 2.0, 4.0])}  # itself, peers 1, 2 and 4
        found = continued_state(before, state, after)
    assert [SECOND[int(k)] for k in after.views(0)["peers"].into.agent] == ["peer-0", "peer-2", "peer-3", "peer-5"]
    np.testing.assert_array_equal(found["heard"], [10.0, 2.0, 7.0, 7.0])
    with pytest.raises(ConfigError, match="continuation"):
        continued_state(before, state, dataclasses.replace(after, algorithm=method._replace(continuation=None)))


# -- kills -------------------------------------------------------------------------------------------------------------


def _check_ledgers(network):
    """Every ledger verifies, books each round of its peer once, and what was spent is what all of them cost."""
    setting = network.setting
    for host in network.hosts.values():
        replay = inspect(host.path, lambda replay: replay.run())
        names = inspect(host.path, lambda replay: [entry.release for entry, _ in replay])
        rounds = [int(name.split()[3]) for name in names if " round " in name]
        assert len(rounds) == len(set(rounds))
        stays = host.name in setting.epochs[0] and host.name in setting.epochs[1]
        assert len(replay.jobs) == 1 + stays
        assert len(names) == len(rounds) + stays
        if setting.booked:
            assert replay.account.spent().epsilon == pytest.approx(len(rounds))
            assert replay.account.spent().epsilon <= network.budget.epsilon
        if setting.waits and host.node is not None:
            first = 1 if host.name in setting.epochs[0] else host.node.links.epochs.began
            done = range(first, host.node.round + 1)
            assert rounds == [t for t in done if setting.booked]


def _ran(network, seconds=60.0, finished=True):
    try:
        network.run(seconds)
        assert network.finished == finished
        _check_ledgers(network)
        return {host.node.links.epochs.began for host in network.hosts.values() if host.node is not None}
    finally:
        network.close()


KILLED = ("peer-0", "peer-1", "peer-5")
"""One that stays, one that leaves and one that is new."""


def _killed(folder, name, number, moment):
    folder.mkdir()
    network = EpochNetwork(_setting("distributed_online", booked=True), 1, folder, QUICK, strike=(name, number, moment))
    assert len(_ran(network)) == 1
    return network


@pytest.mark.parametrize("name", KILLED)
def test_a_peer_may_be_killed_at_each_commit_of_the_change(name, folder):
    bare = _killed(folder / "none", name, 0, "")
    assert bare.bare
    for number in bare.bare:
        for moment in ("before", "after"):
            assert _killed(folder / f"{number} {moment}", name, number, moment).commits >= number


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_peer_may_be_killed_at_any_commit(name, moment, folder):
    for number in range(1, _killed(folder / "none", name, 0, "").commits + 1):
        _killed(folder / str(number), name, number, moment)


STORM = Weather(6.0, 0.005, 0.2, 0.6, 0.0, 0.1, 0.0, 1.5, 0.05, 0.4, data_gap=0.1, data_pauses=0.05)


def _weathered(seed, missing, folder):
    told = {name: 0.2 + 0.7 * k * (seed % 4) for k, name in enumerate(FIRST)}
    setting = _setting("distributed_online", booked=True, missing=missing)
    assert len(_ran(EpochNetwork(setting, seed, folder, STORM, told=told), 300.0)) == 1


@pytest.mark.parametrize(("seed", "missing"), [(102, "wait"), (103, "renormalise"), (146, "renormalise")])
def test_an_epoch_follows_through_a_storm(seed, missing, folder):
    _weathered(seed, missing, folder)


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["wait", "renormalise"])
@pytest.mark.parametrize("seed", range(40))
def test_an_epoch_follows_through_many_storms(seed, missing, folder):
    _weathered(seed, missing, folder)


class _Deaf(EpochNetwork):
    """A network in which one peer hears no proposal for a while."""

    deaf, until = "peer-2", 5.0

    def _on(self, connection, payload):
        if connection.receiver != self.deaf or self.now > self.until or payload[0] != Kind.PROPOSAL:
            super()._on(connection, payload)


def test_nobody_goes_on_before_its_neighbours_know_all(folder):
    setting = _setting("distributed_online", booked=True)
    network = _Deaf(setting, 1, folder, QUICK, told={"peer-2": 0.15})  # the largest proposal: it does all rounds itself
    network.run(_Deaf.until)
    near = [network.hosts[name].node for name in ("peer-0", "peer-1", "peer-2", "peer-3")]
    assert {node.plan.job for node in near} == {JOBS[0]}
    assert {node.round for node in near} == {network.epochs(network.hosts["peer-2"]).limit}
    assert len(_ran(network)) == 1


def test_a_budget_that_ends_in_the_second_epoch_ends_there(folder):
    setting = _setting("distributed_online", booked=True)
    network = EpochNetwork(setting, 1, folder, QUICK, budget=Budget(epsilon=ROUNDS - 4.0))
    _ran(network, 20.0, finished=False)
    spent = {host.name: host.round for host in network.hosts.values()}
    assert spent["peer-0"] == ROUNDS - 4
    assert network.spent >= {"peer-0", "peer-2", "peer-3", "peer-4"}


# -- attacks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet(folder):
    """Peers that run, and of which none was told of an epoch."""
    network = EpochNetwork(_setting("distributed_online"), 1, folder, QUICK, told=dict.fromkeys(FIRST, 1e9))
    network.run(0.2)
    yield network
    network.close()


def _said(network, member, last, job=JOBS[0], following=JOBS[1], voice=None):
    proposal = Proposal(member, job, following, last)
    return Kind.PROPOSAL.said(network.voices[voice or member].signed(proposal))


def _told(network, name="peer-0"):
    """A peer with a proposal of its own."""
    host = network.hosts[name]
    epochs = network.epochs(host)
    epochs.propose(network.coming(part_of(JOBS[1], name), host.node.round + MARGIN))
    return epochs


def _refuses(epochs, sender, payload, reason):
    before = epochs.status()
    with pytest.raises(MessageRefused) as refusal:
        epochs.heard(sender, payload)
    assert refusal.value.reason == reason
    assert {**epochs.status(), "disputed": []} == {**before, "disputed": []}


def test_nobody_proposes_for_another(quiet):
    epochs = _told(quiet)
    forged = _said(quiet, "peer-2", 100, voice="peer-1")  # its own key and certificate, another's name
    _refuses(epochs, "peer-1", forged, "certificate")
    body, signature, _ = _said(quiet, "peer-2", 100)[1:].split(b"\n")
    other = _said(quiet, "peer-2", 200)[1:].split(b"\n")
    _refuses(epochs, "peer-1", Kind.PROPOSAL.said(b"\n".join((body, other[1], other[2]))), "signature")
    _refuses(epochs, "peer-1", Kind.PROPOSAL.said(b"\n".join((body, signature))), "malformed")
    _refuses(
        epochs, "peer-1", Kind.PROPOSAL.said(body.replace(b"100", b"1e2") + b"\n" + b"\n".join(other[1:])), "malformed"
    )
    _refuses(epochs, "peer-1", b"", "malformed")
    _refuses(epochs, "peer-3", _said(quiet, "peer-3", 100), "sender")  # a member, and no neighbour of peer-0
    _refuses(epochs, "peer-1", _said(quiet, "peer-5", 100), "sender")  # certified, and no member of this epoch
    _refuses(epochs, "peer-1", _said(quiet, "peer-1", 2**31 - 2), "round")


def test_proposals_of_another_epoch_say_nothing(quiet):
    epochs = _told(quiet)
    _refuses(epochs, "peer-1", _said(quiet, "peer-1", 100, job="epoch 0", following=JOBS[0]), "job")
    _refuses(epochs, "peer-1", _said(quiet, "peer-1", 100, job=JOBS[1], following="epoch 3"), "job")


def test_a_member_that_proposes_two_jobs_changes_nothing_for_the_others(quiet):
    epochs = _told(quiet)
    for member in FIRST[1:]:
        epochs.heard("peer-1", _said(quiet, member, 100, following="epoch 2, of a liar"))
    assert not epochs.agreed
    assert epochs.proposed.keys() == {"peer-0"}
    for member in FIRST[1:-1]:
        epochs.heard("peer-1", _said(quiet, member, 100))
    assert not epochs.agreed
    _refuses(epochs, "peer-1", _said(quiet, "peer-1", 100, following="a third"), "busy")
    epochs.heard("peer-1", _said(quiet, FIRST[-1], 90))
    assert epochs.agreed
    assert epochs.last_round == 100


def test_a_member_with_two_last_rounds_is_found_out(quiet):
    epochs = _told(quiet)
    epochs.heard("peer-1", _said(quiet, "peer-1", 100))
    _refuses(epochs, "peer-2", _said(quiet, "peer-1", 120), "signature")
    for member in FIRST[2:]:
        epochs.heard("peer-1", _said(quiet, member, 50))
    assert not epochs.agreed
    quiet.hosts["peer-0"].node.flush()
    quiet._kill(quiet.hosts["peer-0"])
    quiet._restart("peer-0")
    again = quiet.epochs(quiet.hosts["peer-0"])
    assert again.proposed.keys() == set(FIRST)
    assert not again.agreed
    assert again.status()["disputed"] == ["peer-1"]


def test_nobody_goes_past_its_own_proposal_or_the_agreed_round(quiet):
    epochs = _told(quiet)
    node = epochs.node
    assert epochs.limit == node.round + MARGIN
    quiet.run(30.0)
    assert node.round == epochs.limit
    assert not node.ready_to_begin
    for name in ("peer-1", "peer-2", "peer-4"):
        epochs.heard(name, Kind.KNOWN.said(JOBS[1].encode()))
        epochs.heard(name, Kind.MOVED.said(b'["epoch 1", "epoch 2"]'))
    assert not epochs.is_over  # nobody's word stands for the missing proposals


def test_a_proposal_is_not_taken_back(quiet):
    epochs = _told(quiet)
    epochs.propose(dataclasses.replace(epochs.coming, last=1000))  # the same again
    assert epochs.coming.last == epochs.node.round + MARGIN
    with pytest.raises(ConfigError, match="proposed already"):
        epochs.propose(dataclasses.replace(epochs.coming, next="another"))


def test_a_restart_says_the_same(quiet):
    epochs = _told(quiet)
    host = quiet.hosts["peer-0"]
    quiet._kill(host)
    quiet._restart("peer-0")
    again = quiet.epochs(host)
    assert again.coming == epochs.coming
    assert again.proposed == epochs.proposed


def test_a_new_member_that_was_stopped_waits_still(quiet):
    host = quiet.hosts["peer-5"]
    host.node.flush()
    quiet._kill(host)
    quiet._restart("peer-5")
    assert quiet.epochs(host).joining
    assert not host.node.ready_to_begin


def test_a_new_member_takes_the_first_round_of_those_whom_it_hears_alone(quiet):
    epochs = quiet.epochs(quiet.hosts["peer-5"])
    assert not epochs.may_begin
    _refuses_round = [b"", b"0", b"-3", str(2**31).encode(), b"9" * 40]
    for text in _refuses_round:
        with pytest.raises(MessageRefused):
            epochs.heard("peer-4", Kind.BEGAN.said(text))
    with pytest.raises(MessageRefused):
        epochs.heard("peer-2", Kind.BEGAN.said(b"9"))
    assert epochs.joining
    epochs.heard("peer-4", Kind.BEGAN.said(b"31"))
    assert epochs.node.round == 30
    with pytest.raises(MessageRefused):
        epochs.heard("peer-0", Kind.BEGAN.said(b"32"))
