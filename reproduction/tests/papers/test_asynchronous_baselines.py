from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit_reproduction.asynchronous import baselines
from tacit_reproduction.asynchronous import baselines_runs as runs
from tacit_reproduction.asynchronous.baselines_claims import judge, saved
from tacit_reproduction.asynchronous.baselines_runs import FULL, QUICK, Chosen, Design, Evidence, tasks_of
from tacit_reproduction.asynchronous.setting import IDEAL, TUNING_SEEDS, USUAL, Curve, Task

SEEDS = 12
AT = np.arange(20, 2020, 20)
JITTER = 0.01 * np.random.default_rng(0).normal(size=(SEEDS, 1))
AS_CLAIMED = {"U1": -8.7, "U2": -8.9, "C2": -9.0, "Online-FedSGD": -8.5, "Online-Fed 2 %": -6.0, "PSO-Fed": -7.0}
AS_CLAIMED |= {"Online-Fed 10 %": -7.0, "Online-Fed 50 %": -8.0, "SignSGD": -8.8, "U1, ideal": -8.8, "C2, ideal": -9.1}
AS_CLAIMED |= {"Online-FedSGD, ideal": -9.2, "PSO-Fed, nobody learns alone": -5.0}


def curve(label: str, end: float, bits: float = 8.0, early: float = -4.0) -> Curve:
    """In dB from 0 over `early` after a tenth of the rounds to `end`."""
    db = np.interp(AT, [0, 200, 1000], [0.0, early, end]) + JITTER
    return Curve(label, AT, 10 ** (db / 10), up=bits, down=bits, participations=1 / 16, seconds=1.0)


def steps_of(design: Design) -> dict[str, Chosen]:
    """Return steps as if they had been looked for: 0.2 makes methods start alike and 0.4 is best."""
    tried = {0.2: -8.0, 0.4: -9.0} if design.tuning_seeds else {}
    labels = [method.label for method in runs.baselines(design)]
    return {
        **{label: Chosen(0.2, 0.4 if tried else 0.2, tried) for label in labels},
        **({label: Chosen(0.4, 0.4, tried) for label in ("U1", "C2")} if tried else {}),
    }


def evidence(design: Design = FULL, ends: Mapping[str, float] = MappingProxyType({})) -> Evidence:
    """Return curves of all tasks, as the text has them but for `ends`."""
    steps, found = steps_of(design), {}
    for task in tasks_of(design, 0, steps):
        own = task.label.removesuffix(", best step")
        plain = ends.get(task.label, AS_CLAIMED.get(own, AS_CLAIMED.get(own[:2], -8.0)))
        found[task.label] = curve(task.label, plain, 400.0 if "Fed" in own and "PSO" not in own else 8.0)
    return Evidence(design, found, steps)


@pytest.mark.parametrize(("design", "count"), [(FULL, 16), (QUICK, 9)])
def test_all_claims_hold_on_curves_as_the_text_has_them(design: Design, count: int) -> None:
    found = judge(evidence(design))
    assert len(found) == count
    assert failing(found) == []
    assert all((level in found[3].figure) == (design == FULL) for level in ("-8.00 dB at 0.2", "-9.00 dB at 0.4"))


@pytest.mark.parametrize(
    ("ends", "missed"),
    [
        ({"U1": -8.39}, [0, 3]),
        ({"U2": -8.45}, [3]),
        ({"Online-FedSGD": -8.95}, [0, 3]),
        ({"Online-Fed 2 %": -8.5}, [4, 8]),
        ({"Online-Fed 10 %, best step": -5.9}, [9]),
        ({"PSO-Fed": -8.3}, [5]),
        ({"C2, m = 1": -7.9}, [7]),
        ({"U1, m = 200": np.inf}, [6]),
        ({"Online-Fed 50 %": -8.6}, [8, 13]),
        ({"Online-FedSGD, ideal": -9.5}, [10, 12]),
        ({"U1, ideal": -9.2}, [11]),
        ({"U1, ideal": -7.9}, [11]),
        ({"C2, ideal": -9.4, "Online-FedSGD, ideal": -9.4}, [12]),
        ({"SignSGD": -9.1}, [14]),
        ({"PSO-Fed": -9.1, "U1": -9.9}, [6, 15]),
    ],
)
def test_errors_in_another_order_are_reported(ends: dict[str, float], missed: list[int]) -> None:
    assert failing(judge(evidence(ends=ends))) == missed


def test_a_difference_within_its_interval_is_none() -> None:
    found = evidence(QUICK, {"U2": -8.52})
    noise = np.random.default_rng(1).normal(size=(SEEDS, 1))
    unsure = found.curves["U2"]._replace(mse=found.curves["U2"].mse * 10 ** (0.01 * (noise - noise.mean())))
    assert failing(judge(found._replace(curves={**found.curves, "U2": unsure}))) == [3]


def test_reasons_are_given_where_they_were_looked_for() -> None:
    assert "-5.00" in judge(evidence(ends={"PSO-Fed": -8.6}))[5].figure
    missed = judge(evidence(ends={"U1, m = 200": np.inf}))[6]
    assert "12 of 12 seeds" in missed.figure
    assert "0.00 dB apart" in missed.figure


def test_bits_saved_are_of_both_directions() -> None:
    one, other = curve("a", -9.0, 2.0)._replace(down=6.0), curve("b", -9.0, 200.0)
    assert saved(one, other) == pytest.approx(0.98)


def test_steps_are_chosen_by_how_methods_start_and_end_on_seeds_of_their_own() -> None:
    seen: list[Task] = []

    def pretend(what: str, do: Callable[..., Any], tasks: Sequence[Task]) -> list[Any]:
        seen.extend(tasks)
        return [_as_steep_as_its_step(task) for task in tasks]

    crew: Any = pretend
    found = runs.chosen_steps(FULL, 3000, crew)
    assert {task.seed for task in seen} == {3000 + TUNING_SEEDS}
    assert {task.seeds for task in seen} == {FULL.tuning_seeds}
    assert found[runs.FEDSGD].matched == 0.2  # falls like U1 at 0.4
    assert found[runs.SIGN].matched == 0.016  # falls like U1 at 0.4
    assert found[runs.ideal(runs.FEDSGD)].matched == 0.28  # falls like C2 among ideal clients
    assert found[runs.FEDSGD].best == 0.56
    assert found["U1"].matched == 0.4
    assert set(found[runs.HALF].tried) == set(runs.GRID)
    assert found[runs.HALF].tried[0.56] == pytest.approx(-9.0, abs=0.01)


def _as_steep_as_its_step(task: Task) -> Curve:
    """After a tenth of the rounds at -10 dB times its step (half of it for U1), and lowest in the end at 0.56."""
    step = task.settings["step"]
    scale = {"U1": 0.5, "C2": 0.25, "SignSGD": 12.5, "C2, ideal": 0.7}.get(task.label, 1.0)
    end = -9.0 - abs(np.log(step / 0.56)) * -1.0
    return curve(task.label, end, early=-10 * step * scale)


def test_tasks_are_the_text_s() -> None:
    steps = {**steps_of(FULL), runs.SIGN: Chosen(0.01, 0.01, {0.01: -8.0})}
    tasks = {task.label: task for task in tasks_of(FULL, 3000, steps)}
    assert len(tasks) == 3 + 6 + 2 + 7 + 5 + 1
    assert {task.seed for task in tasks.values()} == {3000}
    assert tasks["C2, m = 200"].settings == {"variant": "C2", "share": 200, "step": 0.4}
    assert tasks["PSO-Fed"].settings == {"fraction": 0.25, "share": 16, "step": 0.2}
    assert tasks["Online-Fed 2 %"].settings == {"fraction": 0.02, "step": 0.2}
    assert tasks["Online-Fed 2 %, best step"].settings == {"fraction": 0.02, "step": 0.4}
    assert "SignSGD, best step" not in tasks  # the same as the one that starts alike
    assert {label for label, task in tasks.items() if task.environment == IDEAL} == {
        "U1, ideal",
        "C2, ideal",
        "Online-FedSGD, ideal",
    }
    alone = tasks["PSO-Fed, nobody learns alone"]
    assert alone.environment.availability == pytest.approx([p / 4 for p in USUAL.availability])
    assert alone.settings == {"variant": "U1", "share": 16, "autonomous": False, "step": 0.2}
    nobody: Any = None  # the quick form looks for no steps
    quick = tasks_of(QUICK, 0, runs.chosen_steps(QUICK, 0, nobody))
    assert len(quick) == 8
    assert all(task.clients == 64 and task.rounds == 500 for task in quick)


def test_the_page_says_how_steps_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "_figures", lambda found: [])
    page = baselines.findings(evidence())
    assert all(len(row) == len(table.columns) for table in page.tables for row in table.rows)
    assert page.metrics["steps"]["PSO-Fed"] == {"matched": 0.2, "best": 0.4}
    assert dict(zip(page.tables[1].columns, page.tables[1].rows[0], strict=True))["all"] == "0.2: -8.00, 0.4: -9.00"
    assert any("need the full form" in line for line in baselines.findings(evidence(QUICK)).method)


@pytest.mark.slow
def test_the_page_shows_all_figures() -> None:
    drawn = baselines.findings(evidence(ends={"U1, m = 200": np.inf})).figures
    assert [figure.name for figure in drawn] == ["baselines", "load", "stragglers", "reductions"]
    assert [figure.name for figure in baselines.findings(evidence(QUICK)).figures] == ["baselines", "reductions"]
