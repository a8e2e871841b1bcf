"""Masked jobs on simulated networks with faults: crashes at any event and commit, breaks, partings."""

from collections import Counter

import numpy as np
import pytest

from tests.peer.masked import one_way, setting
from tests.peer.masked_network import MaskedNetwork
from tests.peer.weather import Weather

CALM_TIME = 60.0
"""Virtual seconds after the faults within which all rounds must be done."""
CRASHING = Weather(breaks=0.5, crashes=3.0, crashes_at_commit=0.15, partings=0.3, repeats=0.0)
HURRIED = Weather(breaks=0.0, crashes=2.0, crashes_at_commit=0.1, slow_links=0.5, work=0.02, data_pauses=0.1)
"""Crashes alone, among peers that get far ahead of each other."""


def run(made, seed, folder, weather=CRASHING):
    folder.mkdir()
    network = MaskedNetwork(made, seed, folder, weather)
    try:
        network.run(network.weather.until + CALM_TIME)
        if not network.finished:
            network.fail(f"all should be over, and rounds are {[host.round for host in network.hosts.values()]}")
        network.keys = [host.store.keys for host in network.hosts.values()]
        np.testing.assert_array_equal([host.node.model() for host in network.hosts.values()], made.reference)
    finally:
        network.close()
    return network


def test_whatever_happens_the_sum_is_exact_and_every_value_leaves_under_one_mask(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tacit.peer.masking.key_store.ROUNDS_PER_KEY", 2
    )  # so that keys are given up within these few rounds
    faults, again = Counter(), 0
    for seed in (2, 4):
        network = run(setting(), seed, tmp_path / str(seed))
        faults += network.faults
        again += network.sent_again
        assert all(key.span >= 3 for keys in network.keys for key in keys.values())
    assert {"killed", "killed before a commit", "killed after a commit", "parted"} <= faults.keys()
    assert {"killed before a key was kept", "killed after a key was kept"} <= faults.keys()
    assert again > 20, "hardly anything was sent a second time"


@pytest.mark.covered_by("the seeds above")
@pytest.mark.parametrize("made", [setting, one_way], ids=["all with all", "one way"])
def test_many_seeds(tmp_path, made):
    for seed in range(1000, 1040):
        run(made(), seed, tmp_path / str(seed), (None, CRASHING, HURRIED)[seed % 3])
