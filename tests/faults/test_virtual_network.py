"""Simulated networks with faults: a few dozen seeds of the campaign, and some faults one by one."""

from collections import Counter

import pytest

from tests.daily import some
from tests.faults import network_campaign as campaign
from tests.peer.virtual import Network
from tests.peer.weather import CALM, DEADLINE

CHOSEN = (
    "ops, double precision",
    "dola, booked",
    "renormalise, late",
    "totals",
    "three phases, late",
    "a cohort is called",
    "ops, correlated",
    "totals, correlated",
    "a cohort, correlated",
)
"""Of the settings, those that make the most of it: compiling takes longer than the runs."""
EACH = 3


@pytest.mark.parametrize("name", some(CHOSEN, "the others", daily=["dola, booked", "totals", "a cohort, correlated"]))
def test_whatever_happens_the_invariants_hold(name, tmp_path):
    place = list(campaign.SETTINGS).index(name)
    faults = Counter()
    for k in range(EACH):
        folder = tmp_path / str(k)
        folder.mkdir()
        faults += campaign.run_seed(k * len(campaign.SETTINGS) + place, folder).faults
    assert len(faults) >= 3, f"hardly anything happened: {faults}"


def test_nobody_is_left_rounds_behind_when_the_faults_are_over(tmp_path):
    """In this one of 2,000 seeds two peers were 8 and 9 rounds behind: they waited for rounds that others had left out."""
    assert campaign.run_seed(1160, tmp_path, name="totals, correlated").faults


def test_a_seed_is_the_same_run_every_time(tmp_path):
    place = list(campaign.SETTINGS).index("totals")
    traces = []
    for k in range(2):
        folder = tmp_path / str(k)
        folder.mkdir()
        traces.append(campaign.run_seed(place, folder).trace.hexdigest())
    assert traces[0] == traces[1]


@pytest.fixture
def calm(tmp_path):
    network = Network(campaign.SETTINGS["totals"](), 0, tmp_path, CALM)
    yield network
    network.close()


class TestMethodsThatDoNotWait:
    """One fault at a time."""

    def test_a_crash_stops_nobody_and_the_peer_is_back_within_a_round(self, calm):
        calm.run(2.0)
        gone = calm.hosts["peer-0"]
        calm._kill(gone)
        calm.heap = [event for event in calm.heap if event[2] != calm._restart]  # not by itself
        before = {name: host.round for name, host in calm.hosts.items()}
        calm.run(8.0)
        for name, host in calm.hosts.items():
            assert name == "peer-0" or host.round > before[name] + 3
        calm._restart("peer-0")
        calm.run(8.0 + 2 * DEADLINE)
        rounds = [host.round for host in calm.hosts.values()]
        assert gone.began[-1][0] > 8.0
        assert max(rounds) - gone.round < len(rounds)

    def test_both_sides_of_a_partition_go_on_and_find_each_other_again(self, calm):
        calm.run(2.0)
        calm.parted = {"peer-0", "peer-1"}
        for connection in list(calm.connections.values()):
            if calm._cut(connection.sender, connection.receiver):
                calm._break(connection)
        before = {name: host.round for name, host in calm.hosts.items()}
        calm.run(8.0)
        assert all(host.round > before[name] + 3 for name, host in calm.hosts.items())
        calm.parted = set()
        calm.run(8.0 + campaign.HEALED)
        healed = calm.now
        calm.run(healed + 2.0)
        rounds = [host.round for host in calm.hosts.values()]
        assert max(rounds) - min(rounds) < len(rounds)
        assert {edge for edge, when in calm.in_time.items() if when > healed} == calm.latencies.keys()

    def test_mass_is_kept_by_a_crash(self, calm):
        calm.run(1.0)
        calm._kill(calm.hosts["peer-2"])
        calm.run(4.0)
        campaign.Invariants(calm).mass()
