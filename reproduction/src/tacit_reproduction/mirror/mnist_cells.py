"""Runs behind `omd-mnist`: one method with one noise at a time, all seeds together as far as memory allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives
from tacit.core.contract import Algorithm, Clip, Extent, Mechanism, Objective, Params
from tacit.graphs import Graph, Topology, k_regular, star_roles
from tacit.objectives import Euclidean
from tacit.privacy import gaussian, laplace, unprotected
from tacit.privacy.accounting import composed
from tacit.privacy.conversions import tight
from tacit.privacy.events import Event
from tacit.privacy.mechanisms import largest_change
from tacit.privacy.planning import noise_for
from tacit.privacy.spending import DELTA, RunPrivacy
from tacit_reproduction.finished import finished_run
from tacit_reproduction.mirror.mnist_images import Images, client_stream

CLIENTS, NEIGHBOURS = 10, 4
"""Four neighbours and itself: an edge weight of 1 / 5 = 0.2, as the text has it."""
COMPONENT = Clip(0.5, "linf")
"""The text's bound: a component of a gradient changes by at most 1 (Dissertation, Definition 4)."""
WHOLE = Clip(1.0, "l2")
"""Of a record's whole gradient, for promises to records."""

Method = Literal["proposed", "fedavg"]
METHODS: dict[Method, str] = {"proposed": "the proposed method", "fedavg": "DP-FedAvg"}
Kind = Literal["text", "pure", "gaussian", "plain"]


class Noise(NamedTuple):
    """Amount of noise, and the unit of its epsilon."""

    kind: Kind
    epsilon: float = math.inf

    def words(self) -> str:
        """Return what to call it."""
        return {
            "text": f"the text's eps = {self.epsilon:g}",
            "pure": f"record total eps = {self.epsilon:g}",
            "gaussian": f"record total ({self.epsilon:g}, {DELTA:g})",
            "plain": "neither clip nor noise",
        }[self.kind]

    def mechanism(self, reads: int) -> Mechanism:
        """Return the mechanism for runs in which a record is read at most so often."""
        if self.kind == "plain":
            return unprotected
        if self.kind == "text":
            return laplace(self.epsilon, *COMPONENT, perturbs="gradient", adjacency="component")
        if self.kind == "pure":
            return laplace(self.epsilon / reads, *WHOLE, perturbs="gradient")
        return gaussian(noise_for("gaussian", self.epsilon, DELTA, reads), *WHOLE, perturbs="gradient")

    @property
    def clips_whole(self) -> bool:
        """Whether a record's whole gradient is clipped, and hence shorter than the text's."""
        return self.kind in ("pure", "gaussian")


TEXT = tuple(Noise("text", epsilon) for epsilon in (0.1, 0.5))
PURE, GAUSSIAN, PLAIN = Noise("pure", 0.5), Noise("gaussian", 8.0), Noise("plain")


class Design(NamedTuple):
    """The extent of the experiment."""

    channels: tuple[int, int]
    hidden: int
    batch: int
    step: float
    clipped_step: float
    """Of the case where a record's whole gradient is clipped: it is shorter then, and the step longer."""
    communications: int
    noises: tuple[Noise, ...]
    seeds: int
    together: int
    """Seeds that are run at once: they share one compiled program, and memory."""
    curve_points: int
    curve_images: int
    """Test images, the first ones, on which the curves are taken."""
    test_images: int
    """Those on which final accuracies are taken; 10,000 are all."""

    def objective(self) -> Objective:
        """Return the network; its first weights are the same in all runs."""
        return objectives.cnn(channels=self.channels, hidden=self.hidden)


class Cell(NamedTuple):
    """One run of the experiment, over its seeds."""

    method: Method
    noise: Noise


class Plan(NamedTuple):
    """A cell and all that its runs need."""

    cell: Cell
    design: Design
    source: Callable[[], Images]
    """A function, not the images: these would be copied to every process once per cell."""
    seeds: range


class Outcome(NamedTuple):
    """Results of a cell."""

    accuracy: NDArray[np.float64]
    """(seeds,) share of test images that are classified rightly: mean over the clients' own models."""
    curve: NDArray[np.float64]
    """(seeds, points) the same on the way, on the first test images."""
    curve_at: NDArray[np.int64]
    """(points,) communications so far."""
    apart: NDArray[np.float64]
    """(seeds,) mean square distance of the clients' models from their mean."""
    privacy: RunPrivacy
    reads: int
    """Largest number of reads of a record."""
    coordinates: int
    """Parameters of the model."""


def cells(design: Design) -> list[Cell]:
    """Return every cell."""
    return [Cell(method, noise) for noise in design.noises for method in METHODS]


def network(cell: Cell) -> Graph | Topology:
    """Return whom a client talks to: four neighbours and itself, or a server."""
    if cell.method == "proposed":
        return k_regular(CLIENTS, NEIGHBOURS).with_weights("receiver")
    return star_roles(CLIENTS)


def algorithm(cell: Cell, design: Design, reads: int) -> Algorithm:
    """Return the method with its noise."""
    objective, mechanism = design.objective(), cell.noise.mechanism(reads)
    step = design.clipped_step if cell.noise.clips_whole else design.step
    if cell.method == "fedavg":
        return algorithms.fedavg(objective, step, mechanism)
    return algorithms.dynamic_mirror_descent(objective, step, mechanism, mirror=Euclidean())


def run_cell(plan: Plan) -> Outcome:
    """Run a cell over its seeds."""
    cell, design, images = plan.cell, plan.design, plan.source()
    rounds = design.communications
    every = max(1, design.communications // design.curve_points)
    reads = int(client_stream(images, CLIENTS, design.batch, plan.seeds[0]).reads(rounds).max())
    method = algorithm(cell, design, reads)
    on_the_way, at_the_end = (
        judged(method.objective, images.test_x[:count], images.test_y[:count])
        for count in (design.curve_images, design.test_images)
    )
    final, curves, apart = [], [], []
    for first in range(plan.seeds.start, plan.seeds.stop, design.together):
        run = finished_run(
            method,
            network(cell),
            lambda seed: client_stream(images, CLIENTS, design.batch, seed),
            rounds=rounds,
            repeats=min(design.together, plan.seeds.stop - first),
            seed=first,
            record={"test": on_the_way},
            record_every=every,
        )
        curves.append(run.recorded["test"])
        apart.append(run.recorded["consensus"][:, -1])
        final += [at_the_end(jax.tree.map(lambda leaf, r=r: leaf[r], run.models)) for r in range(run.repeats)]
    return Outcome(
        np.array(final),
        np.concatenate(curves),
        np.asarray(run.recorded_rounds),
        np.concatenate(apart),
        run.privacy,
        reads,
        sum(leaf[0, 0].size for leaf in jax.tree.leaves(run.models)),
    )


def judged(objective: Objective, x: NDArray[np.uint8], y: NDArray[np.int32]) -> Callable[[Params], float]:
    """Return the function from clients' models, stacked, to their mean share of right answers on images."""
    at_once = 25 if jax.default_backend() == "cpu" else 500  # what fits the cache; what keeps an accelerator busy
    pieces = -(-len(y) // at_once)
    order = np.arange(pieces * at_once) % len(y)  # the last piece is filled up ...
    weight = jnp.asarray((np.arange(pieces * at_once) < len(y)).astype(np.float32)).reshape(pieces, at_once)
    images = jnp.asarray(x[order].reshape(pieces, at_once, -1))
    labels = jnp.asarray(y[order].reshape(pieces, at_once))
    predict = objective.predict
    assert predict is not None  # a network has it

    @jax.jit
    def right(models: Params) -> jax.Array:
        def piece(part: Any) -> jax.Array:
            image, label, counts = part
            answers = jax.vmap(lambda model: jnp.argmax(predict(model, image), axis=-1))(models)
            return jnp.sum((answers == label) * counts)  # ... with images that do not count

        return jnp.sum(jax.lax.map(piece, (images, labels, weight)))

    def share(models: Params) -> float:
        clients = int(jax.tree.leaves(models)[0].shape[0])
        return float(right(models)) / (len(y) * clients)

    return share


class Honest(NamedTuple):
    """Privacy of a whole record over the whole run under the text's noise."""

    pure: float
    """Pure epsilon: the sum over a record's reads of l1 sensitivity / scale."""
    approximate: float
    """Epsilon at `DELTA`, by concentrated differential privacy."""


def honest(noise: Noise, coordinates: int, batch: int, reads: int) -> Honest:
    """Return what the text's noise means for a record that is read so often.

    A record moves every component, each by 2 C / h at most: a mean over h records changes by 2 C d / h in the l1 norm,
    which pure epsilons count. Concentrated differential privacy counts less: the components' draws are independent,
    one that moves by D_k loses e_k = D_k / b and is e_k^2 / 2-zCDP (Bun and Steinke 2016, Prop. 1.4), and over the
    components these add up to ||D||_2^2 / (2 b^2), which is what one component with the whole l2 change would lose.
    """
    clip, extent = COMPONENT, Extent(coordinates, batch)
    scale = largest_change(clip, "l1", "component", extent) / noise.epsilon
    whole, spread = (
        composed([Event("laplace", "laplace", largest_change(clip, norm, "record", extent), scale)] * reads)
        for norm in ("l1", "l2")
    )
    return Honest(whole.epsilon, min(whole.epsilon, tight(spread.rho, DELTA)))
