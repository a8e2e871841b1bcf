from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from reproduction.tests.papers import (
    test_asynchronous_baselines,
    test_asynchronous_environments,
    test_asynchronous_ocean,
    test_asynchronous_theory,
    test_asynchronous_variants,
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
from tacit_reproduction.networked import tuned_claims
from tacit_reproduction.nonsmooth import claims as nonsmooth_claims
from tacit_reproduction.personalised import discovery_claims, regression, regression_claims


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
