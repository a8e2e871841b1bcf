from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.cli.privacy import app
from tacit.core.errors import ConfigError
from tacit.privacy.accounting import Budget, composed
from tacit.privacy.conversions import gaussian_epsilon, tight
from tacit.privacy.events import Event, Loss
from tacit.privacy.planning import epsilon_of, noise_for, noises_for

fixed = settings(derandomize=True, deadline=None, max_examples=60)
DELTA = 1e-5


def test_the_worked_example() -> None:
    figures = epsilon_of("gaussian", 20.0, DELTA, 1000)
    assert figures.loose == pytest.approx(8.837, abs=5e-4)
    assert figures.tight == pytest.approx(8.078, abs=5e-4)
    assert figures.pld == pytest.approx(7.511, abs=5e-4)
    assert figures.exact == pytest.approx(7.511, abs=5e-4)
    assert figures.pure == math.inf


@pytest.mark.parametrize(("sigma", "releases"), [(20, 1000), (0.5, 1), (1, 10), (100, 50), (5, 3000), (300, 1000)])
@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-3])
def test_our_figures_agree_with_dp_accounting(sigma: float, releases: int, delta: float) -> None:
    figures = epsilon_of("gaussian", sigma, delta, releases)
    rho = composed([Event("m", "gaussian", 1.0, sigma)] * releases).rho
    assert figures.tight == pytest.approx(tight(rho, delta))
    assert figures.tight == pytest.approx(figures.rdp, rel=1e-3)
    exact = gaussian_epsilon(math.sqrt(2 * rho), delta)
    assert exact == pytest.approx(figures.pld, rel=1e-3)
    assert exact <= figures.pld * (1 + 1e-9)


def test_dp_accountings_own_accountants_say_the_same() -> None:
    """Without our grouping: a thousand events as its own accountants compose them."""
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(20.0), 1000)
    ours = epsilon_of("gaussian", 20.0, DELTA, 1000)
    assert ours.tight == pytest.approx(RdpAccountant().compose(event).get_epsilon(DELTA), rel=1e-3)
    assert ours.pld == pytest.approx(PLDAccountant().compose(event).get_epsilon(DELTA), rel=1e-3)
    event = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(10.0), 100)
    ours = epsilon_of("laplace", 10.0, DELTA, 100)
    assert ours.rdp == pytest.approx(RdpAccountant().compose(event).get_epsilon(DELTA), rel=1e-3)
    assert ours.pld == pytest.approx(PLDAccountant().compose(event).get_epsilon(DELTA), rel=1e-3)


def test_laplace_in_one_release_has_its_closed_form() -> None:
    """delta = 1 - exp((epsilon - ratio) / 2)."""
    for ratio in (0.1, 1.0, 5.0):
        exact = ratio + 2 * math.log1p(-1e-3)
        found = epsilon_of("laplace", 1 / ratio, 1e-3, 1).pld
        assert found == pytest.approx(exact, rel=1e-3)
        assert found >= exact * (1 - 1e-9)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 1.8])
def test_one_coordinate_dominates_two_of_the_same_l1_sensitivity(share: float, epsilon: float) -> None:
    """The argument in docs/privacy.md, by integration: delta of the split <= 1 - exp((epsilon - ratio) / 2)."""
    ratio = 2.0
    losses, chances = [], []
    for shift in (ratio * share, ratio * (1 - share)):
        edges = np.linspace(0, shift, 2001)
        inner = np.diff(-np.exp(-edges)) / 2
        losses.append(np.concatenate([[shift, -shift], shift - edges[:-1] - edges[1:]]))
        chances.append(np.concatenate([[0.5, math.exp(-shift) / 2], inner]))
    both, chance = np.add.outer(*losses), np.multiply.outer(*chances)
    delta = float(np.sum(chance * np.maximum(-np.expm1(epsilon - both), 0)))
    assert 0 < delta <= 1 - math.exp((epsilon - ratio) / 2) + 1e-5


@pytest.mark.parametrize(("noise", "releases"), [(1e3, 10**4), (1e5, 10**6)])
def test_small_releases_are_not_lost_in_the_grid(noise: float, releases: int) -> None:
    """Many small Laplace releases are nearly Gaussian of the same variance of loss."""
    found = epsilon_of("laplace", noise, DELTA, releases).pld
    assert found == pytest.approx(gaussian_epsilon(math.sqrt(releases) / noise, DELTA), rel=0.02)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0])
def test_a_delta_that_is_no_probability_is_refused(delta: float) -> None:
    with pytest.raises(ConfigError, match="delta"):
        epsilon_of("laplace", 1.0, delta, 1)


def test_without_dp_accounting_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    for name in [name for name in sys.modules if name.startswith("dp_accounting.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=r"dp_accounting.*tacit\[accounting\]"):
        epsilon_of("gaussian", 20.0, DELTA, 10)
    assert noise_for("gaussian", 1.0, DELTA, 10) > 0  # the enforced rules need none of it


def test_dp_accounting_says_nothing(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it reaches the terminal, and the verbosity that was set is left as it was."""
    from absl import logging
    from dp_accounting.rdp import RdpAccountant

    silent = RdpAccountant.get_epsilon

    def remarking(self: Any, delta: float) -> float:
        logging.warning("a remark on the choice of orders")
        return float(silent(self, delta))

    monkeypatch.setattr(RdpAccountant, "get_epsilon", remarking)

    before = logging.get_verbosity()
    said: list[str] = []
    monkeypatch.setattr(logging.get_absl_logger(), "handle", lambda record: said.append(record.getMessage()))
    try:
        logging.set_verbosity(logging.INFO)
        epsilon_of("gaussian", 1.0, DELTA, 1)
        assert logging.get_verbosity() == logging.INFO
    finally:
        logging.set_verbosity(before)
    assert said == []
    assert capfd.readouterr() == ("", "")


@fixed
@given(st.floats(1e-3, 1e3), st.integers(1, 10**6), st.floats(0.999, 1.001))
def test_planned_gaussian_noise_keeps_its_target_and_wastes_nothing(target: float, releases: int, decay: float) -> None:
    releases = min(releases, 10_000) if decay != 1 else releases
    noise = noise_for("gaussian", target, DELTA, releases, decay)
    weights = math.fsum(decay**-t for t in range(releases))
    achieved = tight(weights / noise**2 / 2, DELTA)
    assert achieved == pytest.approx(target, rel=1e-7)
    assert Budget(epsilon=target, delta=DELTA).refusal(Loss(math.inf, weights / noise**2 / 2 * (1 - 1e-10))) is None


@fixed
@given(st.floats(1e-3, 1e3), st.integers(1, 10**6))
def test_planned_laplace_noise_keeps_its_target(target: float, releases: int) -> None:
    noise = noise_for("laplace", target, DELTA, releases)
    assert noise == pytest.approx(releases / target)
    assert releases / noise <= target


def test_decay_is_the_sum_over_its_rounds() -> None:
    events = [Event("m", "gaussian", 1.0, 20.0 * 0.99 ** (t / 2)) for t in range(100)]
    figures = epsilon_of("gaussian", 20.0, DELTA, 100, 0.99)
    rho = composed(events).rho
    assert figures.tight == pytest.approx(tight(rho, DELTA))
    alike = epsilon_of("gaussian", 1 / math.sqrt(2 * rho), DELTA, 1)  # one release of the same rho
    assert figures.pld == pytest.approx(alike.pld, rel=1e-6)
    assert figures.rdp == pytest.approx(alike.rdp, rel=1e-6)


@pytest.mark.parametrize("distribution", ["laplace", "gaussian"])
def test_every_rules_noise_reaches_the_target_by_that_rule(distribution: Any) -> None:
    needed = noises_for(distribution, 2.0, DELTA, 50)
    assert needed["pure" if distribution == "gaussian" else "exact"] is None
    for rule, noise in needed.items():
        if noise is not None:
            assert getattr(epsilon_of(distribution, noise, DELTA, 50), rule) == pytest.approx(2.0, rel=1e-4)
            assert getattr(epsilon_of(distribution, noise, DELTA, 50), rule) <= 2.0 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("gaussian", 1.0, 0.0, 10), "delta"),
        (("gaussian", 0.0, DELTA, 10), "epsilon"),
        (("gaussian", math.inf, DELTA, 10), "epsilon"),
        (("gaussian", 1.0, DELTA, 0), "releases"),
        (("gaussian", 1.0, DELTA, 10, 0.0), "decay"),
        (("gaussian", 1.0, DELTA, 10**6, 0.5), "decay"),
        (("laplace", 1.0, DELTA, 10, 0.9), "gaussian"),
        (("bounded_laplace", 1.0, DELTA, 10), "bounded_laplace"),
    ],
)
def test_plans_that_make_no_sense_are_refused(arguments: Any, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        noise_for(*arguments)


@pytest.mark.parametrize("noise", [0.0, -1.0, math.inf, math.nan])
def test_noise_must_be_a_positive_number(noise: float) -> None:
    with pytest.raises(ConfigError, match="noise"):
        epsilon_of("laplace", noise, DELTA, 1)


# The command.


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            app(args=["plan", *arguments], prog_name="tacit privacy")
        code = caught.value.code or 0
        assert isinstance(code, int)
        return (code, *capsys.readouterr())

    return call


def test_the_command_tells_the_epsilon_of_a_noise(plan: Any) -> None:
    code, out, _ = plan("--rounds", "1000", "--noise", "20", "--mechanism", "gaussian")
    assert code == 0
    for part in (
        "8.83714",
        "8.07836",
        "7.51128",
        "used in 1,000 of 1,000 rounds",
        "one record is replaced",
        "sequential",
    ):
        assert part in out
    assert "noise for epsilon" not in out


def test_the_command_tells_the_noise_for_a_target(plan: Any) -> None:
    code, out, _ = plan("--rounds", "10", "--epsilon", "2", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["noise"] == 5
    assert found["epsilon"]["pure"] == 2
    assert found["epsilon"]["exact"] is None
    assert found["needed"]["pld"] < found["needed"]["pure"] == 5
    assert "l1" in found["multiplier"]


def test_records_used_once_compose_in_parallel(plan: Any) -> None:
    _, out, _ = plan("--rounds", "1000", "--epsilon", "1", "--uses", "1")
    assert "used in 1 of 1,000 rounds" in out
    assert "sensitivity): 1\n" in out
    assert "Balle" not in out


def test_with_decay_the_worst_rounds_count(plan: Any) -> None:
    """One use in the last of 101 rounds: its variance is 0.99^100 of the first's."""
    arguments = ("--rounds", "101", "--uses", "1", "--mechanism", "gaussian", "--json")
    _, out, _ = plan(*arguments, "--noise", "20", "--decay", "0.99")
    last = 20 * 0.99**50
    assert json.loads(out)["epsilon"]["exact"] == pytest.approx(gaussian_epsilon(1 / last, DELTA))
    assert "round 1" in json.loads(out)["multiplier"]
    _, out, _ = plan(*arguments, "--noise", "20", "--decay", "1.01")
    assert json.loads(out)["epsilon"]["exact"] == pytest.approx(gaussian_epsilon(1 / 20, DELTA))
    _, out, _ = plan(*arguments, "--epsilon", "1", "--decay", "0.99")
    found = json.loads(out)
    assert found["epsilon"]["tight"] == pytest.approx(1)
    assert found["needed"]["tight"] == found["noise"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--rounds", "10"), "--epsilon"),
        (("--rounds", "10", "--epsilon", "1", "--noise", "1"), "one of"),
        (("--rounds", "0", "--epsilon", "1"), "--rounds 0"),
        (("--rounds", "10", "--epsilon", "1", "--uses", "11"), "--uses 11"),
        (("--rounds", "10", "--epsilon", "1", "--uses", "0"), "--uses 0"),
        (("--rounds", "10", "--epsilon", "1", "--mechanism", "cauchy"), "laplace or gaussian"),
        (("--rounds", "10", "--epsilon", "-1"), "epsilon = -1.0"),
        (("--rounds", "10", "--noise", "1", "--delta", "0"), "delta = 0.0"),
        (("--rounds", "10", "--noise", "1", "--decay", "0.9"), "gaussian"),
        (("--rounds", "10", "--noise", "1", "--decay", "-1", "--mechanism", "gaussian"), "decay = -1.0"),
    ],
)
def test_the_command_names_what_is_wrong(plan: Any, arguments: tuple[str, ...], names: str) -> None:
    code, _, err = plan(*arguments)
    assert code == 2
    assert names in err
    assert err.startswith("error: ")
