"""`simulate` as a whole: data on its way to the agents, figures, repeats, precision, refusals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import algorithms, graphs, objectives, streams
from tacit.core.contract import Phase, unprotected
from tacit.core.errors import ConfigError, ContractError, DataError, RequirementError
from tacit.graphs import Channel, Delay, Graph, Topology
from tacit.simulator import data as round_data
from tacit.simulator import layout as layout_module
from tacit.simulator import simulate
from tests.simulator import specimens

AGENTS, ROUNDS = 5, 7


def averaging(**settings):
    return algorithms.decentralised_asymmetric(
        objectives.from_loss(specimens.loss, np.zeros(specimens.DIM + 3)), **settings
    )


def expected_run(graph, data, rounds=ROUNDS, step=0.1):
    """x <- W (x - step grad) in NumPy: loss per round and final x."""
    W = graph.with_weights("sender").matrix().toarray()
    x = np.zeros((graph.agents, specimens.DIM + 3))
    losses, nodes = [], []
    for batch in data[:rounds].astype(np.float64):
        wide = np.pad(batch, ((0, 0), (0, 3)))
        all_losses = np.sum((x[:, None] - specimens.CENTRE) ** 2, axis=2) + x @ wide.T  # model i, batch j
        losses.append(np.diag(all_losses).mean())
        nodes.append(all_losses.mean(axis=1))
        x = W @ (x - step * (2 * (x - specimens.CENTRE) + wide))
    return np.array(losses), x, np.array(nodes)


def digraph(seed=0):
    return graphs.random_digraph(AGENTS, out_degree=2, seed=seed)


def in_chunks(monkeypatch, rounds):
    """Feed chunks of so many rounds of the standard stream instead of keeping it on the device."""
    monkeypatch.setattr(round_data, "RESIDENT_BYTES", 1)
    monkeypatch.setattr(round_data, "CHUNK_BYTES", rounds * AGENTS * specimens.DIM * 8)


def same_figures(one, other):
    for name in one.per_round:
        np.testing.assert_array_equal(one.per_round[name], other.per_round[name], err_msg=name)
    for name in one.recorded:
        np.testing.assert_array_equal(one.recorded[name], other.recorded[name], err_msg=name)
    np.testing.assert_array_equal(one.recorded_rounds, other.recorded_rounds)
    jax.tree.map(np.testing.assert_array_equal, one.models, other.models)


@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_chunks_change_nothing_in_double_precision(chunk, monkeypatch):
    stream = specimens.targets(AGENTS, ROUNDS)
    if chunk is not None:
        in_chunks(monkeypatch, chunk)
    run = simulate(averaging(), digraph(), stream, rounds=ROUNDS, dtype="float64", record_every=2, node_loss=3)
    loss, x, nodes = expected_run(digraph(), stream.chunk(0, ROUNDS))
    np.testing.assert_allclose(run.per_round["loss"][0], loss, rtol=1e-13)
    np.testing.assert_allclose(run.per_round["node_loss"][0], nodes[:, 3], rtol=1e-13)
    np.testing.assert_allclose(run.models[0], x, rtol=1e-13)
    assert run.models.dtype == run.per_round["loss"].dtype == np.float64
    assert run.recorded_rounds.tolist() == [2, 4, 6, 7]
    spread = np.mean(np.sum((x - x.mean(axis=0)) ** 2, axis=1))
    np.testing.assert_allclose(run.recorded["consensus"][0, -1], spread, rtol=1e-12)
    assert run.per_round["bits"].tolist() == [[digraph().edges * (specimens.DIM + 3) * 64] * ROUNDS]
    assert not run.partial


def test_recorded_figures_are_those_of_their_round():
    stream = specimens.targets(AGENTS, 6)
    run = simulate(averaging(), digraph(), stream, rounds=6, dtype="float64", record_every=3)
    _, x, _ = expected_run(digraph(), stream.chunk(0, 6), rounds=3)
    assert run.recorded_rounds.tolist() == [3, 6]
    spread = np.mean(np.sum((x - x.mean(axis=0)) ** 2, axis=1))
    np.testing.assert_allclose(run.recorded["consensus"][0, 0], spread, rtol=1e-12)


@pytest.mark.parametrize("resident", [True, False])
def test_a_stream_that_starts_over_is_read_again_from_its_start(resident, monkeypatch):
    data = specimens.targets(AGENTS, 3).chunk(0, 3)
    stream = streams.from_function(lambda a, b: data[np.arange(a, b) % 3], agents=AGENTS, period=3)
    if not resident:
        in_chunks(monkeypatch, 2)
    run = simulate(averaging(), digraph(), stream, rounds=ROUNDS, dtype="float64", record_every=5)
    loss, x, _ = expected_run(digraph(), data[np.arange(ROUNDS) % 3])
    np.testing.assert_allclose(run.per_round["loss"][0], loss, rtol=1e-13)
    np.testing.assert_allclose(run.models[0], x, rtol=1e-13)


@pytest.mark.parametrize("resident", [True, False])
def test_repeats_with_their_own_graph_and_data_are_separate_runs(resident, monkeypatch):
    monkeypatch.setattr(layout_module, "BUCKET_OVERHEAD", 0)
    if not resident:
        in_chunks(monkeypatch, 6)

    def stream(seed):
        return specimens.targets(AGENTS, ROUNDS, seed)

    run = simulate(
        averaging(), digraph, stream, rounds=ROUNDS, repeats=3, seed=11, dtype="float64", node_loss=1, record_every=3
    )
    for r, seed in enumerate(range(11, 14)):
        loss, x, nodes = expected_run(digraph(seed), stream(seed).chunk(0, ROUNDS))
        np.testing.assert_allclose(run.per_round["loss"][r], loss, rtol=1e-12)
        np.testing.assert_allclose(run.per_round["node_loss"][r], nodes[:, 1], rtol=1e-12)
        np.testing.assert_allclose(run.models[r], x, rtol=1e-12)
        spread = np.mean(np.sum((x - x.mean(axis=0)) ** 2, axis=1))
        np.testing.assert_allclose(run.recorded["consensus"][r, -1], spread, rtol=1e-11)


@pytest.mark.parametrize("resident", [True, False])
def test_one_stream_feeds_all_repeats(resident, monkeypatch):
    monkeypatch.setattr(layout_module, "BUCKET_OVERHEAD", 0)
    if not resident:
        in_chunks(monkeypatch, 3)
    stream = specimens.targets(AGENTS, ROUNDS)
    run = simulate(averaging(), digraph, stream, rounds=ROUNDS, repeats=2, seed=11, dtype="float64")
    for r, seed in enumerate((11, 12)):
        loss, x, _ = expected_run(digraph(seed), stream.chunk(0, ROUNDS))
        np.testing.assert_allclose(run.per_round["loss"][r], loss, rtol=1e-12)
        np.testing.assert_allclose(run.models[r], x, rtol=1e-12)


def test_the_round_is_traced_and_compiled_once(monkeypatch):
    in_chunks(monkeypatch, 2)
    traced, compiled = [], []

    def watched(params, batch):
        traced.append(1)
        return specimens.loss(params, batch)

    def listen(event, seconds, **about):
        if event.endswith("backend_compile_duration"):
            compiled.append(about.get("fun_name", ""))

    counts = {}
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for rounds in (2, 20):
            traced.clear()
            compiled.clear()
            fresh = partial(watched)  # JAX remembers traces of the old
            objective = objectives.from_loss(fresh, np.zeros(specimens.DIM + 3))
            algorithm = algorithms.decentralised_asymmetric(objective)
            simulate(algorithm, digraph(), specimens.targets(AGENTS, 20), rounds=rounds, record_every=3)
            counts[rounds] = len(traced)
            assert sum("advance" in name for name in compiled) == 1
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert counts[2] == counts[20]


def test_the_same_seed_gives_the_same_figures_and_another_one_others():
    algorithm = averaging(mechanism=specimens.noisy())
    stream = specimens.targets(AGENTS, 3)
    runs = [simulate(algorithm, digraph(), stream, rounds=3, seed=s) for s in (1, 1, 2)]
    same_figures(runs[0], runs[1])
    assert np.all(runs[0].models != runs[2].models)


class TestModels:
    """Parameters of any shape, and predictors of another role."""

    def test_parameters_may_be_a_tree_with_matrices_and_scalars(self):
        def loss(params, batch):
            return jnp.sum((params["w"] @ batch - params["b"]) ** 2)

        first = {"w": np.ones((2, specimens.DIM)), "b": np.float64(0.5)}
        algorithm = algorithms.decentralised_asymmetric(objectives.from_loss(loss, first), step=0.05)
        stream = specimens.targets(AGENTS, 3)
        run = simulate(algorithm, digraph(), stream, rounds=3, dtype="float64")
        W = digraph().with_weights("sender").matrix().toarray()
        w, b = np.ones((AGENTS, 2, specimens.DIM)), np.full(AGENTS, 0.5)
        for batch in stream.chunk(0, 3).astype(np.float64):
            error = np.einsum("nij,nj->ni", w, batch) - b[:, None]
            w = np.einsum("mn,nij->mij", W, w - 0.05 * 2 * error[:, :, None] * batch[:, None])
            b = W @ (b + 0.05 * 2 * error.sum(axis=1))
        np.testing.assert_allclose(run.models["w"][0], w, rtol=1e-12)
        np.testing.assert_allclose(run.models["b"][0], b, rtol=1e-12)
        assert run.models["b"].shape == (1, AGENTS)

    def test_a_single_number_will_do(self):
        algorithm = algorithms.online_push_sum(
            objectives.from_loss(lambda params, batch: (params - batch[0]) ** 2, np.float32(2.0)), step=0.1
        )
        run = simulate(algorithm, digraph(), specimens.targets(AGENTS, 4), rounds=4, repeats=2)
        assert run.models.shape == (2, AGENTS)
        assert np.isfinite(run.models).all()

    def test_start_replaces_the_first_parameters(self):
        start = np.arange(specimens.DIM + 3.0)
        run = simulate(averaging(), digraph(), specimens.targets(AGENTS, 1), rounds=1, start=start, dtype="float64")
        batch = specimens.targets(AGENTS, 1).chunk(0, 1)[0].astype(np.float64)
        expected = np.sum((start - specimens.CENTRE) ** 2) + np.mean(batch @ start[: specimens.DIM])
        np.testing.assert_allclose(run.per_round["loss"], [[expected]], rtol=1e-13)

    def test_a_server_speaks_for_the_clients_that_it_serves(self):
        """Also in the loss of one node, of each repeat."""
        stream = specimens.targets(6, 3)
        topologies = [specimens.served(6, 3, s) for s in (4, 5)]
        run = simulate(
            specimens.federated(), lambda s: topologies[s - 4], stream,
            rounds=3, repeats=2, seed=4, node_loss=5, dtype="float64",
        )  # fmt: skip
        start = np.concatenate([np.zeros(specimens.DIM), np.zeros(3)])
        batch = stream.chunk(0, 1)[0].astype(np.float64)
        for r, topology in enumerate(topologies):
            home = [int(topology.links["down"].neighbours_in(c)[0]) for c in range(6)]
            first = np.tile(start, (6, 1))
            first[:, : specimens.DIM] += 0.1 * (1 + np.array(home))[:, None]
            losses = [[np.sum((m - specimens.CENTRE) ** 2) + b @ m[: specimens.DIM] for b in batch] for m in first]
            np.testing.assert_allclose(run.per_round["loss"][r, 0], np.diag(losses).mean(), rtol=1e-13)
            np.testing.assert_allclose(run.per_round["node_loss"][r, 0], np.mean(losses[5]), rtol=1e-13)
            for server in range(3):
                served_by = np.array(home) == server
                assert len(np.unique(run.models[r][served_by], axis=0)) == min(1, served_by.sum())
        assert run.models.shape == (2, 6, specimens.DIM + 3)

    def test_a_score_is_averaged_over_the_agents(self):
        objective = objectives.from_loss(
            specimens.loss, np.zeros(specimens.DIM + 3), score=lambda params, batch: batch[0] > 0, score_name="positive"
        )
        stream = specimens.targets(AGENTS, 3)
        run = simulate(algorithms.local_online(objective), digraph(), stream, rounds=3, repeats=2)
        expected = (stream.chunk(0, 3)[..., 0] > 0).mean(axis=1)
        np.testing.assert_allclose(run.per_round["positive"], [expected] * 2, rtol=1e-6)

    def test_who_is_out_of_samples_is_neither_right_nor_wrong(self, monkeypatch):
        """Before, accuracy fell with every agent that had read all it has."""
        monkeypatch.setattr(layout_module, "BUCKET_OVERHEAD", 0)
        x = np.random.default_rng(0).normal(size=(12, 3))
        objective, rows = objectives.logistic(), [np.arange(8), np.arange(8, 10), np.arange(10, 12)]
        labels = np.sign(x[:, 0] + 0.01)
        stream = streams.from_arrays(x, labels, rows, exhausted="mask", shuffle_seed=None, rounds=9)
        graph = Graph.from_edges(3, [0, 1, 2], [1, 2, 1])
        run = simulate(
            algorithms.local_online(objective, step=0.5), graph, stream, rounds=9, repeats=2, dtype="float64"
        )
        w, expected = np.zeros((3, 3)), []
        for t in range(9):
            there = [i for i in range(3) if t < len(rows[i])]
            samples = {i: (x[rows[i][t]].astype(np.float32).astype(float), labels[rows[i][t]]) for i in there}
            expected.append(np.mean([y * (w[i] @ v) > 0 for i, (v, y) in samples.items()]) if there else np.nan)
            for i, (v, y) in samples.items():
                w[i] += 0.5 * y * v / (1 + np.exp(y * (w[i] @ v)))
        assert np.isnan(expected[-1])
        assert 0 < expected[3] == expected[4] == 1
        np.testing.assert_allclose(run.per_round["accuracy"], [expected] * 2, rtol=1e-12)


class TestRefusals:
    """Before any round, with a sentence that names the value and the remedy."""

    @pytest.mark.parametrize(
        ("settings", "error", "says"),
        [
            ({"rounds": 0}, ConfigError, "rounds = 0"),
            ({"rounds": 1.5}, ConfigError, "rounds = 1.5"),
            ({"rounds": "7"}, ConfigError, "rounds = '7'"),
            ({"repeats": 0}, ConfigError, "repeats = 0"),
            ({"dtype": "float16"}, ConfigError, "float32"),
            ({"record_every": 0}, ConfigError, "record_every = 0"),
            ({"record_every": -2}, ConfigError, "record_every = -2"),
            ({"node_loss": AGENTS}, ConfigError, "0 to 4"),
            ({"rounds": ROUNDS + 1}, DataError, "8 were asked for"),
            ({"figures": {"loss": specimens.loss}}, ConfigError, "figure named 'loss' is asked for"),
            ({"figures": {"bits": specimens.loss}}, ConfigError, "'bits'.*give it another name"),
            ({"figures": {"node_loss": specimens.loss}, "node_loss": 0}, ConfigError, "figure named 'node_loss'"),
            ({"record": {"consensus": np.asarray}}, ConfigError, "record named 'consensus' is asked for"),
        ],
    )
    def test_numbers(self, settings, error, says):
        with pytest.raises(error, match=says):
            simulate(averaging(), digraph(), specimens.targets(AGENTS, ROUNDS), **{"rounds": ROUNDS, **settings})

    def test_a_stream_for_other_agents(self):
        with pytest.raises(DataError, match="4 agents, .* 5"):
            simulate(averaging(), digraph(), specimens.targets(4, 3), rounds=3)

    def test_a_stream_for_other_agents_in_a_later_repeat(self):
        with pytest.raises(DataError, match="feeds 6 agents"):
            simulate(averaging(), digraph(), lambda s: specimens.targets(5 + s, 3), rounds=3, repeats=2)

    @pytest.mark.parametrize("channel", [Channel(loss=0.1), Channel(delay=Delay(0.2, 3))], ids=["loss", "delay"])
    def test_a_channel_that_the_algorithm_cannot_bear(self, channel):
        with pytest.raises(RequirementError, match="requires reliable links"):
            simulate(averaging(), digraph(), specimens.targets(AGENTS, 3), rounds=3, channel=channel)

    def test_a_graph_that_the_algorithm_cannot_bear(self):
        chain = Graph.from_edges(AGENTS, [0, 1], [1, 2])
        with pytest.raises(RequirementError, match="strongly_connected"):
            simulate(averaging(), chain, specimens.targets(AGENTS, 3), rounds=3)

    def test_links_that_are_missing(self):
        topology = Topology({"peer": 5}, {"friends": digraph()})
        with pytest.raises(ConfigError, match="needs links 'peers'"):
            simulate(averaging(), topology, specimens.targets(AGENTS, 3), rounds=3)

    @pytest.mark.parametrize("swap", ["sources forgotten", "turned round"])
    def test_links_between_roles_of_other_sizes(self, swap):
        """Even where the numbers happen to fit: slots would mean other agents."""
        square = {"up": (np.arange(3), np.arange(3)), "down": (np.arange(3), np.arange(3))}
        sources = None if swap == "sources forgotten" else 3
        topology = Topology(
            {"client": 3, "server": 3},
            {
                **{name: Graph.from_edges(3, [0, 1], [1, 2], sources=sources) for name in square},
                "among": graphs.ring(3),
            },
        )
        if swap == "turned round":
            wide = specimens.served(5, 1)
            topology = Topology(wide.roles, {**wide.links, "up": wide.links["down"], "down": wide.links["up"]})
        with pytest.raises(ConfigError, match="expected agents="):
            simulate(specimens.federated(), topology, specimens.targets(topology.roles["client"], 1), rounds=1)

    def test_a_client_for_whom_nobody_speaks(self):
        topology = specimens.served(4, 2)
        down = Graph.from_edges(4, [0, 1, 0], [0, 1, 2], sources=2)
        topology = Topology(topology.roles, {**topology.links, "down": down})
        with pytest.raises(ConfigError, match="client 3 hears no server"):
            simulate(specimens.federated(), topology, specimens.targets(4, 1), rounds=1)


class TestContract:
    """An algorithm that breaks its promises is told which one."""

    @staticmethod
    def run(phase, graph=None):
        algorithm = specimens.algorithm(
            [phase], lambda k, params, v: specimens.Federated(params, jnp.int32(0)), lambda s: specimens.padded(s.x)
        )
        return simulate(algorithm, graph or digraph(), specimens.targets(AGENTS, 1), rounds=1)

    def test_a_state_of_another_type_after_absorb(self):
        phase = Phase("peers", specimens.send_x, unprotected, lambda k, s, i, v: s._replace(count=s.x[0]))
        with pytest.raises(ContractError, match="state.count .*int32"):
            self.run(phase)

    def test_a_state_of_another_shape_after_compute(self):
        phase = Phase("peers", lambda k, s, b, v: (s._replace(x=s.x[:1]), s.x), unprotected, lambda k, s, i, v: s)
        with pytest.raises(ContractError, match=r"state.x came in as float32\[9\]"):
            self.run(phase)

    def test_an_integer_that_is_split(self):
        from tacit.core.contract import push

        phase = Phase(
            "peers", specimens.send_x, unprotected, lambda k, s, i, v: s, lambda s, r, v: (s, push(r, public=v.round))
        )
        with pytest.raises(ContractError, match="pushes a leaf of type int32"):
            self.run(phase)

    @pytest.mark.parametrize("answers", ["nothing", "among"])
    def test_an_answer_to_nothing(self, answers):
        base = specimens.federated()
        down, up, among = base.phases
        broken = base._replace(phases=(down, up._replace(answers=answers), among))
        with pytest.raises(ContractError, match="an earlier phase"):
            simulate(broken, specimens.served(4, 2), specimens.targets(4, 1), rounds=1)


def test_progress_is_shown_on_request_and_silent_otherwise(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as if on a terminal
    stream = specimens.targets(AGENTS, 3)
    simulate(averaging(), digraph(), stream, rounds=3, progress=False)
    assert capsys.readouterr() == ("", "")
    simulate(averaging(), digraph(), stream, rounds=3, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "decentralised_asymmetric" in shown.err


def test_repeats_with_batches_of_other_shapes_are_refused():
    def stream(seed):
        return specimens.targets(AGENTS, 4) if seed == 0 else streams.linear_drift(AGENTS, 3, seed=1)

    with pytest.raises(DataError, match="repeat 1 .*same shapes"):
        simulate(specimens.everything(1), digraph(), stream, rounds=2, repeats=2)


def test_equal_programs_of_arguments_that_differ_are_told_apart() -> None:
    """An argument of which nothing is made is not in a program's text, but it is handed over all the same."""
    from tacit.runtime.programs import compiled

    def first(x: object, unused: object) -> object:
        return x + 1  # type: ignore[operator]

    for length in (2, 3):
        unused = np.zeros(length)
        assert compiled(first, np.zeros(1), unused)(np.zeros(1), unused) == 1


@pytest.mark.parametrize("length", [1, 4000])
def test_programs_that_differ_in_the_last_bit_of_a_constant_are_told_apart(length: int) -> None:
    """Noise of another scale is another program, however alike the two are."""
    from tacit.runtime.programs import compiled

    scale = np.linspace(0.1, 0.2, length, dtype=np.float32)
    other = scale.copy()
    other[-1] = np.nextafter(other[-1], np.float32(1))
    for constant in (scale, other, jnp.asarray(scale), jnp.asarray(other)):

        def scanned(x: jax.Array, held: object = constant) -> jax.Array:
            return jax.lax.scan(lambda sum_, _: (sum_ + x * held, None), x * 0, None, length=2)[0]

        one = np.ones(length, np.float32)
        np.testing.assert_array_equal(compiled(scanned, one)(one), 2 * np.asarray(constant))
