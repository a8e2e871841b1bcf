"""Faults that nobody announces: each is refused, or caught by the problems that `tacit audit` runs, none made for it.

Daily each is tried on the problem that finds it; `make test-slow` leaves it to the audit to find that problem.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

import tacit
from tacit.audit import PROBLEMS, audit
from tacit.core.contract import Algorithm, Clip, Mechanism, share
from tacit.privacy import clipping, decaying_gaussian, draws, gaussian, graph_homomorphic, laplace, noise
from tacit.privacy.draws import Released
from tests.daily import some

ONLINE = tacit.algorithms.distributed_online
LAPLACE = laplace(epsilon=1.0, clip=1.0, perturbs="gradient")
GAUSSIAN = gaussian(noise_multiplier=1.0, clip=1.0, perturbs="gradient")
ATC = tacit.algorithms.REGISTRY["adapt_then_combine"]
TRIALS = 12_000


class Fault(NamedTuple):
    """A broken method, and the problem that finds it."""

    constructor: Callable[..., Algorithm]
    mechanism: Mechanism
    problem: str
    broken_system: Callable[[pytest.MonkeyPatch], None] = lambda patch: None


def own(gradient):
    """Return the constructor of a method that releases gradients of its own making, as functions of each record's."""

    def make(objective, mechanism):
        algorithm = ONLINE(objective, mechanism=mechanism)
        phase = algorithm.phases[0]
        data, penalty = objective.loss.data, jax.grad(objective.loss.regulariser)

        def compute(key, state, batch, view):
            each = jax.vmap(jax.grad(data), (None, 0))(state, batch)
            return state, gradient(each, partial(clipping.clip, clip=mechanism.clip), batch, view, penalty(state))

        return algorithm._replace(phases=(phase._replace(compute=compute),))

    return make


def mean(tree):
    return jax.tree.map(lambda leaf: leaf.mean(axis=0), tree)


def honest(each, clip, batch, view, penalty):
    return mean(jax.vmap(clip)(each))


def two_coordinates_clipped(each, clip, batch, view, penalty):
    return mean(jnp.concatenate([jax.vmap(clip)(each[:, :2]), each[:, 2:]], axis=1))


def clipped_until_round_4(each, clip, batch, view, penalty):
    return jax.tree.map(lambda a, b: jnp.where(view.round <= 4, a, b), mean(jax.vmap(clip)(each)), mean(each))


def regulariser_weighed_by_data(each, clip, batch, view, penalty):
    return jax.tree.map(lambda a, b: a + batch.y.mean() * b, mean(jax.vmap(clip)(each)), penalty)


def weight_beyond_the_clip(each, clip, batch, view, penalty):
    weight = jnp.ones_like(batch.y) if batch.weight is None else batch.weight
    return mean(jax.tree.map(lambda leaf: weight.reshape(-1, *[1] * (leaf.ndim - 1)) * leaf, jax.vmap(clip)(each)))


def own_clip_without_care(each, clip, batch, view, penalty):
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(each)) / batch.y.size)
    return jax.tree.map(lambda leaf: leaf.mean(axis=0) * jnp.minimum(1, 1 / norm), each)


def second_step_without_clip(each, clip, batch, view, penalty):
    return jax.tree.map(lambda a, b: (a + b) / 2, mean(jax.vmap(clip)(each)), mean(each))


def said_linf(objective, mechanism):
    return ONLINE(objective, mechanism=mechanism._replace(clip=Clip(1.0, "linf")))


def batch_counted_twice(objective, mechanism):
    made = ONLINE(objective, mechanism=mechanism)
    (phase,) = made.phases
    once = phase.mechanism.sensitivity
    twice = phase.mechanism._replace(sensitivity=lambda view, extent: once(view, extent) / extent.records)
    return made._replace(phases=(phase._replace(mechanism=twice),))


def sampling_counted_in_its_favour(objective, mechanism, cohort=1):
    """Of three clients one is called: a third of the loss, it says, though the attacker sees who was."""
    whole = mechanism.sensitivity
    third = mechanism._replace(sensitivity=lambda view, extent: whole(view, extent) / 3)
    return tacit.algorithms.fedavg(objective, mechanism=third, cohort=cohort)


def released_again(objective, mechanism):
    """The gradient of the last round is kept and goes out once more with this round's."""
    algorithm = ONLINE(objective, mechanism=mechanism)
    phase = algorithm.phases[0]

    def compute(key, state, batch, view):
        _, value = phase.compute(key, state[0], batch, view)
        return (state[0], value), jax.tree.map(jnp.add, value, state[1])

    def emit(state, released, view):
        return state, phase.emit(state[0], released, view)[1]

    def absorb(key, state, inbox, view):
        return phase.absorb(key, state[0], inbox, view), state[1]

    return algorithm._replace(
        init={"peer": lambda key, params, views: (params, jax.tree.map(jnp.zeros_like, params))},
        phases=(phase._replace(compute=compute, emit=emit, absorb=absorb),),
        model=lambda state: state[0],
    )


def without_noise_while_away(objective, mechanism):
    """Whoever is away learns alone from its value as it is, since nobody hears it."""
    algorithm = ONLINE(objective, mechanism=mechanism)
    phase = algorithm.phases[0]

    def compute(key, state, batch, view):
        _, value = phase.compute(key, state[0], batch, view)
        return (state[0], value), value

    def emit(state, released, view):
        used = jax.tree.map(lambda noisy, exact: jnp.where(view.present, noisy, exact), released, state[1])
        _, outbox = phase.emit(state[0], used, view)
        return (outbox.message.private, state[1]), share(outbox.message.private)

    def absorb(key, state, inbox, view):
        heard = phase.absorb(key, state[0], inbox, view)
        return jax.tree.map(lambda a, b: jnp.where(view.present, a, b), heard, state[0]), state[1]

    return algorithm._replace(
        init={"peer": lambda key, params, views: (params, jax.tree.map(jnp.zeros_like, params))},
        phases=(phase._replace(compute=compute, emit=emit, absorb=absorb),),
        model=lambda state: state[0],
    )


def memory_that_does_not_grow(objective, mechanism):
    """Homomorphic noise charged in every round at the sensitivity of one step, not of all steps so far."""
    algorithm = ATC.example(objective, mechanism=mechanism)
    once = mechanism.for_whole_batch().amplified(lambda view: jnp.asarray(0.1))
    return algorithm._replace(phases=(algorithm.phases[0]._replace(mechanism=once),))


def released_by(fault):
    """Return what breaks the runtime's release: a function of the real one and its arguments."""

    def breaks(patch):
        release = draws.release

        def real(*given):
            return release(*given)[:2]

        patch.setattr(draws, "release", lambda *given: Released(*fault(real, *given[:5])))

    return breaks


def _a_tenth(real, mechanism, words, value, view, records):
    noisy, noise = real(mechanism, words, value, view, records)
    return jax.tree.map(lambda a, b: b + (a - b) / 10, noisy, value), noise


def _first_leaf_alone(real, mechanism, words, value, view, records):
    noisy, noise = real(mechanism, words, value, view, records)
    leaves, structure = jax.tree.flatten(value)
    return jax.tree.unflatten(structure, [jax.tree.leaves(noisy)[0], *leaves[1:]]), noise


def _quicker_decay(real, mechanism, words, value, view, records):
    noisy, noise = real(mechanism, words, value, view, records)
    return jax.tree.map(lambda a, b: b + (a - b) * 0.85 ** (view.round - 1), noisy, value), noise


def _whole_steps_of_noise(real, mechanism, words, value, view, records):
    """What is added is a multiple of a quarter of the scale, and the value is not: its low bits stay."""
    noisy, noise = real(mechanism, words, value, view, records)
    grid = noise.scale / 4
    return jax.tree.map(lambda a, b: b + grid * jnp.round((a - b) / grid), noisy, value), noise


def _paired(patch):
    """Every second round takes back the noise of the round before."""
    words, real = noise.noise_words, draws.release
    patch.setattr(noise, "noise_words", lambda key, t, phase: words(key, (t + 1) // 2, phase))

    def fault(mechanism, words, value, view, records, memory):
        noisy, noise, _ = real(mechanism, words, value, view, records)
        sign = jnp.where(view.round % 2 == 0, -1, 1)
        return Released(jax.tree.map(lambda a, b: b + sign * (a - b), noisy, value), noise)

    patch.setattr(draws, "release", fault)


def _overlapping(patch):
    """The noise of a round is half of its own and half of the next round's; its variance is as declared."""
    words, real = noise.noise_words, draws.release
    patch.setattr(noise, "noise_words", lambda key, t, phase: (words(key, t, phase), words(key, t + 1, phase)))

    def fault(mechanism, words, value, view, records, memory):
        (one, noise, _), (two, *_) = (real(mechanism, each, value, view, records) for each in words)
        return Released(jax.tree.map(lambda a, b, v: v + (a + b - 2 * v) / jnp.sqrt(2), one, two, value), noise)

    patch.setattr(draws, "release", fault)


def _by_the_round_alone(patch):
    words = noise.noise_words
    patch.setattr(noise, "noise_words", lambda key, t, phase: words(jax.random.key(7), t, phase))


FAULTS = {
    "clip of the first two coordinates alone": Fault(own(two_coordinates_clipped), LAPLACE, "several"),
    "clip until round 4": Fault(own(clipped_until_round_4), LAPLACE, "late"),
    "linf clip said to be l2": Fault(said_linf, GAUSSIAN, "several"),
    "batch counted twice": Fault(batch_counted_twice, LAPLACE, "linear"),
    "a tenth of the noise beside a private dual": Fault(
        tacit.algorithms.REGISTRY["constrained_mirror_descent"], LAPLACE, "switch", released_by(_a_tenth)
    ),
    "second leaf without noise": Fault(ONLINE, LAPLACE, "leaves", released_by(_first_leaf_alone)),
    "noise by the round alone": Fault(ONLINE, LAPLACE, "linear", _by_the_round_alone),
    "noise taken back in the next round": Fault(ONLINE, LAPLACE, "linear", _paired),
    "noise that overlaps with the next round's": Fault(ONLINE, GAUSSIAN, "linear", _overlapping),
    "regulariser weighed by data": Fault(own(regulariser_weighed_by_data), LAPLACE, "several"),
    "gradient released again": Fault(released_again, LAPLACE, "linear"),
    "noise that decays too quickly": Fault(
        ONLINE, decaying_gaussian(1.0, 0.9, clip=1.0), "late", released_by(_quicker_decay)
    ),
    "homomorphic noise whose memory does not grow": Fault(
        memory_that_does_not_grow, graph_homomorphic(1.0, clip=1.0), "echo"
    ),
    "sampling of clients counted in its favour": Fault(sampling_counted_in_its_favour, LAPLACE, "linear"),
    "weight of a record beyond the clip": Fault(own(weight_beyond_the_clip), LAPLACE, "odd records"),
    "clip of its own that is not a number": Fault(own(own_clip_without_care), LAPLACE, "odd records"),
    "no noise while away": Fault(without_noise_while_away, LAPLACE, "away"),
    "second local step without clip": Fault(own(second_step_without_clip), LAPLACE, "linear"),
    "whole steps of noise on a value with low bits": Fault(
        ONLINE, LAPLACE, "linear", released_by(_whole_steps_of_noise)
    ),
}
ALREADY_REFUSED = {"gradient released again", "no noise while away"}
"""Data in the state under a promise of parallel composition: the runtimes do not begin such a run."""


def caught(found, name):
    assert found.verdict in {"broken", "refused"}, found.words()
    assert (found.refused is not None) == (name in ALREADY_REFUSED)
    if name not in ALREADY_REFUSED:
        assert found.lower_bound > 1.1 * found.claim.epsilon


@pytest.mark.parametrize(
    "name",
    some(
        FAULTS,
        "a fault of its kind: in the clip, in the noise, in the size, in time",
        covered=[
            "regulariser weighed by data",
            "second local step without clip",
            "noise by the round alone",
            "noise that decays too quickly",
            "clip until round 4",
            "second leaf without noise",
            "noise taken back in the next round",
            "weight of a record beyond the clip",
            "sampling of clients counted in its favour",
        ],
    ),
)
def test_a_fault_is_caught_on_its_problem(name, monkeypatch):
    fault = FAULTS[name]
    fault.broken_system(monkeypatch)
    # Rare events and small faults need the trials that the command takes.
    trials = None if fault.problem == "echo" else TRIALS
    found = audit(fault.constructor, fault.mechanism, problems=[fault.problem], trials=trials)
    caught(found, name)
    assert found.problem.name == fault.problem


@pytest.mark.covered_by("the fault on its problem")
@pytest.mark.parametrize("name", FAULTS)
def test_the_audit_finds_the_problem_by_itself(name, monkeypatch):
    fault = FAULTS[name]
    fault.broken_system(monkeypatch)
    caught(audit(fault.constructor, fault.mechanism), name)


@pytest.mark.parametrize(
    "problem",
    some(["several", "late", "leaves", "odd records", "away"], "the other problems", daily=["several", "odd records"]),
)
def test_without_a_fault_the_same_problems_find_nothing(problem):
    found = audit(own(honest), LAPLACE, problems=[problem], trials=4000)
    assert found.verdict in {"holds", "not conclusive"}
    assert found.refused is None
    assert [outcome.problem for outcome in found.tried] == [problem]


@pytest.mark.covered_by("each problem by itself")
@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_without_a_fault_the_whole_audit_holds(mechanism):
    found = audit(own(honest), mechanism)
    assert found.verdict == "holds"
    assert found.power > 0.7
    ran = {outcome.problem for outcome in found.tried if outcome.skipped is None}
    assert {"linear", "late", "several", "leaves", "odd records", "away"} <= ran <= set(PROBLEMS)
