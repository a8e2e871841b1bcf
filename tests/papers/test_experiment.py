from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.experiments.papers import EXPERIMENTS, Claim
from tacit.experiments.papers.drawing import Panel, draw_curves
from tacit.experiments.papers.experiment import Findings, Table, reproducible

CLAIMS = [Claim("A < B", True, "A 0.1, B 0.2"), Claim("B < A & more", False, "the reason")]
KEYS = {"experiment", "claims", "metrics", "seconds", "versions", "seed", "quick", "data"}


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
    returned = reproducible("tiny", "Tiny", "004 ch. 9", investigate).run(True, out, 7)
    assert asked == [(True, 7)]
    written = json.loads((out / "summary.json").read_text())
    assert written == returned
    assert written.keys() == KEYS
    assert written["claims"] == [
        {"claim": "A < B", "holds": True, "figure": "A 0.1, B 0.2"},
        {"claim": "B < A & more", "holds": False, "figure": "the reason"},
    ]
    assert (written["experiment"], written["seed"], written["quick"]) == ("tiny", 7, True)
    assert written["metrics"] == {"loss": [0.5]}
    assert written["seconds"] >= 0
    assert (out / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_report_tells_verdicts_data_command_and_needs_nothing_else(findings: Findings, tmp_path: Path) -> None:
    reproducible("tiny", "Tiny", "004 ch. 9", lambda quick, seed: findings).run(False, tmp_path, 3)
    page = (tmp_path / "report.html").read_text()
    assert "1 of 2 claims hold. a random subset of 3 of 4 rows." in page
    assert page.count("<span class='verdict'>holds</span>") == 1
    assert page.count("<span class='verdict'>does not hold</span>") == 1
    assert "B &lt; A &amp; more" in page
    assert "the reason" in page
    assert "<td>&lt;a&gt;</td>" in page
    assert f"tacit reproduce tiny --seed 3 --out {tmp_path}" in page
    assert page.count("<svg") == 1
    assert "src=" not in page
    assert "<link" not in page


def test_command_says_quick(findings: Findings, tmp_path: Path) -> None:
    reproducible("tiny", "Tiny", "004 ch. 9", lambda quick, seed: findings).run(True, tmp_path, 0)
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
