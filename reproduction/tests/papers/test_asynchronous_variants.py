from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit_reproduction.asynchronous import curves as shown
from tacit_reproduction.asynchronous import variants, variants_limit
from tacit_reproduction.asynchronous.setting import Curve
from tacit_reproduction.asynchronous.variants import FULL, QUICK, Design, findings, tasks_of
from tacit_reproduction.asynchronous.variants_claims import judge
from tacit_reproduction.asynchronous.variants_limit import DECAYED, SWEEP, Limit, predicted

SEEDS = 12
JITTER = 0.01 * np.random.default_rng(0).normal(size=(SEEDS, 1))
AS_CLAIMED = {"C0": -1.0, "U0": -2.0, "C1": -8.0, "U1": -8.5, "C2": -9.0, "U2": -9.1}
AS_CLAIMED |= {"U1, m = 1": -8.8, "U1, m = 32": -8.0}
LIMITS = {**{case: -14.0 + 0.1 * case.share for case in SWEEP}, **dict.fromkeys(DECAYED, -14.5)}
EARLY = {"U1, m = 1": -2.0, "U1, m = 32": -5.0}


def curve(label: str, end: float, early: float = -4.0, rounds: int = 2000) -> Curve:
    """In dB from 0 over `early` after a tenth of the rounds to `end` after half of them."""
    at = rounds // 100 * np.arange(1, 101)
    db = np.interp(at, [0, rounds / 10, rounds / 2], [0.0, early, end]) + JITTER
    return Curve(label, at, 10 ** (db / 10), up=8.0, down=8.0, participations=1 / 16, seconds=1.0)


def evidence(design: Design = FULL, ends: Mapping[str, float] = MappingProxyType({})) -> dict[str, Curve]:
    """Return curves of all tasks, as the text has them but for `ends`."""
    found = {}
    for task in tasks_of(design, 0):
        own = task.label.removesuffix(", long")
        plain = AS_CLAIMED.get(own, AS_CLAIMED[own[:2]])
        found[task.label] = curve(task.label, ends.get(task.label, plain), EARLY.get(own, -4.0), task.rounds)
    return found


@pytest.mark.parametrize(("design", "count"), [(FULL, 8), (QUICK, 6)])
def test_all_claims_hold_on_curves_as_the_text_has_them(design: Design, count: int) -> None:
    found = judge(evidence(design), LIMITS if design == FULL else {})
    assert len(found) == count
    assert failing(found) == []


@pytest.mark.parametrize(
    ("ends", "missed"),
    [
        ({"C0": -8.1}, 0),
        ({"U0": -8.6}, 0),
        ({"C1": -8.6}, 1),
        ({"U1, m = 1": -8.4}, 3),
        ({"U1, m = 32": -8.6}, 3),
        ({"U1, m = 32, long": -8.6}, 4),
        ({"C2": -9.5}, 7),
        ({"U2": -8.4, "C2": -8.5}, 6),
    ],
)
def test_errors_in_another_order_are_reported(ends: dict[str, float], missed: int) -> None:
    assert failing(judge(evidence(ends=ends), LIMITS)) == [missed]


def test_a_difference_within_its_interval_is_none() -> None:
    found = evidence(ends={"C1": -8.45})
    noise = np.random.default_rng(1).normal(size=(SEEDS, 1))
    found["C1"] = found["C1"]._replace(mse=found["C1"].mse * 10 ** (0.05 * (noise - noise.mean())))
    assert failing(judge(found, LIMITS)) == [1]


def test_a_slow_start_is_reported() -> None:
    found = evidence()
    found["U1, m = 32"] = curve("U1, m = 32", -8.0, early=-3.9)
    assert failing(judge(found, LIMITS)) == [2]


def test_predictions_in_another_order_are_reported() -> None:
    assert failing(judge(evidence(), {**LIMITS, Limit("U1", 2): -13.5})) == [5]


def test_predictions_are_of_the_variant_and_its_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(variants_limit, "asynchronous_network", lambda *_, **settings: seen.append(settings))
    monkeypatch.setattr(variants_limit, "steady_state", lambda network: SimpleNamespace(deviation=np.full(3, 0.01)))
    assert predicted(Limit("C2", 2)) == pytest.approx(-20)
    predicted(Limit("U1", 4))
    assert [(s["share"], s["decay"], s["coordinated"]) for s in seen] == [(2, 0.2, True), (4, 1.0, False)]
    assert {(s["step"], s["availability"], s["data"]) for s in seen} == {(0.4, 0.095, 0.625)}


@pytest.mark.slow
def test_predictions_rise_with_the_window() -> None:
    found = {case: predicted(case) for case in (*SWEEP, *DECAYED)}
    assert found[Limit("U1", 1)] < found[Limit("U1", 2)] < found[Limit("U1", 4)]
    assert len({round(value, 3) for value in found.values()}) == 6


def test_what_counting_less_costs_at_first_is_said() -> None:
    found = evidence(ends={"U2": -8.45, "C2": -8.5})
    found["U2"] = curve("U2", -8.45, early=-3.5)
    figure = judge(found, LIMITS)[6].figure
    assert all(number in figure for number in ("+0.50 [+0.50, +0.50] dB", "-0.60 [-0.60, -0.60] dB"))
    assert all(limit in figure for limit in ("C1 -14.50", "C2 -14.50", "U1 -13.90", "U2 -14.50"))


def test_how_far_a_curve_is_from_rest_is_said() -> None:
    found = evidence()
    found["U1"] = found["U1"]._replace(mse=10 ** (-found["U1"].rounds / 2000 + JITTER))  # 10 dB in all, straight
    assert "4.54 dB" in judge(found, LIMITS)[3].figure  # from the middle to the middle of the last tenth


def test_tasks_are_the_text_s() -> None:
    tasks = {task.label: task for task in tasks_of(FULL, 3000)}
    assert len(tasks) == 6 + 2 + 4 + 8
    assert {task.settings["step"] for task in tasks.values()} == {0.4}
    assert {task.seed for task in tasks.values()} == {3000}
    assert {label: tasks[label].settings["variant"] for label in variants.VARIANTS} == {v: v for v in variants.VARIANTS}
    assert [tasks[f"U1, m = {m}"].settings["share"] for m in (1, 32)] == [1, 32]
    assert "share" not in tasks["U1"].settings
    assert tasks["U1, m = 32, long"] == tasks["U1, m = 32"]._replace(label="U1, m = 32, long", rounds=16000, seeds=4)
    assert tasks["C2, random order"].settings == {"variant": "C2", "step": 0.4, "order": "random"}
    assert tasks["C2, newest only"].settings == {"variant": "C2", "step": 0.4, "newest_only": True}
    assert all(task.clients == 64 and task.rounds == 500 and task.seeds == 4 for task in tasks_of(QUICK, 0))


def test_errors_and_bits_stand_beside_each_other() -> None:
    found = curve("U1", -9.0, early=-4.0)
    np.testing.assert_allclose(shown.steady_error(found), 10 ** ((-9 + JITTER[:, 0]) / 10))
    np.testing.assert_allclose(shown.early_error(found), 10 ** ((-4 + JITTER[:, 0]) / 10))
    table = shown.loads("", [found._replace(down=4.0)])
    assert table.rows[0][0] == "U1"
    assert table.rows[0][1].startswith("-9.00 ± 0.0")
    assert table.rows[0][2].startswith("-4.00 ± 0.0")
    assert table.rows[0][3:] == ("128", "8", "4", "12")
    assert shown.in_metrics(found)["bits_per_message"] == 128
    assert shown.bits(found._replace(down=4000.0)) == "8 + 4,000 bits"


def test_the_page_compares_orders_and_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "_figures", lambda curves: [])
    found = evidence()
    found["C2, newest only"] = curve("C2, newest only", -8.0)
    tables = findings(found, LIMITS, FULL).tables
    rows = {row[0]: row for row in tables[1].rows}
    assert len(rows) == 8
    assert rows["C2, newest only"][3].startswith("+1.00")
    assert rows["C1, random order"][3].startswith("+0.00")
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    assert len(findings(evidence(QUICK), {}, QUICK).tables) == 1


@pytest.mark.slow
def test_the_page_shows_all_panels() -> None:
    assert [figure.name for figure in findings(evidence(), LIMITS, FULL).figures] == ["variants", "long"]
    assert [figure.name for figure in findings(evidence(QUICK), {}, QUICK).figures] == ["variants"]
