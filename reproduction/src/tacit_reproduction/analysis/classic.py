"""The classic calibration of Gaussian noise, and totals of several releases by the classic rules.

    noise / sensitivity = sqrt(2 ln(1.25 / delta)) / epsilon,  0 < epsilon < 1        (Dwork and Roth 2014, Theorem A.1)
    releases in sequence: (sum of epsilons, sum of deltas)                            (there, Theorem 3.16)

Both hold, and both ask for far more noise than sums of zCDP do. They are here for comparison, as in
Gauthier (2023), sec. 3.4. Nothing is booked by them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tacit.core.errors import ConfigError
from tacit.privacy.mechanisms import check_classic


class Classic(NamedTuple):
    """Guarantee of one release or of all of them."""

    epsilon: float
    delta: float


def classic_total(epsilon: float, delta: float, releases: int, decay: float = 1.0) -> Classic:
    """Return the total of several releases by the classic rules.

    At the same delta, release n has epsilon decay^(-(n-1)/2); it is refused where the last one's is not below 1.

    Args:
      epsilon: Of the first release, between 0 and 1.
      delta: Of each release, between 0 and 1.
      releases: Number of releases, from 1 on.
      decay: Factor of the noise's variance from one release to the next, above 0, at most 1.

    Example:
      >>> classic_total(0.25, 1e-6, 8)
      Classic(epsilon=2.0, delta=8e-06)
    """
    check_classic(epsilon, delta)
    last = epsilon * decay ** (-(releases - 1) / 2)
    if last >= 1:
        raise ConfigError(
            f"epsilon = {epsilon!r} with decay {decay!r}: release {releases} has {last:.3g}; expected below 1, for "
            "which the calibration is proven: take a smaller one, fewer releases, or a decay nearer 1"
        )
    return Classic(epsilon * _weight(releases, decay), delta * releases)


def classic_share(epsilon: float, delta: float, releases: int, decay: float = 1.0) -> Classic:
    """Return the guarantee of the first release for a given total: the inverse of `classic_total`.

    Args:
      epsilon: Of the total, above 0; the share of the last release must be below 1.
      delta: Of the total, between 0 and 1.
      releases: Number of releases, from 1 on.
      decay: Factor of the noise's variance from one release to the next, above 0, at most 1.
    """
    share = Classic(epsilon / _weight(releases, decay), delta / releases)
    classic_total(*share, releases, decay)
    return share


def _weight(releases: int, decay: float) -> float:
    """Return the sum of all epsilons, the first one's being 1."""
    return math.fsum(decay ** (-n / 2) for n in range(releases))
