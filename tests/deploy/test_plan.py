"""Plans from files: the views that the simulator's world gives, and its trajectory over real mutual TLS."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.algorithms import REGISTRY
from tacit.algorithms.registry import Entry
from tacit.config.peer import load_peer
from tacit.core.contract import Objective
from tacit.core.errors import ConfigError
from tacit.deploy.assignment import plan_of
from tacit.deploy.check import check_peers
from tacit.graphs import Graph
from tacit.peer import run_in_process
from tacit.peer.views import AgentViews
from tests.contract.on_paper import adapt_then_combine, sampled_fedavg
from tests.deploy.homes import BOTH_WAYS, NAMES, RING, found, job_text
from tests.deploy.peers import learnt_together

UNEVEN = {"a": ["c", "b", "d"], "b": ["a"], "c": ["a", "b"], "d": ["c"]}
"""Links one way and both ways, listed out of order."""
EVEN = {"a": ["d", "b", "c"], "b": ["a"], "c": ["d", "a"], "d": ["c", "a"]}


def graph_of(sends_to):
    names = list(sends_to)
    edges = [(names.index(a), names.index(b)) for a in names for b in sends_to[a]]
    return Graph.from_edges(len(names), [a for a, _ in edges], [b for _, b in edges])


def plans(files):
    return {name: plan_of(load_peer(file)) for name, file in files.items()}


def add_weights(files):
    """Put the lines that `tacit peer check` prints into the files."""
    for line in check_peers(list(files.values())).lines:
        found_ = re.fullmatch(r"(.*): \[links\.peers\] should have: (weight_from = .*)", line)
        if found_:
            file = Path(found_[1])
            file.write_text(file.read_text().replace("hears = ", f"{found_[2]}\nhears = "))


def receiver_weighted(objective: Objective, step: float):
    """Averaging by in-degree: a method of the rule "receiver"."""
    return adapt_then_combine(objective, step)._replace(
        name="receiver_weighted", weights="receiver", requires=frozenset({"receiver_normalised"})
    )


@pytest.fixture
def by_receiver(monkeypatch):
    monkeypatch.setitem(REGISTRY, "receiver_weighted", Entry("receiver_weighted", "test", receiver_weighted))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("algorithm", "sends_to", "sides"),
    [
        ("online_push_sum", UNEVEN, ("out",)),
        ("receiver_weighted", UNEVEN, ("into",)),
        ("distributed_online", EVEN, ("out", "into")),
    ],
)
def test_views_are_those_of_the_world(tmp_path, by_receiver, algorithm, sends_to, sides, dtype):
    files = found(tmp_path, job_text(algorithm, sends_to, seed=7, dtype=f'"{dtype}"'), sends_to, identities=False)
    if algorithm == "distributed_online":
        certified = check_peers(list(files.values()))
        assert any("should have: weight_from" in line for line in certified.lines)
        add_weights(files)
    made = plans(files)
    with jax.enable_x64(dtype == "float64"):
        method = next(iter(made.values())).algorithm
        topology = runtime.prepared_topology(method, graph_of(sends_to))
        world = AgentViews(method, topology, 7, jnp.dtype(dtype))
        for agent, plan in enumerate(made.values()):
            for t in (0, 1, 5):
                now = world.now(t) if t else world.at_first()
                expected, view = world.views("peer", agent, t, 0, now)["peers"], plan.views(t)["peers"]
                assert (int(view.agent), int(view.round), bool(view.present)) == (agent, t, True)
                for side in ("out", "into"):
                    ours, theirs = getattr(view, side), getattr(expected, side)
                    used = np.asarray(theirs.agent) >= 0  # the world pads every agent to the largest degree
                    np.testing.assert_array_equal(ours.agent, np.asarray(theirs.agent)[used])
                    np.testing.assert_array_equal(ours.live, np.asarray(theirs.live)[used])
                    assert ours.weight.dtype == theirs.weight.dtype == dtype
                    if side in sides:
                        tolerance = 1e-7 if dtype == "float32" else 1e-15
                        np.testing.assert_allclose(ours.weight, np.asarray(theirs.weight)[used], atol=tolerance)
            assert jnp.array_equal(
                jax.random.key_data(plan.key), jax.random.key_data(runtime.agent_key(world.root, 0, 0, agent))
            )


def test_the_order_in_the_file_does_not_matter(tmp_path):
    files = found(tmp_path, job_text(members=UNEVEN), UNEVEN, identities=False)
    before = plan_of(load_peer(files["a"])).views(1)
    text = files["a"].read_text()
    files["a"].write_text(text.replace('["c", "b", "d"]', '["d", "c", "b"]').replace('["b", "c"]', '["c", "b"]'))
    assert files["a"].read_text() != text
    assert jax.tree.all(jax.tree.map(jnp.array_equal, before, plan_of(load_peer(files["a"])).views(1)))


def refusal(file, old="", new=""):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        plan_of(load_peer(file))
    assert str(file) in str(caught.value)
    return str(caught.value)


def test_one_way_links_are_refused_where_they_must_lead_both_ways(tmp_path):
    files = found(tmp_path, job_text("distributed_online"), RING, identities=False)
    message = refusal(files["hospital-a"])
    assert "hospital-b and hears hospital-c" in message
    assert "push-sum" in message


def test_weights_that_depend_on_others_are_to_be_given(tmp_path):
    files = found(tmp_path, job_text("distributed_online"), BOTH_WAYS, identities=False)
    assert "[links.peers] has no weight_from" in (message := refusal(files["hospital-a"]))
    assert "`tacit peer check`" in message
    half = 'hears = ["hospital-b", "hospital-c"]'
    assert "has no weight_from" in refusal(files["hospital-a"], half, f"{half}\nweight_from = {{ hospital-b = 0.3 }}")


def test_weights_that_are_too_large_together(tmp_path):
    files = found(tmp_path, job_text("distributed_online"), BOTH_WAYS, identities=False)
    hears = 'hears = ["hospital-b", "hospital-c"]'
    message = refusal(files["hospital-a"], hears, f"{hears}\nweight_from = {{ hospital-b = 0.7, hospital-c = 0.7 }}")
    assert "sum to 1.4" in message
    assert "make them smaller" in message


def test_weights_that_would_do_nothing(tmp_path):
    files = found(tmp_path, job_text(), RING, identities=False)
    message = refusal(files["hospital-a"], "hears = ", "weight_from = { hospital-c = 0.5 }\nhears = ")
    assert "weight_from = { hospital-c = 0.5 }" in message
    assert "remove it" in message


def test_own_weights_replace_the_rule(tmp_path):
    files = found(tmp_path, job_text(), RING, identities=False)
    text = files["hospital-a"].read_text()
    files["hospital-a"].write_text(text.replace("hears = ", "weight_to = { hospital-b = 0.25 }\nhears = "))
    np.testing.assert_allclose(plan_of(load_peer(files["hospital-a"])).views(1)["peers"].out.weight, [0.75, 0.25])


def test_a_plan_of_two_roles(tmp_path, monkeypatch):
    def constructor(objective: Objective, step: float):
        return sampled_fedavg(objective, step, 1, 2)

    monkeypatch.setitem(REGISTRY, "sampled_fedavg", Entry("sampled_fedavg", "Rizk (2023), ch. 2", constructor))
    job = job_text("sampled_fedavg").replace(
        'peer = ["hospital-a", "hospital-b", "hospital-c"]', 'client = ["a", "b"]\nserver = ["s"]'
    )
    (tmp_path / "job.toml").write_text(job)
    common = 'job = "job.toml"\n[privacy]\nunprotected = true\n'
    client = (
        common
        + '[peer]\nname = "b"\n[links.downlink]\nhears = ["s"]\n[links.uplink]\nsends_to = ["s"]\n[addresses]\ns = "x:1"\n'
    )
    server = (
        common
        + '[peer]\nname = "s"\n[links.downlink]\nsends_to = ["b", "a"]\n[links.uplink]\nhears = ["a", "b"]\n[addresses]\na = "x:1"\nb = "x:2"\n'
    )
    (tmp_path / "client.toml").write_text(client)
    (tmp_path / "server.toml").write_text(server)
    clients, servers = (plan_of(load_peer(tmp_path / f"{role}.toml")) for role in ("client", "server"))
    assert (clients.role, clients.agent, servers.role, servers.agent) == ("client", 1, "server", 0)
    assert servers.batch == ()
    assert clients.batch.x.shape == (3,)
    np.testing.assert_array_equal(clients.views(1)["downlink"].into.agent, [-1, 0])
    np.testing.assert_array_equal(clients.views(1)["uplink"].out.agent, [-1, 0])
    np.testing.assert_array_equal(servers.views(1)["downlink"].out.agent, [-1, 0, 1])
    np.testing.assert_array_equal(servers.views(1)["downlink"].into.agent, [-1])
    np.testing.assert_array_equal(servers.views(1)["downlink"].out.live, [False, True, True])


# -- the trajectory --------------------------------------------------------------------------------------------------------

ROUNDS, DIM = 5, 3


def stream():
    return tacit.streams.logistic_drift(agents=3, dim=DIM, seed=3)


@pytest.mark.parametrize(
    ("algorithm", "sends_to"),
    [("online_push_sum", RING), ("distributed_online", BOTH_WAYS)],
    ids=["push-sum", "averaging"],
)
def test_three_peers_from_files_go_the_way_of_the_simulator(tmp_path, algorithm, sends_to):
    """Samples pushed one by one, from TOML files over mutual TLS, against machines in memory."""
    job = job_text(algorithm, features=DIM, bias="false", dtype='"float32"')
    files = found(tmp_path, job, sends_to, rounds=f"last = {ROUNDS}\npatience = 30.0")
    add_weights(files)
    chunk = stream().chunk(0, ROUNDS)
    models = learnt_together(files, chunk)
    method = load_peer(files["hospital-a"]).job.algorithm
    expected = run_in_process(method, graph_of(sends_to), stream(), rounds=ROUNDS).models
    for agent, name in enumerate(NAMES):
        np.testing.assert_allclose(np.stack(models[name]), expected[:, agent], atol=1e-7)
    assert np.abs(expected).max() > 0.01
