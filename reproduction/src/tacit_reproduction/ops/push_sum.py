"""Studies `ops-occupancy` and `ops-susy`: online push-sum and its baselines (OPS paper, sec. 5 and appendix B)."""

from functools import partial
from typing import Any

import numpy as np

from tacit_reproduction.figures import Figure, Label, curves
from tacit_reproduction.ops.runs import FRACTIONS, METHODS, Design, Network, Task, load, run
from tacit_reproduction.study import Crew, Judgement, Study
from tacit_reproduction.table import Floats, Results, Row
from tacit_reproduction.verdict import NOT_WORSE, Claim, Pair, below, headline, judged, slopes

PERCENT = {fraction: f"{100 * fraction:.0f} % stochastic" for fraction in FRACTIONS}


def wanted(design: Design) -> list[tuple[str, str, Network]]:
    whole = Network(design.main.nodes, design.main.nodes - 1)
    return [
        *(("main", method, whole if method == "COL" else design.main) for method in METHODS),
        *(("size", "OPS", Network(nodes, *degree)) for nodes in design.sizes for degree in design.degrees),
        *(("density", "OPS", network) for network in design.dense),
    ]


OCCUPANCY_FULL = Design(
    data="occupancy", main=Network(20, 10), sizes=(6, 10, 15, 20),
    degrees={(2, False): "1 to 2 neighbours", (2, True): "just 2 neighbours", (1, True): "below 2, hence 1 neighbour"},
    dense=tuple(Network(20, neighbours) for neighbours in (2, 5, 10, 19)),
    starts={"COL": 2.0, "OPS": 1.0, "DOL-Symm": 0.5, "DOL-Asymm": 1.0, "Local OGD": 0.25}, tuning_seeds=10,
)  # fmt: skip
OCCUPANCY_QUICK = OCCUPANCY_FULL._replace(
    sizes=(6, 20), dense=OCCUPANCY_FULL.dense[1::2], seeds=10, ratio=2.0, shared=True
)
SUSY_FULL = Design(
    data="susy", main=Network(128, 32), sizes=(128, 256, 512, 1024), degrees={(32, False): "1 to 32 neighbours"},
    dense=tuple(Network(512, neighbours) for neighbours in (8, 32, 128, 256)),
    starts={"COL": 1.0, "OPS": 0.5, "DOL-Symm": 0.125, "DOL-Asymm": 0.5, "Local OGD": 0.03125})  # fmt: skip
SUSY_QUICK = SUSY_FULL._replace(
    sizes=(128, 256), dense=(Network(128, 4), Network(128, 32)), seeds=10, tuning_seeds=1, ratio=2.0, shared=True
)

NAMES = {"occupancy": "Room Occupancy", "susy": "SUSY"}
SAID = {
    "main": "OPS is slightly worse than COL and below DOL-Symm and DOL-Asymm",
    "size": "curves of all sizes are close, that of the largest network is the lowest",
    "density": "the denser the network, the lower the average loss",
    "fraction": "with more stochastic samples the average loss becomes smaller",
    "local": "communication reduces regret, and more so with more stochastic samples",
}
WHY = {
    "main": "Links that DOL-Symm drops still carry models, and push-sum undoes their bias, which DOL-Asymm keeps.",
    "size": "The text's reason is that more nodes bring more samples; each node reads as many in either network. On "
    "Room Occupancy the text bounds the number of neighbours by 2 and does not say how many a node has below that, so "
    "that three readings are run. Where nodes have one or two by chance, networks are chains in part: shares of the "
    "mass are unequal, a node's step is divided by its mass, and what one node learns is longer on its way the more "
    "there are. With as many neighbours for every node the mass is even, and that falls away or nearly so; with a "
    "bound of 32, as on SUSY, it is not seen.",
    "density": "More links bring the nodes' models together sooner.",
    "fraction": "What is dealt out at random has one best model for all; a cluster has one of its own.",
    "local": "Samples of one kind teach all nodes; clusters teach their node alone.",
}
PLACES = {
    "occupancy": {"main": "figure 2 (c, d)", "size": "figure 4", "density": "figure 5", "fraction": "figure 2 (c, d)"},
    "susy": {"main": "figure 2 (a, b)", "size": "figure 3 (a, b)", "density": "figure 3 (c, d)", "local": "figure 6"},
}
"""Of the text's results; what is missing is a question of ours there."""


def measure(full: Design, quick: Design, team: Crew, is_quick: bool, first: int) -> Results:
    design = quick if is_quick else full
    runs = sorted({each[1:] for each in wanted(design)}, key=lambda each: (-each[1].nodes * each[1].neighbours, each))
    found = dict(zip(runs, team("running", run, [Task(design, *each, first) for each in runs]), strict=True))
    rows = (
        Row({"sweep": sweep, "method": method, **network._asdict(), "fraction": f}, found[method, network][f])
        for sweep, method, network in wanted(design) for f in FRACTIONS)  # fmt: skip
    data = load(design.data)
    return Results(rows, {"data": f"{data.description}: {len(data.y):,} samples, columns standardised."})


def judge(design: Design, results: Results) -> Judgement:
    main, places = results.where(sweep="main"), PLACES[design.data]

    def average(method: str, fraction: float) -> Floats:
        return main.of("average", method=method, fraction=fraction)

    def pairs(first: str, *others: str) -> list[Pair]:
        both = ((m, f) for m in others for f in FRACTIONS)
        return [Pair(f"{first} and {m}, {PERCENT[f]}", average(first, f), average(m, f)) for m, f in both]

    def ask(about: str, claim: str, asked: Pair | list[Pair], limit: float = 0.0) -> Claim:
        said = f"{places[about]}: {SAID[about]}" if about in places else ""
        return judged(claim, asked, below(limit), text=said, seen_in="main" if about == "fraction" else about)

    ops, alone = ([average(method, fraction) for fraction in FRACTIONS] for method in ("OPS", "Local OGD"))
    largest = "The largest network's loss is at most 1 % above the smallest's"
    of = {words: _sizes(results.where(neighbours=n, exact=exact)) for (n, exact), words in design.degrees.items()}
    sizes = {words: ask("size", f"{largest}: {words}", pair, NOT_WORSE) for words, pair in of.items()}
    found = {
        "main": [
            ask("main", "COL has a lower average loss than OPS", pairs("COL", "OPS")),
            ask("main", "OPS has a lower one than DOL-Symm and DOL-Asymm", pairs("OPS", "DOL-Symm", "DOL-Asymm")),
        ],
        "size": list(sizes.values()),
        "density": [ask("density", "The loss of OPS falls as the network grows denser", _slopes(results))],
        "fraction": [ask("fraction", "The loss of OPS is lower at 100 % than at 50 %", Pair("", *ops))],
        "local": [
            ask("local", "OPS has a lower average loss than Local OGD", pairs("OPS", "Local OGD")),
            ask("local", "OPS gains more at 100 % than at 50 %", Pair("", ops[0] - alone[0], ops[1] - alone[1])),
        ],
    }
    headlines = [
        headline(
            f"{NAMES[design.data]}: {SAID[about]}", place=place, text="curves, no numbers",
            ours=" ".join(f"{claim.figure}." for claim in found[about]), why=WHY[about],
            claims=found[about][:1] if about == "size" else found[about],
            sweep={words: [claim] for words, claim in sizes.items()} if about == "size" else None,
            seen_in="main" if about == "fraction" else about)
        for about, place in places.items()]  # fmt: skip
    return Judgement([claim for claims in found.values() for claim in claims], headlines, _figures(results, design))


def _sizes(results: Results) -> list[Pair]:
    pairs = []
    for fraction, words in PERCENT.items():
        found = results.where(sweep="size", fraction=fraction)
        small, large = (found.of("average", nodes=pick(found.levels("nodes"))) for pick in (min, max))
        pairs.append(Pair(words, large / small.mean(), small / small.mean()))
    return pairs


def _slopes(results: Results) -> list[Pair]:
    pairs = []
    for fraction in FRACTIONS:
        found = results.where(sweep="density", fraction=fraction)
        bounds = found.levels("neighbours")
        values = np.stack([found.of("average", neighbours=bound) for bound in bounds], axis=1)
        pairs.append(Pair(f"per doubling, {PERCENT[fraction]}", slopes(np.log2(bounds), values)))
    return pairs


def _figures(results: Results, design: Design) -> list[Figure]:
    def by_degree(row: Row) -> str:
        degree = design.degrees[int(row.factors["neighbours"]), bool(row.factors["exact"])]
        return f"{PERCENT[float(row.factors['fraction'])]}, {degree}"

    def drawn(name: str, title: str, lines: str, panels: Label, **factors: Any) -> Figure:
        rows, said = results.where(**factors), PLACES[design.data].get(name, "figure 6, which is of SUSY")
        look: dict[str, Any] = {"lines": lines, "panels": panels, "y": "average loss up to the round", "words": PERCENT}
        return curves(rows, name, title, f"Drawn like {said}.", "running", **look)

    baselines = tuple(method for method in METHODS if method != "Local OGD")
    return [
        drawn("main", "OPS and the baselines", "method", "fraction", sweep="main", method=baselines),
        drawn("size", "OPS by number of nodes", "nodes", by_degree, sweep="size"),
        drawn("density", "OPS by largest number of neighbours", "neighbours", "fraction", sweep="density"),
        drawn("local", "OPS and learning alone", "method", "fraction", sweep="main", method=("OPS", "Local OGD")),
    ]


def _study(name: str, title: str, minutes: float, full: Design, quick: Design) -> Study:
    return Study(
        name=name, title=title, source="OPS paper, sec. 5 and appendix B", minutes=minutes,
        measure=partial(measure, full, quick), judge=partial(judge, full), tabled=("average", "step"),
        method=f"""
Online logistic regression with l2 = 1e-4. In each round every node predicts on one sample of its own, pays the loss
(regulariser included), takes a step and talks to its neighbours. The stochastic fraction of the samples is dealt out
at random, the rest is cut into as many k-means clusters as there are nodes. All runs have as many rounds as give each
of {full.main.nodes} nodes an even share once; nodes whose samples end start over.

Graphs are random and strongly connected. Each node's number of neighbours is "a random value which is smaller than a
fixed upper bound": here uniform from 1 up to the bound; where that is 2 the other readings are run too. OPS and
DOL-Asymm send with sender-normalised weights, DOL-Symm keeps mutual links with Metropolis weights, COL averages over
all nodes, Local OGD sends nothing. Nothing is private here.

Each method's constant step is the best of a grid, chosen for each network (for each fraction too, but for the quick
form) on {full.tuning_seeds} seeds not used otherwise; then {full.seeds} other seeds follow, each with its own graph,
partition and order of samples, the same for all methods.""")  # fmt: skip


OCCUPANCY = _study("ops-occupancy", "Online push-sum on Room Occupancy", 5, OCCUPANCY_FULL, OCCUPANCY_QUICK)
SUSY = _study("ops-susy", "Online push-sum on SUSY", 8, SUSY_FULL, SUSY_QUICK)
