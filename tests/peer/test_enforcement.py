"""A peer lets out nothing that a record can move further than is booked, whatever the method's code did.

The attack: neighbouring batches (one record replaced by one that pulls the opposite way, a thousand times the clip)
through the very function that a booked peer computes with. What it hands to the sampler may differ by the declared
sensitivity at most, in the norm of the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.audit import check_contract
from tacit.core.contract import Algorithm, Clip, Links, Mechanism, View
from tacit.core.errors import ContractError
from tacit.peer import run_in_process
from tacit.peer.machine.releases import BookedReleaser, NothingBooked
from tacit.privacy import gaussian, laplace, laplace_of_size
from tacit.privacy.clipping import clip, clipped_mean
from tacit.privacy.enforcement import Enforced, enforced
from tacit.privacy.noise import NoiseSource
from tacit.streams import Batch, from_function

AGENTS, DIM, CLIP = 3, 4, 0.5
LOSS = tacit.objectives.logistic().loss


def mean_of(of_record: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Return the mean over a batch of what a method makes of each record: its own clip, or none."""

    def mean(params: Any, batch: Batch, t: Any) -> Any:
        if jnp.ndim(batch.y) == 0:
            return of_record(params, batch, t)
        return jnp.mean(jax.vmap(of_record, in_axes=(None, 0, None))(params, batch, t), axis=0)

    return mean


def gradient(params: Any, record: Batch, t: Any) -> Any:
    return jax.grad(LOSS.data)(params, record)


def stops_after_four(params: Any, record: Batch, t: Any) -> Any:
    g = gradient(params, record, t)
    return jnp.where(t <= 4, clip(g, Clip(CLIP, "l2")), g)


def own_clip(params: Any, record: Batch, t: Any) -> Any:
    g = gradient(params, record, t)
    return g * CLIP / jnp.sqrt(jnp.sum(g * g))  # 0 / 0 where the gradient is zero, inf / inf where it is huge


def of_mean(params: Any, batch: Batch, t: Any) -> Any:
    return clip(mean_of(gradient)(params, batch, t), Clip(CLIP, "l2"))


def twice_a_record(params: Any, batch: Batch, t: Any) -> Any:
    """The mean, with the first record's part once more."""
    g = mean_of(lambda p, r, t: clip(gradient(p, r, t), Clip(CLIP, "l2")))(params, batch, t)
    first = jax.tree.map(lambda leaf: leaf[0], batch) if jnp.ndim(batch.y) else batch
    return g + clip(gradient(params, first, t), Clip(CLIP, "l2"))


BROKEN = {
    "clip forgotten": mean_of(gradient),
    "clip stopped after round 4": mean_of(stops_after_four),
    "clip in another norm": mean_of(lambda p, r, t: clip(gradient(p, r, t), Clip(CLIP, "linf"))),
    "not a number from an own clip": mean_of(own_clip),
    "clip of the mean": of_mean,
    "a record counted twice": twice_a_record,
}
HONEST = {"clipped": lambda p, b, t: clipped_mean(jax.grad(LOSS.data), Clip(CLIP, "l2"))(p, b)}


def method(value: Callable[[Any, Any, Any], Any], mechanism: Mechanism) -> Algorithm:
    """Gossip that releases what `value` makes of a batch, under a mechanism that says it is a clipped mean."""
    base = tacit.algorithms.distributed_online(tacit.objectives.logistic(), mechanism=mechanism)
    (phase,) = base.phases
    declared = mechanism._replace(perturbs="gradient")
    return base._replace(
        name="own",
        phases=(
            phase._replace(
                compute=lambda key, state, batch, view: (state, value(base.model(state), batch, view.round)),
                mechanism=declared,
            ),
        ),
    )


class Seen(BookedReleaser):
    """Keeps what was about to get its noise, and what was declared of it."""

    def __call__(self, name: str, spec: Any, round_: int, declared: Any, value: Any, held: Any, *more: Any) -> Any:
        self.value, self.sensitivity = np.asarray(value, np.float64), float(declared.sensitivity)
        return super().__call__(name, spec, round_, declared, value, held, *more)


def released(algorithm: Algorithm, records: int, sign: float, size: float) -> Seen:
    """Return what agent 0 was about to release in round 5, its first record pulling one way or the other."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8, AGENTS, records, DIM)).astype(np.float32) * np.float32(size)
    y = np.where(np.arange(records) % 2, 1.0, -1.0) * np.ones((8, AGENTS, 1))
    x[:, :, :] = x[:, :, :1]  # alike but for their labels, so that the others cancel
    y[4, 0, 0] = sign
    x[2, 0] = 0  # a gradient of zero, which an own clip may divide by
    batch = Batch(x, y.astype(np.float32)) if records > 1 else Batch(x[:, :, 0], y[:, :, 0].astype(np.float32))
    stream = from_function(lambda start, stop: Batch(batch.x[start:stop], batch.y[start:stop]), agents=AGENTS, rounds=8)
    seen = [Seen(NothingBooked(), NoiseSource()) for _ in range(AGENTS)]
    # The noise of a real source would move the state: one that is the same for both data sets is put in its place.
    for each in seen:
        each._noisy = lambda event, scale, value: value  # type: ignore[method-assign]
    run_in_process(algorithm, tacit.graphs.complete(AGENTS), stream, rounds=5, releaser=lambda role, agent: seen[agent])
    return seen[0]


FORMS = (pytest.param(laplace(1.0, CLIP), 4, id="laplace, 4"), pytest.param(gaussian(1.0, CLIP), 1, id="gaussian, 1"))


@pytest.mark.parametrize(("mechanism", "records"), FORMS)
@pytest.mark.parametrize("fault", [*BROKEN, *HONEST])
def test_what_leaves_moves_by_what_is_declared_whatever_the_method_does(
    fault: str, mechanism: Mechanism, records: int
) -> None:
    norm = 1 if mechanism.distribution == "laplace" else 2
    algorithm = method({**BROKEN, **HONEST}[fault], mechanism)
    one, other = (released(algorithm, records, sign, 1000.0) for sign in (1.0, -1.0))
    moved = np.linalg.norm(one.value - other.value, norm)
    assert moved <= one.sensitivity * (1 + 1e-5)
    assert np.all(np.isfinite(one.value))
    same = records == 1 and fault == "clip of the mean"  # of one record it is a clip of the record
    assert (one.cut > 0) == (fault not in HONEST and not same)


def test_a_sensitivity_that_is_too_small_is_made_true() -> None:
    """A tenth of what the clip allows is declared: a tenth leaves."""
    declared = gaussian(1.0, CLIP)
    assert declared.sensitivity is not None
    tenth = declared._replace(sensitivity=lambda view, extent: declared.sensitivity(view, extent) / 10)
    algorithm = method(HONEST["clipped"], tenth)
    one, other = (released(algorithm, 4, sign, 1000.0) for sign in (1.0, -1.0))
    assert one.sensitivity == pytest.approx(2 * CLIP / 40)
    assert np.linalg.norm(one.value - other.value) <= one.sensitivity * (1 + 1e-5)
    assert one.cut > 0


# -- by hand -----------------------------------------------------------------------------------------------------------

LINKS = Links(jnp.array([0]), jnp.ones(1, bool), jnp.ones(1))
VIEW = View(jnp.int32(0), jnp.int32(1), jnp.array(True), jnp.int32(0), LINKS, LINKS)
COMPONENT = laplace(1.0, CLIP, "linf", adjacency="component")


def held_to(mechanism: Mechanism, sensitivity: float, records: Any, value: Any = None) -> Enforced:
    """Hold a method to its declaration that releases the mean of its records, or some other value of them."""
    x = jnp.asarray(records, jnp.float32)
    batch = Batch(x, jnp.zeros(x.shape[:-1]))
    mean = jnp.mean(x.reshape(-1, x.shape[-1]), axis=0) if value is None else jnp.asarray(value, jnp.float32)
    return enforced(mechanism, mean, batch, VIEW, lambda one: jnp.mean(one.x, axis=0), jnp.float32(sensitivity))


@pytest.mark.parametrize(
    ("mechanism", "records", "kept"),
    [
        (gaussian(1.0, CLIP), [[3, 4], [0.6, 0], [np.nan, 1], [-0.3, 0]], [0.9 / 4, 0.8 / 4]),
        (laplace(1.0, CLIP), [[3, 5], [0.5, 0.5], [0, np.inf], [0, 0]], [0.875 / 4, 1.125 / 4]),
        (COMPONENT, [[3, -0.5], [-0.5, -9], [0, 0], [0, 0]], [0.5 / 4, -1.5 / 4]),
    ],
    ids=["l2", "l1", "linf"],
)
def test_each_record_is_held_to_its_part_in_the_norm_of_the_noise(mechanism: Any, records: Any, kept: Any) -> None:
    """A sensitivity of 0.5 for a mean of four: each of them may be 1 long."""
    found = held_to(mechanism, 0.5, records)
    np.testing.assert_allclose(found.value, kept, rtol=1e-4)
    assert bool(found.cut)


@pytest.mark.parametrize("mechanism", [gaussian(1.0, CLIP), laplace(1.0, CLIP), COMPONENT], ids=lambda m: m.name)
def test_what_keeps_to_its_declaration_is_left_alone(mechanism: Mechanism) -> None:
    records = np.array([[0.999, 0], [0, -0.999], [0.4, 0.5], [0, 0]])
    found = held_to(mechanism, 0.5, records)
    np.testing.assert_allclose(found.value, records.mean(axis=0), rtol=1e-6)
    assert not bool(found.cut)


@pytest.mark.parametrize("adjacency", ["record", "dataset"])
def test_what_cannot_be_taken_apart_is_held_to_its_part_as_a_whole(adjacency: Any) -> None:
    """One record, or all of them together, may be half the sensitivity long."""
    mechanism = gaussian(1.0, CLIP, adjacency=adjacency)
    records = [[3.0, 4.0]] * 4 if adjacency == "dataset" else [3.0, 4.0]
    np.testing.assert_allclose(held_to(mechanism, 0.5, records).value, [0.15, 0.2], rtol=1e-4)
    if adjacency == "dataset":  # long records whose mean is short
        np.testing.assert_allclose(held_to(mechanism, 0.5, [[3, 4], [-2.8, -3.8]]).value, [0.1, 0.1], rtol=1e-4)


def test_a_mean_over_other_records_is_held_to_theirs() -> None:
    """Of five records by the method's own word, whatever the batch holds: 5 / 2 of the sensitivity."""
    mechanism = gaussian(1.0, CLIP).over(lambda view, extent: jnp.float32(extent.records + 3))
    found = held_to(mechanism, 0.4, [[0.0, 0.0]] * 2, value=[3.0, 4.0])
    np.testing.assert_allclose(found.value, [0.6, 0.8], rtol=1e-4)
    assert bool(found.cut)
    inside = held_to(mechanism, 0.4, [[0.0, 0.0]] * 2, value=[0.3, 0.4])
    np.testing.assert_allclose(inside.value, [0.3, 0.4], rtol=1e-6)
    assert not bool(inside.cut)


def test_a_mean_over_fewer_records_than_places_is_taken_apart() -> None:
    """Two records in a batch with room for four, and a sensitivity of 1: each of them may be 1 long."""
    mechanism = gaussian(1.0, CLIP).over(lambda view, extent: jnp.float32(2), apart=True)
    x = jnp.asarray([[3.0, 4.0], [0.4, 0.0], [9.0, 9.0], [9.0, 9.0]])
    batch = Batch(x, jnp.zeros(4), jnp.asarray([1.0, 1.0, 0.0, 0.0]))

    def of_one(one: Batch) -> Any:
        return jnp.sum(jnp.where(one.weight[:, None] > 0, one.x, 0), axis=0)

    found = enforced(mechanism, jnp.asarray([1.7, 2.0]), batch, VIEW, of_one, jnp.float32(1.0))
    np.testing.assert_allclose(found.value, [0.5, 0.4], rtol=1e-4)
    assert bool(found.cut)
    inside = enforced(mechanism, jnp.asarray([0.5, 0.4]), batch, VIEW, of_one, jnp.float32(1.0))
    assert not bool(inside.cut)
    again = batch._replace(weight=jnp.ones(4))  # each of them twice: then it is a mean over four
    np.testing.assert_allclose(
        enforced(mechanism, jnp.zeros(2), again, VIEW, of_one, jnp.float32(1.0)).value,
        (np.array([0.6, 0.8]) + [0.4, 0.0] + 2 * np.sqrt([0.5, 0.5])) / 4,
        rtol=1e-4,
    )


def test_of_what_no_record_may_move_nothing_leaves() -> None:
    found = held_to(gaussian(1.0, CLIP), 0.0, [[0.5, 0.0]] * 2)
    np.testing.assert_array_equal(found.value, [0.0, 0.0])
    assert bool(found.cut)


def test_what_is_not_finite_is_told() -> None:
    found = held_to(gaussian(1.0, CLIP), 0.5, [[np.nan, 0.0], [0.1, 0.0]])
    np.testing.assert_allclose(found.value, [0.05, 0.0], rtol=1e-6)
    assert bool(found.cut)


@pytest.mark.parametrize(("share", "cut"), [(0.005, True), (0.0002, False)])
def test_the_change_is_judged_in_the_norm_of_the_noise(share: float, cut: bool) -> None:
    """A hundred coordinates, each a little beyond its part: together they count in l1, by themselves they would not."""
    found = held_to(laplace(1.0, CLIP), 2.0, np.full(100, 0.01 * (1 + share)))
    assert bool(found.cut) == cut
    assert float(jnp.sum(found.value)) <= 1


def test_a_method_of_ones_own_is_told() -> None:
    data = tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, rounds=6, seed=0)
    graph = tacit.graphs.complete(AGENTS)
    check_contract(method(HONEST["clipped"], gaussian(1.0, CLIP)), graph, data, rounds=4)
    with pytest.raises(ContractError, match="declares"):
        check_contract(method(BROKEN["clip forgotten"], gaussian(1.0, CLIP / 50)), graph, data, rounds=4)


def test_a_sensitivity_without_a_clip_is_enforced_as_well() -> None:
    algorithm = method(BROKEN["clip forgotten"], gaussian(1.0, CLIP)._replace(clip=None))
    one, other = (released(algorithm, 4, sign, 1000.0) for sign in (1.0, -1.0))
    assert np.linalg.norm(one.value - other.value) <= one.sensitivity * (1 + 1e-5)
    assert one.cut > 0


def test_noise_without_a_bound_on_what_a_record_changes_is_left_alone() -> None:
    """It promises nothing, is booked as that, and its values stay as they are."""
    seen = released(method(BROKEN["clip forgotten"], laplace_of_size(0.1)), 1, -1.0, 2.0)
    assert np.isinf(seen.sensitivity)
    assert np.linalg.norm(seen.value) > 0.1
    assert seen.cut == 0


def test_a_step_of_size_zero_is_released_as_it_is_and_costs_nothing() -> None:
    algorithm = tacit.algorithms.distributed_online(
        tacit.objectives.logistic(), step=lambda t: jnp.where(t == 2, 0.0, 0.1), mechanism=laplace(1.0, CLIP)
    )
    costs: dict[str, float] = {}

    class Noted:
        def release(self, release: str, event: Any, draw: Any) -> Any:
            costs[release] = event.loss.epsilon
            return draw()

    stream = tacit.streams.logistic_drift(agents=AGENTS, dim=DIM, rounds=3, seed=0)
    releaser = BookedReleaser(Noted(), NoiseSource())
    run_in_process(algorithm, tacit.graphs.complete(AGENTS), stream, rounds=3, releaser=lambda role, agent: releaser)
    assert [costs[f"peer 0 round {t} phase 0"] for t in (1, 2, 3)] == [1.0, 0.0, 1.0]
