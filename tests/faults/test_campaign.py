"""The crash and disk-fault campaign: a small one always, the full one with TACIT_FULL_FAULTS=1."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import pytest

from tests.faults.campaign import FULL, SMALL, run

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="the shim needs Linux and gcc"),
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),  # JAX warns; the workers call nothing of it
]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return run(FULL if os.environ.get("TACIT_FULL_FAULTS") else SMALL, seed=0)


BOTH = pytest.mark.parametrize("what", ["ledger", "store"])


def test_no_crash_and_no_fault_leads_to_a_release_that_is_not_booked_or_made_twice(report: dict[str, Any]) -> None:
    assert {name: part["violations"] for name, part in report.items()} == {name: [] for name in report}


@BOTH
def test_the_campaign_did_something(report: dict[str, Any], what: str) -> None:
    parts = {name.removeprefix(f"{what}, "): part for name, part in report.items() if name.startswith(what)}
    assert len(parts) == 5
    assert all(part["releases"] > 0 for part in parts.values())
    assert parts["random kills"]["ended"] == {"SIGKILL": parts["random kills"]["runs"]}
    files = {name: {hit.split()[-1] for hit in part["hits"]} for name, part in parts.items()}
    assert all("log" in files[name] for name in ("aimed kills", "every sync", "power cuts", "failures"))
    assert set().union(*files.values()) >= {"log", "witness", "database"}
    assert any("sync log" in hit for hit in parts["aimed kills"]["hits"])


@BOTH
def test_a_failing_disk_stops_releases(report: dict[str, Any], what: str) -> None:
    failures = report[f"{what}, failures"]
    ended = failures["ended"]
    assert ended["refused"] >= 0.9 * failures["runs"]
    assert set(ended) <= {"refused", "done", "went on"}  # what may go on is said in campaign.py
