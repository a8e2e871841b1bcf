from __future__ import annotations

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit_reproduction.analysis.mean_square import mean_square_radius
from tacit_reproduction.asynchronous import theory, theory_runs
from tacit_reproduction.asynchronous.theory_claims import judge, off, path_off
from tacit_reproduction.asynchronous.theory_runs import (
    FORMS,
    Bounds,
    Evidence,
    Floats,
    Predicted,
    Simulated,
    Task,
    bounds,
    network,
    predict,
    predicted,
    refusal,
    run,
    world,
)
from tacit_reproduction.asynchronous.theory_settings import (
    AGES,
    ALONE,
    BEYOND,
    FADING,
    FOLLOWED,
    FORCED,
    FULL,
    MEETING,
    QUICK,
    ROUGH,
    STEPPED,
    Setting,
)
from tacit_reproduction.catalogue import EXPERIMENTS

SEEDS = 8
JITTER = np.exp(0.02 * np.random.default_rng(1).normal(size=(SEEDS, 1)))
DIVERGING = {BEYOND.name, ROUGH.name}
"""If the theorems held."""


def fall(to: float, rounds: int) -> Floats:
    return to + (1 - to) * np.exp(-np.arange(rounds) / 20)


def evidence(
    off_by: dict[str, float] | None = None, text: float = 1.0, diverging: set[str] = DIVERGING, path: float = 1.0
) -> Evidence:
    """On which every claim holds, but for what is changed: simulated errors times 10^(dB / 10), for one."""
    simulated, foretold = {}, {}
    for setting in FULL.settings:
        rounds = FULL.rounds(setting)
        factor = 10 ** ((off_by or {}).get(setting.name, 0.0) / 10)
        simulated[setting.name] = Simulated(fall(0.01 * factor, rounds) * JITTER)
        ways = {form: fall(0.01, rounds) * path for form in FORMS} if setting.name in FOLLOWED else {}
        foretold[setting.name] = Predicted({"kept": 0.01, "text": 0.01 * text, "no squares": 0.009}, ways)
    for setting in STEPPED:
        end = 1e9 if setting.name in diverging else 0.01
        simulated[setting.name] = Simulated(np.geomspace(1.0, end, 50) * JITTER)
    limits = {setting.name: Bounds(2.0, 1.0, 0.5) for setting in STEPPED}
    return Evidence(FULL, simulated, foretold, limits, {setting.name: "step is above" for setting in FORCED})


def test_all_claims_hold_on_evidence_as_the_text_has_it() -> None:
    found = judge(evidence())
    assert len(found) == 9
    assert failing(found) == []


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"off_by": {"U2": 1.2}}, [0, 1]),
        ({"off_by": {"C0": -1.2}}, [0, 1]),
        ({"text": 0.7}, [1]),
        ({"off_by": {MEETING.name: 1.2}}, [2]),
        ({"path": 1.4}, [3]),
        ({"diverging": {ROUGH.name}}, [5]),
        ({"diverging": {BEYOND.name}}, [6]),
        ({"diverging": {*DIVERGING, ALONE.name}}, [7]),
        ({"diverging": {*DIVERGING, AGES.name}}, [8]),
    ],
)
def test_what_does_not_come_out_is_reported(changes: dict[str, object], missed: list[int]) -> None:
    assert failing(judge(evidence(**changes))) == missed  # type: ignore[arg-type]


def test_a_step_that_nobody_flags_is_reported() -> None:
    found = evidence()
    silent = found._replace(refusals={**found.refusals, ROUGH.name: ""})
    assert failing(judge(silent)) == [4]


def test_a_way_that_is_off_for_a_while_is_reported() -> None:
    found = evidence()
    ways = found.predicted["U1"].paths
    late = {form: way * np.where(np.arange(len(way)) < 40, 2.0, 1.0) for form, way in ways.items()}
    changed = {**found.predicted, "U1": found.predicted["U1"]._replace(paths=late)}
    claims = judge(found._replace(predicted=changed))
    assert failing(claims) == [3]
    assert "dB, 2 of 100 outside" in claims[3].figure


def test_gaps_are_predictions_minus_simulations() -> None:
    found = evidence({"U1": -2.0})
    gap = off(found, "U1", "kept")
    assert gap.mean == pytest.approx(2.0, abs=0.1)
    assert gap.low < gap.mean < gap.high
    way = path_off(found, "U1", "kept")
    assert way.mean[-1] == pytest.approx(2.0, abs=0.1)
    assert abs(way.mean[0]) < 0.1
    assert (way.low < way.high).all()


# -- settings and runs -------------------------------------------------------------------------------------------------


def test_settings_are_what_their_names_say() -> None:
    named = {setting.name: setting for setting in FULL.settings}
    assert len(named) == len(FULL.settings) == 15
    assert sum(named["U1"].delays) == pytest.approx(1 - 0.3**3)
    assert named["U1, no delays"].delays == (1.0,)
    assert FULL.rounds(named["U1, mu = 0.02"]) == 10_000
    assert {setting.name for setting in QUICK.settings} >= set(FOLLOWED)
    net = network(named["C0"])
    assert (net.coordinated, net.same_window, net.decay) == (True, True, 1.0)
    assert network(named["U2"]).decay == 0.2
    assert network(named["C2, full download"]).full_download
    assert (named["U1, data in half"].data, named["U1, available 0.1"].available) == (0.5, 0.1)
    assert not network(named["U1"], "no squares").fourth.any()  # type: ignore[union-attr]


def test_worlds_have_the_spectrum_that_is_said() -> None:
    found = world(Setting("U1"))
    np.testing.assert_allclose(np.linalg.eigvalsh(found.correlations), np.tile(np.linspace(0.2, 1, 6), (4, 1)))
    assert np.linalg.norm(found.truth) == pytest.approx(1.0)
    rough = world(ROUGH).correlations
    np.testing.assert_allclose(np.trace(rough, axis1=1, axis2=2), [32, *[4] * 7])
    stream, there = theory_runs.data(Setting("half", data=0.5), 4000, 3)
    batch = stream.chunk(0, 4000)
    np.testing.assert_array_equal(batch.weight > 0, there)
    assert there.mean() == pytest.approx(0.5, abs=0.02)  # 5 standard deviations of 16,000 coins
    x = batch.x.astype(np.float64)
    np.testing.assert_allclose(np.einsum("tki,tkj->kij", x, x) / 4000, found.correlations, atol=0.15)
    left = batch.y - x @ found.truth
    np.testing.assert_allclose(np.square(left).mean(axis=0), found.noise, rtol=0.15)


def test_without_squares_the_error_of_least_mean_squares_is_linear_in_the_step() -> None:
    # One client alone: (mu noise tr R / 2) / (1 - ...) loses its denominator, so that E||w - w*||^2 = mu noise d / 2.
    setting = ALONE._replace(step=0.1)
    expected = 0.1 * float(world(setting).noise[0]) * 6 / 2
    assert predicted(setting, "no squares") == pytest.approx(expected)
    assert predicted(setting, "kept") > 1.3 * expected


@pytest.mark.covered_by("analysis/test_mean_square.py, of limits")
def test_limits_of_the_step() -> None:
    found = bounds(ALONE)
    assert found.mean_square == pytest.approx(1.0)
    assert found.mean == pytest.approx(2.0)
    assert found.true == pytest.approx(2 / 8, rel=4e-3)
    assert mean_square_radius(network(ALONE)) > 1
    assert bounds(AGES).true == 0.0
    assert bounds(FADING).true > 0.5
    assert bounds(ROUGH).true > ROUGH.step > bounds(ROUGH).mean


def test_a_step_above_the_bound_is_refused_before_the_run() -> None:
    words = refusal(Task(ROUGH, 60, 1))
    assert "step = 0.3 is above" in words
    assert "Theorem 4.2" in words


@pytest.fixture(scope="module")
def simulated() -> Simulated:
    return run(Task(Setting("C1, m = 6, no delays", "C1", share=6, longest=0), 400, 60, 5))


def test_a_run_begins_at_zero_and_ends_where_it_is_predicted(simulated: Simulated) -> None:
    setting = Setting("C1, m = 6, no delays", "C1", share=6, longest=0)
    assert simulated.deviation.shape == (60, 400)
    np.testing.assert_allclose(simulated.deviation[:, 0], 1.0)
    assert not simulated.diverged.any()
    found = predict(setting, 400)
    # Exact without delays; the mean of 60 runs deviates by 0.1 dB (one standard deviation).
    assert 10 * np.log10(simulated.steady.mean() / found.steady["kept"]) == pytest.approx(0, abs=0.5)
    assert found.paths["kept"][0] == pytest.approx(1.0)
    early = simulated.deviation[:, :40].mean(axis=0) / found.paths["kept"][:40]
    np.testing.assert_allclose(early, 1.0, atol=0.25)


def test_what_has_left_all_bounds_has_diverged() -> None:
    found = Simulated(np.array([[1.0, 2e6], [1.0, np.nan], [1.0, np.inf], [1.0, 5.0]]))
    assert found.diverged.tolist() == [True, True, True, False]


@pytest.mark.slow
def test_the_page_shows_everything() -> None:
    found = theory.findings(evidence({"U1": 0.3}))
    assert [figure.name for figure in found.figures] == ["transient", "steady", "steps"]
    assert all(len(row) == len(table.columns) for table in found.tables for row in table.rows)
    assert len(found.metrics["settings"]) == 15
    assert "pao-theory" in EXPERIMENTS
