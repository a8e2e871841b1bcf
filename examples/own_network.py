"""A network of your own that files can name: a Flax module, registered as an objective.

    tacit --with examples/own_network.py run examples/own-network.toml

A job names it in the same way (``[objective] kind = "two_layers"``); every peer brings this file, whose digest is part
of the hash on which the members agree.
"""

from __future__ import annotations

from flax import nnx

import tacit
from tacit.core.contract import Objective


class TwoLayers(nnx.Module):
    """A hidden layer of which units are dropped in training, and one number for each row."""

    def __init__(self, features: int, hidden: int, drop: float, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(features, hidden, rngs=rngs)
        self.drop = nnx.Dropout(drop, rngs=rngs)
        self.out = nnx.Linear(hidden, 1, rngs=rngs)

    def __call__(self, x):  # type: ignore[no-untyped-def]
        return self.out(self.drop(nnx.relu(self.hidden(x))))


@tacit.objectives.register_objective
def two_layers(features: int, hidden: int = 16, drop: float = 0.1, seed: int = 0) -> Objective:
    """Return the objective for labels -1 and 1; the seed fixes the first parameters, which all agents share."""
    network = TwoLayers(features, hidden, drop, nnx.Rngs(seed))
    return tacit.objectives.from_model(network, "logistic", name="two layers")
