"""Learning problems of an audit: two neighbouring data sets, and a loss on which they differ as much as they may.

The loss is linear unless said otherwise, so that a record's gradient is the record, whatever the state, and larger than
the clip: the clip is what must bound it. In one data set the victim's record pulls one way, in its neighbour the
opposite way, which moves the released value by the whole declared sensitivity. The other records of its batch cancel,
so that the victim's turns the whole batch: a clip of the mean would not bound it.

A problem may have several pairs of such data sets, of which a trial draws one. `tacit.audit.problems` is the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tacit.audit.watch import DataSetPair
from tacit.core.contract import Algorithm, Array, Mechanism, Objective, Params
from tacit.graphs import Channel, Graph, Topology
from tacit.objectives import MeanLoss, PenalisedLoss, Regulariser
from tacit.objectives import linear as inner_product
from tacit.objectives.losses import linear_loss
from tacit.streams import Batch, Stream, from_function

BEYOND_CLIP = 8.0
"""Length of a record's gradient in units of the clip."""
TRIALS = 40_000
_FREQUENCY = 1e4
"""Of the echo, in units of one over the clip: a step of a thousandth of the clip turns it round several times."""
_FAR = 10.0
"""Where the regularised problem starts, in every coordinate."""


class Method(NamedTuple):
    """The audited method: its constructor, and the settings that a problem may choose."""

    make: Callable[..., Algorithm]
    takes: frozenset[str]


class Pair(NamedTuple):
    """The victim's batches in the round that differs: one data set's and the other's, and what every round reads."""

    name: str
    given: Batch
    other: Batch
    rest: Batch
    """Of the victim in the other rounds, and of its neighbours in all of them."""


Pairs = Callable[[Mechanism, int, int], list[Pair]]
"""(mechanism, coordinates, records) -> pairs."""


class Problem(NamedTuple):
    """One way to attack: a loss, data sets, a network, and how often and how long it is run."""

    name: str
    """Its name in reports."""
    finds: str
    """The faults that it finds, in a few words."""
    pairs: Pairs
    """The data sets."""
    objective: Callable[[float], Objective]
    """Bound of the clip -> objective."""
    fits: Callable[[Method, Algorithm], bool]
    """Whether it is for a method, which is given as it is with this problem's settings."""
    rounds: int = 4
    records: int = 3
    """Per round and agent."""
    coordinates: int = 1
    """Parameters of the model."""
    positions: tuple[int, ...] | None = None
    """Rounds of which one differs between the data sets, drawn for each trial; None: first, middle and last."""
    again: bool = False
    """Whether the record comes again, as often and as soon as correlated noise is fitted to."""
    trials: int = TRIALS
    settings: Callable[[float, int], Mapping[str, Any]] = lambda bound, rounds: MappingProxyType({})
    """Bound of the clip and rounds -> settings of the method, of which those are set that it takes."""
    needs: tuple[str, ...] = ()
    """Settings without which a method does not fit."""
    graph: Callable[[Algorithm, Graph | Topology], Graph | Topology] = lambda algorithm, smallest: smallest
    """The network, from the smallest one on which the method runs."""
    channel: Channel = Channel()

    def differing_rounds(self) -> list[int]:
        """Return the rounds of which one differs."""
        own = self.positions or (1, (self.rounds + 1) // 2, self.rounds)
        return sorted({min(position, self.rounds) for position in own})

    def turns(self, mechanism: Mechanism) -> tuple[int, int]:
        """Return in how many rounds the record is read from its first on, and how many lie between two of them."""
        correlation = mechanism.correlation
        return (correlation.reads, correlation.apart) if self.again and correlation is not None else (1, 1)


def bound_of(mechanism: Mechanism) -> float:
    """Return the length to which gradients are clipped; 1 where they are not."""
    return 1.0 if mechanism.clip is None else mechanism.clip.bound


def stream_of(pairs: list[Pair], positions: list[int], rounds: int, agents: int) -> Stream:
    """Return the stream of `DataSetPair` in which agent 0's data may differ in one of these rounds."""

    def stacked(batches: list[Batch]) -> Batch:
        weights = [batch.weight for batch in batches]
        x, y = (np.stack([np.asarray(getattr(batch, leaf)) for batch in batches]) for leaf in ("x", "y"))
        return Batch(x, y, None if weights[0] is None else np.stack([np.asarray(weight) for weight in weights]))

    given, other, rest = (stacked([getattr(pair, which) for pair in pairs]) for which in ("given", "other", "rest"))

    def chunk(start: int, stop: int) -> DataSetPair:
        differs = np.isin(np.arange(start + 1, stop + 1), positions)

        def everyone(victim: Any, neighbour: Any) -> Any:
            if victim is None:
                return None
            row = np.stack([victim, *[neighbour] * (agents - 1)])
            plain = np.stack([neighbour] * agents)
            return np.where(differs.reshape(-1, *[1] * row.ndim), row, plain)

        return DataSetPair(*(Batch(*map(everyone, batch, rest)) for batch in (given, other)))

    return from_function(chunk, agents=agents, rounds=rounds, name="neighbouring data sets")


def linear(bound: float = 1.0) -> Objective:
    """Return the objective y <x, params>, mean over the records: every record's gradient is what it is anywhere."""
    loss = PenalisedLoss(MeanLoss(inner_product, linear_loss), Regulariser())
    return Objective("linear", loss, initial=lambda batch: jnp.zeros(batch.x.shape[-1:]))


def regularised(bound: float) -> Objective:
    """Return the linear objective with a regulariser, and a start at which that pulls."""
    plain = linear()
    assert isinstance(plain.loss, PenalisedLoss)
    loss = PenalisedLoss(plain.loss.data, Regulariser(l2=1.0))
    return plain._replace(loss=loss, initial=lambda batch: jnp.full(batch.x.shape[-1:], _FAR * bound))


def in_leaves(bound: float) -> Objective:
    """Return the linear objective with its parameters in two arrays."""

    def predict(params: Params, x: Array) -> Array:
        return inner_product(jnp.concatenate([params["one"], params["rest"]]), x)

    def initial(batch: Any) -> Params:
        size = batch.x.shape[-1]
        return {"one": jnp.zeros(1), "rest": jnp.zeros(max(size - 1, 1))}

    return linear()._replace(
        loss=PenalisedLoss(MeanLoss(predict, lambda prediction, y: y * prediction), Regulariser()), initial=initial
    )


def echo(bound: float) -> Objective:
    """Return the linear objective, in which records with y = 0 echo the state: their gradient is a sine of it.

    So quick a sine that two states which differ at all give gradients that have nothing to do with each other: what a
    record has done to a private state turns later gradients round.
    """
    frequency = _FREQUENCY / bound

    def data(params: Params, batch: Any) -> Array:
        x, y = jnp.atleast_2d(batch.x), jnp.atleast_1d(batch.y)
        pulls = y * (x @ params)
        wave = (1 - jnp.abs(y)) * (jnp.abs(x) @ (-jnp.cos(frequency * params) / frequency))
        return jnp.mean(pulls + wave)

    return linear()._replace(name="echo", loss=PenalisedLoss(data, Regulariser()))


def turned(mechanism: Mechanism, coordinates: int, records: int, quiet: bool = False) -> list[Pair]:
    """Return pairs in which the victim's record pulls the opposite way: spread over all coordinates, or in one of them.

    An l2 clip lets the l1 norm be largest when all coordinates are equal, and an l1 clip should make that spread no
    worse than a single one. With `quiet`, what every other round reads has y = 0.
    """
    changed = records if mechanism.adjacency == "dataset" else 1
    signs = np.where(np.arange(records) % 2, 1, -1).astype(np.float32)
    given, other = (np.concatenate([np.full(changed, sign, np.float32), signs[changed:]]) for sign in (1, -1))
    pairs = []
    for name, pattern in _patterns(coordinates, mechanism):
        x = np.repeat(pattern[None], records, axis=0) * np.float32(BEYOND_CLIP * bound_of(mechanism))
        one = Batch(x, given)
        pairs.append(Pair(name, one, Batch(x, other), Batch(x, np.zeros_like(given)) if quiet else one))
    return pairs


def _patterns(coordinates: int, mechanism: Mechanism) -> list[tuple[str, np.ndarray]]:
    """How a record is spread over the coordinates."""
    if coordinates == 1:
        return [("", np.ones(1, np.float32))]
    alone = [(f"coordinate {k + 1}", np.eye(coordinates, dtype=np.float32)[k]) for k in range(coordinates)]
    if mechanism.adjacency == "component":
        return alone
    # Signs differ so that noise which is the same in two coordinates shows.
    spread = np.where(np.arange(coordinates) % 2, -1, 1).astype(np.float32)
    return [("spread", spread), *(alone if coordinates <= 3 else [alone[0], alone[-1]])]


def odd_records(mechanism: Mechanism, coordinates: int, records: int) -> list[Pair]:
    """Return pairs in which the victim's record is odd: of a huge weight, or not finite.

    A record's weight says whether it is there, and one whose gradient is not finite contributes nothing.
    """
    pair = turned(mechanism, coordinates, records)[0]
    present = np.ones(records, np.float32)
    heavy, endless = present.copy(), np.array(pair.given.x)
    heavy[0], endless[0] = 1e4, np.inf
    plain = pair.rest._replace(weight=present)
    return [
        Pair("heavy", plain, pair.other._replace(weight=heavy), plain),
        Pair("not finite", plain, pair.other._replace(x=endless, weight=present), plain),
    ]
