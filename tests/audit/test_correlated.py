"""An attacker who knows C against noise that is correlated over releases: what holds, and what is broken.

The attack on a peer's own releaser takes every coordinate of one long vector for a trial. Bounds are wrong with a
probability of 1 in 1,000 at most; seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.audit import attack, audit
from tacit.audit.bounds import Trials, strongest, tried
from tacit.core.contract import Mechanism, Memory
from tacit.peer.machine.releases import BookedReleaser, NothingBooked
from tacit.privacy import correlated
from tacit.privacy.charges import Held
from tacit.privacy.conversions import tight
from tacit.privacy.events import fresh
from tacit.privacy.noise import NoiseSource
from tacit.privacy.strategies import record_norm
from tacit.runtime import Declared, ReleaseSpec
from tests.daily import some

ONLINE = tacit.algorithms.distributed_online
DELTA, RHO = 1e-5, 0.5
CLAIM = tight(RHO, DELTA)
THRICE = (3, 4)
STRATEGIES = ("blt", "banded", "toeplitz", "independent", "graph")


def noise(strategy: str = "blt", rounds: int = 12, participation: tuple[int, int] = (1, 1)) -> Mechanism:
    weights = tacit.graphs.complete(3).with_weights("metropolis").matrix().toarray() if strategy == "graph" else None
    return correlated(
        rounds,
        clip=0.5,
        rho=RHO,
        participation=participation,
        strategy=strategy,
        weights=weights,  # type: ignore[arg-type]
    )


def said(mechanism: Mechanism, norm: float) -> Mechanism:
    """Return the mechanism with another norm of C than it has."""
    assert mechanism.correlation is not None
    return mechanism._replace(correlation=mechanism.correlation._replace(norm=norm))


def once(mechanism: Mechanism) -> Mechanism:
    """Return noise that is calibrated to one read of a record, and sees as many as before."""
    assert mechanism.correlation is not None
    column = mechanism.correlation.coefficients(mechanism.correlation.rounds)
    return said(mechanism, record_norm(column, 1, 1))


# A peer's releaser.


class Repeatable(NoiseSource):
    """A seeded source that a releaser takes for one that is not."""

    predictable = False


class Peer:
    """A releaser that goes through a block; each coordinate is a trial, in which the record moves a release by 1."""

    def __init__(self, mechanism: Mechanism, trials: int) -> None:
        assert mechanism.correlation is not None
        assert mechanism.ratio is not None
        self.mechanism, self.correlation = mechanism, mechanism.correlation
        self.spec = ReleaseSpec(mechanism, 1, from_data=True, value=jnp.zeros(trials))
        self.other = np.random.default_rng(1).random(trials) < 0.5
        self.scale = mechanism.gain / mechanism.ratio
        self.releaser = BookedReleaser(NothingBooked(), Repeatable.seeded_for_simulation(0))

    def values(self, t: int) -> np.ndarray:
        """(2,) of a round under either hypothesis."""
        turn, since = divmod(t - 1, self.correlation.apart)
        return np.array([0.5, -0.5]) * (since == 0 and turn < self.correlation.reads)

    def release(self, t: int, memory: Memory) -> tuple[np.ndarray, Memory]:
        """(trials, 2) noise that must have been added under either hypothesis, in scales; and the next memory."""
        value = self.values(t)[self.other.astype(int)]
        declared = Declared(*map(jnp.float32, (1.0, self.scale, math.inf)))
        noisy, after = self.releaser(f"round {t}", self.spec, t, declared, value, Held(fresh(t)), memory=memory)
        assert after is not None
        return (noisy[:, None] - self.values(t)) / self.scale, after


Course = Callable[[Peer], Iterator[np.ndarray]]
"""What a peer does -> (trials, 2) independent draws behind each of its releases, as an attacker who saw it finds."""


def as_it_should(peer: Peer) -> Iterator[np.ndarray]:
    memory, rows = peer.spec.memory(wide=True), []
    for t in range(1, peer.correlation.rounds + 1):
        row, memory = peer.release(t, memory)
        rows.append(row)
    yield from np.moveaxis(attack.whitened(np.stack(rows, axis=-1)[..., None], peer.correlation)[..., 0], -1, 0)


def drawn_again(peer: Peer) -> Iterator[np.ndarray]:
    """After the first round the peer is put back to its start, and releases the same value anew."""
    yield peer.release(1, peer.spec.memory(wide=True))[0]
    yield from as_it_should(peer)


def begun_anew(peer: Peer) -> Iterator[np.ndarray]:
    """In the middle of the block the memory is lost, and the noise begins as if nothing had been released."""
    memory, rows, half = peer.spec.memory(wide=True), [], peer.correlation.rounds // 2
    for t in range(1, peer.correlation.rounds + 1):
        row, memory = peer.release(t, peer.spec.memory(wide=True) if t == half + 1 else memory)
        rows.append(row)
    for part in (rows[:half], rows[half:]):
        white = attack.whitened(np.stack(part, axis=-1)[..., None], peer.correlation)
        yield from np.moveaxis(white[..., 0], -1, 0)


def standing_still(peer: Peer) -> Iterator[np.ndarray]:
    """The memory is put back to that of the first release, again and again: its draw is taken back every time."""
    first, memory = peer.release(1, peer.spec.memory(wide=True))
    yield first
    for t in range(2, peer.correlation.rounds + 1):
        yield peer.release(t, memory)[0] + peer.correlation.coefficients(2)[1] * first


def found_by(mechanism: Mechanism, course: Course, trials: int = 40_000) -> float:
    """Return the largest epsilon of which an attacker is sure."""
    peer = Peer(mechanism, trials)
    draws = np.stack(list(course(peer)), axis=-1)[..., None]
    score = attack.likelihood(draws, ["gaussian"] * draws.shape[2])
    chosen_on = np.arange(trials) % 2 == 0
    lot = Trials({"likelihood": score}, {"all": np.ones(trials, bool)}, peer.other, chosen_on, ~chosen_on)
    test, _ = strongest(lot, delta=DELTA, alpha=1e-3, curves=("gaussian",))
    return tried(test, lot, delta=DELTA, alpha=1e-3).epsilon


@pytest.mark.parametrize("participation", [(1, 1), THRICE], ids=["once", "thrice"])
@pytest.mark.parametrize("strategy", some(STRATEGIES, "blt, whose releases come from the same lines", daily=["blt"]))
def test_the_claim_of_a_peer_holds_and_is_nearly_reached(strategy: str, participation: tuple[int, int]) -> None:
    assert 0.7 * CLAIM <= found_by(noise(strategy, participation=participation), as_it_should) <= CLAIM


@pytest.mark.parametrize(
    ("mechanism", "course"),
    [
        pytest.param(said(noise(rounds=48), 1.0), as_it_should, id="the norm of C left out"),
        pytest.param(once(noise(participation=THRICE)), as_it_should, id="read thrice, counted once"),
        pytest.param(noise(), drawn_again, id="drawn again after a restart"),
        pytest.param(noise(), standing_still, id="an old memory put back"),
    ],
)
def test_a_peer_that_is_broken_is_caught(mechanism: Mechanism, course: Course) -> None:
    assert found_by(mechanism, course) > CLAIM


def test_a_memory_that_is_lost_costs_use_and_no_privacy() -> None:
    """C without some of its entries, none of which is negative, moves a record by no more; the noise cancels less."""
    for participation in ((1, 1), THRICE):
        kept, lost = (found_by(noise(participation=participation), course) for course in (as_it_should, begun_anew))
        assert lost < kept


# The matrix, as the attacker applies it.


def test_draws_are_found_block_by_block_over_the_releases_that_were_made() -> None:
    correlation = noise(rounds=3).correlation
    assert correlation is not None
    c = correlation.coefficients(3)
    block = np.array([[c[0], 0, 0], [c[1], c[0], 0], [c[2], c[1], c[0]]])
    draws = np.random.default_rng(0).normal(size=(2, 5, 1))
    added = np.concatenate([np.linalg.solve(block, draws[:, :3]), np.linalg.solve(block[:2, :2], draws[:, 3:])], axis=1)
    unit, expected = (np.full((2, 7, 2), np.nan) for _ in range(2))  # a round without, and a number that is not there
    there = [[0, 1, 2, 4, 6], [1, 2, 3, 4, 5]]
    for k, rounds in enumerate(there):
        unit[k, rounds, :1], expected[k, rounds, :1] = added[k], draws[k]
    np.testing.assert_allclose(attack.whitened(unit, correlation), expected, rtol=0, atol=1e-12)


# The audit of a method.

attacked = partial(audit, ONLINE, trials=24_000)


@pytest.mark.parametrize(
    ("strategy", "participation"),
    some(
        [
            pytest.param(strategy, turns, id=f"{strategy}, {times}")
            for strategy in STRATEGIES
            for turns, times in (((1, 1), "once"), (THRICE, "thrice"))
        ],
        "another strategy, and the attack on a peer's releaser",
        daily=["blt, thrice"],
    ),
)
def test_the_audit_nearly_reaches_the_claim(strategy: str, participation: tuple[int, int]) -> None:
    reads, rounds = participation[0], 12
    problem = "linear" if reads == 1 else "again"
    found = attacked(noise(strategy, rounds, participation), problems=[problem], rounds=rounds)
    assert found.claim is not None
    assert found.claim.epsilon == pytest.approx(CLAIM)
    assert found.verdict == "holds"
    assert found.power is not None
    assert 0.7 <= found.power <= 1


@pytest.mark.covered_by("the attack on a peer's releaser")
@pytest.mark.parametrize(
    ("mechanism", "settings"),
    [
        pytest.param(said(noise(rounds=32), 1.0), {"problems": ["linear"], "rounds": 32, "trials": 80_000}, id="norm"),
        pytest.param(once(noise(participation=THRICE)), {"problems": ["again"], "rounds": 12}, id="reads"),
    ],
)
def test_the_audit_finds_noise_that_is_calibrated_to_less(mechanism: Mechanism, settings: dict[str, Any]) -> None:
    assert attacked(mechanism, **settings).verdict == "broken"


@pytest.mark.covered_by("the audit of one block")
def test_the_audit_goes_through_several_blocks_and_rounds_without_a_release() -> None:
    for constructor, problem in ((ONLINE, "late"), (tacit.algorithms.REGISTRY["fedavg"], "called")):
        found = audit(constructor, noise(rounds=4), problems=[problem], trials=24_000)
        assert found.verdict in {"holds", "not conclusive"}
        assert found.claim is not None
        assert found.lower_bound <= found.claim.epsilon
