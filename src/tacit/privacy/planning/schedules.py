"""Plans: the loss of a schedule that is fixed beforehand, by every rule, and the noise that a target needs.

RDP and PLD come from dp-accounting. They are for reports and plans: a budget is enforced by sums (`accounting`).
Noise is given as a multiplier: its scale in units of the sensitivity (Laplace: l1, Gaussian: l2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tacit.core.checks import nonnegative, positive, proportion, whole_number
from tacit.core.contract import Distribution
from tacit.core.errors import ConfigError
from tacit.core.extras import require
from tacit.privacy.conversions import gaussian_epsilon, loose, rho_within, tight

DELTA = "such as 1e-5; at 0 only Laplace noise has a finite epsilon, and that is the sum"
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
    """Work out the epsilon at delta of releases in sequence, by every rule; RDP and PLD need `tacit[accounting]`.

    Args:
      distribution: "laplace" or "gaussian".
      noise: Scale (Laplace) or standard deviation (Gaussian) of the first release in units of the l1 or l2
        sensitivity; above 0 and finite.
      delta: Above 0 and below 1.
      releases: Number of releases that one unit takes part in, from 1 on.
      decay: Ratio of the variances of consecutive releases, above 0 (Gaussian only); 1 keeps the noise.

    Returns:
      One epsilon per rule; all hold, so the least is true too.

    Example:
      >>> figures = epsilon_of("gaussian", noise=20.0, delta=1e-5, releases=1000)
      >>> round(figures.tight, 2), round(figures.exact, 2)
      (8.08, 7.51)

    References: Bun and Steinke (2016); Mironov (2017); Canonne, Kamath and Steinke (2020); Balle and Wang (2018).
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
    """Find the least noise whose enforced sum keeps a target: Laplace the pure one, Gaussian the tight rule's.

    Args:
      distribution: "laplace" or "gaussian".
      epsilon: Target, above 0 and finite.
      delta: Above 0 and below 1; Laplace noise reaches the target at delta = 0 all the same.
      releases: Number of releases that one unit takes part in, from 1 on.
      decay: Ratio of the variances of consecutive releases, above 0 (Gaussian only); 1 keeps the noise.

    Returns:
      Scale or standard deviation in units of the sensitivity: the `noise_multiplier` of `tacit.privacy.gaussian`.

    Example:
      >>> noise_for("laplace", epsilon=2.0, delta=1e-5, releases=100)
      50.0
      >>> round(noise_for("gaussian", epsilon=2.0, delta=1e-5, releases=100), 2)
      21.49
    """
    return _noise_by_sum(
        "pure" if distribution == "laplace" else "tight", distribution, epsilon, delta, releases, decay
    )


def noises_for(
    distribution: Distribution, epsilon: float, delta: float, releases: int, decay: float = 1.0
) -> dict[str, float | None]:
    """Find the noise that each rule by itself asks for; needs `tacit[accounting]`.

    Args:
      distribution: As for `noise_for`, like all of these.
      epsilon: Target.
      delta: Target.
      releases: Number of them.
      decay: Factor of the variance from one to the next.

    Returns:
      Rule (as in `Epsilons`) -> noise in units of the sensitivity; None where no noise suffices by it.

    Example:
      >>> sorted(noises_for("laplace", epsilon=1.0, delta=1e-5, releases=2))
      ['exact', 'loose', 'pld', 'pure', 'rdp', 'tight']
    """

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
    """Sum the rho of Gaussian releases in sequence, of which release n costs decay^-(n-1) times the first.

    Args:
      first: Rho of the first release, from 0 on and finite.
      releases: Their number, from 1 on.
      decay: Ratio of the variances of consecutive releases, above 0.

    Returns:
      The total; `tacit.privacy.conversions.loose` of it is the epsilon of the corollary in the text.

    Example:
      >>> round(total_rho(0.5, releases=3, decay=0.5), 6)
      3.5

    References: Gauthier (2023), Theorem I.
    """
    nonnegative("first", first, "the rho of the first release")
    return first * _weights("gaussian", releases, decay)[1]


class _Schedule(NamedTuple):
    """Releases in sequence: Gaussian ones amount to one of mu = sqrt(sum mu_t^2), Laplace ones are all alike."""

    epsilon: float
    rho: float
    mu: float = 0.0
    ratio: float = 0.0
    """Of one Laplace release."""
    releases: int = 1

    @classmethod
    def planned(cls, distribution: Distribution, noise: float, delta: float, releases: int, decay: float) -> _Schedule:
        proportion("delta", delta, DELTA)
        positive("noise", noise, "it is in units of the sensitivity")
        ratios, squares = _weights(distribution, releases, decay)
        rho = squares / noise / noise / 2
        if distribution == "laplace":
            return cls(ratios / noise, rho, ratio=1 / noise, releases=releases)
        return cls(math.inf, rho, mu=math.sqrt(2 * rho))

    def rdp(self, delta: float) -> float:
        if not 0 < self.rho < math.inf:
            return self.rho
        import numpy as np

        dp_event, rdp = (_accounting(name) for name in ("dp_event", "rdp"))
        with _quiet():
            accountant = rdp.RdpAccountant(orders=list(1 + np.geomspace(1e-3, 1e5, 400)))
            if self.mu:
                accountant.compose(dp_event.GaussianDpEvent(1 / self.mu))
            else:
                accountant.compose(dp_event.LaplaceDpEvent(1 / self.ratio), self.releases)
            return float(accountant.get_epsilon(delta))

    def pld(self, delta: float) -> float:
        """Return the epsilon by the distribution of the privacy loss, rounded up.

        A vector with Laplace noise is dominated by one coordinate that changes by the whole l1 sensitivity
        (docs/privacy.md).
        """
        if not 0 < self.rho < math.inf:
            return self.rho
        pld = _accounting("pld.privacy_loss_distribution")
        with _quiet():
            if self.mu:
                total = pld.from_gaussian_mechanism(1 / self.mu, value_discretization_interval=self._step(delta))
            else:
                one = pld.from_laplace_mechanism(1 / self.ratio, value_discretization_interval=self._step(delta))
                total = one.self_compose(self.releases)
            return float(total.get_epsilon_for_delta(delta))

    def _step(self, delta: float) -> float:
        """Fine enough for the whole range and for the smallest release, coarse enough for memory."""
        span = min(self.epsilon, loose(self.rho, min(delta, 1e-10)))
        smallest = self.ratio or math.inf
        return max(min(span / CELLS, smallest / 4), span / (100 * CELLS))


def _accounting(name: str) -> Any:
    return require(f"dp_accounting.{name}", extra="accounting", purpose="accounting by RDP and PLD")


def _weights(distribution: Distribution, releases: int, decay: float) -> tuple[float, float]:
    """Return the sums over the releases of the noise's inverse and of its inverse square, the first being 1."""
    if distribution not in ("laplace", "gaussian"):
        raise ConfigError(f"distribution {distribution!r}: plans are made for laplace and gaussian")
    whole_number("releases", releases)
    positive("decay", decay, "1 keeps the noise as it is")
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
    positive("epsilon", epsilon)
    proportion("delta", delta, DELTA)
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


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the remarks of dp-accounting on its choice of orders off the user's terminal."""
    logging = require("absl.logging", extra="accounting", purpose="dp-accounting")
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)
