"""Layers of a loss: where its parameters meet its data, read off the trace of one record.

A parameter that goes into the whole loss by one matrix product, one convolution or one look-up has a gradient that is a
product of two matrices: the rows that the layer saw, and what the loss says of its output, row by row.

    P (rows, inputs), G (rows, outputs)      gradient = P^T G

So a record's gradient need not be formed: P and G say all of it. Between parameter and layer may stand what moves
numbers about without changing them (a transposition, another shape) and a change of precision, whose derivative is 1.
A parameter that is used in another way, or twice, is not of this kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.contract import Array
from tacit.privacy.per_record.convolution import patches
from tacit.privacy.per_record.rewriting import Operation, run

_MOVES = {"reshape", "transpose", "squeeze", "expand_dims", "copy", "copy_p", "rev", "convert_element_type"}
"""Operations that a parameter may go through on its way to a layer."""


class Product(NamedTuple):
    """A matrix product with data on one side."""

    moves: tuple[Operation, ...]
    operation: Operation
    side: int
    """Operand that the parameter is."""

    def matrices(self, seen: Array, said: Array) -> tuple[Array, Array]:
        """Return P and G."""
        _, theirs = self._contracted
        free = [k for k in range(seen.ndim) if k not in theirs]
        inputs = seen.transpose(*free, *theirs).reshape(-1, math.prod(seen.shape[k] for k in theirs))
        first = len(free)
        if self.side == 1:
            return inputs, said.reshape(inputs.shape[0], -1)
        outputs = said.ndim - first
        return inputs, jnp.moveaxis(said, range(outputs), range(first, said.ndim)).reshape(inputs.shape[0], -1)

    def placed(self, matrix: Array) -> Array:
        """Return P^T G in the parameter's own shape, as the layer takes it."""
        mine, _ = self._contracted
        shape = self.operation.invars[self.side].aval.shape
        order = (*mine, *(k for k in range(len(shape)) if k not in mine))
        back = sorted(range(len(shape)), key=order.__getitem__)
        return matrix.reshape([shape[k] for k in order]).transpose(back)

    @property
    def _contracted(self) -> tuple[Sequence[int], Sequence[int]]:
        pairs = self.operation.params["dimension_numbers"][0]
        return pairs[self.side], pairs[1 - self.side]


class Convolution(NamedTuple):
    """A convolution of data with a kernel."""

    moves: tuple[Operation, ...]
    operation: Operation
    side: int = 1

    def matrices(self, seen: Array, said: Array) -> tuple[Array, Array]:
        """Return P and G: rows are patches."""
        _, _, out = self.operation.params["dimension_numbers"]
        rows = patches(seen, self.operation.invars[1].aval.shape, self.operation.params)
        outputs = said.transpose(out[0], *out[2:], out[1])
        return rows.reshape(-1, rows.shape[-1]), outputs.reshape(-1, outputs.shape[-1])

    def placed(self, matrix: Array) -> Array:
        """Return P^T G as a kernel."""
        shape, (_, kernel, _) = self.operation.invars[1].aval.shape, self.operation.params["dimension_numbers"]
        order = (*kernel[2:], kernel[1], kernel[0])
        back = sorted(range(len(shape)), key=order.__getitem__)
        return matrix.reshape([shape[k] for k in order]).transpose(back)


class Lookup(NamedTuple):
    """Rows of a table, taken by their numbers: P has one 1 in each row, and is kept as numbers."""

    moves: tuple[Operation, ...]
    operation: Operation
    side: int = 0

    def matrices(self, seen: Array, said: Array) -> tuple[Array, Array]:
        """Return the numbers of the rows, and G; a number out of range takes the row that the layer took, or none."""
        rows = self.operation.invars[0].aval.shape[0]
        number = seen.reshape(-1)
        outputs = said.reshape(number.shape[0], -1)
        if "FILL" in str(self.operation.params["mode"]):
            outputs = jnp.where(((number >= 0) & (number < rows))[:, None], outputs, 0)
        return jnp.clip(number, 0, rows - 1), outputs

    def placed(self, matrix: Array) -> Array:
        """Return a matrix (rows of the table, outputs) as the table."""
        shape: tuple[int, ...] = self.operation.invars[0].aval.shape
        return matrix.reshape(shape)


Layer = Product | Convolution | Lookup


class Followed(NamedTuple):
    """A parameter on its way."""

    value: Array
    leaf: int
    moves: tuple[Operation, ...] = ()


def plain(values: Sequence[Any]) -> list[Any]:
    """Return values without what is known of their way."""
    return [value.value if isinstance(value, Followed) else value for value in values]


def layer_of(operation: Operation, operands: Sequence[Any]) -> Layer | None:
    """Return the layer that an operation is for the one parameter among its operands; None where it is none."""
    followed = [k for k, value in enumerate(operands) if isinstance(value, Followed)]
    if len(followed) != 1:
        return None
    side, settings, moves = followed[0], operation.params, operands[followed[0]].moves
    name = operation.primitive.name
    if name == "dot_general" and settings["dimension_numbers"][1] == ((), ()):
        return Product(moves, operation, side)
    if name == "conv_general_dilated" and side == 1:
        alone = settings["feature_group_count"] == 1 and settings["batch_group_count"] == 1
        return Convolution(moves, operation) if alone else None
    if name == "gather" and side == 0 and _takes_rows(operation):
        return Lookup(moves, operation)
    return None


def _takes_rows(operation: Operation) -> bool:
    table, numbers = (v.aval.shape for v in operation.invars)
    taken = operation.params["dimension_numbers"]
    offsets = tuple(range(len(numbers) - 1, len(numbers) + len(table) - 2))
    return (
        taken.collapsed_slice_dims == (0,)
        and taken.start_index_map == (0,)
        and not taken.operand_batching_dims
        and tuple(taken.offset_dims) == offsets
        and tuple(operation.params["slice_sizes"]) == (1, *table[1:])
    )


def moved(operation: Operation, operands: Sequence[Any]) -> list[Any] | None:
    """Return a parameter after an operation that only moves it; None where the operation does more."""
    if operation.primitive.name not in _MOVES or not isinstance(operands[0], Followed) or len(operands) != 1:
        return None
    on_the_way = operands[0]
    if operation.primitive.name == "convert_element_type":
        if not jnp.issubdtype(operation.params["new_dtype"], jnp.floating):
            return None
        moves = on_the_way.moves
    else:
        moves = (*on_the_way.moves, operation)
    (value,) = run(operation, [on_the_way.value])
    return [Followed(value, on_the_way.leaf, moves)]


def unmoved(layer: Layer, taken: Array, leaf: Array) -> Array:
    """Take back what stood between a parameter and its layer."""

    def there(value: Array) -> Array:
        for operation in layer.moves:
            (value,) = run(operation, [value])
        return value

    way: Callable[[Array], tuple[Array]] = jax.linear_transpose(there, jax.ShapeDtypeStruct(leaf.shape, taken.dtype))
    return way(taken)[0]
