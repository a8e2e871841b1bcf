"""`pgfl-discovery`: verdicts on made-up evidence, and what a run hands on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from reproduction.tests.papers.written import page_of
from tacit.metrics import agreement
from tacit.privacy import unprotected
from tacit.privacy.spending import RunPrivacy
from tacit.privacy.statements import statement
from tacit_reproduction import charts
from tacit_reproduction.experiment import Figure
from tacit_reproduction.personalised import discovery, discovery_runs
from tacit_reproduction.personalised.discovery_claims import judge
from tacit_reproduction.personalised.discovery_runs import (
    Cell,
    Outcome,
    Task,
    duals_after,
    noise_of,
    problem_of,
)
from tacit_reproduction.personalised.regression_runs import CLUSTERS, world_of

SEEDS = 6
WOBBLE = 1 + 0.005 * np.random.default_rng(8).normal(size=(40, SEEDS))
DESIGN = discovery.FULL


def made(right=None, found=0.01) -> dict[Cell, Outcome]:
    """Evidence in which clusters are found, more so with more data, and are worth it."""
    evidence, k = {}, 0
    right = right or (lambda cell: 0.9 + 0.0005 * cell.records[1] + 0.1 * cell.spread - 0.02 * (cell.total is not None))
    for task in discovery.tasks_of(DESIGN, 0):
        for spread in task.spreads:
            cell, k = Cell(task.records, spread, task.total), k + 3
            shares = {w: right(cell) * WOBBLE[k % 40] for w in task.warmups}
            levels = {"true": 0.005, "found": found, "one": 0.05}
            deviation = {kind: value * WOBBLE[(k + 1) % 40] for kind, value in levels.items()}
            privacy = RunPrivacy(statement(unprotected), None)
            evidence[cell] = Outcome(shares, 0.4 * WOBBLE[k % 37], np.full(SEEDS, 0.99), deviation, privacy)
    return evidence


def test_all_holds_where_clusters_are_found():
    assert failing(judge(made(), DESIGN)) == []


@pytest.mark.parametrize(
    ("missed", "right"),
    [
        ([0], lambda cell: 0.7 + 0.001 * cell.records[1] + 0.1 * cell.spread),
        ([0, 1, 2, 3], lambda cell: 0.4 + 0.2 * (cell.total is not None)),
        ([2, 3], lambda cell: 0.95),
        ([0, 2, 3], lambda cell: 0.95 - 0.1 * cell.spread),
        ([2, 3, 6], lambda cell: 0.95 if cell.total is None or cell.total > 100 else 0.4),
    ],
)
def test_a_claim_fails_where_it_is_wrong(missed, right):
    assert failing(judge(made(right), DESIGN)) == missed


def test_found_clusters_have_to_beat_one_model():
    assert failing(judge(made(found=0.06), DESIGN)) == [4, 5]


def test_a_report_is_written_of_all_of_it(monkeypatch):
    monkeypatch.setattr(charts, "finished", lambda canvas, *words: Figure(*words, b"", "<svg ></svg>"))
    found = discovery.findings(made(), DESIGN)
    assert page_of(discovery.DISCOVERY, found).count("<svg") == len(found.figures) == 3


def test_multipliers_are_averaged_over_the_later_half_of_the_warm_up():
    rounds = np.arange(10, 60, 10)
    run = SimpleNamespace(
        recorded_rounds=rounds, recorded={"dual": rounds[None, :, None, None] * np.ones((2, 1, 3, 4))}
    )
    np.testing.assert_allclose(duals_after(run, 40), np.full((2, 3, 4), 35.0))


def test_noise_is_the_same_in_all_rounds_and_costs_the_total():
    assert noise_of(None) is None
    noise = noise_of(30.0)
    assert noise.decay == 1
    assert noise.total(300) == pytest.approx(30.0)


def test_found_clusters_replace_the_true_ones_and_nothing_else():
    world = world_of(problem_of(Cell((2, 9), 0.5, None)), 1)
    labels = np.roll(world.clusters, 1).tolist()
    guessed = discovery_runs._with_clusters(world, labels)
    assert guessed.topology.clusters["client"].tolist() == labels
    assert guessed.topology.links["servers"] is world.topology.links["servers"]
    np.testing.assert_array_equal(guessed.clusters, world.clusters)


def test_clients_choose_right_where_their_records_say_so():
    clear = world_of(problem_of(Cell((2, 9), 0.5, None))._replace(snr=80.0), 1)
    assert discovery_runs._ceiling(clear) > 0.95
    assert 0.3 < discovery_runs._chance(clear) < 0.55
    assert agreement(clear.clusters, clear.clusters) == 1


@pytest.mark.slow
def test_many_records_let_clusters_be_found(monkeypatch):
    monkeypatch.setattr(discovery_runs, "ROUNDS", 60)
    (outcome,) = discovery_runs.run(Task((40, 90), (0.5,), None, (30,), 3, 0)).values()
    assert outcome.warmup == 30
    assert outcome.right[30].mean() > outcome.chance.mean() + 0.2
    assert outcome.deviation["found"].mean() < outcome.deviation["one"].mean()
    assert outcome.right[30].shape == (3,)
    assert CLUSTERS == 3
