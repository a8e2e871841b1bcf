"""Convolutional networks for images of 28 x 28 that files can name, as Flax modules.

    tacit --with examples/organs.py run examples/organs.toml --out runs/organs
    tacit --with examples/organs.py swarm run examples/organs-swarm.toml

Needs the extra `networks`, and for its data the second distribution (reproduction/).
"""

from __future__ import annotations

from flax import nnx

import tacit
from tacit.core.contract import Objective


class OrganNet(nnx.Module):
    """Two convolutions with pooling and a linear layer; nothing in it mixes records."""

    def __init__(self, side: int, channels: int, classes: int, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(1, channels, (3, 3), rngs=rngs)
        self.second = nnx.Conv(channels, 2 * channels, (3, 3), rngs=rngs)
        self.out = nnx.Linear(2 * channels * (side // 4) ** 2, classes, rngs=rngs)

    def __call__(self, x):  # type: ignore[no-untyped-def]
        for layer in (self.first, self.second):
            x = nnx.max_pool(nnx.relu(layer(x)), (2, 2), (2, 2))
        return self.out(x.reshape(x.shape[0], -1))


@tacit.objectives.register_objective
def organ_net(side: int = 28, channels: int = 8, classes: int = 11, seed: int = 0) -> Objective:
    """Return the objective for grey images of side x side; the seed fixes the first parameters, which all share."""
    network = OrganNet(side, channels, classes, nnx.Rngs(seed))
    return tacit.objectives.from_model(network, "cross_entropy", shape=(side, side, 1), name="organ net")


class DigitNet(nnx.Module):
    """The network of `tacit.objectives.cnn`, in the form that is fast on a CPU."""

    def __init__(self, classes: int, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(1, 32, (5, 5), rngs=rngs)
        self.second = nnx.Conv(32, 64, (5, 5), rngs=rngs)
        self.hidden = nnx.Linear(64 * 7 * 7, 512, rngs=rngs)
        self.out = nnx.Linear(512, classes, rngs=rngs)

    def __call__(self, x):  # type: ignore[no-untyped-def]
        for layer in (self.first, self.second):
            x = nnx.max_pool(nnx.relu(layer(x)), (2, 2), (2, 2))
        return self.out(nnx.relu(self.hidden(x.reshape(x.shape[0], -1))))


@tacit.objectives.register_objective
def digit_net(classes: int = 10, seed: int = 0) -> Objective:
    """Return the objective for grey images of 28 x 28: 1,663,370 parameters for ten classes."""
    network = DigitNet(classes, nnx.Rngs(seed))
    return tacit.objectives.from_model(network, "cross_entropy", shape=(28, 28, 1), name="digit net")
