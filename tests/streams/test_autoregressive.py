"""The processes, samples and arrivals of Gauthier (2023), sec. 4.4.1, against transcriptions of the text."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.core.errors import ConfigError, DataError
from tacit.streams import AutoregressiveStream, Batch, Stream, autoregressive
from tacit.streams.arrivals import draw_arrivals

AGENTS, SAMPLES, ROUNDS = 7, (20, 40, 60), 90


@pytest.fixture(scope="module")
def stream() -> AutoregressiveStream:
    return autoregressive(AGENTS, samples=SAMPLES, rounds=ROUNDS, seed=3)


@pytest.fixture(scope="module")
def one() -> AutoregressiveStream:
    """One long process with known parameters and next to no noise: (theta, mean, variance) = (0.6, -0.3, 0.5)."""
    known = {"theta": (0.6, 0.6), "mean": (-0.3, -0.3), "variance": (0.5, 0.5), "noise_variance": (0.0, 0.0)}
    return autoregressive(1, samples=[40_000], rounds=40_000, seed=1, **known)


def own(stream: Stream, agent: int) -> tuple[np.ndarray, np.ndarray]:
    """One agent's samples in the order in which they come."""
    x, y, weight = stream.chunk(0, stream.rounds)
    here = weight[:, agent] > 0
    return x[here, agent].astype(np.float64), y[here, agent].astype(np.float64)


def noiseless(x: np.ndarray) -> np.ndarray:
    """(4.35) with the parentheses around the factor of x[3], entry by entry and counted from 1 as in the text."""
    labels = []
    for row in x:
        entry = dict(enumerate(row, start=1))
        root = math.sqrt(entry[1] ** 2 + math.sin(math.pi * entry[4]) ** 2)
        labels.append(root + (0.8 - 0.5 * math.exp(-(entry[2] ** 2))) * entry[3])
    return np.array(labels)


def test_moments_of_the_process(one) -> None:
    process = own(one, 0)[0][:, 0]
    # A mean over n values of an AR(1) has variance s (1 + theta) / (1 - theta) / n, a variance about
    # 2 s^2 (1 + theta^2) / (1 - theta^2) / n, a correlation (1 - theta^2) / n. 5 deviations: false alarms in less than
    # 2e-6 of all seeds.
    n, theta, s = len(process), 0.6, 0.5
    assert abs(process.mean() + 0.3 * 2) < 5 * math.sqrt(s * 4 / n)  # sqrt((1 + 0.6) / (1 - 0.6)) = 2
    assert abs(process.var() - s) < 5 * s * math.sqrt(2 * (1 + theta**2) / (1 - theta**2) / n)
    assert abs(np.corrcoef(process[1:], process[:-1])[0, 1] - theta) < 5 * math.sqrt((1 - theta**2) / n)
    drive = (process[1:] - theta * process[:-1]) / math.sqrt(1 - theta**2)
    assert abs(drive.mean() + 0.3) < 5 * math.sqrt(s / n)
    assert abs(np.corrcoef(drive[1:], drive[:-1])[0, 1]) < 5 / math.sqrt(n)


def test_the_process_begins_in_its_long_run() -> None:
    known = {"theta": (0.9, 0.9), "mean": (0.2, 0.2), "variance": (1.0, 1.0)}
    x = autoregressive(4000, samples=[1], rounds=1, seed=2, **known).chunk(0, 1).x[0]
    # Oldest value first; 5 deviations over 4,000 agents: false alarms in less than 1e-5 of all seeds.
    for value in x[:, [2, 3, 1, 0]].T:
        assert abs(value.mean() - 0.2 * math.sqrt(19)) < 5 / math.sqrt(4000)
        assert abs(value.var() - 1) < 5 * math.sqrt(2 / 4000)


def test_the_lags_are_those_of_the_text(one) -> None:
    x = own(one, 0)[0][:1000]
    process = x[:, 0]
    for n in range(4, len(x)):
        expected = [process[n], process[n - 1], process[n - 4], process[n - 3]]
        np.testing.assert_array_equal(x[n], expected)


def test_labels_without_noise_are_435(one) -> None:
    x, y = own(one, 0)
    np.testing.assert_allclose(y[:2000], noiseless(x[:2000]), atol=2e-6)
    fresh = one.test(300)
    np.testing.assert_allclose(fresh.y, noiseless(fresh.x.astype(np.float64)), atol=2e-6)


def test_the_noise_has_the_variance_that_is_told() -> None:
    stream = autoregressive(3, samples=[4000], rounds=4000, seed=5)
    fresh = stream.test(12_000)
    for agent in range(3):
        x, y = own(stream, agent)
        share = [(x, y), (fresh.x[agent::3].astype(np.float64), fresh.y[agent::3])]
        for inputs, labels in share:
            noise = labels - noiseless(inputs)
            # 5 deviations: false alarms in less than 1e-5 of all seeds.
            assert abs(noise.mean()) < 5 * math.sqrt(stream.noise_variance[agent] / 4000)
            assert abs(noise.var() / stream.noise_variance[agent] - 1) < 5 * math.sqrt(2 / 4000)


def test_parameters_fill_the_ranges_of_the_text() -> None:
    stream = autoregressive(2000, samples=[1], rounds=1)
    ranges = {"theta": (0.2, 0.9), "mean": (-0.2, 0.2), "variance": (0.2, 1.2), "noise_variance": (0.005, 0.03)}
    for name, (low, high) in ranges.items():
        values = getattr(stream, name)
        # Both hundredths at the ends are hit but in 2 * 0.99^2000 < 1e-8 of all seeds.
        margin = 0.01 * (high - low)
        assert low <= values.min() < low + margin
        assert high - margin < values.max() <= high


def test_samples_arrive_in_as_many_rounds(stream) -> None:
    sizes = [20, 40, 60, 20, 40, 60, 20]
    assert stream.arrivals.shape == (ROUNDS, AGENTS)
    assert stream.arrivals.dtype == np.bool_
    np.testing.assert_array_equal(stream.arrivals.sum(axis=0), sizes)
    np.testing.assert_array_equal(stream.data_size, sizes)
    assert stream.data_size.dtype == np.int32
    assert (stream.agents, stream.rounds, stream.period) == (AGENTS, ROUNDS, ROUNDS)
    np.testing.assert_array_equal(stream.reads(ROUNDS), np.ones(AGENTS))
    assert "260 samples (20, 40, 60 by group)" in stream.description


def test_a_round_without_a_sample_is_empty(stream) -> None:
    x, y, weight = stream.chunk(0, ROUNDS)
    np.testing.assert_array_equal(weight, stream.arrivals)
    assert not x[~stream.arrivals].any()
    assert not y[~stream.arrivals].any()
    assert x[stream.arrivals].all(axis=1).all()
    spec = stream.batch_spec()
    for leaf, expected in zip((x, y, weight), spec, strict=True):
        assert (leaf.shape[2:], leaf.dtype) == (expected.shape, expected.dtype)


def test_any_round_is_as_likely() -> None:
    arrivals = draw_arrivals(np.array([3] * 4000), 10, np.random.default_rng(0))
    # 20 counts of rounds and pairs of rounds at 5 deviations: false alarms in less than 2e-5 of all seeds.
    assert np.abs(arrivals.mean(axis=1) - 0.3).max() < 5 * math.sqrt(0.3 * 0.7 / 4000)
    both = (arrivals & np.roll(arrivals, 1, axis=0)).mean(axis=1)
    together = 3 / 10 * 2 / 9
    assert np.abs(both - together).max() < 5 * math.sqrt(together * (1 - together) / 4000)


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (17, 60), (89, 90), (30, 30)])
def test_any_slice_equals_the_whole(stream, start, stop) -> None:
    for part, whole in zip(stream.chunk(start, stop), stream.chunk(0, ROUNDS), strict=True):
        np.testing.assert_array_equal(part, whole[start:stop])


def test_seeds(stream) -> None:
    same = autoregressive(AGENTS, samples=list(SAMPLES), rounds=ROUNDS, seed=3)
    other = autoregressive(AGENTS, samples=SAMPLES, rounds=ROUNDS, seed=4)
    for mine, equal, different in zip(stream.chunk(0, 90), same.chunk(0, 90), other.chunk(0, 90), strict=True):
        np.testing.assert_array_equal(mine, equal)
        assert not np.array_equal(mine, different)
    assert not np.array_equal(stream.theta, other.theta)
    alike = {"samples": [9], "rounds": 9, "theta": (0.5, 0.5), "mean": (0, 0), "variance": (1, 1)}
    first, second = (autoregressive(2, seed=seed, **alike).chunk(0, 9).x for seed in (0, 1))
    assert not np.isin(first, second).any()
    quiet = autoregressive(AGENTS, samples=SAMPLES, rounds=ROUNDS, seed=3, noise_variance=(0, 0))
    np.testing.assert_array_equal(quiet.chunk(0, 90).x, stream.chunk(0, 90).x)


def test_agents_have_processes_of_their_own(stream) -> None:
    first, second = own(stream, 2)[0][:, 0], own(stream, 5)[0][:, 0]
    assert len(np.intersect1d(first, second)) == 0


def test_fresh_samples_come_from_all_agents(stream) -> None:
    fresh = stream.test(2 * AGENTS)
    assert isinstance(fresh, Batch)
    assert (fresh.x.shape, fresh.y.shape, fresh.weight) == ((14, 4), (14,), None)
    assert fresh.x.dtype == fresh.y.dtype == np.float32
    assert len(np.intersect1d(fresh.x, stream.chunk(0, ROUNDS).x)) == 0
    assert len(np.unique(fresh.x)) == 14 * 4
    np.testing.assert_array_equal(stream.test(14).y, fresh.y)
    assert not np.array_equal(stream.test(14, seed=1).y, fresh.y)
    # Here a value tells whose process it is of: means are far apart, and 2 is 6 deviations.
    far = autoregressive(3, samples=[1], rounds=1, seed=1, mean=(-50, 50), variance=(0.1, 0.1), theta=(0.5, 0.5))
    means = far.mean * math.sqrt(3)
    assert np.diff(np.sort(means)).min() > 4
    np.testing.assert_allclose(far.test(6).x[:, 0], np.tile(means, 2), atol=2)


def test_fresh_samples_hang_together_as_the_process_does(one) -> None:
    n, theta = 20_000, 0.6
    lag = np.array([0, 1, 4, 3])
    found = np.corrcoef(one.test(n).x.T)
    # A correlation's deviation is at most 1 / sqrt(n); 5 of them for 6 pairs: false alarms below 4e-6 of all seeds.
    assert np.abs(found - theta ** np.abs(lag - lag[:, None])).max() < 5 / math.sqrt(n)


def test_other_streams_bring_samples_to_all() -> None:
    assert Stream.arrivals is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": (5, 91)}, "agent 1 has 91 samples, but there are 90 rounds .* at least 91 rounds: run longer"),
        ({"samples": ()}, r"samples=\(\): expected one whole number per data group"),
        ({"samples": 500}, "samples=500: expected one whole number per data group"),
        ({"samples": (5, 0)}, r"samples\[1\] = 0: expected a whole number of at least 1"),
        ({"agents": 0}, "agents = 0: expected a whole number of at least 1"),
        ({"rounds": 0}, "rounds = 0: expected a whole number of at least 1"),
        ({"seed": -1}, "seed = -1: expected a whole number of at least 0"),
        ({"theta": (0.5, 1.0)}, r"theta=\(0.5, 1.0\): expected a range within \(-1, 1\)"),
        ({"mean": (1, 0)}, r"mean=\(1, 0\): expected a range of finite numbers"),
        ({"variance": (-1, 1)}, r"variance=\(-1, 1\): expected a range of variances"),
        ({"noise_variance": (0, math.inf)}, r"noise_variance=\(0, inf\): expected a range of variances"),
    ],
)
def test_bad_settings_are_refused(settings, message) -> None:
    with pytest.raises(ConfigError, match=message):
        autoregressive(**({"agents": 2, "samples": (5, 6), "rounds": 90} | settings))


def test_rounds_that_are_not_there_are_refused(stream) -> None:
    with pytest.raises(DataError, match="rounds 80 to 91 .*0 to 90"):
        stream.chunk(80, 91)
    with pytest.raises(ConfigError, match="count = 0"):
        stream.test(0)
    with pytest.raises(ConfigError, match="seed = -1"):
        stream.test(1, seed=-1)
