"""A peer's values leave through the ledger: charged first, then drawn on the grid, and not at all where refused."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.contract import Links, Message, View
from tacit.core.errors import BudgetExceeded, DataError, PrivacyError
from tacit.graphs import Graph
from tacit.peer import run_in_process
from tacit.peer.machine import releases
from tacit.peer.machine.releases import BookedReleaser, NothingBooked
from tacit.peer.machine.snapshots import Snapshot
from tacit.peer.node.snapshot import decode, encode, pack, unpack
from tacit.privacy.accounting import Budget
from tacit.privacy.charges import Held, event_of
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import NoiseSource, grid_step
from tacit.runtime import Declared, MessageSpec, ReleaseSpec, declare, finish
from tests.contract.cases import AGENTS, CASES, DIM, build, graph_of, stream
from tests.daily import some

PRIVATE = [
    c
    for c in CASES
    if isinstance(c.graph, Graph)
    and c.make().privacy.private
    and all(p.mechanism.perturbs != "model" for p in c.make().phases if p.mechanism.distribution)
]
ROUNDS = 3


class Watched(BookedReleaser):
    """Notes what the ledger holds at the moment when the noise is drawn."""

    def _noisy(self, event, scale, value):
        self.seen = [*getattr(self, "seen", []), self.ledger.releases]
        return super()._noisy(event, scale, value)


def releasers(tmp_path, budget, kind=BookedReleaser):
    made = {}

    def releaser(role, agent):
        ledger = Ledger.create(tmp_path / f"{role}{agent}.ledger", budget)
        made[agent] = kind(ledger, NoiseSource())
        return made[agent]

    return made, releaser


@pytest.mark.parametrize(
    "case",
    some(
        PRIVATE,
        "a method that releases alike",
        covered=[
            "dynamic_mirror_descent, gaussian on gradient",
            "networked_personalised, laplace on update",
            "centralised_online, laplace on update",
        ],
    ),
    ids=lambda c: c.name,
)
def test_every_send_is_booked_before_it_leaves(case, tmp_path):
    """One charge per agent and round, in the ledger when the noise is drawn, at the declared cost."""
    made, releaser = releasers(tmp_path, Budget(rho=1000.0), Watched)
    result = run_in_process(case.make(), case.graph, stream(), rounds=ROUNDS, releaser=releaser)
    assert result.messages.sum() > 0
    for booked in made.values():
        assert booked.seen == [1, 2, 3]
        assert booked.ledger.releases == ROUNDS
        once = 4.0**2 / 2 if "laplace" in case.name else (1 / 0.5) ** 2 / 2
        times = 1 if case.make().privacy.composition == "parallel" else ROUNDS
        assert booked.ledger.spent().rho == times * once
        booked.ledger.close()


def test_nothing_leaves_once_the_budget_is_spent(tmp_path):
    case = next(c for c in PRIVATE if c.name.startswith("online_push_sum, laplace"))
    made, releaser = releasers(tmp_path, Budget(epsilon=6.0))  # one release of 4 per record fits, two do not
    again = tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, repeat_every=1, seed=0)  # the same records each round
    with pytest.raises(BudgetExceeded):
        run_in_process(case.make(), case.graph, again, rounds=2, releaser=releaser)
    assert all(booked.ledger.releases <= 1 for booked in made.values())
    assert sum(booked.ledger.releases for booked in made.values()) == len(made)


def test_an_unprotected_method_cannot_be_booked_within_a_budget(tmp_path):
    _, releaser = releasers(tmp_path, Budget(epsilon=1e9))
    case = CASES[0]
    with pytest.raises(BudgetExceeded):
        run_in_process(case.make(), case.graph, stream(), rounds=1, releaser=releaser)


class Shut:
    """Books that are full."""

    def release(self, release, event, draw):
        raise BudgetExceeded("full")


LAPLACE = tacit.privacy.laplace(epsilon=0.5, clip=1.0, norm="l1")
DECLARED = Declared(np.float32(2.0), np.float32(4.0), np.float32(np.inf))


def test_nothing_is_drawn_that_the_books_refuse():
    class Noted(BookedReleaser):
        def _noisy(self, event, scale, value):
            raise AssertionError("drawn")

    spec = ReleaseSpec(LAPLACE, 3, from_data=True)
    with pytest.raises(BudgetExceeded):
        Noted(Shut(), NoiseSource())("a", spec, 1, DECLARED, np.zeros(3), Held("rows 1"))
    with pytest.raises(BudgetExceeded):  # nor does what has no noise leave past the books
        BookedReleaser(Shut(), NoiseSource())(
            "a", spec._replace(mechanism=tacit.privacy.unprotected), 1, None, np.zeros(3), Held("rows 1")
        )


def test_what_was_cut_is_counted():
    release = BookedReleaser(NothingBooked(), NoiseSource())
    for name, cut in (("a", False), ("b", True), ("c", True)):
        release(name, ReleaseSpec(LAPLACE, 3, from_data=True), 1, DECLARED, np.zeros(3), Held("rows 1"), cut)
    assert release.cut == 2


def test_bounded_noise_has_its_bound_in_units_of_its_scale():
    """5,000 draws of scale 2 with a bound of 1.21 scales: beyond 1.21 lies none or nearly half, never one by chance."""
    mechanism = tacit.privacy.bounded_laplace(epsilon=1.0, rounds=3)
    spec = ReleaseSpec(mechanism, 5_000, from_data=True)
    declared = Declared(np.float32(2.0), np.float32(2.0), np.float32(2 * mechanism.bound))
    noisy, _ = BookedReleaser(NothingBooked(), NoiseSource())("a", spec, 1, declared, np.zeros(5_000), Held("rows 1"))
    assert mechanism.bound < np.abs(noisy).max() <= 2 * mechanism.bound * (1 + 1e-6)


def test_noise_that_decays_is_drawn_as_its_round_says():
    """Calibrated anew in double precision: what the declaration rounded plays no part."""
    drawn = []

    class Noted(BookedReleaser):
        def _noisy(self, event, scale, value):
            drawn.append((event.scale, event.ratio))
            return value

    spec = ReleaseSpec(tacit.privacy.decaying_gaussian(4.0, 0.25, 1.0), 3, from_data=True)
    for t, scale in ((1, 8.0), (3, 2.0)):
        declared = Declared(np.float32(2.0), np.float32(scale * (1 + 1e-6)), np.float32(np.inf))
        Noted(NothingBooked(), NoiseSource())("a", spec, t, declared, np.zeros(3), Held("rows 1"))
    np.testing.assert_allclose(drawn, [(8.0, 0.25), (2.0, 1.0)], rtol=1e-14)


def test_a_snapshot_remembers_which_records_its_batch_holds():
    state = np.zeros(2, np.float32)
    taken = Snapshot(3, None, Held("rows 1-2", 2), state, (), None, {}, [], [])
    found, cursor = decode(b"".join(encode(taken, 7)), state, (), ())
    assert (found.round, found.held, cursor) == (3, Held("rows 1-2", 2), 7)


def test_an_own_message_comes_back_from_a_snapshot_and_from_one_of_the_order_before():
    state, batch, own = np.arange(2.0), np.arange(3.0), Message(np.arange(2.0) + 9, ())
    taken = Snapshot(3, 0, Held("rows 1-2", 2), state, batch, own, {}, [], [])
    spec = MessageSpec(own, "share", False, None)
    new = b"".join(encode(taken, 7))
    facts, _ = unpack(new)
    for data in (new, pack({**facts, "own": True}, [state, own.private, batch])):
        found, _ = decode(data, state, (spec,), batch)
        np.testing.assert_array_equal(found.own.private, own.private)
        np.testing.assert_array_equal(found.batch, batch)
    assert encode(taken._replace(own=None), 7)[1] == b""


@pytest.mark.parametrize("changed", [{"perturbs": "model"}, {"spread": "per_edge"}], ids=str)
def test_a_model_and_what_lies_on_links_are_refused_by_the_releaser(changed):
    spec = ReleaseSpec(LAPLACE._replace(**changed), 3, from_data=True)
    with pytest.raises(PrivacyError, match="perturbs the model"):
        BookedReleaser(NothingBooked(), NoiseSource())("a", spec, 1, DECLARED, np.zeros(3), Held("rows 1"))


def test_released_values_lie_on_the_grid_and_have_the_declared_spread(tmp_path):
    """20,000 draws: the mean of |noise| is within 6 % of the scale, 8 of its standard errors."""
    ledger = Ledger.create(tmp_path / "ledger", Budget(epsilon=10.0))
    spec = ReleaseSpec(tacit.privacy.laplace(epsilon=0.5, clip=1.0, norm="l1"), 20_000, from_data=True)
    declared = Declared(np.float32(2.0), np.float32(4.0), np.float32(np.inf))
    value = np.linspace(-1, 1, 20_000)
    noisy, _ = BookedReleaser(ledger, NoiseSource())("a", spec, 1, declared, value, Held("rows 1"))
    assert np.abs(noisy - value).mean() == pytest.approx(4.0, rel=0.06)
    assert np.all(noisy % grid_step(4.0) == 0)
    assert ledger.spent().epsilon == 0.5


def test_rounding_is_paid_for_with_noise_and_too_much_of_it_is_refused(tmp_path):
    """The cost stays as declared and the noise grows by that share; float32 is not enough for large batches."""
    ledger = Ledger.create(tmp_path / "ledger", Budget(epsilon=10.0))
    declared = Declared(np.float32(2.0), np.float32(4.0), np.float32(np.inf))
    share = releases.rounding(32, np.zeros(3, np.float32))
    assert share == pytest.approx((32 * 34 + 8) * 2.0**-24)
    mechanism = tacit.privacy.laplace(epsilon=0.5, clip=1.0, norm="l1")
    drawn = []

    class Noted(BookedReleaser):
        def _noisy(self, event, scale, value):
            drawn.append((event.scale, scale))
            return super()._noisy(event, scale, value)

    book = Noted(ledger, NoiseSource())
    book("first", ReleaseSpec(mechanism, 3, True, 32, False), 1, declared, np.zeros(3, np.float32), Held("rows 1"))
    assert drawn == [(4.0, 4.0 * (1 + share))]
    assert ledger.spent().epsilon == 0.5
    spec = ReleaseSpec(mechanism, 3, from_data=True, records=2000, in_sequence=False)
    with pytest.raises(PrivacyError, match="float64"):
        book("a", spec, 1, declared, np.zeros(3, np.float32), Held("rows 2"))
    assert ledger.releases == 1
    book("a", spec, 1, declared, np.zeros(3, np.float64), Held("rows 2"))
    assert ledger.spent().epsilon == 0.5


def test_a_batch_says_how_many_records_are_averaged():
    """Seen in the settled release: the streams of the contract tests bring one record, this one four."""
    mechanism = tacit.privacy.laplace(epsilon=1.0, clip=1.0)
    algorithm = tacit.algorithms.distributed_online(tacit.objectives.logistic(), mechanism=mechanism)
    batch = tacit.streams.Batch(np.zeros((1, 2, 4, 3), np.float32), np.ones((1, 2, 4), np.float32))
    data = tacit.streams.from_function(lambda start, stop: batch, agents=2, rounds=1)
    result = run_in_process(algorithm, tacit.graphs.complete(2), data, rounds=1)
    assert result.machines["peer"][0].functions.specs[0].release.records == 4


def test_a_whole_model_is_not_released(tmp_path):
    case = next(c for c in CASES if c.name == "online_push_sum, gaussian on model")
    _, releaser = releasers(tmp_path, Budget(rho=1e6))
    with pytest.raises(PrivacyError, match="perturbs='update'"):
        run_in_process(case.make(), case.graph, stream(), rounds=1, releaser=releaser)


def test_data_that_are_not_finite_are_refused_before_anything_is_charged(tmp_path):
    case = next(c for c in PRIVATE if c.name.startswith("distributed_online, laplace"))
    made, releaser = releasers(tmp_path, Budget(epsilon=100.0))

    def poisoned(start, stop):
        batch = stream().chunk(start, stop)
        x = batch.x.copy()
        x[:, 0, 2] = np.nan
        return batch._replace(x=x)

    data = tacit.streams.from_function(poisoned, agents=AGENTS, rounds=3)
    with pytest.raises(DataError, match=r"peer 0 in round 1\.x\[2\] is nan"):
        run_in_process(case.make(), case.graph, data, rounds=1, releaser=releaser)
    assert made[0].ledger.releases == 0


def test_a_seeded_source_is_refused(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", Budget(epsilon=1.0))
    with pytest.raises(PrivacyError, match="seeded"):
        BookedReleaser(ledger, NoiseSource.seeded_for_simulation(1))


def test_a_peer_refused_at_the_start_of_a_round_has_not_begun_it(tmp_path):
    case = next(c for c in PRIVATE if c.name.startswith("distributed_online, laplace"))
    made, releaser = releasers(tmp_path, Budget(epsilon=1.0))
    with pytest.raises(BudgetExceeded, match=r"4|epsilon"):
        run_in_process(case.make(), case.graph, stream(), rounds=1, releaser=releaser)
    assert made[0].ledger.releases == 0


def test_what_does_not_depend_on_data_leaves_as_it_is_and_is_not_booked(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", Budget(epsilon=1.0))
    spec = ReleaseSpec(tacit.privacy.unprotected, 3, from_data=False)
    value = np.arange(3.0)
    assert BookedReleaser(ledger, NoiseSource())("a", spec, 1, None, value, Held("rows 1"))[0] is value
    assert ledger.releases == 0


def test_the_event_is_what_was_declared():
    mechanism = tacit.privacy.bounded_laplace(epsilon=1.0, rounds=100, adjacency="dataset")
    event = event_of(ReleaseSpec(mechanism, 5, True, in_sequence=True), 7, 2.0, 2.0, Held("rows 1", copies=3))
    assert (event.distribution, event.sensitivity, event.scale) == ("bounded_laplace", 2.0, 2.0)
    assert (event.calibration, event.bound) == (1.0, np.log(100) ** 2)
    assert (event.coordinates, event.adjacency, event.records, event.observers) == (5, "dataset", "", ("*",))
    twice = event_of(ReleaseSpec(tacit.privacy.laplace(0.3, 1.0), 5, True, 4, False), 7, 0.3, 1.0, Held("rows 1-2", 2))
    assert (twice.sensitivity, twice.calibration, twice.records) == (0.6, 0.6, "rows 1-2")


def bounded_phase():
    case = next(c for c in PRIVATE if c.name.startswith("distributed_online, laplace"))
    mechanism = tacit.privacy.bounded_laplace(epsilon=2.0, rounds=9, adjacency="record")
    return case.make().phases[0]._replace(mechanism=mechanism)


def test_a_peer_declares_what_a_simulation_draws_from():
    links = Links(jnp.array([0, 1]), jnp.ones(2, bool), jnp.full(2, 0.5))
    view = View(jnp.int32(0), jnp.int32(1), jnp.array(True), jnp.int32(0), links, links)
    declared = declare(bounded_phase(), {"a": jnp.zeros(3), "b": jnp.zeros((2, 2))}, 4, view)
    assert declared.sensitivity == pytest.approx(2 * 0.5 * 7 / 4)
    assert declared.scale == pytest.approx(2 * 0.5 * 7 / 4 / 2)
    assert declared.bound == pytest.approx(2 * 0.5 * 7 / 4 / 2 * np.log(9) ** 2)


def test_a_peer_squeezes_what_has_bounded_noise():
    """The dissertation's Alg. 3 by hand, with b = 2: (3 + 2) / 5 and (-2 + 2) / 5, divided by their norm."""
    declared = Declared(jnp.float32(1.0), jnp.float32(1.0), jnp.float32(2.0))
    squeezed = finish(bounded_phase(), {"a": jnp.array([3.0]), "b": jnp.array([-2.0, 3.0])}, declared)
    np.testing.assert_allclose(
        np.concatenate([squeezed["a"], squeezed["b"]]), np.array([1, 0, 1]) / np.sqrt(2), rtol=1e-6
    )


@pytest.mark.parametrize("kind", ["per_edge", "graph_homomorphic"])
def test_noise_that_lies_on_links_of_its_own_is_not_drawn_by_peers(kind, tmp_path):
    case = next(c for c in CASES if c.name == f"adapt_then_combine, {kind}")
    _, releaser = releasers(tmp_path, Budget(rho=1000.0))
    with pytest.raises(PrivacyError, match=f"{kind}.*laplace or gaussian"):
        run_in_process(case.make(), case.graph, stream(), rounds=1, releaser=releaser)


def test_a_batch_with_records_cannot_be_said_to_hold_none(tmp_path):
    case = next(c for c in PRIVATE if c.name.startswith("distributed_online, laplace"))
    made, releaser = releasers(tmp_path, Budget(epsilon=100.0))
    machine = run_in_process(case.make(), case.graph, stream(), rounds=1, releaser=releaser).machines["peer"][0]
    batch = tacit.streams.Batch(np.zeros(DIM, np.float32), np.float32(1))
    with pytest.raises(PrivacyError, match="none"):
        machine.begin(batch, machine._views, [-1])
    assert made[0].ledger.releases == 1


@pytest.mark.parametrize("name", ["partial_diffusion", "pao_fed"])
def test_a_record_that_cannot_be_used_leaves_with_noise_all_the_same(name):
    """Whether a round brought data is no secret; whether its record could be used is."""
    x = np.random.default_rng(0).normal(size=(3, AGENTS, DIM)).astype(np.float32)
    y, weight = np.ones((3, AGENTS), np.float32), np.ones((3, AGENTS), np.float32)
    moved = {}
    for what in (1, -1, 0):
        weight[1, 0] = what
        batch = tacit.streams.Batch(x, y, weight)
        data = tacit.streams.from_function(
            lambda start, stop, batch=batch: tacit.streams.Batch(*(leaf[start:stop] for leaf in batch)),
            agents=AGENTS,
            rounds=3,
        )
        algorithm = build(name, tacit.privacy.laplace(0.1, 1.0), share=DIM)
        found = []
        run_in_process(algorithm, graph_of(algorithm), data, rounds=2, watch=found.append)
        mine = [e for e in found if e.sender == 0 and algorithm.phases[e.phase].source == algorithm.learner]
        first, second = (next(e for e in mine if e.round == t).message.private for t in (1, 2))
        moved[what] = float(np.abs(np.asarray(first) - np.asarray(second)).max())
    assert min(moved[1], moved[-1]) > 1  # noise of scale 5 at least
