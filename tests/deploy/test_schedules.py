"""Schedules of a job: what each peer works out for itself is what the simulator has, and both ends of a link agree."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tacit
from tacit import runtime
from tacit.config.job import load_job
from tacit.config.peer import load_peer
from tacit.config.schedule import refuse_method
from tacit.config.sections import Place
from tacit.core.errors import ConfigError
from tacit.deploy import comparison
from tacit.deploy.assignment import plan_of
from tacit.deploy.check import check_peers
from tacit.deploy.swarm import Swarm
from tacit.graphs import LinkDrop, Rotation, Shifts, Timetable
from tacit.peer import run_in_process
from tacit.peer.views import AgentViews
from tests.deploy.homes import found, job_text
from tests.deploy.peers import learnt_together
from tests.deploy.test_plan import add_weights, graph_of, plans
from tests.faults.network_campaign import SETTINGS
from tests.peer.virtual import Network
from tests.peer.weather import CALM

NAMES = ("a", "b", "c", "d")
UNEVEN = {"a": ["b", "c", "d"], "b": ["c"], "c": ["d", "a"], "d": ["a"]}
EVEN = {"a": ["b", "c", "d"], "b": ["a", "c"], "c": ["a", "b", "d"], "d": ["a", "c"]}
ALL = {name: [other for other in NAMES if other != name] for name in NAMES}
TURNS = '[dynamics]\nkind = "rotation"\nhops = [1, 2, 3]\n'
CHANCE = '[dynamics]\nkind = "link_drop"\nprobability = 0.4\nsymmetric = true\n'
LISTED = '[dynamics]\nkind = "timetable"\nrounds = [[["a", "b"], ["b", "c"], ["a", "c"]], [["c", "d"], ["a", "d"]]]\n'
SHIFTS = """
[[availability]]
members = ["b"]
period = 5
rounds = 3
[[availability]]
members = ["c"]
first = 3
probability = 0.7
[[availability]]
members = ["d"]
last = 9
"""
IN_SHIFTS = {
    "probability": [1, 1, 0.7, 1],
    "shifts": Shifts.of(4, first=[1, 1, 3, 1], last=[10**9] * 3 + [9], period=[1, 5, 1, 1], rounds=[1, 3, 1, 1]),
}


def with_schedule(text, schedule):
    return text.replace("[objective]", f"{schedule}\n[objective]")


def federation(folder, algorithm, sends_to, schedule, **more):
    job = with_schedule(job_text(algorithm, sends_to, seed=7), schedule)
    files = found(folder, job, sends_to, **more)
    if algorithm == "distributed_online":
        add_weights(files)
    return files


def world_of(method, sends_to, dynamics, there, seed=7, dtype="float32"):
    graph = graph_of(sends_to)
    if method.weights == "metropolis":  # the weight of a link that is down goes to its ends
        graph = graph.with_weights(graph.with_weights("metropolis").matrix())
    topology = tacit.graphs.as_topology(graph.with_dynamics(dynamics))
    if there:
        topology = topology.available("peer", **there)
    return topology, AgentViews(method, runtime.prepared_topology(method, topology), seed, jnp.dtype(dtype))


CASES = [
    ("online_push_sum", ALL, TURNS, Rotation([1, 2, 3]), "", {}),
    ("online_push_sum", UNEVEN, CHANCE.replace("true", "false"), LinkDrop(0.4), SHIFTS, IN_SHIFTS),
    ("distributed_online", EVEN, CHANCE, LinkDrop(0.4, symmetric=True), SHIFTS, IN_SHIFTS),
    (
        "distributed_online",
        EVEN,
        LISTED + "symmetric = true\n",
        Timetable([[[0, 1], [1, 2], [0, 2]], [[2, 3], [0, 3]]], symmetric=True),
        "",
        {},
    ),
]


@pytest.mark.parametrize(("algorithm", "sends_to", "text", "dynamics", "shifts", "there"), CASES)
def test_views_are_those_of_the_world(tmp_path, algorithm, sends_to, text, dynamics, shifts, there):
    made = plans(federation(tmp_path, algorithm, sends_to, text + shifts, identities=False))
    method = next(iter(made.values())).algorithm
    _, world = world_of(method, sends_to, dynamics, there)
    for agent, plan in enumerate(made.values()):
        following = world.rounds_of("peer", agent)
        assert [plan.following(t) for t in range(30)] == [following(t) for t in range(30)]
        for t in range(12):
            expected = world.views("peer", agent, t, 0, world.now(t) if t else world.at_first())["peers"]
            view = plan.views(t)["peers"]
            assert (int(view.round), bool(view.present)) == (t, bool(expected.present))
            for side in ("out", "into"):
                ours, theirs = getattr(view, side), getattr(expected, side)
                used = np.asarray(theirs.agent) >= 0
                np.testing.assert_array_equal(ours.agent, np.asarray(theirs.agent)[used])
                np.testing.assert_array_equal(ours.live, np.asarray(theirs.live)[used])
                if side == "out" or method.weights != "sender":
                    np.testing.assert_allclose(ours.weight, np.asarray(theirs.weight)[used], atol=1e-7)


def shift(name):
    whole = st.integers(1, 6)
    return st.builds(
        lambda first, more, period, rounds, probability: (
            f'[[availability]]\nmembers = ["{name}"]\nfirst = {first}\nlast = {first + more}\n'
            f"period = {period}\nrounds = {min(period, rounds)}\nprobability = {probability}\n"
        ),
        whole,
        st.integers(0, 20),
        whole,
        whole,
        st.sampled_from([1.0, 0.5, 0.001]),
    )


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    dynamics=st.sampled_from(["", TURNS, CHANCE, CHANCE.replace("true", "false")]),
    tables=st.tuples(*(st.just("") | shift(name) for name in NAMES)).map("".join),
)
def test_both_ends_agree_on_every_link_in_every_round(tmp_path_factory, dynamics, tables):
    folder = tmp_path_factory.mktemp("peers")
    made = plans(federation(folder, "online_push_sum", ALL, dynamics + tables, identities=False))
    order = list(made)
    for t in range(1, 8):
        sent, heard = set(), set()
        for agent, plan in enumerate(made.values()):
            view = plan.views(t)["peers"]
            assert bool(view.present) == (plan.following(t - 1) == t)
            sent |= {(agent, int(to)) for to, up in zip(view.out.agent[1:], view.out.live[1:], strict=True) if up}
            heard |= {(int(frm), agent) for frm, up in zip(view.into.agent[1:], view.into.live[1:], strict=True) if up}
            assert float(jnp.sum(jnp.where(view.out.live, view.out.weight, 0))) == pytest.approx(1, abs=1e-6)
        assert sent == heard
        assert all(made[order[a]].following(t - 1) == t for pair in sent for a in pair)


ROUNDS = 11
STREAM = tacit.streams.logistic_drift(4, 2, drift=0.0, seed=3)
WORKED = {"a": 11, "b": 7, "c": 5, "d": 9}


def rounds_of(plan, last=ROUNDS):
    return [t for t in range(1, last + 1) if plan.following(t - 1) == t]


def simulated():
    """Models of machines in memory after each round, having compared them with the simulator."""
    graph = graph_of(ALL).with_dynamics(Rotation([1, 2, 3]))
    topology = tacit.graphs.as_topology(graph).available("peer", **IN_SHIFTS)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.5)
    run = tacit.simulate(method, topology, STREAM, rounds=ROUNDS, seed=7, progress=False)
    memory = run_in_process(method, topology, STREAM, rounds=ROUNDS, seed=7)
    np.testing.assert_allclose(run.per_round["loss"][0], memory.loss, atol=1e-6)
    np.testing.assert_allclose(run.models[0], memory.models[-1], atol=1e-6)
    return np.asarray(memory.models)


def test_peers_over_tls_have_the_trajectory_of_the_simulator(tmp_path):
    job = with_schedule(job_text("online_push_sum", ALL, seed=7, bias="false"), TURNS + SHIFTS)
    files = found(tmp_path, job, ALL, rounds=f"last = {ROUNDS}\npatience = 5.0")
    assert not check_peers(list(files.values())).faults
    worked = {name: rounds_of(plan) for name, plan in plans(files).items()}
    assert {name: len(rounds) for name, rounds in worked.items()} == WORKED
    models_of, models = simulated(), learnt_together(files, STREAM.chunk(0, ROUNDS), worked)
    for agent, name in enumerate(NAMES):
        expected = models_of[[t - 1 for t in worked[name]], agent]
        np.testing.assert_allclose(np.stack(models[name]), expected, atol=1e-6)


EXPERIMENT = """
[run]
name = "shifts"
rounds = 12
seed = 4
regret_points = 0
[graph]
kind = "complete"
agents = 4
dynamics = { kind = "rotation", hops = [1, 2, 3] }
[[graph.availability]]
agents = [1]
period = 5
rounds = 3
[[graph.availability]]
agents = [2]
first = 3
probability = 0.7
[stream]
kind = "logistic_drift"
dim = 3
[objective]
kind = "logistic"
[[algorithm]]
name = "online_push_sum"
"""


def experiment(folder, text=EXPERIMENT):
    file = folder / "shifts.toml"
    file.write_text(text)
    return tacit.experiments.build(tacit.experiments.load(file))


def test_an_experiment_says_it_in_the_same_words(tmp_path):
    problem = experiment(tmp_path)
    (run,) = problem.runs(progress=False)
    memory = run_in_process(problem.algorithms[0], problem.graph(4), problem.stream(4), rounds=12, seed=4)
    np.testing.assert_allclose(run.models[0], memory.models[-1], atol=1e-6)
    assert np.array_equal(memory.models[3, 1], memory.models[4, 1])  # in round 5 it rests
    again = problem.config.settings()["graph"]
    assert again["availability"][0]["agents"] == [1]
    assert again["dynamics"]["hops"] == [1, 2, 3]


FAULTS = [
    ('[dynamics]\nkind = "opt_out"\nprobability = 0.5', ["[dynamics] kind", "opt_out", "rotation"]),
    ('[dynamics]\nkind = "link_drop"\nprobability = 1.0', ["[dynamics]", "1.0"]),
    ('[dynamics]\nkind = "rotation"\nhops = []', ["[dynamics]", "period of 0"]),
    ('[dynamics]\nkind = "rotation"\nhops = [0]', ["[dynamics]", "0 is no distance"]),
    ('[dynamics]\nkind = "rotation"\nhops = [1, 2]', ["[links.peers]", "3 is not among the hops [1, 2]"]),
    ('[dynamics]\nkind = "rotation"\nhops = [1, 2, 3, 4]', ["4 leads round 4"]),
    ('[dynamics]\nkind = "timetable"\nrounds = [[["a", "x"]]]', ["[dynamics]", "'x' is not a member"]),
    ('[dynamics]\nkind = "timetable"\nrounds = [[["a", "b", "c"]]]', ["[dynamics]", "round 1", "[0, 1, 2]"]),
    ('[dynamics]\nkind = "timetable"\nrounds = [[["a", "b"]]]', ["[links.peers]", "up in no round"]),
    ("dynamics = 3", ["dynamics = 3"]),
    ("availability = 0.5", ["[[availability]] = 0.5"]),
    ('[[availability]]\nmembers = ["x"]', ["[[availability]] members", "'x'"]),
    ('[[availability]]\nmembers = ["a"]\n[[availability]]\nmembers = ["a"]', ["[[availability]]", "twice"]),
    ("[[availability]]\nfirst = 2\n[[availability]]\nlast = 4", ["[[availability]]", "2 tables"]),
    ("[[availability]]\nfirst = 5\nlast = 4", ["[[availability]]", "last = 4"]),
    ("[[availability]]\nperiod = 5", ["[[availability]]", "period and rounds"]),
    ("[[availability]]\nperiod = 5\nrounds = 6", ["[[availability]]", "rounds = 6"]),
    ("[[availability]]\nprobability = 0.0", ["[[availability]] probability = 0.0"]),
    ("[[availability]]\nweekdays = 5", ["[[availability]] weekdays"]),
]


@pytest.mark.parametrize(("schedule", "said"), FAULTS)
def test_a_fault_names_key_value_and_remedy(tmp_path, schedule, said):
    job = job_text("online_push_sum", ALL)
    job = f"{schedule}\n{job}" if "[" not in schedule else with_schedule(job, schedule)
    files = found(tmp_path, job, ALL, identities=False)
    with pytest.raises(ConfigError) as caught:
        plan_of(load_peer(files["a"]))
    assert all(word in str(caught.value) for word in said), caught.value


@pytest.mark.parametrize(
    ("algorithm", "schedule", "said"),
    [
        ("distributed_online", CHANCE.replace("true", "false"), "symmetric = true"),
        ("distributed_online", '[dynamics]\nkind = "rotation"\nhops = [1, 2, 3]\n', "symmetric = true"),
        ("zcdp_admm", "[[availability]]\nlast = 4\n", "the same in every round"),
    ],
)
def test_a_method_that_cannot_have_it_is_refused(tmp_path, algorithm, schedule, said):
    job = with_schedule(job_text(algorithm, ALL).replace("step = 0.5\n", ""), schedule)
    files = found(tmp_path, job, ALL, links="", identities=False)
    with pytest.raises(ConfigError, match=said):
        plan_of(load_peer(files["a"]))


def test_masks_need_the_same_senders_in_every_round():
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
    noise = tacit.privacy.local_graph_homomorphic(1.0)
    hidden = method._replace(phases=(method.phases[0]._replace(mechanism=noise),))
    with pytest.raises(ConfigError, match="masks"):
        refuse_method(hidden, Place("job.toml", "[dynamics]"))


def test_a_schedule_is_in_the_hash(tmp_path):
    text = job_text("online_push_sum", ALL, seed=7)
    hashes = set()
    for k, schedule in enumerate(["", TURNS, CHANCE, SHIFTS, CHANCE + SHIFTS]):
        file = tmp_path / f"{k}.toml"
        file.write_text(with_schedule(text, schedule))
        hashes.add(load_job(file).hash)
    assert len(hashes) == 5


def test_check_looks_at_every_round(tmp_path):
    files = federation(tmp_path, "online_push_sum", ALL, TURNS + SHIFTS)
    report = check_peers(list(files.values()))
    assert not report.faults, report.faults
    assert any("b 60%" in line for line in report.lines)


@pytest.mark.parametrize("rests", [False, True])
def test_who_rests_is_charged_nothing_in_the_simulator(rests):
    noisy = tacit.privacy.laplace(epsilon=1.0, clip=1.0)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.5, mechanism=noisy)
    stream = tacit.streams.from_arrays(np.eye(3, 2), np.ones(3), [[0], [1], [2]], exhausted="cycle")
    topology = tacit.graphs.as_topology(tacit.graphs.ring(3))
    if rests:
        topology = topology.available("peer", 1.0, shifts=Shifts.of(3, first=[1, 2, 3], period=5, rounds=2))
    run = tacit.simulate(method, topology, stream, rounds=10, progress=False)
    assert run.privacy.summary()["epsilon"] == pytest.approx(4.0 if rests else 10.0)


def test_a_peer_charges_nothing_where_it_rests(tmp_path):
    setting = SETTINGS["ops, in shifts, booked"]()
    network = Network(setting, 0, tmp_path, CALM)
    try:
        network.run(60.0)
        assert network.finished
        for name, host in network.hosts.items():
            assert host.store.ledger.releases == len(rounds_of(setting.plans[name], setting.rounds))
        assert network.hosts["peer-4"].store.ledger.releases == 2
    finally:
        network.close()


def test_a_peer_that_is_killed_where_it_rests_goes_on_in_its_next_round(tmp_path):
    setting = SETTINGS["ops, in shifts"]()
    network = Network(setting, 1, tmp_path, CALM)
    try:
        while (network.hosts["peer-2"].round, network.hosts["peer-2"].node.between_rounds) != (3, True):
            network.step()
        rests = network.hosts["peer-2"]
        assert (rests.node.next_round, rests.node.position.round) == (6, 4)  # it has confirmed before it rests
        network._kill(rests)
        network.run(60.0)
        assert network.finished
        expected = np.asarray(setting.reference)[2]
        np.testing.assert_array_equal(np.asarray(network.hosts["peer-2"].node.model()), expected)
    finally:
        network.close()


@pytest.mark.slow
def test_a_swarm_of_processes_has_the_trajectory_of_the_simulator(tmp_path):
    problem = experiment(tmp_path)
    with Swarm(problem, 0, tmp_path / "swarm", record=True) as swarm:
        swarm.wait(300)
        models = swarm.models()
    assert np.max(np.abs(np.asarray(models) - np.asarray(comparison.rounds_of(problem, 0)[0]))) < 1e-6
