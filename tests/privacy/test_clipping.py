from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.contract import Clip, Objective
from tacit.core.errors import ConfigError, ContractError, DataError
from tacit.objectives import from_loss, logistic, softmax, squared
from tacit.privacy.clipping import all_finite, clip, clipped_gradient, refuse_nonfinite
from tacit.privacy.per_record.records import records_in

quick = settings(max_examples=60, deadline=None, derandomize=True)
NORMS = ("l2", "l1", "linf")
SHRUNK = {np.float32: 1e-4, np.float64: 1e-12}
"""More than the bound is ever lowered by in these tests."""


class Records(NamedTuple):
    x: Any
    y: Any
    weight: Any = None


UNIT = 2**1074
"""Every float is a whole multiple of 1 / UNIT."""


def sizes(array: Any) -> list[int]:
    ratios = [v.as_integer_ratio() for v in np.asarray(array, np.float64).reshape(-1).tolist()]
    return [abs(above) * (UNIT // below) for above, below in ratios]


def within(leaves: Any, clip_to: Clip, slack: Fraction = Fraction(0)) -> bool:
    """Whether the norm is at most the bound, in rational arithmetic."""
    entries = [size for leaf in jax.tree.leaves(leaves) for size in sizes(leaf)]
    bound = Fraction(clip_to.bound) * (1 + slack) * UNIT
    if clip_to.norm == "l2":
        return sum(size * size for size in entries) <= bound * bound
    return (sum(entries) if clip_to.norm == "l1" else max(entries)) <= bound


def reference(vector: np.ndarray, clip_to: Clip) -> np.ndarray:
    """The same in long doubles, where nothing here overflows."""
    wide = vector.astype(np.longdouble)
    if clip_to.norm == "linf":
        return np.clip(wide, -clip_to.bound, clip_to.bound)
    norm = np.sqrt(np.sum(wide * wide)) if clip_to.norm == "l2" else np.sum(np.abs(wide))
    return wide * min(1, clip_to.bound / norm) if norm > 0 else wide


jitted = jax.jit(clip, static_argnums=1)
numbers32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
usual32 = st.floats(-100, 100, width=32)
bounds = st.sampled_from([2.0**-30, 1 / 3, 1.0, 2.0**30])


def padded(values: list[float], dtype: Any) -> np.ndarray:
    """One shape, so that it is compiled once."""
    return np.pad(np.asarray(values, dtype), (0, 40 - len(values)))


@pytest.mark.parametrize("norm", NORMS)
@quick
@given(st.lists(numbers32 | usual32, min_size=1, max_size=40), bounds)
def test_norm_is_never_above_the_bound_and_the_direction_stays(norm: str, values: list[float], bound: float) -> None:
    to = Clip(bound, norm)  # type: ignore[arg-type]
    vector = padded(values, np.float32)
    clipped = np.asarray(jitted(vector, to))
    assert clipped.dtype == np.float32
    assert within(clipped, to)
    wanted = reference(vector, to)
    tiny = np.finfo(np.float32).tiny * max(1, bound)  # what underflows may be flushed
    np.testing.assert_allclose(clipped, wanted.astype(np.float64), rtol=SHRUNK[np.float32], atol=40 * tiny)


@pytest.mark.parametrize("norm", NORMS)
@quick
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | usual32, min_size=1, max_size=40), bounds)
def test_norm_is_never_above_the_bound_in_float64(norm: str, values: list[float], bound: float) -> None:
    to = Clip(bound, norm)  # type: ignore[arg-type]
    vector = padded(values, np.float64)
    with jax.enable_x64(True):
        clipped = np.asarray(jitted(vector, to))
    assert clipped.dtype == np.float64
    assert within(clipped, to)
    wanted = reference(vector, to).astype(np.float64)
    np.testing.assert_allclose(clipped, wanted, rtol=SHRUNK[np.float64], atol=1e-306 * max(1, bound))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("count", [1, 32, 33, 1025, 100_000])
def test_many_coordinates(norm: str, count: int) -> None:
    to = Clip(1.0, norm)  # type: ignore[arg-type]
    rng = np.random.default_rng(count)
    for vector in (
        np.full(count, 0.1, np.float32),  # all roundings of the sum to the same side
        rng.normal(size=count).astype(np.float32) * 10,
        (10.0 ** rng.uniform(-44, 38, count)).astype(np.float32),
        np.full(count, np.finfo(np.float32).max),
    ):
        clipped = np.asarray(jitted(vector, to))
        assert within(clipped, to)
        np.testing.assert_allclose(
            clipped, reference(vector, to).astype(np.float64), rtol=SHRUNK[np.float32], atol=1e-37
        )


@pytest.mark.parametrize("norm", NORMS)
def test_the_worst_of_many_is_still_within(norm: str) -> None:
    """Without the margin about half of these are above the bound."""
    to = Clip(1 / 3, norm)  # type: ignore[arg-type]
    vectors = np.random.default_rng(5).normal(size=(400, 18)).astype(np.float32)
    clipped = np.asarray(jax.jit(jax.vmap(lambda v: clip(v, to)))(vectors))
    assert all(within(row, to) for row in clipped)
    lengths = np.linalg.norm(clipped.astype(np.float64), ord={"l2": 2, "l1": 1, "linf": np.inf}[norm], axis=1)
    assert lengths.min() > (1 / 3) * (1 - 1e-5)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_inside_comes_back_bit_for_bit(norm: str, dtype: Any) -> None:
    to = Clip(1.0, norm)  # type: ignore[arg-type]
    tiny = float(np.finfo(dtype).smallest_subnormal)
    inside = np.asarray([0.3, -0.6, 0.0, -0.0, tiny, -7 * tiny, 1e-20], dtype)
    with jax.enable_x64(dtype is np.float64):
        for vector in (inside, np.zeros(7, dtype), np.full(7, tiny, dtype), np.asarray(0.9999, dtype)):
            assert np.asarray(jitted(vector, to)).tobytes() == vector.tobytes()
        assert np.asarray(clip(inside, to)).tobytes() == inside.tobytes()


@pytest.mark.parametrize("norm", NORMS)
def test_just_inside_and_just_outside(norm: str) -> None:
    to = Clip(1 / 3, norm)  # type: ignore[arg-type]
    directions = np.random.default_rng(6).normal(size=(40, 18))
    order = {"l2": 2, "l1": 1, "linf": np.inf}[norm]
    directions /= np.linalg.norm(directions, ord=order, axis=1, keepdims=True) * 3
    clipped = jax.jit(jax.vmap(lambda v: clip(v, to)))
    inside = (directions * (1 - 2e-5)).astype(np.float32)
    np.testing.assert_array_equal(clipped(inside), inside)
    for factor in (1 - 1e-7, 1, 1 + 1e-7, 1 + 1e-5, 1.01, 1.2, 1.45):
        assert all(within(row, to) for row in np.asarray(clipped((directions * factor).astype(np.float32))))


def test_linf_reaches_the_bound_itself_but_not_the_float_above() -> None:
    assert float(clip(np.float32(5), Clip(1.0, "linf"))) == 1.0
    third = float(clip(np.float32(5), Clip(0.1, "linf")))  # the float32 nearest to 0.1 is above it
    assert 0.1 - 1e-8 < third <= 0.1


@pytest.mark.parametrize("norm", NORMS)
def test_a_tree_is_one_vector(norm: str) -> None:
    to = Clip(2.0, norm)  # type: ignore[arg-type]
    tree = {"w": jnp.arange(6.0).reshape(2, 3), "b": (jnp.asarray(-4.0), jnp.zeros((0,)))}
    clipped = jitted(tree, to)
    assert jax.tree.map(jnp.shape, clipped) == jax.tree.map(jnp.shape, tree)
    joined = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
    found = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(clipped)])
    np.testing.assert_allclose(found, reference(joined, to).astype(np.float64), rtol=1e-4)
    assert within(clipped, to)
    assert clip((), to) == ()


def test_leaves_of_both_precisions_keep_their_type_and_the_bound() -> None:
    to = Clip(1.0, "l2")
    with jax.enable_x64(True):
        clipped = jitted({"a": np.full(7, 0.7, np.float32), "b": np.full(5, 1e300)}, to)
    assert (clipped["a"].dtype, clipped["b"].dtype) == (np.float32, np.float64)
    assert within(clipped, to)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_becomes_zero_and_is_told(norm: str, bad: float) -> None:
    to = Clip(1.0, norm)  # type: ignore[arg-type]
    tree = {"w": np.asarray([0.1, bad, 3e38], np.float32), "b": np.float32(0.2)}
    clipped = jitted(tree, to)
    assert all(np.all(np.asarray(leaf) == 0) for leaf in jax.tree.leaves(clipped))
    assert not jax.jit(all_finite)(tree)
    assert all_finite({"w": np.asarray([3e38, 1e-44], np.float32), "none": ()})
    with pytest.raises(DataError, match=r"gradient\['w'\]\[1\] is -?(nan|inf).*0 more"):
        refuse_nonfinite(tree, "gradient")
    refuse_nonfinite({"w": np.ones(3), "b": 1.0}, "gradient")


def test_a_scalar_that_is_not_finite_is_named() -> None:
    with pytest.raises(DataError, match="loss is nan"):
        refuse_nonfinite(np.float32(np.nan), "loss")


@pytest.mark.parametrize("bound", [0, -1.0, np.nan, np.inf, 1e-10, 1e10, "1"])
def test_a_bound_that_means_nothing_is_refused(bound: Any) -> None:
    with pytest.raises(ConfigError, match="bound"):
        clip(np.ones(2, np.float32), Clip(bound))
    with pytest.raises(ConfigError, match="bound"):
        clipped_gradient(logistic(), Clip(bound))


def test_other_norms_and_types_are_refused() -> None:
    with pytest.raises(ConfigError, match="l3"):
        clip(np.ones(2, np.float32), Clip(1.0, "l3"))  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="int32"):
        clip(np.ones(2, np.int32), Clip(1.0))


# --- gradients of batches -------------------------------------------------------------------------------------------


def compiled(objective: Objective, to: Clip | None) -> Any:
    return jax.jit(clipped_gradient(objective, to))


def some_records(h: int, d: int = 4, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    return Records((rng.normal(size=(h, d)) * 5).astype(np.float32), np.sign(rng.normal(size=h)).astype(np.float32))


def by_hand(objective: Objective, to: Clip, params: Any, batch: Records) -> np.ndarray:
    """Loop over the records, clip in long doubles."""
    data = objective.loss.data  # type: ignore[attr-defined]
    gradient = jax.jit(jax.grad(data))
    total = np.zeros(np.shape(params), np.longdouble)
    for i, y in enumerate(batch.y):
        if batch.weight is None or batch.weight[i] > 0:
            total += reference(np.asarray(gradient(params, Records(batch.x[i], y))), to)
    penalty = np.asarray(jax.grad(objective.loss.regulariser)(params))  # type: ignore[attr-defined]
    return (total / len(batch.y) + penalty).astype(np.float64)


@pytest.mark.parametrize("norm", NORMS)
def test_each_record_is_clipped_and_the_regulariser_is_not(norm: str) -> None:
    to = Clip(0.5, norm)  # type: ignore[arg-type]
    objective = logistic(l2=3.0)
    params = np.asarray([0.3, -2.0, 1.0, 4.0], np.float32)
    batch = some_records(6)
    found = compiled(objective, to)(params, batch)
    np.testing.assert_allclose(found, by_hand(objective, to, params, batch), rtol=2e-5, atol=1e-6)
    one = Records(batch.x[0], batch.y[0])
    as_batch = Records(batch.x[:1], batch.y[:1])
    np.testing.assert_allclose(
        compiled(objective, to)(params, one), by_hand(objective, to, params, as_batch), rtol=2e-5, atol=1e-6
    )


def test_without_a_clip_it_is_the_gradient() -> None:
    objective, batch, params = squared(l2=0.1), some_records(5), np.ones(4, np.float32)
    found = compiled(objective, None)(params, batch)
    np.testing.assert_array_equal(found, jax.jit(jax.grad(objective.loss))(params, batch))


def test_a_wide_clip_changes_nothing() -> None:
    objective, batch, params = squared(l2=0.1), some_records(5), np.ones(4, np.float32)
    found = compiled(objective, Clip(1e6))(params, batch)
    np.testing.assert_allclose(found, jax.grad(objective.loss)(params, batch), rtol=1e-5)


def test_of_a_loss_in_one_piece_the_whole_is_clipped() -> None:
    objective = from_loss(lambda w, batch: jnp.sum(w * batch["shift"]), initial=np.zeros(3, np.float32))
    batch = {"shift": np.asarray([30.0, 40.0, 0.0], np.float32)}
    assert records_in(batch) == 1
    found = compiled(objective, Clip(1.0))(np.zeros(3, np.float32), batch)
    np.testing.assert_allclose(found, [0.6, 0.8, 0], rtol=1e-5)


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e38])
def test_absent_records_contribute_nothing_whatever_they_hold(poison: float) -> None:
    objective, params, to = logistic(l2=0.1), np.ones(4, np.float32), Clip(0.5)
    batch = some_records(4)._replace(weight=np.asarray([1, 0, 2, 0], np.float32))
    wanted = by_hand(objective, to, params, batch)
    batch.x[1] = poison
    batch.y[3] = poison
    own = from_loss(lambda w, b: jnp.sum(w * b.x) * b.y, initial=np.zeros(4, np.float32))
    np.testing.assert_allclose(compiled(objective, to)(params, batch), wanted, rtol=2e-5, atol=1e-6)
    assert np.all(np.isfinite(compiled(own, to)(params, batch)))
    absent = Records(batch.x[1], batch.y[1], np.float32(0))
    np.testing.assert_array_equal(compiled(own, to)(params, absent), np.zeros(4))
    assert records_in(batch) == 4
    assert records_in(absent) == 1


def test_an_unusable_record_contributes_zero_and_the_others_stay() -> None:
    batch = some_records(4)
    wanted = by_hand(squared(), Clip(0.5), np.ones(4, np.float32), batch._replace(weight=[1, 1, 0, 1]))
    batch.x[2, 0] = np.nan
    found = compiled(squared(), Clip(0.5))(np.ones(4, np.float32), batch)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


def test_one_weight_for_all_records() -> None:
    batch, params = some_records(3), np.ones(4, np.float32)
    gradient = compiled(squared(), Clip(0.5))
    np.testing.assert_array_equal(gradient(params, batch._replace(weight=np.float32(1))), gradient(params, batch))
    np.testing.assert_array_equal(gradient(params, batch._replace(weight=np.float32(0))), np.zeros(4))


def test_the_number_of_places_is_a_shape() -> None:
    assert records_in(()) == 1
    assert records_in(Records(np.zeros((7, 2)), np.zeros(7))) == 7
    assert records_in(Records(np.zeros(2), np.float32(0))) == 1
    with pytest.raises(DataError, match="no place for a record"):
        records_in(Records(np.zeros((0, 2)), np.zeros(0)))


@pytest.mark.parametrize("norm", NORMS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 6), st.integers(0, 10**6), st.data())
def test_replacing_one_record_moves_the_gradient_by_at_most_the_sensitivity(
    norm: str, h: int, seed: int, data: st.DataObject
) -> None:
    batch = some_records(h, seed=seed)._replace(weight=np.ones(h, np.float32))
    place = data.draw(st.integers(0, h - 1))
    other = jax.tree.map(np.copy, batch)
    other.x[place] = data.draw(st.lists(numbers32 | usual32, min_size=4, max_size=4))
    other.y[place] *= -1
    other.weight[place] = data.draw(st.sampled_from([0, 1]))
    params = np.random.default_rng(seed).normal(size=4).astype(np.float32)
    gradient = GRADIENTS[norm]
    change = np.asarray(gradient(params, batch), np.float64) - np.asarray(gradient(params, other), np.float64)
    assert within(change, Clip(2 * 0.7 / h, norm), Fraction(1, 10**6))  # type: ignore[arg-type]


GRADIENTS = {norm: compiled(squared(l2=0.3), Clip(0.7, norm)) for norm in NORMS}  # type: ignore[arg-type]


def test_opposite_records_reach_the_sensitivity() -> None:
    """So the bound of the test above is not a loose one."""
    batch = Records(np.ones((2, 1), np.float32), np.asarray([1e6, 0], np.float32))
    gradient = compiled(squared(), Clip(1.0))
    other = batch._replace(y=np.asarray([-1e6, 0], np.float32))
    change = gradient(np.zeros(1, np.float32), batch) - gradient(np.zeros(1, np.float32), other)
    assert 1 - 1e-4 < abs(float(change[0])) <= 1


def test_pytree_parameters_and_agents_under_vmap() -> None:
    objective, to = softmax(3), Clip(0.25)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(5, 4)).astype(np.float32) * 9, np.asarray([0, 1, 2, 1, 0], np.int32)
    params = rng.normal(size=(5, 3, 4)).astype(np.float32)
    each = jax.jit(jax.vmap(clipped_gradient(objective, to)))(params, Records(x, y))
    assert each.shape == (5, 3, 4)
    assert all(within(row, to) for row in np.asarray(each))
    one = compiled(objective, to)(params[2], Records(x[2], y[2]))
    np.testing.assert_allclose(each[2], one, rtol=1e-5)
