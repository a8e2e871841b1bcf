"""Slots of a state: which axes of its arrays run along an agent's links, found by making a state with one link more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Algorithm, Key, Links, Params, State, View
from tacit.core.errors import ContractError

Side = Literal["out", "into"]
NO_SLOT = -1
"""In the place of a slot from which nothing is taken over."""


def moved_state(
    algorithm: Algorithm,
    role: str,
    key: Key,
    params: Params,
    state: State,
    views: Mapping[str, View],
    kept: Mapping[str, Mapping[Side, Sequence[int]]],
) -> State:
    """Return a state in which memories of links are where the links are now; those of new links are as at the start.

    Args:
      algorithm: The method.
      role: Of the agent.
      key: Its random key.
      params: Parameters that it began with, for the memories of new links.
      state: Its present state.
      views: Its view of each link set, of the new size.
      kept: Link set -> side -> for each new slot the old one that it takes over, or `NO_SLOT`.
    """
    make = algorithm.init[role]
    fresh = make(key, params, views)
    for links, sides in kept.items():
        for side, sources in sides.items():
            axes = _axes(algorithm, role, key, params, views, links, side)
            state = jax.tree.map(
                lambda now, new, axis, sources=sources: now if axis < 0 else _taken_over(now, new, axis, sources),
                state,
                fresh,
                axes,
            )
    return state


def _taken_over(old: Any, new: Any, axis: int, sources: Sequence[int]) -> Any:
    before, fresh = np.asarray(old), np.asarray(new)
    known = [0 <= source < before.shape[axis] for source in sources]
    rows = np.take(before, [source if there else 0 for source, there in zip(sources, known, strict=True)], axis)
    shape = [1] * rows.ndim
    shape[axis] = len(sources)
    return jnp.asarray(np.where(np.reshape(known, shape), rows, fresh).astype(before.dtype))


def _axes(
    algorithm: Algorithm, role: str, key: Key, params: Params, views: Mapping[str, View], links: str, side: Side
) -> State:
    """Return, for each leaf of a state, the axis that runs along one side of a link set; -1 where none does."""

    def shapes(of: Mapping[str, View]) -> State:
        return jax.eval_shape(algorithm.init[role], key, params, of)

    now = views[links]
    longer = now._replace(out=_longer(now.out)) if side == "out" else now._replace(into=_longer(now.into))

    def axis(now: Any, then: Any) -> int:
        grown = [k for k, (a, b) in enumerate(zip(now.shape, then.shape, strict=True)) if a != b]
        if len(grown) > 1 or any(then.shape[k] != now.shape[k] + 1 for k in grown):
            raise ContractError(
                f"algorithm {algorithm.name!r}: an array of the state goes from {now.shape} to {then.shape} with one "
                "link more, so that its memories of links cannot be told apart; give each side of the links one axis"
            )
        return grown[0] if grown else -1

    return jax.tree.map(axis, shapes(views), shapes({**views, links: longer}))


def _longer(side: Links) -> Links:
    return Links(*(jnp.concatenate([leaf, leaf[-1:]]) for leaf in side))
