"""Tables, figures and procedure of both experiments on images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.results.record import figure
from tacit_reproduction import promises
from tacit_reproduction.charts import mean_points, points
from tacit_reproduction.drawing import IN_WORDS, Panel, draw_curves, means_of
from tacit_reproduction.experiment import Figure, Table
from tacit_reproduction.judging import brief, shown
from tacit_reproduction.personalised.classification import Design, Study
from tacit_reproduction.personalised.classification_claims import in_words, learning_of
from tacit_reproduction.personalised.classification_runs import (
    CLUSTERS,
    DEGREE,
    L2,
    LOST,
    PENALTY,
    PHI0,
    SERVERS,
    TEST_ROWS,
    ZETA,
    Floats,
    Noise,
    published,
)
from tacit_reproduction.personalised.regression_charts import TAU

ACCURACY = "test accuracy (%)"


def metrics(of: Study) -> list[dict[str, Any]]:
    """Return the numbers of a setting for summary.json."""
    return [
        {
            "noise": noise,
            **{kind: outcome.privacy.summary()[kind] for kind in ("rho", "epsilon")},
            "tau": mixing.tau,
            "decay": mixing.decay,
            **of.steps[noise, mixing]._asdict(),
            "accuracy": figure(outcome.final),
            "by_cluster": outcome.by_cluster.mean(axis=0).tolist(),
            "residual": outcome.residual,
        }
        for (noise, mixing), outcome in of.outcomes.items()
    ]


def table(studies: Sequence[Study]) -> Table:
    """Return all runs."""
    found = []
    for each in studies:
        for (noise, mixing), outcome in each.outcomes.items():
            (norm, clip), total = each.steps[noise, mixing], each.totals[noise]
            found.append(
                (
                    each.plan.setting.name,
                    "-" if math.isinf(total) else brief(outcome.privacy.summary()["rho"], 3),
                    *promises.in_columns(outcome.privacy),
                    mixing.words,
                    f"{norm:g}",
                    "-" if math.isinf(total) else brief(clip / norm, 2),
                    brief(PENALTY / norm**2, 2),
                    shown(outcome.final),
                    " / ".join(f"{value:.1f}" for value in outcome.by_cluster.mean(axis=0)),
                )
            )
    columns = ("tasks", "rho (zCDP)", *promises.COLUMNS, "mixing", "norm s", "clip C / s", "penalty / s^2")
    note = "Accuracies in per cent on the clusters' test sets, ± is half of the 95 % interval of the mean. "
    every = (outcome.privacy for each in studies for outcome in each.outcomes.values())
    return Table("All runs", note + promises.note(every), (*columns, "accuracy", "by cluster"), found)


def learning(studies: Sequence[Study], design: Design, number: str) -> list[Figure]:
    """Draw accuracies round by round, a figure per noise and a panel per setting."""
    made = []
    # The legend is that of the first panel, which therefore has the most curves.
    order = sorted(studies, key=lambda each: -len(each.plan.mixings))
    for noise in dict.fromkeys(noise for each in studies for noise in each.totals):
        panels = [
            Panel(
                f"{each.plan.setting.name}, {in_words(each, noise)}",
                {m.words: every_round(each.outcomes[noise, m].accuracy, design) for m in each.plan.mixings},
            )
            for each in order
            if noise in each.totals
        ]
        title = f"Test accuracy round by round: {'no' if noise == 'none' else noise} noise"
        said = means_of(curve for panel in panels for curve in panel.curves.values())
        caption = f"As figure {number}. {said} {IN_WORDS}"
        made.append(draw_curves(learning_of(noise), title, caption, panels, ACCURACY))
    return made


def every_round(recorded: Floats, design: Design) -> Floats:
    """Return records (seeds, records) at every round, with straight lines between them."""
    at = design.every * np.arange(1, recorded.shape[1] + 1)
    return np.stack([np.interp(np.arange(1, design.rounds + 1), at, values) for values in recorded])


def by_tau(noise: Noise) -> str:
    """Return the name of the figure with accuracies over tau."""
    return f"tau-{noise}"


def swept(of: Study, noise: Noise, values: Mapping[float, Floats], caption: str) -> Figure:
    """Draw accuracies over tau."""
    taus = [f"{tau:g}" for tau in values]
    panel = {f"{of.plan.setting.name}, {in_words(of, noise)}": {"mean, 95 %": mean_points(list(values.values()))}}
    title = f"Test accuracy by tau: {noise} noise"
    words = f"{caption} {means_of(values.values())} {IN_WORDS}"
    return points(by_tau(noise), title, words, panel, taus, TAU, ACCURACY)


def likenesses(studies: Sequence[Study]) -> Table:
    """Return how well each task's model does on each task's test."""
    found = [
        (each.plan.setting.name, str(q + 1), *(f"{value:.1f}" for value in right))
        for each in studies
        for q, right in enumerate(each.likeness)
    ]
    note = (
        "Per cent that a model of one cluster's task, a ridge regression from up to 4,000 images, gets right on each "
        "cluster's test set; below 50 it misleads."
    )
    return Table("How alike tasks are", note, ("tasks", "model of cluster", *"123"), found)


def method(design: Design) -> list[str]:
    """Say what both experiments have in common."""
    norms, clips, levels = (
        ", ".join(f"{value:g}" for value in values) for values in (design.norms, design.clips, design.levels)
    )
    choice = (
        f"for each noise and each mixing they are the best of s = {norms} and C = {clips} on {design.tuning_seeds} "
        f"other seeds, by accuracy after {design.rounds} rounds"
        if design.tuning_seeds
        else f"here s = {design.norms[0]:g} and C = {design.clips[0]:g}"
    )
    affordable = (
        f"; and the smallest of {levels} in the same shape that costs less than {LOST:g} points without mixing on the "
        "other seeds"
    )
    return [
        f"{SERVERS} servers on a random connected graph in which each has {DEGREE} neighbours; clients are in "
        f"{CLUSTERS} equal clusters at random, each with images of its own from the data's training part. Graph, "
        f"clusters and images are drawn anew for each of {design.seeds} seeds, the same for all that is compared. "
        f"Accuracy is that of the clients' own models on {TEST_ROWS} images of their cluster's task from the test "
        "part, drawn once.",
        f"Logistic loss with l2 = {L2:g}, rho = {PENALTY:g}, clip C and images of norm s without a constant: that is "
        f"clip C / s and rho = {PENALTY:g} / s^2 for images of norm 1. The text leaves all this open: {choice}.",
        f"Noise: none; the text's phi_0 = {PHI0:g}, zeta = {ZETA:g}, whose rho over {design.rounds} rounds is "
        f"{published(design.rounds):.3f} for a client that is called in all{affordable if levels else ''}. What is "
        "booked, and shown, is what the client has spent that was called most often.",
    ]
