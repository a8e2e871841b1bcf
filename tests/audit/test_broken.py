"""Every way of breaking privacy that we could think of is caught: the lower bound is above the claim.

The system itself is broken where it can be (sampler, clip, keys), and the algorithm where the fault would be its own.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

import tacit
from tacit import runtime
from tacit.audit import audit as audit_on
from tacit.core.contract import Clip, Inbox, Mechanism, Phase, per_slot, share
from tacit.privacy import clipping, draws, gaussian, laplace, noise
from tacit.privacy.draws import Released

ONLINE = tacit.algorithms.distributed_online
LAPLACE = laplace(epsilon=1.0, clip=0.5, perturbs="model")
GAUSSIAN = gaussian(noise_multiplier=1.0, clip=0.5, perturbs="update")
TRIALS = 20_000
CONSTRAINED = tacit.algorithms.REGISTRY["constrained_mirror_descent"]
SWITCHED = gaussian(noise_multiplier=2.0, clip=0.5, perturbs="gradient")
"""Four rounds of this noise cost what one of half of it does."""
audit = partial(audit_on, problems=["linear"])


def caught(found, statistic: str = "likelihood", margin: float = 1.2) -> None:
    assert found.verdict == "broken"
    assert found.lower_bound > margin * found.claim.epsilon
    # Where noise is as declared, or used twice, its covariance tells as much.
    assert found.finding.test.statistic in {statistic, "correlated noise"}
    assert "BROKEN" in found.words()


@pytest.fixture
def released(monkeypatch):
    """Replace the runtime's release by a function of the real one and its arguments."""
    release = draws.release

    def replace(fault):
        def real(*given):
            return release(*given)[:2]

        monkeypatch.setattr(draws, "release", lambda *given: Released(*fault(real, *given[:5])))

    return replace


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(LAPLACE, id="laplace"),
        pytest.param(GAUSSIAN, id="gaussian", marks=pytest.mark.covered_by("half of the Laplace noise")),
    ],
)
def test_half_the_noise(released, mechanism):
    def half(real, mechanism, words, value, view, records):
        less = mechanism._replace(ratio=2 * mechanism.ratio)
        return real(less, words, value, view, records)

    released(half)
    caught(audit(ONLINE, mechanism, trials=TRIALS), margin=1.5)


@pytest.mark.covered_by("a clip of the mean")
def test_no_clip(monkeypatch):
    monkeypatch.setattr(clipping, "_clip", lambda tree, clip: tree)
    caught(audit(ONLINE, LAPLACE, trials=TRIALS), margin=2)


@pytest.mark.covered_by("a clip of the mean")
def test_a_clip_of_the_agent_that_is_twice_as_wide():
    mechanism = laplace(epsilon=0.4, clip=0.5, adjacency="agent")
    wide = mechanism._replace(clip=mechanism.clip._replace(bound=1.0))
    caught(audit(ONLINE, wide, trials=TRIALS, rounds=3), margin=1.5)


@pytest.mark.covered_by("test_faults.py, linf clip said to be l2")
def test_an_l2_clip_taken_for_an_l1_clip():
    mechanism = laplace(epsilon=1.0, clip=0.5, norm="l1")
    found = audit(ONLINE, mechanism._replace(clip=Clip(0.5, "l2")), trials=2 * TRIALS, coordinates=4)
    caught(found)
    assert "spread" in found.finding.test.group


def test_a_clip_of_the_mean_instead_of_each_record(monkeypatch):
    """The mean over h records is within the bound, but one record moves it by more than 2 bound / h."""
    real = clipping.gradient_parts

    def of_the_mean(objective, clip):
        parts = real(objective, None)
        return parts._replace(data=lambda params, batch, over, key=None: clipping.clip(parts.data(params, batch), clip))

    monkeypatch.setattr("tacit.algorithms._parts.descent.gradient_parts", of_the_mean)
    caught(audit(ONLINE, LAPLACE, trials=TRIALS), margin=2)


@pytest.mark.covered_by("test_faults.py, noise that overlaps")
def test_noise_reused_across_rounds(monkeypatch):
    real = noise.noise_words
    monkeypatch.setattr(noise, "noise_words", lambda key, t, phase: real(key, 0, phase))
    caught(audit(ONLINE, GAUSSIAN, trials=TRIALS), "repeated noise")


@pytest.mark.covered_by("test_faults.py, noise that overlaps")
def test_noise_shared_among_agents(monkeypatch):
    real = runtime.agent_key
    monkeypatch.setattr(runtime, "agent_key", lambda root, role, repeat, agent: real(root, role, repeat, 0 * agent))
    caught(audit(ONLINE, LAPLACE, trials=TRIALS), "repeated noise")


@pytest.mark.covered_by("half the noise")
def test_the_same_noise_in_every_coordinate(released):
    def one_draw(real, mechanism, words, value, view, records):
        noisy, noise = real(mechanism, words, value, view, records)
        return value + (noisy - value)[:1], noise

    released(one_draw)
    caught(audit(ONLINE, LAPLACE, trials=TRIALS, coordinates=2), "repeated noise")


@pytest.mark.covered_by("half the noise")
def test_the_first_round_without_noise(released):
    def late(real, mechanism, words, value, view, records):
        noisy, noise = real(mechanism, words, value, view, records)
        return jnp.where(view.round == 1, value, noisy), noise

    released(late)
    found = audit(ONLINE, LAPLACE, trials=TRIALS)
    caught(found, margin=3)
    assert found.finding.test.group == "round 1"


@pytest.mark.covered_by("fresh noise for every neighbour")
def test_a_retransmission_that_is_not_charged():
    """The value is sent a second time with fresh noise, said to be free since it was charged before."""

    def resending(objective, mechanism):
        algorithm = ONLINE(objective, mechanism=mechanism)
        phase = algorithm.phases[0]
        declared = phase.mechanism
        free = declared._replace(
            sensitivity=lambda view, extent: 0.0 * declared.sensitivity(view, extent),
            scale=lambda view, sensitivity: declared.noise(view, tacit.contract.Extent(1, 3)).scale,
            ratio=None,
        )
        again = Phase("peers", phase.compute, free, lambda key, state, inbox, view: state)
        return algorithm._replace(phases=(again, phase))

    found = audit(resending, LAPLACE, trials=TRIALS)
    assert found.claim.epsilon == pytest.approx(1.0)
    caught(found, margin=1.4)


class Kept(NamedTuple):
    model: jax.Array
    own: jax.Array


def test_a_state_that_keeps_its_own_value_without_noise():
    """The fault that DOLA's proof must exclude: later releases depend on the record again."""

    def remembering(objective, mechanism):
        algorithm = ONLINE(objective, mechanism=mechanism, step=1.0)
        phase = algorithm.phases[0]

        def compute(key, state, batch, view):
            _, value = phase.compute(key, state.model + state.own, batch, view)
            return state._replace(own=value), value

        def absorb(key, state, inbox: Inbox, view):
            return state._replace(model=phase.absorb(key, state.model, inbox, view))

        def emit(state, released, view):
            return state, share(released)

        return algorithm._replace(
            init={"peer": lambda key, params, views: Kept(params, jnp.zeros_like(params))},
            phases=(Phase("peers", compute, phase.mechanism, absorb, emit),),
        )

    caught(audit(remembering, LAPLACE, trials=TRIALS), margin=1.4)


def test_a_dual_variable_made_of_data_under_a_claim_for_one_round():
    """What the texts claim of 2.2 and 2.3; an ordinary run refuses such a statement."""

    def parallel(objective, mechanism, constraints, dual, damping):
        algorithm = CONSTRAINED.constructor(objective, constraints, mechanism=mechanism, dual=dual, damping=damping)
        return algorithm._replace(privacy=algorithm.privacy._replace(composition="parallel"))

    found = audit(parallel, SWITCHED, problems=["switch"], rounds=4, trials=TRIALS)
    assert "parallel" in found.refused
    caught(found, margin=1.3)


def test_a_dual_variable_under_the_sensitivity_of_one_record(monkeypatch):
    """It moves the gradients of all three records of a later batch, not a third of their mean."""
    monkeypatch.setattr(Mechanism, "for_whole_batch", lambda self: self)
    found = audit(CONSTRAINED, SWITCHED, problems=["switch"], rounds=4, records=3, trials=TRIALS)
    assert found.claim.epsilon == pytest.approx(4.728, rel=1e-3)  # that of all four rounds
    caught(found, margin=1.3)


def test_data_in_the_public_part_of_a_message():
    def leaking(objective, mechanism):
        algorithm = ONLINE(objective, mechanism=mechanism)
        phase = algorithm.phases[0]

        def compute(key, state, batch, view):
            _, value = phase.compute(key, state.model, batch, view)
            return state._replace(own=batch.y[:1]), value

        def emit(state, released, view):
            return state, share(released, public=state.own)

        def absorb(key, state, inbox: Inbox, view):
            return state._replace(model=inbox.mix().private)

        return algorithm._replace(
            init={"peer": lambda key, params, views: Kept(params, jnp.zeros_like(params))},
            phases=(Phase("peers", compute, phase.mechanism, absorb, emit),),
        )

    caught(audit(leaking, LAPLACE, trials=2000), "impossible message", margin=3)


def test_fresh_noise_for_every_neighbour_costs_as_many_times():
    """Two neighbours who compare what they got have seen the value twice."""

    def to_each(objective, mechanism):
        def scale(view, sensitivity):  # of one copy: what is handed in is the change of all copies together
            return sensitivity / (1 + view.out.degree) / mechanism.ratio

        algorithm = ONLINE(objective, mechanism=mechanism._replace(spread="per_edge", scale=scale, ratio=None))
        phase = algorithm.phases[0]

        def emit(state, released, view):
            return state, per_slot(released)

        return algorithm._replace(phases=(phase._replace(emit=emit),))

    found = audit(to_each, LAPLACE, trials=TRIALS)
    assert found.claim.epsilon == pytest.approx(3.0)  # two neighbours and the own copy; one release costs 1
    assert 1.4 < found.lower_bound <= 3.0
