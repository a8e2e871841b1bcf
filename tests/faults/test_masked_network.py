"""Masked jobs on simulated networks with faults: crashes at any event and commit, breaks, partings."""

from collections import Counter

import numpy as np
import pytest

from tests.peer.masked import one_way, setting
from tests.peer.masked_network import MaskedNetwork
from tests.peer.weather import Weather

CALM_TIME = 60.0
"""Virtual seconds after the faults within which all rounds must be done."""
CRASHING = Weather(breaks=0.5, crashes=1.0, crashes_at_commit=0.05, partings=0.3, repeats=0.0)
HURRIED = Weather(breaks=0.0, crashes=1.0, crashes_at_commit=0.05, slow_links=0.5, work=0.02, data_pauses=0.1)
"""Crashes alone, among peers that get far ahead of each other."""


@pytest.fixture(autouse=True)
def _no_limit(monkeypatch):
    monkeypatch.setattr("tacit.peer.masks.MOST_MASKS", 1000)  # here peers die far more often than they do


def run(made, seed, folder, weather=CRASHING):
    folder.mkdir()
    network = MaskedNetwork(made, seed, folder, weather)
    try:
        network.run(network.weather.until + CALM_TIME)
        if not network.finished:
            network.fail(f"all should be over, and rounds are {[host.round for host in network.hosts.values()]}")
        np.testing.assert_array_equal([host.node.model() for host in network.hosts.values()], made.reference)
    finally:
        network.close()
    return network


def test_whatever_happens_the_sum_is_exact_and_nothing_leaves_unmasked(tmp_path):
    faults, anew = Counter(), 0
    for seed in (3, 4):
        network = run(setting(), seed, tmp_path / str(seed))
        faults += network.faults
        anew += sum(len(versions) > 1 for versions in network.versions.values())
    assert {"killed", "killed before a commit", "killed after a commit", "parted"} <= faults.keys()
    assert anew > 20, "hardly anything was masked anew"


@pytest.mark.slow
def test_a_new_version_is_not_stuck_behind_what_came_too_early(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.peer.virtual.LIFETIME", 1e9)  # no new link sends all of it again
    for seed in range(4):
        run(one_way(), seed, tmp_path / str(seed), HURRIED)


@pytest.mark.slow
@pytest.mark.parametrize("made", [setting, one_way], ids=["all with all", "one way"])
def test_many_seeds(tmp_path, made):
    for seed in range(1000, 1040):
        run(made(), seed, tmp_path / str(seed), (None, CRASHING, HURRIED)[seed % 3])
