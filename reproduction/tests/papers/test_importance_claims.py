"""Verdicts on importance sampling, on evidence made up for either outcome, and one tiny run."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing, verdicts
from tacit.core.errors import DataError
from tacit_reproduction.catalogue import EXPERIMENTS
from tacit_reproduction.federated import importance, importance_claims, importance_ijcnn1, importance_ijcnn1_runs
from tacit_reproduction.federated.importance_claims import Sweeps, judge
from tacit_reproduction.federated.importance_ijcnn1_runs import KINDS, Outcome, Reference
from tacit_reproduction.federated.importance_runs import (
    Curves,
    Extent,
    Problem,
    Setting,
    Task,
    data_of,
    drift,
    run,
)
from tacit_reproduction.federated.importance_sampling import Checks, Fit, deviation, inclusion

SEEDS = 12
JITTER = np.random.default_rng(0).normal(size=SEEDS)
PLAIN = Problem()
SWEEPS = Sweeps(
    (6, 30), (5, 10), [Problem(noise=2.0), Problem(noise=4.0)], [Problem(features=8.0), Problem(features=9.0)],
    [Problem(contrast=10.0)],
)  # fmt: skip
DRIFTS = {PLAIN: np.full(3, 0.1), Problem(noise=2.0): np.full(3, 0.2), Problem(noise=4.0): np.full(3, 0.4)}
ROUNDS = np.array([20, 40, 60, 80, 100])
FINE, POOR = Fit(10.0, 9, 0.35), Fit(900.0, 9, 1e-99)


def curves(decibels: float, early: float = 0.0, spread: float = 0.05, diverged: bool = False) -> Curves:
    """A steady state at so many dB, reached after `early` dB at the third record."""
    msd = np.tile(10 ** ((decibels + spread * JITTER) / 10)[:, None], (1, 5))
    msd[:, 2] = 10 ** ((early + spread * JITTER) / 10)
    msd[:, -1] = 1e9 if diverged else msd[:, -1]
    return Curves(ROUNDS, msd, np.ones(SEEDS), 60)


def evidence(good: bool) -> dict:
    """All that the text says, or none of it."""
    level = {"uniform": -30.0, "optimal": -43.1, "current": -44.0, "sampled": -43.0}
    early = {"uniform": -1.0, "optimal": -2.0, "current": -3.0, "sampled": -2.0}
    if not good:
        level, early = dict.fromkeys(level, -30.0) | {"sampled": -28.0}, dict.fromkeys(level, -1.0)
    found = {(Setting(rule), PLAIN): curves(level[rule], early[rule]) for rule in level}
    for rule in ("uniform", "optimal"):
        found[Setting(rule, 30), PLAIN] = curves(level[rule] - 7 if good else level[rule] + 3)
        found[Setting(rule, most_steps=10), PLAIN] = curves(level[rule] + (0.2 if good else 3))
        found[Setting(rule), SWEEPS.contrast[0]] = curves(level[rule])
        for k, problem in enumerate(SWEEPS.noise):
            found[Setting(rule), problem] = curves(level[rule] + (6 * k if good else -k), diverged=good and k == 1)
    for rule in level:
        for k, problem in enumerate(SWEEPS.features):
            found[Setting(rule), problem] = curves(-20, diverged=(rule == "uniform" or not good) and k == 1)
    return found


def test_either_verdict_of_every_claim():
    good = judge(evidence(True), SWEEPS, Checks({"a": FINE}, {"a": FINE}), DRIFTS)
    bad = judge(evidence(False), SWEEPS, Checks({"a": POOR}, {"a": FINE, "b": POOR}), DRIFTS)
    assert [claim.claim for claim in good] == [claim.claim for claim in bad]
    assert all(verdicts(good))
    assert not any(verdicts(bad))
    reasons = [claim.figure for claim in bad if "Why:" in claim.figure]
    assert len(reasons) >= 7


def test_noise_alone_is_said_not_to_diverge_and_why():
    calm = evidence(True)
    for rule in ("uniform", "optimal"):
        for k, problem in enumerate(SWEEPS.noise):
            calm[Setting(rule), problem] = curves(-30.0 + 6 * k - (13 if rule == "optimal" else 0))
    assert failing(judge(calm, SWEEPS, Checks({"a": FINE}, {"a": FINE}), DRIFTS)) == [12]


def test_sweeps_of_one_level_make_no_claim():
    alone = SWEEPS._replace(cohorts=(6,), steps=(5,))
    assert len(judge(evidence(True), alone, Checks({"a": FINE}, {"a": FINE}), DRIFTS)) == len(verdicts(
        judge(evidence(True), SWEEPS, Checks({"a": FINE}, {"a": FINE}), DRIFTS)
    )) - 3  # fmt: skip


def test_deviation_finds_a_bias_in_any_direction():
    """False alarms 1 in 1e6 of the first; the others are 5 standard errors and more away."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(4000, 3)) * [1, 10, 0]
    assert deviation(values, np.zeros(3)).p > 1e-6
    assert deviation(values, [0.1, 0, 0]).p < 1e-6
    assert deviation(values, [0, 0, 0.1]).p == 0  # what never varies has to be right


def test_inclusion_is_tested_by_cohorts():
    assert inclusion("optimal", np.array([5.0, 1, 1, 1, 2]), 2, seed=0).p > 1e-6


def test_data_of_a_problem_differ_in_what_it_names_only():
    plain, loud, wide = (data_of(p, 40, 5, 3) for p in (PLAIN, Problem(contrast=10.0), Problem(features=4.0)))
    np.testing.assert_array_equal(plain.x, loud.x)
    np.testing.assert_array_equal(plain.y[2:], loud.y[2:])
    assert np.all(plain.y[:2] != loud.y[:2])
    np.testing.assert_allclose(wide.x, 2 * plain.x, rtol=1e-5)
    extent = Extent(40, 20, 2, 1, 1, 0)
    np.testing.assert_allclose(drift(Problem(noise=3.0), extent, 0), 3 * drift(PLAIN, extent, 0), rtol=0.05)


def test_a_tiny_run():
    extent = Extent(clients=8, samples=6, seeds=2, rounds=120, every=20, steady=60)
    task = Task(Setting("optimal", cohort=3, most_steps=2), (PLAIN, Problem(features=5e4)), extent, 4)
    found = run(task)
    calm, wild = (found[task.setting, problem] for problem in task.problems)
    assert calm.rounds.tolist() == [20, 40, 60, 80, 100, 120]
    assert np.all(calm.msd[:, -1] < calm.start)
    assert not calm.diverged().any()
    assert wild.diverged().all()
    assert wild.decibels.tolist() == [np.inf, np.inf]


def test_full_forms_have_enough_seeds_and_are_registered():
    assert importance.FULL.extent.seeds >= 20
    assert importance_ijcnn1.FULL.seeds >= 20
    assert importance.FULL.drifts[:4] == (0.297, 1.5, 4.94, 10.0)
    assert {"isfedavg-regression", "isfedavg-ijcnn1"} <= EXPERIMENTS.keys()
    tasks = importance.tasks_of(importance.QUICK, importance.sweeps_of(importance.QUICK, 0), 0)
    assert {task.setting.rule for task in tasks} == set(importance_claims.RULES)


# -- ijcnn1 ------------------------------------------------------------------------------------------------------------


def outcomes(uniform: float, optimal: float, sampled: float) -> dict:
    levels = {"uniform": uniform, "optimal": optimal, "sampled": sampled}
    level = {rule: np.tile((value + 1e-4 * JITTER)[:, None], (1, 5)) for rule, value in levels.items()}
    return {rule: Outcome(ROUNDS, dict.fromkeys(KINDS, values), 40) for rule, values in level.items()}


def test_both_verdicts_on_ijcnn1():
    best = Reference(0.095, dict.fromkeys(KINDS, np.full(SEEDS, 0.087)))
    as_printed = verdicts(importance_ijcnn1.judge(outcomes(0.2245, 0.1846, 0.19), best))
    assert all(as_printed)
    claims = importance_ijcnn1.judge(outcomes(0.095, 0.0951, 0.0951), best)
    assert not any(verdicts(claims))
    assert all("Why:" in claim.figure for claim in claims)
    assert "9.50 %" in claims[0].figure


def test_who_cannot_tell_says_the_larger_class():
    split = importance_ijcnn1_runs.Split(None, None, np.eye(4, dtype=np.float32), np.array([1, -1, -1, -1], np.float32))
    found = importance_ijcnn1_runs.tested(np.array([[0.0, 0, 0, 0], [1, 1, -1, -1]]), split)
    np.testing.assert_allclose(found["error"], [0.25, 0.25])
    np.testing.assert_allclose(found["balanced"], [0.5, 1 / 6])
    np.testing.assert_allclose(found["loss"][0], np.log(2), rtol=1e-6)


def test_without_the_data_it_refuses(monkeypatch, tmp_path):
    def nowhere():
        raise DataError("ijcnn1 is not here")

    monkeypatch.setattr(importance_ijcnn1, "every_row", nowhere)
    with pytest.raises(DataError, match="not here"):
        EXPERIMENTS["isfedavg-ijcnn1"].run(True, tmp_path, 0)
    assert not list(tmp_path.iterdir())
