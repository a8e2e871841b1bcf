"""Attacks: what a liar sends in place of its message x, over each of its links.

    sign_flip            - s x
    large_values         s in every coordinate
    a_little_is_enough   mean - z deviation, of the honest messages, coordinate by coordinate
    inner_product        - epsilon mean of the honest messages
    dissensus            x_i - epsilon sum_k W[i, k] (x_k - x_i) / sum_l W[i, l], over the honest neighbours k and the
                         lying ones l of the receiver i: as far from its neighbours as they would draw it to them
    stale_replay         its own message of an early round, over and over
    label_flip           what an honest agent would send, had its labels been the wrong ones

The third to fifth know the messages of all honest agents before they send; as real peers they know what they have heard
(`lying`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tacit.core.checks import positive, whole_number
from tacit.core.contract import Array


class Scene(NamedTuple):
    """What liars know as they send, one row per link that leads from one of them."""

    round: Array
    """t = 1, 2, ..."""
    sent: Array
    """(L, d) messages that they would send."""
    kept: Array
    """(L, d) what was kept of earlier ones, as `Attack.keeps` says; zeros where nothing is."""
    own: Array
    """(L, d) messages of the receivers themselves; where these send none, the mean of the honest ones."""
    mean: Array
    """(L, d) of all honest messages."""
    deviation: Array
    """(L, d) their standard deviation, coordinate by coordinate."""
    pull: Array
    """(L, d) sum over the receiver's honest neighbours of W (their message - its own), over the liars' weight."""


class Attack(NamedTuple):
    """One way to lie."""

    name: str
    """For tables and messages."""
    lie: Callable[[Scene], Array] | None = None
    """What goes out instead; None: nothing else does."""
    keeps: int = 0
    """Rounds of which the last message is kept, for `Scene.kept`."""
    labels: Callable[[Any], Any] | None = None
    """What is learnt in place of the labels."""
    hears: bool = False
    """Whether a lie is made of honest messages, which a real liar has to hear."""

    def __repr__(self) -> str:
        return f"Attack({self.name})"


def sign_flip(scale: float = 1.0) -> Attack:
    """Attack that sends the opposite of the own message.

    Args:
      scale: Factor, above 0.

    Example:
      >>> import tacit
      >>> tacit.attacks.sign_flip()
      Attack(sign_flip)
    """
    factor = positive("scale", scale)
    return Attack("sign_flip", lambda scene: -factor * scene.sent)


def large_values(size: float = 1e6) -> Attack:
    """Attack that sends one large finite number in every coordinate.

    Args:
      size: The number, above 0.
    """
    number = positive("size", size)
    return Attack("large_values", lambda scene: jnp.full_like(scene.sent, number))


def a_little_is_enough(z: float = 1.5) -> Attack:
    """Attack that shifts every coordinate by a little, all liars alike, within what honest messages differ by.

    Args:
      z: How many standard deviations, above 0.

    References:
      Baruch, Baruch and Goldberg (2019).
    """
    factor = positive("z", z)
    return Attack("a_little_is_enough", lambda scene: scene.mean - factor * scene.deviation, hears=True)


def inner_product(epsilon: float = 0.5) -> Attack:
    """Attack that sends the opposite of the honest mean, shortened, so that a plain mean turns round.

    Args:
      epsilon: Factor, above 0.

    References:
      Xie, Koyejo and Gupta (2020).
    """
    factor = positive("epsilon", epsilon)
    return Attack("inner_product", lambda scene: -factor * scene.mean, hears=True)


def dissensus(epsilon: float = 1.0) -> Attack:
    """Attack that sends every receiver what keeps it apart from its honest neighbours.

    Args:
      epsilon: Factor, above 0; with 1 it undoes what they send.

    References:
      He, Karimireddy and Jaggi (2022).
    """
    factor = positive("epsilon", epsilon)
    return Attack("dissensus", lambda scene: scene.own - factor * scene.pull, hears=True)


def stale_replay(after: int = 1) -> Attack:
    """Attack that sends its own message of one round in all later ones.

    Args:
      after: The round, from 1 on.
    """
    after = whole_number("after", after, "the round whose message is sent again", most=2**31 - 1)
    return Attack("stale_replay", lambda scene: jnp.where(scene.round <= after, scene.sent, scene.kept), after)


def label_flip(classes: int = 2) -> Attack:
    """Attack of an agent that follows the method with false labels.

    Args:
      classes: Number of classes of labels 0, 1, ...: class k becomes classes - 1 - k. Labels that are no whole numbers
        (-1 and 1, or those of a regression) change their sign.
    """
    whole_number("classes", classes, least=2)

    def flipped(y: Any) -> Any:
        return classes - 1 - y if np.issubdtype(y.dtype, np.integer) else -y

    return Attack("label_flip", labels=flipped)


ATTACKS: Mapping[str, Callable[..., Attack]] = MappingProxyType(
    {
        made.__name__: made
        for made in (
            sign_flip,
            large_values,
            a_little_is_enough,
            inner_product,
            dissensus,
            stale_replay,
            label_flip,
        )
    }
)
"""Name -> its constructor."""
