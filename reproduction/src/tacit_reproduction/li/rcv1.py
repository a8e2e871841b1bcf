"""Study `dola-rcv1`: a private support vector machine on newswire documents (Li et al., Table 1)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit_reproduction.figures import Figure, dots
from tacit_reproduction.li import dola
from tacit_reproduction.li.accuracies import EPSILONS, FEW, LAMBDAS, MAIN, NODES, PRINTED, TABLE_1, cells, facts, run
from tacit_reproduction.study import Judgement, Study, over
from tacit_reproduction.table import Floats, Results, Row
from tacit_reproduction.verdict import Claim, Pair, above, headline, judged, ordered, within

POINT = 1.0  # per cent by which an accuracy may differ and still be the same


def _printed(results: Results, epsilon: float, nodes: int, l2: float = MAIN) -> Floats:
    return results.of("own", way="printed", l2=l2, epsilon=epsilon, nodes=nodes, columns=PRINTED.columns)


def fewer_nodes(results: Results, l2: float) -> list[Claim]:
    values = [(dola.in_words(nodes), _printed(results, dola.NOISELESS, nodes, l2)) for nodes in reversed(NODES)]
    fall = TABLE_1[dola.NOISELESS, 1] - TABLE_1[dola.NOISELESS, 64]
    words = {"unit": " %", "text": "Table 1: 65.72, 74.64, 82.51 % with 64, 4 and 1 nodes", "seen_in": "nodes"}
    from_64 = f"Of the text's {fall:.1f} points between 64 nodes and one at least half are there, lambda = {l2:g}"
    higher = ordered(f"Without noise accuracy is higher with fewer nodes, lambda = {l2:g}", values, **words)
    return [higher, judged(from_64, Pair("1 over 64 nodes", values[-1][1], values[0][1]), above(fall / 2), **words)]


def free(results: Results, l2: float) -> Claim:
    pairs = [Pair(dola.in_words(n), *(_printed(results, e, n, l2) for e in (1.0, dola.NOISELESS))) for n in NODES]
    said = "Table 1: the same figures without noise and at eps = 1"
    claim = f"Noise of eps = 1 moves accuracy by less than {POINT:g} point, lambda = {l2:g}"
    return judged(claim, pairs, within(POINT), unit=" %", text=said, seen_in="table")


def judge(results: Results) -> Judgement:
    def ask(claim: str, pairs: Sequence[Pair], text: str = "") -> Claim:
        return judged(claim, pairs, above(), unit=" %", text=text, seen_in="table")

    noisy = {key: f"{dola.level(key[0])}, {dola.in_words(key[1])}" for key in TABLE_1 if key[0] != dola.NOISELESS}
    printed = {key: _printed(results, *key) for key in TABLE_1}
    release = {key: results.of("own", way="release", epsilon=key[0], nodes=key[1]) for key in noisy}
    alone = {l2: [results.of("own", way="alone", nodes=n, l2=l2) for n in NODES[1:]] for l2 in LAMBDAS}
    unmixed = [("64 nodes", alone[MAIN][1]), ("4 nodes", alone[MAIN][0]), ("1 node", printed[dola.NOISELESS, 1])]
    few = results.of("own", way="printed", columns=FEW.columns, epsilon=1.0)
    apart = "It is higher with fewer nodes if nodes do not mix, so that each learns from its own share alone"
    guessing = f"As printed, with {FEW.columns} columns and lambda = 1, one node at eps = 1 is better than guessing"
    weaker = [Pair(noisy[e, n], printed[e, n], printed[e / 10, n]) for e, n in noisy if e > EPSILONS[-1]]
    reached = [Pair(dola.in_words(n), printed[dola.NOISELESS, n], TABLE_1[dola.NOISELESS, n]) for n in NODES]
    noised = [Pair(words, printed[key], TABLE_1[key]) for key, words in noisy.items()]
    once = [Pair(words, release[key], TABLE_1[key]) for key, words in noisy.items()]
    rises, under = "As printed, accuracy rises with eps", "As printed, accuracy under noise is at least that of Table 1"
    above_it = "One release of each node's mean gradient, clipped in the L1 norm, is above Table 1"
    claims = [
        *fewer_nodes(results, MAIN), ordered(apart, unmixed, unit=" %", seen_in="nodes"),
        ask("Without noise accuracy is at least that of Table 1", reached, text="Table 1: 82.51, 74.64, 65.72 %"),
        free(results, MAIN), ask(rises, weaker, text="Table 1: higher the weaker the privacy"),
        ask(under, noised, text="Table 1: 50.36 to 82.51 %"), ask(guessing, [Pair("", few, 50.0)]),
        ask(above_it, once)]  # fmt: skip

    def numbers(epsilon: float) -> str:
        return " / ".join(f"{printed[epsilon, nodes].mean():.1f}" for nodes in NODES)

    signal, noise, fewest = (results.facts[name] for name in ("signal", "noise", "few"))
    own = "; ".join(f"{four.mean():.1f} / {many.mean():.1f} at lambda = {l2:g}" for l2, (four, many) in alone.items())
    headlines = [
        headline(
            "Accuracy without noise is higher the fewer the nodes", place="Table 1",
            text="82.51 / 74.64 / 65.72 % with 1, 4 and 64 nodes (the prose has 88.74 for the first)",
            ours=f"{numbers(dola.NOISELESS)} % (lambda = {MAIN:g}); 4 / 64 nodes that do not mix {own}",
            why="Nodes that mix read the same documents together, however many they are, so that accuracy stays what "
            "it is; what 64 nodes lose at small lambda is the noise of the last steps, as there are fewer rounds. A "
            "fall as large as the text's needs nodes which learn from less, as those do that do not mix, and even they "
            "lose less here, with a fifth of the text's 1,562 documents for each of 64 nodes.",
            claims=claims[:2], sweep={f"lambda = {l2:g}": fewer_nodes(results, l2) for l2 in LAMBDAS},
            seen_in="nodes"),
        headline(
            "Noise of eps = 1 costs no accuracy, and that of eps = 0.01 seven to fifteen points", place="Table 1",
            text="82.51 / 74.64 / 65.72 % at eps = 1, 75.69 / 64.81 / 50.36 % at 0.01",
            ours=f"as printed {numbers(1.0)} % at eps = 1, {numbers(0.01)} % at 0.01; guessing has 50",
            why="Impossible as printed, whatever lambda: noise gathers to 2 sqrt(2) d / (lambda eps sqrt(N)) in the "
            f"mean of all nodes, and N documents whose mean has length {signal:.2f} make a model no longer than "
            f"{signal:.2f} / lambda. At eps = 1 the two are as {noise:.2f} to {signal:.2f} with {PRINTED.columns} "
            f"columns, as {8**0.5 * 47_236 / 1e5**0.5:,.0f} to less than 1 with the text's 47,236 and 100,000; with "
            f"{FEW.columns} columns as {fewest:.2f}, and there it has {few.mean():.1f} % (lambda = 1).",
            claims=[claims[4], claims[6]], sweep={f"lambda = {l2:g}": [free(results, l2)] for l2 in LAMBDAS},
            seen_in="table")]  # fmt: skip
    return Judgement(claims, headlines, _figures(results))


def _figures(results: Results) -> list[Figure]:
    text = [Row({"epsilon": e, "nodes": n, "way": "text"}, {"own": np.array([a])}) for (e, n), a in TABLE_1.items()]
    ways = {"text": "the text's Table 1", "printed": "as printed", "release": "one release, ours"}

    def way(row: Row) -> str | None:
        main = row.factors["way"] != "printed" or row.factors["l2"] == MAIN
        return ways.get(str(row.factors["way"])) if main else None

    def penalty(row: Row) -> str | None:
        name = {"printed": "mixing", "alone": "alone"}.get(str(row.factors["way"]))
        return f"{name}, lambda = {row.factors['l2']:g}" if name else ways.get(str(row.factors["way"]))

    every = Results(text) + results
    axes: dict[str, Any] = {"x": "nodes", "x_label": "number of nodes", "y": "test accuracy (%)", "log_x": True}
    range_of, free_title = "Nodes that mix and nodes that do not, over a range of lambda.", "Accuracy without noise"
    of = "Mean accuracy of the nodes' own models on documents not learnt from."
    return [
        dots(every.where(epsilon=dola.NOISELESS), "nodes", free_title, range_of, "own", lines=penalty, **axes),
        dots(every, "table", "Accuracy beside Table 1", of, "own", lines=way, panels=dola.of_noise, **axes),
    ]


STUDY = Study(
    name="dola-rcv1", title="A private distributed support vector machine on RCV1",
    source="Li et al., sec. 6, Table 1", minutes=4, measure=over(cells, run, seeds=(20, 10), facts=facts),
    judge=judge, tabled=("own", "network"),
    method=f"""
As printed: one document per node and round, a_t = 1/(lambda t), noise of scale 2 a_t sqrt(d) L / eps on the projected
model, random pairs of nodes in each round. The text gives no lambda: {LAMBDAS} are run; its d is 47,236, here it is
{PRINTED.columns}, which favours it. Accuracy is on documents not learnt from, of each node's own model, averaged. Nodes
that do not mix are run as one node with its own share of the documents.

One release, our own: every node takes all its documents as one batch, releases one noisy step from the zero model,
clipped in the L1 norm, and the following rounds only average. Columns and coordinates were chosen on public documents;
somewhat optimistic, as the family of settings was found with all labels in view.""")  # fmt: skip
