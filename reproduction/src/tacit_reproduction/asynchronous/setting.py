"""The network of Gauthier (2023), sec. 4.4: 256 clients that are mostly away, data, channel, and error curves.

Everything that happens to a client (its data, when it is there, how late its messages are) is drawn from the seed of a
run alone, so that methods which are compared live through the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives, streams
from tacit.core.contract import Objective
from tacit.graphs import Channel, Delay, Topology, star_roles
from tacit.streams.arrivals import AutoregressiveStream
from tacit_reproduction.asynchronous.ocean_data import DealtStream
from tacit_reproduction.datasets.calcofi import COLUMNS, CalcofiStream, calcofi
from tacit_reproduction.finished import finished_run

CLIENTS, FEATURES = 256, 200
ROUNDS = 2000
TEST_SAMPLES = 4000
POINTS = 100
"""Places on a learning curve."""
INITIAL = 0.1
"""Share of the rounds in which methods shall fall alike, where steps are matched."""
STEADY = 0.1
"""Share of the rounds, the last, over which a steady error is averaged."""
STEPS = (0.025, 0.035, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.56, 0.8)
"""Steps among which one is looked for that matches."""
TUNING_SEEDS = 10_000
"""Distance of the tuning seeds from the seeds of the runs."""

Data = Literal["synthetic", "calcofi", "calcofi, dealt", "calcofi, one oxygen"]
"""CalCOFI by place, dealt to clients by chance, or by place without the saturation of oxygen."""


class Environment(NamedTuple):
    """Properties of clients and channel."""

    name: str
    availability: tuple[float, ...] = (0.25, 0.1, 0.025, 0.005)
    """Of the four groups of clients, which are spread evenly over the groups by data."""
    delay: float = 0.2
    longest: int = 10
    step: int = 1
    """Delays come in multiples of it."""

    @property
    def channel(self) -> Channel:
        """Updates may come late; what the server says comes at once, as in the text."""
        if self.delay == 0:
            return Channel()
        return Channel(delay=Delay(self.delay, self.longest, self.step), links=("uplink",))


USUAL = Environment("usual")
IDEAL = Environment("ideal", (1.0,), 0.0, 0)
COMMON_DELAYS = Environment("common delays", delay=0.8, longest=5)
HARSH = Environment("harsh", (0.025, 0.01, 0.0025, 0.0005), delay=0.4, longest=60, step=10)


class Task(NamedTuple):
    """One method in one environment, all seeds at once."""

    label: str
    method: str
    settings: Mapping[str, Any]
    environment: Environment = USUAL
    data: Data = "synthetic"
    rounds: int = ROUNDS
    seeds: int = 20
    seed: int = 0
    clients: int = CLIENTS


class Curve(NamedTuple):
    """Results of a task."""

    label: str
    rounds: NDArray[np.int64]
    """(points,) rounds after which the server's model was tested."""
    mse: NDArray[np.float64]
    """(seeds, points)."""
    up: float
    """Bits that a client sends per iteration on average."""
    down: float
    """Bits that it is sent."""
    participations: float
    """Messages that a client sends per iteration on average."""
    seconds: float

    @property
    def db(self) -> NDArray[np.float64]:
        """Test error of each seed in dB."""
        return np.asarray(10 * np.log10(self.mse))

    def steady(self) -> NDArray[np.float64]:
        """(seeds,) steady test error in dB: the mean error of the last tenth of the rounds."""
        last = self.rounds > (1 - STEADY) * self.rounds[-1]
        return np.asarray(10 * np.log10(self.mse[:, last].mean(axis=1)))

    @property
    def per_message(self) -> float:
        """Bits of a client's message, which the text calls its load."""
        return self.up / self.participations if self.participations else 0.0


BANDWIDTHS: Mapping[Data, float] = {
    "synthetic": 2.0,
    "calcofi": 1.0,
    "calcofi, dealt": 1.0,
    "calcofi, one oxygen": 1.0,
}
"""Of the kernel, which the text does not say: that of the lowest least-squares error among 0.5, 1, 2 and 4 on pooled
data (none of the methods was looked at); other forms of CalCOFI keep the bandwidth of the first."""


def data_in_words(clients: int, rounds: int, seeds: int) -> dict[str, object]:
    """Return what a summary says of the synthetic data."""
    return {
        "name": "autoregressive",
        "description": (
            f"(4.35): a nonlinear function of four lags of an AR(1) process that is each client's own, {clients} "
            f"clients, {rounds:,} iterations, drawn anew for each of {seeds} seeds"
        ),
        "rows": clients * rounds * 5 // 8,
        "complete": True,
    }


def setting_in_words(clients: int, rounds: int, seeds: int) -> str:
    """Return the setting of section 4.4.1 as a paragraph."""
    return (
        f"{clients} clients; those of four groups have new data in 25, 50, 75 and 100 % of {rounds:,} iterations, and "
        f"of four other groups, spread over the first, are there with chance {', '.join(map(str, USUAL.availability))} "
        f"when they have. An update is l iterations late or later with chance {USUAL.delay:g}^l and lost beyond "
        f"{USUAL.longest}. {seeds} seeds, each with its own clients, data, absences and delays, which all methods "
        f"share. {FEATURES} random Fourier features, of a Gaussian kernel of bandwidth {BANDWIDTHS['synthetic']:g}: "
        "the text does not give it; among 0.5, 1, 2 and 4 it has the lowest least-squares error on pooled data. Errors "
        f"are the server's on {TEST_SAMPLES:,} fresh samples of the seed's clients."
    )


def objective(data: Data) -> Objective:
    """Return least squares on the random features that all runs share."""
    return objectives.fourier(count=FEATURES, bandwidth=BANDWIDTHS[data], seed=0)


@functools.lru_cache(maxsize=64)
def stream(data: Data, clients: int, rounds: int, seed: int) -> AutoregressiveStream | CalcofiStream | DealtStream:
    """Return the data of one seed; for other lengths of a run than the text's the groups' sizes go along."""
    if data != "synthetic":
        bottles = 80_000 * clients * rounds // (CLIENTS * ROUNDS)
        columns = COLUMNS[:-1] if data == "calcofi, one oxygen" else COLUMNS
        by_place = calcofi(clients, rounds=rounds, seed=seed, samples=bottles, columns=columns)
        return DealtStream(by_place, seed) if data == "calcofi, dealt" else by_place
    samples = tuple(size * rounds // ROUNDS for size in (500, 1000, 1500, 2000))
    return streams.autoregressive(clients, samples=samples, rounds=rounds, seed=seed)


def network(task: Task) -> Callable[[int], Topology]:
    """Return who is there: every group by availability has clients of every group by data."""
    groups = np.asarray(task.environment.availability)
    chances = groups[(np.arange(task.clients) // 4) % groups.size]

    def of_seed(seed: int) -> Topology:
        arrivals = stream(task.data, task.clients, task.rounds, seed).arrivals
        return star_roles(task.clients).available("client", chances, arrivals)

    return of_seed


def run(task: Task) -> Curve:
    """Run a method with all of its seeds and test the server's model on the way, each seed on its own test set."""
    goal = objective(task.data)
    made = algorithms.find(task.method).constructor(goal, **task.settings)
    outcome = finished_run(
        made,
        network(task),
        functools.partial(stream, task.data, task.clients, task.rounds),
        rounds=task.rounds,
        repeats=task.seeds,
        seed=task.seed,
        channel=task.environment.channel,
        record={"w": lambda models: models[0]},  # one server: all clients have its model
        record_every=max(1, task.rounds // POINTS),
    )
    up, down = outcome.traffic["uplink"], outcome.traffic["downlink"]
    models = outcome.recorded["w"].astype(np.float64)
    errors = [_test_errors(task, task.seed + r, models[r]) for r in range(task.seeds)]
    return Curve(
        task.label,
        outcome.recorded_rounds,
        np.stack(errors),
        float(up.bits.mean() / task.clients),
        float(down.bits.mean() / task.clients),
        float(up.messages.mean() / task.clients),
        outcome.seconds,
    )


def _test_errors(task: Task, seed: int, models: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the test error of models (points, d): on fresh samples of a seed's clients, or bottles that none has."""
    test = stream(task.data, task.clients, task.rounds, seed).test(TEST_SAMPLES)
    features = np.asarray(objectives.FourierFeatures(FEATURES, BANDWIDTHS[task.data], 0)(test.x), np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # of a model that has diverged
        return np.asarray(np.mean((models @ features.T - np.asarray(test.y)) ** 2, axis=1))


def tuning(task: Task, steps: Sequence[float], seeds: int = 5) -> list[Task]:
    """Return the task with each of the steps, on seeds of their own."""
    return [
        task._replace(settings={**task.settings, "step": step}, seeds=seeds, seed=task.seed + TUNING_SEEDS)
        for step in steps
    ]


def closest(tried: Mapping[float, Curve], reference: Curve) -> float:
    """Return the step whose curve is nearest to another method's in the first tenth of the rounds."""
    first = reference.rounds <= INITIAL * reference.rounds[-1]
    wanted = reference.db[:, first].mean(axis=0)

    def off(step: float) -> float:
        at = np.searchsorted(tried[step].rounds, reference.rounds[first])  # shorter runs are recorded more often
        found = tried[step].db[:, at].mean(axis=0)
        return float(np.sum((found - wanted) ** 2)) if np.all(np.isfinite(found)) else np.inf

    return min(tried, key=off)


def lowest(tried: Mapping[float, Curve]) -> float:
    """Return the step whose curve ends lowest."""

    def end(step: float) -> float:
        found = float(tried[step].steady().mean())
        return found if np.isfinite(found) else np.inf

    return min(tried, key=end)


def labelled(curves: Sequence[Curve]) -> dict[str, Curve]:
    """Return curves by their labels."""
    return {curve.label: curve for curve in curves}
