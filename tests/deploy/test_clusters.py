"""Clusters of peers: in a job's file, in a peer's view, and in an experiment's configuration."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tacit.config.job import load_job
from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError, GraphError
from tacit.deploy.assignment import plan_of
from tacit.deploy.check import check_peers
from tacit.experiments import build, parse
from tests.deploy.homes import NAMES, found, job_text

CLUSTERS = "\n[clusters]\nhospital-a = 0\nhospital-b = 0\nhospital-c = 1\n"
PAIR = {"hospital-a": ["hospital-b"], "hospital-b": ["hospital-a"], "hospital-c": []}


def job(clusters=CLUSTERS):
    text = job_text("networked_personalised", objective='kind = "squared"\nl2 = 0.1')
    return text.replace("step = 0.5\n", "tau = 0.2\n") + clusters


def with_bridges(files):
    """Turn the links among all into those of a cluster, and link hospital-b and hospital-c across."""
    across = {"hospital-a": [], "hospital-b": ["hospital-c"], "hospital-c": ["hospital-b"]}
    ports = {name: re.search(r'listen = "127.0.0.1:(\d+)"', file.read_text())[1] for name, file in files.items()}
    for name, file in files.items():
        names = str(across[name]).replace("'", '"')
        text = file.read_text().replace("[links.peers]", "[links.cluster]")
        text = text.replace("[addresses]", f"[links.bridge]\nsends_to = {names}\nhears = {names}\n\n[addresses]")
        more = "".join(f'{other} = "127.0.0.1:{ports[other]}"\n' for other in across[name])
        file.write_text(text.replace("[addresses]\n", f"[addresses]\n{more}"))
    return files


def test_a_job_says_who_is_in_which_cluster_and_peers_see_their_own(tmp_path):
    files = with_bridges(found(tmp_path, job(), PAIR))
    report = check_peers(list(files.values()))
    assert report.faults == []
    assert any("'networked_personalised' may run" in line for line in report.lines)
    plans = [plan_of(load_peer(file)) for file in files.values()]
    assert [int(plan.views(1)["bridge"].cluster) for plan in plans] == [0, 0, 1]
    assert [int(plan.views(1)["cluster"].into.degree) for plan in plans] == [1, 1, 0]


def test_links_that_contradict_the_clusters_are_found_before_anybody_runs(tmp_path):
    swapped = CLUSTERS.replace("hospital-b = 0", "hospital-b = 1")
    files = with_bridges(found(tmp_path, job(swapped), PAIR))
    faults = check_peers(list(files.values())).faults
    assert len(faults) == 1
    assert re.search(r"link \d -> \d .*'cluster'.* agent \d .* agent \d", faults[0])


@pytest.mark.parametrize(
    ("clusters", "said"),
    [
        (CLUSTERS + "hospital-x = 0\n", r"\[clusters\] hospital-x = 0: 'hospital-x' is not a member"),
        (CLUSTERS.replace("hospital-c = 1\n", ""), "has no 'hospital-c'"),
        (CLUSTERS.replace("= 1", '= "north"'), "hospital-c = 'north': expected the number of a cluster"),
        (CLUSTERS.replace("= 1", "= 2"), "nobody belongs to cluster 1"),
    ],
    ids=["a stranger", "one left out", "a word", "a gap"],
)
def test_a_job_with_clusters_that_make_no_sense_is_refused(tmp_path, clusters, said):
    file = tmp_path / "job.toml"
    file.write_text(job(clusters))
    with pytest.raises(ConfigError, match=said):
        load_job(file)


def test_clusters_are_part_of_what_peers_have_to_agree_on(tmp_path):
    hashes = set()
    for text in (job(), job(CLUSTERS.replace("hospital-b = 0", "hospital-b = 1")), job("")):
        (tmp_path / "job.toml").write_text(text)
        hashes.add(load_job(tmp_path / "job.toml").hash)
    assert len(hashes) == 3
    assert load_job(tmp_path / "job.toml").clusters == {}
    assert NAMES == ("hospital-a", "hospital-b", "hospital-c")


EXPERIMENT = """
[run]
rounds = 5
[graph]
kind = "complete"
agents = 4
clusters = [0, 0, 1, 1]
[stream]
kind = "linear_drift"
dim = 3
[objective]
kind = "squared"
l2 = 0.1
[[algorithm]]
name = "networked_personalised"
tau = 0.1
"""


def test_an_experiment_may_put_its_agents_into_clusters():
    made = build(parse(EXPERIMENT, Path("exp.toml")))
    np.testing.assert_array_equal(made.graph(0).clusters, [0, 0, 1, 1])
    (run,) = made.runs(progress=False)
    assert run.algorithm == "networked_personalised"
    with pytest.raises(GraphError, match=r"\[graph\].*clusters of shape"):
        build(parse(EXPERIMENT.replace("[0, 0, 1, 1]", "[0, 1]"), Path("exp.toml")))
    with pytest.raises(ConfigError, match="clusters = "):
        build(parse(EXPERIMENT.replace("clusters = [0, 0, 1, 1]\n", ""), Path("exp.toml")))
