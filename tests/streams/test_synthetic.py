from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import ConfigError
from tacit.streams import linear_drift, logistic_drift

MAKERS = pytest.mark.parametrize("make", [linear_drift, logistic_drift])


@MAKERS
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    agents=st.integers(1, 5),
    dim=st.integers(1, 7),
    batch=st.integers(1, 3),
    start=st.integers(0, 60),
    length=st.integers(0, 60),
    repeat=st.none() | st.integers(1, 50),
    block=st.sampled_from([1, 100, 1 << 16]),
)
def test_any_slice_is_that_slice_of_the_whole(make, *, agents, dim, batch, start, length, repeat, block) -> None:
    settings = {"drift": 0.1, "heterogeneity": 0.5, "batch": batch, "repeat_every": repeat, "seed": 3}
    with pytest.MonkeyPatch.context() as patch:
        # Small blocks of rounds, so that slices begin, end and wrap around inside of them.
        patch.setattr("tacit.streams.synthetic.BLOCK_VALUES", block)
        whole = make(agents, dim, **settings).chunk(0, 120)
        part = make(agents, dim, **settings).chunk(start, start + length)
    for all_rounds, some in zip(whole[:2], part[:2], strict=True):
        np.testing.assert_array_equal(all_rounds[start : start + length], some)


@MAKERS
def test_batches_fit_their_spec(make) -> None:
    for batch, lead in ((1, ()), (4, (4,))):
        stream = make(3, 5, batch=batch)
        spec, chunk = stream.batch_spec(), stream.chunk(2, 9)
        assert (spec.x.shape, spec.y.shape, spec.weight) == ((*lead, 5), lead, None)
        assert (chunk.x.shape, chunk.y.shape) == ((7, 3, *lead, 5), (7, 3, *lead))
        assert chunk.x.dtype == chunk.y.dtype == spec.x.dtype == spec.y.dtype == np.float32


@MAKERS
def test_repeating_streams_repeat_and_count_their_samples(make) -> None:
    stream = make(2, 3, repeat_every=5, drift=0.3, batch=2)
    assert (stream.rounds, stream.period) == (None, 5)
    np.testing.assert_array_equal(stream.data_size, [10, 10])
    for first, later in zip(stream.chunk(1, 4)[:2], stream.chunk(11, 14)[:2], strict=True):
        np.testing.assert_array_equal(first, later)
    np.testing.assert_array_equal(stream.truth(1, 4), stream.truth(11, 14))
    assert "repeating every 5 rounds" in stream.description


@MAKERS
def test_finite_and_endless_streams_say_so(make) -> None:
    endless, finite = make(2, 3), make(2, 3, rounds=8)
    assert (endless.rounds, endless.period, endless.data_size.tolist()) == (None, None, [0, 0])
    assert (finite.rounds, finite.period, finite.data_size.tolist()) == (8, 8, [8, 8])
    np.testing.assert_array_equal(endless.chunk(0, 8).x, finite.chunk(0, 8).x)


def test_features_look_standard_normal_over_root_dim() -> None:
    x = linear_drift(50, 16).chunk(0, 400).x * 4
    assert abs(x.mean()) < 0.01
    assert abs(x.std() - 1) < 0.01
    assert abs((x**4).mean() - 3) < 0.1  # kurtosis
    correlation = np.corrcoef(x.reshape(-1, 16).T) - np.eye(16)
    assert np.abs(correlation).max() < 0.05
    across_agents = np.corrcoef(x[:, :, 0].T) - np.eye(50)
    assert np.abs(across_agents).max() < 0.3


def test_linear_labels_are_the_truth_plus_the_stated_noise() -> None:
    stream = linear_drift(20, 6, noise=0.25, drift=0.02)
    chunk = stream.chunk(30, 530)
    residual = chunk.y - np.einsum("tad,td->ta", chunk.x, stream.truth(30, 530))
    assert abs(residual.std() - 0.25) < 0.01
    assert abs(residual.mean()) < 0.01


def test_without_noise_linear_labels_are_exact() -> None:
    stream = linear_drift(4, 6, noise=0.0)
    chunk = stream.chunk(0, 50)
    np.testing.assert_allclose(chunk.y, chunk.x @ stream.truth(0, 1)[0], atol=1e-5)


def test_heterogeneity_moves_each_agents_own_parameter() -> None:
    stream = linear_drift(3, 4, noise=0.0, heterogeneity=2.0)
    chunk = stream.chunk(0, 200)
    own = [np.linalg.lstsq(chunk.x[:, a], chunk.y[:, a], rcond=None)[0] for a in range(3)]
    gaps = [np.linalg.norm(w - stream.truth(0, 1)[0]) for w in own]
    assert min(gaps) > 0.5
    assert np.linalg.norm(own[0] - own[1]) > 0.5


def test_logistic_labels_follow_the_sigmoid() -> None:
    stream = logistic_drift(50, 8, noise=0.5)
    chunk = stream.chunk(0, 800)
    assert set(np.unique(chunk.y)) == {-1.0, 1.0}
    margin = chunk.x @ stream.truth(0, 1)[0]
    for low, high in ((-2, -1), (-0.5, 0), (0, 0.5), (1, 2)):
        inside = (margin > low) & (margin < high)
        expected = (1 / (1 + np.exp(-margin[inside] / 0.5))).mean()
        assert abs((chunk.y[inside] > 0).mean() - expected) < 0.02


def test_without_noise_logistic_labels_are_separable() -> None:
    stream = logistic_drift(4, 6, noise=0.0)
    chunk = stream.chunk(0, 100)
    assert (chunk.y * (chunk.x @ stream.truth(0, 1)[0]) > -1e-5).all()


def test_the_truth_turns_at_constant_speed_and_length() -> None:
    truth = linear_drift(2, 9, drift=0.01).truth(0, 1000).astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(truth, axis=1), 3, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(np.diff(truth, axis=0), axis=1), 2 * 3 * np.sin(0.005), rtol=1e-3)


def test_seeds_differ_and_agree() -> None:
    one, again, other = (linear_drift(2, 3, seed=s).chunk(0, 5) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.y, again.y)
    assert not np.isclose(one.x, other.x).any()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"agents": 0}, "agents = 0: expected a whole number of at least 1"),
        ({"dim": 0}, "dim = 0"),
        ({"batch": 0}, "batch = 0"),
        ({"rounds": 0}, "rounds = 0"),
        ({"repeat_every": -1}, "repeat_every = -1"),
        ({"seed": -1}, "seed = -1: expected a whole number of at least 0"),
        ({"noise": -0.1}, "noise=-0.1: expected .* at least 0"),
        ({"drift": float("nan")}, "drift=nan"),
        ({"heterogeneity": float("inf")}, "heterogeneity=inf"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(setting, message) -> None:
    with pytest.raises(ConfigError, match=message):
        logistic_drift(**({"agents": 2, "dim": 2} | setting))
