"""Charts, tables and sentences of both experiments with a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import Interval, mean_interval, paired_difference
from tacit_reproduction import promises
from tacit_reproduction.charts import Curve, Points, log_curves, points
from tacit_reproduction.experiment import Claim, Figure, Table, seen_in
from tacit_reproduction.judging import Chain, brief, rising, shown
from tacit_reproduction.mirror.budget import AGENTS, PROBLEMS, SEASON
from tacit_reproduction.mirror.spending import (
    EPSILON,
    RELEASED_EPSILON,
    UNCONSTRAINED,
    Cell,
    Design,
    Evidence,
    duals_compared,
)

Floats = NDArray[np.float64]
REFERENCE = "√T, for reference"
REGRET, OVERSPENDING, BY_NOISE = "regret", "overspending", "noise"
"""Figures that both experiments have."""


def level(epsilon: float | None) -> str:
    """Return how much noise there is, in words."""
    return "no noise" if epsilon is None else f"eps = {epsilon:g}"


def own_words(cell: Cell) -> str:
    """Return a cell's noise and dual in words."""
    if cell.method == UNCONSTRAINED:
        return "without constraint"
    kept = "" if cell.epsilon is None else f", dual {cell.dual}"
    return level(cell.epsilon) + kept


def over_horizons(
    name: str, title: str, caption: str, cells: Mapping[Cell, Floats], evidence: Evidence, y_label: str
) -> Figure:
    """Draw totals per agent over the horizons, one panel per problem; what is not above 0 is left out."""
    panels: dict[str, dict[str, Curve]] = {problem.words.capitalize(): {} for problem in PROBLEMS.values()}
    for cell, totals in cells.items():
        at = np.array(evidence.outcomes[cell].horizons, np.int64)
        heights = np.where(totals.mean(axis=0) > 0, totals / AGENTS, np.nan)
        panels[PROBLEMS[cell.problem].words.capitalize()][own_words(cell)] = Curve(at, heights)
    horizons = np.array(evidence.horizons, np.int64)
    for curves in panels.values():
        curves[REFERENCE] = Curve(horizons, np.sqrt(horizons.astype(np.float64))[None, :])
    return log_curves(name, title, caption, panels, "number of rounds T", y_label)


def sweep(
    name: str,
    title: str,
    caption: str,
    evidence: Evidence,
    cells: Mapping[str, Mapping[str, Cell]],
    at: int,
    label: str,
) -> Figure:
    """Draw regret and overspending of cells (place -> problem -> cell) per agent and round."""
    places = list(cells)
    panels: dict[str, dict[str, Points]] = {"Regret": {}, "Spent beyond the budget": {}}
    for problem in PROBLEMS.values():
        row = [cells[place][problem.name] for place in places]
        regret = [mean_interval(evidence.average_regret(cell, SEASON, at)) for cell in row]
        spent = [mean_interval(evidence.average_spent(cell, at)) for cell in row]
        for heading, found in (("Regret", regret), ("Spent beyond the budget", spent)):
            numbers = np.array([each[:3] for each in found])
            panels[heading][problem.words] = Points(numbers[:, 0], numbers[:, 1], numbers[:, 2])
    return points(name, title, caption, panels, places, label, "mean per agent and round")


def table(evidence: Evidence, windows: Sequence[int], knob: str) -> Table:
    """Return what every cell came to at its longest horizon."""
    rows = []
    for cell, outcome in evidence.outcomes.items():
        last = outcome.horizons[-1]
        regrets = (shown(evidence.average_regret(cell, window, last)) for window in windows)
        rows.append(
            (
                PROBLEMS[cell.problem].words,
                own_words(cell),
                "-" if cell.method == UNCONSTRAINED else f"{cell.knob:g}",
                f"{last:,}",
                *regrets,
                shown(evidence.average_spent(cell, last)),
                *promises.in_columns(outcome.privacy),
            )
        )
    against = (f"regret, K = {window}" for window in windows)
    columns = ("problem", "run", knob, "rounds", *against, "beyond the budget", *promises.COLUMNS)
    note = (
        "Per agent and round; ± is half of the 95 % interval of the mean. Regret is against the best fixed point that "
        f"keeps every window of K rounds. {promises.note(o.privacy for o in evidence.outcomes.values())}"
    )
    return Table("All runs", note, columns, rows)


def by_epsilon(claim: str, evidence: Evidence, cells: Mapping[str, Sequence[Cell]], at: int, text: str) -> list[Claim]:
    """Regret rises as eps falls; cells are given with rising noise."""
    chains = [
        Chain(
            PROBLEMS[problem].words,
            [(level(cell.epsilon), evidence.average_regret(cell, SEASON, at)) for cell in row],
        )
        for problem, row in cells.items()
    ]
    verdict = rising(claim, chains, note=f"Per agent and round at T = {at:,}, against K = {SEASON}.")
    return seen_in(BY_NOISE, verdict, text=text)


def price_of_release(evidence: Evidence, kept: Mapping[str, Cell], last: int, text_claims: str) -> list[Claim]:
    """Compare the private dual (problem -> cell) with released ones: what a run is charged, and what it costs."""
    charged, cost, chains, holds = [], [], [], True
    for name, cell in kept.items():
        words = PROBLEMS[name].words
        released, learning, same_total = duals_compared(cell, last)
        totals = [_total_epsilon(evidence, each) for each in (cell, released)]
        holds &= bool(np.allclose(totals, [last * EPSILON, EPSILON]))
        charged.append(f"{words}: {brief(totals[0])} and {brief(totals[1])} at T = {last:,}")
        regret = paired_difference(
            evidence.average_regret(released, SEASON, last), evidence.average_regret(cell, SEASON, last)
        )
        spent = paired_difference(evidence.average_spent(released, last), evidence.average_spent(cell, last))
        cost.append(f"{words}: regret {_signed(regret)}, spending {_signed(spent)}")
        links = [
            (f"{kind}, total eps {brief(_total_epsilon(evidence, each))},", evidence.average_regret(each, SEASON, last))
            for kind, each in (("released", learning), ("private", cell), ("private", same_total))
        ]
        more = paired_difference(evidence.average_spent(learning, last), evidence.average_spent(cell, last))
        chains.append(Chain(words, links))
        cost[-1] += f" (at eps = {RELEASED_EPSILON:g}: spending {_signed(more)})"
    return [
        Claim(
            f"At eps = {EPSILON:g} in each round a private dual costs a record rounds x eps in all, a released one eps",
            holds,
            f"total eps, private and released: {'; '.join(charged)}. What the release costs, per agent and round, "
            f"released minus private at eps = {EPSILON:g} in each round: {'; '.join(cost)} (95 %, paired)",
            text=text_claims,
        ),
        rising(
            f"A released dual with a total eps of {RELEASED_EPSILON:g} has less regret than a private one with a total "
            f"of {last * EPSILON:,.0f}, and that less than a private one with a total of {RELEASED_EPSILON:g}",
            chains,
            note=f"Regret per agent and round at T = {last:,}, against K = {SEASON}.",
        ),
    ]


def _total_epsilon(evidence: Evidence, cell: Cell) -> float:
    found = evidence.outcomes[cell].privacy.guarantee
    return np.inf if found is None else found.epsilon


def _signed(value: Interval) -> str:
    return f"{value.mean:+.3g} [{value.low:+.3g}, {value.high:+.3g}]"


def privacy_paragraph(text_claims: str) -> str:
    """Return the comparison of the two duals for a user who has to choose."""
    return (
        "Private or released dual. Each agent weighs its budget by a number that grows while it overspends. The "
        f"text keeps this number at home, un-noised, and counts the noise on the gradient only ({text_claims}). "
        "But the number was made of the agent's records and steers all of its later steps, so that a record of "
        "round 1 shows a little in every message after it: with eps = 1 in a round, a run of 20,000 rounds may "
        "tell up to eps = 20,000 of a record, which is no protection. dual='released' noises what the budget "
        "learns of a record as well; then everything that an agent keeps was made of noisy values, each record is "
        "paid for once, and the run costs the eps of one round. The price is noise in the budget itself: the "
        "number wanders, and its floor at 0 turns that into a bias. At eps = 1 with one record a round this is "
        "too much: such a run hardly learns, or does not keep its budget; at eps = 16 it does both. With b "
        "records in a round the noise of the released form is b times smaller at the same eps, that of the "
        "private form is not, since the number is common to all of them. So take the released form with as large "
        "batches as the task allows whenever the total counts; the private one protects against somebody who sees "
        "a few rounds only."
    )


def method_paragraphs(design: Design, evidence: Evidence) -> list[str]:
    """Say what the problems and benchmarks are."""
    gap = max(best.gap for best in evidence.best.values())
    broken = max(best.violation for best in evidence.best.values())
    return [
        f"Problems of our own, since the text shows only plots of its bounds. {AGENTS} agents; each sends to one "
        "to four others, who need not send back. In each round an agent meets one record. Buying goods: shares of "
        "cash and four goods on the simplex, gains that differ by agent and round, and a purse for the long run. "
        "A classifier whose use costs: logistic regression in a ball, each agent with another true model; the "
        "square of each coordinate costs at the day's price. Prices swing by half of their mean over a season of "
        f"{SEASON} rounds, each agent at another time of the year. Spending is summed over agents and rounds; it "
        "is below 0 where some of the budget is left.",
        "Regret is the loss of all agents at prediction time minus that of the best fixed point of the set which, "
        "at every agent, keeps the budget in every K rounds in a row, solved for anew at each horizon (average "
        f"loss within {gap:.1g} of the optimum, certified; no window broken by more than {broken:.1g} per round). "
        "A larger K allows more points, hence lower losses and more regret: K = 1 must keep the dearest day, K = "
        f"{SEASON} averages the season. A method that keeps its budget in the long run may spend as K = 1 never "
        "may, so that its regret against K = 1 falls below 0. The larger set is the harder test: regret against it "
        "is above that against all smaller K. Where it is below 0 as well, spending beyond the budget has paid for "
        f"that, and grows more slowly than T itself. {design.seeds} seeds, each with its own graph, data and "
        "noise; all runs of a seed meet the same data.",
    ]
