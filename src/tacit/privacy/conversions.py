"""Conversions between measures of privacy loss: zCDP to (epsilon, delta) and back, and the exact Gaussian curve."""

from __future__ import annotations

import functools
import math

from tacit.core.errors import ConfigError


def loose(rho: float, delta: float) -> float:
    """Return the epsilon of rho-zCDP at delta by the rule of Bun and Steinke (2016, Prop. 1.3)."""
    _check_loss("rho", rho)
    _check_delta(delta)
    if rho == 0:
        return 0.0
    if delta == 0 or math.isinf(rho):
        return math.inf
    return rho + 2 * math.sqrt(rho) * math.sqrt(-math.log(delta))


def tight(rho: float, delta: float) -> float:
    """Return the epsilon of rho-zCDP at delta by the best order (Canonne, Kamath and Steinke 2020, Prop. 12).

    With u = alpha - 1 it is the least f(u) = rho (1 + u) - ln(1 + 1/u) - (ln delta + ln(1 + u)) / u, and
    f'(u) = rho + (ln delta + ln(1 + u)) / u^2 has one root. Any u gives a bound that holds.
    """
    upper = loose(rho, delta)
    if delta == 1:
        return 0.0
    if upper == 0 or math.isinf(upper):
        return upper
    log_delta = math.log(delta)
    low, high = 0.0, math.sqrt(-log_delta) / math.sqrt(rho)
    for _ in range(200):
        u = (low + high) / 2
        if not low < u < high:
            break
        if rho * u * u + log_delta + math.log1p(u) < 0:
            low = u
        else:
            high = u
    return max(0.0, min(upper, rho * (1 + high) - math.log1p(1 / high) - (log_delta + math.log1p(high)) / high))


@functools.lru_cache(maxsize=256)
def rho_within(epsilon: float, delta: float) -> float:
    """Return the largest rho whose `tight` epsilon at delta is within `epsilon`, rounded down."""
    if not epsilon > 0:
        raise ConfigError(f"epsilon {epsilon!r}: expected a number above 0")
    _check_delta(delta)
    if delta == 0 or math.isinf(epsilon):
        return 0.0 if delta == 0 else math.inf
    low = (epsilon / (math.sqrt(epsilon - math.log(delta)) + math.sqrt(-math.log(delta)))) ** 2  # inverse of `loose`
    while tight(low, delta) > epsilon:
        low *= 1 - 1e-12
    high = 2 * low
    while tight(high, delta) <= epsilon:
        low, high = high, 2 * high
        if math.isinf(high):  # delta = 1 covers everything
            return high
    while low < (middle := (low + high) / 2) < high:
        if tight(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the exact delta of Gaussian noise at epsilon (Balle and Wang 2018, Theorem 8).

    `mu` is sensitivity / standard deviation; releases in sequence amount to mu = sqrt(sum mu_t^2) = sqrt(2 rho).
    """
    from scipy.special import erfcx, ndtr

    _check_loss("mu", mu)
    _check_loss("epsilon", epsilon)
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # Phi(-near) - e^epsilon Phi(-far), where e^epsilon = phi(near) / phi(far): taken out, nothing overflows.
    density = math.exp(-near * near / 2) / 2
    if near < 0:
        return max(0.0, float(ndtr(-near)) - density * float(erfcx(far / math.sqrt(2))))
    return max(0.0, density * float(erfcx(near / math.sqrt(2)) - erfcx(far / math.sqrt(2))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the exact epsilon of Gaussian noise at delta, rounded up; see `gaussian_delta`."""
    _check_delta(delta)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, tight(mu * mu / 2, delta)
    for _ in range(100):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if gaussian_delta(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _check_delta(delta: float) -> None:
    if not 0 <= delta <= 1:
        raise ConfigError(f"delta {delta!r}: expected a probability")


def _check_loss(name: str, value: float) -> None:
    if not value >= 0:
        raise ConfigError(f"{name} {value!r}: expected a number from 0 on")
