"""Small crowds at the doors of real peers; `python -m tests.faults.door_campaign` is the large one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.faults.door_campaign import besieged

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted as Linux has them"),
    pytest.mark.timeout(300),
]


def test_a_peer_with_few_descriptors_goes_on_in_a_crowd(tmp_path: Path) -> None:
    found = besieged(tmp_path / "peers", connections=200, files=128, seconds=0.5, alone=True)
    assert found.opened >= 200
    assert found.closed > 0


@pytest.mark.covered_by("two hundred connections, above")
def test_five_thousand_idle_connections_keep_nobody_from_a_peer(tmp_path: Path) -> None:
    found = besieged(tmp_path / "peers", connections=5000, files=None, seconds=5.0)
    assert found.opened >= 5000
    assert found.during > found.before / 4
    assert found.back is not None
    assert found.refusals["crowded"] > 0
    assert all(found.welcomes.values())
    assert found.growth < 100
