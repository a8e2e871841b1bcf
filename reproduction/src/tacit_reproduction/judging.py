"""Verdicts on orders: chains of samples, each to be higher than the one before, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit.metrics import mean_interval, paired_difference
from tacit_reproduction.experiment import Claim
from tacit_reproduction.verdicts import Named


class Chain(NamedTuple):
    """Samples in the order in which they are said to rise."""

    name: str
    links: Sequence[Named]
    """Name of each, and its value per seed."""


class Break(NamedTuple):
    """Two neighbours of a chain of which the second is not shown to be higher."""

    chain: str
    low: str
    high: str
    words: str


def breaks(chains: Sequence[Chain]) -> list[Break]:
    """Return where chains do not rise: pairs whose interval of the difference is not wholly above 0."""
    found = []
    for chain in chains:
        for (low, first), (high, second) in zip(chain.links, chain.links[1:], strict=False):
            difference = paired_difference(second, first)
            if not difference.low > 0:
                gap = f"{brief(difference.mean, 3)} [{brief(difference.low, 3)}, {brief(difference.high, 3)}]"
                found.append(Break(chain.name, low, high, f"{high} minus {low} {gap}"))
    return found


def rising(claim: str, chains: Sequence[Chain], unit: str = "", note: str = "") -> Claim:
    """Every chain rises from link to link: all intervals of differences (95 %, paired over seeds) lie above 0."""
    failed = breaks(chains)
    seeds = len(np.asarray(chains[0].links[0][1]))
    parts = [f"{_prefix(chain.name)}{_means(chain, unit)}" for chain in chains]
    parts.append(f"differences are paired over {seeds} seeds (95 %)")
    if failed:
        parts.append("not in order: " + ", ".join(f"{_prefix(b.chain)}{b.words}" for b in failed))
    figure = "; ".join(parts)
    return Claim(claim, not failed, f"{figure}. {note}" if note else figure)


def shown(values: ArrayLike) -> str:
    """Return a mean with half of its 95 % interval: "0.1234 ± 0.0012"."""
    interval = mean_interval(values)
    half = interval.high - interval.mean
    return brief(interval.mean) if not np.isfinite(half) else f"{brief(interval.mean)} ± {brief(half, 2)}"


def brief(value: float, digits: int = 4) -> str:
    """Return a number to some significant digits; larger ones are whole, with commas up to a million."""
    return f"{value:,.0f}" if min(1e3, 10**digits) <= abs(value) < 1e6 else f"{value:.{digits}g}"


def _means(chain: Chain, unit: str) -> str:
    means = ((name, float(np.mean(np.asarray(values, np.float64)))) for name, values in chain.links)
    return ", ".join(f"{name} {brief(mean)}{unit}" for name, mean in means)


def _prefix(name: str) -> str:
    return f"{name}: " if name else ""
