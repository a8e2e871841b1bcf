"""Words of a report, explained: figures in its table, privacy, and the short names of methods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

FIGURES: Mapping[str, str] = {
    "average loss": "what a prediction cost, before the agent learnt from the sample; mean over all agents and rounds. "
    "Lower is better",
    "accuracy": "share of right predictions. Higher is better",
    "held-out": "of the final models, on rows that none of them learnt from",
    "training": "records were read more than once: a figure of what was learnt before, not of something new",
    "balanced accuracy": "mean over the classes of the share of their rows that was found; a constant has 1 / classes",
    "F1": "harmonic mean of precision and recall, of the second class; with more classes the mean of theirs",
    "ROC AUC": "probability that a row of the class scores above one of another; 0.5 is chance",
    "log loss": "mean of minus the logarithm of the probability that was given to what was so. Lower is better",
    "calibration error": "distance of predicted probabilities from frequencies, over ten bins. 0 is best",
    "RMSE": "root of the mean squared error, in units of the label. Lower is better",
    "MAE": "mean absolute error, in units of the label. Lower is better",
    "R2": "share of the label's variance that predictions explain; a mean has 0, and below 0 it would have been better",
    "mse": "mean squared error of the predictions. Lower is better",
    "regret": "average loss minus that of the one model that would have been best for all the data, known only "
    "afterwards. Near 0, or below, is good",
    "consensus distance": "how far the agents' models lie apart at the end: mean squared distance from their mean. 0 "
    "means that all have the same model",
    "bits": "numbers that an agent sends to others, before a network wraps them up",
    "privacy": "bound on what messages tell about one record, or about one data set. Smaller epsilon is more private",
    "noise / signal": "norm of the noise over that of the values released, as a mean over the rounds",
    "clipped": "share of the records whose gradient was above the clip, and was scaled down to it",
    "loss above the lowest": "difference from the run with the lowest average loss, paired: both saw the same data",
}
"""Part of a column's title -> what it is."""
ACRONYMS: Mapping[str, str] = {
    "OPS": "online push-sum: agents send over one-way links, and none needs to know who hears it",
    "COL": "central online learning: all data at one place, the ideal to compare with",
    "DOL": "decentralised online learning",
    "DOL-Symm": "decentralised online learning over mutual (symmetric) links only",
    "DOL-Asymm": "decentralised online learning over one-way (asymmetric) links without push-sum's correction",
    "DOLA": "distributed online learning algorithm",
    "OGD": "online gradient descent: a step against the gradient of each new sample's loss",
    "SGD": "stochastic gradient descent: a step against the gradient of a few samples' loss",
    "ADMM": "alternating direction method of multipliers",
    "CTA": "combine, then adapt: average with the neighbours, then learn",
    "ATC": "adapt, then combine: learn, then average with the neighbours",
    "FedAvg": "federated averaging around one server",
    "GFL": "graph federated learning: several servers, each with its clients",
    "PGFL": "personalised graph federated learning: a model for each cluster of clients",
    "NPFL": "networked personalised federated learning",
    "PAO-Fed": "partial-sharing asynchronous online federated learning",
    "PSO-Fed": "partial-sharing online federated learning",
    "NFL": "networked federated learning, without a server",
    "zCDP": "zero-concentrated differential privacy: a budget that adds up over releases",
    "DP": "differential privacy",
    "eps": "epsilon, the privacy that was spent: one record changes how likely any message is by a factor of at most "
    "e to the epsilon",
    "delta": "probability with which that bound may fail",
}
"""Short name -> what it stands for."""


def explained(column: str) -> str:
    """Return what a column shows; nothing where it is not known.

    Args:
      column: Its title.

    Example:
      >>> from tacit.results.pages.glossary import explained
      >>> explained("regret / agent / round").partition(".")[2]
      ' Near 0, or below, is good'
    """
    left, found = column.lower(), {}
    for part in sorted(FIGURES, key=len, reverse=True):  # the longest first: "balanced accuracy" is no "accuracy"
        if part.lower() in left:
            left = left.replace(part.lower(), "")
            found[column.lower().index(part.lower())] = FIGURES[part]
    return ". ".join(words[:1].upper() + words[1:] for _, words in sorted(found.items()))


def glossary(columns: Iterable[str], words: Iterable[str]) -> dict[str, str]:
    """Return what stands in need of an explanation -> the explanation.

    Args:
      columns: Titles of a table.
      words: Labels and other texts, in which short names are looked for.

    Example:
      >>> from tacit.results.pages.glossary import glossary
      >>> list(glossary(["privacy"], ["Private OPS"]))
      ['privacy', 'OPS']
    """
    text = "\n".join(words)
    found = {column: meaning for column in columns if (meaning := explained(column))}
    for short, meaning in ACRONYMS.items():
        if re.search(rf"(?<![\w-]){re.escape(short)}(?![\w-])", text):
            found[short] = f"{meaning[:1].upper()}{meaning[1:]}"
    return found


def setting_in_words(value: Any) -> str:
    """Return the value of a setting as a reader writes it.

    Args:
      value: Of a configuration: a number, a word, a table.

    Example:
      >>> from tacit.results.pages.glossary import setting_in_words
      >>> setting_in_words({"kind": "laplace", "epsilon": 1.0}), setting_in_words(True), setting_in_words([1, 2])
      ('laplace, epsilon 1.0', 'yes', '1, 2')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting_in_words, value))
    if not isinstance(value, dict):
        return str(value)
    if "kind" not in value:
        return " ".join(setting_in_words(part) for part in value.values())
    further = (f"{key} {setting_in_words(part)}" for key, part in value.items() if key != "kind")
    return ", ".join([str(value["kind"]), *further])
