"""Images, the cited code's optimiser and noise, and the test of one release, for `omd-mnist`."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Algorithm, Clip, Inbox, Key, Objective, Outbox, Params, Tree, View, share
from tacit.core.contract import Batch as Data
from tacit.graphs import Graph, Periodic, Topology, k_regular, star_roles
from tacit.privacy import gradient_parts
from tacit.privacy.conversions import tight
from tacit.privacy.spending import DELTA
from tacit.streams import Batch, Stream, from_function
from tacit.streams.partition import label_shards
from tacit_reproduction.datasets.mnist import mnist

CLIENTS, NEIGHBOURS, SHARDS, VALIDATION = 10, 4, 3, 0.1
"""A client hears four and itself, each with weight 0.2, has three shards, and keeps a tenth of them for validation."""
COMPONENT = Clip(0.5, "linf")
"""The text's bound: a component of a gradient changes by at most 1 (Dissertation, Definition 4)."""
ORDERS = np.unique(np.geomspace(2, 1024, 60).astype(np.int64))  # of Renyi divergences


class Images(NamedTuple):  # training and test images as rows of grey values from 0 to 255
    x: NDArray[np.uint8]
    y: NDArray[np.int32]
    test_x: NDArray[np.uint8]
    test_y: NDArray[np.int32]
    description: str


@functools.cache
def load() -> Images:
    data = mnist()
    grey = np.rint(255 * data.x).astype(np.uint8)  # as published: a quarter of the memory on the device
    train, test = data.parts["train"], data.parts["test"]
    return Images(grey[train], data.y[train], grey[test], data.y[test], data.description)


def client_stream(images: Images, batch: int, seed: int) -> Stream:
    """Return one seed's shards and reading order; a pass is a whole number of batches, after which data repeat."""
    rng, order = np.random.default_rng([seed, CLIENTS]), np.random.default_rng([seed, CLIENTS, batch])
    shards = label_shards(images.y, CLIENTS, SHARDS, seed)
    kept = [np.sort(rng.permutation(rows)[round(VALIDATION * len(rows)) :]) for rows in shards]
    held = [order.permutation(rows) for rows in kept]
    passes = min(len(rows) for rows in held) // batch
    # (rounds, clients, batch): who reads which images when.
    reads = np.stack([rows[: passes * batch].reshape(passes, batch) for rows in held], axis=1)

    def chunk(start: int, stop: int) -> Batch:
        now = reads[np.arange(start, stop) % passes]
        return Batch(images.x[now], images.y[now])

    return from_function(chunk, agents=CLIENTS, period=passes, data_size=passes * batch, name="mnist")


def network(ring: bool, local: int, steps: int) -> Graph | Topology:
    """Return who talks to whom: links are up after every `local` steps, and down after one more step at the end."""

    def timed(graph: Graph) -> Graph:
        table = np.zeros((steps + 1, graph.edges), bool)
        table[local - 1 : steps : local] = True
        return graph.with_dynamics(Periodic(table))

    if ring:
        return timed(k_regular(CLIENTS, NEIGHBOURS)).with_weights("receiver")
    star = star_roles(CLIENTS)
    return Topology(star.roles, {name: timed(graph) for name, graph in star.links.items()})


def accuracies(objective: Objective, x: NDArray[np.uint8], y: NDArray[np.int32]) -> Callable[[Params], Any]:
    """Return clients' models, stacked -> (mean accuracy of the models, accuracy of the mean model) in per cent."""
    predict = objective.predict
    assert predict is not None  # a network has it
    answers = jax.jit(jax.vmap(lambda model, images: jnp.argmax(predict(model, images), axis=-1), (0, None)))

    def shares(models: Params) -> Any:
        both = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf.mean(axis=0, keepdims=True)]), models)
        parts = [np.asarray(answers(both, x[start : start + 500])) for start in range(0, len(y), 500)]
        right = 100 * (np.concatenate(parts, axis=1) == y).mean(axis=1)
        return np.array([right[:-1].mean(), right[-1]])

    return shares


class Walk(NamedTuple):  # state of an agent whose steps have momentum
    w: Params
    velocity: Params


def with_momentum(plain: Algorithm, step: float, momentum: float) -> Algorithm:
    """Return `fedavg` with noise on the gradient with steps of momentum, begun anew with every communication."""
    up, down = plain.phases

    def init(key: Key, params: Params, views: Mapping[str, View]) -> Walk:
        return Walk(params, jax.tree.map(jnp.zeros_like, params))

    def train(key: Key, state: Walk, batch: Data, view: View) -> tuple[Walk, Tree]:
        return state, up.compute(key, state.w, batch, view)[1]

    def upload(state: Walk, released: Tree, view: View) -> tuple[Walk, Outbox]:
        velocity = jax.tree.map(lambda v, g: momentum * v + g, state.velocity, released)
        w = jax.tree.map(lambda w, v: w - step * v, state.w, velocity)
        return Walk(w, velocity), share(w)

    def answer(key: Key, state: Walk, batch: Data, view: View) -> tuple[Walk, Tree]:
        return state, state.w

    def settle(key: Key, state: Walk, inbox: Inbox, view: View) -> Walk:
        velocity = jax.tree.map(lambda v: jnp.where(jnp.any(inbox.arrived), 0, v), state.velocity)
        return Walk(up.absorb(key, state.w, inbox, view), velocity)

    phases = (up._replace(compute=train, emit=upload, absorb=settle), down._replace(compute=answer, absorb=settle))
    return plain._replace(init=dict.fromkeys(plain.init, init), phases=phases, model=lambda state: state.w)


def sampled_epsilon(multiplier: float, rate: float, steps: int, delta: float) -> float:
    """Return epsilon of Poisson-sampled Gaussian noise, by Renyi divergences of whole orders.

    Mironov, Talwar and Zhang (2019), sec. 3.3; converted as in Canonne, Kamath and Steinke (2020), Prop. 12.
    """
    k = np.arange(ORDERS[-1] + 1)
    log_factorial = np.array([math.lgamma(number + 1) for number in k])
    exact = []
    for order in ORDERS:
        at = k[: order + 1]
        chosen = log_factorial[order] - log_factorial[at] - log_factorial[order - at]
        terms = chosen + (order - at) * math.log1p(-rate) + at * math.log(rate) + at * (at - 1) / (2 * multiplier**2)
        divergence = steps * float(np.logaddexp.reduce(terms)) / (order - 1)
        exact.append(divergence + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))
    return float(min(exact))


def sampled_multiplier(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return the noise multiplier that keeps so many steps within (epsilon, delta), as the cited code finds it."""
    low, high = 0.1, 1e4
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if sampled_epsilon(middle, rate, steps, delta) > epsilon else (low, middle)
    return high


def record_level(epsilon: float, coordinates: int, reads: int) -> tuple[float, float]:
    """Return the pure epsilon of a record under the text's noise, and that at DELTA.

    A record moves every component by as much as the text's one: epsilons add up over components and reads, and so do
    the components' epsilon^2 / 2 of concentrated differential privacy (Bun and Steinke 2016, Prop. 1.4).
    """
    pure = reads * coordinates * epsilon
    return pure, min(pure, tight(reads * coordinates * epsilon**2 / 2, DELTA))


def told_apart(
    objective: Objective, batches: Sequence[Batch], epsilon: float, first: int, draws: int = 200
) -> NDArray[np.float64]:
    """Return, for each batch, how often in per cent an observer of ONE release is right about one of its records.

    Either the first record is as it is or it is a white image; a coin decides. The likelihood ratio of the released
    gradient, with the text's noise of scale 1 / (h epsilon) on every component, says which.
    """
    gradient = jax.jit(gradient_parts(objective, COMPONENT).data)
    start = objective.initial(jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), batches[0]))

    @jax.jit
    def right(key: Key, shift: jax.Array) -> jax.Array:
        def once(key: Key) -> jax.Array:
            noise = jax.random.laplace(key, shift.shape)
            return jnp.sum(jnp.abs(noise) - jnp.abs(noise - shift)) < 0  # the truth is likelier

        return 100 * jnp.mean(jax.lax.map(once, jax.random.split(key, draws)))

    found = []
    for seed, batch in enumerate(batches, start=first):
        white = batch._replace(x=batch.x.copy())
        white.x[0] = 255
        moved = jax.tree.map(jnp.subtract, gradient(start, white), gradient(start, batch))
        shift = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(moved)]) * len(batch.y) * epsilon
        found.append(float(right(jax.random.key(seed), shift)))
    return np.array(found)
