"""Clipping of gradients, on which every declared sensitivity rests.

A tree is taken as one vector. The norm of what `clip` returns, in exact arithmetic, is never above the bound:

- The vector is divided by its largest entry before anything is squared or summed, so nothing overflows, and what
  underflows is below one rounding of the sum.
- Sums are taken in blocks of 32, in levels, behind barriers: their error is then at most 32 roundings per level,
  whatever order XLA adds in, instead of one rounding per coordinate.
- The bound is first lowered by `roundings * eps`, which is at least twice the relative error that the computation can
  make, with division and square root taken at 2 ulp (as on a GPU; on a CPU they are rounded correctly). For 18
  coordinates in float32 that is 5e-6 of the bound, for 1e5 it is 2e-5. What lies inside the lowered bound comes back
  bit for bit.
- Subnormal numbers may be read as zero. Together they are below n * 2^-126, under one rounding of the smallest bound
  that is taken.
- linf clips each coordinate, which needs no arithmetic and hence no margin.

A gradient that is not finite has no direction to keep. Compiled code cannot raise, so `clip` returns zero for it: a
contribution within the bound, so that privacy holds. Whether that happened is not a second result but a second
function, `all_finite`, of the same input: callers who do not count need not unpack, and for those who do, XLA shares
the work. Outside compiled code `refuse_nonfinite` raises.

Of a model of up to `SMALL` parameters each record's gradient is formed and clipped; of a larger one `per_record` finds
the norms without the gradients, with margins of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Array, Batch, Clip, Key, Objective, Params, Separable, Tree
from tacit.core.errors import ConfigError, ContractError, DataError
from tacit.privacy.per_record.blocks import in_blocks, records_at_once
from tacit.privacy.per_record.records import present_in, records_in

BLOCK = 32
_FIXED_ROUNDINGS = 24
"""Division 4, square root 4, quotient of the bound 4, product 1, squares 9 / 2, in units of eps / 2: 9 eps, taken
with room to spare."""
SMALL = 2**14
"""Parameters of a model up to which every record's gradient is formed. The number of records has no say, so that one is
clipped alike in a batch and by itself, as a peer takes it to enforce its mechanism."""
_SMALLEST_BOUND, _LARGEST_BOUND = 2.0**-30, 2.0**30


def clip(tree: Tree, clip: Clip) -> Tree:
    """Scale a tree down to the bound, or for linf cut each coordinate; all zeros where an entry is not finite."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    arrays = [_floating(leaf) for leaf in leaves]
    _check(clip)
    if not arrays:
        return tree
    clipped = _cut(arrays, clip.bound) if clip.norm == "linf" else _scaled(arrays, clip)
    return jax.tree_util.tree_unflatten(structure, clipped)


def all_finite(tree: Tree) -> Array:
    """Return whether every entry is finite: what `clip` keeps, where it returns zeros for the rest."""
    finite = jnp.asarray(True)
    for leaf in jax.tree.leaves(tree):
        finite &= jnp.all(jnp.isfinite(leaf))
    return finite


def refuse_nonfinite(tree: Tree, what: str) -> None:
    """Raise if an entry is not finite; for use outside compiled code."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        array = np.asarray(leaf)
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            place = jax.tree_util.keystr(path) + (str([int(i) for i in bad[0]]) if array.ndim else "")
            raise DataError(
                f"{what}{place} is {array[tuple(bad[0])]}, and {len(bad) - 1} more entries of that array are not "
                "finite; expected finite numbers: clean the data, or take a smaller step"
            )


class GradientParts(NamedTuple):
    """A gradient as a sum of a part that depends on data and one that does not."""

    data: Callable[..., Params]
    """(parameters, batch, over=None, key=None) -> the mean over the places of the batch, or over `over` records; an
    objective that draws in training needs the key."""
    penalty: Callable[[Params], Params] | None
    """Of the parameters alone: it needs no clip and no noise. None where there is none, or it cannot be told apart."""


def gradient_parts(objective: Objective, clip: Clip | None, several: bool = False) -> GradientParts:
    """Split an objective's gradient into its records' clipped mean and the regulariser's part.

    Replacing a record moves the mean by 2 bound / h at most, over the h places of the batch (`records_in`) or over as
    many records as `data` is told. A record of weight 0 contributes zero whatever it holds, any other weight counts as
    present. The regulariser of a `Separable` loss depends on the parameters alone and stays apart; of any other loss
    the whole is clipped.

    Of a clip of the agent's whole contribution (`Clip.of`) the mean is clipped, and no record by itself: whatever the
    records are, it moves by 2 bound at most.

    Args:
      objective: Loss and regulariser.
      clip: Bound (2^-30 to 2^30) and norm; None leaves gradients as they are, and all in `data`.
      several: Whether the caller releases the mean of several such means, and clips that itself where the clip is of
        the whole contribution; here it is then left as it is.

    Returns:
      The functions `data(params, batch, over=None, key=None)` and `penalty(params)`.

    Example:
      >>> import tacit
      >>> from tacit.core.contract import Clip
      >>> gradient_parts(tacit.objectives.logistic(l2=0.1), Clip(1.0)).penalty is None
      False
    """
    gradient, loss = jax.grad(_learnt(objective, apart=clip is not None)), objective.loss
    if clip is None:
        return GradientParts(lambda params, batch, over=None, key=None: gradient(params, batch, key), None)
    penalty = jax.grad(loss.regulariser) if isinstance(loss, Separable) else None
    mean = _clipped_gradients(_learnt(objective, apart=True), clip, several)
    if objective.training is None:
        return GradientParts(lambda params, batch, over=None, key=None: mean(params, batch, over), penalty)
    return GradientParts(mean, penalty)


def _clipped_gradients(loss: Callable[..., Array], clip: Clip, several: bool) -> Callable[..., Params]:
    """Make the mean over a batch of each record's clipped gradient, by the way that the model's size asks for."""
    if clip.of == "agent":
        _check(clip)
        of_all = jax.grad(loss)

        def whole(params: Params, batch: Batch, over: Array | None = None, key: Key | None = None) -> Params:
            gradient = of_all(params, batch, key)
            return gradient if several else _clip(gradient, clip)

        return whole
    formed = clipped_mean(jax.grad(loss), clip)

    def mean(params: Params, batch: Batch, over: Array | None = None, key: Key | None = None) -> Params:
        if not _large(params, batch):
            return formed(params, batch, over, key)
        from tacit.privacy.per_record.gradients import clipped_sum  # a small model does without

        places = records_in(batch)
        summed = clipped_sum(loss, clip)(params, batch, None if key is None else jax.random.split(key, places))
        return _over(summed, places if over is None else over)

    return mean


def _large(params: Params, batch: Batch) -> bool:
    """Whether the gradients of single records are too large to be formed."""
    several = jnp.ndim(getattr(batch, "y", 0)) > 0
    return several and sum(jnp.size(leaf) for leaf in jax.tree.leaves(params)) > SMALL


def _learnt(objective: Objective, apart: bool) -> Callable[..., Array]:
    """Return (parameters, batch, key) -> the loss that is learnt from; `apart`: without the regulariser, if it can."""
    loss, drawn = objective.loss, objective.training
    if drawn is None:
        chosen: Callable[[Params, Batch], Array] = loss.data if apart and isinstance(loss, Separable) else loss
        return lambda params, batch, key=None: chosen(params, batch)

    def learnt(params: Params, batch: Batch, key: Key | None = None) -> Array:
        if key is None:
            raise ConfigError(
                f"objective {objective.name!r} draws in training (dropout, augmentation), and the method hands its "
                "gradient no key, so that nothing would be drawn; use a method that hands one on, e.g. "
                "distributed_online, or leave out what draws"
            )
        found = drawn(key, params, batch)
        return found if apart or not isinstance(loss, Separable) else found + loss.regulariser(params)

    return learnt


def clipped_mean(of_one: Callable[..., Tree], clip: Clip) -> Callable[..., Tree]:
    """Make the mean over a batch of a function of one record, with each record's value clipped, or the mean as a whole.

    Args:
      of_one: (parameters, record) -> a tree of floating arrays; with a key for the mean, (parameters, record, key).
      clip: Bound (2^-30 to 2^30) and norm of each record's value, or of the mean (`Clip.of`).

    Returns:
      A function of (parameters, batch, over=None, key=None): the mean over the places of the batch, or over `over`
      records. Of a key every record gets one of its own.

    Example:
      >>> import jax.numpy as jnp
      >>> from tacit.core.contract import Clip
      >>> from tacit.streams import Batch
      >>> mean = clipped_mean(lambda params, record: record.x, Clip(1.0, "linf"))
      >>> mean(None, Batch(jnp.asarray([[4.0], [0.0]]), jnp.ones(2)))
      Array([0.5], dtype=float32)
    """
    bounded = clip
    _check(bounded)
    as_it_is: Callable[[Tree], Tree] = lambda value: value  # noqa: E731
    within: Callable[[Tree], Tree] = lambda value: _clip(value, bounded)  # noqa: E731
    of_each, of_all = (as_it_is, within) if bounded.of == "agent" else (within, as_it_is)

    def of_record(params: Params, record: Batch, *key: Key) -> Tree:
        clipped = of_each(of_one(params, record, *key))
        weight = getattr(record, "weight", None)
        if weight is None:
            return clipped
        return jax.tree.map(lambda leaf: jnp.where(jnp.asarray(weight) > 0, leaf, 0), clipped)

    def mean(params: Params, batch: Batch, over: Array | None = None, key: Key | None = None) -> Tree:
        places = records_in(batch)
        count = places if over is None else over
        if jnp.ndim(getattr(batch, "y", 0)) == 0:
            return of_all(of_record(params, batch) if key is None else of_record(params, batch, key))
        keys = () if key is None else (jax.random.split(key, places),)

        def of_some(some: tuple[Batch, tuple[Key, ...]]) -> Tree:
            return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), _of_each(of_record, params, some[0], *some[1]))

        one = jax.eval_shape(of_record, params, *_first((batch, *keys)))
        return of_all(_over(in_blocks(of_some, (batch, keys), records_at_once(one)), count))

    return mean


def _over(summed: Tree, count: Array | int) -> Tree:
    return jax.tree.map(lambda leaf: leaf / jnp.asarray(count, leaf.dtype), summed)


def clipped_share(objective: Objective, clip: Clip) -> Callable[[Params, Batch], Array]:
    """Make the share of a batch's present records whose gradient is above the clip, to be looked at in simulations.

    Of a clip of the agent's whole contribution: 1 where that is above it, else 0.

    Args:
      objective: Loss and regulariser; of a `Separable` loss the data's part alone is clipped.
      clip: Bound and norm of a record's gradient.

    Returns:
      A function of (parameters, batch): a number from 0 to 1. It depends on data, so that no peer may tell it.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> from tacit.core.contract import Clip
      >>> share = clipped_share(tacit.objectives.squared(), Clip(1.0))
      >>> share(jnp.zeros(1), tacit.streams.Batch(jnp.ones((2, 1)), jnp.asarray([0.5, 9.0])))
      Array(0.5, dtype=float32)
    """
    loss = _learnt(objective, apart=True)
    gradient = jax.grad(loss)
    key = None if objective.training is None else jax.random.key(0)  # one draw for all: it is a figure to look at
    size: Callable[[Array], Array] = {"l1": jnp.abs, "l2": jnp.square, "linf": jnp.abs}[clip.norm]
    bound = clip.bound**2 if clip.norm == "l2" else clip.bound

    def above(params: Params, record: Batch) -> Array:
        sizes = [size(leaf) for leaf in jax.tree.leaves(gradient(params, record, key))]
        if clip.norm == "linf":
            return jnp.max(jnp.stack([jnp.max(leaf) for leaf in sizes])) > bound
        return sum((jnp.sum(leaf) for leaf in sizes), jnp.zeros(())) > bound

    def share(params: Params, batch: Batch) -> Array:
        if clip.of == "agent":
            return jnp.where(above(params, batch), 1.0, 0.0)
        if _large(params, batch):
            from tacit.privacy.per_record.gradients import number_above

            number = number_above(lambda params, record: loss(params, record, key), clip)
            return number(params, batch) / jnp.maximum(present_in(batch), 1)
        cut = _of_each(above, params, batch)
        there = jnp.broadcast_to(
            jnp.asarray(1.0 if getattr(batch, "weight", None) is None else batch.weight) > 0, cut.shape
        )
        return jnp.sum(cut & there) / jnp.maximum(jnp.sum(there), 1)

    return share


def _first(records: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0] if jnp.ndim(leaf) else leaf, records)


def _of_each(function: Callable[..., Tree], params: Params, batch: Batch, *keys: Array) -> Tree:
    """Apply a function of one record to each of a batch's, along a leading axis unless the batch is one record."""
    if jnp.ndim(getattr(batch, "y", 0)) == 0:
        return function(params, batch)
    # A leaf without axes (one weight for all) belongs to every record.
    axes = jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) else None, batch)
    return jax.vmap(function, in_axes=(None, axes, *(0 for _ in keys)))(params, batch, *keys)


def clipped_gradient(objective: Objective, clip: Clip | None) -> Callable[..., Params]:
    """Make an objective's gradient with each record's part clipped: both parts of `gradient_parts` together.

    Args:
      objective: Loss and regulariser.
      clip: Bound (2^-30 to 2^30) and norm of a record's gradient; None leaves gradients as they are.

    Returns:
      A function of (parameters, batch, key=None); an objective that draws in training needs the key.

    Example:
      >>> import jax.numpy as jnp, tacit
      >>> from tacit.core.contract import Clip
      >>> gradient = clipped_gradient(tacit.objectives.squared(), Clip(1.0, "linf"))
      >>> gradient(jnp.zeros(2), tacit.streams.Batch(jnp.asarray([[9.0, 0.0]]), jnp.asarray([9.0])))
      Array([-1.,  0.], dtype=float32)
    """
    data, penalty = gradient_parts(objective, clip)

    def gradient(params: Params, batch: Batch, key: Key | None = None) -> Params:
        found = data(params, batch, key=key)
        return found if penalty is None else jax.tree.map(jnp.add, found, penalty(params))

    return gradient


_clip = clip  # `gradient_parts` has a parameter of that name


def _check(clip: Clip) -> None:
    if clip.norm not in ("l2", "l1", "linf"):
        raise ConfigError(f"norm {clip.norm!r} of a clip: expected one of l2, l1, linf")
    if not (isinstance(clip.bound, int | float) and _SMALLEST_BOUND <= clip.bound <= _LARGEST_BOUND):
        raise ConfigError(
            f"bound {clip.bound!r} of a clip: expected a number from 2^-30 to 2^30; scale the loss if gradients "
            "really are of another size"
        )


def _floating(leaf: Any) -> Array:
    array = jnp.asarray(leaf)
    if array.dtype not in (jnp.float32, jnp.float64):
        raise ContractError(f"a leaf to be clipped has type {array.dtype}: expected float32 or float64; convert it")
    return array


def _cut(arrays: list[Array], bound: float) -> list[Array]:
    finite = all_finite(arrays)

    def cut(array: Array) -> Array:
        limit = rounded_down(bound, array.dtype)
        # Not minimum and maximum: those may flush a subnormal number, which is inside.
        cut_off = jnp.where(array > 0, limit, -limit)
        return jnp.where(jnp.abs(array) <= limit, jnp.where(finite, array, 0), jnp.where(finite, cut_off, 0))

    return [cut(array) for array in arrays]


def _scaled(arrays: list[Array], clip: Clip) -> list[Array]:
    """Scale to the lowered bound: (x / largest) * (bound / norm(x / largest))."""
    dtype = jnp.result_type(*arrays)
    largest = jnp.asarray(np.finfo(dtype).tiny, dtype)
    for array in arrays:
        largest = jnp.maximum(largest, jnp.max(jnp.abs(array), initial=0).astype(dtype))
    # One reciprocal for all, as XLA would have it; but that of a huge number is subnormal, which is read as zero. So
    # numbers are first brought near 1 by a power of two, which rounds nothing that counts.
    far = 2.0 ** (np.finfo(dtype).maxexp // 2)
    nearer = jnp.where(largest > far, 1 / far, jnp.where(largest < 1 / far, far, 1.0)).astype(dtype)
    reciprocal = 1 / (largest * nearer)
    shares = [array.astype(dtype) * nearer * reciprocal for array in arrays]

    total, deepest = jnp.zeros((), dtype), 0
    for share in shares:
        part, levels = blocked_sum(jnp.abs(share) if clip.norm == "l1" else share * share)
        total, deepest = total + part, max(deepest, levels)
    roundings = _FIXED_ROUNDINGS + len(arrays) + BLOCK * deepest
    widest = max(float(np.finfo(array.dtype).eps) for array in arrays)
    lowered = rounded_down(clip.bound * (1 - roundings * widest), dtype)

    # NaN where an entry is not finite (inf times 1 / inf is NaN as well), otherwise from 1 to the number of entries.
    norm = total if clip.norm == "l1" else jnp.sqrt(total)
    inside = norm * largest <= lowered
    finite = jnp.isfinite(norm)
    factor = lowered / jnp.maximum(norm, 1)
    return [
        jnp.where(inside, array, jnp.where(finite, (share * factor).astype(array.dtype), 0))
        for array, share in zip(arrays, shares, strict=True)
    ]


def blocked_sum(array: Array) -> tuple[Array, int]:
    """Return the sum of terms >= 0 and the number of levels it took, each of which adds up at most a block."""
    terms, levels = array.reshape(-1), 1
    while terms.size > BLOCK:
        terms = jnp.pad(terms, (0, -terms.size % BLOCK))
        # Without a barrier XLA may merge the levels into one sum, whose error grows with the number of terms.
        terms = jax.lax.optimization_barrier(jnp.sum(terms.reshape(-1, BLOCK), axis=1))
        levels += 1
    return jnp.sum(terms), levels


def rounded_down(value: float, dtype: Any) -> Any:
    """Return the largest number of that type which is not above value > 0."""
    rounded = np.dtype(dtype).type(value)
    return rounded if float(rounded) <= value else np.nextafter(rounded, rounded.dtype.type(0))
