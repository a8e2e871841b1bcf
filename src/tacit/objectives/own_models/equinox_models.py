"""Equinox modules as networks; the parameters are a dict by path, e.g. ``{"layers.0.weight": ...}``."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax

from tacit.core.contract import Array, Key, Params
from tacit.core.errors import ConfigError
from tacit.objectives.own_models.networks import Network, parameters_of, refuse_statistics


def equinox_network(module: Any, params: Any) -> Network:
    """Return an Equinox module as a network.

    Args:
      module: A module of one record, as Equinox has it; rows are mapped over. With dropout its call takes `key`.
      params: None: the module has its own.
    """
    if params is not None:
        raise ConfigError("params = ...: an Equinox module has its first parameters; put others into the module itself")
    if any(isinstance(leaf, eqx.nn.StateIndex) for leaf in _leaves(module, eqx.nn.StateIndex)):
        refuse_statistics("an equinox.nn.StateIndex", "equinox.nn.LayerNorm or GroupNorm")
    training, evaluation = (eqx.nn.inference_mode(module, value) for value in (False, True))
    draws = any(leaf.p > 0 for leaf in _leaves(module, eqx.nn.Dropout) if isinstance(leaf, eqx.nn.Dropout))
    name = type(module).__name__
    if draws and "key" not in parameters_of(module):
        raise ConfigError(f"{name} has dropout, but its call takes no key; write __call__(self, x, *, key=None)")
    names = [_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(module)]
    first = {
        each: leaf for each, leaf in zip(names, jax.tree.leaves(module), strict=True) if eqx.is_inexact_array(leaf)
    }
    if not first:
        raise ConfigError(f"{name} has no array of floating numbers, so that nothing is learnt")

    def merged(values: Params, form: Any) -> Any:
        put = [values.get(each, leaf) for each, leaf in zip(names, jax.tree.leaves(form), strict=True)]
        return jax.tree.unflatten(jax.tree.structure(form), put)

    def outputs(values: Params, x: Array, key: Key | None) -> Array:
        made = merged(values, evaluation if key is None else training)
        if key is None or not draws:
            found: Array = jax.vmap(made)(x)
            return found
        drawn: Array = jax.vmap(lambda row, own: made(row, key=own))(x, jax.random.split(key, x.shape[0]))
        return drawn

    return Network(name, lambda x: first, outputs, draws, lambda values: merged(values, evaluation))


def _leaves(module: Any, kind: type) -> list[Any]:
    return jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, kind))


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
