from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit.objectives import FourierFeatures
from tacit_reproduction.asynchronous import environments, environments_runs, setting
from tacit_reproduction.asynchronous.comparison import FED, SGD, fair, without_place
from tacit_reproduction.asynchronous.environments_claims import judge
from tacit_reproduction.asynchronous.environments_runs import (
    FULL,
    QUICK,
    Design,
    Evidence,
    Steps,
    gather,
    label,
    near_the_bound,
)
from tacit_reproduction.asynchronous.setting import COMMON_DELAYS, HARSH, USUAL, Curve, Task
from tacit_reproduction.catalogue import EXPERIMENTS

SEEDS, ROUNDS = 6, np.arange(20, 2020, 20)
JITTER = 0.02 * np.random.default_rng(1).normal(size=(SEEDS, 1))
JITTER -= JITTER.mean()

LEVELS = {
    "usual: U1": -9.0,
    "usual: C2": -9.2,
    "usual: U1, full download": -6.0,
    "usual: C2, full download": -5.0,
    "common delays: U1": -8.5,
    "common delays: C2": -8.6,
    "common delays: C2 (near)": -9.5,
    "common delays: Online-FedSGD (matched)": -9.0,
    "harsh: U1": -7.0,
    "harsh: C2": -8.0,
    "harsh: Online-FedSGD (matched)": -6.5,
    "harsh: Online-Fed (matched)": -4.0,
}
"""dB with which every claim holds."""


def curve(name: str, level: float) -> Curve:
    shape = level * (1 - np.exp(-ROUNDS / 200))
    return Curve(name, ROUNDS, 10 ** ((shape + JITTER) / 10), 7.6, 7.6, 0.06, 1.0)


def task_curve(task: Task) -> Curve:
    """Stand for a run whose error falls with its step: as far as 10 dB times the root of it."""
    shape = -10 * np.sqrt(task.settings["step"]) * np.ones(len(ROUNDS))
    return curve(task.label, 0.0)._replace(mse=10 ** ((shape + JITTER[: task.seeds]) / 10))


def evidence(levels: Mapping[str, float] = LEVELS, design: Design = FULL) -> Evidence:
    names = [t.label for t in environments_runs._plain(design, 1.2, 0)]
    rivals = [(m, e.name) for e in design.environments for m in environments_runs.rivals(e)]
    best = [(m, e.name) for e in design.environments[1:] for m in (*environments_runs.rivals(e), "U1", "C2")]
    steps = Steps(1.2, dict.fromkeys(rivals, 0.2), dict.fromkeys(best, 0.8) if design.tuning_seeds else {})
    names += [t.label for t in environments_runs._compared(design, steps, 0)]
    return Evidence(design, steps, {name: curve(name, levels.get(name, -7.5)) for name in names})


def test_all_claims_hold_on_evidence_as_the_text_has_it() -> None:
    found = judge(evidence())
    assert len(found) == 6
    assert failing(found) == []


@pytest.mark.parametrize(
    ("name", "level", "missed"),
    [
        ("usual: U1, full download", -7.5, 0),
        ("common delays: U1", -9.1, 1),
        ("common delays: C2 (near)", -8.9, 2),
        ("harsh: C2", -7.1, 3),
        ("harsh: Online-FedSGD (matched)", -8.1, 4),
        ("harsh: Online-Fed (matched)", -8.1, 5),
    ],
)
def test_other_levels_are_reported(name: str, level: float, missed: int) -> None:
    assert failing(judge(evidence({**LEVELS, name: level}))) == [missed]


def test_why_weights_win_little_is_told_from_runs_without_delays() -> None:
    levels = {
        **LEVELS,
        "harsh: C2": -7.1,
        "harsh, no delays: U1": -7.3,
        "harsh, no delays: C1": -7.25,
        "harsh: C1": -7.0,
    }
    missed = next(claim for claim in judge(evidence(levels)) if not claim.holds)
    assert all(number in missed.figure for number in ("0.30 dB", "0.25 dB", "40%"))
    assert "15 messages" in missed.figure  # 0.06 of 256 clients


def test_the_quick_form_leaves_out_what_needs_the_full_size_and_says_so() -> None:
    levels = {name.replace("matched", "step 0.4"): level for name, level in LEVELS.items()}
    found = evidence(levels, QUICK)
    claims = judge(found)
    assert len(claims) == 3
    assert failing(claims) == []
    assert not any(name.startswith("harsh") for name in found.curves)
    assert not any("matched" in name for name in found.curves)
    assert "left out" in environments._method(found)[-1]


def test_steps_are_matched_to_u1_of_the_same_environment_and_the_best_end_lowest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[Task] = []

    def run(task: Task) -> Curve:
        ran.append(task)
        # U1 falls like step 0.1 in the harsh environment and like its own elsewhere.
        slow = task.settings.get("variant") == "U1" and task.environment == HARSH
        return task_curve(task._replace(settings={**task.settings, "step": 0.1}) if slow else task)

    monkeypatch.setattr(environments_runs, "run", run)
    monkeypatch.setattr(environments_runs, "near_the_bound", lambda *_: 1.2)
    found = gather(FULL._replace(seeds=4, tuning_seeds=2), 0, workers=1)
    assert found.steps.matched == {
        (SGD, "usual"): 0.4,
        (SGD, "common delays"): 0.4,
        (SGD, "harsh"): 0.1,
        (FED, "harsh"): 0.1,
    }
    assert found.steps.best[SGD, "harsh"] == 1.2
    assert found.steps.best["C2", "common delays"] == 1.2
    assert not any(where == "usual" for _, where in found.steps.best)
    chosen = [task for task in ran if task.seed >= setting.TUNING_SEEDS]
    assert {task.seeds for task in chosen} == {2}
    assert len(chosen) == 4 * 12 + 4 * 5  # rivals on all steps, PAO-Fed on a few
    compared = {task.label: task.settings["step"] for task in ran if task.seed == 0}
    assert compared[label(SGD, HARSH, "matched")] == 0.1
    assert compared[label("C2", COMMON_DELAYS, "near")] == 1.2
    assert compared[label("U1", USUAL)] == 0.4


def test_the_step_near_the_bound_is_a_share_of_the_largest_eigenvalue_s_inverse() -> None:
    design = QUICK._replace(clients=8, rounds=40)
    near = near_the_bound(design, 3)
    batches = setting.stream("synthetic", 8, 40, 3).chunk(0, 40)
    z = np.asarray(FourierFeatures(200, 2.0, 0)(batches.x))
    weight = batches.weight[..., None]
    top = [np.linalg.eigvalsh((z[:, k] * weight[:, k]).T @ z[:, k] / weight[:, k].sum())[-1] for k in range(8)]
    assert near == pytest.approx(0.95 / max(top), rel=2e-3)


def test_labels_of_a_panel_do_not_repeat_its_title() -> None:
    found = without_place({"harsh": [curve("harsh: C2 (near)", -7.0)]})
    assert found["harsh"][0].label == "C2 (near)"
    assert fair(0) == "step 0.4"


@pytest.mark.slow
def test_the_page_shows_everything() -> None:
    found = environments.findings(evidence())
    assert [figure.name for figure in found.figures] == ["environments", "best-steps"]
    assert all(len(row) == len(table.columns) for table in found.tables for row in table.rows)
    assert len(found.metrics["curves"]) == len(evidence().curves)
    assert "pao-environments" in EXPERIMENTS
