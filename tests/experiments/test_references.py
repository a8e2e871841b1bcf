from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit import runtime
from tacit.algorithms import REGISTRY
from tacit.core.errors import ConfigError
from tacit.experiments import Problem, alone, build, parse
from tacit.experiments.execute import execute
from tacit.experiments.references import compare
from tacit.metrics.constant import constant_figures
from tacit.results import Run, load_all
from tacit.streams import Batch
from tests.contract import cases

MECHANISM = """
[algorithm.mechanism]
kind = "laplace"
epsilon = {epsilon}
clip = 1.0
"""
PRIVATE = """
[run]
rounds = 60
repeats = 4
regret_points = 0

[graph]
kind = "random_digraph"
agents = 4
out_degree = 2

[stream]
kind = "logistic_drift"
dim = 3
noise = 0.1

[objective]
kind = "logistic"

[[algorithm]]
name = "online_push_sum"
label = "loud"
step = 1.0
""" + MECHANISM.format(epsilon=0.01)
FILE = Path("exp.toml")


@pytest.fixture(scope="module")
def finished() -> tuple[Problem, list[Run]]:
    made = build(parse(PRIVATE, FILE))
    return made, list(made.runs(progress=False))


def test_a_private_method_is_run_beside_its_references(finished: tuple[Problem, list[Run]]) -> None:
    _, runs = finished
    assert [run.label for run in runs] == [
        "loud",
        "without noise",
        "alone, same noise",
        "alone, without noise",
        "a constant",
    ]
    assert set(runs[0].references.values()) == {run.label for run in runs[1:]}
    loud, quiet, by_itself = (run.privacy.guarantee for run in runs[:3])
    assert loud.epsilon == by_itself.epsilon
    assert quiet is None
    assert [bool(run.per_round["messages"].sum()) for run in runs] == [True, True, False, False, False]


def test_references_are_the_runs_made_by_hand_to_the_bit(finished: tuple[Problem, list[Run]]) -> None:
    made, runs = finished
    noise = tacit.privacy.laplace(epsilon=0.01, clip=1.0)
    by_hand = {
        "without noise": tacit.algorithms.online_push_sum(made.objective, step=1.0),
        "alone, same noise": alone(tacit.algorithms.online_push_sum(made.objective, step=1.0, mechanism=noise)),
    }
    for run in runs:
        if run.label in by_hand:
            hand = tacit.simulate(by_hand[run.label], made.graph, made.stream, rounds=60, repeats=4)
            np.testing.assert_array_equal(run.per_round["loss"], hand.per_round["loss"])
            np.testing.assert_array_equal(run.models, hand.models)


def test_a_reference_stands_in_its_folder_as_a_file_that_makes_it_again(finished: tuple[Problem, list[Run]]) -> None:
    made, runs = finished
    table = runs[2].settings["algorithm"][0]
    assert table["alone"] is True
    text = PRIVATE.replace('label = "loud"', 'label = "by hand"\nalone = true').replace(
        "[run]", "[run]\nreferences = false"
    )
    again = build(parse(text, FILE))
    assert again.algorithms[0].name == "online_push_sum, alone"
    assert again.references.runs == []
    assert made.config.settings()["run"]["references"] is True


class Ready(Problem):
    """A problem whose runs are there already."""

    def runs(self, *shown: object):  # type: ignore[no-untyped-def]
        yield from self.ready  # type: ignore[attr-defined]


def test_a_run_that_is_worse_than_a_constant_is_told_of_in_table_and_report(
    finished: tuple[Problem, list[Run]], tmp_path: Path
) -> None:
    made, runs = finished
    ready = Ready(made.config, made.graph, made.stream, made.objective, made.algorithms, made.channel)
    object.__setattr__(ready, "ready", runs)
    comparison = execute(ready, tmp_path, progress=False).comparison
    cautions = comparison.cautions()
    assert cautions
    assert all("loud" in caution for caution in cautions)
    assert any("alone" in caution for caution in cautions)
    assert "noise / signal" in comparison.columns()[-1]
    page = (tmp_path / "report.html").read_text()
    for words in (*comparison.sentences(), *cautions):
        assert words in page
    assert [record.label for record in load_all(tmp_path)] == [run.label for run in runs]
    again = tacit.results.Comparison(tuple(load_all(tmp_path)))
    assert again.cautions() == cautions


def test_references_are_shared_and_those_of_the_file_are_taken() -> None:
    more = PRIVATE + '[[algorithm]]\nname = "online_push_sum"\nlabel = "louder"\nstep = 1.0\n'
    more += MECHANISM.format(epsilon=0.001) + '[[algorithm]]\nname = "online_push_sum"\nlabel = "open"\nstep = 1.0\n'
    plan = build(parse(more, FILE)).references
    assert [reference.label for reference in plan.runs] == [
        "loud: alone, same noise",
        "loud: alone, without noise",
        "louder: alone, same noise",
    ]
    assert plan.of["loud"]["without noise"] == plan.of["louder"]["without noise"] == "open"
    assert plan.of["louder"]["alone, without noise"] == "loud: alone, without noise"
    assert "open" not in plan.of


def test_no_references_where_the_file_says_so_and_of_noise_that_cancels_none_alone() -> None:
    silent = build(parse(PRIVATE.replace("[run]", "[run]\nreferences = false"), FILE))
    assert not silent.references.of
    graph_noise = PRIVATE.replace("online_push_sum", "adapt_then_combine").replace("random_digraph", "ring")
    graph_noise = graph_noise.replace("out_degree = 2\n", "").replace("laplace", "graph_homomorphic")
    cancelled = build(parse(graph_noise.replace("epsilon = 0.01", "noise_std = 0.1"), FILE))
    assert set(cancelled.references.of["loud"]) == {"without noise", "alone, without noise"}


NOISY = [name for name in REGISTRY if "mechanism" in inspect.signature(REGISTRY[name].constructor).parameters]


@pytest.mark.parametrize("name", NOISY)
def test_every_method_can_be_alone(name: str) -> None:
    algorithm = cases.build(name, tacit.privacy.gaussian(1.0, clip=1.0), **cases.FORMS.get(name, ({}, {}))[1])
    graph = cases.graph_of(algorithm)
    learners = tacit.graphs.as_topology(graph).roles.get(algorithm.learner, cases.AGENTS)
    ready = runtime.prepared_topology(alone(algorithm), graph)
    assert set(ready.roles.values()) == {learners}
    for links in ready.links.values():
        # Nobody is heard but one's own server.
        assert links.edges == (0 if links.sources is None else learners)
        assert np.array_equal(links.senders, links.receivers)


def test_a_comparison_needs_a_method_that_promises_something() -> None:
    objective, graph, stream = tacit.objectives.logistic(), tacit.graphs.ring(3), tacit.streams.logistic_drift(3, 2)
    with pytest.raises(ConfigError, match="unprotected"):
        compare(
            lambda noise: tacit.algorithms.online_push_sum(objective, mechanism=noise),
            tacit.privacy.unprotected,
            graph,
            stream,
            rounds=2,
        )


# -- the constant ------------------------------------------------------------------------------------------------------

ROUNDS, AGENTS, PLACES = 9, 2, 3
CHANCE = np.random.default_rng(0)
WEIGHT = CHANCE.choice([0.0, 1.0, 2.0, -1.0], (ROUNDS, AGENTS, PLACES))
WEIGHT[4] = 0  # a round that brings nobody anything


def stream_of(y: np.ndarray, weight: np.ndarray | None) -> tacit.streams.Stream:
    batch = Batch(np.ones((*y.shape, 2), np.float32), y, weight)
    return tacit.streams.from_function(
        lambda start, stop: Batch(*(None if leaf is None else leaf[start:stop] for leaf in batch)),
        agents=AGENTS,
        rounds=ROUNDS,
    )


def by_hand(objective: tacit.contract.Objective, y: np.ndarray, weight: np.ndarray) -> tuple[list[float], list[float]]:
    """Play it label by label: a memory of labels for each agent, and predictions before they are learnt."""
    memory: list[list[tuple[float, float]]] = [[] for _ in range(AGENTS)]
    losses, scores = [], []
    for t in range(ROUNDS):
        lost, right = [], []
        for agent in range(AGENTS):
            known = memory[agent]
            total = sum(w for _, w in known)
            now = [
                (label, w) for label, w in zip(y[t, agent].tolist(), weight[t, agent].tolist(), strict=True) if w > 0
            ]
            each = []
            for label, w in now:
                own = sum(v for k, v in known if k == label)
                if objective.name in ("squared", "absolute"):
                    mean = sum(k * v for k, v in known) / total if total else 0.0
                    off = abs(label - mean)
                    each.append((w, off**2 / 2 if objective.name == "squared" else off, off**2))
                    continue
                kinds = [-1.0, 1.0] if objective.name in ("logistic", "hinge") else [0.0, 1.0, 2.0]
                best = max(sum(v for k, v in known if k == kind) for kind in kinds if kind != label)
                chance = (own + 0.5) / (total + len(kinds) / 2)
                hinge = 1 - float(np.sign(own - best))
                each.append((w, hinge if objective.name == "hinge" else -np.log(chance), float(own > best)))
            weights = sum(w for w, _, _ in each)
            lost.append(sum(w * a for w, a, _ in each) / weights if each else 0.0)
            right += [sum(w * b for w, _, b in each) / weights] if each else []
            memory[agent] += now
        losses.append(float(np.mean(lost)))
        scores.append(float(np.mean(right)) if right else np.nan)
    return losses, scores


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "objective",
    [
        tacit.objectives.logistic(l2=0.1),
        tacit.objectives.hinge(),
        tacit.objectives.softmax(3),
        tacit.objectives.squared(),
        tacit.objectives.absolute(),
    ],
    ids=lambda objective: objective.name,
)
def test_the_constant_is_that_of_each_agents_labels_so_far(
    objective: tacit.contract.Objective, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (ROUNDS, AGENTS, PLACES)
    labels = {
        "softmax": CHANCE.integers(0, 3, shape),
        "squared": CHANCE.normal(size=shape),
        "absolute": CHANCE.normal(size=shape),
    }
    y = np.asarray(labels.get(objective.name, CHANCE.choice([-1.0, 1.0], shape)))
    monkeypatch.setattr("tacit.metrics.constant.NUMBERS_AT_A_TIME", 50)  # several pieces
    found = constant_figures(objective, stream_of(y, WEIGHT if weighted else None), ROUNDS)
    assert found is not None
    losses, scores = by_hand(objective, y, WEIGHT if weighted else np.ones(shape))
    np.testing.assert_allclose(found["loss"], losses)
    np.testing.assert_allclose(found[objective.score_name], scores)


def test_an_objective_without_labels_has_no_constant() -> None:
    stream = tacit.streams.logistic_drift(3, 2)
    objective = tacit.objectives.logistic()
    own = objective._replace(loss=lambda params, batch: (params**2).sum())
    assert constant_figures(own, stream, 3) is None
    assert constant_figures(objective, stream, 3) is not None


def test_clipped_gradients_and_noise_to_signal_of_a_release() -> None:
    # At w = 0 the gradient of logistic loss is half of x: 3 above the clip, 0.3 below it, and nothing.
    x = np.array([[6.0, 0.0], [0.6, 0.0], [6.0, 0.0], [6.0, 0.0]], np.float32)
    batch = Batch(x[None, None], np.ones((1, 1, 4), np.float32), np.array([[[1.0, 1.0, 1.0, 0.0]]], np.float32))
    stream = tacit.streams.from_function(lambda start, stop: batch, agents=1, rounds=1)
    noise = tacit.privacy.gaussian(noise_multiplier=2.0, clip=1.0, perturbs="gradient")
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), mechanism=noise)
    run = tacit.simulate(method, tacit.graphs.Graph.from_edges(1, [], [], name="one"), stream, rounds=1)
    metrics = run.metrics()
    assert metrics["clipped"]["mean"] == pytest.approx(2 / 3)
    deviation = 2.0 * (2 * 1.0 / 4)  # multiplier times the sensitivity of a mean over four places
    assert metrics["noise_to_signal"]["mean"] == pytest.approx(np.sqrt(2) * deviation / (2.3 / 4), rel=1e-4)
    assert replace(run).references == {}
