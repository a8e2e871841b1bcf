"""What init, compute, emit and absorb are told of the world."""

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Phase, unprotected
from tacit.graphs import LinkDrop, OptOut
from tacit.simulator import layout as layout_module
from tacit.simulator import simulate
from tests.simulator import specimens


def watched(graph, dtype="float64", **others):
    """Noted into the model: (round, present, data size) in compute and absorb, and views at round 0."""

    def init(key, params, views):
        view = views["peers"]
        first = jnp.stack(
            [view.round, view.into.degree, view.out.degree, view.data_size, view.present], dtype=params.dtype
        )
        weight = jnp.stack([jnp.sum(view.into.weight), jnp.sum(view.out.weight)])
        return {"first": first, "weight": weight, "now": jnp.zeros(5, params.dtype)}

    def compute(key, state, batch, view):
        return state, view.present.astype(state["now"].dtype)

    def absorb(key, state, inbox, view):
        parts = [view.round, view.present, view.into.degree, view.out.degree, inbox.sum().private]
        return {**state, "now": jnp.stack(parts, dtype=state["now"].dtype)}

    algorithm = specimens.algorithm(
        [Phase("peers", compute, unprotected, absorb)],
        init,
        lambda s: jnp.concatenate([s["first"], s["weight"], s["now"]]),
        objective=specimens.objective()._replace(loss=lambda params, batch: params[0]),
    )
    run = simulate(algorithm, graph, specimens.targets(graph.agents, 4), rounds=4, dtype=dtype, **others)
    return run.models[0]


def test_round_zero_of_a_fixed_graph_shows_its_weights():
    graph = specimens.random_graph(5, 2, weights="sender")
    W = graph.matrix().toarray()
    seen = watched(graph)
    np.testing.assert_allclose(seen[:, 0], 0)
    np.testing.assert_allclose(seen[:, 1:3], np.column_stack([graph.in_degree, graph.out_degree]))
    np.testing.assert_allclose(seen[:, 3:5], [[3, 1]] * 5)
    np.testing.assert_allclose(seen[:, 5:7], np.column_stack([W.sum(axis=1), W.sum(axis=0)]))


def test_round_zero_of_a_varying_graph_shows_every_link_and_no_weights():
    graph = specimens.random_graph(5, 2).with_dynamics(LinkDrop(0.9))
    seen = watched(graph)
    np.testing.assert_allclose(seen[:, 1:3], np.column_stack([graph.in_degree, graph.out_degree]))
    np.testing.assert_allclose(seen[:, 5:7], 0)


def test_the_absent_are_told_so_and_have_no_links(monkeypatch):
    monkeypatch.setattr(layout_module, "BUCKET_OVERHEAD", 0)
    graph = specimens.random_graph(6, 2).with_dynamics(OptOut(0.5))
    seen = watched(graph)[:, 7:]
    key = runtime.links_key(jax.random.key(0), 0, 4)
    with jax.enable_x64(True):
        live, present = graph.dynamics.live(4, key, graph.senders, graph.receivers, 6)
    live, present = np.asarray(live), np.asarray(present)
    assert 0 < present.sum() < 6
    into = np.bincount(graph.receivers[live], minlength=6)
    out = np.bincount(graph.senders[live], minlength=6)
    # the last one: each hears itself, present or not, and its neighbours, who are present if they are heard
    expected = np.column_stack([np.full(6, 4), present, into, out, into + present])
    np.testing.assert_allclose(seen, expected)
