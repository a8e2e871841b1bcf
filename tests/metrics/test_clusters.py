"""Deviations per client and cluster, and how well found clusters agree with the truth."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import DataError
from tacit.metrics import agreement, by_cluster, normalised_deviation

TARGETS = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]])


def test_a_deviation_is_a_share_of_the_targets_size():
    models = TARGETS + np.array([[0.0, 5.0], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(normalised_deviation(models, TARGETS), [1.0, 0.25, 0.0])
    np.testing.assert_allclose(normalised_deviation(jnp.zeros((2, 3, 2)), TARGETS), np.ones((2, 3)))


def test_repeats_may_have_their_own_targets():
    models = np.ones((2, 4, 3, 2))
    targets = np.stack([TARGETS, 2 * TARGETS])[:, None]
    found = normalised_deviation(models, targets)
    assert found.shape == (2, 4, 3)
    np.testing.assert_allclose(found[1, 0], np.sum((1 - 2 * TARGETS) ** 2, axis=1) / np.sum(4 * TARGETS**2, axis=1))


def test_a_model_beyond_all_numbers_deviates_by_infinity():
    models = TARGETS.copy()
    models[0], models[1, 0] = np.nan, np.inf
    np.testing.assert_array_equal(normalised_deviation(models, TARGETS), [np.inf, np.inf, 0.0])


@pytest.mark.parametrize(
    ("models", "targets", "words"),
    [
        (np.ones((3, 2)), np.ones((2, 2)), "one target per client"),
        (np.ones(3), np.ones(3), "clients, d"),
        (np.ones((3, 2)), np.ones((4, 3, 2)), "one target per client"),
        (np.ones((2, 3, 2)), np.ones((4, 3, 2)), "one target per client"),
        (np.ones((1, 2)), np.zeros((1, 2)), "zero"),
    ],
)
def test_deviations_of_what_does_not_fit_are_refused(models, targets, words):
    with pytest.raises(DataError, match=words):
        normalised_deviation(models, targets)


def test_clusters_have_the_means_of_their_own_clients():
    values = np.array([[1.0, 2.0, 3.0, 10.0], [0.0, 0.0, 1.0, 0.0]])
    np.testing.assert_allclose(by_cluster(values, [0, 1, 0, 1]), [[2.0, 6.0], [0.5, 0.0]])
    per_repeat = np.array([[0, 1, 0, 1], [0, 0, 1, 1]])
    np.testing.assert_allclose(by_cluster(values, per_repeat), [[2.0, 6.0], [0.0, 0.5]])
    np.testing.assert_allclose(by_cluster(jnp.asarray(values[0]), jnp.array([0, 0, 0, 0])), [4.0])


@pytest.mark.parametrize(
    ("values", "clusters", "words"),
    [
        (np.ones(3), [0, 1], "clients"),
        (np.ones((2, 3)), [[0, 1, 0]] * 3, "clients"),
        (np.ones(3), [0, 2, 0], "no client"),
        (np.ones(3), [0.0, 1.0, 0.0], "whole number"),
        (np.ones(3), [0, -1, 0], "from 0 on"),
        (np.ones(0), [], "per client"),
    ],
)
def test_clusters_that_do_not_fit_are_refused(values, clusters, words):
    with pytest.raises(DataError, match=words):
        by_cluster(values, np.asarray(clusters))


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.permutations(range(4)))
def test_names_of_clusters_do_not_matter(truth, names):
    renamed = [names[label] for label in truth]
    assert agreement(renamed, truth) == 1


def test_agreement_counts_the_clients_in_the_right_cluster():
    assert agreement([0, 0, 1, 1], [1, 1, 0, 1]) == 0.75
    assert agreement([0, 1, 2, 3], [0, 0, 0, 0]) == 0.25  # of several found for one, the best counts
    assert agreement(jnp.array([0, 0]), [0, 1]) == 0.5


def test_agreement_of_different_clients_is_refused():
    with pytest.raises(DataError, match="twice"):
        agreement([0, 1], [0, 1, 1])
    with pytest.raises(DataError, match="twice"):
        agreement([[0, 1]], [[0, 1]])
