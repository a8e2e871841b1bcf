"""Repeats in which nothing is random."""

from __future__ import annotations

import warnings

import pytest

from tacit import algorithms, graphs, objectives, streams
from tacit.core.errors import TacitWarning
from tacit.simulator import simulate


def test_repeats_that_are_all_the_same_are_told() -> None:
    """One graph, one stream and no noise: all repeats are one. With data of their own they are not."""
    method, ring, fixed = algorithms.local_online(objectives.logistic()), graphs.ring(4), streams.logistic_drift(4, 2)
    with pytest.warns(TacitWarning, match="repeats = 3"):
        simulate(method, ring, fixed, rounds=2, repeats=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(method, ring, lambda seed: streams.logistic_drift(4, 2, seed=seed), rounds=2, repeats=3)
        simulate(method, ring, fixed, rounds=2)
