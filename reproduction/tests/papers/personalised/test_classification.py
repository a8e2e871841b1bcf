"""`pgfl-mnist` and `pgfl-organ`: runs on made-up images, how settings are chosen, and verdicts on made-up evidence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reproduction.tests.papers.written import page_of
from tacit.core.errors import DataError
from tacit.privacy import unprotected
from tacit.privacy.accounting import guarantee
from tacit.privacy.events import Loss
from tacit.privacy.mechanisms import gaussian
from tacit.privacy.spending import RunPrivacy
from tacit.privacy.statements import statement
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets.tasks import TwoClasses
from tacit_reproduction.personalised import classification, classification_runs, mnist, organ
from tacit_reproduction.personalised.classification import Design, Plan, Steps, Study, Task, study, sweep
from tacit_reproduction.personalised.classification_pages import every_round
from tacit_reproduction.personalised.classification_runs import (
    ALONE,
    Cell,
    Extent,
    Mixing,
    Outcome,
    Setting,
    accuracies,
    by_sensitivity,
    images,
    likeness,
    members,
    published,
    run_cell,
    sizes,
)

MIXED = Mixing(0.4)
SMALL = Setting("small", (TwoClasses((0,), (1,)), TwoClasses((0,), (2,)), TwoClasses((3,), (1,))), 3, (2, 3), cohort=2)
DESIGN = Design(
    rounds=6,
    every=3,
    seeds=8,
    tuning_seeds=2,
    norms=(0.3, 1.0, 3.0),
    clips=(0.1, 1.0),
    levels=(1.0, 10.0, 100.0),
    taus=(),
)
WOBBLE = np.random.default_rng(5).normal(0, 0.1, (400, DESIGN.seeds))


def pictures(classes: int = 12, per_class: int = 80, columns: int = 12) -> Dataset:
    """Images of classes that are easy to tell apart: each has a bright place of its own."""
    rng = np.random.default_rng(3)
    y = np.tile(np.arange(classes), per_class).astype(np.int32)
    x = rng.uniform(0, 0.3, (len(y), columns))
    x[np.arange(len(y)), y % columns] += 1.0
    half = len(y) // 2
    parts = {"train": slice(0, half), "test": slice(half, len(y))}
    names = tuple(map(str, range(columns)))
    return Dataset("pictures", x.astype(np.float32), y, names, "made up", True, parts, "multiclass")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return images(pictures(), SMALL.classes)


# -- runs --------------------------------------------------------------------------------------------------------------

CELL = Cell(SMALL, MIXED, 300.0, 0.1)
EXTENT = Extent(6, range(7, 9), 3)


@pytest.fixture(scope="module")
def run(data: Dataset) -> list[Outcome]:
    return run_cell(CELL, (0.4, 6.0), EXTENT, data)


@pytest.mark.slow
def test_a_run_learns_and_books_its_noise(run) -> None:
    assert len(run) == 2
    for outcome in run:
        assert outcome.accuracy.shape == (2, 2)
        assert outcome.by_cluster.shape == (2, 3)
        assert 70 < outcome.final.min() < 99.9
        np.testing.assert_allclose(outcome.final, outcome.by_cluster.mean(axis=1))
        # Of six rounds, each dearer than the last, the one that was called most often has been read in so many.
        dear = sum(0.99**-n for n in range(6 - outcome.privacy.reads, 6)) / sum(0.99**-n for n in range(6))
        np.testing.assert_allclose(outcome.privacy.summary()["rho"], 300 * dear, rtol=1e-4)
        assert 0 <= outcome.residual < 1e-3


def test_residuals_are_measured_by_sensitivities() -> None:
    """Two repeats of two clients: the client with more images has the smaller sensitivity."""
    residual = np.array([[[0.0, 1e-4], [1e-5, 0.0]], [[2e-4, 0.0], [0.0, 0.0]]])
    found = by_sensitivity(residual, np.array([0.1, 0.4]), np.array([[2, 4], [2, 4]]))
    np.testing.assert_allclose(found, [1e-4 * 4 * 1.01 / 0.2, 2e-4 * 2 * 1.01 / 0.8])


@pytest.mark.slow
def test_norms_stand_for_clips_and_penalties(run, data, monkeypatch) -> None:
    """Images of norm 0.4 learn what images of norm 0.1 do with a quarter of the clip, a sixteenth of the penalties."""
    runs = classification_runs
    monkeypatch.setattr(runs, "PENALTY", runs.PENALTY / 16)
    monkeypatch.setattr(runs, "LOSS", runs.objectives.logistic(l2=runs.L2 / 16))
    (same,) = run_cell(CELL._replace(clip=CELL.clip / 4), (0.1,), EXTENT, data)
    np.testing.assert_allclose(same.accuracy, run[0].accuracy, atol=1e-9)


def test_the_published_noise_costs_what_its_rounds_cost() -> None:
    assert published(1) == 0.001
    assert published(300) == pytest.approx(1.92, abs=0.005)  # the text says 0.095
    assert published(100) == pytest.approx(0.1715, abs=5e-5)


def test_images_have_norm_one_and_keep_their_parts(data) -> None:
    np.testing.assert_allclose(np.linalg.norm(data.x, axis=1), 1, rtol=1e-6)
    assert set(data.y) == SMALL.classes
    assert data.parts == {"train": slice(0, 160), "test": slice(160, 320)}
    dark = pictures()
    dark.x[dark.y == 2] = 0
    with pytest.raises(DataError, match="row 2 is black"):
        images(dark, {1, 2})


def test_clusters_are_equal_and_sizes_in_range() -> None:
    for seed in range(3):
        assert np.bincount(members(mnist.PAIRS, seed)).tolist() == [50, 50, 50]
        found = sizes(mnist.TRIPLETS, seed)
        assert (found.min(), found.max(), len(found)) == (6, 12, 150)
        assert sizes(SMALL._replace(sizes=(2, 400)), seed).max() == 400, "batches of all seeds have one shape"
    assert np.any(members(mnist.PAIRS, 0) != members(mnist.PAIRS, 1))


def test_models_are_judged_on_their_own_clusters_test(data) -> None:
    """A model that finds class 1 is right on {0} / {1} and {3} / {1}, and says no to all of {0} / {2}."""
    knows = np.zeros(12, np.float32)
    knows[[0, 1, 2, 3]] = -1, 1, -1, -1
    models = np.broadcast_to(knows, (1, 2, 6, 12)).copy()
    models[0, 1, 2:4] *= -1  # cluster 1, later
    found = accuracies(models, [np.array([0, 0, 1, 1, 2, 2])], SMALL, data)
    np.testing.assert_allclose(found, [[[100, 50, 100], [100, 50, 100]]])
    models[0, 1, 4] *= -1
    np.testing.assert_allclose(accuracies(models, [np.array([0, 0, 1, 1, 2, 2])], SMALL, data)[0, 1, 2], 50)


def test_tasks_are_alike_or_mislead(data) -> None:
    turned = SMALL._replace(tasks=(TwoClasses((0,), (1,)), TwoClasses((1,), (0,)), TwoClasses((0,), (1,))))
    found = likeness(turned, data)
    assert found[0, 0] == found[0, 2] == 100
    assert found[0, 1] == 0


# -- choices -----------------------------------------------------------------------------------------------------------


def outcome(level: float, k: int, spent: float = math.inf, early: float = 0.0) -> Outcome:
    """Accuracies around a level, of which the early ones are higher by so much."""
    values = np.stack([level + early + WOBBLE[k % 400], level + WOBBLE[(k + 7) % 400]], axis=1)
    if math.isinf(spent):
        privacy = RunPrivacy(statement(unprotected))
    else:
        privacy = RunPrivacy(statement(gaussian(1.0, 1.0)), guarantee(Loss(math.inf, spent, 0.0), "record", 1e-5, 6))
    return Outcome(values, np.tile(values[:, -1:], (1, 3)), 1e-6, privacy)


class FakeCrew:
    """Runs nothing: accuracy falls with the distance from the best norm, with noise, and with the larger clip."""

    def __init__(self, best: dict[Mixing, float], needed: float) -> None:
        self.best, self.needed, self.tasks = best, needed, list[Task]()

    def __call__(self, what, do, tasks):
        assert do is classification.do
        self.tasks += tasks
        return [[self._of(task, norm) for norm in task.norms] for task in tasks]

    def _of(self, task: Task, norm: float) -> Outcome:
        lost = 0.0 if task.cell.total >= self.needed else 30.0
        lost += abs(math.log(norm / self.best[task.cell.mixing])) + 3 * (task.cell.clip == 0.1)
        return outcome(95 - lost, len(self.tasks), task.cell.total)


def test_choices_are_made_on_other_seeds_and_the_smallest_level_is_taken_that_does(data) -> None:
    team = FakeCrew({ALONE: 0.3, MIXED: 3.0}, needed=5.0)
    plans = [Plan(SMALL, (ALONE, MIXED)), Plan(SMALL._replace(name="quiet"), (ALONE,), noisy=False)]
    found, quiet = study(team, plans, DESIGN, 100, data)
    assert found.totals == {"none": math.inf, "published": published(6), "affordable": 10.0}
    assert quiet.totals == {"none": math.inf}
    for (noise, mixing), steps in found.steps.items():
        # Without noise no clip is looked for.
        assert steps == Steps(0.3 if mixing == ALONE else 3.0, 0.1 if noise == "none" else 1.0)
    tuning = [task for task in team.tasks if len(task.norms) > 1]
    final = [task for task in team.tasks if len(task.norms) == 1]
    assert len(tuning) == 2 * (1 + 2) + 3 * 2 + 2 + 1
    assert len(final) == 2 * 3 + 1
    assert {task.extent.seeds for task in final} == {range(100, 108)}
    assert {task.extent.seeds for task in tuning} == {range(108, 110)}
    assert found.outcomes.keys() == found.steps.keys()
    swept = sweep(team, found, "affordable", MIXED, DESIGN._replace(taus=(0.0, 0.4)), 100, data)
    assert list(swept) == [0.0, 0.4]
    assert [(task.norms, *task.cell[1:]) for task in team.tasks[-2:]] == [
        ((3.0,), ALONE, 10.0, 1.0),
        ((3.0,), MIXED, 10.0, 1.0),
    ]


def test_where_no_level_does_there_is_none_and_without_tuning_no_choice(data) -> None:
    team = FakeCrew({ALONE: 1.0, MIXED: 1.0}, needed=1e9)
    (found,) = study(team, [Plan(SMALL, (ALONE, MIXED))], DESIGN, 0, data)
    assert list(found.totals) == ["none", "published"]
    team = FakeCrew({ALONE: 1.0, MIXED: 1.0}, needed=0.0)
    (found,) = study(team, [Plan(SMALL, (ALONE, MIXED))], DESIGN._replace(tuning_seeds=0, levels=()), 0, data)
    assert set(found.steps.values()) == {Steps(0.3, 0.1)}
    assert len(team.tasks) == 4


# -- verdicts ----------------------------------------------------------------------------------------------------------


def evidence_of(setting: Setting, levels: dict, early: float = 0.0) -> Study:
    """Accuracies by (noise, mixing)."""
    totals = {"none": math.inf, "published": 0.17, "affordable": 1000.0}
    mixings = tuple(dict.fromkeys(mixing for _, mixing in levels))
    return Study(
        Plan(setting, mixings),
        totals,
        dict.fromkeys(levels, Steps(1.0, 0.1)),
        {
            key: outcome(level, 11 * k, totals[key[0]], 0.0 if key[1] == ALONE else early)
            for k, (key, level) in enumerate(levels.items())
        },
        np.array([[98.0, 60.0, 30.0], [60.0, 98.0, 60.0], [30.0, 60.0, 98.0]]),
    )


def digits(gain: dict, published: float = 94.0) -> Study:
    alone = {"none": 95.0, "published": published, "affordable": 94.0}
    levels = {(noise, ALONE): level for noise, level in alone.items()}
    return evidence_of(mnist.PAIRS, levels | {(n, mnist.MIXED): alone[n] + more for n, more in gain.items()})


def by_tau(*levels: float) -> dict:
    return {
        tau: outcome(level, 3 * k).final for k, (tau, level) in enumerate(zip(mnist.FULL.taus, levels, strict=True))
    }


def test_digits_verdicts() -> None:
    helps = digits({"none": 2.0, "published": 2.0, "affordable": 2.0})
    harms = digits({"none": -2.0, "published": 0.0, "affordable": -2.0}, published=52.0)
    sweeps = {"published": by_tau(90, 91, 92, 92, 91, 80), "affordable": by_tau(90, 91, 92, 90, 91, 92)}
    claims = mnist.judge(mnist.Evidence(dict(zip(mnist.WORDS, (harms, helps, helps), strict=True)), sweeps))
    # Gains of pairs, the cost of published noise to them, and tau in the affordable sweep.
    assert [position for position, claim in enumerate(claims) if not claim.holds] == [0, 1, 2, 9, 14, 15]
    assert all(claim.figure for claim in claims)
    assert all(number in claims[0].figure for number in ("98 %", "50 %", "30 %", "-2.0"))


def test_an_inexact_solution_is_told() -> None:
    rough = digits({"none": 0.0, "published": 0.0, "affordable": 0.0})
    key = ("none", ALONE)
    rough.outcomes[key] = rough.outcomes[key]._replace(residual=2e-3)
    assert not mnist.judge(mnist.Evidence({mnist.PAIRS.name: rough}, {}))[-1].holds


@pytest.mark.parametrize(
    ("similar", "faded", "fixed", "early", "verdicts"),
    [
        (5.0, 2.0, -1.0, 1.0, (True, True, True, True, True)),
        (1.0, 0.0, 1.0, -1.0, (True, False, False, False, False)),
        (-1.0, 6.0, 6.0, -7.0, (False, False, False, False, False)),
    ],
)
def test_organ_verdicts(similar, faded, fixed, early, verdicts) -> None:
    noises = ("none", "published", "affordable")
    alike = {(n, m): 90.0 + (similar if m == organ.FIXED else 0) for n in noises for m in (ALONE, organ.FIXED)}
    gains = {ALONE: 0.0, organ.FADING: faded, organ.FIXED: fixed}
    apart = {(n, m): 80.0 + gain for n in noises for m, gain in gains.items()}
    found = organ.Evidence(
        evidence_of(organ.SIMILAR, alike), evidence_of(organ.DISSIMILAR, apart, early), every=organ.EARLY
    )
    holds = [claim.holds for claim in organ.judge(found)]
    assert holds[:6] == 3 * list(verdicts[:2])
    assert holds[6:15] == 3 * list(verdicts[2:])
    assert holds[15:] == [True] * 3


@pytest.mark.parametrize(("norm", "words"), [(0.3, "images have norm 0.3 and 1"), (3.0, "of another task's")])
def test_a_slower_method_with_shorter_steps_is_explained_by_them(norm: float, words: str) -> None:
    levels = {("none", m): 80.0 for m in (ALONE, organ.FADING, organ.FIXED)}
    slow = evidence_of(organ.DISSIMILAR, levels, early=-2.0)
    slow.steps["none", organ.FADING] = Steps(norm, 0.1)
    only = slow._replace(totals={"none": math.inf})
    claims = organ.judge(organ.Evidence(only, only, every=organ.EARLY))
    assert words in next(claim.figure for claim in claims if "learns faster" in claim.claim)


def test_curves_go_through_their_records() -> None:
    found = every_round(np.array([[10.0, 40.0]]), DESIGN)
    np.testing.assert_allclose(found, [[10, 10, 10, 20, 30, 40]])


@pytest.mark.slow
def test_findings_are_shown() -> None:
    helps = digits({"none": 2.0, "published": 2.0, "affordable": 2.0})
    evidence = mnist.Evidence({"pairs": helps, "triplets": helps}, {"published": by_tau(90, 91, 92, 92, 91, 80)})
    found = mnist.findings(evidence, DESIGN._replace(taus=mnist.FULL.taus), pictures())
    assert [figure.png[:4] for figure in found.figures] == [b"\x89PNG"] * 4
    text = page_of(mnist.MNIST, found)
    assert "94 ± " in text
    assert found.metrics["pairs"][0]["epsilon"] is None
    assert found.metrics["pairs"][1]["rho"] == 0.17
    assert found.metrics["sweeps"][0]["by_tau"].keys() == {"0", "0.2", "0.4", "0.6", "0.8", "1"}
