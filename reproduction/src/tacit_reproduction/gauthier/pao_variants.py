"""Study `pao-variants`: windows, their size, and late updates in PAO-Fed (Gauthier 2023, sec. 4.4.2)."""

from functools import partial

import numpy as np

from tacit_reproduction.analysis.mean_square import Network, steady_state
from tacit_reproduction.gauthier import asynchronous as net
from tacit_reproduction.gauthier.asynchronous import ROUNDS, SEEDS, STEP, VARIANTS, Cell, apart, learning_curves
from tacit_reproduction.study import Crew, Judgement, Study
from tacit_reproduction.table import Results, Row, cells_of, decibels
from tacit_reproduction.verdict import Claim, above, fact, judged, ordered, within

ALIKE = 0.25  # in dB: what "the same performance" is taken to mean
SIZES = {1: "U1, m = 1", 4: "U1", 32: "U1, m = 32"}  # the text's m
LONG, LONG_SEEDS = 8 * ROUNDS, 4
SMALL_CLIENTS, SMALL = 5, 8
"""Clients and coordinates of the small case whose steady state is predicted; its chances are the large one's means."""
PANELS = {"(a) windows": VARIANTS[:4], "(b) m": SIZES.values(), "(c) late updates": VARIANTS[2:]}


def cells(quick: bool, first: int) -> list[Cell]:
    return [Cell(method) for method in (*VARIANTS, *SIZES.values()) if method != "U1"] + [Cell("U1")]


def predicted(share: int) -> float:
    """Return U1's mean-square deviation of the server's model in dB by (4.34) with all terms kept, in a small case.

    All directions are alike there (E[z z'] = I / 8), so that none is slow.
    """
    alike, delays = np.ones(SMALL_CLIENTS), np.array([0.8, 0.16, 0.032, 0.008])
    features = np.broadcast_to(np.eye(SMALL) / SMALL, (SMALL_CLIENTS, SMALL, SMALL))
    network = Network(features, 0.0175 * alike, STEP, share, 0.095 * alike, 0.625 * alike, delays, coordinated=False)
    return float(10 * np.log10(np.trace(steady_state(network))))


def measure(team: Crew, quick: bool, first: int) -> Results:
    table = net.measured(cells)(team, quick, first)
    if quick:
        return table
    slow = [Cell(method, rounds=LONG) for method in (*SIZES.values(), "U2")]
    found = team("long runs", net.run, [(cell, LONG_SEEDS, first) for cell in slow])
    limits = dict(zip(("1", "2", "4"), team("predicting", predicted, (1, 2, 4)), strict=True))
    return table + cells_of(slow, found, {**table.facts, "limits": limits})


def judge(results: Results) -> Judgement:
    usual, long = min(results.levels("rounds")), results.where(rounds=LONG)
    table = results.where(rounds=usual)
    ask = partial(judged, unit=" dB", seen_in="variants")
    refine = "Clients that refine what they share (C1, U1) settle below those that return what they got (C0, U0)"
    own = "Among stragglers windows of one's own (U1) settle below common ones (C1)"
    less = "Late updates that count less (C2, U2) settle below those that count in full (C1, U1)"
    said = "figure 4.2 (b), m = 1, 4, 32: sharing more speeds up the beginning"
    early = [(f"m = {m}", table.of("early", method=SIZES[m])) for m in (32, 4, 1)]
    after = ""
    if long.rows:
        gap = apart(long, "U2 - U1")[0].interval
        after = f"U2 minus U1 after {LONG:,} iterations: {gap.mean:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}] dB"
    best = "figure 4.2 (a): uncoordinated sharing is best in asynchronous settings"
    weights = "figure 4.2 (c): weights 0.2^l improve the performance significantly"
    alike = f"C2 and U2 perform alike (within {ALIKE:g} dB)"
    same = "figure 4.2 (c): C2 and U2 show the same performance"
    claims = [
        ask(refine, apart(table, "C0 - C1", "U0 - U1"), above(), text="figure 4.2 (a): C1 and U1 outperform C0 and U0"),
        ask(own, apart(table, "C1 - U1"), above(), text=best),
        ordered("The larger m, the faster U1 falls at first", early, unit=" dB", text=said, seen_in="variants"),
        *_sizes(results, table, usual),
        ask(less, apart(table, "C1 - C2", "U1 - U2"), above(), text=weights, note=after),
        ask(alike, apart(table, "C2 - U2"), within(ALIKE), text=same),
    ]
    rows = ((panel, row) for panel, of in PANELS.items() for m in of for row in table.where(method=m).rows)
    drawn = Results(Row({**row.factors, "panel": panel}, row.measures) for panel, row in rows)
    figures = [learning_curves(drawn, "variants", "PAO-Fed's settings", "As figure 4.2.", panels="panel")]
    if long.rows:
        caption = "As figure 4.2 (b) and (c), with clients that have proportionally more data."
        figures.append(learning_curves(long, "long", "Over a longer time", caption))
    return Judgement(claims, [], figures)


def _sizes(results: Results, table: Results, usual: int) -> list[Claim]:
    said = "figure 4.2 (b), m = 1, 4, 32: sharing more lowers the final accuracy"
    mse, rounds = table.of("mse", method="U1"), table.of("rounds", method="U1")
    fell = decibels(mse[:, np.searchsorted(rounds, usual // 2)]) - table.of("steady", method="U1")
    note = f"Nothing is at rest: the second half of the run takes U1 down by {fell.mean():.2f} dB"
    if LONG in results.levels("rounds"):
        ends = ", ".join(f"m = {m} {results.of('steady', method=SIZES[m], rounds=LONG).mean():.2f}" for m in SIZES)
        note += f"; after {LONG:,} iterations in dB: {ends}"
    levels = [(f"m = {m}", table.of("steady", method=name)) for m, name in SIZES.items()]
    higher = f"The larger m, the higher U1 ends, after {usual:,} iterations"
    claims = [ordered(higher, levels, unit=" dB", text=said, seen_in="variants", note=note)]
    limits = results.facts.get("limits")
    if limits:
        ends = ", ".join(f"m = {m} {end:.2f} dB" for m, end in limits.items())
        statement = "The larger m, the higher U1 ends, in the steady state that (4.34) predicts for a small case"
        rising, where = list(limits.values()), f"{SMALL_CLIENTS} clients, {SMALL} coordinates"
        claims.append(fact(statement, rising == sorted(rising), f"{ends}: {where}"))
    return claims


STUDY = Study(
    name="pao-variants", title="PAO-Fed: windows, their size, and late updates",
    source="Gauthier (2023), sec. 4.4.2, figure 4.2", minutes=6, measure=measure, judge=judge,
    tabled=("steady", "early", "bits"),
    method=f"""{net.setting()}

The step is {STEP:g} and m is 4 unless said, as in the text. C: all share one window, U: each has its own; 0: a client
sends back the window it just got, 1 and 2: the one that the server will send next, refined since it was last
overwritten; 2: an update that is l iterations late counts 0.2^l. Long runs have {LONG_SEEDS} seeds, others {SEEDS[0]}.
""")  # fmt: skip
