"""Every method with every robust rule: one trajectory in both runtimes, or a refusal before round 0 that says why."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.algorithms import averaged, robust
from tacit.audit import conformance
from tacit.core.errors import ConfigError, RequirementError
from tacit.core.robust_rules import RULES
from tacit.graphs import Channel, Graph, LinkDrop
from tacit.peer import run_in_process
from tests.contract.cases import AGENTS, CASES, MECHANISMS, Case, build, stream
from tests.daily import some

ROUNDS = 8
DENSE = tacit.graphs.small_world(AGENTS, 6, 0.2, seed=0)
REFUSED = {
    "pushes": ("online_push_sum", "mirror_descent", "push_diging"),
    "by itself": (
        "loss_tolerant_push_sum",
        "private_admm",
        "zcdp_admm",
        "dp_admm",
        "online_fedsgd",
        "online_fed",
        "pso_fed",
        "pao_fed",
        "partial_diffusion",
    ),
    "sends numbers": ("sign_sgd", "clustered_federated"),
    "cannot have a robust rule": ("graph_federated",),
    "has to hear more": ("personalised_graph_federated", "networked_personalised"),
}
"""Words of the reason -> methods as they are without noise."""
WHY = {name: words for words, names in REFUSED.items() for name in names}
PLAIN = [c for c in CASES if c.name in tacit.algorithms.REGISTRY]
WARY = [c for c in PLAIN if c.name not in WHY]


def graph_of(case: Case):
    if not isinstance(case.graph, Graph) or case.graph.clusters is not None:
        return case.graph
    return DENSE if case.graph.dynamics is None else DENSE.with_dynamics(case.graph.dynamics)


def trial(case: Case, rule: str) -> conformance.Trial:
    return conformance.Trial(robust(case.make(), rule, liars=1), graph_of(case), stream(), case.channel, ROUNDS, 3)


def test_methods_that_share_are_found():
    assert {"distributed_online", "adapt_then_combine", "fedavg", "dynamic_mirror_descent"} <= {c.name for c in WARY}


PAIRS = [pytest.param(case, rule, id=f"{case.name}, {rule}") for case in WARY for rule in RULES]
DAILY = ("distributed_online, clipped", "adapt_then_combine, median", "fedavg, trimmed_mean",
         "dynamic_mirror_descent, geometric_median")  # fmt: skip


@pytest.mark.parametrize(("case", "rule"), some(PAIRS, "another method or rule of each", daily=DAILY))
def test_simulator_equals_peers(case, rule):
    conformance.simulator_equals_peers(trial(case, rule))


@pytest.mark.parametrize("case", some([c for c in PLAIN if c.name in WHY], "one of each reason",
    daily=("online_push_sum", "zcdp_admm", "sign_sgd", "graph_federated", "networked_personalised")),
    ids=lambda c: c.name)  # fmt: skip
def test_a_method_that_no_rule_protects_is_refused_before_round_0(case):
    with pytest.raises((ConfigError, RequirementError), match=WHY[case.name]):
        tacit.simulate(robust(case.make(), "median"), graph_of(case), stream(), rounds=1, channel=case.channel)


def test_messages_that_are_late_or_lost_are_the_same_in_both_runtimes():
    case = next(c for c in CASES if c.name == "distributed_online, renormalised, lossy")
    conformance.simulator_equals_peers(trial(case, "clipped"))


@pytest.mark.parametrize("rule", RULES)
def test_relabelling_agents_changes_nothing(rule):
    conformance.relabelling_changes_nothing(trial(next(c for c in WARY if c.name == "distributed_online"), rule))


def test_with_no_liars_a_rule_is_plain_mixing():
    method = build("distributed_online")
    plain = run_in_process(method, DENSE, stream(), rounds=ROUNDS, seed=3, dtype="float64").models[-1]
    for rule, settings in (("trimmed_mean", {"liars": 0}), ("clipped", {"liars": 0}), ("clipped", {"tau": np.inf})):
        wary = robust(method, rule, **settings)
        found = run_in_process(wary, DENSE, stream(), rounds=ROUNDS, seed=3, dtype="float64").models[-1]
        np.testing.assert_allclose(found, plain, rtol=1e-10)


def test_an_agent_that_hears_too_few_keeps_its_own_value():
    """Links fail so often that nobody hears three others: everybody learns as if alone."""
    method = tacit.algorithms.distributed_online(tacit.objectives.logistic(l2=1e-3), step=0.2, missing="renormalise")
    ring = tacit.graphs.complete(5).with_dynamics(LinkDrop(0.9999, symmetric=True))
    data = tacit.streams.logistic_drift(agents=5, dim=3)
    settings = {"rounds": 6, "progress": False}
    wary = tacit.simulate(robust(method, "median", liars=1), ring, data, **settings)
    alone = tacit.simulate(tacit.experiments.alone(method), tacit.graphs.complete(5), data, **settings)
    np.testing.assert_allclose(wary.models, alone.models, rtol=1e-6)


@pytest.mark.parametrize("mechanism", MECHANISMS[1:2], ids=lambda m: m.name)
def test_a_rule_costs_no_privacy_and_saves_none(mechanism):
    method = build("distributed_online", mechanism)
    runs = [
        tacit.simulate(each, DENSE, stream(), rounds=ROUNDS, progress=False).privacy.summary()
        for each in (method, *(robust(method, rule) for rule in RULES))
    ]
    assert all(run == runs[0] for run in runs)


def test_a_rule_and_an_average_go_together():
    both = averaged(robust(build("distributed_online"), "median"), "tail")
    conformance.simulator_equals_peers(conformance.Trial(both, DENSE, stream(), Channel(), ROUNDS, 3))
