from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tacit.core.errors import ResultError
from tacit.results import Comparison, Run, load, load_all
from tacit.results.comparison import with_interval
from tacit.results.pages.glossary import FIGURES, explained
from tacit.results.record import Refusal, figure
from tacit.results.report import page

from .conftest import PRIVATE

MakeRun = Callable[..., Run]


@pytest.fixture
def comparison(make_run: MakeRun) -> Comparison:
    worse = make_run(label="B & co", algorithm="local_online")
    worse.per_round["loss"][:] += 0.25
    runs = [make_run(label="A"), worse]
    for run in runs:
        run.regret(points=3)
    return Comparison(tuple(run.record() for run in runs), "One <problem>", {"run": {"rounds": 40}})


def test_the_table_has_a_line_per_run(comparison: Comparison) -> None:
    rows = comparison.rows()
    assert [row[0] for row in rows] == ["A", "B & co"]
    assert all(len(row) == len(comparison.columns()) for row in rows)
    assert comparison.columns()[2] == "accuracy"
    loss = comparison.records[0].metrics["average_loss"]
    mean, half = (float(part) for part in rows[0][1].split("±"))
    assert mean == pytest.approx(loss["mean"], abs=1e-4)
    assert half == pytest.approx(loss["high"] - loss["mean"], rel=0.1)
    assert rows[0][5] == "160"  # 5 messages of 96 bits by 3 agents
    assert rows[0][6] == "not private"


def test_differences_are_paired_by_repeat(comparison: Comparison) -> None:
    lowest, difference = comparison.against_lowest()
    assert lowest == "lowest"
    assert float(difference.split("±")[0]) == pytest.approx(0.25, abs=1e-4)
    assert float(difference.split("±")[1]) == pytest.approx(0, abs=1e-4)  # the same noise in both


def test_runs_of_different_problems_are_told_apart(make_run: MakeRun) -> None:
    runs = (make_run(label="A").record(), make_run(label="B", seed=1).record())
    assert Comparison(runs).differences() == []
    runs[1].summary["stream"] = "other data"
    other = Comparison(runs)
    assert [line.partition(":")[0] for line in other.differences()] == ["they differ in stream"]
    assert other.against_lowest() == ["-", "-"]


def test_a_comparison_is_saved_and_read_back(comparison: Comparison, tmp_path: Path) -> None:
    folder = comparison.save(tmp_path / "both", command="tacit run x.toml")
    names = {path.name for path in folder.iterdir()}
    assert names >= {"a", "b-co", "summary.json", "report.html", "config.toml", "regret.png"}
    again = Comparison.load([folder])
    assert again.rows() == comparison.rows()
    assert load(folder / "a").summary == comparison.records[0].summary
    assert [record.label for record in load_all(folder / "b-co")] == ["B & co"]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["runs"] == ["a", "b-co"]


def test_labels_that_look_alike_get_folders_of_their_own(make_run: MakeRun) -> None:
    runs = tuple(make_run(label=label).record() for label in ("A b", "a-B", "???"))
    assert Comparison(runs).folders() == ["a-b", "a-b-2", "run"]


def test_folders_outside_the_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"name": "x", "runs": ["../elsewhere"], "files": {}}))
    with pytest.raises(ResultError, match=r"summary\.json.*\.\./elsewhere"):
        load_all(tmp_path)


def test_a_comparison_of_nothing_is_refused() -> None:
    with pytest.raises(ResultError, match="at least one"):
        Comparison(())


@pytest.mark.parametrize(
    ("values", "text"),
    [([0.5], "0.5"), ([0.5, 0.5], "0.5000 ± 0.0000"), ([np.nan, 1.0], "-"), ([1.0, 1.2], "1.10 ± 1.27")],
)
def test_figures_are_written_to_the_digits_that_the_interval_leaves(values: list[float], text: str) -> None:
    assert with_interval(figure(values)) == text


class Page(HTMLParser):
    """Collects what a browser would load, and checks that tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            self.attributes.add(name)
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.loaded.append(value or "")
        if tag not in ("meta", "br", "wbr", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_report_stands_alone_and_says_everything(comparison: Comparison, tmp_path: Path) -> None:
    text = (comparison.save(tmp_path, command="tacit run 'a & b.toml'") / "report.html").read_text()
    found = Page()
    found.feed(text)
    assert found.open == []
    assert found.loaded == []
    assert not re.search(r"url\((?!#)|@import", text)
    words = " ".join(found.words)
    for needed in (
        "One <problem>",
        "synthetic <data>",
        "B & co",
        "Not private.",
        "seed 0",
        "jax",
        "tacit run 'a & b.toml'",
        "certified",
        "prefers-color-scheme: dark",
    ):
        assert needed in words
    assert text.count("<svg class='plot'") == 4
    assert not {name for name in found.attributes if name.startswith("on")}


def test_the_report_says_what_each_run_has_spent_before_it_shows_plots(make_run: MakeRun) -> None:
    runs = [make_run(label="A"), make_run(label="B", privacy=PRIVATE), make_run(label="C")]
    text = page(Comparison(tuple(run.record() for run in runs)))
    privacy = text[text.index("<h2>Privacy</h2>") : text.index("<h2>Plots</h2>")]
    assert "<dt>A, C</dt><dd><strong>Not private.</strong>" in privacy
    assert "<dt>B</dt><dd><strong>Eps 1.5 per record.</strong>" in privacy
    assert ">eps 1.5 per record</td>" in text


def test_the_report_names_the_settings_of_a_mechanism(make_run: MakeRun) -> None:
    mechanism = {"kind": "laplace", "epsilon": 1.0, "clip": 2.0}
    run = make_run(settings={"algorithm": [{"name": "online_push_sum", "step": 0.5, "mechanism": mechanism}]})
    assert "mechanism laplace, epsilon 1.0, clip 2.0" in page(Comparison((run.record(),)))


def test_the_report_warns_of_what_is_partial(make_run: MakeRun) -> None:
    record = make_run(partial=True, label="A").record()
    text = page(Comparison((record,)))
    assert re.search("A was interrupted: .*40 rounds", text)
    assert Comparison((record,)).rows()[0][0] == "A (interrupted)"
    assert Comparison((record,)).partial


def test_the_report_spells_out_columns_and_short_names(make_run: MakeRun) -> None:
    text = page(Comparison((make_run(label="Private OPS", privacy=PRIVATE).record(), make_run(label="B").record())))
    terms = text[text.index("class='terms'") :]
    terms = terms[: terms.index("</dl>")]
    for needed in ("OPS", "push-sum", "eps", "epsilon", "regret", "consensus distance", "bits"):
        assert needed in terms
    assert "DOL" not in terms
    assert "<abbr title='Average loss minus" in text
    both = explained("noise / signal; clipped")
    assert all(FIGURES[part][1:] in both for part in ("noise / signal", "clipped"))
    assert FIGURES["accuracy"][1:] not in explained("loss above the lowest (paired)")


HEADLINES = {
    "one": ([("A", 0.0, {})], ("A has", "not private", "160 bits")),
    "clear": ([("A", 0.0, {}), ("B", 0.3, {})], ("A wins", "0.300", "B", "160 bits")),
    "level": ([("A", 0.0, {}), ("B", 1e-5, {}), ("C", 0.3, {})], ("No clear winner", "A ", "B ", "interval")),
    "private": (
        [("mine", 0.1, {"privacy": PRIVATE, "references": {"without noise": "quiet"}}), ("quiet", 0.0, {})],
        ("quiet wins", "mine spends epsilon 1.5 per record", "costs 0.100"),
    ),
    "private alone": ([("mine", 0.0, {"privacy": PRIVATE})], ("mine has", "epsilon 1.5", "not measured")),
    "silent": ([("A", 0.0, {})], ("A has", "sends nothing")),
    "partial": ([("A", 0.0, {"partial": True})], ("40 rounds", "interrupted", "A has")),
    "lost": ([("A", 0.0, {}), ("B", np.nan, {})], ("A has", "B diverged")),
    "all lost": ([("A", np.nan, {}), ("B", np.nan, {})], ("A and B diverged",)),
    "other data": ([("A", 0.0, {}), ("B", 0.3, {"stream": "other"})], ("Nobody", "stream")),
}


@pytest.mark.parametrize("case", HEADLINES)
@pytest.mark.parametrize("repeats", [1, 3])
def test_the_headline_says_who_won_and_what_it_cost(make_run: MakeRun, case: str, repeats: int) -> None:
    given, needed = HEADLINES[case]
    records = []
    for number, (label, above, changes) in enumerate(given):
        seed = number if case == "level" else 0
        run = make_run(seed=seed, label=label, repeats=repeats, **changes)
        run.per_round["loss"][:] += above
        if case == "silent":
            run.per_round = {**run.per_round, "bits": 0 * run.per_round["bits"]}
        records.append(run.record())
    said = Comparison(tuple(records)).headline()
    for words in needed:
        assert words in said
    who, _, cost = said.partition("; ")
    shown = page(Comparison(tuple(records)))
    assert f"class='headline'><strong>{escape(who)}" in shown
    assert escape(cost) in shown


def test_runs_whose_states_were_recorded_at_other_rounds_are_compared_by_those_of_both(make_run: MakeRun) -> None:
    often, seldom = (make_run(seed=k, label=label, repeats=1) for k, label in enumerate("AB"))
    seldom.per_round["loss"][:] += 0.1
    seldom.recorded_rounds = np.arange(6, 41, 2)
    seldom.recorded = {"consensus": np.ones((1, 18))}
    said = Comparison((often.record(), seldom.record())).headline()
    assert said.startswith("A wins")
    assert "0.099 ±" in said


def test_what_was_refused_is_read_with_what_ran(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.results.plots.can_draw", lambda: False)  # pictures take seconds
    refused = (Refusal("fedavg", "it needs a server"),)
    folder = Comparison((make_run().record(),), refused=refused).save(tmp_path / "one")
    found = Comparison.load([folder, folder])
    assert found.refused[:1] == refused
    assert "fedavg" in found.further_rows()[-1]


def test_a_table_of_constants_without_a_loss_is_shown_all_the_same(make_run: MakeRun) -> None:
    record = make_run().record()
    record.summary["constant"] = {"accuracy": figure([0.5, 0.5, 0.5])}
    ((_, loss, score, *_),) = Comparison((record,)).further_rows()
    assert (loss, score[:3]) == ("-", "0.5")


def test_the_headline_names_who_is_ahead_by_another_measure(make_run: MakeRun) -> None:
    lower, sharper = make_run(label="A"), make_run(label="B")
    sharper.per_round["loss"][:] += 0.1
    assert "B is ahead" not in Comparison((lower.record(), sharper.record())).headline()
    sharper.per_round["accuracy"][:] += 0.1
    said = Comparison((lower.record(), sharper.record())).headline()
    assert said.startswith("A wins")
    assert "by accuracy B is ahead" in said


@pytest.mark.parametrize(("repeats", "begins"), [(1, "No clear winner: B"), (3, "B wins")])
def test_held_out_rows_decide_where_losses_are_of_training(make_run: MakeRun, repeats: int, begins: str) -> None:
    records = [make_run(label=label, repeats=repeats).record() for label in ("A", "B")]
    for record, accuracy in zip(records, (0.7, 0.8), strict=True):
        record.summary["reads"] = {"least": 5, "most": 5, "unread": 0, "records": 8}
        record.summary["metrics"]["held-out accuracy"] = figure(accuracy + np.arange(repeats) / 100)
    said = Comparison(tuple(records)).headline()
    assert said.startswith(begins)
    assert "highest held-out accuracy, 0.8" in said
    assert "training loss" in said
    records[1].summary["constant"] = {"average_loss": figure([0.69] * repeats)}
    records[1].summary["evaluation"] = {"constant": {"accuracy": figure([0.61] * repeats)}}
    assert "a constant has 0.610" in Comparison(tuple(records)).headline()
    records[1].summary["evaluation"] = {"constant": {"accuracy": figure([0.95] * repeats)}}
    said = Comparison(tuple(records)).headline()
    assert "constant, which has 0.950" in said.partition(":")[0]
    assert "wins" not in said
    records[1].summary["reads"] = records[0].summary["reads"] = None
    assert "a constant" in Comparison(tuple(records)).headline()


def test_references_that_were_added_do_not_compete(make_run: MakeRun) -> None:
    kinds = {"without noise": "without noise", "constant": "a constant"}
    mine = make_run(label="mine", privacy=PRIVATE, references=kinds)
    mine.per_round["loss"][:] += 0.1
    runs = [mine, *(make_run(seed=k, label=label) for k, label in enumerate(kinds.values(), start=1))]
    said = Comparison(tuple(run.record() for run in runs)).headline()
    assert said.startswith("mine has")
    assert "costs 0.1" in said
