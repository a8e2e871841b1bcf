"""Clusters found from released vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.algorithms import find_clusters
from tacit.core.errors import ConfigError, DataError
from tacit.metrics import agreement


def blobs(centres: np.ndarray, each: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    labels = draws.permutation(np.repeat(np.arange(len(centres)), each))
    return centres[labels] + noise * draws.normal(size=(len(labels), centres.shape[1])), labels


def on_a_line(d: int = 20) -> np.ndarray:
    return np.outer([-3.0, 0.0, 4.0], np.ones(d) / np.sqrt(d))


def test_clusters_that_are_apart_are_found_to_a_client():
    values, truth = blobs(on_a_line(), 20, 0.2)
    found = find_clusters(values, 3, seed=1)
    assert agreement(found.labels, truth) == 1
    assert found.labels[0] == 0  # named in the order of their first client
    assert found.explained > 0.95


def test_only_directions_that_stand_out_of_chance_are_used():
    line, _ = blobs(on_a_line(), 20, 0.2)
    corner = np.zeros((3, 20))
    corner[1, 0] = corner[2, 1] = 4.0
    plane, truth = blobs(corner, 20, 0.2)
    assert find_clusters(line, 3, seed=0).directions == 1
    found = find_clusters(plane, 3, seed=0)
    assert (found.directions, agreement(found.labels, truth)) == (2, 1.0)


def test_differences_in_single_coordinates_stand_out_too():
    cross = np.zeros((4, 20))
    cross[0, 0], cross[1, 0], cross[2, 1], cross[3, 1] = 4.0, -4.0, 2.0, -2.0
    values, truth = blobs(cross, 20, 0.2)
    found = find_clusters(values, 4, seed=0)
    assert (found.directions, agreement(found.labels, truth)) == (2, 1.0)


@pytest.mark.covered_by("the directions of blobs, above")
def test_noise_in_many_coordinates_does_not_hide_one_direction():
    # k-means in all 200 coordinates gets 4 in 10 right here: the noise is 14 times as long as the difference.
    centres = np.zeros((2, 200))
    centres[:, 7] = -2.5, 2.5
    values, truth = blobs(centres, 60, 1.0)
    assert agreement(find_clusters(values, 2, seed=0).labels, truth) > 0.95


def test_unreliable_clients_count_less():
    centres = np.zeros((2, 10))
    centres[:, 0] = -1.0, 1.0
    values, truth = blobs(centres, 30, 0.1)
    wild = np.arange(60) % 5 == 0
    values[wild, 1] += 30 * np.random.default_rng(3).normal(size=wild.sum())
    weighed = find_clusters(values, 2, seed=0, weight=np.where(wild, 1e-6, 1.0))
    alike = find_clusters(values, 2, seed=0)
    assert agreement(weighed.labels[~wild], truth[~wild]) == 1
    assert agreement(alike.labels[~wild], truth[~wild]) < 0.9


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_the_same_arguments_give_the_same_clusters_and_none_is_empty(clusters, seed, equal):
    values = np.ones((6, 3)) if equal else np.random.default_rng(seed).normal(size=(6, 3))
    first, second = (find_clusters(values, clusters, seed) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    assert set(first.labels.tolist()) == set(range(clusters))
    assert 0 <= first.explained <= 1


@pytest.mark.parametrize(
    ("released", "clusters", "weight", "fault", "words"),
    [
        (np.ones(5), 2, None, DataError, "clients, d"),
        (np.full((5, 2), np.nan), 2, None, DataError, "finite"),
        (np.ones((5, 2)), 0, None, ConfigError, "from 1 to 5"),
        (np.ones((5, 2)), 6, None, ConfigError, "from 1 to 5"),
        (np.ones((5, 2)), True, None, ConfigError, "clusters = True"),
        (np.ones((5, 2)), 2, np.ones(4), DataError, "5 clients"),
        (np.ones((5, 2)), 2, np.zeros(5), DataError, "above 0"),
    ],
)
def test_what_cannot_be_grouped_is_refused(released, clusters, weight, fault, words):
    with pytest.raises(fault, match=words):
        find_clusters(released, clusters, 0, weight)
