"""What a schedule that is fixed beforehand costs, by every rule, and which noise a target needs.

RDP and PLD come from dp-accounting. They are for reports and plans: a budget is enforced by sums (`accounting`).
Noise is given as a multiplier: its scale in units of the sensitivity (Laplace: l1, Gaussian: l2).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from tacit.core.contract import Distribution
from tacit.core.errors import ConfigError, PrivacyError
from tacit.privacy.accounting import composed
from tacit.privacy.conversions import gaussian_epsilon, loose, rho_within, tight
from tacit.privacy.events import Event

CELLS = 1e4
"""Steps of the privacy loss distribution over the range where it matters; its rounding is upward."""


class Epsilons(NamedTuple):
    """The epsilon of one schedule by every rule; all hold, so that the least is true too."""

    pure: float
    """At delta = 0: the sum."""
    loose: float
    tight: float
    rdp: float
    pld: float
    exact: float | None
    """Gaussian noise only: the closed form."""


def epsilon_of(distribution: Distribution, noise: float, delta: float, releases: int, decay: float = 1.0) -> Epsilons:
    """Return the epsilon at delta of releases in sequence, by every rule.

    `decay` is the ratio of the noise's variance between consecutive releases (Gaussian only); `noise` is the first's.
    """
    schedule = _Schedule.planned(distribution, noise, delta, releases, decay)
    return Epsilons(
        schedule.epsilon,
        loose(schedule.rho, delta),
        tight(schedule.rho, delta),
        schedule.rdp(delta),
        schedule.pld(delta),
        gaussian_epsilon(schedule.mu, delta) if distribution == "gaussian" else None,
    )


def noise_for(distribution: Distribution, epsilon: float, delta: float, releases: int, decay: float = 1.0) -> float:
    """Return the least noise whose enforced sum keeps a target: Laplace the pure one, Gaussian the tight rule's.

    See `epsilon_of` for the arguments; what the noise achieves by the other rules is `epsilon_of` of it.
    """
    return _noise_by_sum(
        "pure" if distribution == "laplace" else "tight", distribution, epsilon, delta, releases, decay
    )


def noises_for(
    distribution: Distribution, epsilon: float, delta: float, releases: int, decay: float = 1.0
) -> dict[str, float | None]:
    """Return the noise that each rule by itself asks for to reach a target; None where no noise suffices by it."""

    def by_search(rule: Callable[[_Schedule], float]) -> float:
        return _searched(
            lambda noise: rule(_Schedule.planned(distribution, noise, delta, releases, decay)), epsilon, start
        )

    start = _noise_by_sum("tight", distribution, epsilon, delta, releases, decay)
    gaussian = distribution == "gaussian"
    return {
        "pure": None if gaussian else _noise_by_sum("pure", distribution, epsilon, delta, releases, decay),
        "loose": _noise_by_sum("loose", distribution, epsilon, delta, releases, decay),
        "tight": start,
        "rdp": by_search(lambda schedule: schedule.rdp(delta)),
        "pld": by_search(lambda schedule: schedule.pld(delta)),
        "exact": by_search(lambda schedule: gaussian_epsilon(schedule.mu, delta)) if gaussian else None,
    }


def total_rho(first: float, releases: int, decay: float = 1.0) -> float:
    """Return the rho of Gaussian releases in sequence, whose first costs `first`: the sum of all (001 Theorem I).

    Release n costs decay^-(n-1) times the first. `conversions.loose` of it is the epsilon of the corollary there.
    """
    if not 0 <= first < math.inf:
        raise ConfigError(f"first = {first!r}: expected a finite number from 0 on, the rho of the first release")
    return first * _weights("gaussian", releases, decay)[1]


def rdp_epsilon(events: Iterable[Event], delta: float) -> float:
    """Return the epsilon of events in sequence at delta, by Rényi differential privacy (Mironov 2017)."""
    return _Schedule.of(events, delta).rdp(delta)


def pld_epsilon(events: Iterable[Event], delta: float) -> float:
    """Return the epsilon of events in sequence at delta, by their privacy loss distribution, rounded up.

    A vector with Laplace noise is dominated by one coordinate that changes by the whole l1 sensitivity
    (docs/privacy.md). Noise of bounded support counts as any (epsilon, delta) release (Kairouz et al. 2015).
    """
    return _Schedule.of(events, delta).pld(delta)


class _Schedule(NamedTuple):
    """Releases in sequence, equal ones counted; Gaussian ones amount to one of mu = sqrt(sum mu_t^2)."""

    epsilon: float
    rho: float
    mu: float = 0.0
    laplace: Mapping[float, int] = MappingProxyType({})
    """Ratio -> how often."""
    bounded: Mapping[tuple[float, float], int] = MappingProxyType({})
    """(epsilon, delta) -> how often."""

    @classmethod
    def of(cls, events: Iterable[Event], delta: float) -> _Schedule:
        _check_delta(delta)
        events = list(events)
        loss = composed(events)
        if math.isinf(loss.rho):
            return cls(loss.epsilon, loss.rho)
        by_kind = {kind: [e for e in events if e.distribution == kind and e.ratio > 0] for kind in _KINDS}
        return cls(
            loss.epsilon,
            loss.rho,
            math.sqrt(math.fsum(event.ratio**2 for event in by_kind["gaussian"])),
            Counter(event.ratio for event in by_kind["laplace"]),
            Counter((event.loss.epsilon, event.loss.delta) for event in by_kind["bounded_laplace"]),
        )

    @classmethod
    def planned(cls, distribution: Distribution, noise: float, delta: float, releases: int, decay: float) -> _Schedule:
        _check_delta(delta)
        if not 0 < noise < math.inf:
            raise ConfigError(f"noise {noise!r}: expected a finite number above 0, in units of the sensitivity")
        ratios, squares = _weights(distribution, releases, decay)
        rho = squares / noise / noise / 2
        if distribution == "laplace":
            return cls(ratios / noise, rho, laplace={1 / noise: releases})
        return cls(math.inf, rho, mu=math.sqrt(2 * rho))

    def rdp(self, delta: float) -> float:
        if self.bounded:
            raise PrivacyError("bounded noise has no finite Rényi divergence: use pld_epsilon, or the sum of epsilons")
        if not 0 < self.rho < math.inf:
            return self.rho
        import numpy as np

        with _quiet():
            from dp_accounting import dp_event
            from dp_accounting.rdp import RdpAccountant

            accountant = RdpAccountant(orders=list(1 + np.geomspace(1e-3, 1e5, 400)))
            if self.mu:
                accountant.compose(dp_event.GaussianDpEvent(1 / self.mu))
            for ratio, count in self.laplace.items():
                accountant.compose(dp_event.LaplaceDpEvent(1 / ratio), count)
            return float(accountant.get_epsilon(delta))

    def pld(self, delta: float) -> float:
        if not 0 < self.rho < math.inf:
            return self.rho
        with _quiet():
            from dp_accounting.pld import common
            from dp_accounting.pld import privacy_loss_distribution as pld

            step = self._step(delta)
            parts = [
                pld.from_laplace_mechanism(1 / ratio, value_discretization_interval=step).self_compose(count)
                for ratio, count in self.laplace.items()
            ]
            for pair, count in self.bounded.items():
                parameters = common.DifferentialPrivacyParameters(*pair)
                part = pld.from_privacy_parameters(parameters, value_discretization_interval=step)
                parts.append(part.self_compose(count))
            if self.mu:
                parts.append(pld.from_gaussian_mechanism(1 / self.mu, value_discretization_interval=step))
            total = parts[0]
            for part in parts[1:]:
                total = total.compose(part)
            return float(total.get_epsilon_for_delta(delta))

    def _step(self, delta: float) -> float:
        """Fine enough for the whole range and for the smallest release, coarse enough for memory."""
        span = min(self.epsilon, loose(self.rho, min(delta, 1e-10)))
        smallest = min([*self.laplace, *(epsilon for epsilon, _ in self.bounded)], default=math.inf)
        return max(min(span / CELLS, smallest / 4), span / (100 * CELLS))


_KINDS: tuple[Distribution, ...] = ("laplace", "gaussian", "bounded_laplace")


def _weights(distribution: Distribution, releases: int, decay: float) -> tuple[float, float]:
    """Return the sums over the releases of the noise's inverse and of its inverse square, the first being 1."""
    if distribution not in ("laplace", "gaussian"):
        raise ConfigError(f"distribution {distribution!r}: plans are made for laplace and gaussian")
    if releases < 1:
        raise ConfigError(f"releases {releases!r}: expected a whole number from 1 on")
    if not 0 < decay < math.inf:
        raise ConfigError(f"decay {decay!r}: expected a finite number above 0; 1 keeps the noise as it is")
    if decay == 1:
        return float(releases), float(releases)
    if distribution == "laplace":
        raise ConfigError(f"decay {decay!r} goes with gaussian noise; leave it out, or choose gaussian")
    growth = -math.log(decay)
    if releases * abs(growth) > 600:
        raise ConfigError(
            f"decay {decay!r} over {releases} releases: the noise leaves every range; choose one nearer 1"
        )
    return math.inf, math.expm1(releases * growth) / math.expm1(growth)


def _noise_by_sum(
    rule: str, distribution: Distribution, epsilon: float, delta: float, releases: int, decay: float
) -> float:
    if not 0 < epsilon < math.inf:
        raise ConfigError(f"epsilon {epsilon!r}: expected a finite number above 0")
    _check_delta(delta)
    ratios, squares = _weights(distribution, releases, decay)
    if rule == "pure":
        noise = ratios / epsilon
        return noise if ratios / noise <= epsilon else math.nextafter(noise, math.inf)
    if rule == "tight":
        rho = rho_within(epsilon, delta)
    else:
        log = -math.log(delta)
        rho = (epsilon / (math.sqrt(epsilon + log) + math.sqrt(log))) ** 2
    noise = math.sqrt(squares / 2) / math.sqrt(rho)
    while squares / noise / noise / 2 > rho:
        noise = math.nextafter(noise, math.inf)
    return noise


def _searched(epsilon_at: Callable[[float], float], target: float, start: float) -> float:
    """Return a noise within 1e-5 above the least that keeps the target."""
    high = start
    while epsilon_at(high) > target:
        high *= 2
    low = high / 2
    while epsilon_at(low) <= target:
        low, high = low / 2, low
    while high > low * (1 + 1e-5):
        middle = math.sqrt(low * high)
        if epsilon_at(middle) > target:
            low = middle
        else:
            high = middle
    return high


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ConfigError(
            f"delta {delta!r}: expected a number between 0 and 1, such as 1e-5; at 0 only Laplace noise has a finite "
            "epsilon, and that is the sum"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the remarks of dp-accounting on its choice of orders off the user's terminal."""
    from absl import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)
