"""Runs of `pao-theory`: PAO-Fed on few Gaussian clients, beside the predictions for the same settings."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives, streams
from tacit.algorithms.asynchronous.pao_fed import VARIANTS
from tacit.core.errors import ConfigError
from tacit.graphs import Channel, Delay, Topology, star_roles
from tacit.streams import Batch, Stream
from tacit_reproduction.analysis.mean_square import (
    asynchronous_network,
    mean_square_radius,
    steady_state,
    step_bounds,
    transient,
)
from tacit_reproduction.analysis.mean_square_forms import Network
from tacit_reproduction.asynchronous.theory_settings import FOLLOWED, Design, Setting
from tacit_reproduction.finished import finished_run

Floats = NDArray[np.float64]
Form = Literal["kept", "text", "no squares"]
"""The default of the predictions, the text's, and the default without the mu^2 terms of F."""
FORMS: tuple[Form, ...] = ("kept", "text", "no squares")
DATA = 7
"""Seed of the clients' correlations, noise and the truth, which all runs share."""
SETTLED = 0.5
"""Share of the rounds, the last, over which a simulated error is averaged."""
SMALLEST = 1e-3
"""Share of the bound of Theorem 4.2 from which on the true limit of steps is looked for."""
LARGE = 1e6
"""An error this many times the first one has left all bounds."""


class World(NamedTuple):
    """Data that all runs of a setting share."""

    roots: Floats
    """(K, d, d), R_k = root root^T."""
    noise: Floats
    """(K,) variances."""
    truth: Floats
    """(d,) w*, of norm 1."""

    @property
    def correlations(self) -> Floats:
        """(K, d, d) R_k."""
        return np.asarray(self.roots @ np.swapaxes(self.roots, 1, 2))


def world(setting: Setting) -> World:
    """Draw the clients."""
    rng = np.random.default_rng([DATA, setting.clients, setting.d])
    spectrum = np.ones(setting.d) if setting.white else np.linspace(0.2, 1.0, setting.d)
    turns = np.linalg.qr(rng.standard_normal((setting.clients, setting.d, setting.d)))[0]
    roots = turns * np.sqrt(spectrum)
    roots[0] *= np.sqrt(setting.rough)
    truth = rng.standard_normal(setting.d)
    return World(roots, rng.uniform(0.05, 0.15, setting.clients), truth / np.linalg.norm(truth))


def network(setting: Setting, form: Form = "kept") -> Network:
    """Return what the predictions are made from."""
    shared, variant = world(setting), VARIANTS[setting.variant]
    # Fourth moments stand in F with mu^2 and nowhere else: without them it is linear in mu, as the text's.
    none = np.zeros((setting.clients, *[setting.d] * 4)) if form == "no squares" else None
    return asynchronous_network(
        shared.correlations,
        shared.noise,
        step=setting.step,
        share=setting.share,
        availability=setting.available,
        delays=setting.delays,
        decay=variant["decay"],
        coordinated=variant["coordinated"],
        same_window=variant["answer"] == "same",
        full_download=setting.full_download,
        data=setting.data,
        fourth=none,
    )


class Bounds(NamedTuple):
    """Step sizes that the theorems allow, and the one up to which the error does not grow."""

    mean: float
    mean_square: float
    true: float
    """To three digits, from the radius of the default form; 0 where it grows at the smallest step that is tried."""


def bounds(setting: Setting) -> Bounds:
    """Return the limits of the step in a setting, whatever its own step."""
    by_theorem = step_bounds(world(setting).correlations)

    def grows(step: float) -> bool:
        return mean_square_radius(network(setting._replace(step=step))) >= 1

    low, high = SMALLEST * by_theorem.mean_square, 8 * by_theorem.mean
    if grows(low):
        return Bounds(by_theorem.mean, by_theorem.mean_square, 0.0)
    while high / low > 1.003:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if grows(middle) else (middle, high)
    return Bounds(by_theorem.mean, by_theorem.mean_square, low)


def data(setting: Setting, rounds: int, seed: int) -> tuple[Stream, NDArray[np.bool_]]:
    """Draw the samples of one seed, and when they come."""
    shared, rng = world(setting), np.random.default_rng([seed, DATA])
    x = np.einsum("kij,tkj->tki", shared.roots, rng.standard_normal((rounds, setting.clients, setting.d)))
    y = x @ shared.truth + np.sqrt(shared.noise) * rng.standard_normal((rounds, setting.clients))
    there = rng.random((rounds, setting.clients)) < setting.data
    weight = there.astype(np.float64)
    stream = streams.from_function(
        lambda start, stop: Batch(x[start:stop], y[start:stop], weight[start:stop]),
        agents=setting.clients,
        rounds=rounds,
    )
    stream.arrivals = there
    return stream, there


class Task(NamedTuple):
    """One setting, all seeds at once."""

    setting: Setting
    rounds: int
    seeds: int
    seed: int = 0
    forced: bool = False
    """Whether steps above the bound are allowed."""


class Simulated(NamedTuple):
    """Results of a task."""

    deviation: Floats
    """(seeds, rounds) ||w - w*||^2 of the server's model before each round; it begins with 1."""

    @property
    def steady(self) -> Floats:
        """(seeds,) mean over the last rounds."""
        first = int((1 - SETTLED) * self.deviation.shape[1])
        return np.asarray(self.deviation[:, first:].mean(axis=1))

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """(seeds,) whether the last error is beyond all bounds."""
        last = self.deviation[:, -1]
        return np.asarray(~np.isfinite(last) | (last > LARGE))


def run(task: Task) -> Simulated:
    """Run PAO-Fed itself."""
    setting, truth = task.setting, world(task.setting).truth
    made = algorithms.pao_fed(
        objectives.squared(),
        setting.step,
        share=setting.share,
        variant=setting.variant,
        download="all" if setting.full_download else "window",
        unstable="allow" if task.forced else "refuse",
    )

    def topology(seed: int) -> Topology:
        return star_roles(setting.clients).available("client", setting.available, data(setting, task.rounds, seed)[1])

    with np.errstate(over="ignore", invalid="ignore"):
        found = finished_run(
            made,
            topology,
            lambda seed: data(setting, task.rounds, seed)[0],
            rounds=task.rounds,
            repeats=task.seeds,
            seed=task.seed,
            channel=Channel(delay=Delay(setting.delay, setting.longest), links=("uplink",))
            if setting.longest
            else None,
            dtype="float64",
            figures={"deviation": lambda w, batch: jnp.sum((w - truth) ** 2)},  # all clients have the server's model
        )
    return Simulated(np.asarray(found.per_round["deviation"]))


def refusal(task: Task) -> str:
    """Return what is said before a run about its step; nothing where it is accepted."""
    try:
        run(task._replace(forced=False))
    except ConfigError as fault:
        return str(fault)
    return ""


def predicted(setting: Setting, form: Form) -> float:
    """Return the steady E||w - w*||^2 (4.34)."""
    return float(steady_state(network(setting, form), form="text" if form == "text" else "kept").deviation)


def predicted_path(setting: Setting, form: Form, rounds: int) -> Floats:
    """Return (rounds,) E||w - w*||^2 before each round (4.33)."""
    path = transient(network(setting, form), world(setting).truth, rounds, form="text" if form == "text" else "kept")
    return np.asarray(path.deviation[:-1])


class Predicted(NamedTuple):
    """Predictions for a setting."""

    steady: dict[Form, float]
    paths: dict[Form, Floats]
    """(rounds,) of the settings that are followed."""


class Evidence(NamedTuple):
    """Everything that was measured and predicted."""

    design: Design
    simulated: dict[str, Simulated]
    predicted: dict[str, Predicted]
    bounds: dict[str, Bounds]
    """Of the settings whose steps are tried."""
    refusals: dict[str, str]
    """Refusals of runs with steps above the bound."""


def predict(setting: Setting, rounds: int) -> Predicted:
    """Return all predictions of a setting."""
    paths = {form: predicted_path(setting, form, rounds) for form in FORMS} if setting.name in FOLLOWED else {}
    return Predicted({form: predicted(setting, form) for form in FORMS}, paths)
