"""A loss of your own: a small neural network, learnt without a server.

    python examples/custom_loss.py           # some ten seconds

Eight agents see points of two rings, and each agent only those in its own direction from the centre. No straight line
parts the rings, so that the loss is that of a network with one hidden layer, written here in a few lines: any function
loss(params, batch) of any pytree will do. It prints how often agents are right about points of the whole plane: first
alone, where each knows only its own corner, then with push-sum over one-sided links. The loss is not convex, so that
there is no regret against a best model to report.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import tacit

AGENTS, ROUNDS, HIDDEN = 8, 600, 16


def rings(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of two noisy rings around the origin, and which ring each is of: -1 or 1."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1, 1], rows)
    angle, radius = rng.uniform(0, 2 * np.pi, rows), 1.5 + 0.5 * y + rng.normal(0, 0.15, rows)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]).astype(np.float32), y


def network(params: dict[str, jax.Array], x: jax.typing.ArrayLike) -> jax.Array:
    """Return one number per point: above 0 says the outer ring."""
    hidden = jnp.tanh(jnp.asarray(x) @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss(params: dict[str, jax.Array], batch: tacit.streams.Batch) -> jax.Array:
    """Return the mean logistic loss of the batch."""
    return jnp.mean(jax.nn.softplus(-batch.y * network(params, batch.x)))


def accuracy(params: dict[str, jax.Array], x: np.ndarray, y: np.ndarray) -> float:
    return float(jnp.mean(jnp.sign(network(params, x)) == y))


def main() -> None:
    rng = np.random.default_rng(0)
    # All agents begin with the same weights; they are random, since a network of zeros would not learn.
    first = {
        "w1": rng.normal(0, 1, (2, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": rng.normal(0, 0.3, HIDDEN),
        "b2": np.zeros(()),
    }
    objective = tacit.objectives.from_loss(loss, jax.tree.map(np.float32, first), "two rings", predict=network)

    x, y = rings(4_000, seed=1)
    owner = ((np.arctan2(x[:, 1], x[:, 0]) + np.pi) / (2 * np.pi) * AGENTS).astype(int) % AGENTS
    stream = tacit.streams.from_arrays(x, y, assignment=owner, batch=16, exhausted="cycle")
    graph = tacit.graphs.random_digraph(AGENTS, out_degree=3, seed=0)

    test_x, test_y = rings(2_000, seed=2)
    for constructor in (tacit.algorithms.local_online, tacit.algorithms.online_push_sum):
        run = tacit.simulate(constructor(objective, step=0.5), graph, stream, rounds=ROUNDS, seed=0)
        agents = (jax.tree.map(lambda leaf, k=k: leaf[0, k], run.models) for k in range(AGENTS))
        right = [accuracy(params, test_x, test_y) for params in agents]
        print(f"{run.algorithm}: accuracy on the whole plane {np.mean(right):.3f}, of the worst agent {min(right):.3f}")


if __name__ == "__main__":
    main()
