"""Flax nnx modules as networks; its parameters are a dict by path, e.g. ``{"hidden.kernel": ...}``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from tacit.core.contract import Array, Key, Params
from tacit.core.errors import ConfigError
from tacit.objectives.own_models.networks import Network, is_learnt, modes, refuse_statistics


def nnx_network(module: Any, params: Any) -> Network:
    """Return an nnx module as a network. The module itself stays as it is.

    Args:
      module: Made with its first parameters, which are learnt; streams of keys in it are for dropout.
      params: None: the module has its own.
    """
    if params is not None:
        raise ConfigError("params = ...: an nnx module has its first parameters; put others into the module itself")
    training, evaluation = nnx.clone(module), nnx.clone(module)
    training.train()
    evaluation.eval()
    in_training, in_evaluation = modes(module)
    parts: Any = nnx.split(training, nnx.Param, nnx.RngState, ...)
    graph, learnt, streams, rest = parts
    still = nnx.graphdef(evaluation)
    for path, variable in nnx.to_flat_state(rest):
        if isinstance(variable, nnx.Variable):
            refuse_statistics(f"{_name(path)}, {type(variable).__name__}", "nnx.LayerNorm or nnx.GroupNorm")
    flat, keys = list(nnx.to_flat_state(learnt)), list(nnx.to_flat_state(streams))
    first = {_name(path): variable.get_value() for path, variable in flat if is_learnt(variable.get_value())}
    if not first:
        raise ConfigError(f"{type(module).__name__} has no nnx.Param of floating numbers, so that nothing is learnt")

    def merged(form: Any, values: Params, key: Key | None) -> Any:
        state = [(path, variable.replace(values.get(_name(path), variable.get_value()))) for path, variable in flat]
        drawn = [(path, _stream(variable, key, place)) for place, (path, variable) in enumerate(keys)]
        return nnx.merge(form, nnx.from_flat_state(state), nnx.from_flat_state(drawn), rest)

    def outputs(values: Params, x: Array, key: Key | None) -> Array:
        form, told = (still, in_evaluation) if key is None else (graph, in_training)
        found: Array = merged(form, values, key)(x, **told)
        return found

    name = type(module).__name__
    return Network(name, lambda x: first, outputs, bool(keys), lambda values: merged(still, values, None))


def _stream(variable: Any, key: Key | None, place: int) -> Any:
    """Return the variable of a stream of keys as of this key, new in any case: one of another trace cannot change."""
    if key is None or not isinstance(variable, nnx.RngKey):
        return variable.replace(jnp.copy(variable.get_value()))
    own = jax.random.fold_in(key, place)
    return variable.replace(own if jnp.issubdtype(own.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(own))


def _name(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))
