"""Study `dola-synthetic`: regret by privacy and by number of nodes (Li et al., sec. 6, figure 1)."""

from __future__ import annotations

from typing import Any, NamedTuple

from tacit_reproduction.figures import Figure, curves, dots
from tacit_reproduction.li.dola import (
    DIMENSIONS,
    FLIPPED,
    JUDGED,
    LAMBDAS,
    MIXING,
    NOISELESS,
    dealt,
    in_words,
    learner,
    level,
    measured,
    network,
    simulated,
    streams_of,
    unit_ball,
)
from tacit_reproduction.study import Judgement, Study
from tacit_reproduction.table import Floats, Results, Row
from tacit_reproduction.verdict import Claim, Pair, below, headline, judged, ordered, shown
from tacit_reproduction.workers import Crew

NODES, EPSILONS = (1, 4, 64), (NOISELESS, 1.0, 0.1, 0.01)
MANY, MIDDLE, STRONG = 64, 0.1, 0.01
"""Figure 1 (a) is of 64 nodes, figure 1 (c) of eps = 0.1."""
EXAMPLES, SEEDS, POINTS = (100_000, 10_000), (20, 10), (6, 3)
"""Of the full and of the quick form."""
WORDS = {**JUDGED, **MIXING, **{epsilon: level(epsilon) for epsilon in EPSILONS}}


class Setting(NamedTuple):
    """What the text leaves open."""

    l2: float
    mixing: str
    judged: str

    def words(self) -> str:
        """Return "lambda = 1, random pairs, at w, before noise"."""
        return f"lambda = {self.l2:g}, {MIXING[self.mixing]}, {JUDGED[self.judged]}"


MAIN = Setting(1.0, "pairs", "own")
"""Of the claims. Regret is defined at w in the text's (6); lambda is the middle of the range."""
WITH_PENALTY = Setting(0.1, "pairs", "mixture")


class Cell(NamedTuple):
    """One run."""

    nodes: int
    l2: float
    mixing: str
    judged: str
    epsilon: float
    order: str = "text"


def cells(quick: bool, nodes: int, l2: float) -> list[Cell]:
    """Return the runs with so many nodes and this lambda; the quick form mixes all nodes at the main lambda only."""
    ways = ["pairs"] if nodes == 1 or (quick and l2 != MAIN.l2) else list(MIXING)
    levels = EPSILONS if nodes == MANY else (MIDDLE,)
    found = [Cell(nodes, l2, way, at, e) for way in ways for at in ("mixture", "own") for e in levels]
    if nodes == MANY and l2 == MAIN.l2:
        found += [Cell(nodes, l2, "pairs", "mixture", e, "ours") for e in EPSILONS if e]
    return found


def run(task: tuple[int, float, bool, int]) -> list[Row]:
    """Run all cells with so many nodes and one lambda on the same streams: they share their comparators."""
    nodes, l2, quick, first = task
    streams = streams_of(
        lambda seed: dealt(unit_ball(EXAMPLES[quick], seed), nodes, 1, seed, "unit ball"), SEEDS[quick], first
    )
    rows = []
    for cell in cells(quick, nodes, l2):
        done = simulated(learner(l2, cell.epsilon, cell.judged, cell.order), network(nodes, cell.mixing), streams)
        penalised = nodes == MANY and cell[1:4] == WITH_PENALTY and cell.order == "text"
        rows.append(Row(cell._asdict(), measured(done, POINTS[quick], penalised)))
    return rows


def measure(team: Crew, quick: bool, first: int) -> Results:
    """Run everything, few nodes first: these have the most rounds."""
    tasks = [(nodes, l2, quick, first) for nodes in NODES for l2 in LAMBDAS]
    described = f"{EXAMPLES[quick]:,} points of the unit ball in {DIMENSIONS} dimensions, anew for each seed."
    return Results((row for part in team("running", run, tasks) for row in part), {"data": described})


def _final(results: Results, setting: Setting, nodes: int, epsilon: float, measure: str = "final") -> Floats:
    mixing = setting.mixing if nodes > 1 else "pairs"
    factors: dict[str, Any] = {**setting._asdict(), "mixing": mixing, "order": "text"}
    return results.of(measure, nodes=nodes, epsilon=epsilon, **factors)


def claims_at(results: Results, setting: Setting) -> dict[str, Claim]:
    """Return the claims of figure 1 in one setting."""
    by_privacy = [(level(e), _final(results, setting, MANY, e)) for e in EPSILONS]
    idle = _final(results, setting, MANY, STRONG, "idle")
    said = f"the regret gets closer to the non-private one, which is the lowest, as the privacy is weaker; {MANY} nodes"
    return {
        "privacy": ordered(
            f"Regret is lowest without noise and rises as eps falls: {setting.words()}",
            by_privacy,
            text=f"figure 1 (a): {said}",
            seen_in="privacy",
        ),
        "low": judged(
            f"At eps = {STRONG:g} the regret is lower than that of never learning: {setting.words()}",
            Pair("DOLA against the zero model", by_privacy[-1][1], idle),
            below(),
            text="figure 1 (a): low regret even at eps = 0.01 (that the zero model is the measure of low is ours)",
            seen_in="lambda",
        ),
        "nodes": ordered(
            f"At eps = {MIDDLE:g} the regret is lower the fewer the nodes, and lowest with one: {setting.words()}",
            [(in_words(nodes), _final(results, setting, nodes, MIDDLE)) for nodes in NODES],
            text="figure 1 (c): one node has the lowest regret, and it gets lower with fewer nodes",
            seen_in="nodes",
        ),
    }


def _own(results: Results) -> list[Claim]:
    penalised = _final(results, WITH_PENALTY, MANY, STRONG, "penalised")
    plain = [_final(results, WITH_PENALTY, MANY, STRONG, name) for name in ("final", "idle")]
    orders = [
        Pair(level(e), *(results.of("final", **Cell(MANY, MAIN.l2, "pairs", "mixture", e, o)._asdict()) for o in both))
        for both in [("ours", "text")]
        for e in EPSILONS
        if e
    ]
    return [
        judged(
            "At eps = 0.01 the regret with the models' penalty, lambda/2 ||w||^2, is below that of never learning",
            Pair(WITH_PENALTY.words(), penalised, plain[1]),
            below(),
            seen_in="lambda",
            note=f"Of the plain hinge it is {shown(plain[0])}",
        ),
        judged("Noise before the projection costs less than after it", orders, below(), seen_in="lambda"),
    ]


def judge(results: Results) -> Judgement:
    """Return claims, headlines and figures."""
    many = results.where(nodes=MANY, order="text", epsilon=STRONG)
    settings = [Setting(*(row.factors[name] for name in Setting._fields)) for row in many.rows]  # type: ignore[arg-type]
    swept = {setting.words(): claims_at(results, setting) for setting in settings}
    main = claims_at(results, MAIN)

    def numbers(nodes: int, measure: str = "final") -> str:
        found = [(level(e), _final(results, MAIN, nodes, e, measure).mean()) for e in EPSILONS]
        return ", ".join(f"{words} {value:.3g}" for words, value in found)

    spread = {a: [_final(results, s, MANY, STRONG, a).mean() for s in settings] for a in ("final", "idle")}
    nodes = ", ".join(f"{in_words(n)} {_final(results, MAIN, n, MIDDLE).mean():.3g}" for n in NODES)
    found = [
        ("privacy", "The weaker the privacy, the closer the regret is to the non-private one", "figure 1 (a)",
         "curves, in this order", f"{numbers(MANY)} ({MAIN.words()})",
         "Noise falls with eps; where a model before noise is judged it is no longer than the ball allows, and two "
         "levels that both drown what was learnt look alike."),
        ("low", "Regret is low even at eps = 0.01", "figure 1 (a)", "a curve close to the others",
         f"{min(spread['final']):.3g} to {max(spread['final']):.3g}; never learning {min(spread['idle']):.3g} to "
         f"{max(spread['idle']):.3g}",
         f"The text gives no lambda, no network and no measure of low. In round t the noise has scale 2 sqrt(d) / "
         f"(lambda t eps) = {2 * DIMENSIONS**0.5 / STRONG:,.0f} / (lambda t) in each of {DIMENSIONS} coordinates, the "
         "ball a radius of 1 / sqrt(lambda): it is averaging over many nodes and rounds that brings learning back, if "
         "anything does. Low is taken to mean below the zero model, which needs no data."),
        ("nodes", "Fewer nodes have lower regret", "figure 1 (c)", "curves, one node the lowest",
         f"{nodes} ({MAIN.words()})",
         "With the same examples more nodes mean fewer rounds, hence larger steps and more noise at the end, but also "
         "averages of more noisy values: which of the two wins depends on lambda, on how well nodes mix, and on where "
         "the regret is taken."),
    ]  # fmt: skip
    headlines = [
        headline(
            statement,
            place=place,
            text=text,
            ours=ours,
            why=why,
            claims=[main[about]],
            sweep={words: [there[about]] for words, there in swept.items()},
            seen_in=main[about].seen_in,
        )
        for about, statement, place, text, ours, why in found
    ]
    return Judgement([*main.values(), *_own(results)], headlines, _figures(results))


def _figures(results: Results) -> list[Figure]:
    text = results.where(order="text")

    def place(row: Row) -> str:
        return f"{WORDS[row.factors['judged']]}, {WORDS[row.factors['mixing']]}"

    drawn = {"at": "examples", "x": "examples read by all nodes", "y": "regret per node and round"}
    return [
        curves(
            text.where(nodes=MANY, l2=MAIN.l2),
            "privacy",
            f"Regret and privacy, {MANY} nodes, lambda = {MAIN.l2:g}",
            "Drawn like figure 1 (a), with logarithmic axes; regret of the plain hinge.",
            "regret",
            lines="epsilon",
            panels=place,
            words=WORDS,
            log_x=True,
            log_y=True,
            **drawn,  # type: ignore[arg-type]
        ),
        dots(
            text.where(nodes=MANY),
            "lambda",
            f"Regret by lambda, {MANY} nodes",
            "The range of what the text leaves open, at the end of the runs.",
            "final",
            x="l2",
            lines="epsilon",
            panels=place,
            x_label="lambda",
            y="regret per node and round",
            words=WORDS,
            log_x=True,
            log_y=True,
        ),
        dots(
            text.where(epsilon=MIDDLE),
            "nodes",
            f"Regret by number of nodes, eps = {MIDDLE:g}",
            "At the end of figure 1 (c), for the range of what the text leaves open; one node mixes with nobody.",
            "final",
            x="nodes",
            lines=lambda row: f"lambda = {row.factors['l2']:g}",
            panels=place,
            x_label="number of nodes",
            y="regret per node and round",
            log_x=True,
            log_y=True,
        ),
    ]


STUDY = Study(
    name="dola-synthetic",
    title="Private distributed online learning on synthetic data",
    source="Li et al., sec. 6, figure 1",
    minutes=6,
    measure=measure,
    judge=judge,
    tabled=("final", "idle", "penalised"),
    method=f"""
Points uniform in the ball, labelled by a random plane, {FLIPPED:.0%} of the labels flipped; the same examples are dealt
out evenly over 1, 4 or 64 nodes, and each is read in one round. a_t = 1/(lambda t) and noise of scale
2 a_t sqrt(d) L / eps as in the text, models in the ball of radius 1/sqrt(lambda). Each record is read once and all that
a node keeps is made of released values, so that eps holds for each record over the whole run.

The text gives neither lambda nor the network beyond "doubly stochastic": lambda is {LAMBDAS[0]:g}, {LAMBDAS[1]:g} and
{LAMBDAS[2]:g}, and either random pairs or all nodes average in each round (the quick form: all nodes at lambda =
{MAIN.l2:g} only). Its loss is the plain hinge max(1 - y <w, x>, 0), and so is ours; its regret (6) is of w before
noise, while a node that promises privacy predicts with b, the mixture of released values: both are shown. Losses are
compared with the best fixed model of the ball, solved for on all the data.""",
)
