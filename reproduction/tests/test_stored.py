"""Stored outcomes, judged by the code that is here: the manual has what comes out."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from reproduction.tests import made_up
from tacit_reproduction import catalogue

SCRIPT = Path(__file__).parents[2] / "docs" / "reproduced.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_manual_has_what_stored_outcomes_say(script: dict[str, Any]) -> None:
    for page, content in script["pages"]().items():
        assert page.read_text(encoding="utf-8") == content, f"{page}: run `python docs/reproduced.py`"


def test_stored_outcomes_are_small_and_say_where_they_come_from(script: dict[str, Any]) -> None:
    known = catalogue.all_studies()
    for directory in script["STORE"].iterdir():
        origin = json.loads((directory / script["WHENCE"]).read_text())
        assert directory.name in known
        assert origin.keys() == set(script["ORIGIN"])
        assert (directory / script["OUTCOMES"]).stat().st_size < 400_000


def test_a_full_form_takes_the_place_of_a_quick_one_and_not_the_reverse(script, tmp_path: Path, monkeypatch) -> None:
    known = {"fine": made_up.named("fine"), "absent": made_up.study("absent", "OPS paper")}
    monkeypatch.setattr(catalogue, "all_studies", lambda: known)
    monkeypatch.setitem(script["take"].__globals__, "STORE", tmp_path / "store")
    for quick, taken in ((True, ["fine"]), (False, ["fine"]), (True, [])):
        made = known["fine"].run(quick, tmp_path / "runs" / "fine", 0)
        assert list(script["take"](tmp_path / "runs")) == taken
    again = script["stored"](known["fine"])
    assert (again["quick"], again["claims"], again["headlines"]) == (False, made["claims"], made["headlines"])
    assert script["stored"](known["absent"]) is None
