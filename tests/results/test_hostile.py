"""Run directories from somebody else: what is read back is checked, and what is shown is shown as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli import main
from tacit.core.errors import ResultError
from tacit.core.text import visible
from tacit.results import Comparison, Record, Run, load, load_all, store
from tacit.results.html import document, html
from tacit.results.pages.script import SCRIPT
from tacit.results.report import page

MakeRun = Callable[..., Run]
MARKUP = "<script>alert(1)</script>"
TERMINAL = "\x1b]0;owned\x07\x9b2J\u202egnp.exe\u2066\r"


def changed(content: Any, way: tuple[str, ...], value: object) -> Any:
    """A table with one value in it replaced."""
    return value if not way else {**content, way[0]: changed(content[way[0]], way[1:], value)}


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names |= {tag, *(name for name, _ in attributes)}


def without_own(text: str) -> str:
    """A report without its own script, which must be there once and be the one that its policy allows."""
    own = f"<script>{SCRIPT}</script>"
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert text.count(own) == 1
    assert re.findall(r"script-src ([^;\"]*)", text) == [f"'sha256-{digest}'"]
    return text.replace(own, "")


def test_a_page_without_a_script_allows_none() -> None:
    text = document("a", html("<p>b</p>"), "")
    assert "script" not in text
    assert "default-src 'none'" in text


@pytest.mark.parametrize("field", ["seed", "dtype", "label", "algorithm", "graph", "stream", "objective"])
def test_nothing_of_a_summary_is_markup_in_a_report(make_run: MakeRun, field: str) -> None:
    record = make_run().record()
    evil = Record({**record.summary, field: f"{MARKUP}' onclick='x"}, record.settings, record.trace)
    found = Tags(without_own(page(Comparison((evil,), MARKUP), f"tacit compare {MARKUP}"))).names
    assert not found & {"script", "onclick"}


@pytest.mark.parametrize(
    ("way", "value"),
    [
        ("seed", MARKUP),
        ("seed", 1.5),
        ("rounds", 0),
        ("rounds", 10**30),
        ("repeats", 2),
        ("agents", "3"),
        ("dtype", "float16"),
        ("diverged", 0),
        ("label", None),
        ("label", "\ud800"),
        ("timings.seconds", -1),
        ("versions.jax", 7),
        ("metrics.average_loss", None),
        ("metrics.average_loss.high", -5.0),
        ("metrics.bits_per_agent.mean", None),
        ("metrics.average_loss.values", [1.0]),
        ("privacy.epsilon", "1"),
        ("privacy.private", True),
        ("regret", {"rounds": [1]}),
        ("files", {"../summary.json": ""}),
        ("files", []),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_file_and_field(
    make_run: MakeRun, tmp_path: Path, way: str, value: object
) -> None:
    store.save_data(make_run().record(), tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    (tmp_path / "summary.json").write_text(json.dumps(changed(summary, tuple(way.split(".")), value)))
    with pytest.raises(ResultError, match=rf"summary\.json.*{way.partition('.')[0]}"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["NaN", "1e999", "9" * 5000, "[" * 5000 + "]" * 5000])
def test_a_number_that_is_none_is_refused(make_run: MakeRun, tmp_path: Path, text: str) -> None:
    store.save_data(make_run().record(), tmp_path)
    summary = (tmp_path / "summary.json").read_text()
    (tmp_path / "summary.json").write_text(summary.replace('"seed": 0', f'"seed": {text}'))
    with pytest.raises(ResultError, match=r"summary\.json"):
        load(tmp_path)


@pytest.mark.parametrize("target", ["/dev/zero", "summary.json", "."])
def test_something_else_than_a_file_is_refused(make_run: MakeRun, tmp_path: Path, target: str) -> None:
    store.save_data(make_run().record(), tmp_path)
    (tmp_path / "summary.json").unlink()
    (tmp_path / "summary.json").symlink_to(target)
    with pytest.raises(ResultError, match=r"summary\.json"):
        load(tmp_path)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    said = capsys.readouterr()
    return int(str(left.value.code)), said.out + said.err


def test_no_text_from_outside_steers_the_terminal(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "run"
    store.save_data(make_run(label=f"A{TERMINAL}", stream=TERMINAL).record(), directory)
    store.save_data(make_run(label="B").record(), tmp_path / "other")
    code, said = told(capsys, "compare", str(directory), str(tmp_path / "other"))
    assert code == 0
    assert visible(said) == said
    assert "\\u001b" in said
    (directory / "config.toml").write_text("changed")
    code, said = told(capsys, "compare", str(directory), str(tmp_path / TERMINAL))
    assert code == 2
    assert visible(said) == said


@pytest.mark.parametrize("label", ["$\\frac{$", f"{MARKUP}--><g/>", TERMINAL])
def test_a_label_is_text_in_a_plot(make_run: MakeRun, tmp_path: Path, label: str) -> None:
    records = (make_run(label=label).record(), make_run(label="B").record())
    folder = Comparison(records, label).save(tmp_path / "new")
    assert Tags(without_own((folder / "report.html").read_text())).names.isdisjoint({"script", "onclick"})
    assert load_all(folder)[0].label == label


def test_losses_near_the_largest_number_are_told_and_not_drawn(make_run: MakeRun, tmp_path: Path) -> None:
    record = make_run().record()
    huge = {"mean": 1e308, "low": 1e308, "high": 1e308, "values": [1e308] * 3}
    summary = {**record.summary, "metrics": {**record.metrics, "average_loss": huge}}
    trace = replace(record.trace, average_loss=np.full_like(record.trace.average_loss, 1e308))
    folder = Comparison((Record(summary, record.settings, trace), make_run(label="B").record())).save(tmp_path)
    assert Comparison(tuple(load_all(folder))).against_lowest()[1] == "lowest"
