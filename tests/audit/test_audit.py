"""The contract test of privacy: no attack gets above what a private algorithm claims, and the attack gets near it.

An audit of a tight claim breaks it by chance in at most 1 of 1,000 seeds; seeds are fixed.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.audit import Audit, audit, experiment
from tacit.contract import Algorithm, PrivacyStatement
from tacit.errors import ConfigError, ContractError
from tacit.objectives import Constraint, entropy
from tacit.privacy import bounded_laplace, decaying_gaussian, gaussian, laplace, unprotected
from tacit.streams import Batch, from_function
from tests.audit.duals import SWITCHED, with_private_dual

MECHANISMS = {
    "laplace": laplace(epsilon=1.0, clip=0.5, perturbs="model"),
    "gaussian": gaussian(noise_multiplier=1.0, clip=0.5, perturbs="update"),
}
PRIVATE = [
    entry
    for entry in tacit.algorithms.REGISTRY.values()
    if "mechanism" in inspect.signature(entry.constructor).parameters
]
ONLINE = tacit.algorithms.distributed_online
TELLING = Constraint("telling", lambda params, batch: jnp.mean(batch.y * (batch.x @ (1 + params))))
"""Value and slope are the record itself, as the loss's gradient is: nothing tells more within the clip."""
SISTERS = (
    "dynamic_mirror_descent",
    "lagrangian_descent",
    "decentralised_symmetric",
    "decentralised_asymmetric",
    "combine_then_adapt",
    "adapt_then_combine",
    "graph_federated",
    "zcdp_subgradient",
    "dp_admm",
    "private_admm",
    "networked_personalised",
    "clustered_federated",
    "online_fedsgd",
    "online_fed",
    "pso_fed",
    "sign_sgd",
    "partial_diffusion",
)
"""Of mirror_descent, constrained_mirror_descent, centralised_online, diffusion, fedavg, zcdp_admm, PGFL and PAO-Fed,
with which they share what is released, or how it is made."""
FROM_GRADIENTS = ("constrained_mirror_descent", "lagrangian_descent", "consensus")
"""They have no stepped model to noise: what they release is made of gradients."""
DUALS = {
    "constrained_mirror_descent": {"constraints": TELLING, "dual": "released"},
    "lagrangian_descent": {"constraints": TELLING, "dual": "released", "rounds": 4},
}


def test_every_private_algorithm_is_found():
    assert {e.name for e in PRIVATE} >= {"online_push_sum", "distributed_online", "mirror_descent", "fedavg", *DUALS}
    assert set(tacit.algorithms.REGISTRY) - {e.name for e in PRIVATE} == {"local_online", "importance_fedavg"}


@pytest.mark.parametrize(
    ("entry", "mechanism"),
    [
        # Every method with one kind of noise each time, and with the other in `make test-slow`; so are sisters.
        pytest.param(entry, mechanism, marks=pytest.mark.slow if (k - m) % 2 or entry.name in SISTERS else ())
        for k, entry in enumerate(PRIVATE)
        for m, mechanism in enumerate(MECHANISMS)
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_claim_of_every_private_algorithm_holds_and_is_nearly_reached(entry, mechanism):
    constructor, noise = partial(entry.example, **DUALS.get(entry.name, {})), MECHANISMS[mechanism]
    if entry.name in FROM_GRADIENTS:
        noise = noise._replace(perturbs="gradient")
    found = audit(constructor, noise, seed=PRIVATE.index(entry))
    assert found.claim.unit == "record"
    assert found.claim.epsilon == pytest.approx({"laplace": 1.0, "gaussian": 4.728}[mechanism], rel=1e-3)
    assert found.claim.delta == {"laplace": 0.0, "gaussian": 1e-5}[mechanism]
    assert found.holds
    assert 0.7 * found.claim.epsilon <= found.lower_bound <= found.claim.epsilon


@pytest.mark.slow
def test_the_claim_holds_in_another_geometry_and_with_push_sum():
    constructor = partial(tacit.algorithms.mirror_descent, mirror=entropy(), unbiased=True)
    found = audit(constructor, MECHANISMS["gaussian"], coordinates=2)
    assert 0.7 * found.claim.epsilon <= found.lower_bound <= found.claim.epsilon


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n.startswith("constrained") else pytest.mark.slow) for n in DUALS]
)
def test_a_private_dual_costs_every_round_and_nearly_reaches_that(name):
    """The record of one round is in the multiplier, and so in all later rounds."""
    found = audit(with_private_dual(name), SWITCHED, records=1)
    assert found.claim.epsilon == pytest.approx(4.728, rel=1e-3)  # four releases at twice the noise of one
    assert 0.6 * found.claim.epsilon <= found.lower_bound <= found.claim.epsilon
    assert found.finding.test.group == "round 1"


@pytest.mark.parametrize(
    ("mechanism", "settings"),
    [
        (laplace(epsilon=1.0, clip=0.5, norm="l1", perturbs="gradient"), {"coordinates": 3}),
        (decaying_gaussian(noise_multiplier=1.5, decay=0.6, clip=0.5), {}),
        (laplace(epsilon=0.4, clip=0.5, adjacency="dataset", perturbs="update"), {"rounds": 3}),
        (laplace(epsilon=1.0, clip=0.5, norm="linf", adjacency="component"), {"coordinates": 2, "records": 2}),
    ],
    ids=["l1 clip", "decaying", "dataset", "component"],
)
def test_every_kind_of_mechanism_and_neighbours(mechanism, settings):
    found = audit(ONLINE, mechanism, **settings)
    assert 0.7 * found.claim.epsilon <= found.lower_bound <= found.claim.epsilon
    assert found.claim.adjacency == mechanism.adjacency


def test_the_claim_is_what_an_ordinary_run_reports():
    mechanism = MECHANISMS["gaussian"]
    found = audit(ONLINE, mechanism, trials=200)

    def three_records(start, stop):
        return Batch(np.ones((stop - start, 3, 3, 1), np.float32), np.ones((stop - start, 3, 3), np.float32))

    algorithm = ONLINE(tacit.objectives.logistic(), mechanism=mechanism)
    stream = from_function(three_records, agents=3, rounds=found.rounds)
    run = tacit.simulate(algorithm, tacit.graphs.complete(3), stream, rounds=found.rounds)
    assert run.privacy.guarantee.epsilon == pytest.approx(found.claim.epsilon, rel=1e-6)
    assert run.privacy.guarantee.theorem == found.claim.theorem


def test_what_is_not_private_says_so_and_breaks_nothing():
    found = audit(ONLINE, unprotected, trials=4000)
    assert found.claim is None
    assert found.holds
    assert not found.private
    assert found.lower_bound > 4
    assert found.finding.test.statistic == "impossible message"
    assert "not private" in found.words()
    assert found.to_json()["claim"] is None


def test_who_sends_nothing_gives_nothing_away():
    found = audit(lambda objective, mechanism: tacit.algorithms.local_online(objective), unprotected, trials=4000)
    assert found.lower_bound == 0
    assert "nothing was told apart" in found.words()


def test_an_algorithm_with_a_hidden_memory_is_refused():
    calls = []

    def forgetful(objective, mechanism) -> Algorithm:
        algorithm = ONLINE(objective, mechanism=mechanism)
        phase = algorithm.phases[0]

        def absorb(key, state, inbox, view):
            calls.append(None)  # every tracing of the function makes something else of what is heard
            return phase.absorb(key, state, inbox, view) + len(calls)

        return algorithm._replace(phases=(phase._replace(absorb=absorb),))

    with pytest.raises(ContractError, match="functions of their arguments alone"):
        audit(forgetful, MECHANISMS["gaussian"], trials=200)


@pytest.fixture(scope="module")
def small() -> Audit:
    return audit(ONLINE, MECHANISMS["laplace"], trials=400, seed=3)


def test_audits_are_reproducible_and_their_json_is_plain(small):
    assert audit(ONLINE, MECHANISMS["laplace"], trials=400, seed=3).finding == small.finding
    facts = json.loads(json.dumps(small.to_json()))
    assert facts["lower_bound"] == small.lower_bound
    assert facts["claim"]["epsilon"] == pytest.approx(1.0)
    assert facts["holds"] is True
    assert facts["position"] in {"any round", "round 1", "round 2", "round 4"}
    assert facts["right"]["trials"] + facts["wrong"]["trials"] <= 200  # of the held-out half
    assert facts["words"] == small.words()


def test_words_round_the_bound_down_and_say_when_a_claim_is_broken(small):
    low = replace(small, finding=small.finding._replace(epsilon=0.999))
    high = replace(small, finding=small.finding._replace(epsilon=1.5))
    assert "epsilon >= 0.99 with 99.9 % confidence" in low.words()
    assert low.words().endswith("claimed 1 per record: consistent.")
    assert low.holds
    assert not high.holds
    assert high.words().endswith("the claim is BROKEN.")
    assert replace(high, claim=None).holds


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"trials": 10}, "trials = 10"),
        ({"rounds": 0}, "rounds = 0"),
        ({"coordinates": 0}, "coordinates = 0"),
        ({"records": True}, "records = True"),
        ({"confidence": 1.0}, "confidence = 1.0"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings, names):
    with pytest.raises(ConfigError, match=names):
        audit(ONLINE, MECHANISMS["laplace"], **settings)


def test_noise_that_is_processed_afterwards_is_refused():
    with pytest.raises(ConfigError, match="bounded_laplace"):
        audit(ONLINE, bounded_laplace(epsilon=1.0, rounds=10))


def test_the_watch_makes_no_promise_of_its_own():
    algorithm = ONLINE(experiment.linear(), mechanism=MECHANISMS["laplace"])
    batch = Batch(jax.ShapeDtypeStruct((1, 1), np.float32), jax.ShapeDtypeStruct((1,), np.float32))
    assert tacit.audit.audited(algorithm, batch, 4, [1]).privacy == PrivacyStatement.none()
