"""Flax linen modules as networks; the parameters are linen's own nested dict."""

from __future__ import annotations

from typing import Any

import jax

from tacit.core.contract import Array, Key, Params
from tacit.core.errors import ConfigError
from tacit.objectives.own_models.networks import Network, modes, refuse_statistics


def linen_network(module: Any, params: Any, seed: int) -> Network:
    """Return a linen module as a network.

    Args:
      module: Its `__call__` takes rows, and may take `train` or `deterministic`: then it may draw.
      params: First parameters, those under "params"; None: drawn by the seed for rows of the shape of the data.
      seed: Of these.
    """
    in_training, in_evaluation = modes(type(module).__call__)

    def first(x: Array) -> Params:
        key, dropout = jax.random.split(jax.random.key(seed))
        variables = module.init({"params": key, "dropout": dropout}, x, **in_evaluation)
        others = set(variables) - {"params"}
        if others:
            refuse_statistics(", ".join(sorted(others)), "linen.LayerNorm or linen.GroupNorm")
        if "params" not in variables:
            raise ConfigError(f"{type(module).__name__} has no parameters, so that nothing is learnt")
        return variables["params"] if params is None else params.get("params", params)

    def outputs(values: Params, x: Array, key: Key | None) -> Array:
        told, rngs = (in_evaluation, None) if key is None else (in_training, {"dropout": key})
        found: Array = module.apply({"params": values}, x, rngs=rngs, **told)
        return found

    return Network(type(module).__name__, first, outputs, bool(in_training), lambda values: {"params": values})
