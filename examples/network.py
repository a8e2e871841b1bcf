"""A convolutional network over a graph: images of digits, which six agents hold by unequal shares of the classes.

    python examples/network.py               # a quarter of a minute

Each agent alone with Adam; together, each averaging with its neighbours after its step; and the same with momentum.
Needs the extras `networks` and `data`.
"""

from __future__ import annotations

import optax
from flax import nnx
from sklearn.datasets import load_digits

import tacit

AGENTS, ROUNDS, SIDE, BATCH = 6, 200, 8, 32


class Net(nnx.Module):
    """A convolution, dropout, and a linear layer."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(1, 8, (3, 3), rngs=rngs)
        self.drop = nnx.Dropout(0.2, rngs=rngs)
        self.out = nnx.Linear(8 * (SIDE // 2) ** 2, 10, rngs=rngs)

    def __call__(self, x):  # type: ignore[no-untyped-def]
        x = nnx.max_pool(nnx.relu(self.conv(x)), (2, 2), (2, 2))
        return self.out(self.drop(x.reshape(x.shape[0], -1)))


def main() -> None:
    digits = load_digits()
    x, y = (digits.data / 16).astype("float32"), digits.target
    rows, held = slice(0, 1500), slice(1500, None)
    parts = tacit.streams.partition.dirichlet(y[rows], AGENTS, alpha=0.3, seed=0)
    stream = tacit.streams.from_arrays(x[rows], y[rows], parts, task="multiclass", batch=BATCH, exhausted="cycle")
    graph = tacit.graphs.ring(AGENTS)

    objective = tacit.objectives.from_model(Net(nnx.Rngs(0)), "cross_entropy", shape=(SIDE, SIDE, 1))
    step = optax.adam(5e-3)
    methods = {
        "alone": tacit.algorithms.local_online(objective, step),
        "together": tacit.algorithms.adapt_then_combine(objective, step),
        "together, momentum": tacit.algorithms.adapt_then_combine(objective, optax.sgd(0.05, momentum=0.9)),
    }
    for name, method in methods.items():
        run = tacit.simulate(method, graph, stream, rounds=ROUNDS, seed=0)
        found = run.evaluate(x[held], y[held])
        print(f"{name}: accuracy on rows that nobody learnt from {found.scores['each']['accuracy'][0]:.3f}; {run}")


if __name__ == "__main__":
    main()
