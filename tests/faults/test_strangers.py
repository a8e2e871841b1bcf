"""A few strangers of every kind; `python -m tests.faults.stranger_campaign` has thousands."""

from __future__ import annotations

import pytest

from tests.faults import stranger_campaign as campaign
from tests.peer.weather import BrokenInvariantError


def test_no_stranger_gets_in_and_the_neighbour_does(tmp_path):
    found = campaign.besieged(2 * len(campaign.KINDS), 1, tmp_path)
    assert found.attempts == dict.fromkeys(campaign.KINDS, 2)
    assert found.refusals.total() == 2 * len(campaign.KINDS)
    assert found.honest > 1


def test_a_stranger_that_gets_in_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(campaign.KINDS, "revoked", (lambda s: s.made(), "revoked"))
    with pytest.raises(BrokenInvariantError, match="revoked"):
        campaign.besieged(len(campaign.KINDS), 1, tmp_path)
