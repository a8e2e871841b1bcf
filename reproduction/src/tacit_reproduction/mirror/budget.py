"""Two problems with a budget for the long run: buying goods at prices that swing, and a model whose use costs.

The Dissertation (ch. 3 and 4) shows plots of its bounds only, so the problems are ours. In both of them every agent
meets prices that swing with a season of `SEASON` rounds, each agent at its own time of it. A point that keeps every
window of K rounds therefore has to keep the dearest of these windows: the longer the window, the more of the season it
averages, and the larger is the set of such points, until K is the whole season. Points that keep every single round
exist: cash costs nothing, and neither does the zero model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Array, Objective, Params
from tacit.graphs import Graph, random_digraph
from tacit.objectives import Constraint, Euclidean, MirrorMap, Simplex, entropy, euclidean_ball, from_loss
from tacit.streams import Stream, from_function

AGENTS, LINKS = 16, 4
"""Everybody sends to 1 to 4 others, who need not send back."""
COORDINATES = 5
SEASON, SWING, JITTER = 100, 0.5, 0.03
"""Prices rise and fall by the share SWING in a season, and are off by up to the share JITTER besides; uniform."""
DEAREST = (1 + SWING) * (1 + JITTER)
"""Times its mean, a price is this high at most."""

GOODS_GAIN = np.array([0.0, 0.06, 0.20, 0.12, 0.30])
GOODS_PRICE = np.array([0.0, 0.5, 0.5, 1.0, 1.0])
"""Per unit; the first is cash."""
TASTE, LUCK = 0.05, 0.1
"""Deviations of an agent's gain from a good: up to TASTE for the whole run, up to LUCK in a round; uniform."""
PURSE = 0.5
"""Budget of an agent per round, on average."""
FEE = 0.4
"""A fee that no agent can pay in the dear season, in units of the last good's price."""

SIGNAL = np.array([3.0, -2.5, 2.0, -1.5, 1.0])
"""The model that labels are drawn with; each agent's own is off by up to SPREAD in each coordinate."""
SPREAD = 0.5
FEATURE_PRICE = np.array([0.30, 0.25, 0.20, 0.15, 0.10])
"""Of the square of a coordinate."""
RADIUS = 2.0
POWER = 0.15
"""Budget for the use of the model per round, on average."""


class Offer(NamedTuple):
    """Offer to an agent in a round: one record."""

    gain: Any
    """(goods,) per unit."""
    price: Any
    """(goods,) per unit."""


class Sample(NamedTuple):
    """An example, and what the use of each coordinate costs in this round: one record."""

    x: Any
    """(features,), of length 1 at most."""
    y: Any
    """+1 or -1."""
    price: Any
    """(features,)."""


class Bounds(NamedTuple):
    """Constants of the text's step size and damping (Dissertation, ch. 3, Theorem 1)."""

    divergence: float
    """b. On the simplex it is that from the start, the middle: between any two points it has no bound."""
    value: float
    """D, of the constraint's size."""
    slope: float
    """G, of gradients in the dual norm."""
    noise: Callable[[float], float]
    """Scale of Laplace noise -> mean square of its dual norm."""


@dataclass(frozen=True)
class Problem:
    """Losses, a budget, the set that models live in, and where data come from."""

    name: str
    words: str
    objective: Objective
    budget: Constraint
    mirror: MirrorMap
    """The geometry of mirror descent."""
    euclidean: Euclidean
    """Projections on the same set, the text's Lagrangian descent."""
    bounds: Bounds
    clip: float
    """Of the gradient of loss and weighted constraint."""
    wide_clip: float
    """Of both gradients and the constraint's value together."""
    draw: Callable[[int, int], Any]
    """(seed, rounds) -> all agents' records, leading axes (rounds, agents)."""

    def stream(self, seed: int, rounds: int) -> Stream:
        """Return a seed's data; a longer horizon begins with the rounds of a shorter one."""
        data = self.draw(seed, rounds)

        def part(start: int, stop: int) -> Any:
            return jax.tree.map(lambda leaf: leaf[start:stop], data)

        return from_function(part, agents=AGENTS, rounds=rounds, name=f"{self.name}, seed {seed}")


def network(seed: int) -> Graph:
    """Return a seed's one-sided digraph."""
    return random_digraph(AGENTS, LINKS, seed)


def _seasonal(mean: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """(SEASON, agents, coordinates) prices of one season: agents are spread evenly over the year."""
    turn = np.arange(SEASON)[:, None] / SEASON + np.arange(AGENTS) / AGENTS
    swing = 1 + SWING * np.sin(2 * np.pi * turn)
    return np.asarray(mean * swing[:, :, None] * rng.uniform(1 - JITTER, 1 + JITTER, (*swing.shape, mean.size)))


def _by_season(seed: int, rounds: int, draw: Callable[[np.random.Generator], Any]) -> Any:
    """Draw season by season, each from its own generator, so that first rounds do not depend on how many there are."""
    seasons = [draw(np.random.default_rng((seed, number))) for number in range(-(-rounds // SEASON))]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:rounds].astype(np.float32), *seasons)


def _offers(seed: int, rounds: int) -> Any:
    goods = GOODS_GAIN > 0  # cash gains nothing, whoever holds it
    usual = GOODS_GAIN + goods * np.random.default_rng(seed).uniform(-TASTE, TASTE, (AGENTS, COORDINATES))

    def draw(rng: np.random.Generator) -> Offer:
        luck = goods * rng.uniform(-LUCK, LUCK, (SEASON, AGENTS, COORDINATES))
        return Offer(usual + luck, _seasonal(GOODS_PRICE, rng))

    return _by_season(seed, rounds, draw)


def _samples(seed: int, rounds: int) -> Any:
    own = SIGNAL + np.random.default_rng(seed).uniform(-SPREAD, SPREAD, (AGENTS, COORDINATES))

    def draw(rng: np.random.Generator) -> Sample:
        x = rng.standard_normal((SEASON, AGENTS, COORDINATES))
        x /= np.maximum(1, np.linalg.norm(x, axis=2, keepdims=True))
        chance = 1 / (1 + np.exp(-np.sum(x * own, axis=2)))
        y = np.where(rng.random(chance.shape) < chance, 1.0, -1.0)
        return Sample(x, y, _seasonal(FEATURE_PRICE, rng))

    return _by_season(seed, rounds, draw)


def _minus_gain(params: Params, offer: Any) -> Array:
    return -jnp.dot(params, offer.gain)


def _spent(params: Params, offer: Any) -> Array:
    return jnp.dot(params, offer.price) - PURSE


def _spent_with_fee(params: Params, offer: Any) -> Array:
    return _spent(params, offer) + jnp.asarray(FEE * offer.price[-1])


def _logistic(params: Params, sample: Any) -> Array:
    return jax.nn.softplus(-sample.y * jnp.dot(params, sample.x))


def _power(params: Params, sample: Any) -> Array:
    return jnp.dot(jnp.square(params), sample.price) - POWER


def _largest_square(scale: float) -> float:
    """Mean square of the largest of COORDINATES Laplace variables: their sizes are exponential."""
    counts = np.arange(1, COORDINATES + 1)
    return scale**2 * float(np.sum(1 / counts) ** 2 + np.sum(1 / counts**2))


MARKET = Problem(
    "market",
    "buying goods",
    from_loss(_minus_gain, jnp.zeros(COORDINATES), "gain"),
    Constraint("budget", _spent),
    entropy(),
    Euclidean(Simplex()),
    Bounds(
        math.log(COORDINATES),
        DEAREST * float(GOODS_PRICE.max()) - PURSE,
        DEAREST * float(GOODS_PRICE.max()),
        _largest_square,
    ),
    clip=0.4,
    wide_clip=2.0,
    draw=_offers,
)
CLASSIFIER = Problem(
    "classifier",
    "a classifier whose use costs",
    from_loss(_logistic, jnp.zeros(COORDINATES), "logistic"),
    Constraint("budget", _power),
    euclidean_ball(RADIUS),
    euclidean_ball(RADIUS),
    Bounds(
        2 * RADIUS**2,
        DEAREST * float(FEATURE_PRICE.max()) * RADIUS**2 - POWER,
        2 * DEAREST * float(FEATURE_PRICE.max()) * RADIUS,
        lambda scale: 2 * COORDINATES * scale**2,
    ),
    clip=0.5,
    wide_clip=1.0,
    draw=_samples,
)
PROBLEMS = {problem.name: problem for problem in (MARKET, CLASSIFIER)}
UNPAYABLE = Constraint("spending and fee", _spent_with_fee)
"""For the market: over a season it can be kept, in its dearest rounds it cannot."""
