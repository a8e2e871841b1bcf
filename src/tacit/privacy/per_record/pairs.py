"""What a layer saw and what a loss says of its output, of all records of a batch: norms, and weighted sums.

What is needed of single records on the way (patches of images, gradients) is made for as many records at a time as
there is room for.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array
from tacit.privacy.per_record.blocks import ROOM, in_blocks, mapped
from tacit.privacy.per_record.layers import Convolution, Layer, Lookup, unmoved
from tacit.privacy.per_record.norms import Scale, Size, in_pairs, of_layer, product


class Pair(NamedTuple):
    """What a layer saw, and what the loss says of its output, of all records."""

    layer: Layer
    leaf: Array
    """The parameter."""
    seen: Array
    said: Array
    scales: tuple[Scale, Scale]

    @classmethod
    def of(cls, layer: Layer, leaf: Array, seen: Array, said: Array) -> Pair:
        """Take them in the parameter's precision, with their scales; numbers of rows have none."""
        said = said.astype(leaf.dtype)
        back = jax.vmap(lambda array: Scale.of([array]))(said)
        if isinstance(layer, Lookup):
            return cls(layer, leaf, seen, said, (Scale(jnp.zeros_like(back.exponent), back.finite), back))
        seen = seen.astype(leaf.dtype)
        return cls(layer, leaf, seen, said, (jax.vmap(lambda array: Scale.of([array]))(seen), back))

    @property
    def finite(self) -> Array:
        """Which records' arrays are finite."""
        return self.scales[0].finite & self.scales[1].finite

    @property
    def shapes(self) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        """Of one record's matrices."""
        found: tuple[Any, Any] = jax.eval_shape(self.layer.matrices, self.seen[0], self.said[0])
        return found

    @property
    def fits(self) -> bool:
        """Whether a record's gradient, made of several rows, is no larger than what it is made of.

        That does not depend on the number of records, so that one is clipped alike in any batch.
        """
        rows, outputs = self.shapes
        several = not isinstance(self.layer, Lookup) and rows.shape[0] > 1
        return several and rows.shape[-1] * outputs.shape[-1] * self.seen.shape[0] <= self.seen.size + self.said.size

    @property
    def at_once(self) -> int:
        """How many records' matrices there is room for."""
        rows, outputs = self.shapes
        formed = rows.shape[-1] * outputs.shape[-1] if self._forms else 0
        patches = int(rows.size) if isinstance(self.layer, Convolution) else 0
        return max(1, ROOM // max(1, patches + int(outputs.size) + formed))

    @property
    def _forms(self) -> bool:
        rows, outputs = self.shapes
        return rows.ndim == 2 and rows.shape[0] > 1 and not in_pairs(rows.shape[0], rows.shape[1], outputs.shape[1])

    def gradients(self) -> Array:
        """Return the gradients of all records, as matrices."""

        def of_one(pair: tuple[Array, Array]) -> Array:
            rows, outputs = self.layer.matrices(*pair)
            return product(rows.T, outputs)

        found: Array = mapped(of_one, (self.seen, self.said), self.at_once)
        return found

    def size(self) -> Size:
        """Return the norms of all records' gradients."""

        def of_one(pair: tuple[Array, Array, tuple[Scale, Scale]]) -> Array:
            return of_layer(self.layer, *self._divided(*pair)).mantissa

        shapes = [jnp.zeros(array.shape[1:], array.dtype) for array in (self.seen, self.said)]
        mantissa = mapped(of_one, (self.seen, self.said, self.scales), self.at_once)
        return Size(
            mantissa, self.scales[0].exponent + self.scales[1].exponent, of_layer(self.layer, *shapes).roundings
        )

    def weighed(self, weight: Array) -> Array:
        """Return the sum over the records of P^T (k G), in the shape of the parameter."""

        def of_some(some: tuple[Array, Array, tuple[Scale, Scale], Array]) -> Array:
            seen, said, scales, weights = some

            def of_one(pair: tuple[Array, Array, tuple[Scale, Scale]], weight: Array) -> tuple[Array, Array]:
                seen, said = self._divided(*pair)
                return self.layer.matrices(seen, said * weight.astype(said.dtype))

            rows, outputs = jax.vmap(of_one)((seen, said, scales), weights)
            outputs = outputs.reshape(-1, outputs.shape[-1])
            if isinstance(self.layer, Lookup):
                table = self.layer.operation.invars[0].aval.shape[0]
                return jnp.zeros((table, outputs.shape[-1]), outputs.dtype).at[rows.reshape(-1)].add(outputs)
            return product(rows.reshape(-1, rows.shape[-1]).T, outputs)

        at_once = self.at_once if isinstance(self.layer, Convolution) else self.seen.shape[0]
        summed: Array = in_blocks(of_some, (self.seen, self.said, self.scales, weight), at_once)
        return unmoved(self.layer, self.layer.placed(summed), self.leaf)

    def _divided(self, seen: Array, said: Array, scales: tuple[Scale, Scale]) -> tuple[Array, Array]:
        first, second = scales
        return seen if isinstance(self.layer, Lookup) else first.divided(seen), second.divided(said)
