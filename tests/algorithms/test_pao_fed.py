"""PAO-Fed and its baselines against their equations, on the very rounds that the simulator draws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.algorithms import online_fed, online_fedsgd, pao_fed, partial_diffusion, pso_fed, sign_sgd
from tacit.algorithms.asynchronous._windows import Windows, flat, shaped
from tacit.core.errors import ConfigError
from tacit.graphs import Channel, Delay, Topology, star_roles
from tacit.simulator.engine import Engine
from tacit.simulator.layout import lay_out
from tests.algorithms.pao_oracle import PaoOracle
from tests.daily import some

CLIENTS, INPUTS, D, ROUNDS, STEP, SEED = 7, 3, 10, 60, 0.3, 5
OBJECTIVE = tacit.objectives.fourier(count=D, bandwidth=2.0, seed=1)
CHANNEL = Channel(loss=0.1, delay=Delay(p=0.6, longest=8, step=2), links=("uplink",))
CHANCE = np.linspace(0.3, 1, CLIENTS)


@pytest.fixture(scope="module")
def stream():
    return tacit.streams.autoregressive(CLIENTS, samples=(30, 60), rounds=ROUNDS, seed=2)


@pytest.fixture(scope="module")
def network(stream) -> Topology:
    return star_roles(CLIENTS).available("client", CHANCE, stream.arrivals)


@pytest.fixture(scope="module")
def tables(stream, network):
    """What the oracle is given: features, labels, and what the run's own keys say of presence and delays."""
    batch = stream.chunk(0, ROUNDS)
    with jax.enable_x64(True):
        z = np.asarray(tacit.objectives.FourierFeatures(D, 2.0, 1)(jnp.asarray(batch.x, jnp.float64)))
    root = jax.random.key(SEED)
    there, delay = [], []
    for t in range(1, ROUNDS + 1):
        there.append(network.availability["client"].present(t, runtime.presence_key(root, "client", t)))
        lost, late = CHANNEL.draw(runtime.channel_key(root, 1, t), CLIENTS)
        delay.append(np.where(lost, -1, late))
    return z, batch.y.astype(np.float64), batch.weight > 0, np.stack(there), np.stack(delay)


def simulated(algorithm, network, stream, channel=CHANNEL, rounds=ROUNDS):
    """A run, and the server's model after each round."""
    run = tacit.simulate(
        algorithm,
        network,
        stream,
        rounds=rounds,
        seed=SEED,
        channel=channel,
        dtype="float64",
        record_every=1,
        record={"w": lambda models: flat(jax.tree.map(lambda m: m[0], models))},
        progress=False,
    )
    return run, run.recorded["w"][0]


@pytest.fixture(scope="module")
def usual(network, stream):
    """Runs that several tests look at."""
    makes = {
        "U1": pao_fed(OBJECTIVE, STEP, share=3, variant="U1"),
        "online_fedsgd": online_fedsgd(OBJECTIVE, STEP),
        "sign_sgd": sign_sgd(OBJECTIVE, 0.05),
    }
    return {name: simulated(make, network, stream) for name, make in makes.items()}


FORMS = {
    "C0": ({"variant": "C0"}, {"coordinated": True, "same_window": True}),
    "U1": ({"variant": "U1"}, {"coordinated": False}),
    "C2": ({"variant": "C2"}, {"coordinated": True, "decay": 0.2}),
    "newest only": ({"newest_only": True, "decay": 0.5}, {"coordinated": False, "newest_only": True, "decay": 0.5}),
    "whole downloads": ({"variant": "C1", "download": "all"}, {"full_download": True}),
    "not alone": ({"variant": "U2", "autonomous": False}, {"coordinated": False, "decay": 0.2, "autonomous": False}),
}


@pytest.mark.parametrize("form", some(FORMS, "C2, and U2 of those that are not alone", daily=["C2", "not alone"]))
def test_it_does_what_the_equations_say(form, network, stream, tables, usual):
    settings, said = FORMS[form]
    expected = PaoOracle(step=STEP, share=3, longest=8, **said).run(*tables)[1:]
    _, models = (
        usual["U1"] if form == "U1" else simulated(pao_fed(OBJECTIVE, STEP, share=3, **settings), network, stream)
    )
    assert np.abs(expected[-1]).max() > 0.05
    np.testing.assert_allclose(models, expected, rtol=1e-5, atol=1e-6)


def test_the_rounds_that_were_drawn_hold_every_hardship(tables):
    """Without these the comparison would say little: two of one client at once, and an older one after a newer."""
    _, _, fresh, there, delay = tables
    sent = [[(t, t + delay[t, k]) for t in range(ROUNDS) if fresh[t, k] & there[t, k] & (delay[t, k] >= 0)]
            for k in range(CLIENTS)]  # fmt: skip
    assert any(len({due for _, due in mine}) < len(mine) for mine in sent), "two arrive together"
    assert any(a < b and due_a > due_b for mine in sent for a, due_a in mine for b, due_b in mine), "out of order"
    assert (~fresh).any()
    assert (fresh & ~there).any()
    assert {-1, 8} <= set(delay.ravel())


def test_nobody_is_there_without_data(tables):
    _, _, fresh, there, _ = tables
    assert not (there & ~fresh).any()


def test_compared_methods_live_through_the_same(usual):
    first, *others = (run.traffic for run, _ in usual.values())
    for other in others:
        for links in ("uplink", "downlink"):
            np.testing.assert_array_equal(other[links].messages, first[links].messages)


def test_only_the_window_travels(usual):
    sizes = {"U1": (3 * 64, 3 * 64), "online_fedsgd": (D * 64, D * 64)}
    sizes["sign_sgd"] = (16, D * 64)  # ten signs in two bytes
    for name, (up, down) in sizes.items():
        traffic = usual[name][0].traffic
        np.testing.assert_array_equal(traffic["uplink"].bits, up * traffic["uplink"].messages)
        np.testing.assert_array_equal(traffic["downlink"].bits, down * traffic["downlink"].messages)


def test_what_is_under_way_takes_room_for_windows_only(network, stream):
    algorithm = pao_fed(OBJECTIVE, STEP, share=2)
    layout = lay_out(runtime.prepared_topology(algorithm, network), runtime.link_ends(algorithm), 1)
    channel = Channel(delay=Delay(0.2, 10), links=("uplink",))
    spec = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), stream.batch_spec())
    params = OBJECTIVE.initial(spec)
    engine = Engine(algorithm, layout, channel, jnp.dtype("float32"), params, spec)
    down, up = engine.start(engine.network(0, stream.data_size), params).in_flight
    assert down is None
    assert {name: rows.size for name, rows in up.rows.items()} == {"float32": 11 * CLIENTS * 2}


def test_online_fedsgd_is_the_mean_of_what_arrives(usual, tables):
    z, y, fresh, there, delay = tables
    takes = fresh & there
    w, post, expected = np.zeros(D), {}, []
    for n in range(ROUNDS):
        for k in range(CLIENTS):
            post[n, k] = w + STEP * z[n, k] * (y[n, k] - z[n, k] @ w)
        arrived = [post[s, k] for s in range(n + 1) for k in range(CLIENTS) if takes[s, k] and delay[s, k] == n - s]
        w = np.mean(arrived, axis=0) if arrived else w
        expected.append(w)
    np.testing.assert_allclose(usual["online_fedsgd"][1], expected, rtol=1e-5, atol=1e-6)


def test_sign_sgd_goes_where_the_majority_points(usual, tables):
    z, y, fresh, there, delay = tables
    w, post, expected = np.zeros(D), {}, []
    for n in range(ROUNDS):
        for k in range(CLIENTS):
            post[n, k] = np.where(-z[n, k] * (y[n, k] - z[n, k] @ w) >= 0, 1, -1)
        votes = [post[s, k] for s in range(n + 1) for k in range(CLIENTS)
                 if fresh[s, k] & there[s, k] and delay[s, k] == n - s]  # fmt: skip
        w = w - 0.05 * np.sign(np.sum(votes, axis=0)) if votes else w
        expected.append(w)
    np.testing.assert_allclose(usual["sign_sgd"][1], expected, atol=1e-6)


def test_signs_are_those_of_the_whole_gradient_under_a_clip_too(network, stream):
    """A regulariser that outweighs every clipped gradient: all votes point to 0, from whichever side."""
    objective = tacit.objectives.fourier(count=D, bandwidth=2.0, seed=1, l2=1.0)
    clipped = tacit.contract.unprotected._replace(clip=tacit.contract.Clip(1e-3, "linf"))
    start = np.where(np.arange(D) % 2, 1.0, -1.0)
    run = tacit.simulate(sign_sgd(objective, 0.05, clipped), star_roles(CLIENTS), stream, rounds=4, start=start)
    np.testing.assert_allclose(run.models[0], np.broadcast_to(0.8 * start, run.models[0].shape), atol=1e-6)


@pytest.mark.covered_by("a fraction is called, below, and the equations")
def test_calling_everybody_is_the_method_without_calls(network, stream, usual):
    every = simulated(online_fed(OBJECTIVE, STEP, fraction=1.0), network, stream)[1]
    np.testing.assert_array_equal(every, usual["online_fedsgd"][1])
    own = simulated(pao_fed(OBJECTIVE, STEP, share=3), network, stream, channel=Channel())[1]
    all_called = simulated(pso_fed(OBJECTIVE, STEP, fraction=1.0, share=3), network, stream, channel=Channel())[1]
    np.testing.assert_allclose(all_called, own, rtol=1e-9)  # without delays there is one age


def test_a_fraction_of_those_who_are_there_is_called(stream):
    """Of 7 x 2,000 chances at 0.3: five standard deviations, a false alarm in 1.7 million."""
    endless = tacit.streams.linear_drift(agents=CLIENTS, dim=INPUTS, seed=0)
    run = tacit.simulate(online_fed(OBJECTIVE, STEP, fraction=0.3), star_roles(CLIENTS), endless, rounds=2000)
    called = run.traffic["downlink"].messages.sum()
    assert abs(called - 4200) < 5 * np.sqrt(14_000 * 0.21)
    np.testing.assert_array_equal(run.traffic["uplink"].messages, run.traffic["downlink"].messages)


# -- windows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "size"), [(1, 5), (3, 10), (4, 12), (5, 5)])
def test_windows_go_round_and_everybody_shares_everything_equally_often(share, size):
    windows = Windows(share)
    seen = np.zeros(size)
    for t in range(1, size + 1):
        places = np.asarray(windows.places(jnp.int32(2), jnp.int32(t), size))
        np.testing.assert_array_equal(places, [(share * (t + 2) + i) % size for i in range(share)])
        np.add.at(seen, places, 1)
    np.testing.assert_array_equal(seen, share)


def test_random_windows_are_of_the_seed_and_common_where_they_are_coordinated():
    def places(windows: Windows, agent: int) -> np.ndarray:
        return np.stack([windows.places(jnp.int32(agent), jnp.int32(t), 20) for t in range(1, 60)])

    own, common = Windows(2, order="random"), Windows(2, coordinated=True, order="random")
    assert not np.array_equal(places(own, 0), places(own, 1))
    np.testing.assert_array_equal(places(common, 0), places(common, 1))
    assert not np.array_equal(places(own, 0), places(own._replace(seed=1), 0))
    assert set(places(own, 0)[:, 0]) == set(range(0, 20, 2))


def test_a_model_of_several_arrays_is_one_vector():
    params = {"a": jnp.arange(6.0).reshape(2, 3), "b": jnp.array(7.0)}
    back = shaped(flat(params), params)
    jax.tree.map(np.testing.assert_array_equal, back, params)
    assert flat(params).shape == (7,)


def test_settings_that_mean_nothing_are_refused(stream):
    for settings, words in (
        ({"share": 0}, "share = 0"),
        ({"variant": "C3"}, "C0, C1, C2, U0, U1, U2"),
        ({"variant": "C0", "decay": 0.5}, "says 1.0 of decay"),
        ({"decay": 1.5}, "decay = 1.5"),
        ({"answer": "last"}, "answer = 'last'"),
        ({"download": "half"}, "download = 'half'"),
        ({"order": "sideways"}, "order = 'sideways'"),
        ({"unstable": "hope"}, "unstable = 'hope'"),
    ):
        with pytest.raises(ConfigError, match=words):
            pao_fed(OBJECTIVE, STEP, **settings)
    for make, words in ((online_fed, "fraction = 0"), (pso_fed, "fraction = 0")):
        with pytest.raises(ConfigError, match=words):
            make(OBJECTIVE, STEP, fraction=0.0)
    with pytest.raises(ConfigError, match="the model has 10 numbers"):
        tacit.simulate(pao_fed(OBJECTIVE, STEP, share=11), star_roles(CLIENTS), stream, rounds=2)


# -- steps that cannot be kept up --------------------------------------------------------------------------------------


def test_a_step_above_the_bound_is_refused_before_the_run_and_diverges_if_forced(network, stream, tables):
    z, _, fresh, _, _ = tables
    curvature = max(np.linalg.eigvalsh(np.einsum("td,te->de", a[s], a[s]) / s.sum())[-1]
                    for a, s in zip(z.transpose(1, 0, 2), fresh.T, strict=True))  # fmt: skip
    with pytest.raises(ConfigError, match=f"above {1 / curvature:.3g}.*Theorem 4.2") as refusal:
        simulated(pao_fed(OBJECTIVE, 3.0 / curvature, share=3), network, stream)
    assert "unstable='allow'" in str(refusal.value)
    forced = pao_fed(OBJECTIVE, 3.0 / curvature, share=3, unstable="allow")
    assert np.abs(simulated(forced, network, stream)[1]).max() > 1e3


# -- privacy -----------------------------------------------------------------------------------------------------------


def test_a_private_run_is_charged_once_per_record_and_rests_where_there_are_no_data(network, stream):
    noise = tacit.privacy.gaussian(noise_multiplier=2.0, clip=0.5)
    private = pao_fed(OBJECTIVE, STEP, noise, share=3)
    run, models = simulated(private, network, stream)
    assert run.privacy.private
    assert run.privacy.guarantee.rho == pytest.approx(1 / (2 * 2.0**2))  # that of one release: a record is read once
    assert np.all(np.isfinite(models))
    # A client whose data never come keeps the model it began with, noise or not.
    silent = tacit.streams.from_function(
        lambda start, stop: jax.tree.map(np.zeros_like, stream.chunk(start, stop)),
        agents=CLIENTS, rounds=ROUNDS,
    )  # fmt: skip
    _, still = simulated(private, star_roles(CLIENTS), silent)
    np.testing.assert_array_equal(still, 0)


# -- without a server --------------------------------------------------------------------------------------------------


def test_sharing_everything_among_peers_is_adapt_then_combine():
    data = tacit.streams.linear_drift(agents=6, dim=4, seed=1)
    graph = tacit.graphs.small_world(6, 2, 0.3, seed=0)
    goal = tacit.objectives.squared()
    runs = [
        tacit.simulate(make, graph, data, rounds=20, dtype="float64")
        for make in (partial_diffusion(goal, 0.2, share=4), tacit.algorithms.adapt_then_combine(goal, 0.2))
    ]
    np.testing.assert_allclose(runs[0].models, runs[1].models, rtol=1e-9)


def test_peers_that_share_windows_agree_in_the_end_whoever_is_away_and_late():
    data = tacit.streams.linear_drift(agents=6, dim=4, noise=0.0, seed=1)
    graph = tacit.graphs.as_topology(tacit.graphs.ring(6)).available("peer", 0.6)
    late = Channel(loss=0.1, delay=Delay(0.3, 3))
    run = tacit.simulate(
        partial_diffusion(tacit.objectives.squared(), 0.5, share=1, decay=0.5), graph, data, rounds=400, channel=late
    )
    truth = data.truth(0, 1)[0]
    assert np.abs(run.models[0] - truth).max() < 0.02
    assert run.per_round["bits"].sum() == 32 * run.per_round["messages"].sum()
