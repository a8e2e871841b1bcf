from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tacit.results import Comparison, Run
from tacit.results.references import ALONE, ALONE_WITHOUT_NOISE, CONSTANT, WITHOUT_NOISE, findings
from tacit.results.report import page

from .conftest import PRIVATE

MakeRun = Callable[..., Run]
KINDS = (WITHOUT_NOISE, ALONE, ALONE_WITHOUT_NOISE, CONSTANT)


@pytest.fixture
def compared(make_run: MakeRun) -> Callable[..., Comparison]:
    """A private run beside references whose accuracy is so much above its own."""

    def make(ahead: dict[str, float], **changes: object) -> Comparison:
        runs = [make_run(label="mine <b>", privacy=PRIVATE, references={k: k for k in KINDS}, **changes)]
        for seed, kind in enumerate(KINDS, start=1):
            run = make_run(seed=seed, label=kind, **changes)
            run.per_round["accuracy"][:] += ahead.get(kind, -0.1)
            runs.append(run)
        return Comparison(tuple(run.record() for run in runs))

    return make


@pytest.mark.parametrize("repeats", [1, 3])
def test_worse_than_a_constant_or_alone_is_a_caution_and_better_is_none(
    compared: Callable[..., Comparison], repeats: int
) -> None:
    assert compared({}, repeats=repeats).cautions() == []
    assert compared({WITHOUT_NOISE: 0.2}, repeats=repeats).cautions() == []  # the price of noise is no fault
    for kind in (ALONE, ALONE_WITHOUT_NOISE, CONSTANT):
        (caution,) = compared({kind: 0.1}, repeats=repeats).cautions()
        assert "mine <b>" in caution
        assert "batches" in caution


def test_what_lies_within_the_interval_is_about_the_same(compared: Callable[..., Comparison]) -> None:
    # Draws of 0.02 * U[0, 1): means over 40 rounds differ by about a thousandth.
    comparison = compared(dict.fromkeys(KINDS, 0.0))
    (finding,) = findings(comparison.records, ())
    assert {match.outcome for match in finding.matches} == {"about the same"}
    assert comparison.cautions() == []


def test_the_sentence_has_the_figures_and_the_price(compared: Callable[..., Comparison]) -> None:
    comparison = compared({WITHOUT_NOISE: 0.1})
    (sentence,) = comparison.sentences()
    mine, quiet = (comparison.records[k].metrics["accuracy"]["mean"] for k in (0, 1))
    for part in (f"{mine:.3f}", f"{quiet:.3f}", comparison.records[0].privacy, "accuracy"):
        assert part in sentence
    assert sentence.index("better than") < sentence.index("worse than") < sentence.index(f"{quiet:.3f}")


def test_a_score_that_is_an_error_is_better_when_it_is_lower(
    compared: Callable[..., Comparison], make_run: MakeRun
) -> None:
    comparison = compared({CONSTANT: 0.1})
    for record in comparison.records:
        record.summary["score_name"] = "mse"
        record.summary["metrics"]["mse"] = record.summary["metrics"].pop("accuracy")
    assert len(comparison.cautions()) == 2  # those whose figure is lower: both ways of staying alone


def test_a_run_that_diverged_is_worse_and_a_reference_that_did_is_left_out(
    compared: Callable[..., Comparison],
) -> None:
    comparison = compared({})
    broken = {"mean": None, "low": None, "high": None, "values": [None] * 3}
    comparison.records[0].summary["metrics"]["accuracy"] = broken
    assert len(comparison.cautions()) == 3
    comparison.records[4].summary["metrics"]["accuracy"] = broken
    assert len(comparison.cautions()) == 2


def test_runs_of_another_problem_are_no_references(compared: Callable[..., Comparison]) -> None:
    comparison = compared({CONSTANT: 0.1})
    comparison.records[4].summary["stream"] = "other data"
    assert comparison.cautions() == []


def test_runs_of_two_directories_are_compared_each_with_its_own(
    compared: Callable[..., Comparison], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.results.plots.can_draw", lambda: False)  # pictures take seconds
    good, bad = compared({}).save(tmp_path / "good"), compared({CONSTANT: 0.1}).save(tmp_path / "bad")
    both = Comparison.load([good, bad])
    assert [len(finding.cautions()) for finding in findings(both.records, ())] == [0, 1]
    merged = Comparison.load([both.save(tmp_path / "both")])  # where nobody knows any more which is meant
    assert findings(merged.records, ()) == []


def test_the_report_has_sentence_and_warning_and_nothing_in_them_is_markup(
    compared: Callable[..., Comparison],
) -> None:
    comparison = compared({CONSTANT: 0.1})
    text = page(comparison)
    assert "mine <b>" not in text
    assert text.count("class='warning'") == 1
    assert text.count("class='verdict'") == 1


def test_a_private_run_by_itself_says_that_it_was_not_compared(make_run: MakeRun) -> None:
    lonely = Comparison((make_run(label="mine", privacy=PRIVATE).record(),))
    assert ["mine" in sentence for sentence in lonely.sentences()] == [True]
    assert Comparison((make_run(label="open").record(),)).sentences() == []


def test_noise_and_clipping_have_a_column_where_a_run_has_them(make_run: MakeRun) -> None:
    run = make_run(label="mine", privacy=PRIVATE)
    run.per_round = {
        **run.per_round,
        "clipped": np.full((3, 40), 0.25),
        "noise_to_signal": np.full((3, 40), 4.0),
    }
    rows = Comparison((run.record(), make_run(label="open").record())).rows()
    assert [row[-1] for row in rows] == ["4; 25%", "-"]
