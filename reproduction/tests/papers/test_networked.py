from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit.core.errors import DataError
from tacit_reproduction.catalogue import EXPERIMENTS, Claim
from tacit_reproduction.networked import clustered_regression, tuned, tuned_charts, tuned_claims, tuned_strengths
from tacit_reproduction.networked import tuned_runs as runs
from tacit_reproduction.networked.clustered_regression import Floats, Network, world
from tacit_reproduction.networked.tuned_claims import judge
from tacit_reproduction.networked.tuned_runs import FULL, QUICK, Clients, Design, Evidence, Outcome, fixed

SEEDS, CLIENTS, ROUNDS = 12, 6, np.arange(5, 605, 5)
RNG = np.random.default_rng(0)
JITTER = np.exp(0.01 * RNG.normal(size=(SEEDS, 1, 1)))
SIZES = np.stack([RNG.permutation([5, 8, 17, 20, 30, 35]) for _ in range(SEEDS)])
WHO = Clients(SIZES, np.full_like(SIZES, 2), 10 * SIZES)

LEVELS = {"one model": 1e-1, **dict.fromkeys(runs.OURS, 8e-3)}
LEVELS |= {"DPG": 7e-3, "batch DPG": 6e-3, "SAC": 5e-3, "batch SAC": 5e-3}


def as_claimed(network: Network, name: str) -> float:
    """Deviation on which every claim holds: fixed strengths are worst at 0 and best at 0.05."""
    if name in LEVELS:
        return LEVELS[name]
    tau = float(name.removeprefix("tau = "))
    return 3e-2 if tau == 0 else 1e-2 * (1 + 10 * abs(np.log(tau / 0.05)) / 10)


def strengths(name: str) -> Floats:
    """(seeds, points, clients): with few records up and down again, with many to 0."""
    if name not in LEVELS or name == "one model":
        return np.zeros((SEEDS, len(ROUNDS), CLIENTS))
    few = np.interp(ROUNDS, [0, 100, 600], [0.05, 0.3, 0.1])[None, :, None] * JITTER
    many = np.interp(ROUNDS, [0, 30], [0.05, 0.0])[None, :, None] * JITTER
    return np.where(SIZES[:, None] < 10, few, np.where(SIZES[:, None] < 25, few / 2, many))


def outcome(level: float, name: str, wobble: float) -> Outcome:
    tuned_early = 0.9 if name in LEVELS else 1.0
    falls = level + (tuned_early - level) * np.exp(-ROUNDS / 20)
    falls = falls * np.exp(wobble * (-1.0) ** np.arange(len(ROUNDS)))
    shape = np.ones((SEEDS, 1, CLIENTS))
    return Outcome(ROUNDS, falls[None, :, None] * JITTER * shape, strengths(name), 1e-12)


def evidence(
    level: Callable[[Network, str], float] = as_claimed,
    design: Design = FULL,
    who: Clients = WHO,
    wobble: Callable[[str], float] = lambda name: 0.02 if name == "SAC" else 0.0,
) -> Evidence:
    cells = {
        (network, name): outcome(level(network, name), name, wobble(name))
        for network in design.networks
        for name in design.names
    }
    return Evidence(design, cells, dict.fromkeys(design.networks, who))


def changed(**levels: float) -> list[Claim]:
    """Judge with other deviations of methods, on the first kind of network alone."""
    own = {name.replace("_", " "): value for name, value in levels.items()}
    at = QUICK._replace(taus=FULL.taus, methods=FULL.methods)
    return judge(evidence(lambda network, name: own.get(name, as_claimed(network, name)), at))


@pytest.mark.parametrize("design", [FULL, QUICK])
def test_all_claims_hold_on_evidence_as_the_text_has_it(design: Design) -> None:
    found = judge(evidence(design=design))
    assert len(found) == len(design.networks) * (17 + (runs.OURS[0] in design.methods))
    assert failing(found) == []


@pytest.mark.parametrize(
    ("levels", "missed"),
    [
        ({"one_model": 2.9e-2}, [0]),
        ({"tau_=_0": 0.9e-2}, [1]),
        ({"tau_=_0.2": 1.5e-2}, [2]),
        ({"DPG": 1.1e-2}, [3, 4, 5]),
        ({"SAC": 7.1e-3}, [8]),
        ({"batch_DPG": 7.1e-3}, [9]),
        ({runs.OURS[0]: 1.1e-2}, [17]),
    ],
)
def test_errors_in_another_order_are_reported(levels: dict[str, float], missed: list[int]) -> None:
    assert failing(changed(**levels)) == missed  # where tau = 0 is the best fixed one, the policies still beat it


def test_the_rival_is_the_best_fixed_strength_and_the_oracle_is_per_seed() -> None:
    found = evidence()
    assert tuned_claims.best_fixed(found, "as drawn") == 0.05
    other = evidence(lambda network, name: 1e-3 if name == fixed(0.15) else as_claimed(network, name))
    assert tuned_claims.best_fixed(other, "as drawn") == 0.15
    # Two strengths, each far better than the policies on half of the seeds: on average both are worse.
    cells = dict(found.outcomes)
    for k, tau in enumerate((0.1, 0.2)):
        plain = cells["as drawn", fixed(tau)]
        factor = np.where(np.arange(SEEDS) % 2 == k, 0.1, 3.0)[:, None, None]
        cells["as drawn", fixed(tau)] = plain._replace(deviation=plain.deviation * factor)
    claims = judge(found._replace(outcomes=cells))
    assert not claims[5].holds
    assert claims[3].holds


def test_whole_intervals_decide() -> None:
    found = evidence(design=QUICK)
    chance = np.exp(np.random.default_rng(4).normal(size=SEEDS))  # by a factor e up or down
    chance = (chance / np.exp(np.log(chance).mean()))[:, None, None]
    cells = dict(found.outcomes)
    for name, factor in (("one model", 0.31), ("SAC", 1.5)):  # a little on the right side on average
        cells["as drawn", name] = cells["as drawn", name]._replace(
            deviation=cells["as drawn", name].deviation * factor * chance
        )
    assert {0, 3} <= set(failing(judge(found._replace(outcomes=cells))))


def test_a_slow_start_is_reported() -> None:
    found = evidence(design=QUICK)
    slow = found.outcomes["as drawn", "SAC"]
    late = slow._replace(deviation=np.where(ROUNDS[:, None] <= 50, 2.0, 1.0) * slow.deviation)
    assert failing(judge(found._replace(outcomes={**found.outcomes, ("as drawn", "SAC"): late}))) == [6, 7]


def test_a_batch_that_is_no_calmer_is_reported() -> None:
    assert failing(judge(evidence(design=QUICK, wobble=lambda name: 0.02 if name == "batch SAC" else 0.01))) == [10]


def test_strengths_that_go_elsewhere_are_reported_with_where_they_end() -> None:
    found = evidence(design=QUICK)
    sac = found.outcomes["as drawn", "SAC"]

    def with_tau(tau: Floats) -> list[int]:
        return failing(judge(found._replace(outcomes={**found.outcomes, ("as drawn", "SAC"): sac._replace(tau=tau)})))

    assert with_tau(np.sort(sac.tau, axis=1)) == [13, 15]
    assert with_tau(sac.tau + 0.02) == [15]
    swapped = np.take_along_axis(sac.tau, np.argsort(np.argsort(-SIZES, axis=1), axis=1)[:, None], axis=2)
    assert 11 in with_tau(np.ascontiguousarray(swapped))


def test_why_one_model_may_be_better_than_clusters_apart_is_said() -> None:
    alone = WHO._replace(own=np.where(SIZES == 5, 0, 2), reach=np.where(SIZES == 5, 5, 200))
    claims = judge(evidence(lambda n, m: 2e-2 if m == "one model" else as_claimed(n, m), QUICK, alone))
    missed = next(claim for claim in claims if not claim.holds)
    assert "17%" in missed.figure


def test_thirds_and_correlations_are_of_each_seed() -> None:
    poor, rich = tuned_strengths.poorest(SIZES), tuned_strengths.poorest(SIZES, most=True)
    assert (SIZES[poor].reshape(SEEDS, 2).max(axis=1) == 8).all()
    assert (SIZES[rich].reshape(SEEDS, 2).min(axis=1) == 30).all()
    np.testing.assert_allclose(tuned_strengths.mean_of(SIZES.astype(float), poor), 6.5)
    tau = 1.0 - SIZES / 100
    assert tuned_strengths.correlation(tau, SIZES).mean == pytest.approx(-1)
    tau[0] = 0.5  # a seed in which nobody moved tells nothing
    assert tuned_strengths.correlation(tau, SIZES).n == SEEDS - 1


# -- worlds and runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["as drawn", "clusters connected"])
def test_a_world_is_as_the_text_has_it(network: Network) -> None:
    found = world(network, 3)
    graph = found.graph
    assert graph.clusters is not None
    assert np.bincount(graph.clusters).tolist() == [10, 10, 10]
    assert 4.5 < len(graph.senders) / 30 < 7.5  # 87 links expected, standard deviation 8
    assert found.sizes.min() >= 5
    assert found.sizes.max() == 35
    ratio = found.truth / found.truth[0]
    np.testing.assert_allclose(ratio, ratio[:, :1] * np.ones(60))
    assert len(np.unique(ratio[:, 0].round(9))) == 3
    batch = found.stream.chunk(0, 1)
    np.testing.assert_array_equal(batch.weight[0].sum(axis=1), found.sizes)
    np.testing.assert_array_equal(batch.validation.weight, batch.weight)
    assert not np.array_equal(batch.validation.x, batch.x)
    off = batch.y[0] - np.einsum("kni,ki->kn", batch.x[0], found.truth)
    level = np.square(off).sum(axis=1) / found.sizes
    assert level.max() < 3
    assert level.max() > 4 * level.min()
    for k in range(30):
        near = graph.senders[graph.receivers == k]
        assert found.own[k] == np.sum(graph.clusters[near] == graph.clusters[k])
    if network == "clusters connected":
        per_cluster = np.bincount(graph.clusters, weights=found.sizes)
        np.testing.assert_array_equal(found.reach, per_cluster[graph.clusters])
    assert (found.reach >= found.sizes).all()
    assert (found.reach[found.own == 0] == found.sizes[found.own == 0]).all()


def test_seeds_differ_and_a_network_that_is_not_found_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not np.array_equal(world("as drawn", 3).truth, world("as drawn", 4).truth)
    monkeypatch.setattr(clustered_regression, "MOST_DRAWS", 0)
    with pytest.raises(DataError, match="seed 999"):
        world("as drawn", 999)


def test_deviations_are_shares_of_each_one_s_own_model() -> None:
    truth = np.zeros((1, 2, 3))
    truth[0, 0, 0], truth[0, 1, 1] = 2.0, 4.0
    models = np.broadcast_to(truth[:, None], (1, 20, 2, 3)).copy()
    models[0, -1, 0, 0] += 1.0
    models[0, -1, 1, 0] += 1.0
    recorded = {"models": models, "residual": np.full((1, 20, 2), 8e-9)}
    run: Any = SimpleNamespace(recorded=recorded, recorded_rounds=np.arange(5, 105, 5))
    found = runs.outcome(run, truth)
    np.testing.assert_allclose(found.deviation[0, -1], [1 / 4, 1 / 16])
    np.testing.assert_allclose(found.settled, [(1 / 4 + 1 / 16) / 2 / 2])  # rounds 95 and 100
    assert found.residual == pytest.approx(4e-9)
    assert not found.tau.any()


def test_curves_are_summed_up_as_they_say() -> None:
    curve = np.array([1.0, 0.1, 0.01, 0.01, 0.1, 0.01])
    tau = np.arange(6.0)[None, :, None] / 10
    found = Outcome(np.arange(5, 35, 5), curve[None, :, None], tau, 0.0)
    np.testing.assert_allclose(found.early(10), [10**-0.5])
    np.testing.assert_allclose(found.roughness, [10.0])
    np.testing.assert_allclose(found.at(12), [[0.2]])
    np.testing.assert_allclose(tuned_charts._over_rounds(found)[0, [0, 4, 9, 14]], [0, 0, -10, -20])


def test_methods_have_the_text_s_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates of a gradient and the penalty of one model are for half of the text's loss."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(runs, "networked_personalised", lambda loss, **settings: seen.append(settings))
    monkeypatch.setattr(runs, "private_admm", lambda loss, **settings: seen.append(settings))
    for name in (*runs.POLICIES, fixed(0.05), "one model"):
        runs.method(name)
    gradient, batch, actor, batch_actor, still, one = seen
    assert [s["rate"] for s in seen[:4]] == pytest.approx([0.002, 0.006, 0.1, 0.04])
    assert [s["epochs"] for s in seen[:4]] == [1, 3, 1, 3]
    assert {s["policy"] for s in (gradient, batch)} == {"gradient"}
    assert {s["policy"] for s in (actor, batch_actor)} == {"actor_critic"}
    assert {s["tau"] for s in seen[:5]} == {0.05}
    assert still == {"penalty": 3.0, "tau": 0.05}
    assert one == {"penalty": 1.5}


@pytest.mark.slow
def test_a_tiny_run_learns() -> None:
    found = runs.run_method(("as drawn", fixed(0.1), 2, 40, 0))
    assert found.deviation.shape == (2, 8, 30)
    assert found.curve[:, -1].max() < 0.2
    assert found.residual < 1e-9
    np.testing.assert_array_equal(found.tau, 0.1)


def test_clients_of_the_picture_are_those_whose_strength_matters() -> None:
    chosen = tuned_charts.three_clients(np.array([5, 9, 7, 30, 20]), np.array([False, True, True, True, True]))
    assert chosen == {"few": 2, "middling": 4, "many": 3}


@pytest.mark.slow
def test_the_page_shows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    found = evidence(design=FULL)
    monkeypatch.setattr(tuned, "gather", lambda *_: found)
    findings = tuned.investigate(FULL, 0)
    names = ["fixed", "tuned", "settled-fixed", "settled-tuned"]
    names += ["strengths-as-drawn", "strengths-clusters-connected"]
    assert [figure.name for figure in findings.figures] == names
    assert all(len(row) == len(table.columns) for table in findings.tables for row in table.rows)
    assert len(findings.metrics["cells"]) == len(found.outcomes)
    assert "npfl-rl" in EXPERIMENTS
