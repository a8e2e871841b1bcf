"""Networks with convolutions on a CPU: agents one after the other, and convolutions in the one form that is fast.

XLA has a fast routine for convolutions of (batch, places, channels) with (places, inputs, outputs). It brings others
into that form too, but not inside a loop, and a simulation is one: there the convolutions of a gradient, which are in
another form, are left to a routine that is many times slower. So they are written in that form here. And one agent
after the other is faster than all at once: with weights of its own for each, `jax.vmap` makes one grouped convolution,
and what lies between two layers no longer fits the processor's cache. Maxima of windows that do not overlap (pooling)
and their gradients are likewise written as comparisons. On other devices nothing of this is done.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.extend.core as program
import jax.numpy as jnp

from tacit.core.contract import Algorithm, Batch, Params, Tree, View
from tacit.core.messages import Array
from tacit.privacy.per_record.rewriting import Operation, contains, run, traced, walk
from tacit.runtime.calls import with_data

CONVOLUTION = "conv_general_dilated"
MOST_PLACES = 16
"""Of a window that is compared place by place."""


def convolves(algorithm: Algorithm, params: Params, batch: Batch, views: Mapping[str, Mapping[str, View]]) -> bool:
    """Whether learners of a method compute convolutions, and do so where their form matters.

    Args:
      algorithm: The method; what its learners compute has been traced before, so that it is looked up here.
      params: First parameters, or their shapes.
      batch: Of one agent, likewise.
      views: One agent's view per role and link set.
    """
    if jax.default_backend() != "cpu":
        return False
    role, key = algorithm.learner, jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(algorithm.init[role], key, params, views[role])
    for phase in algorithm.phases:
        if phase.source == role:
            view, own = jax.eval_shape(with_data, views[role][phase.links], batch)
            if contains(jax.make_jaxpr(phase.compute)(key, state, own, view), CONVOLUTION):
                return True
    return False


def in_fast_form(function: Callable[..., Tree]) -> Callable[..., Tree]:
    """Return a function with its convolutions in the form that is fast on a CPU, those of its loops and branches too.

    Args:
      function: Of pytrees of arrays. Derivatives are taken before, not afterwards.
    """

    def fast(*arguments: Tree) -> Tree:
        closed, structure = traced(function, *arguments)
        return jax.tree.unflatten(structure, walk(closed, jax.tree.leaves(arguments), _fast))

    return fast


def one_by_one(function: Callable[..., Tree], in_axes: Any = 0) -> Callable[..., Tree]:
    """Map a function over agents as `jax.vmap` does, one after the other and in the fast form.

    Args:
      function: Of one agent.
      in_axes: As `jax.vmap` takes them.
    """
    fast = in_fast_form(function)

    def mapped(*arguments: Tree) -> Tree:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(arguments)

        def of(number: Array) -> Tree:
            return fast(*picked(number, axes, arguments))

        agents = jax.tree.leaves(arguments[0])[0].shape[0]
        return jax.lax.map(of, jnp.arange(agents))

    return mapped


def picked(number: Array, axes: tuple[Any, ...], arguments: tuple[Tree, ...]) -> tuple[Tree, ...]:
    """Return one agent's part of arguments that have the agents along these axes.

    Args:
      number: Of the agent.
      axes: As `jax.vmap` takes them; None: for all agents alike.
      arguments: Of all agents.
    """

    def pick(axis: int | None, given: Tree) -> Tree:
        if axis is None:
            return given
        return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, number, axis, keepdims=False), given)

    found: tuple[Tree, ...] = jax.tree.map(pick, axes, arguments, is_leaf=lambda axis: axis is None)
    return found


def _fast(operation: Operation, operands: list[Any]) -> list[Any]:
    settings = operation.params
    if operation.primitive.name == CONVOLUTION:
        return [_convolved(settings, *operands)]
    if operation.primitive.name == "reduce_window_max" and _side_by_side(settings):
        return [_largest(_in_windows(settings, *operands))]
    if operation.primitive.name == "select_and_scatter_add" and _side_by_side(settings):
        return [_handed_back(settings, *operands)]
    if not any(contains(part, CONVOLUTION) for value in settings.values() for part in _parts(value)):
        return run(operation, operands)
    own = settings.get("call_jaxpr")
    if own is not None:  # a function with a derivative of its own, which has been taken
        return walk(own, operands, _fast)
    again = {name: _again(value) for name, value in settings.items()}
    found = operation.primitive.bind(*operands, **operation.primitive.get_bind_params(again))
    return list(found) if operation.primitive.multiple_results else [found]


def _parts(value: Any) -> list[Any]:
    several = value if isinstance(value, tuple | list) else (value,)
    return [part for part in several if isinstance(part, program.ClosedJaxpr | program.Jaxpr)]


def _again(value: Any) -> Any:
    """Return a program that is a parameter of an operation (the body of a loop) in the fast form."""
    if isinstance(value, tuple) and _parts(value):
        return tuple(map(_again, value))
    if not isinstance(value, program.ClosedJaxpr) or not contains(value, CONVOLUTION):
        return value
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in value.in_avals]
    return jax.make_jaxpr(lambda *operands: walk(value, operands, _fast))(*shapes)


def _convolved(settings: Any, image: Array, kernel: Array) -> Array:
    """Return a convolution, computed with images (batch, places, channels) and kernels (places, inputs, outputs)."""
    if settings["batch_group_count"] != 1:
        found: Array = jax.lax.conv_general_dilated_p.bind(image, kernel, **settings)
        return found
    numbers, axes = settings["dimension_numbers"], range(image.ndim)
    (first, channels, *places), (outputs, inputs, *taps) = numbers.lhs_spec, numbers.rhs_spec
    last = image.ndim - 1
    images, kernels = (0, last, *axes[1:last]), (last, last - 1, *axes[: last - 1])
    made = jax.lax.conv_general_dilated_p.bind(
        image.transpose(first, *places, channels),
        kernel.transpose(*taps, inputs, outputs),
        **{**settings, "dimension_numbers": jax.lax.ConvDimensionNumbers(images, kernels, images)},
    )
    (batch, features, *rest) = numbers.out_spec
    order = (batch, *rest, features)
    back: Array = made.transpose([order.index(k) for k in axes])
    return back


def _side_by_side(settings: Any) -> bool:
    """Whether windows neither overlap nor leave gaps nor reach beyond the edge, and their largest number is wanted."""
    window = settings["window_dimensions"]
    return (
        tuple(settings["window_strides"]) == tuple(window)
        and all(tuple(edge) == (0, 0) for edge in settings["padding"])
        and all(n == 1 for name in ("base_dilation", "window_dilation") for n in settings.get(name, ()))
        and settings.get("select_prim", jax.lax.ge_p) is jax.lax.ge_p
        and math.prod(window) <= MOST_PLACES
    )


def _in_windows(settings: Any, image: Array) -> list[Array]:
    """Return what is in each place of all windows, place after place."""
    window = settings["window_dimensions"]
    whole = [n // side for n, side in zip(image.shape, window, strict=True)]
    image = image[tuple(slice(n * side) for n, side in zip(whole, window, strict=True))]
    split = image.reshape([n for pair in zip(whole, window, strict=True) for n in pair])
    places = itertools.product(*map(range, window))
    return [split[tuple(at for k in place for at in (slice(None), k))] for place in places]


def _largest(places: list[Array]) -> Array:
    return functools.reduce(jnp.maximum, places)


def _handed_back(settings: Any, source: Array, image: Array) -> Array:
    """Return each window's number of `source` at the first place where `image` is largest in it, and 0 elsewhere."""
    places, window = _in_windows(settings, image), settings["window_dimensions"]
    largest, free = _largest(places), jnp.ones(source.shape, bool)
    parts = []
    for place in places:
        here = free & (place == largest)
        parts.append(jnp.where(here, source, jnp.zeros((), source.dtype)))
        free &= ~here
    axes, ndim = jnp.stack(parts).reshape(*window, *source.shape), image.ndim
    together = axes.transpose([k for d in range(ndim) for k in (ndim + d, d)])
    whole = together.reshape([n * side for n, side in zip(source.shape, window, strict=True)])
    return jnp.pad(whole, [(0, n - m) for n, m in zip(image.shape, whole.shape, strict=True)])
