"""What a peer sees of the graph, round by round, is what the simulator draws."""

import jax
import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.deploy.rehearsal import plans

AGENTS, SEED = 4, 2
GRAPHS = {
    "fixed": tacit.graphs.complete(AGENTS),
    "periodic": tacit.graphs.one_peer_exponential(AGENTS),
    "random": tacit.graphs.complete(AGENTS).with_dynamics(tacit.graphs.LinkDrop(0.4)),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_the_views_of_each_round_are_those_of_its_graph(kind):
    algorithm = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.5)
    stream = tacit.streams.logistic_drift(agents=AGENTS, dim=2, seed=1)
    plan = plans(algorithm, GRAPHS[kind], stream, job="00" * 32, seed=SEED, only="peer-1")[0]
    (name,) = runtime.link_ends(algorithm)
    graph = runtime.prepared_topology(algorithm, GRAPHS[kind]).links[name]
    seen = []
    for t in (1, 2, 3, 4, 2):
        drawn = graph.at(t, runtime.links_key(jax.random.key(SEED), 0, t), np.dtype("float32"))
        weight = {
            int(r): float(w) * bool(live)
            for s, r, w, live in zip(graph.senders, graph.receivers, drawn.edge_weight, drawn.live, strict=True)
            if s == 1
        }
        view = plan.views(t)[name]
        found = zip(view.out.agent[1:], view.out.weight[1:], view.out.live[1:], strict=True)
        assert {int(a): float(w) * bool(live) for a, w, live in found if a >= 0} == pytest.approx(weight)
        assert (int(view.round), int(view.agent)) == (t, 1)
        seen.append(tuple(weight.values()))
    assert (len(set(seen)) == 1) == (kind == "fixed")  # otherwise nothing was compared
