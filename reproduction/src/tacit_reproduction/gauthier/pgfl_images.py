"""Studies `pgfl-mnist` and `pgfl-organ`: clusters that tell two classes of images apart (Gauthier 2023, sec. 5.4.2-3).

Images are scaled to one norm s, in place of a setting that the text leaves open: with penalty rho, images of norm s
learn what images of norm 1 learn with rho / s^2. One program runs several s side by side, as further repeats.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tacit import algorithms, graphs, objectives
from tacit.core.contract import Mechanism
from tacit.privacy import decaying_gaussian, unprotected
from tacit_reproduction.datasets.tasks import cluster_tasks
from tacit_reproduction.figures import Figure, curves, dots
from tacit_reproduction.gauthier.pgfl import CLUSTERS, PHI, SERVERS, ZETA, assumed
from tacit_reproduction.gauthier.pgfl_image_data import GROUPS, TEST_ROWS, accuracies, clients, images, loaded
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Results, Row, parted
from tacit_reproduction.verdict import Claim, Headline, Pair, above, below, headline, judged

DEGREE, ROUNDS, EVERY, EARLY = 3, 100, 10, 20
PENALTY, L2, NORM = 1.0, 0.01, 3.0
"""rho and the regulariser, which the text does not give; s makes other values of them."""
CLIP, SHARES, NORMS = 1.0, (0.01, 0.1), (0.3, 1.0, 3.0)
"""C that gradients are clipped to; C / s that is assumed only: C = 1 for digits as they are, of norm 9, is 0.1."""
TAUS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # at 2/3 all clusters have one model, at 1 each has the mean of the others'
ENFORCED, QUIET = "noise, C enforced", f"no noise, s = {NORM:g}"
WHEN = {"early": f"after {EARLY} rounds", "end": f"after {ROUNDS} rounds"}


class Cell(NamedTuple):  # one program
    group: str
    tau: float = 0.4
    fade: float = 1.0  # tau shrinks by this factor per round
    noise: str = "none"  # or "clipped" to C, or "assumed": see `pgfl.Setting`
    share: float = 0.0  # C / s where it is assumed

    def where(self, norm: float) -> str:
        """Return the setting that the text leaves open, in words."""
        if self.noise == "assumed":
            return f"noise, C = {self.share:g} s assumed"
        return ENFORCED if self.noise == "clipped" else f"no noise, s = {norm:g}"

    def mechanism(self) -> Mechanism:
        """Return the text's noise: phi_0 = 0.001, zeta = 0.99."""
        if self.noise == "assumed":
            return assumed(2 * self.share * NORM / (PENALTY + L2), PHI, ZETA)
        return decaying_gaussian((2 * PHI) ** -0.5, ZETA, CLIP) if self.noise == "clipped" else unprotected


PAIRS, TRIPLETS, TURNED = Cell("pairs"), Cell("triplets"), Cell("pairs, 7 beside 9")
SIMILAR, FADING, FIXED = Cell("similar"), Cell("dissimilar", fade=0.98), Cell("dissimilar")
Wanted = tuple[Cell, Sequence[float]]  # a cell and its norms s


def wanted(mixed: Sequence[Cell], quick: bool) -> list[Wanted]:
    every = [*(Cell(group, 0.0) for group in dict.fromkeys(cell.group for cell in mixed)), *mixed]
    noises = [("clipped", 0.0), ("none", 0.0), *(("assumed", share) for share in (() if quick else SHARES))]
    norms = {"none": (NORM,) if quick else NORMS}
    return [(c._replace(noise=noise, share=share), norms.get(noise, (NORM,))) for noise, share in noises for c in every]


def digits(quick: bool) -> list[Wanted]:
    turned = [TURNED, TURNED._replace(tau=0.0)]
    taus = [TRIPLETS._replace(tau=tau, noise="clipped") for tau in TAUS if tau not in (0.0, TRIPLETS.tau)]
    return [*wanted([TRIPLETS, PAIRS], quick), *(() if quick else ((cell, (NORM,)) for cell in (*taus, *turned)))]


def organs(quick: bool) -> list[Wanted]:
    return wanted([SIMILAR, FADING, FIXED], quick)


def run(task: tuple[tuple[str, Cell, Sequence[float]], int, int]) -> list[Row]:
    (source, cell, norms), seeds, first = task
    group, whole = GROUPS[cell.group], range(first, first + seeds)
    data = images(source, group.classes)
    scaled = [replace(data, x=(norm * data.x).astype(data.x.dtype)) for norm in norms]
    drawn = [(of_norm, seed, *clients(group, seed)) for of_norm in scaled for seed in whole]

    worlds = [
        (graphs.federation(graphs.k_regular(SERVERS, DEGREE, seed), group.clients, clusters),
         cluster_tasks(of_norm, group.tasks, clusters, sizes, seed))
        for of_norm, seed, clusters, sizes in drawn]  # fmt: skip
    method = algorithms.personalised_graph_federated(
        objectives.logistic(l2=L2), cell.mechanism(), clusters=CLUSTERS, penalty=PENALTY, cohort=group.cohort,
        tau=cell.tau if cell.fade == 1 else lambda t: cell.tau * cell.fade**t)  # fmt: skip
    found = finished_run(
        method, lambda k: worlds[k - first][0], lambda k: worlds[k - first][1], rounds=ROUNDS, repeats=len(drawn),
        seed=first, record={"models": np.asarray},
        record_every=EVERY, evaluate="everyone" if group.cohort is None else "cohort")  # fmt: skip
    at, fade = np.asarray(found.recorded_rounds), "" if cell.fade == 1 else f" * {cell.fade:g}^t"
    own = accuracies(found.recorded["models"], [clusters for *_, clusters, _ in drawn], group, data)
    measured = {"rounds": at, "accuracy": own, "early": own[:, at <= EARLY][:, -1], "end": own[:, -1]}
    mixing, panel = f"tau = {cell.tau:g}{fade}", f"{cell.group}: "
    where = {s: cell.where(s) for s in norms}
    places: list[Any] = [{"norm": s, "where": where[s], "mixing": mixing, "panel": panel + where[s]} for s in norms]
    return parted(cell._asdict(), places, seeds, measured)


def gain(results: Results, cell: Cell, where: str, when: str = "end", than: Cell | None = None) -> Pair:
    cells = (cell, than or Cell(cell.group, 0.0))
    both: list[dict[str, Any]] = [{"group": c.group, "tau": c.tau, "fade": c.fade} for c in cells]
    return Pair(f"{cell.group}, {WHEN[when]}", *(results.of(when, where=where, **each) for each in both))


def helps(results: Results, cell: Cell, where: str, said: str, when: str = "end", least: float = 0) -> Claim:
    pair = gain(results, cell, where, when)
    claim = f"Mixing raises accuracy{f' by at least {least:g} points' if least else ''}: {pair.name}; {where}"
    return judged(claim, pair, above(least), unit=" %", text=said, seen_in="learning")


def result(results: Results, statement: str, cells: Sequence[Cell], **words: Any) -> Headline:
    levels = results.levels("where")
    places = [(where, when) for where in levels for when in WHEN]
    sweep = {f"{w}, {WHEN[when]}": [helps(results, cell, w, "", when) for cell in cells] for w, when in places}
    points = [f"{c.group}, {w}: {gain(results, c, w).interval.mean:+.1f} points" for c in cells for w in levels]
    main = [helps(results, cell, ENFORCED, "") for cell in cells]
    return headline(statement, ours="; ".join(points), claims=main, sweep=sweep, seen_in="learning", **words)


def learning(results: Results, number: str) -> Figure:
    shown = results.where(norm=NORM, tau=(0.0, PAIRS.tau))
    title, caption = "Accuracy round by round", f"Drawn like figure {number}, by group and setting."
    return curves(shown, "learning", title, caption, "accuracy", lines="mixing", panels="panel", y="accuracy (%)")


def judge_digits(results: Results) -> Judgement:
    two, three = "figure 5.5 (a): it improves accuracy", "figure 5.5 (b): it significantly improves accuracy"
    asked = [(*of, where) for of in ((PAIRS, two), (TURNED, two), (TRIPLETS, three)) for where in (ENFORCED, QUIET)]
    ran = {(row.factors["group"], row.factors["where"]) for row in results.rows}
    claims = [helps(results, cell, where, said) for cell, said, where in asked if (cell.group, where) in ran]
    if results.where(tau=TAUS[-1]).rows:
        at, words = {tau: TRIPLETS._replace(tau=tau) for tau in TAUS}, {"unit": " %", "seen_in": "tau"}
        more, less = (gain(results, at[t], ENFORCED, than=at[u]) for t, u in ((0.6, 0.0), (1.0, 0.4)))
        large, most = "figure 5.5 (c): medium and large tau improve", "figure 5.5 (c): very large values degrade it"
        claims.append(judged("Triplets: tau = 0.6 is better than 0", more, above(), text=large, **words))
        claims.append(judged("Triplets: tau = 1 is worse than 0.4", less, below(), text=most, **words))
    told = result(
        results, "Learning across clusters raises the accuracy on digits, on triplets of them significantly",
        [PAIRS, TRIPLETS], place="figure 5.5 (a) and (b)", text="tau = 0.4 above tau = 0, with noise",
        why="A model of one pair gets half of another pair's test right, so that another cluster's model has little "
        "to give; a few images tell two digits apart, and mixing only misleads, at the start (20 rounds) as in the "
        "end. Which digit is on which side the text does not say: 8 / 7 in place of 7 / 8, which puts 7 beside 9, is "
        "run too. With C enforced the noise is 45 / D_k times a client's step, and nothing is learnt that could be "
        "mixed. Triplets share 123, and any two of them two digits of the other, so that their models are nearly one "
        "and mixing averages what three clusters have. That helps where noise, or few images, leave a cluster's own "
        "model poor, and adds nothing where it has images enough. The text has noise and does not say what C is: "
        "enforced, assumed at two sizes, and none at all are run.")  # fmt: skip
    by: dict[str, Any] = {"x": "tau", "lines": "group", "y": "accuracy (%)"}
    noisy = results.where(group="triplets", noise="clipped")
    by_tau = dots(noisy, "tau", "Triplets by tau", "Like figure 5.5 (c).", "end", **by)
    return Judgement(claims, [told], [learning(results, "5.5"), by_tau])


def judge_organs(results: Results) -> Judgement:
    five = "figure 5.6 (a): much inter-cluster learning adds about 5 %"
    two = "figure 5.6 (b): a medium decay of tau speeds learning up and adds about 2 %"
    both, where = ((SIMILAR, five, 5.0), (FADING, two, 2.0)), (ENFORCED, QUIET)
    claims = [helps(results, cell, at, said) for cell, said, _ in both for at in where]
    faster = [helps(results, FADING, at, two, "early") for at in where]
    size = [helps(results, cell, QUIET, said, least=least) for cell, said, least in both]
    kept = judged("A fading tau ends above a fixed one", gain(results, FADING, QUIET, than=FIXED), above(), unit=" %")
    best = result(
        results, "Learning across clusters adds 5 points of accuracy for similar organs, 2 for dissimilar ones",
        [SIMILAR, FADING], place="figure 5.6", text="+5 (much mixing), +2 (tau that fades), with noise",
        why="Without noise similar organs are told apart well from two images of each client, so that little is left "
        "to gain. With C enforced hardly anything is learnt, and what helps is that mixing averages noise.",
        size=size)  # fmt: skip
    return Judgement([*claims, *faster, *size, kept], [best], [learning(results, "5.6")])


METHOD = f"""
{SERVERS} servers on a random connected graph of degree {DEGREE}, clients in {CLUSTERS} equal clusters at random, each
with images of its own, half of either side. Accuracy is that of clients' own models on {TEST_ROWS} test images of their
cluster's task. Digits: 15 clients of a server, 3 called in a round; 1 / 8, 1 / 9, 7 / 8 with 2 to 4 images, 123 / 678,
789, 689 with 6 to 12. The text does not say which digit is on which side: "7 beside 9" is 8 / 7. Organs: 3 clients of a
server with 2 images, all called.

Logistic loss without a constant, l2 = {L2:g}, rho = {PENALTY:g}, images of norm s: rho / s^2 for norm 1, which the
text leaves open. Noise, as in its regression: phi_0 = {PHI:g}, zeta = {ZETA:g}, s = {NORM:g}; gradients are clipped to
C = {CLIP:g}, as the promise needs ("enforced"), or C is only assumed, as in the text, and promises nothing below s."""


def study(name: str, of: str, place: str, minutes: float, seeds: tuple[int, int], judge: Any, source: str) -> Study:
    def cells(quick: bool) -> list[tuple[str, Cell, Sequence[float]]]:
        return [(source, *each) for each in (digits(quick) if source == "mnist" else organs(quick))]

    measure = over(cells, run, seeds, lambda quick: {"data": loaded(source).description})
    title, place = f"Personalised graph federated learning: {of}", f"Gauthier (2023), {place}"
    return Study(name, title, place, minutes, measure, judge, METHOD, ("early", "end"))


MNIST = study("pgfl-mnist", "digits", "sec. 5.4.2, figure 5.5", 6, (20, 5), judge_digits, "mnist")
ORGAN = study("pgfl-organ", "organs on CT slices", "sec. 5.4.3, figure 5.6", 4, (40, 8), judge_organs, "organamnist")
