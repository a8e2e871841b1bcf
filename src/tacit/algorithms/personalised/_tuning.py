"""How a peer tunes the strength with which other clusters pull it: by what a change does to a loss (001 ch. 6).

With V(tau) the loss of w_k(tau) on records held back, clipped to [0, 1]:

    "gradient"       tau <- tau - rate dV / dtau, of half the text's loss half its slope     (6.13), DPG
    "actor_critic"   a = tau + alpha, alpha uniform on [-width / 2, width / 2];
                     tau <- tau - rate sign(V(a) - V(tau)) alpha                             (6.14), SAC

Several `epochs` in a row are the text's batch versions. "fixed" leaves tau as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.validation import positive_number, whole_number
from tacit.core.contract import Array, Key, Mechanism
from tacit.core.errors import ConfigError

Policy = Literal["fixed", "gradient", "actor_critic"]
Judged = Callable[[Array], Array]
"""Strength -> the loss on records held back."""


def mover(policy: Policy, judged: Judged, rate: float, width: float, epochs: int) -> Callable[[Key, Array], Array]:
    """Return a round's moves of the strength within [0, 1], of a policy that tunes it."""
    move = _gradient(judged, rate) if policy == "gradient" else _actor_critic(judged, rate, width)

    def moves(key: Key, tau: Array) -> Array:
        moved: Array = jax.lax.fori_loop(0, epochs, lambda e, at: move(jax.random.fold_in(key, e), at), tau)
        return moved

    return moves


def _gradient(judged: Judged, rate: float) -> Callable[[Key, Array], Array]:
    slope = jax.grad(judged)
    return lambda key, tau: jnp.clip(tau - rate * slope(tau), 0, 1)


def _actor_critic(judged: Judged, rate: float, width: float) -> Callable[[Key, Array], Array]:
    def move(key: Key, tau: Array) -> Array:
        alpha = jax.random.uniform(key, (), tau.dtype, -width / 2, width / 2)
        # One program judges both: where the strength changes nothing they come out the same, to the bit.
        tried, now = jax.vmap(judged)(jnp.stack([jnp.clip(tau + alpha, 0, 1), tau]))
        return jnp.clip(tau - rate * jnp.sign(tried - now) * alpha, 0, 1)

    return move


def checked(mechanism: Mechanism, tau: float, policy: str, rate: float, width: float, epochs: int) -> bool:
    """Return whether tau is tuned."""
    if policy not in get_args(Policy):
        raise ConfigError(f"policy = {policy!r}: expected one of {', '.join(get_args(Policy))}")
    if isinstance(tau, bool) or not isinstance(tau, int | float) or not 0 <= tau <= 1:
        raise ConfigError(f"tau = {tau!r}: expected a number from 0 (clusters apart) to 1")
    positive_number("rate", rate, "how far a move of tau goes")
    positive_number("width", width, "of the interval in which a change of tau is tried")
    whole_number("epochs", epochs, "how often tau moves in a round")
    if policy == "fixed":
        return False
    if mechanism.distribution is not None or mechanism.perturbs != "model":
        raise ConfigError(
            f"policy = {policy!r} with mechanism {mechanism.name!r}: a strength tuned on data enters every model that "
            "is sent, past the noise; keep tau fixed, or send models as they are"
        )
    return True
