"""DOLA as the experiments run it: size, place and name of the noise."""

from __future__ import annotations

from typing import Literal

from tacit.core.contract import Mechanism
from tacit.privacy import laplace, unprotected

NoiseOrder = Literal["text", "ours"]
ORDERS: dict[NoiseOrder, str] = {
    "text": "the text's order",
    "ours": "our order",
}
"""The text projects and then adds noise to the model; we add it to the step and then project, which is free."""
LIPSCHITZ = 1.0
"""L: rows of length 1 at most have hinge gradients of length 1 at most, so that the clip changes nothing."""
SEEDS_APART = 1000
"""Experiments with different seeds share no data, order or noise."""


def noise(epsilon: float | None, order: NoiseOrder) -> Mechanism:
    """Return Laplace noise of scale S(t) / eps, S(t) = 2 a_t sqrt(d) L / h as in Lemmas 1 and 7; None: no noise."""
    if epsilon is None:
        return unprotected
    return laplace(epsilon, LIPSCHITZ, "l2", "model" if order == "text" else "update")


def pegasos_radius(l2: float) -> float:
    """Return 1 / sqrt(lambda): the best model of a hinge loss with this regulariser is never longer."""
    return float(l2**-0.5)


def level(epsilon: float | None) -> str:
    """Return "eps = 0.1" or "no noise"."""
    return "no noise" if epsilon is None else f"eps = {epsilon:g}"


def in_words(nodes: int) -> str:
    """Return "1 node" or "4 nodes"."""
    return f"{nodes} node{'' if nodes == 1 else 's'}"
