from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from reproduction.tests.papers import (
    test_asynchronous_baselines,
    test_asynchronous_environments,
    test_asynchronous_ocean,
    test_asynchronous_theory,
    test_asynchronous_variants,
    test_federated,
    test_importance_claims,
    test_networked,
)
from reproduction.tests.papers.nonsmooth import test_claims as test_nonsmooth
from reproduction.tests.papers.personalised import test_discovery, test_regression
from tacit_reproduction.asynchronous import (
    baselines_claims,
    environments_claims,
    ocean_claims,
    theory_claims,
    variants_claims,
)
from tacit_reproduction.experiment import Claim
from tacit_reproduction.federated import graph_claims, importance_claims, importance_ijcnn1, private_claims
from tacit_reproduction.federated.importance_ijcnn1_runs import KINDS, Reference
from tacit_reproduction.federated.importance_sampling import Checks
from tacit_reproduction.networked import tuned_claims
from tacit_reproduction.nonsmooth import claims as nonsmooth_claims
from tacit_reproduction.personalised import discovery_claims, regression, regression_claims

LEARNING_AND_SWEEPS = {"learning", "steps", "variances"}
IS_CHECKS = Checks({"optimal": test_importance_claims.FINE}, {"optimal": test_importance_claims.FINE})


def importance() -> list[Claim]:
    made = test_importance_claims
    return importance_claims.judge(made.evidence(True), made.SWEEPS, IS_CHECKS, made.DRIFTS)


def ijcnn1() -> list[Claim]:
    best = Reference(0.095, dict.fromkeys(KINDS, np.full(test_importance_claims.SEEDS, 0.087)))
    return importance_ijcnn1.judge(test_importance_claims.outcomes(0.2245, 0.1846, 0.19), best)


def personalised() -> list[Claim]:
    made = test_regression
    return regression_claims.judge(made.made(), regression.FULL.sweeps, made.arrived(0.01))


JUDGED: dict[str, tuple[Callable[[], Sequence[Claim]], set[str], int]] = {
    "pao-variants": (
        lambda: variants_claims.judge(test_asynchronous_variants.evidence(), test_asynchronous_variants.LIMITS),
        {"variants", "long"},
        0,
    ),
    "pao-vs-baselines": (
        lambda: baselines_claims.judge(test_asynchronous_baselines.evidence()),
        {"baselines", "load", "stragglers", "reductions"},
        0,
    ),
    "pao-environments": (
        lambda: environments_claims.judge(test_asynchronous_environments.evidence()),
        {"environments"},
        0,
    ),
    "pao-calcofi": (lambda: ocean_claims.judge(test_asynchronous_ocean.evidence()), {"calcofi"}, 0),
    "pao-theory": (
        lambda: theory_claims.judge(test_asynchronous_theory.evidence()),
        {"transient", "steady", "steps"},
        1,
    ),
    "pgfl-regression": (
        personalised,
        {"learning", "tau", "low_similarity", "by_phi_0", "by_zeta"},
        1,
    ),
    "fedavg-private": (
        lambda: private_claims.judge(test_federated.private_evidence()),
        LEARNING_AND_SWEEPS,
        1,
    ),
    "gfl-regression": (
        lambda: graph_claims.judge(test_federated.graph_evidence()),
        LEARNING_AND_SWEEPS,
        3,
    ),
    "isfedavg-regression": (importance, {"learning", "cohorts", "steps", "noise", "divergence"}, 0),
    "isfedavg-ijcnn1": (ijcnn1, {"errors", "errors-by-class", "loss"}, 4),
    "npfl-rl": (
        lambda: tuned_claims.judge(test_networked.evidence()),
        {"fixed", "tuned", "settled-tuned", "strengths-as-drawn", "strengths-clusters-connected"},
        2,
    ),
    "zcdp-elastic-net": (
        lambda: nonsmooth_claims.judge(test_nonsmooth.evidence(problem="elastic-net")),
        {"rounds", "privacy", "averaged"},
        0,
    ),
    "zcdp-ridge": (
        lambda: nonsmooth_claims.judge(test_nonsmooth.evidence(problem="ridge")),
        {"rounds", "privacy", "averaged"},
        3,
    ),
}
"""Experiment -> its claims in the full form, the figures that show them, and how many have no words of the text."""


@pytest.mark.parametrize("name", JUDGED)
def test_claims_stand_beside_the_text_and_under_figures(name: str) -> None:
    judge, figures, ours = JUDGED[name]
    claims = judge()
    assert {claim.seen_in for claim in claims} - {""} == figures
    assert sum(not claim.text for claim in claims) == ours


def test_what_is_beyond_the_text_has_none_of_its_words() -> None:
    claims = discovery_claims.judge(test_discovery.made(), test_discovery.DESIGN)
    assert {claim.text for claim in claims} == {""}
    assert {claim.seen_in for claim in claims} == {"right", "right-noise", "deviation"}
