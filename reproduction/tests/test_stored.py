"""Stored outcomes, judged by the code that is here: the manual has what comes out."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from reproduction.tests import made_up
from tacit_reproduction import catalogue
from tacit_reproduction.page import stated

AWAITED = {
    "dola-rcv1", "dola-minibatch", "omd-mnist", "zcdp-elastic-net", "pgfl-regression", "pgfl-mnist", "pgfl-discovery",
}  # fmt: skip
"""Studies of which no outcome is stored yet."""
SCRIPT = Path(__file__).parents[2] / "docs" / "reproduced.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_manual_has_what_stored_outcomes_say(script: dict[str, Any]) -> None:
    for page, content in script["pages"]().items():
        assert page.read_text(encoding="utf-8") == content, f"{page}: run `python docs/reproduced.py`"


def test_every_study_is_stored_and_says_where_its_outcomes_come_from(script: dict[str, Any]) -> None:
    stored = list(script["STORE"].iterdir())
    assert {directory.name for directory in stored} == set(catalogue.all_studies()) - AWAITED
    for directory in stored:
        origin = json.loads((directory / script["WHENCE"]).read_text())
        assert origin.keys() == set(script["ORIGIN"])
        assert (directory / script["OUTCOMES"]).stat().st_size < 600_000


def test_a_full_form_takes_the_place_of_a_quick_one_and_not_the_reverse(script, tmp_path: Path, monkeypatch) -> None:
    known = {"fine": made_up.named("fine")}
    monkeypatch.setattr(catalogue, "all_studies", lambda: known)
    monkeypatch.setitem(script["take"].__globals__, "STORE", tmp_path / "store")
    for quick, taken in ((True, ["fine"]), (False, ["fine"]), (True, [])):
        made = known["fine"].run(quick, tmp_path / "runs" / "fine", 0)
        assert list(script["take"](tmp_path / "runs")) == taken
    again = script["stored"](known["fine"])
    assert (again["quick"], again["claims"], again["headlines"]) == (False, made["claims"], made["headlines"])


def test_each_text_has_five_to_eight_headlines(script: dict[str, Any]) -> None:
    for text in catalogue.TEXTS:
        studies = catalogue.studies(text)
        if not AWAITED & {study.name for study in studies}:
            assert 5 <= len(stated(map(script["stored"], studies))) <= 8
