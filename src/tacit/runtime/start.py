"""First parameters of a run."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core import limits
from tacit.core.contract import Algorithm, Array, Batch, Objective, Params
from tacit.core.errors import ConfigError, ContractError
from tacit.runtime.calls import same_structure


class FirstParams(NamedTuple):
    """Where the agents of a run begin."""

    common: Params
    """Of everybody who has none of its own."""
    own: tuple[Params, ...] | None
    """Of each learner, where they differ."""


def starting_points(
    algorithm: Algorithm, spec: Batch, dtype: jnp.dtype, start: Params | Callable[[int], Params] | None, learners: int
) -> FirstParams:
    """Return the first parameters of a run whose `start` is given for all, or as a function of the learner's number."""
    if not callable(start):
        return FirstParams(first_params(algorithm, spec, dtype, start), None)
    own = tuple(first_params(algorithm, spec, dtype, start(learner)) for learner in range(learners))
    return FirstParams(own[0], own)


def first_params(algorithm: Algorithm, spec: Batch, dtype: jnp.dtype, start: Params | None) -> Params:
    """Return the parameters from which every agent starts, floating leaves in the run's precision."""
    own = jax.tree.map(lambda leaf: _cast(jnp.asarray(leaf), dtype), _initial(algorithm.objective, spec))
    if start is None:
        return own if algorithm.domain is None else algorithm.domain.first(own)
    if not same_structure(start, own) or any(map(_misshapen, jax.tree.leaves(start), jax.tree.leaves(own))):
        raise ConfigError(
            f"the start is {jax.tree.map(jnp.shape, start)}; expected the shapes of the parameters of "
            f"{algorithm.objective.name!r}, {jax.tree.map(jnp.shape, own)}"
        )
    given = jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), start, own)
    if algorithm.domain is None:
        return given
    fault = algorithm.domain.fault(given)
    if fault is not None:
        raise ConfigError(
            f"the start lies outside of the set of {algorithm.name!r} ({algorithm.domain}): {fault}; give one inside, "
            "or none, and the run begins inside"
        )
    return given


def _initial(objective: Objective, spec: Batch) -> Params:
    """Return an objective's first parameters; it is shown shapes alone, so that they hold nothing of the data."""
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), spec)
    limits.refuse_beyond(model_bytes(foretold(objective, shapes)), f"a model of {objective.name!r}")
    try:
        return objective.initial(shapes)
    except OverflowError as error:
        raise ConfigError(f"objective {objective.name!r}: a model is too large ({error}); make it smaller") from error
    except TypeError as error:
        raise ContractError(
            f"objective {objective.name!r}: initial was shown the shapes of a batch, {shapes}, and failed ({error}); "
            "make the first parameters of shapes and types, not of values"
        ) from error


def foretold(objective: Objective, spec: Batch) -> Params:
    """Return the shapes of a model, without making one; nothing where only the call itself can tell."""
    initial = inspect.unwrap(objective.initial)  # a cache around it would keep what belongs to the trace
    try:
        return jax.eval_shape(lambda: initial(spec))
    except Exception:  # functions that need numbers raise anything where there are shapes alone
        return ()


def model_bytes(model: Params) -> int:
    """Return what the arrays of one model take, or would take."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(model))


def model_size(model: Params) -> int:
    """Return how many numbers a model has."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(model))


def _misshapen(leaf: Any, like: Array) -> bool:
    return jnp.shape(leaf) != like.shape


def _cast(leaf: Array, dtype: jnp.dtype) -> Array:
    return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
