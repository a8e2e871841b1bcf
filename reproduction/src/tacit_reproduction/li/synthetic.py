"""Study `dola-synthetic`: regret by privacy and by number of nodes (Li et al., sec. 6, figure 1)."""

from typing import Any, NamedTuple

from tacit_reproduction.figures import Figure, curves, dots
from tacit_reproduction.li import dola
from tacit_reproduction.study import Judgement, Study, over
from tacit_reproduction.table import Floats, Results, Row
from tacit_reproduction.verdict import Claim, Pair, below, headline, judged, ordered, shown

NODES, EPSILONS = (1, 4, 64), (dola.NOISELESS, 1.0, 0.1, 0.01)
MANY, MIDDLE, STRONG = 64, 0.1, 0.01  # figure 1 (a) is of 64 nodes, figure 1 (c) of eps = 0.1
EXAMPLES, POINTS = (100_000, 10_000), (6, 3)  # of the full and of the quick form


class Setting(NamedTuple):  # what the text leaves open
    l2: float
    mixing: str
    judged: str

    def words(self) -> str:
        """Return "lambda = 1, random pairs, at w, before noise"."""
        return f"lambda = {self.l2:g}, {dola.MIXING[self.mixing]}, {dola.JUDGED[self.judged]}"


MAIN = Setting(1.0, "pairs", "own")
"""Of the claims. Regret is defined at w in the text's (6); lambda is the middle of the range."""
WITH_PENALTY, PENALISED = Setting(0.1, "pairs", "mixture"), ("penalised", "penalised_idle")


class Task(NamedTuple):  # everything with so many nodes and one lambda
    nodes: int
    l2: float
    quick: bool


def tasks(quick: bool) -> list[Task]:
    return [Task(nodes, l2, quick) for nodes in NODES for l2 in dola.LAMBDAS]


def run(given: tuple[Task, int, int]) -> list[Row]:
    (nodes, l2, quick), seeds, first = given
    draw = lambda seed: dola.dealt(dola.unit_ball(EXAMPLES[quick], seed), nodes, 1, seed, "unit ball")  # noqa: E731
    streams = dola.streams_of(draw, seeds, first)
    ways = ["pairs"] if nodes == 1 or (quick and l2 != MAIN.l2) else list(dola.MIXING)
    rows = []
    for setting in (Setting(l2, mixing, at) for mixing in ways for at in ("own", "mixture")):
        for epsilon in EPSILONS if nodes == MANY else (MIDDLE,):
            algorithm = dola.learner(l2, epsilon, setting.judged)
            done = dola.simulated(algorithm, dola.network(nodes, setting.mixing), streams)
            found = dola.measured(done, POINTS[quick])
            if setting == WITH_PENALTY and nodes == MANY:
                penalised = done.regret(1).per_agent_round[:, -1]
                found |= {"penalised": penalised, "penalised_idle": 1 - (done.average_loss() - penalised)}
            rows.append(Row({"nodes": nodes, "epsilon": epsilon, **setting._asdict()}, found))
    return rows


DATA = "{:,} points of the unit ball in {} dimensions, anew for each seed."


def _of(results: Results, setting: Setting, nodes: int, epsilon: float, measure: str = "final") -> Floats:
    alone = setting._replace(mixing="pairs")  # one node mixes with nobody
    return results.of(measure, nodes=nodes, epsilon=epsilon, **(setting if nodes > 1 else alone)._asdict())


def claims_at(results: Results, setting: Setting) -> dict[str, Claim]:
    levels = [(dola.level(epsilon), _of(results, setting, MANY, epsilon)) for epsilon in EPSILONS]
    nodes = [(dola.in_words(n), _of(results, setting, n, MIDDLE)) for n in NODES]
    learnt = Pair("DOLA against the zero model", levels[-1][1], _of(results, setting, MANY, STRONG, "idle"))
    closer = "figure 1 (a): the non-private regret is the lowest, and the weaker the privacy the closer it is to that"
    low = "figure 1 (a): low regret even at eps = 0.01 (that never learning is the measure of low is ours)"
    fewer = "figure 1 (c): one node has the lowest regret, and the fewer nodes the lower it is"
    where = f": {setting.words()}"
    rises = f"Regret is lowest without noise and rises as eps falls, {MANY} nodes{where}"
    idle = f"At eps = {STRONG:g} regret is lower than that of never learning{where}"
    falls = f"Regret is lower the fewer the nodes, eps = {MIDDLE:g}{where}"
    return {
        "privacy": ordered(rises, levels, text=closer, seen_in="privacy"),
        "low": judged(idle, learnt, below(), text=low, seen_in="lambda"),
        "nodes": ordered(falls, nodes, text=fewer, seen_in="nodes"),
    }


def judge(results: Results) -> Judgement:
    many = results.where(nodes=MANY, epsilon=STRONG)
    settings = [Setting(*(row.factors[name] for name in Setting._fields)) for row in many.rows]
    swept = {setting.words(): claims_at(results, setting) for setting in settings}
    main = claims_at(results, MAIN)
    penalised, idle, plain = (_of(results, WITH_PENALTY, MANY, STRONG, m) for m in (*PENALISED, "final"))
    counted = "With lambda/2 ||w||^2 of noisy models counted, regret at eps = 0.01 is below never learning's"
    pair, without = Pair(WITH_PENALTY.words(), penalised, idle), f"Without it {shown(plain)}"
    own = judged(counted, pair, below(), seen_in="lambda", note=without)
    finals, idles = ([_of(results, s, MANY, STRONG, m).mean() for s in settings] for m in ("final", "idle"))
    low = f"{min(finals):.3g} to {max(finals):.3g}, never learning {min(idles):.3g} to {max(idles):.3g}"
    told = (
        ("privacy", "a", "The weaker the privacy, the closer regret is to the non-private one"),
        ("low", "a", "Regret is low even at eps = 0.01"), ("nodes", "c", "Fewer nodes have lower regret"))  # fmt: skip
    headlines = [
        headline(
            statement, place=f"figure 1 ({part})", text="curves, no numbers",
            ours=low if about == "low" else main[about].figure, why=WHY[about], claims=[main[about]],
            sweep={words: [there[about]] for words, there in swept.items()}, seen_in=main[about].seen_in)
        for about, part, statement in told]  # fmt: skip
    return Judgement([*main.values(), own], headlines, _figures(results))


NOISE = 2 * dola.DIMENSIONS**0.5 / STRONG
WHY = {
    "privacy": "Where the noise can be seen, at b, regret rises from level to level as the text has it. Its (6) "
    "defines regret at w, which is projected before noise is added: a model that is noise alone is a random point of "
    "the ball and cannot become worse, so that levels which both drown what was learnt have one and the same regret "
    "there, and in a small ball (a large lambda) all levels lie together. Lambda, network and the place of regret are "
    "open.",
    "low": "No lambda, no network and no measure of low is given; it is taken to be below the zero model. In round t a "
    "node learns a step of length 1 / (lambda t) at most and adds noise of scale "
    f"{NOISE:,.0f} / (lambda t) in each coordinate, whatever lambda; averaged over {MANY} nodes that is still "
    f"{NOISE / MANY**0.5:.0f} times the step. Before noise such a model is a random point of the ball, about as good "
    "as the zero model; with noise it is worse.",
    "nodes": "With the same examples 64 nodes have a 64th of the rounds, so that steps and noise of 1 / (lambda t) "
    "are larger to the end, which averages of more noisy values do not make up for. That is the text's order, and it "
    "is seen at b, which carries the noise, unless lambda is so large that nothing is learnt anyway. At w, before "
    "noise, models of any number of nodes are as long as the ball allows, and what is left of the order is within the "
    "scatter.",
}


def _figures(results: Results) -> list[Figure]:
    def place(row: Row) -> str:
        return f"{dola.JUDGED[str(row.factors['judged'])]}, {dola.MIXING[str(row.factors['mixing'])]}"

    many, few = results.where(nodes=MANY), results.where(epsilon=MIDDLE)
    like = "Drawn like figure 1 (a), on logarithmic axes; regret of the plain hinge."
    axes: dict[str, Any] = {"y": "regret per node and round", "log_x": True, "log_y": True, "panels": place}
    by_nodes: dict[str, Any] = {"x": "nodes", "x_label": "number of nodes", "lines": "lambda = {l2:g}"}
    examples: dict[str, Any] = {"at": "examples", "x": "examples read by all nodes", "lines": dola.of_noise}
    title, by_lambda = f"Regret and privacy, {MANY} nodes, lambda = {MAIN.l2:g}", f"Regret by lambda, {MANY} nodes"
    open_range = "At the end of the runs, over the range of what the text leaves open."
    end = f"At the end of figure 1 (c), eps = {MIDDLE:g}, over that range; one node mixes with nobody."
    return [
        curves(many.where(l2=MAIN.l2), "privacy", title, like, "regret", **examples, **axes),
        dots(many, "lambda", by_lambda, open_range, "final", x="l2", x_label="lambda", lines=dola.of_noise, **axes),
        dots(few, "nodes", "Regret by number of nodes", end, "final", **by_nodes, **axes),
    ]


STUDY = Study(
    name="dola-synthetic", title="Private distributed online learning on synthetic data",
    source="Li et al., sec. 6, figure 1", minutes=6,
    measure=over(
        tasks, run, seeds=(20, 10), facts=lambda quick: {"data": DATA.format(EXAMPLES[quick], dola.DIMENSIONS)}),
    judge=judge, tabled=("final", "idle", "penalised"),
    method=f"""
Points uniform in the ball, labelled by a random plane, {dola.FLIPPED:.0%} of the labels flipped; the same examples are
dealt out evenly over 1, 4 or 64 nodes, and each is read in one round. a_t = 1/(lambda t) and noise of scale
2 a_t sqrt(d) L / eps as in the text, models in the ball of radius 1/sqrt(lambda). Each record is read once and all that
a node keeps is made of released values, so that eps holds for each record over the whole run.

The text gives neither lambda nor the network beyond "doubly stochastic": lambda is 0.1, 1 and 10, and in each round
either random pairs or all nodes average (the quick form: all nodes at lambda = {MAIN.l2:g} only). The loss is its plain
hinge max(1 - y <w, x>, 0); its regret (6) is of w before noise, while a node that promises privacy predicts with b, the
mixture of released values: both are shown, against the best fixed model of the ball.""")  # fmt: skip
