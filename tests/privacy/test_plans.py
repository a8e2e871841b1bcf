"""Plans of private runs, and bounds that are charged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.core.errors import ConfigError, DataError
from tacit.privacy.accounting import Account
from tacit.privacy.conversions import rho_within
from tacit.privacy.noise import NoiseSource
from tacit.privacy.planning import Plan, plan, private_bounds
from tacit.privacy.planning.bounds import edges


def test_a_plan_keeps_its_epsilon_and_reads_as_it_says() -> None:
    chosen = plan(records=950, features=20, epsilon=2.0, delta=1e-6, owners=8)
    mechanism = chosen.mechanism()
    assert mechanism.ratio is not None
    assert mechanism.ratio**2 / 2 <= rho_within(2.0, 1e-6) * (1 + 1e-12)
    reads, apart = chosen.participation
    assert reads * apart == chosen.rounds
    assert apart * chosen.batch >= 950
    assert mechanism.correlation is not None
    assert (mechanism.correlation.reads, mechanism.correlation.apart) == (reads, apart)
    assert str(chosen.batch) in chosen.words()


def noise(**settings: Any) -> Plan:
    return plan(
        **{"records": 1000, "features": 10, "epsilon": 1.0, "owners": 4, "passes": 2, "strategy": "toeplitz"} | settings
    )


def test_noise_falls_with_records_owners_and_epsilon_and_steps_grow() -> None:
    base = noise()
    for better in (noise(records=8000), noise(owners=16), noise(epsilon=3.0)):
        assert better.prediction_noise < base.prediction_noise
        assert better.step > base.step
    assert noise(strategy="independent").prediction_noise > base.prediction_noise


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"records": 0}, "records = 0"),
        ({"owners": True}, "owners"),
        ({"task": "rank"}, "rank"),
        ({"epsilon": -1.0}, "-1"),
    ],
)
def test_plans_of_nothing_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        noise(**settings)


def test_bounds_hold_the_data_and_cost_what_is_said() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([20 + rng.normal(size=8000), -1e-3 * rng.random(8000), np.zeros(8000)])
    found = private_bounds(x, np.arange(8000) % 4, rho=0.02, source=NoiseSource())
    inside = (found.low - 1e-12 <= x) & (x <= found.high + 1e-12)
    assert (inside.mean(axis=0) > 0.9).all()
    assert found.high[0] - found.low[0] <= 48
    assert 0 <= found.high[1] - found.low[1] <= 2e-3
    account = Account()
    for event in found.events[:1]:
        account = account.charged(event)
    assert account.spent().rho == pytest.approx(0.02)


def test_a_record_moves_a_histogram_by_its_sensitivity_at_most() -> None:
    """Two cells per column, over the owner's records, whatever the record was and becomes."""
    cuts, rng = edges(), np.random.default_rng(1)
    for _ in range(200):
        m, columns = int(rng.integers(1, 9)), int(rng.integers(1, 5))
        x = rng.choice([-1e9, -3.0, 0.0, 1e-9, 5.0, 1e12], size=(m, columns))
        y = x.copy()
        y[0] = rng.choice([-1e9, -3.0, 0.0, 1e-9, 5.0, 1e12], size=columns)
        shares = [
            np.stack([np.bincount(np.searchsorted(cuts, t[:, c]), minlength=len(cuts) + 1) for c in range(columns)]) / m
            for t in (x, y)
        ]
        assert np.linalg.norm(shares[0] - shares[1]) <= np.sqrt(2 * columns) / m + 1e-12


def test_what_is_not_finite_or_free_is_refused() -> None:
    with pytest.raises(DataError, match="finite"):
        private_bounds(np.array([[np.nan]]), np.zeros(1, int), 0.1, NoiseSource())
    with pytest.raises(ConfigError, match="rho"):
        private_bounds(np.ones((1, 1)), np.zeros(1, int), 0.0, NoiseSource())
