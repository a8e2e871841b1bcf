"""Noise correlated over an agent's releases: C^-1 Z as declared, the norm of C by brute force, and what is charged."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import replace
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import tacit
from tacit.core.contract import Correlation, Links, View
from tacit.core.correlation import coefficients
from tacit.core.errors import ConfigError, PrivacyError
from tacit.peer.machine.releases import BookedReleaser, NothingBooked, remembering
from tacit.privacy import correlated, gaussian, release, statement, strategies
from tacit.privacy.accounting import Account
from tacit.privacy.charges import Held
from tacit.privacy.events import Event, Series, fresh
from tacit.privacy.ledger.entries import decode_event, encode_event
from tacit.privacy.noise import NoiseSource, noise_words
from tacit.privacy.spending import Reading, spent_in_run
from tacit.privacy.strategies import Strategy, error, fitted, record_norm
from tacit.runtime import Declared, ReleaseSpec

STRATEGIES = [name for name in get_args(Strategy) if name != "graph"]
RING = np.array([[0.5, 0.25, 0.0, 0.25], [0.25, 0.5, 0.25, 0.0], [0.0, 0.25, 0.5, 0.25], [0.25, 0.0, 0.25, 0.5]])


def matrix(correlation: Correlation, rounds: int) -> np.ndarray:
    column = correlation.coefficients(rounds)
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(rounds)] for i in range(rounds)])


def mechanism(strategy: str, rounds: int = 12, **settings: Any) -> Any:
    weights = {"weights": RING} if strategy == "graph" else {}
    return correlated(rounds=rounds, rho=0.5, strategy=strategy, **weights, **settings)  # type: ignore[arg-type]


# The noise is C^-1 Z, block by block, in both forms of memory.


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("wide", [True, False], ids=["NumPy", "JAX"])
def test_the_recursion_is_the_inverse_of_the_matrix(strategy: str, wide: bool) -> None:
    rounds, xp = 12, np if wide else jnp
    correlation = mechanism(strategy, rounds).correlation
    draws = np.random.default_rng(0).normal(size=(2 * rounds, 3))
    memory, noise = correlation.start(jnp.zeros(3), wide), []
    for z in draws:
        added = xp.asarray(z, "float64" if wide else "float32") - correlation.recalled(memory, xp)
        memory = correlation.after(memory, added, xp)
        noise.append(np.asarray(added))
    dense = matrix(correlation, rounds)
    expected = np.concatenate([np.linalg.solve(dense, block) for block in (draws[:rounds], draws[rounds:])])
    np.testing.assert_allclose(noise, expected, rtol=0, atol=1e-12 if wide else 1e-5)
    assert int(memory.releases) == 2 * rounds


# The norm.


def patterns(rounds: int, reads: int, apart: int) -> list[tuple[int, ...]]:
    return [
        places
        for count in range(1, reads + 1)
        for places in itertools.combinations(range(rounds), count)
        if all(b - a >= apart for a, b in itertools.pairwise(places))
    ]


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize(("reads", "apart"), [(1, 1), (2, 3), (3, 2), (9, 1)])
def test_the_norm_is_the_largest_over_all_patterns(strategy: str, reads: int, apart: int) -> None:
    rounds = 9
    correlation = mechanism(strategy, rounds, participation=(reads, apart)).correlation
    dense = matrix(correlation, rounds)
    found = max(np.linalg.norm(dense[:, list(places)].sum(axis=1)) for places in patterns(rounds, reads, apart))
    assert correlation.norm == pytest.approx(found, rel=2e-9)
    assert correlation.norm >= found
    rng = np.random.default_rng(1)  # a record's part is a vector of any direction in each release
    for places in patterns(rounds, reads, apart)[-40:]:
        parts = rng.normal(size=(len(places), 4))
        parts /= np.linalg.norm(parts, axis=1, keepdims=True)
        assert np.linalg.norm(dense[:, list(places)] @ parts) <= found * (1 + 1e-12)


def test_a_column_that_rises_has_a_norm_for_one_read_only() -> None:
    assert record_norm([1.0, 2.0], 1, 1) == pytest.approx(math.sqrt(5))
    with pytest.raises(ConfigError, match="rises"):
        record_norm([1.0, 2.0], 2, 1)


@pytest.mark.parametrize(
    ("rounds", "pattern", "weights", "decays"),
    [  # as jax-privacy 2.0 finds them: buffered_toeplitz.optimize, for the mean error of one read and for ten reads
        (1000, (1, 1), (0.0710658569, 0.142462583, 0.2775089576), (0.9970481114, 0.9590954832, 0.661328462)),
        (1000, (10, 100), (0.2313185541, 0.2725380606), (0.9860718692, 0.6231442596)),
    ],
    ids=["once", "ten passes"],
)
def test_a_fit_is_as_good_as_that_of_jax_privacy(rounds: int, pattern: Any, weights: Any, decays: Any) -> None:
    ours = error(coefficients(*fitted("blt", rounds, *pattern), rounds), *pattern)
    theirs = error(coefficients(weights, decays, rounds), *pattern)
    assert ours <= 1.001 * theirs
    assert ours < 0.2 * error(coefficients((), (), rounds), *pattern)  # independent noise


def test_a_fit_to_the_graph_serves_its_agents_better_and_their_mean_worse() -> None:
    rounds, modes = 200, tuple(np.linalg.eigvals(RING).tolist())
    own, mean = (coefficients(*fitted(name, rounds, 1, 1, modes), rounds) for name in ("graph", "blt"))
    assert error(own, 1, 1, modes) < error(mean, 1, 1, modes)
    assert error(own, 1, 1) > error(mean, 1, 1)


# What a peer draws.


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_a_peer_releases_is_white_when_multiplied_by_the_matrix(strategy: str) -> None:
    """An attacker who knows C finds independent draws of the declared size."""
    rounds, width = 40, 500
    made = mechanism(strategy, rounds)
    spec = ReleaseSpec(made, width, from_data=True, value=jnp.zeros(width))
    declared = Declared(*map(jnp.float32, (0.5, 0.5 * made.gain / made.ratio, math.inf)))
    releaser = BookedReleaser(NothingBooked(), NoiseSource())
    memory, rows = spec.memory(wide=True), []
    values = np.random.default_rng(0).normal(size=(rounds, width)).astype("float32")
    for t, value in enumerate(values, 1):
        noisy, memory = releaser(f"round {t}", spec, t, declared, value, Held(fresh(t)), memory=memory)
        rows.append((noisy - value) / float(declared.scale))
    assert_white(matrix(made.correlation, rounds) @ np.array(rows))


def test_what_the_simulator_releases_is_white_when_multiplied_by_the_matrix() -> None:
    rounds, width = 40, 500
    made = mechanism("blt", rounds)
    out = Links(jnp.arange(1), jnp.ones(1, bool), jnp.ones(1))
    memory, rows = made.correlation.start(jnp.zeros(width)), []
    for t in range(1, rounds + 1):
        view = View(jnp.int32(0), jnp.int32(t), jnp.asarray(True), jnp.int32(0), out, out)
        found = release(made, noise_words(jax.random.key(0), t, 0), jnp.zeros(width), view, memory=memory)
        assert found.noise is not None
        memory = found.memory
        rows.append(np.asarray(found.value / found.noise.scale))
    assert_white(matrix(made.correlation, rounds) @ np.array(rows))


def assert_white(white: np.ndarray) -> None:
    """Check that draws are independent and of unit size; false alarm 1e-6 for each of two tests."""
    degrees = white.size
    low, high = chi2.ppf([5e-7, 1 - 5e-7], degrees)
    assert low < np.square(white).sum() < high * (1 + 1e-3)  # a little more noise for rounding
    ahead = np.sum(white[1:] * white[:-1]) / math.sqrt(white[1:].size)
    assert abs(ahead) < 4.9


@pytest.mark.parametrize(("rounds", "reads", "apart", "vectors"), [(64, 4, 16, 1), (64, 1, 1, 2), (1000, 10, 100, 3)])
def test_no_more_vectors_are_kept_than_help(
    rounds: int, reads: int, apart: int, vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached() -> tuple[int, float]:
        strategies._fit_buffers.cache_clear()
        found = strategies.fitted("blt", rounds, reads, apart)
        return len(found.weights), strategies.error(coefficients(*found, rounds), reads, apart)

    kept, error = reached()
    monkeypatch.setattr(strategies, "SLACK", -1.0)
    most, least = reached()
    assert (kept, most) == (vectors, 3)
    assert error <= (1 + 1e-3) * least


def test_a_memory_that_rounds_too_much_is_refused() -> None:
    slow = mechanism("blt")
    assert slow.correlation is not None
    endless = slow._replace(correlation=slow.correlation._replace(decays=(1 - 1e-9,) * len(slow.correlation.weights)))
    remembering(ReleaseSpec(slow, 100, from_data=True))
    with pytest.raises(PrivacyError, match="12 rounds"):
        remembering(ReleaseSpec(endless, 100, from_data=True))


class Books:
    """An account that a releaser books in."""

    def __init__(self) -> None:
        self.account = Account()

    def release(self, release: str, event: Event, draw: Any) -> Any:
        self.account = self.account.charged(event)
        return draw()


def test_a_step_of_size_0_has_no_place_in_the_noise() -> None:
    made = mechanism("blt", rounds=4)
    spec = ReleaseSpec(made, 3, from_data=True, in_sequence=False, value=jnp.zeros(3))
    books = Books()
    releaser, memory = BookedReleaser(books, NoiseSource()), spec.memory(wide=True)
    assert memory is not None
    for t, size in enumerate((1.0, 0.0, 0.0, 1.0, 1.0), 1):
        declared = Declared(*map(jnp.float32, (size, size, math.inf)))
        value, before = size * np.ones(3), memory
        noisy, memory = releaser(f"round {t}", spec, t, declared, value, Held(fresh(t)), memory=before)
        assert memory is not None
        assert (size == 0) == np.array_equal(noisy, value) == (memory is before)
    assert int(memory.releases) == 3
    assert books.account.spent().rho == pytest.approx(0.5)


# What is charged.


def event(place: int, records: str, block: int = 0, reads: int = 1, apart: int = 1, ratio: float = 1.0) -> Event:
    return Event("c", "gaussian", ratio, 1.0, records=records, series=Series("phase 0", block, place, reads, apart))


def spent(*events: Event) -> float:
    account = Account()
    for each in events:
        account = account.charged(each)
    return account.spent().rho


def test_a_record_is_charged_once_for_a_block() -> None:
    assert spent(*(event(t, fresh(t)) for t in range(1, 50))) == 0.5
    assert spent(event(1, "rows 1-3", reads=2, apart=3), event(4, "rows 2-5", reads=2, apart=3)) == 0.5
    assert spent(event(9, "rows 1"), event(1, "rows 1", block=1)) == 1.0
    other = replace(event(1, "rows 1"), series=Series("phase 1", 0, 1, 1, 1))
    assert spent(event(1, "rows 1"), other) == 1.0


@pytest.mark.parametrize(
    "events",
    [
        [event(1, "rows 1"), event(2, "rows 1")],  # counted once where it is twice
        [event(1, "rows 1", reads=2, apart=3), event(3, "rows 1", reads=2, apart=3)],
        [event(1, fresh(1)), event(2, fresh(1))],
        [event(1, fresh(1)), event(2, "rows 1"), event(3, fresh(1))],
        [event(1, ""), event(2, fresh(1)), event(3, "")],
        [event(1, "rows 1", reads=2), event(2, "rows 1", reads=2, ratio=2.0)],  # twice in a batch the second time
        [event(2, "rows 1"), event(2, "rows 2")],  # noise redrawn after a restart
        [event(2, "rows 1"), event(1, "rows 2")],  # a memory that was reset
        [event(1, "rows 1", block=1), event(9, "rows 2")],
    ],
    ids=[
        "twice",
        "too soon",
        "fresh twice",
        "fresh again",
        "all twice",
        "more copies",
        "drawn again",
        "reset",
        "an older block",
    ],
)
def test_what_the_charge_does_not_cover_is_refused(events: list[Event]) -> None:
    with pytest.raises(PrivacyError):
        spent(*events)


def test_an_account_keeps_no_more_of_fresh_records_the_more_there_are() -> None:
    account, other = Account(), Series("phase 1", 0, 1, 1, 1)
    for t in range(1, 40):
        one = event(t, fresh(t))
        account = account.charged(one).charged(replace(one, series=other._replace(place=t)))
    assert len(account._seen.items()) <= 4  # of each series its last release and the records of that
    assert account.spent().rho == 1.0


def test_events_of_a_series_are_booked_as_they_are() -> None:
    one = event(3, "rows 1-2", block=1, reads=2, apart=4)
    assert decode_event(encode_event(one)) == one
    assert "series" not in encode_event(replace(one, series=None))


@pytest.mark.parametrize(
    ("participation", "numbers", "refused"),
    [
        ((1, 1), [0, 1, 2, 3, 0], False),  # in another block
        ((1, 1), [0, 1, 0, 2, 3], True),
        ((2, 2), [0, 1, 0, 1, 0], False),
        ((2, 3), [0, 1, 0, 2, 3], True),
        ((3, 1), [0, 0, 0, 0, 1], True),
    ],
    ids=["once a block", "too often", "as often as said", "too soon", "a fourth time"],
)
def test_the_simulator_refuses_what_an_account_refuses(participation: Any, numbers: list[int], refused: bool) -> None:
    made = mechanism("blt", 4, participation=participation)
    spec = ReleaseSpec(made, 1, from_data=True, in_sequence=False, value=jnp.zeros(1))
    reading = Reading(np.array(numbers)[:, None])
    assert made.ratio is not None
    ratios = np.full((len(numbers), 1), made.ratio / made.gain)
    events = [event(k % 4 + 1, f"rows {number}", k // 4, *participation) for k, number in enumerate(numbers)]

    for run in (lambda: spent_in_run(statement(made), [spec], ratios, [reading]), lambda: spent(*events)):
        with pytest.raises(PrivacyError, match="participation") if refused else contextlib.nullcontext():
            run()


# Settings.


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"rounds": 0, "rho": 1.0}, "rounds = 0"),
        ({"rounds": 2**31, "rho": 1.0}, "rounds = "),
        ({"rounds": 10**6, "rho": 1.0, "strategy": "toeplitz"}, "rounds = "),
        ({"rounds": 5}, "rho = None"),
        ({"rounds": 5, "rho": 1.0, "epsilon": 1.0}, "epsilon = 1.0"),
        ({"rounds": 5, "rho": -1.0}, "rho = -1.0"),
        ({"rounds": 5, "epsilon": 1.0, "delta": 1.0}, "delta = 1.0"),
        ({"rounds": 5, "rho": 1.0, "participation": (0, 1)}, "participation"),
        ({"rounds": 5, "rho": 1.0, "strategy": "tree"}, "tree"),
        ({"rounds": 5, "rho": 1.0, "strategy": "graph"}, "weights"),
        ({"rounds": 5, "rho": 1.0, "strategy": "graph", "weights": 2 * np.eye(3)}, "eigenvalue"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        correlated(**settings)


def test_epsilon_and_independent_noise_are_what_they_are_elsewhere() -> None:
    one = correlated(rounds=7, epsilon=2.0, delta=1e-6, strategy="independent")
    assert one.ratio is not None
    assert one.ratio**2 / 2 == pytest.approx(tacit.privacy.conversions.rho_within(2.0, 1e-6))
    assert one.gain == pytest.approx(1)
    assert correlated(rounds=12, rho=1.0, participation=(3, 4), strategy="independent").gain == pytest.approx(
        math.sqrt(3)
    )
    assert gaussian(1.0, 1.0).gain == 1
