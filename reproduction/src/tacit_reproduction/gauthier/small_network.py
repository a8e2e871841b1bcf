"""PAO-Fed on few Gaussian clients, and what (4.34) of Gauthier (2023) predicts for it."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives, streams
from tacit.algorithms.asynchronous.pao_fed import VARIANTS
from tacit.graphs import Channel, Delay, Topology, star_roles
from tacit.streams import Batch, Stream
from tacit_reproduction.analysis.mean_square import Form, Network, steady_state
from tacit_reproduction.study import finished_run
from tacit_reproduction.table import Floats

DATA = 7  # seed of the clients' correlations, noise and the truth, which all runs share
SETTLED = 0.5  # share of the rounds, the last, over which a simulated error is averaged
LARGE = 1e6  # an error this many times the first one has left all bounds
FORMS: dict[Form, str] = {"kept": "with the terms that can be kept", "text": "as the text has it, (4.26) to (4.29)"}


class Setting(NamedTuple):  # one small network; its fields are the table's factors
    name: str
    variant: str = "U1"
    step: float = 0.1
    share: int = 2
    available: float = 0.5
    delay: float = 0.3
    longest: int = 2
    data: float = 1.0  # chance that a round brings a client a sample
    full_download: bool = False
    clients: int = 4
    d: int = 6
    rough: float = 1.0  # variance of the first client's features, in multiples of the others'
    white: bool = False  # whether features have unit variance and no correlation, instead of a spectrum from 0.2 to 1
    ratio: float = 0.0
    """Of the step to the bound of Theorem 4.2, where steps are tried; 0: the steady state is looked at."""
    rounds: int = 0


class World(NamedTuple):  # data that all runs of a setting share
    roots: Floats  # (K, d, d), R_k = root root^T
    noise: Floats  # (K,) variances
    truth: Floats  # (d,) w*, of norm 1

    correlations = property(lambda self: self.roots @ np.swapaxes(self.roots, 1, 2))  # (K, d, d) R_k


def world(setting: Setting) -> World:
    rng = np.random.default_rng([DATA, setting.clients, setting.d])
    spectrum = np.ones(setting.d) if setting.white else np.linspace(0.2, 1.0, setting.d)
    turns = np.linalg.qr(rng.standard_normal((setting.clients, setting.d, setting.d)))[0]
    roots = turns * np.sqrt(spectrum)
    roots[0] *= np.sqrt(setting.rough)
    truth = rng.standard_normal(setting.d)
    return World(roots, rng.uniform(0.05, 0.15, setting.clients), truth / np.linalg.norm(truth))


def largest_eigenvalue(setting: Setting) -> float:
    """Return that of any R_k, the inverse of the bound of Theorem 4.2."""
    return float(np.linalg.eigvalsh(world(setting).correlations).max())


def network(setting: Setting) -> Network:
    shared, variant = world(setting), VARIANTS[setting.variant]
    alike, delay = np.ones(setting.clients), Delay(setting.delay, setting.longest)
    delays = np.asarray(delay.probabilities() if setting.longest else (1.0,))
    given = (setting.step, setting.share, setting.available * alike, setting.data * alike, delays)
    way = {"same_window": variant["answer"] == "same", "full_download": setting.full_download}
    return Network(shared.correlations, shared.noise, *given, variant["decay"], variant["coordinated"], **way)


def data(setting: Setting, seed: int) -> tuple[Stream, NDArray[np.bool_]]:
    shared, rng, rounds = world(setting), np.random.default_rng([seed, DATA]), setting.rounds
    x = np.einsum("kij,tkj->tki", shared.roots, rng.standard_normal((rounds, setting.clients, setting.d)))
    y = x @ shared.truth + np.sqrt(shared.noise) * rng.standard_normal((rounds, setting.clients))
    there = rng.random((rounds, setting.clients)) < setting.data
    whole = Batch(x, y, there.astype(np.float64))
    chunk = lambda start, stop: Batch(*(leaf[start:stop] for leaf in whole))  # noqa: E731
    stream = streams.from_function(chunk, agents=setting.clients, rounds=rounds)
    stream.arrivals = there
    return stream, there


def run(task: tuple[Setting, int, int]) -> dict[str, Any]:
    setting, seeds, first = task
    truth = world(setting).truth
    given = {"share": setting.share, "variant": setting.variant, "unstable": "allow" if setting.ratio else "refuse"}
    download = "all" if setting.full_download else "window"
    made = algorithms.pao_fed(objectives.squared(), setting.step, download=download, **given)  # type: ignore[arg-type]

    def topology(seed: int) -> Topology:
        return star_roles(setting.clients).available("client", setting.available, data(setting, seed)[1])

    late = Channel(delay=Delay(setting.delay, setting.longest), links=("uplink",)) if setting.longest else None
    with np.errstate(over="ignore", invalid="ignore"):
        found = finished_run(
            made,
            topology,
            lambda seed: data(setting, seed)[0],
            rounds=setting.rounds,
            repeats=seeds,
            seed=first,
            channel=late,
            dtype="float64",
            figures={"deviation": lambda w, batch: jnp.sum((w - truth) ** 2)},  # all clients have the server's model
        )
    deviation = np.asarray(found.per_round["deviation"])  # (seeds, rounds), 1 at the start
    if setting.ratio:
        last = deviation[:, -1]
        return {"diverged": (~np.isfinite(last) | (last > LARGE)).astype(np.float64)}
    steady = deviation[:, int((1 - SETTLED) * setting.rounds) :].mean(axis=1)
    predicted = {form: float(np.trace(steady_state(network(setting), form=form))) for form in FORMS}
    return {"steady": steady, **{form: steady / value for form, value in predicted.items()}}
