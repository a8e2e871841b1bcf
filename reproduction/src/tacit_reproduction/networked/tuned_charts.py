"""Pictures of `npfl-rl`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.results.plots import COLOURS, LINES, STYLE
from tacit_reproduction.charts import Points, mean_points, points
from tacit_reproduction.drawing import IN_WORDS, Panel, draw_curves, finished, means_of
from tacit_reproduction.experiment import Figure
from tacit_reproduction.gaps import decibels
from tacit_reproduction.networked.clustered_regression import Floats, Network
from tacit_reproduction.networked.tuned_claims import FIXED, SETTLED_TUNED, TUNED
from tacit_reproduction.networked.tuned_runs import (
    DPG,
    EVERY,
    ONE_MODEL,
    POLICIES,
    SAC,
    START,
    TEXT_TAUS,
    Evidence,
    Outcome,
    fixed,
)
from tacit_reproduction.networked.tuned_strengths import strengths_of

IN_DB = "mean NMSD over clients (dB)"


def figures(evidence: Evidence) -> list[Figure]:
    """Draw figures 6.1 to 6.3 of the text again, and errors over tau."""
    networks = evidence.design.networks

    def panels(names: tuple[str, ...]) -> list[Panel]:
        return [
            Panel(network, {name: _over_rounds(evidence.outcomes[network, name]) for name in names})
            for network in networks
        ]

    said = f"{_seeds(evidence)} Recorded at every {EVERY}th round. {IN_WORDS}"
    return [
        draw_curves(
            FIXED,
            "One model, and a model per cluster with a fixed tau",
            f"As figure 6.1. {said}",
            panels((ONE_MODEL, *map(fixed, TEXT_TAUS))),
            IN_DB,
        ),
        draw_curves(
            TUNED,
            "Tau tuned by the four policies, with the text's rates",
            f"As figure 6.2. {said}",
            panels((fixed(START), *POLICIES)),
            IN_DB,
        ),
        _settled(
            evidence,
            "settled-fixed",
            [fixed(tau) for tau in evidence.design.taus],
            [f"{tau:g}" for tau in evidence.design.taus],
            "fixed tau, pull of other clusters",
        ),
        _settled(
            evidence,
            SETTLED_TUNED,
            evidence.design.methods,
            [name.replace(", ", ",\n").replace("batch ", "batch\n") for name in evidence.design.methods],
            "policy",
        ),
        *(_strengths(evidence, network) for network in networks),
    ]


def _seeds(evidence: Evidence) -> str:
    return means_of(outcome.settled for outcome in evidence.outcomes.values())


def three_clients(sizes: Floats, used: Floats) -> dict[str, int]:
    """Return the clients with the fewest, middling and most records among those whose tau matters."""
    order = [int(k) for k in np.argsort(sizes, kind="stable") if used[k]]
    return {"few": order[0], "middling": order[len(order) // 2], "many": order[-1]}


def _over_rounds(outcome: Outcome) -> Floats:
    """(seeds, rounds) in dB, straight between records."""
    return _each_round(outcome, decibels(outcome.curve))


def _each_round(outcome: Outcome, values: Floats) -> Floats:
    every = np.arange(1, outcome.rounds[-1] + 1)
    return np.stack([np.interp(every, outcome.rounds, row) for row in values])


def _settled(evidence: Evidence, name: str, methods: Sequence[str], labels: Sequence[str], x_label: str) -> Figure:
    def series(network: Network) -> Points:
        return mean_points(decibels(evidence.outcomes[network, method].settled) for method in methods)

    return points(
        name,
        f"Where the error settles, by {x_label}",
        f"{_seeds(evidence)} Methods share the seeds, so that differences are surer. The text has no such figure.",
        {"": {network: series(network) for network in evidence.design.networks}},
        labels,
        x_label,
        IN_DB,
    )


def _strengths(evidence: Evidence, network: Network) -> Figure:
    """Draw tau of three clients of the first seed."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    who = evidence.clients[network]
    chosen = three_clients(who.sizes[0], who.own[0] > 0)
    name = strengths_of(network)
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        canvas = Canvas(figsize=(9.0, 4.0), layout="constrained")
        places: Any = canvas.subplots(1, 2)
        for place, policy in zip(places, (SAC, DPG), strict=True):
            found = evidence.outcomes[network, policy]
            for j, (words, k) in enumerate(chosen.items()):
                label = f"{words} records ({who.sizes[0, k]})"
                place.plot(found.rounds, found.tau[0, :, k], color=COLOURS[j], ls=LINES[j], label=label)
            place.set_title(policy)
            place.set_xlabel("round t")
            place.set_ylabel("tau, pull of other clusters")
        canvas.legend(*places[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return finished(
            canvas,
            name,
            f"Tau of three clients, {network}",
            "As figure 6.3, of the first seed: the clients with the fewest, middling and most records among those with "
            f"a neighbour of their own cluster. Both axes of tau have their own range; it starts at {START:g}. "
            f"{IN_WORDS}",
        )
