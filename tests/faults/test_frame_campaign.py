"""A small flood of false frames; `python -m tests.faults.frame_campaign` is the large one."""

from __future__ import annotations

import pytest

from tests.faults import frame_campaign as campaign


def test_a_flood_changes_nothing_that_is_refused_and_ends_nobody(tmp_path):
    peer = campaign.flood(5_000, 1, tmp_path)
    assert peer.own == peer.heard >= campaign.ROUNDS_AFTER + 5_000 // campaign.FRAMES_PER_ROUND
    assert peer.taken > 10, "what the liar says in good order is taken"
    assert {"malformed", "order", "round", "position", "early", "stale", "repeated"} <= peer.refusals.keys()
    assert peer.node.round > peer.own, "it was carried, though no further than the bound"


@pytest.mark.parametrize("form", list(campaign.FORMS)[1:])
def test_a_flood_of_packed_messages_changes_nothing_either(form, tmp_path):
    peer = campaign.flood(3_000, 1, tmp_path, form)
    assert peer.own == peer.heard >= campaign.ROUNDS_AFTER
    assert peer.taken > 0
    assert {"malformed", "order", "round"} <= peer.refusals.keys()
    assert peer.refusals["finite"] + peer.refusals["content"] > 0, "a packing that says no number is refused"
