"""Verdicts on made-up evidence: all claims hold on what the text says, and each fails where it should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit.metrics import Interval
from tacit.privacy import decaying_gaussian, statement
from tacit.privacy.accounting import guarantee
from tacit.privacy.conversions import rho_within
from tacit.privacy.events import Loss
from tacit.privacy.spending import RunPrivacy
from tacit_reproduction.catalogue import EXPERIMENTS
from tacit_reproduction.nonsmooth import claims, study
from tacit_reproduction.nonsmooth.claims import judge
from tacit_reproduction.nonsmooth.runs import AVERAGED, AVERAGED_LONG, Method, Outcome, Setting
from tacit_reproduction.nonsmooth.search import FULL, MATCHED, QUICK, STARTS, Design, Evidence

SEEDS = 12
JITTER = np.exp(0.05 * np.random.default_rng(0).normal(size=(SEEDS, 1)))
LEVELS: dict[Method, float] = {"zCDP-NFL": 0.1, "P-ADMM": 0.12, "zCDP-grad-NFL": 0.3, MATCHED: 0.4, "DP-NFL": 40.0}


def outcome(error: float, rho: float | None = None, slope: float = -1.5, rounds: int = 200) -> Outcome:
    times = np.arange(1, rounds + 1)
    falling = error * JITTER * (rounds / times) ** 1.5
    privacy = RunPrivacy(statement(decaying_gaussian(3.0, 0.99, 1.0)))
    if rho is not None:
        privacy = RunPrivacy(privacy.statement, guarantee(Loss(np.inf, rho), "record"), 200)
    excess = JITTER * (AVERAGED if rounds == 200 else AVERAGED_LONG).astype(float) ** slope
    return Outcome(times, falling, 0.25 * error * np.ones(SEEDS), excess, privacy, 0.0)


def evidence(
    levels: dict[Any, float] | None = None,
    design: Design = FULL,
    slopes: tuple[float, float] = (-1.5, -1.5),
    limit: float = 1e-9,
    booked: float = 1.0,
    problem: Any = "ridge",
) -> Evidence:
    size = LEVELS | (levels or {})
    methods: list[Method] = list(STARTS[problem])
    keys = [(method, total) for method in methods for total in design.totals]
    if design.penalties:
        keys.append((MATCHED, design.middle))
    found = {}
    for method, total in keys:
        level = size.get((method, total), size[method]) / total
        rho = booked * rho_within(total, 1e-5) / (400 if method == "DP-NFL" else 1)
        found[method, total] = outcome(level, rho, slopes[1])
    quiet = {method: outcome(0.001) for method, total in keys if total == design.middle and method != "DP-NFL"}
    ends: list[Method] = ["zCDP-NFL", "P-ADMM"] if problem == "ridge" else ["zCDP-NFL"]
    return Evidence(
        problem,
        1.1,
        design.middle,
        {key: Setting(0.4, np.nan if "grad" in key[0] else 1.6) for key in keys},
        found,
        quiet,
        {method: outcome(50 * limit, slope=slopes[0], rounds=1600) for method in ends},
        outcome(1e-4, rounds=1600),
        outcome(2 * size["zCDP-grad-NFL"] / design.middle),
    )


@pytest.mark.parametrize(("design", "problem", "count"), [(FULL, "ridge", 8), (FULL, "lad", 7), (QUICK, "lad", 6)])
def test_all_claims_hold_on_evidence_as_the_text_has_it(design: Design, problem: str, count: int) -> None:
    found = judge(evidence(design=design, problem=problem))
    assert len(found) == count
    assert failing(found) == []


@pytest.mark.parametrize(
    ("method", "position"),
    [
        ("zCDP-grad-NFL", 0),
        ("DP-NFL", 2),
        ("P-ADMM", 3),
    ],
)
def test_one_total_at_which_it_is_not_below_is_enough(method: Method, position: int) -> None:
    found = judge(evidence({(method, 8.0): 0.1}))
    assert failing(found) == [position]
    assert "epsilon 8" in found[position].figure
    assert "epsilon 4" in found[position].figure


def test_a_miss_says_what_is_left_without_noise() -> None:
    (missed,) = [claim for claim in judge(evidence({"zCDP-grad-NFL": 0.01})) if not claim.holds]
    assert all(number in missed.figure for number in ("-16.0 dB", "-30.0", "25 %", "+3.01 [+3.01, +3.01] dB"))


def test_equal_speed_is_judged_on_its_own() -> None:
    found = judge(evidence({MATCHED: 0.05}))
    assert failing(found) == [1]
    assert all(number in found[1].figure for number in ("20 rounds", "0.79", "0.4"))


def test_slow_averages_are_reported_with_and_without_noise() -> None:
    for position, slopes in ((4, (-0.6, -1.2)), (5, (-1.2, -0.6))):
        assert failing(judge(evidence(slopes=slopes))) == [position]
    assert failing(judge(evidence(slopes=(-0.95, -0.95)))) == []  # within the spare


def test_an_optimum_that_is_not_reached_is_reported() -> None:
    assert failing(judge(evidence(limit=1e-5))) == [6]
    held = judge(evidence())[6]
    first = np.ceil(1600 * (1e-3 * JITTER.max()) ** (2 / 3))  # where 1e-9 jitter (1600 / n)^1.5 is 1e-6
    assert f"round {first:.0f}" in held.figure
    assert "2.0e-06" in held.figure


def test_every_method_has_to_reach_it_per_node() -> None:
    assert failing(judge(evidence(limit=5e-7))) == []
    made = evidence()
    one_off = made._replace(limit={**made.limit, "P-ADMM": outcome(50 * 5e-6, rounds=1600)})
    assert failing(judge(one_off)) == [6]


def test_whole_intervals_decide() -> None:
    assert claims._below(Interval(-0.5, -0.9, -0.1, 9))
    assert not claims._below(Interval(-0.5, -1.1, 0.1, 9))
    assert not claims._below(Interval(np.nan, np.nan, np.nan, 9))
    powers = -1.15 + np.linspace(-0.6, 0.6, SEEDS)[:, None]
    wide = claims._rate("", outcome(0.1)._replace(excess=AVERAGED**powers), AVERAGED)
    assert not wide.holds


def test_slopes_are_of_the_end_of_a_run() -> None:
    late = JITTER * np.where(AVERAGED < 50, 1.0, (AVERAGED / 50) ** -1.5)
    assert claims._rate("", outcome(0.1)._replace(excess=late), AVERAGED).holds


def test_sums_that_differ_are_reported() -> None:
    assert failing(judge(evidence(booked=1 + 1e-5))) == [7]
    assert failing(judge(evidence(booked=1 + 1e-7))) == []


@pytest.mark.slow
def test_the_page_shows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    made = evidence(problem="ridge")
    monkeypatch.setattr(study, "gather", lambda *_: made)
    findings = study.investigate("ridge", FULL, 0)
    assert [figure.name for figure in findings.figures] == ["rounds", "privacy", "averaged"]
    assert all(len(row) == len(table.columns) for table in findings.tables for row in table.rows)
    assert len(findings.metrics["runs"]) == len(made.found)
    assert len(findings.tables[0].rows) == len(made.found) + len(made.quiet)
    quick = evidence(problem="lad", design=QUICK)
    monkeypatch.setattr(study, "gather", lambda *_: quick)
    assert [figure.name for figure in study.investigate("lad", QUICK, 0).figures] == ["rounds", "averaged"]


def test_they_are_listed() -> None:
    assert {"zcdp-elastic-net", "zcdp-lad", "zcdp-ridge"} <= EXPERIMENTS.keys()
