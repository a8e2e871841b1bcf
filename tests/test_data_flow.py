"""The runtimes follow data through a round: what is said of composition must be what the program does."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.algorithms.mirror._duals import State
from tacit.algorithms.mirror._observations import Both, Observation
from tacit.core.contract import Extent, Links, View, share
from tacit.core.errors import ContractError
from tacit.objectives import Constraint, spending_limit
from tacit.privacy import laplace
from tacit.runtime.data_flow import trace

MECHANISM = laplace(epsilon=1.0, clip=1.0)
ON_MODELS = laplace(epsilon=1.0, clip=1.0, perturbs="model")


def run(algorithm, rounds=3):
    graph = tacit.graphs.complete(3)
    data = tacit.streams.logistic_drift(agents=3, dim=2, rounds=rounds, seed=0)
    return tacit.simulate(algorithm, graph, data, rounds=rounds)


def test_dependence_is_found_through_nested_calls():
    def function(x, y):
        z = jnp.where(x > 0, jnp.linalg.norm(y), 0.0)
        return {"both": z + x, "first": x * 2, "constant": jnp.ones(()), "same": y}

    found = trace(function, x=jnp.ones(()), y=jnp.ones(3))
    assert found.follow(y=True) == {"both": True, "first": False, "constant": False, "same": True}
    assert found.follow(x=True) == {"both": True, "first": True, "constant": False, "same": False}
    assert found.follow() == dict.fromkeys(("both", "first", "constant", "same"), False)
    assert found.foreign is None


@jax.custom_vjp
def swapped(x, y):
    return y, x


swapped.defvjp(lambda x, y: ((y, x), None), lambda _, t: t[::-1])


def scanned(step, start, reads):
    carry, left = jax.lax.scan(step, start, reads)
    return *carry, left[-1]


# Of three numbers (a, b, c), each program returns three; on which of the arguments does each depend?
PROGRAMS = {
    "a call": (lambda a, b, c: jax.jit(lambda x, y: (y, x, c))(a, b), "b a c"),
    "a call within": (lambda a, b, c: jax.checkpoint(lambda x: (*swapped(x, b), x * c))(a), "b a ac"),
    "a branch that a chooses": (
        lambda a, b, c: jax.lax.cond(a > 0, lambda x, y: (x, y, -x), lambda x, y: (-x, x, x), b, c),
        "ab abc ab",
    ),
    "a loop that hands on one place per turn": (
        lambda a, b, c: jax.lax.fori_loop(0, 5, lambda _, s: (s[0], s[0] + s[1], s[1] + s[2]), (a, b, c)),
        "a ab abc",
    ),
    "a loop that b ends": (
        lambda a, b, c: jax.lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0] + 1, s[1] + 1, s[2] * 2), (a, b, c)),
        "ab b bc",
    ),
    "a loop that ends when c says so": (
        lambda a, b, c: (*jax.lax.while_loop(lambda s: s[1] < c, lambda s: (s[0] * 2, s[1] + 1), (a, b)), c),
        "abc bc c",
    ),
    "a scan with what it reads and what it leaves": (
        lambda a, b, c: scanned(lambda s, x: ((s[0] + c, s[1]), x * s[0]), (a, b), jnp.stack([b, b])),
        "ac b abc",
    ),
    "a scan whose carry turns": (
        lambda a, b, c: jax.lax.scan(lambda s, _: ((s[1], s[2], s[0]), None), (a, b, c), length=4)[0],
        "abc abc abc",
    ),
    "a loop in a branch in a call": (
        lambda a, b, c: jax.jit(
            lambda x, y: (
                *jax.lax.cond(
                    x > 0, lambda z: jax.lax.fori_loop(0, 2, lambda _, s: (s[1], -s[1] / 2), z), lambda z: z, (x, y)
                ),
                c,
            )
        )(a, b),
        "ab ab c",
    ),
    "an operation on several": (lambda a, b, c: (*jax.lax.sort((a[None], b[None]), num_keys=1), c), "ab ab c"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_dependence_is_found_in_calls_branches_and_loops(name):
    program, expected = PROGRAMS[name]
    arguments = {"a": jnp.float32(0.5), "b": jnp.float32(1.5), "c": jnp.float32(2.5)}
    found = trace(program, **arguments)
    by_argument = {k: found.follow(**{k: True}) for k in arguments}
    assert ["".join(k for k in arguments if by_argument[k][out]) for out in range(3)] == expected.split()
    # Nothing that really moves a result is missing.
    for k, value in arguments.items():
        for moved in (-value, value + 7.0):
            before, after = program(**arguments), program(**{**arguments, k: moved})
            for one, two, may in zip(before, after, by_argument[k], strict=True):
                assert may or np.array_equal(one, two)


def leaky(phase):
    """The next step starts from its own value without noise."""

    def compute(key, state, batch, view):
        _, value = phase.compute(key, state, batch, view)
        return value, value

    return phase._replace(compute=compute)


def test_a_method_that_keeps_data_in_its_state_may_not_claim_parallel_composition():
    good = tacit.algorithms.distributed_online(tacit.objectives.logistic(), mechanism=ON_MODELS)
    bad = good._replace(phases=(leaky(good.phases[0]),))
    run(good)
    with pytest.raises(ContractError, match="lets data into the state"):
        run(bad)
    sequential = bad.privacy._replace(composition="sequential")
    run(bad._replace(privacy=sequential))
    # Where the update has noise, the model that it is taken from is sent along: without any, if it holds data.
    update = tacit.algorithms.distributed_online(tacit.objectives.logistic(), mechanism=MECHANISM)
    with pytest.raises(ContractError, match="emit.*not released"):
        run(update._replace(phases=(leaky(update.phases[0]),), privacy=sequential))


def test_what_does_not_depend_on_data_is_free():
    """A second phase that passes on what was heard, without noise, adds nothing to the account."""
    good = tacit.algorithms.distributed_online(tacit.objectives.logistic(), mechanism=MECHANISM)
    first = good.phases[0]
    again = first._replace(
        compute=lambda key, state, batch, view: (state, state),
        mechanism=tacit.privacy.unprotected,
        emit=lambda state, released, view: (state, share(released)),
    )
    twice = good._replace(phases=(first, again))
    assert np.isfinite(run(twice).models).all()
    spent = [run(algorithm).privacy.guarantee.epsilon for algorithm in (good, twice)]
    assert spent[0] == spent[1] == pytest.approx(1.0)


def test_what_is_released_from_a_state_with_data_is_not_free():
    """The second phase reads no data, but the first has put some into the state."""
    good = tacit.algorithms.distributed_online(tacit.objectives.logistic(), mechanism=ON_MODELS)
    first = good.phases[0]

    def passed_on(mechanism):
        again = first._replace(
            compute=lambda key, state, batch, view: (state, state),
            mechanism=mechanism,
            emit=lambda state, released, view: (state, share(released)),
        )
        sequential = good.privacy._replace(composition="sequential")
        return good._replace(phases=(leaky(first), again), privacy=sequential)

    assert not run(passed_on(tacit.privacy.unprotected)).privacy.private
    twice = run(passed_on(ON_MODELS), rounds=3).privacy.guarantee
    assert twice.epsilon == pytest.approx(2 * 3 * 1.0)


DUALS = {
    "constrained_mirror_descent": {},
    "lagrangian_descent": {"rounds": 3},
}


def with_dual(name, dual, **settings):
    objective = tacit.objectives.from_loss(lambda params, batch: jnp.mean(batch.y * (batch.x @ params)), np.zeros(2))
    settings = {"constraints": spending_limit(0.1), **DUALS[name], **settings}
    return tacit.algorithms.find(name).constructor(objective, mechanism=MECHANISM, dual=dual, **settings)


@pytest.mark.parametrize("name", DUALS)
def test_a_private_dual_may_not_be_said_to_compose_in_parallel(name):
    private, released = with_dual(name, "private"), with_dual(name, "released")
    assert (private.privacy.composition, released.privacy.composition) == ("sequential", "parallel")
    with pytest.raises(ContractError, match=f"{name}.*lets data into the state"):
        run(private._replace(privacy=released.privacy))


NOBODY = Links(jnp.arange(1), jnp.array([True]), jnp.ones(1))
VIEW = View(jnp.int32(0), jnp.int32(1), jnp.asarray(True), jnp.int32(0), NOBODY, NOBODY)


@pytest.mark.parametrize("name", DUALS)
def test_a_dual_moves_all_records_of_a_batch_by_no_more_than_is_declared(name):
    """Of two histories that differ in one record, the duals differ: every gradient of a later batch may turn round."""
    away = Constraint("away", lambda params, batch: -params[0])  # against what all records say
    records = tacit.streams.Batch(np.tile([3.0, 0.0], (3, 1)), np.ones(3))
    clip = MECHANISM.clip.bound

    def released(dual, value):
        algorithm = with_dual(name, dual, constraints=away)
        seen = Observation(jnp.zeros(1), jnp.zeros((1, 2)) if name == "lagrangian_descent" else None)
        state = State(jnp.zeros(2), Both(jnp.array([value]), None), Both(seen if dual == "private" else None, None))
        phase = algorithm.phases[0]
        return phase.compute(None, state, records, VIEW)[1], phase.mechanism

    (one, mechanism), (other, _) = released("private", 0.0), released("private", 1e3)
    moved = float(np.abs(np.asarray(one) - np.asarray(other)).sum())
    per_record = 2 * clip * np.sqrt(2) / 3  # what a replaced record of this batch could do
    assert moved == pytest.approx(2 * clip, rel=1e-4)
    assert per_record < moved <= float(mechanism.sensitivity(VIEW, Extent(2, 3)))
    assert float(mechanism.sensitivity(VIEW, Extent(2, 3))) == pytest.approx(2 * clip * np.sqrt(2))
    # What is released with the dual does not depend on it, and the batch counts.
    (one, mechanism), (other, _) = released("released", 0.0), released("released", 1e3)
    np.testing.assert_array_equal(one.gradient, other.gradient)
    np.testing.assert_array_equal(one.observation.slopes, other.observation.slopes)
    assert float(mechanism.sensitivity(VIEW, Extent(5, 3))) == pytest.approx(2 * clip * np.sqrt(5) / 3)
