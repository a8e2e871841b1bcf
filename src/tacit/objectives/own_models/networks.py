"""One form for models of all libraries: a function of parameters, rows and a key, and what else has to be known.

A library is imported only where an object of it was handed over; which library that is, its class says.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp

from tacit.core.contract import Array, Key, Params
from tacit.core.errors import ConfigError

IN_TRAINING = {
    "train": True, "training": True, "is_training": True, "deterministic": False, "inference": False,
}  # fmt: skip
"""Name of a parameter of a model's call -> its value in training; in evaluation it has the other one."""


class Network(NamedTuple):
    """A model as functions."""

    name: str
    first: Callable[[Array], Params]
    """Rows (1, ...) -> first parameters: those arrays of the model that are learnt, all of them floating."""
    outputs: Callable[[Params, Array, Key | None], Array]
    """Parameters, rows (b, ...) and a key -> outputs (b, ...); without a key as in evaluation."""
    draws: bool
    """Whether it takes the key in training (dropout)."""
    rebuilt: Callable[[Params], Any]
    """Parameters -> the model as its library has it, for evaluation."""


def network_of(model: Any, params: Any, seed: int) -> Network:
    """Return a model as functions.

    Args:
      model: A Flax module (nnx or linen), an Equinox module, or a function of parameters and rows.
      params: First parameters, where the model does not bring them.
      seed: Of first parameters that are drawn here.
    """
    if isinstance(model, type):
        raise ConfigError(f"model = {model.__name__}, a class: give it made, e.g. {model.__name__}(rngs=nnx.Rngs(0))")
    families = {base.__module__.removeprefix("flax.").partition(".")[0] for base in type(model).__mro__}
    if "nnx" in families:
        from tacit.objectives.own_models.nnx_models import nnx_network

        return nnx_network(model, params)
    if "linen" in families:
        from tacit.objectives.own_models.linen_models import linen_network

        return linen_network(model, params, seed)
    if "equinox" in families:
        from tacit.objectives.own_models.equinox_models import equinox_network

        return equinox_network(model, params)
    if isinstance(model, tuple) and len(model) == 2:
        refuse_statistics("the model and its state", "equinox.nn.LayerNorm or GroupNorm")
    return _plain(model, params)


def _plain(apply: Callable[..., Array], params: Any) -> Network:
    if not callable(apply):
        raise ConfigError(f"model = {apply!r}: expected a Flax or Equinox module, or a function apply(params, x)")
    if params is None or not any(map(is_learnt, jax.tree.leaves(params))):
        raise ConfigError(
            f"params = {params!r}: a function apply(params, x) needs first parameters, a tree with at least one array "
            "of floating numbers: from_model(apply, loss, params)"
        )
    draws = "key" in parameters_of(apply)
    learnt, fixed = parted(jax.tree.map(_array, params))

    def outputs(values: Params, x: Array, key: Key | None) -> Array:
        return apply(joined(values, fixed), x, key=key) if draws else apply(joined(values, fixed), x)

    name = getattr(apply, "__name__", type(apply).__name__)
    return Network(name.strip("<>"), lambda x: learnt, outputs, draws, lambda values: joined(values, fixed))


def _array(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, jax.Array) or hasattr(leaf, "dtype") else leaf


def is_learnt(leaf: Any) -> bool:
    """Return whether a leaf is learnt: an array of floating numbers. Whole numbers and all else stay as they are."""
    return hasattr(leaf, "dtype") and bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def parted(tree: Any) -> tuple[Params, Any]:
    """Return a tree with its learnt leaves alone, and one with the others; None is in the place of what is missing."""
    learnt = jax.tree.map(lambda leaf: leaf if is_learnt(leaf) else None, tree)
    return learnt, jax.tree.map(lambda leaf: None if is_learnt(leaf) else leaf, tree)


def joined(learnt: Params, fixed: Any) -> Any:
    """Return the tree that `parted` parted."""
    return jax.tree.map(lambda a, b: b if a is None else a, learnt, fixed, is_leaf=lambda leaf: leaf is None)


def parameters_of(call: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function; none where they cannot be told."""
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):
        return {}


def modes(call: Callable[..., Any]) -> tuple[dict[str, bool], dict[str, bool]]:
    """Return what a model's call is told in training, and in evaluation, by the names of its parameters."""
    told = {name: IN_TRAINING[name] for name in parameters_of(call) if name in IN_TRAINING}
    return told, {name: not value for name, value in told.items()}


def refuse_statistics(what: str, instead: str) -> NoReturn:
    """Refuse a model that keeps statistics of batches.

    They are means over records: no clip of single records bounds what one of them changes, an agent's own differ from
    its neighbours', and parameters that are averaged do not fit them.
    """
    raise ConfigError(
        f"the model keeps statistics of its batches ({what}), as batch normalisation does: they mix records, so that "
        "no clip bounds what one record changes, and averaged parameters do not fit them; "
        f"use {instead}, which normalise each record by itself"
    )
