"""Every method with compressed messages: one trajectory in both runtimes, or a refusal before round 0 that says why."""

from __future__ import annotations

import pytest

import tacit
from tacit.algorithms import compressed
from tacit.audit import conformance
from tacit.core.errors import ConfigError, RequirementError
from tests.contract.cases import CASES, Case, stream
from tests.daily import some

ROUNDS = 6
ONE_BY_ONE = ("private_admm", "zcdp_admm", "dp_admm", "partial_diffusion", "networked_personalised")
TOTALS, COMPOSITE = ("loss_tolerant_push_sum",), ("lagrangian_descent", "personalised_graph_federated")
REFUSED = {
    "int8": {
        "running totals": TOTALS,
        "one by one": ONE_BY_ONE,
        "a message of its own": ("pso_fed", "pao_fed"),
        "cancels": ("graph_federated",),
        "not of a model's form": COMPOSITE,
    },
    "top_k": {
        "running totals": TOTALS,
        "one by one": ONE_BY_ONE,
        "splits what it holds": ("online_push_sum", "mirror_descent", "push_diging"),
        "fixed links": ("dynamic_mirror_descent",),
        "not of a model's form": COMPOSITE[:1],
        "does not hear every": (
            "fedavg",
            "importance_fedavg",
            "graph_federated",
            "fedprox",
            "scaffold",
            "fedavgm",
            "fedadam",
            "online_fedsgd",
            "online_fed",
            "pso_fed",
            "pao_fed",
            "sign_sgd",
            "clustered_federated",
            "personalised_graph_federated",
        ),
    },
}
"""Kind -> words of the reason -> methods as they are without noise. "int8" rounds models, "top_k" sends differences."""
WHY = {(name, kind): words for kind, why in REFUSED.items() for words, names in why.items() for name in names}
EVERY = [(c, kind) for c in CASES if c.name in tacit.algorithms.REGISTRY for kind in REFUSED]
TAKEN = [pytest.param(c, kind, id=f"{c.name}, {kind}") for c, kind in EVERY if (c.name, kind) not in WHY]
NOT_TAKEN = [pytest.param(c, kind, id=f"{c.name}, {kind}") for c, kind in EVERY if (c.name, kind) in WHY]
DAILY = ("distributed_online, top_k", "gradient_tracking, top_k", "scaffold, int8")
ONE_OF_EACH = ("loss_tolerant_push_sum, int8", "zcdp_admm, top_k", "pso_fed, int8", "graph_federated, int8",
               "personalised_graph_federated, int8", "mirror_descent, top_k", "fedadam, top_k",
               "dynamic_mirror_descent, top_k")  # fmt: skip


def test_methods_that_share_models_are_found() -> None:
    found = {param.id for param in TAKEN}
    both = ("decentralised_momentum", "quasi_global_momentum", "gradient_tracking", "extra", "exact_diffusion")
    assert {f"{name}, {kind}" for name in both for kind in REFUSED} <= found
    assert {f"{name}, int8" for name in ("push_diging", "fedprox", "scaffold", "fedavgm", "fedadam")} <= found


@pytest.mark.parametrize(("case", "kind"), some(TAKEN, "another method or kind of each", daily=DAILY))
def test_simulator_equals_peers(case: Case, kind: str) -> None:
    trial = conformance.Trial(compressed(case.make(), kind), case.graph, stream(), case.channel, ROUNDS, 3)
    conformance.simulator_equals_peers(trial, "float64", 1e-9)


@pytest.mark.parametrize(("case", "kind"), some(NOT_TAKEN, "one of each reason", daily=ONE_OF_EACH))
def test_a_method_that_cannot_have_it_is_refused_before_round_0(case: Case, kind: str) -> None:
    with pytest.raises((ConfigError, RequirementError), match=WHY[case.name, kind]):
        tacit.simulate(compressed(case.make(), kind), case.graph, stream(), rounds=1, channel=case.channel)
