"""What the simulator says a run has spent is what the dearest of the peers' ledgers holds, to the bit.

Over every private method by discovery and every way in which records come: once, again and again to owners of unequal
sizes, twice in a batch, in mini-batches, to cohorts, to agents that are there by chance, and from files that are
rewritten while they are followed.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.audit import conformance
from tacit.core.contract import Algorithm
from tacit.core.errors import BudgetExceeded, PrivacyError
from tacit.graphs import Channel, Graph, Topology
from tacit.objectives import entropy
from tacit.peer import run_in_process
from tacit.peer.machine.releases import BookedReleaser
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.batches import SampleFeed
from tacit.peer.sources.file_follower import FileTail
from tacit.peer.sources.queue import SampleForm
from tacit.privacy import bounded_laplace, correlated, decaying_gaussian, laplace, laplace_of_size
from tacit.privacy.accounting import Account, Budget, guarantee
from tacit.privacy.events import Event, Loss
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import NoiseSource
from tacit.streams import Batch, Stream
from tests.contract.cases import AGENTS, CASES, DIM, LIMITS, build, graph_of, stream
from tests.daily import some

ROUNDS = 8
SIZES = (2, 5, 7, 3, 4, 2, 9, 1, 6)


def _rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    owner = np.repeat(np.arange(AGENTS), SIZES)
    rng = np.random.default_rng(3)
    return rng.normal(size=(owner.size, DIM)).astype(np.float32), np.sign(rng.normal(size=owner.size)), owner


def rows(batch: int, exhausted: Any = "cycle") -> Stream:
    """Owners of unequal sizes, who read their rows in their own order."""
    x, y, owner = _rows()
    rounds = ROUNDS if exhausted == "mask" else None
    return tacit.streams.from_arrays(x, y, owner, batch=batch, exhausted=exhausted, rounds=rounds)


def whole() -> Stream:
    """Owners of unequal sizes, who read all of their rows in every round."""
    x, y, owner = _rows()
    return tacit.streams.whole(x, y, owner)


@functools.cache
def rewritten() -> Stream:
    """What peers take from files that are turned upside down while they follow them: every record once."""
    form, names = SampleForm.of(DIM, "binary"), [f"x{k}" for k in range(DIM)]
    rng = np.random.default_rng(5)
    everybody = []
    with tempfile.TemporaryDirectory() as folder:
        for agent in range(AGENTS):
            path = Path(folder) / f"{agent}.csv"
            lines = [",".join(map(str, row.round(4))) + f",{k % 2}" for k, row in enumerate(rng.normal(size=(9, DIM)))]
            path.write_text("\n".join([",".join([*names, "y"]), *lines, ""]))
            with PeerStore.create(Path(folder) / f"{agent}.db", Budget(epsilon=1.0), "job") as store:
                everybody.append(asyncio.run(_followed(path, form, store)))
    x, y, weight = (np.stack(leaves, axis=1) for leaves in zip(*everybody, strict=True))
    assert [len(np.unique(x[:, k][weight[:, k] > 0], axis=0)) for k in range(AGENTS)] == [9] * AGENTS
    assert weight.sum(axis=(0, 2)).tolist() == [9] * AGENTS
    return tacit.streams.from_function(
        lambda start, stop: Batch(x[start:stop], y[start:stop], weight[start:stop]), agents=AGENTS, rounds=ROUNDS
    )


async def _followed(path: Path, form: SampleForm, store: PeerStore) -> tuple[np.ndarray, ...]:
    tail = FileTail(path, form, format="csv", label="y", known=store.records)
    feed = SampleFeed(tail, form, size=2, dtype="float32", patience=0.0)
    batches = []
    for t in range(1, ROUNDS + 1):
        given = await feed.next(t)
        store.commit(seen=given.seen)
        batches.append(given.batch)
        first, *rest = path.read_text().splitlines(keepends=True)
        path.write_text(first + "".join(reversed(rest)))
    await feed.close()
    x, y, weight = (np.stack(leaves) for leaves in zip(*batches, strict=True))
    return x, y, weight


STREAMS = {
    "fresh": stream,
    "file that is rewritten": rewritten,
    "repeating, unequal": lambda: rows(1),
    "duplicates in a batch": lambda: rows(4),  # of an owner with one row, four times the same
    "used up": lambda: rows(2, "mask"),
    "whole data sets, unequal": whole,
}


class Books:
    """A ledger in memory."""

    def __init__(self) -> None:
        self.account = Account()

    def release(self, release: str, event: Any, draw: Any) -> Any:
        self.account = self.account.charged(event)
        return draw()


def ledgers(algorithm: Algorithm, graph: Graph | Topology, data: Stream, channel: Channel, dtype: str) -> Loss:
    """Return what the dearest of the peers' ledgers holds."""
    releasers: list[BookedReleaser] = []

    def releaser(role: str, agent: int) -> BookedReleaser:
        releasers.append(BookedReleaser(Books(), NoiseSource()))
        return releasers[-1]

    run_in_process(algorithm, graph, data, rounds=ROUNDS, channel=channel, dtype=dtype, releaser=releaser)
    worst = Loss()
    for each in releasers:
        assert isinstance(each.ledger, Books)
        worst = worst.worst(each.ledger.account.spent())
    assert sum(each.cut for each in releasers) == 0  # what leaves keeps to its declaration by itself
    return worst


def agree(
    algorithm: Algorithm, graph: Graph | Topology, data: Stream, channel: Channel | None = None, dtype: str = "float32"
) -> Loss:
    """Check that both runtimes count the same, and return it."""
    channel = channel or Channel()
    run = tacit.simulate(algorithm, graph, data, rounds=ROUNDS, channel=channel, dtype=dtype, progress=False)
    booked = ledgers(algorithm, graph, data, channel, dtype)
    adjacency = algorithm.phases[0].mechanism.adjacency
    expected, found = guarantee(booked, adjacency), run.privacy.guarantee
    assert found is not None
    assert (found.epsilon, found.rho, found.delta) == (expected.epsilon, expected.rho, expected.delta)
    assert found.private
    assert found.rho > 0
    return booked


PRIVATE = [
    case
    for case in CASES
    if (made := case.make()).privacy.private
    and all(
        p.mechanism.perturbs != "model" and not p.mechanism.per_slot and p.mechanism.correlation is None
        for p in made.phases
        if p.mechanism.distribution
    )
]
OTHERS = pytest.mark.covered_by("methods of its kind on the hardest stream")


DAILY = ("constrained_mirror_descent", "loss_tolerant_push_sum")
"""Methods of different kinds; `make test-slow` has all of them."""


def matrix() -> list[Any]:
    """Every private method on every stream; daily, some of each kind on the hardest one."""
    found = []
    for case in PRIVATE:
        for name in STREAMS:
            hardest = name == "duplicates in a batch" and case.name.split(",")[0] in DAILY
            hardest |= name == "whole data sets, unequal" and case.name.startswith("zcdp_admm,")
            daily = hardest or (name == "file that is rewritten" and case.name.startswith("online_push_sum, laplace"))
            found.append(pytest.param(case, name, id=f"{case.name}, {name}", marks=() if daily else OTHERS))
    return found


@pytest.mark.parametrize(("case", "name"), matrix())
def test_the_simulator_and_the_ledgers_of_peers_say_the_same(case: Any, name: str) -> None:
    agree(case.make(), case.graph, STREAMS[name](), case.channel)


@pytest.mark.parametrize(
    ("name", "stream_name", "participation"),
    [
        ("online_push_sum", "fresh", (1, 1)),
        ("online_push_sum", "repeating, unequal", (ROUNDS, 1)),
        pytest.param("online_push_sum", "duplicates in a batch", (ROUNDS, 1), marks=OTHERS),
        pytest.param("fedavg", "repeating, unequal", (ROUNDS, 1), marks=OTHERS),
        pytest.param("zcdp_admm", "whole data sets, unequal", (ROUNDS, 1), marks=OTHERS),
    ],
)
@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(3, marks=OTHERS)])
def test_correlated_noise_is_charged_once_a_block_in_both(
    name: str, stream_name: str, participation: tuple[int, int], rounds: int
) -> None:
    mechanism = correlated(rounds=rounds, rho=0.25, participation=participation)
    algorithm = build(name, mechanism, **({"cohort": 3} if name == "fedavg" else {}))
    copies = 16 if stream_name == "duplicates in a batch" else 1
    blocks = 1 if stream_name == "fresh" else -(-ROUNDS // rounds)
    found = agree(algorithm, graph_of(algorithm), STREAMS[stream_name]())
    assert found.rho <= copies * blocks * 0.25 * (1 + 1e-9)
    assert name == "fedavg" or found.rho >= 0.25


def test_records_that_come_more_often_than_the_noise_is_fitted_to_are_refused_before_they_do() -> None:
    algorithm = build("online_push_sum", correlated(rounds=ROUNDS, rho=0.25, participation=(2, 2)))
    with pytest.raises(PrivacyError, match=r"participation"):
        tacit.simulate(algorithm, graph_of(algorithm), rows(1), rounds=ROUNDS, progress=False)
    with pytest.raises(PrivacyError, match=r"participation"):
        ledgers(algorithm, graph_of(algorithm), rows(1), Channel(), "float32")


@pytest.mark.parametrize("name", ["fedavg", pytest.param("pao_fed", marks=OTHERS)])
@pytest.mark.parametrize(
    "mechanism",
    some([laplace(0.3, 1.0), decaying_gaussian(2.0, 0.9, 1.0)], "Laplace noise", daily=["laplace"]),
    ids=lambda m: m.name,
)
def test_who_is_called_and_who_is_there_is_charged(name: str, mechanism: Any) -> None:
    """A cohort, and clients that are there by chance, over rows that come again: rounds of other people cost nothing."""
    settings = {"cohort": 3} if name == "fedavg" else {"share": 3, "variant": "U1"}
    graph: Topology = tacit.graphs.star_roles(AGENTS)
    if name == "pao_fed":
        graph = graph.available("client", np.linspace(0.2, 1, AGENTS))
    agree(build(name, mechanism, **settings), graph, rows(2))


@pytest.mark.parametrize("unit", some(["dataset", "agent"], "the same relation with another clip", daily=["agent"]))
def test_in_sequence_who_is_called_is_charged_for_its_own_rounds_alone(unit: Any) -> None:
    """An agent's whole data set is the unit: every release counts, but of those whom a round called."""
    found = agree(
        build("fedavg", laplace(0.5, 1.0, adjacency=unit), cohort=3), tacit.graphs.star_roles(AGENTS), stream()
    )
    assert found.epsilon < ROUNDS * 0.5


@pytest.mark.parametrize("name", ["constrained_mirror_descent", pytest.param("lagrangian_descent", marks=OTHERS)])
def test_a_private_dual_is_charged_in_sequence(name: str) -> None:
    algorithm = build(name, laplace(0.5, 1.0), dual="private", constraints=LIMITS)
    assert algorithm.privacy.composition == "sequential"
    found = agree(algorithm, graph_of(algorithm), stream())
    assert found.epsilon == ROUNDS * 0.5


def test_bounded_noise_costs_the_same_in_both_and_leads_to_the_same_models() -> None:
    """What the regulariser adds to the noisy gradient joins it in a peer as in the simulator."""
    mechanism = bounded_laplace(2.0, ROUNDS)
    algorithm = build("mirror_descent", mechanism, mirror=entropy())
    found = agree(algorithm, graph_of(algorithm), stream())
    assert found.delta == Event("", "bounded_laplace", 2.0, 1.0, 1, mechanism.bound).loss.delta
    trial = conformance.Trial(algorithm, graph_of(algorithm), stream(), Channel(), ROUNDS, 3)
    conformance.simulator_equals_peers(trial, "float64", 1e-10)


def test_noise_of_a_size_of_its_own_costs_the_same_in_both() -> None:
    algorithm = build("adapt_then_combine", laplace_of_size(0.7, clip=1.0))
    agree(algorithm, graph_of(algorithm), rows(3), dtype="float64")


def test_the_agent_with_the_fewest_records_is_charged_most() -> None:
    """Noise of one size for all: D_k = 1 and the fewest neighbours of those is the dearest, and every round counts."""
    clip, std, step, penalty = 1.0, 0.5, 0.2, 1.0
    algorithm = build("zcdp_admm", laplace_of_size(std, clip), penalty=penalty)
    graph = graph_of(algorithm)
    found = agree(algorithm, graph, whole(), dtype="float64")
    least = np.min(np.array(SIZES) * (2 * penalty * np.bincount(graph.receivers) + 1 / step))
    expected = ROUNDS * 2 * clip * np.sqrt(DIM) / least / (std / np.sqrt(2))
    assert found.epsilon == pytest.approx(expected, rel=1e-6)


def test_the_second_release_of_a_private_dual_is_refused(tmp_path: Path) -> None:
    """Three peers with a budget of 1 and releases of 1, each of which is charged to every record."""
    algorithm = build("constrained_mirror_descent", laplace(1.0, 1.0), dual="private", constraints=LIMITS)
    made: list[Ledger] = []

    def releaser(role: str, agent: int) -> BookedReleaser:
        made.append(Ledger.create(tmp_path / f"{agent}.ledger", Budget(epsilon=1.0)))
        return BookedReleaser(made[-1], NoiseSource())

    data = tacit.streams.logistic_drift(agents=3, dim=DIM, seed=0)
    with pytest.raises(BudgetExceeded):
        run_in_process(algorithm, tacit.graphs.complete(3), data, rounds=2, releaser=releaser)
    assert [ledger.releases for ledger in made] == [1, 1, 1]
    assert [ledger.spent().epsilon for ledger in made] == [1.0, 1.0, 1.0]


def test_owners_of_other_sizes_do_not_make_a_record_look_new() -> None:
    """70 rounds: a record of the owner of two rows is released 35 times, whatever the others' periods are."""
    owner = np.repeat(np.arange(3), (2, 5, 7))
    x = np.random.default_rng(0).normal(size=(owner.size, 2)).astype(np.float32)
    data = tacit.streams.from_arrays(x, np.sign(x[:, 0]), owner, exhausted="cycle")
    books = [Books(), Books(), Books()]
    algorithm = build("distributed_online", laplace(1.0, 1.0))
    graph = tacit.graphs.complete(3)
    run_in_process(
        algorithm, graph, data, rounds=70, releaser=lambda role, agent: BookedReleaser(books[agent], NoiseSource())
    )
    assert [book.account.spent().epsilon for book in books] == [35.0, 14.0, 10.0]


def test_records_held_back_are_counted_as_often_as_they_are_read() -> None:
    """Owners of two and of six rows, and as many to judge by: both repeat after six rounds, the records of one after two."""
    owner = np.repeat([0, 1], [2, 6])
    one = tacit.streams.from_arrays(np.zeros((8, 2), np.float32), np.ones(8), owner, exhausted="cycle")
    both = tacit.streams.with_validation(one, one)
    np.testing.assert_array_equal(both.reads(12), [6, 2])
    assert [both.records_in_round(0, t) for t in (1, 2, 3)] == [(0, 1), (2, 3), (0, 1)]
