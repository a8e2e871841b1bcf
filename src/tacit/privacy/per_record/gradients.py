"""Sums of clipped gradients, and who is cut, without a gradient for each record.

One forward and one backward pass over the batch give, for each layer, what it saw (P) and what the loss says of its
output (G), by adding zeros to that output and taking the derivative by them. From these come norms, factors
min(1, bound / norm), and with those one product for the whole batch. Records cannot mix: the loss is called for each by
itself, under `jax.vmap`. Parameters that are used in another way (biases, scales of a normalisation) get a gradient for
each record, of which as many are kept at once as there is room for; so do all where a clip is not in the l2 norm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Batch, Clip, Params, Tree
from tacit.privacy.clipping import clip as clipped
from tacit.privacy.per_record.blocks import ROOM, in_blocks, records_at_once, spread
from tacit.privacy.per_record.layers import Followed, Layer, layer_of, moved, plain, unmoved
from tacit.privacy.per_record.norms import Scale, Size, factors, norm, roundings_of
from tacit.privacy.per_record.pairs import Pair
from tacit.privacy.per_record.records import records_in
from tacit.privacy.per_record.rewriting import Operation, run, walk

Loss = Callable[..., Array]
"""(parameters, record) -> a number; of records with keys, (parameters, record, key)."""


class Records(NamedTuple):
    """Records of a batch, and a key for each where the loss draws."""

    batch: Batch
    keys: tuple[Array, ...] = ()

    @property
    def present(self) -> Array:
        """Which places hold a record."""
        places, weight = records_in(self.batch), getattr(self.batch, "weight", None)
        return jnp.ones(places, bool) if weight is None else jnp.broadcast_to(jnp.asarray(weight) > 0, (places,))

    @property
    def axes(self) -> Records:
        """The records' axis of each leaf; one without axes (a weight for all) belongs to every record."""
        found: Records = jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) else None, self)
        return found

    @property
    def first(self) -> Records:
        """The shapes of one record."""
        found: Records = jax.eval_shape(
            lambda r: jax.tree.map(lambda leaf: leaf[0] if jnp.ndim(leaf) else leaf, r), self
        )
        return found


class Plan(NamedTuple):
    """What is known of a loss from its trace for one record."""

    program: Any
    layers: dict[int, Layer]
    """Leaf of the parameters -> the one layer that it goes into."""
    outputs: dict[int, jax.ShapeDtypeStruct]
    """Of these layers."""
    alone: list[int]
    """Leaves whose gradients are formed record by record."""
    at_once: int
    """How many records there is room for."""


def planned(loss: Loss, clip: Clip, params: Params, records: Records) -> Plan:
    """Find out by tracing which parameters go into which layers."""
    closed = jax.make_jaxpr(loss)(params, *_flat(records.first))
    leaves = jax.tree.leaves(params)
    found: dict[int, list[tuple[Layer, jax.ShapeDtypeStruct]]] = {k: [] for k in range(len(leaves))}
    other: set[int] = set()

    def step(operation: Operation, operands: list[Any]) -> list[Any]:
        layer, on = layer_of(operation, operands), moved(operation, operands)
        if on is not None:
            return on
        results = run(operation, plain(operands))
        for value in operands:
            if isinstance(value, Followed) and layer is None:
                other.add(value.leaf)
            elif isinstance(value, Followed) and layer is not None:
                found[value.leaf].append((layer, jax.ShapeDtypeStruct(results[0].shape, results[0].dtype)))
        return results

    def follow(*values: Array) -> list[Array]:
        marked = [Followed(v, k) if k < len(leaves) else v for k, v in enumerate(values)]
        results = walk(closed, marked, step)
        other.update(value.leaf for value in results if isinstance(value, Followed))
        return plain(results)

    jax.eval_shape(follow, *[jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars])
    ours = clip.norm == "l2"
    once = [k for k, uses in found.items() if ours and len(uses) == 1 and k not in other]
    alone = [k for k in range(len(leaves)) if k not in once]
    return Plan(
        closed,
        {k: found[k][0][0] for k in once},
        {k: found[k][0][1] for k in once},
        alone,
        max(1, 4 * ROOM // max(1, sum(jnp.size(leaves[k]) for k in alone))) if once else records_at_once(params),
    )


def clipped_sum(loss: Loss, clip: Clip) -> Callable[..., Tree]:
    """Make the sum over a batch's present records of the gradient of each, clipped.

    Args:
      loss: Of one record.
      clip: Bound and norm.

    Returns:
      A function of (parameters, batch, keys=None), with a key for each record where the loss draws.
    """

    def summed(params: Params, batch: Batch, keys: Array | None = None) -> Tree:
        records = Records(batch, () if keys is None else (keys,))
        plan = planned(loss, clip, params, records)

        def of_some(some: Records) -> Tree:
            if not plan.layers:
                return _one_by_one(loss, clip, params, some)
            return _passed(plan, params, some).summed(clip, params)

        return in_blocks(of_some, records, plan.at_once)

    return summed


def number_above(loss: Loss, clip: Clip) -> Callable[[Params, Batch], Array]:
    """Make the number of a batch's present records whose gradient is above the clip.

    Args:
      loss: Of one record, without a key.
      clip: Bound and norm.
    """

    def number(params: Params, batch: Batch) -> Array:
        plan = planned(loss, clip, params, Records(batch))

        def changed(record: Records) -> Array:
            gradient = jax.grad(loss)(params, record.batch)
            same = jax.tree.map(lambda a, b: jnp.all(a == b), gradient, clipped(gradient, clip))
            return ~jnp.all(jnp.stack(jax.tree.leaves(same)))

        def of_some(some: Records) -> Array:
            if plan.layers:
                return jnp.sum(_passed(plan, params, some).factors(clip)[1])
            return jnp.sum(jax.vmap(changed, in_axes=(some.axes,))(some) & some.present)

        found: Array = in_blocks(of_some, Records(batch), plan.at_once)
        return found

    return number


class _Part(NamedTuple):
    """What one layer, or all gradients that were formed, has to say of each record."""

    size: Size
    contribution: Callable[[Array], dict[int, Array]]
    """Factor of each record -> the weighted sum over the records, for each leaf."""


class _Passed(NamedTuple):
    """What a forward and a backward pass leave of a batch, record by record."""

    parts: list[_Part]
    present: Array

    def factors(self, clip: Clip) -> tuple[list[Array], Array]:
        """Return what each part is multiplied by, and which records are cut."""
        sizes = [part.size for part in self.parts]

        def of_one(mantissas: list[Array], exponents: list[Array], present: Array) -> tuple[list[Array], Array]:
            known = [Size(m, e, s.roundings) for m, e, s in zip(mantissas, exponents, sizes, strict=True)]
            return factors(known, present, clip)

        found: tuple[list[Array], Array] = jax.vmap(of_one)(
            [size.mantissa for size in sizes], [size.exponent for size in sizes], self.present
        )
        return found

    def summed(self, clip: Clip, params: Params) -> Tree:
        """Return the sum of what the records contribute."""
        total: dict[int, Array] = {}
        for part, weight in zip(self.parts, self.factors(clip)[0], strict=True):
            total |= part.contribution(weight)
        leaves, structure = jax.tree.flatten(params)
        return jax.tree.unflatten(structure, [total[k].astype(leaf.dtype) for k, leaf in enumerate(leaves)])


def _passed(plan: Plan, params: Params, records: Records) -> _Passed:
    """Run the loss once forwards and once backwards, over all records of a batch, and take the norms."""
    leaves, places = jax.tree.leaves(params), records_in(records.batch)

    def of_one(own: list[Array], taps: dict[int, Array], record: Records) -> tuple[Array, dict[int, Array]]:
        seen: dict[int, Array] = {}
        values: list[Any] = [Followed(leaf, k) if k in plan.layers else leaf for k, leaf in enumerate(leaves)]
        for k, value in zip(plan.alone, own, strict=True):
            values[k] = value

        def step(operation: Operation, operands: list[Any]) -> list[Any]:
            layer, on = layer_of(operation, operands), moved(operation, operands)
            if on is not None:
                return on
            results = run(operation, plain(operands))
            if layer is not None:
                leaf = operands[layer.side].leaf
                seen[leaf] = operands[1 - layer.side]
                results = [results[0] + taps[leaf]]
            return results

        (value,) = walk(plan.program, [*values, *jax.tree.leaves(record)], step)
        return value, seen

    def of_all(own: list[Array], taps: dict[int, Array]) -> tuple[Array, dict[int, Array]]:
        losses, seen = jax.vmap(of_one, in_axes=(0, 0, records.axes))(own, taps, records)
        return jnp.sum(losses), seen

    copies = [jnp.broadcast_to(leaves[k], (places, *leaves[k].shape)) for k in plan.alone]
    taps = {k: jnp.zeros((places, *out.shape), out.dtype) for k, out in plan.outputs.items()}
    (own, said), seen = jax.grad(of_all, argnums=(0, 1), has_aux=True)(copies, taps)
    present = records.present
    formed = dict(zip(plan.alone, own, strict=True))
    parts = []
    for leaf, layer in plan.layers.items():
        pair = Pair.of(layer, leaves[leaf], seen[leaf], said[leaf])
        if pair.fits:
            formed[leaf] = pair.gradients()
            continue
        parts.append(_Part(pair.size(), lambda weight, k=leaf, pair=pair: {k: pair.weighed(weight)}))  # type: ignore[misc]
        present &= pair.finite
    if formed:
        part, finite = _of_formed(formed, {k: layer for k, layer in plan.layers.items() if k in formed}, leaves)
        parts.append(part)
        present &= finite
    return _Passed(parts, present)


def _of_formed(formed: dict[int, Array], layers: dict[int, Layer], leaves: list[Array]) -> tuple[_Part, Array]:
    """Return the part of gradients that were formed record by record, and where they are finite."""
    arrays = list(formed.values())
    scale = jax.vmap(Scale.of)(arrays)
    one = [jax.ShapeDtypeStruct(array.shape[1:], array.dtype) for array in arrays]

    def divided() -> list[Array]:
        return jax.vmap(lambda scale, arrays: [scale.divided(array) for array in arrays])(scale, arrays)

    def contribution(weight: Array) -> dict[int, Array]:
        summed = {}
        for leaf, array in zip(formed, divided(), strict=True):
            total = jnp.sum(array * spread(weight.astype(array.dtype), array.ndim), axis=0)
            layer = layers.get(leaf)
            summed[leaf] = total if layer is None else unmoved(layer, layer.placed(total), leaves[leaf])
        return summed

    mantissa = jax.vmap(lambda arrays: norm(arrays)[0])(divided())
    return _Part(Size(mantissa, scale.exponent, roundings_of(one)), contribution), scale.finite


def _one_by_one(loss: Loss, clip: Clip, params: Params, records: Records) -> Tree:
    """Return the sum of gradients that are formed and clipped record by record."""

    def of_record(record: Records) -> Tree:
        cut, weight = clipped(jax.grad(loss)(params, *_flat(record)), clip), getattr(record.batch, "weight", None)
        return cut if weight is None else jax.tree.map(lambda leaf: jnp.where(weight > 0, leaf, 0), cut)

    each = jax.vmap(of_record, in_axes=(records.axes,))(records)
    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), each)


def _flat(record: Records) -> tuple[Any, ...]:
    return (record.batch, *record.keys)
