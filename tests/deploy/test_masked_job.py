"""Jobs with masks, from files: who shares a receiver with whom, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit import graphs, objectives, privacy, runtime
from tacit.algorithms import adapt_then_combine
from tacit.config.budget import PrivacyTable, budget_of
from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError
from tacit.deploy.assignment import plan_of
from tacit.deploy.check import check_peers
from tacit.peer import run_in_process
from tacit.peer.node.assignment import NOTHING_BOOKED
from tests.deploy.homes import BOTH_WAYS, NAMES, found, job_text
from tests.deploy.peers import learnt_together

MASKED = '\n[algorithm.mechanism]\nkind = "local_graph_homomorphic"\nnoise_std = 0.5\n'
FOUR = {"d": ["a", "b", "c"], "a": ["b", "c", "d"], "b": ["a", "c", "d"], "c": ["a", "d", "b"]}
"""Everybody with everybody, listed out of order."""


def federation(folder, sends_to, **settings):
    job = job_text("adapt_then_combine", members=sorted(sends_to), mechanism=MASKED)
    return found(folder, job, sends_to, **{"privacy": "", **settings})


def complete(files, report=None):
    """Put the lines that `tacit peer check` prints into the files."""
    for line in (report or check_peers(list(files.values()))).lines:
        said = re.fullmatch(r"(.*): \[links\.peers\] should have: (.*)", line)
        if said:
            file = Path(said[1])
            file.write_text(file.read_text().replace("hears = ", f"{said[2]}\nhears = "))


def test_check_says_what_no_peer_can_know_and_then_plans_are_the_simulators(tmp_path):
    files = federation(tmp_path, FOUR)
    report = check_peers(list(files.values()))
    assert sum("should have: co_senders" in line for line in report.lines) == 4
    assert all("has no weight_to" in fault for fault in report.faults)
    complete(files, report)
    report = check_peers(list(files.values()))
    assert report.faults == []
    assert not any("should have" in line for line in report.lines)
    made = {name: plan_of(load_peer(file)) for name, file in files.items()}
    for name, plan in made.items():
        others = {receiver: sorted({"a", "b", "c", "d"} - {receiver}) for receiver in "abcd" if receiver != name}
        assert plan.co_senders == {("peers", receiver): senders for receiver, senders in others.items()}
        assert not plan.booked
        specs = runtime.settle(plan.algorithm, plan.params, plan.batch, plan.role_views)
        np.testing.assert_allclose(plan.views(1)["peers"].out.weight, 0.25)
        assert specs[0].message.private.dtype == "int32"
    text = files["a"].read_text()
    files["a"].write_text(text.replace('"b" = ["c", "d"]', '"b" = ["c"]'))
    (fault,) = check_peers(list(files.values())).faults
    assert re.search(r'a/peer.toml: \[links.peers\] should have: co_senders = \{.*"b" = \["c", "d"\]', fault)


def test_a_peer_that_does_not_know_its_partners_has_no_plan(tmp_path):
    file = federation(tmp_path, BOTH_WAYS)["hospital-a"]
    weights = "weight_to = { hospital-b = 0.3, hospital-c = 0.3 }"
    file.write_text(file.read_text().replace("hears = ", f"{weights}\nhears = "))
    with pytest.raises(ConfigError, match=r"co_senders has no 'hospital-b'.*peer check"):
        plan_of(load_peer(file))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{ hospital-x = ["hospital-b"] }', "does not send to 'hospital-x'"),
        ("{ hospital-b = [] }", r"co_senders.hospital-b = \[\]: expected the others whom 'hospital-b' hears"),
        ('{ hospital-b = ["hospital-a"] }', "at least one of hospital-c"),
        ('{ hospital-b = ["hospital-b"] }', "at least one of hospital-c"),
        ('{ hospital-b = ["hospital-c", "hospital-c"] }', "each once"),
    ],
)
def test_co_senders_that_cannot_be(tmp_path, line, said):
    files = federation(tmp_path, BOTH_WAYS, identities=False, links=f"co_senders = {line}")
    with pytest.raises(ConfigError, match=said):
        load_peer(files["hospital-a"])


def test_co_senders_of_a_job_without_masks_do_nothing(tmp_path):
    links = 'co_senders = { hospital-b = ["hospital-c"] }'
    files = found(tmp_path, job_text("adapt_then_combine"), BOTH_WAYS, identities=False, links=links)
    with pytest.raises(ConfigError, match="'peers' are not masked"):
        load_peer(files["hospital-a"])


def method(mechanism):
    return adapt_then_combine(objectives.logistic(), mechanism=mechanism)


@pytest.mark.parametrize("settings", [{"epsilon": 1.0}, {"rho": 1.0}, {"delta": 1e-5}, {"unprotected": True}])
def test_masks_are_not_charged(settings):
    masked = method(privacy.local_graph_homomorphic(0.5))
    assert budget_of(PrivacyTable(), masked) == (False, NOTHING_BOOKED)
    with pytest.raises(ConfigError, match="masks are not charged"):
        budget_of(PrivacyTable(**settings), masked)


def test_the_grid_alone_hides_nothing():
    assert budget_of(PrivacyTable(unprotected=True), method(privacy.on_grid())) == (False, NOTHING_BOOKED)
    with pytest.raises(ConfigError, match="say unprotected = true"):
        budget_of(PrivacyTable(), method(privacy.on_grid()))


@pytest.mark.parametrize("mechanism", [privacy.laplace_of_size(1.0), privacy.per_edge(1.0)])
@pytest.mark.parametrize("settings", [{}, {"unprotected": True}, {"epsilon": 1.0}])
def test_noise_that_everybody_could_compute_is_refused(mechanism, settings):
    with pytest.raises(ConfigError, match=r"promises nothing.*seed.*clip"):
        budget_of(PrivacyTable(**settings), method(mechanism))


@pytest.mark.slow
def test_peers_from_files_do_what_the_simulator_does_on_the_grid(tmp_path):
    rounds, dim = 4, 3
    job = job_text("adapt_then_combine", mechanism=MASKED, features=dim, bias="false")
    files = found(tmp_path, job, BOTH_WAYS, privacy="", rounds=f"last = {rounds}\npatience = 30.0")
    complete(files)
    stream = tacit.streams.logistic_drift(agents=3, dim=dim, seed=3)
    chunk = stream.chunk(0, rounds)
    models = learnt_together(files, chunk)
    algorithm = adapt_then_combine(objectives.logistic(), step=0.5, mechanism=privacy.on_grid())
    expected = run_in_process(algorithm, graphs.complete(3), stream, rounds=rounds).models
    for agent, name in enumerate(NAMES):  # a gradient that differs in its last place may fall on the next step
        np.testing.assert_allclose(np.stack(models[name]), expected[:, agent], rtol=0, atol=rounds * 2.0**-20)
    assert np.abs(expected).max() > 0.01
