from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ConfigError, DataError
from tacit.streams import partition


def assert_partition(parts: list[np.ndarray], rows: int, agents: int) -> None:
    assert len(parts) == agents
    assert min(len(part) for part in parts) >= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(rows))


sizes = st.integers(1, 12).flatmap(lambda agents: st.tuples(st.integers(agents, 80), st.just(agents)))
seeds = st.integers(0, 5)
fast = settings(max_examples=30, deadline=None, derandomize=True)


@fast
@given(sizes, seeds)
def test_iid_is_a_balanced_partition(size, seed) -> None:
    rows, agents = size
    parts = partition.iid(rows, agents, seed)
    assert_partition(parts, rows, agents)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@fast
@given(sizes, seeds, st.integers(1, 5), st.data())
def test_dirichlet_is_a_partition_without_empty_agents(size, seed, classes, data) -> None:
    rows, agents = size
    y = np.random.default_rng(seed).integers(0, classes, rows)
    alpha = data.draw(st.sampled_from([1e-3, 0.1, 1.0, 100.0]))
    assert_partition(partition.dirichlet(y, agents, alpha, seed), rows, agents)


@fast
@given(sizes, seeds, st.integers(1, 4))
def test_label_shards_are_a_partition(size, seed, shards) -> None:
    rows, agents = size
    y = np.random.default_rng(seed).integers(0, 3, rows * shards)
    assert_partition(partition.label_shards(y, agents, shards, seed), rows * shards, agents)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(sizes, seeds, st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.booleans())
def test_stochastic_adversarial_is_a_partition(size, seed, fraction, all_alike) -> None:
    rows, agents = size
    rows *= 2  # leaves enough rows for one per cluster
    x = np.ones((rows, 2)) if all_alike else np.random.default_rng(seed).normal(size=(rows, 2))
    assert_partition(partition.stochastic_adversarial(x, agents, fraction, seed), rows, agents)


def test_clusters_go_to_one_agent_each_and_the_rest_is_spread() -> None:
    rng = np.random.default_rng(0)
    blob = np.repeat(np.arange(4), 100)
    x = np.stack([np.cos(blob * np.pi / 2), np.sin(blob * np.pi / 2)], axis=1) * 10 + rng.normal(size=(400, 2))
    x[:, 1] *= 1e-3  # only standardised features show the blobs above and below
    held = [np.bincount(blob[part], minlength=4) for part in partition.stochastic_adversarial(x, 4, 0.0)]
    assert sorted(int(np.argmax(counts)) for counts in held) == [0, 1, 2, 3]
    assert all(counts.max() == counts.sum() for counts in held)
    for counts in (np.bincount(blob[part], minlength=4) for part in partition.stochastic_adversarial(x, 4, 1.0)):
        assert counts.sum() == 100
        assert counts.min() > 10
    mixed = [np.bincount(blob[part], minlength=4) for part in partition.stochastic_adversarial(x, 4, 0.5)]
    for counts in mixed:  # about 50 of its own cluster, and 50 from everywhere
        assert 30 <= np.sort(counts)[:3].sum() <= 60


def test_dirichlet_goes_from_one_class_to_all_alike() -> None:
    y = np.repeat(np.arange(5), 400)

    def largest_share(alpha: float) -> float:
        parts = partition.dirichlet(y, 10, alpha, seed=1)
        return float(np.mean([np.bincount(y[part]).max() / len(part) for part in parts]))

    assert largest_share(1000.0) < 0.25
    assert largest_share(0.05) > 0.6


def test_label_shards_limit_the_classes_of_an_agent() -> None:
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 100))
    parts = partition.label_shards(y, 50, 2)
    assert {len(part) for part in parts} == {20}
    assert max(len(np.unique(y[part])) for part in parts) <= 2


@pytest.mark.parametrize(
    "split",
    [
        lambda seed: partition.iid(60, 5, seed),
        lambda seed: partition.label_shards(np.arange(60) % 3, 5, 2, seed),
        lambda seed: partition.dirichlet(np.arange(60) % 3, 5, 0.5, seed),
        lambda seed: partition.stochastic_adversarial(np.arange(120.0).reshape(60, 2) % 17, 5, 0.5, seed),
    ],
)
def test_a_seed_decides_the_split(split) -> None:
    one, again, other = ([part.tolist() for part in split(seed)] for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize(
    ("split", "error", "message"),
    [
        (
            lambda: partition.iid(3, 4),
            DataError,
            "3 rows for 4 agents; expected at least one row each: use fewer",
        ),
        (lambda: partition.iid(3, 0), ConfigError, "agents=0"),
        (lambda: partition.iid(3, 2, seed=-1), ConfigError, "seed=-1"),
        (
            lambda: partition.label_shards([0, 1, 1], 2, 2),
            DataError,
            "2 agents x 2 shards; .* at least 4 rows",
        ),
        (lambda: partition.label_shards([[0], [1]], 2, 1), DataError, r"labels of shape \(2, 1\)"),
        (lambda: partition.dirichlet([0, 1, 1], 2, 0.0), ConfigError, "alpha=0.0"),
        (lambda: partition.stochastic_adversarial(np.ones((9, 1)), 2, 1.5), ConfigError, "fraction=1.5"),
        (
            lambda: partition.stochastic_adversarial(np.ones((9, 1)), 4, 0.8),
            DataError,
            "leaves 2 rows for 4 clusters.*use a smaller fraction",
        ),
        (
            lambda: partition.stochastic_adversarial(np.array([[1.0], [np.nan]]), 1, 0.5),
            DataError,
            "row 1 .*, column 0: the value is missing",
        ),
    ],
)
def test_splits_that_cannot_be_made_are_refused(split, error, message) -> None:
    with pytest.raises(error, match=message):
        split()
