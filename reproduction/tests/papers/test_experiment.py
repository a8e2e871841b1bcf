from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.core.errors import TacitError
from tacit_reproduction.catalogue import EXPERIMENTS, Claim
from tacit_reproduction.drawing import Panel, draw_curves
from tacit_reproduction.experiment import Findings, Table, reproducible, seen_in

CLAIMS = [
    *seen_in("picture", Claim("A < B", True, "A 0.1, B 0.2"), text="0.3 (table 1)"),
    Claim("B < A & more", False, "the reason"),
]
KEYS = {
    "made_of",
    "experiment",
    "title",
    "source",
    "claims",
    "metrics",
    "data",
    "method",
    "tables",
    "figures",
    "quick",
    "seed",
} | {
    "seconds",
    "date",
    "machine",
    "versions",
}


@pytest.fixture
def findings() -> Findings:
    curves = {"A": np.random.default_rng(0).random((3, 20)), "B": np.random.default_rng(1).random((3, 20))}
    picture = draw_curves("picture", "A picture", "Its caption", [Panel("left", curves)], "loss")
    table = Table("A table", "A note", ("name", "value"), [("<a>", "1")])
    data = {"description": "a random subset of 3 of 4 rows"}
    return Findings(CLAIMS, {"loss": [0.5]}, data, ["Done like this."], [table], [picture])


def test_writes_a_summary_with_every_claim_whatever_its_verdict(findings: Findings, tmp_path: Path) -> None:
    asked: list[tuple[bool, int]] = []

    def investigate(quick: bool, seed: int) -> Findings:
        asked.append((quick, seed))
        return findings

    out = tmp_path / "deep" / "out"
    returned = reproducible("tiny", "Tiny", "Rizk (2023), ch. 9", investigate).run(True, out, 7)
    assert asked == [(True, 7)]
    written = json.loads((out / "summary.json").read_text())
    del written["files"]
    assert written == json.loads(json.dumps(returned))  # tuples become lists
    assert written.keys() == KEYS
    assert written["claims"] == [
        {"claim": "A < B", "holds": True, "figure": "A 0.1, B 0.2", "text": "0.3 (table 1)", "seen_in": "picture"},
        {"claim": "B < A & more", "holds": False, "figure": "the reason", "text": "", "seen_in": ""},
    ]
    assert (written["experiment"], written["seed"], written["quick"]) == ("tiny", 7, True)
    assert written["metrics"] == {"loss": [0.5]}
    assert written["seconds"] >= 0
    assert (out / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_report_tells_verdicts_data_command_and_needs_nothing_else(findings: Findings, tmp_path: Path) -> None:
    reproducible("tiny", "Tiny", "Rizk (2023), ch. 9", lambda quick, seed: findings).run(False, tmp_path, 3)
    page = (tmp_path / "report.html").read_text()
    assert "1 of 2 claims hold" in page
    assert page.count("<span class='verdict'>✓ holds</span>") == 1
    assert page.count("<span class='verdict'>✗ does not hold</span>") == 1
    assert "B &lt; A &amp; more" in page
    assert "the reason" in page
    assert "<td>&lt;a&gt;</td>" in page
    assert f"tacit reproduce tiny --seed 3 --out {tmp_path}" in page
    assert page.count("<svg") == 1
    assert "src=" not in page
    assert "<link" not in page


def test_command_says_quick(findings: Findings, tmp_path: Path) -> None:
    reproducible("tiny", "Tiny", "Rizk (2023), ch. 9", lambda quick, seed: findings).run(True, tmp_path, 0)
    assert "tacit reproduce tiny --quick --seed 0" in (tmp_path / "report.html").read_text()


def test_pictures_have_the_same_bytes_each_time(findings: Findings) -> None:
    curves = {"A": np.random.default_rng(0).random((3, 20)), "B": np.random.default_rng(1).random((3, 20))}
    again = draw_curves("picture", "A picture", "Its caption", [Panel("left", curves)], "loss")
    assert (again.png, again.svg) == (findings.figures[0].png, findings.figures[0].svg)


def test_a_curve_that_diverged_does_not_spoil_the_picture() -> None:
    wild = np.full((2, 20), np.nan)
    assert draw_curves("x", "X", "", [Panel("", {"A": wild})], "loss").png.startswith(b"\x89PNG")


def test_experiments_are_listed_by_their_names() -> None:
    assert {"ops-occupancy", "ops-susy"} <= EXPERIMENTS.keys()
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())


def test_a_claim_stands_under_the_figure_that_shows_it(findings: Findings, tmp_path: Path) -> None:
    reproducible("tiny", "Tiny", "Rizk (2023), ch. 9", lambda quick, seed: findings).run(False, tmp_path, 0)
    page = (tmp_path / "report.html").read_text()
    figure = page[page.index("<figure>") : page.index("</figure>")]
    assert "A &lt; B" in figure
    assert "0.3 (table 1)" in figure
    assert "B &lt; A" not in figure
    assert (tmp_path / "picture.svg").read_text() in page.replace("role='img' aria-label='A picture' ", "")


def test_a_claim_of_a_figure_that_is_not_there_is_refused(findings: Findings, tmp_path: Path) -> None:
    lost = findings._replace(claims=seen_in("elsewhere", *CLAIMS[1:]))
    with pytest.raises(TacitError, match="'elsewhere'; expected a figure of this experiment: picture"):
        reproducible("tiny", "Tiny", "Rizk (2023), ch. 9", lambda quick, seed: lost).run(False, tmp_path, 0)
    assert not list(tmp_path.iterdir())
