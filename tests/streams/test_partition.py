from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import ConfigError, DataError
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


@fast
@given(st.integers(1, 9), st.integers(1, 7), seeds, st.data())
def test_few_classes_gives_every_agent_just_so_many(agents, classes, seed, data) -> None:
    each = data.draw(st.integers(-(-classes // agents), classes), "classes of an agent")
    rows = data.draw(st.lists(st.integers(agents, 4 * agents), min_size=classes, max_size=classes), "rows of a class")
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(classes) * 3 - 1, rows))
    parts = partition.few_classes(y, agents, each, seed)
    assert_partition(parts, len(y), agents)
    assert {len(np.unique(y[part])) for part in parts} == {each}
    pieces = [[int(n) for part in parts if (n := np.sum(y[part] == label))] for label in np.unique(y)]
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
    assert all(max(sizes) - min(sizes) <= 1 for sizes in pieces)


def test_two_digits_each_of_classes_as_unequal_as_those_of_mnist() -> None:
    y = np.repeat(np.arange(10), [593, 675, 596, 614, 585, 543, 592, 627, 586, 595])
    assert {len(set(y[part])) for part in partition.label_shards(y, 10, 2)} != {2}
    held = [tuple(np.unique(y[part])) for part in partition.few_classes(y, 10, 2)]
    assert {len(digits) for digits in held} == {2}
    assert np.bincount(np.concatenate(held)).tolist() == [2] * 10


@fast
@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 20), st.floats(0, 1.5), seeds)
def test_random_sizes_keep_their_range_and_the_rows(agents, smallest, width, plenty, seed) -> None:
    largest = smallest + width
    rows = agents * smallest + int(plenty * agents * width)
    sizes = partition.random_sizes(rows, agents, smallest, largest, seed)
    assert len(sizes) == agents
    assert smallest <= sizes.min() <= sizes.max() <= largest
    assert sizes.sum() <= rows
    wanted = partition.random_sizes(agents * largest, agents, smallest, largest, seed)
    if wanted.sum() <= rows:
        np.testing.assert_array_equal(sizes, wanted)  # more rows change nothing
    else:
        assert sizes.sum() == rows
        assert (sizes <= wanted).all()
        assert not ((wanted[:, None] < wanted) & (sizes[:, None] > sizes)).any()  # who drew more gets no less


def test_random_sizes_are_uniform_where_rows_suffice() -> None:
    """A chi-square test of 20,000 sizes on 7 values; at 40.5 the false-alarm rate is below 1e-6."""
    sizes = partition.random_sizes(10**6, 20_000, 3, 9)
    counts = np.bincount(sizes)[3:]
    assert len(counts) == 7
    assert ((counts - 20_000 / 7) ** 2 / (20_000 / 7)).sum() < 40.5


def test_the_sizes_of_the_text() -> None:
    """Rizk (2023), sec. 2.6.2: 35,000 rows, 100 agents, 79 to 688 rows each."""
    sizes = np.array([partition.random_sizes(35_000, 100, 79, 688, seed) for seed in range(20)])
    assert (sizes.sum(axis=1) <= 35_000).all()
    assert (sizes.sum(axis=1) == 35_000).sum() >= 15
    assert sizes.min() < 85
    assert sizes.max() > 680


@fast
@given(st.integers(1, 8), st.integers(1, 4), st.sampled_from([1e-8, 1e-2, 1.0, 1e6]), seeds, st.booleans())
def test_unequal_gives_each_agent_its_size_without_repetition(agents, classes, alpha, seed, scarce) -> None:
    rows = agents * (4 if scarce else 20)
    y = np.random.default_rng(seed).integers(0, classes, rows) * 3 - 1
    parts = partition.unequal(y, agents, 2, 9, alpha, seed)
    sizes = partition.random_sizes(rows, agents, 2, 9, seed)
    np.testing.assert_array_equal([len(part) for part in parts], sizes)
    held = np.concatenate(parts)
    assert len(np.unique(held)) == len(held)
    assert 0 <= held.min() <= held.max() < rows
    assert all((np.diff(part) > 0).all() for part in parts)


def test_unequal_mixes_have_the_spread_of_their_alpha() -> None:
    """Shares of a class in 400 agents with rows enough: their mean and variance are those of Dirichlet(alpha q).

    Bounds are 6 standard errors of the mean and about as many of the variance: no false alarm in 1e6 runs.
    """
    y = np.repeat([1, 3, 4, 5, 8], [20_000, 45_000, 45_000, 45_000, 45_000])
    for alpha in (1.0, 9.0, 1e6):
        parts = partition.unequal(y, 400, 80, 120, alpha)
        shares = np.array([(y[part] == 1).mean() for part in parts])
        # Of N = 100 rows each: beta-binomial, variance q (1 - q) (1 / (alpha + 1) + alpha / (alpha + 1) / N).
        variance = 0.09 * (1 / (alpha + 1) + alpha / (alpha + 1) / 100)
        assert abs(shares.mean() - 0.1) < 6 * np.sqrt(variance / 400)
        assert 0.5 < shares.var() / variance < 1.8
        rows = np.concatenate(parts)
        ones = rows[y[rows] == 1]  # any of the 20,000, not just the first ones
        assert abs(ones.mean() - 10_000) < 6 * np.sqrt(20_000**2 / 12 / len(ones))


def test_unequal_treats_first_and_last_agents_alike() -> None:
    """All rows are needed: what is left over at the end must not go to the agents that come last.

    The ratio of two variances from 200 draws each has a logarithm of deviation 0.14; ln 2.4 is 6 of them.
    """
    y = np.arange(400) % 2
    drawn = (partition.unequal(y, 10, 40, 40, 1e6, seed) for seed in range(200))
    first, last = np.transpose([[y[parts[0]].mean(), y[parts[-1]].mean()] for parts in drawn])
    assert 1 / 2.4 < last.var() / first.var() < 2.4


def test_unequal_uses_up_all_rows_where_they_are_scarce() -> None:
    y = np.arange(400) % 2
    parts = partition.unequal(y, 10, 5, 80, 0.01, seed=1)
    assert sum(map(len, parts)) == 400  # so half of what they hold is of either class, though mixes are one-sided
    shares = np.array([y[part].mean() for part in parts])
    assert ((shares < 0.1) | (shares > 0.9)).sum() >= 4


@pytest.mark.parametrize(
    "split",
    [
        lambda seed: partition.iid(60, 5, seed),
        lambda seed: partition.label_shards(np.arange(60) % 3, 5, 2, seed),
        lambda seed: partition.few_classes(np.arange(60) % 3, 5, 2, seed),
        lambda seed: partition.dirichlet(np.arange(60) % 3, 5, 0.5, seed),
        lambda seed: partition.random_sizes(60, 5, 3, 30, seed),
        lambda seed: partition.unequal(np.arange(60) % 3, 5, 6, 6, 0.5, seed),
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
        (lambda: partition.iid(3, 0), ConfigError, "agents = 0"),
        (lambda: partition.iid(3, 2, seed=-1), ConfigError, "seed = -1"),
        (
            lambda: partition.label_shards([0, 1, 1], 2, 2),
            DataError,
            "2 agents x 2 shards; .* at least 4 rows",
        ),
        (lambda: partition.label_shards([[0], [1]], 2, 1), DataError, r"labels of shape \(2, 1\)"),
        (lambda: partition.few_classes([0, 1, 2, 0], 2, 4), ConfigError, "classes_per_agent = 4.* 3 classes"),
        (lambda: partition.few_classes([0, 1, 2, 0], 2, 1), DataError, "1 of 3 classes; use more"),
        (lambda: partition.few_classes([0, 0, 0, 5], 3, 2), DataError, "class 5 has 1 rows for 3 agents"),
        (lambda: partition.dirichlet([0, 1, 1], 2, 0.0), ConfigError, "alpha = 0.0"),
        (lambda: partition.unequal([0, 1, 1], 2, 1, 2, np.inf), ConfigError, "alpha = inf"),
        (lambda: partition.unequal([[0], [1]], 2, 1, 2, 1.0), DataError, r"labels of shape \(2, 1\)"),
        (
            lambda: partition.unequal([0, 1, 1], 2, 2, 3, 1.0),
            DataError,
            "3 rows for 2 agents with at least 2 each; expected at least 4 rows: use fewer agents",
        ),
        (lambda: partition.random_sizes(9, 2, 0, 3), ConfigError, "smallest = 0"),
        (lambda: partition.random_sizes(9, 2, 3, 2), ConfigError, "smallest=3, largest=2: expected a range"),
        (lambda: partition.stochastic_adversarial(np.ones((9, 1)), 2, 1.5), ConfigError, "fraction = 1.5"),
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
