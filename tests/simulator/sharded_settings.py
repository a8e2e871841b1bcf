"""Settings of a simulation on one device and on three: `python -m tests.simulator.sharded_settings`."""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np

import tacit
from tacit.graphs import LinkDrop
from tests.simulator.sharded import difference

OBJECTIVE = tacit.objectives.logistic(l2=1e-3)
AGENTS, DIM = 10, 4
DIFFUSION, PUSH_SUM = tacit.algorithms.adapt_then_combine, tacit.algorithms.online_push_sum


def graph(seed: int) -> tacit.graphs.Graph:
    return tacit.graphs.random_digraph(AGENTS, 4, seed=seed)


def stream(seed: int) -> tacit.streams.Stream:
    return tacit.streams.logistic_drift(AGENTS, DIM, rounds=12, seed=seed)


def layers(params: dict[str, Any], x: jax.Array) -> jax.Array:
    """A hidden layer, behind a convolution where the parameters have a kernel."""
    if "kernel" in params:
        form = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, params["kernel"], (1, 1), "SAME", dimension_numbers=form))
    hidden = jax.nn.tanh(x.reshape(x.shape[0], -1) @ params["in"])
    return hidden @ params["out"]


def network(places: tuple[int, ...], **first: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(1)
    params = {name: rng.normal(size=shape) / np.sqrt(shape[-2]) for name, shape in sorted(first.items())}
    return tacit.objectives.from_model(layers, "cross_entropy", params, shape=places)


PERCEPTRON = network((16,), **{"in": (16, 5), "out": (5, 3)})
CONVOLUTIONS = network((4, 4, 1), **{"kernel": (3, 3, 1, 2), "in": (32, 5), "out": (5, 3)})
IMAGES = tacit.streams.from_arrays(
    np.random.default_rng(2).normal(size=(120, 16)), np.arange(120) % 3, np.arange(120) % AGENTS,
    task="multiclass", batch=4, exhausted="cycle",
)  # fmt: skip
RING, DATA = tacit.graphs.small_world(AGENTS, 4, 0.2, seed=0), stream(0)
ARRIVING = tacit.streams.from_arrays(
    np.random.default_rng(0).normal(size=(55, DIM)), np.arange(55) % 2, np.minimum(np.arange(55) // 5, 9),
    exhausted="mask", rounds=12,
)  # fmt: skip
CASES = {
    "graphs and data of each repeat": (PUSH_SUM(OBJECTIVE), graph, stream, {"repeats": 3}),
    "node, figures, starts": (
        PUSH_SUM(OBJECTIVE), graph(0), stream,
        {
            "repeats": 2, "node_loss": 7, "figures": {"first": lambda params, batch: params[0]},
            "start": lambda k: np.full(DIM, 0.1 * k), "record": {"sum": lambda models: models.sum()},
        },
    ),
    "rounds without samples": (PUSH_SUM(OBJECTIVE), graph(0), ARRIVING, {}),
    "everybody hears everybody": (PUSH_SUM(OBJECTIVE), tacit.graphs.complete(AGENTS), DATA, {"repeats": 2}),
    "links that fail": (DIFFUSION(OBJECTIVE), RING.with_dynamics(LinkDrop(0.3, symmetric=True)), DATA, {}),
    "a network": (PUSH_SUM(PERCEPTRON), graph(0), IMAGES, {"repeats": 2}),
    "convolutions": (DIFFUSION(CONVOLUTIONS), RING, IMAGES, {"node_loss": 3}),
    "convolutions, on a server": (tacit.algorithms.fedavg(CONVOLUTIONS), tacit.graphs.star_roles(AGENTS), IMAGES, {}),
    "averaged": (tacit.algorithms.averaged(PUSH_SUM(OBJECTIVE), "tail"), graph(0), DATA, {}),
    "robust": (tacit.algorithms.robust(DIFFUSION(OBJECTIVE), "clipped", liars=1), tacit.graphs.k_regular(AGENTS, 4, seed=0), DATA, {}),
}  # fmt: skip


def main() -> None:
    for name, (method, links, data, settings) in CASES.items():
        common = {"rounds": 12, "dtype": "float64", "record_every": 4, "progress": False, **settings}
        one, many = (tacit.simulate(method, links, data, devices=devices, **common) for devices in (1, 3))
        same = str(one.privacy.summary()) == str(many.privacy.summary())
        print(json.dumps({"name": name, "devices": 3, "difference": difference(one, many), "privacy": same}))


if __name__ == "__main__":
    main()
