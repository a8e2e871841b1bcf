"""Study `dola-minibatch`: variance of the regret with batches of 1, 5 and 20 (Li et al., sec. 6, figure 2)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit.metrics import Interval
from tacit.streams import Stream
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.figures import Figure, dots
from tacit_reproduction.li import dola
from tacit_reproduction.li.accuracies import Representation, load
from tacit_reproduction.study import Judgement, Study, over
from tacit_reproduction.table import Factor, Floats, Results, Row
from tacit_reproduction.verdict import Claim, Rule, above, below, brief, headline

NODES, BATCHES, EPSILONS = 4, (1, 5, 20), (dola.NOISELESS, 1.0, 10.0)
FORM = Representation(50)
BALL, RCV1 = "unit ball", "RCV1"
EXAMPLES, DOCUMENTS = (20_000, 4_000), (10_000, 2_000)  # of the full and of the quick form
NEARLY = 2.0  # variances are nearly identical if their ratio is below this; the text has no number


class Setting(NamedTuple):  # what the text leaves open
    l2: float
    epsilon: float
    judged: str

    def words(self) -> str:
        """Return "lambda = 1, eps = 10, average of b"."""
        return f"lambda = {self.l2:g}, {dola.level(self.epsilon)}, {dola.JUDGED[self.judged]}"


MAIN = Setting(1.0, 1.0, "own")
SETTINGS = [Setting(l2, e, at) for l2 in dola.LAMBDAS for e in EPSILONS if e for at in ("own", "mixture")]
SETTINGS += [Setting(MAIN.l2, e, "average") for e in EPSILONS if e]


def _stream(data: str, batch: int, quick: bool, seed: int) -> Stream:
    if data == BALL:
        return dola.dealt(dola.unit_ball(EXAMPLES[quick], seed), NODES, batch, seed, data)
    samples = load(FORM.columns).split(FORM)[0]
    rows = np.random.default_rng([seed, 2]).permutation(len(samples.y))[: DOCUMENTS[quick]]
    return dola.dealt(dola.Samples(samples.x[rows], samples.y[rows]), NODES, batch, seed, data)


class Task(NamedTuple):  # all levels of noise on the same streams: their comparators are solved for once
    data: str
    batch: int
    l2: float
    quick: bool


def tasks(quick: bool) -> list[Task]:
    """Without RCV1 the unit ball alone. The quick form has one lambda on RCV1, and no batch of 20."""
    wanted = [(RCV1, l2) for l2 in dola.LAMBDAS if datasets.available("rcv1") and (not quick or l2 == MAIN.l2)]
    wanted += [(BALL, l2) for l2 in dola.LAMBDAS]
    return [Task(data, h, l2, quick) for data, l2 in wanted for h in (BATCHES[:2] if quick else BATCHES)]


def run(given: tuple[Task, int, int]) -> list[Row]:
    (data, batch, l2, quick), seeds, first = given
    streams = dola.streams_of(lambda seed: _stream(data, batch, quick, seed), seeds, first)
    rows = []
    for judged in dict.fromkeys(setting.judged for setting in SETTINGS if setting.l2 == l2):
        for epsilon in EPSILONS:
            if data == RCV1 and judged != MAIN.judged:
                continue
            done = dola.simulated(dola.learner(l2, epsilon, judged), dola.network(NODES, "pairs"), streams)
            factors: dict[str, Factor] = {"data": data, "batch": batch, "l2": l2, "epsilon": epsilon, "judged": judged}
            rows.append(Row(factors, {"final": dola.measured(done)["final"]}))
    return rows


def facts(quick: bool) -> dict[str, Any]:
    documents = "absent"
    if datasets.available("rcv1"):
        documents = f"{DOCUMENTS[quick]:,} documents for each seed, {load(FORM.columns).description}"
    return {"data": f"{EXAMPLES[quick]:,} points of the unit ball for each seed; RCV1: {documents}."}


def variance_ratio(first: Floats, second: Floats) -> Interval:
    """Return var(first) / var(second) and the interval of the F distribution, which takes values to be normal."""
    from scipy.special import fdtri

    ratio = float(np.var(first, ddof=1) / np.var(second, ddof=1))
    low, high = (float(fdtri(len(first) - 1, len(second) - 1, quantile)) for quantile in (0.975, 0.025))
    return Interval(ratio, ratio / low, ratio / high, len(first))


def _judged(claim: str, found: Sequence[tuple[str, Interval]], rule: Rule, text: str) -> Claim:
    outcomes = [rule.outcome(ratio) for _, ratio in found]
    outcome: Any = "fails" if "fails" in outcomes else "open" if "open" in outcomes else "holds"
    words = "; ".join(f"{name}: {brief(r.mean, 3)} [{brief(r.low, 3)}, {brief(r.high, 3)}]" for name, r in found)
    figure = f"ratio of variances, {words} (95 %, {found[0][1].n} seeds)"
    return Claim(claim, outcome == "holds", figure, text, "ratios", outcome, all(rule.leans(r) for _, r in found))


def _ratio(results: Results, data: str, batch: int, setting: Setting) -> Interval:
    here, free = results.where(data=data, batch=batch), setting._replace(epsilon=dola.NOISELESS)
    return variance_ratio(*(here.of("final", **each._asdict()) for each in (setting, free)))


def claims_at(results: Results, setting: Setting) -> list[Claim]:
    here = results.where(**setting._asdict())
    data = here.levels("data")
    raised, nearly = ([(d, _ratio(results, d, h, setting)) for d in data] for h in (1, 5))
    reduced = [(d, variance_ratio(*(here.of("final", data=d, batch=h) for h in (5, 1)))) for d in data]
    higher = "figure 2 (a, c): at h = 1 the private regret has a higher variance than the non-private one"
    lower = "figure 2 (b, d): h = 5 reduces the variance"
    same = "figure 2 (b, d): nearly identical to that of the non-private one (no number)"
    near, where = f"At h = 5 it is nearly that without noise, a ratio below {NEARLY:g}", f": {setting.words()}"
    return [
        _judged(f"At h = 1 noise raises the variance of the regret{where}", raised, above(1), higher),
        _judged(f"Under noise h = 5 has a lower variance than h = 1{where}", reduced, below(1), lower),
        _judged(f"{near}{where}", nearly, below(NEARLY), same),
    ]


def judge(results: Results) -> Judgement:
    swept = {setting.words(): claims_at(results, setting) for setting in SETTINGS}
    main = swept[MAIN.words()]
    told = (
        ("Noise raises the variance of the regret, and batches of five reduce it", slice(0, 2), WHY[0]),
        ("At h = 5 the variance is nearly identical to that without noise", slice(2, 3), WHY[1]),
    )
    headlines = [
        headline(
            statement, place="figure 2", text="bars of one standard deviation, no numbers",
            ours=" ".join(f"{claim.figure}." for claim in main[part]), why=why, claims=main[part],
            sweep={words: there[part] for words, there in swept.items()},
            seen_in="ratios" if part.start else "regret")
        for statement, part, why in told]  # fmt: skip
    return Judgement(main, headlines, _figures(results))


WHY = (
    "At the same eps the noise on a mean of h examples is h times smaller, which is the text's reason; a fifth of the "
    "rounds to average over takes a part of that back. Regret (6) is of w, which is projected before noise is added: "
    "where noise drowns the model at h = 5 as well, w is a random point of the ball either way, and a batch of five "
    "changes its scatter little or not at all. Where regret is of b, which carries the noise, batches reduce the "
    "variance.",
    "The scale of the noise is 2 sqrt(d) / (lambda h t eps): a batch of 5 takes a factor away, and whether what is "
    "left is small depends on lambda and eps, of which the text gives neither here, and on where regret is taken: a "
    "model before noise is no longer than the ball allows, which bounds its variance too.",
)


def _figures(results: Results) -> list[Figure]:
    data, batches = {s: results.where(**s._asdict()).levels("data") for s in SETTINGS}, results.levels("batch")
    ratios = [
        Row({"data": d, "batch": h, **s._asdict()}, {"ratio": np.array([_ratio(results, d, h, s).mean])})
        for s in SETTINGS for d in data[s] for h in batches]  # fmt: skip

    def panel(row: Row) -> str:
        return f"{row.factors['data']}, {dola.JUDGED[str(row.factors['judged'])]}"

    axes: dict[str, Any] = {"x": "batch", "x_label": "batch size h", "panels": panel, "log_x": True}
    like, title = "Drawn like figure 2, with 95 % intervals of the mean.", "Average regret and batch size, lambda = 1"
    given = "The range of lambda and eps, of which the text gives neither for its figure 2."
    more, y, main = "Variance with noise over variance without", "ratio of variances", results.where(l2=MAIN.l2)
    by: dict[str, Any] = {"lines": "lambda = {l2:g}, eps = {epsilon:g}", "y": y, "log_y": True}
    return [
        dots(main, "regret", title, like, "final", lines=dola.of_noise, y="regret per round", **axes),
        dots(Results(ratios), "ratios", more, given, "ratio", **by, **axes),
    ]


STUDY = Study(
    name="dola-minibatch", title="Private distributed learning with mini-batches",
    source="Li et al., sec. 6, figure 2", minutes=5, measure=over(tasks, run, seeds=(40, 20), facts=facts),
    judge=judge, tabled=("final",),
    method=f"""
{NODES} nodes, random pairs, a_t = 1/(lambda t), noise of scale 2 a_t sqrt(d) L / (h eps). Every node reads h examples
of its own in each round, each once, so that larger batches mean fewer rounds. The text gives neither lambda nor eps
nor the number of nodes: lambda is swept over {dola.LAMBDAS}, eps over {EPSILONS[1:]}.

Regret is of the plain hinge, against the best model of the ball: of w before noise as in (6) of the text, of the
mixture b, and of the average of b that Algorithm 2 learns. Each seed has its own data, pairs and noise, the same with
and without noise; variances are over the seeds, and their ratio's interval is that of the F distribution.""",
)  # fmt: skip
