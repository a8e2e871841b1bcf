"""Rows, errors and noise schemes of the studies of Rizk (2023) on ijcnn1, in place of its click-through data."""

import functools
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.streams.dataset import with_bias
from tacit_reproduction.datasets.ijcnn1 import ijcnn1
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.rizk.diffusion import WORDS
from tacit_reproduction.study import Judgement
from tacit_reproduction.table import Floats, Results, Row, late
from tacit_reproduction.verdict import Claim, Pair, below, headline, judged, not_worse

SHOWN = ("none", "homomorphic", "random", "local")
AT_ONCE = 100  # models that are judged together, so that their scores fit into memory
DATA_NOISE = 0.5
"""An agent's features get Gaussian noise of its own standard deviation, uniform from 0 to this; columns have 1."""


class Samples(NamedTuple):  # rows, the last column of which is a constant
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.float32]
    description: str


@functools.cache
def load(standardised: bool = True) -> Samples:
    """Load ijcnn1, its columns as published or of mean 0 and deviation 1 on the training rows."""
    data = ijcnn1()
    (train, test), x = (data.parts[part] for part in ("train", "test")), data.x
    if standardised:
        x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    x = with_bias(x.astype(np.float32))
    return Samples(x[train], data.y[train], x[test], data.y[test], data.description)


def facts(quick: bool) -> dict[str, Any]:
    samples, rows = load(), 2 * int((load().y > 0).sum())
    return {"data": f"{samples.description}: {rows:,} of {len(samples.y):,} training rows, all test rows."}


def balanced_rows(samples: Samples, rng: np.random.Generator) -> Any:
    """Return all positive rows, and as many others at random: always saying no is then wrong on half of them."""
    rare = np.flatnonzero(samples.y > 0)
    return np.concatenate([rare, rng.choice(np.flatnonzero(samples.y < 0), len(rare), replace=False)])


def balanced_error(weights: Any, samples: Samples) -> Floats:
    """Return the mean of the two classes' test errors of models (..., columns) in per cent; a margin of 0 is wrong."""
    flat = np.asarray(weights, np.float32).reshape(-1, weights.shape[-1])
    positive = samples.test_y > 0
    found = []
    for begin in range(0, len(flat), AT_ONCE):
        wrong = samples.test_y[:, None] * (samples.test_x @ flat[begin:][:AT_ONCE].T) <= 0
        found.append(50 * (wrong[positive].mean(axis=0) + wrong[~positive].mean(axis=0)))
    return np.asarray(np.concatenate(found).reshape(weights.shape[:-1]), np.float64)


def noisier(x: Any, own: Any, rng: np.random.Generator) -> None:
    """Add each agent's noise to the features of its rows; the last column is the constant."""
    for held, size in zip(own, rng.uniform(0, DATA_NOISE, len(own)), strict=True):
        x[held, :-1] += (size * rng.standard_normal((len(held), x.shape[1] - 1))).astype(x.dtype)


def errors(rounds: Any, models: Any, last: int, samples: Samples) -> dict[str, Any]:
    """Return errors of the mean of models (seeds, points, agents, columns), and of each at the last points."""
    centroid = balanced_error(models.mean(axis=2), samples)
    individual = balanced_error(models[:, -last:], samples).mean(axis=(1, 2))
    return {"rounds": rounds, "centroid": centroid, "settled": late(centroid), "individual": individual}


def digest(models: Any) -> NDArray[np.uint8]:
    return np.frombuffer(hashlib.sha256(models.tobytes()).digest(), np.uint8)


def schemes(results: Results, place: str, whose: str, more: Sequence[Claim] = ()) -> Judgement:
    """Judge schemes of noise by "settled" errors of the centroid and "individual" ones: the last claim is our own."""
    shown = results.where(noise=SHOWN)
    settled, own = ({n: shown.of(name, noise=n) for n in shown.levels("noise")} for name in ("settled", "individual"))
    text = f"{place}, on Avazu: graph-homomorphic noise does not hinder the test error, random noise does"
    near = "The centroid's test error under graph-homomorphic noise is no worse than without noise"
    low = "The centroid's test error is lower without noise, and under graph-homomorphic noise, than under random noise"
    order = f"The {whose} have a lower test error under graph-homomorphic than under random noise"
    apart = [Pair(WORDS[noise], settled[noise], settled["random"]) for noise in ("none", "homomorphic")]
    models = (("centroid", settled), (f"{whose}, mean", own))
    both = Results(Row({"noise": n, "model": name}, {"error": of[n]}) for name, of in models for n in of)
    close, words = Pair("", settled["homomorphic"], settled["none"]), {"unit": " %", "text": text, "seen_in": "rounds"}
    claims = [
        not_worse(near, close, **words), judged(low, apart, below(), **words),
        judged(order, Pair("", own["homomorphic"], own["random"]), below(), unit=" %", seen_in="schemes")]  # fmt: skip
    y: dict[str, Any] = {"lines": "noise", "y": "test error (%)", "words": WORDS}
    figures = [
        curves(shown, "rounds", "Test error of the centroid", f"As {place}: mean of both classes.", "centroid", **y),
        dots(both, "schemes", "Test error by scheme", "At the end of the runs.", "error", x="model", **y),
    ]
    ours = ", ".join(f"{WORDS[noise]} {values.mean():.1f} %" for noise, values in settled.items())
    told = headline(
        "Noise that cancels over the graph costs no test error, random noise does", place=place,
        text="curves on Avazu: graph-homomorphic beside no noise, random above both", ours=ours,
        why="Noise that sums to nothing is not seen by the centroid of all models; ijcnn1 stands in for Avazu.",
        claims=[*more, *claims[:-1]], seen_in="rounds")  # fmt: skip
    return Judgement([*more, *claims], [told], figures)
