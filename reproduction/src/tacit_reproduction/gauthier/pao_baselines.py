"""Study `pao-vs-baselines`: PAO-Fed against other methods (Gauthier 2023, secs. 4.4.3 and 4.4.5)."""

from functools import partial
from typing import Any

import numpy as np

from tacit_reproduction.figures import Figure, Label, dots
from tacit_reproduction.gauthier import asynchronous as net
from tacit_reproduction.gauthier.asynchronous import FED, PSO, SGD, SIGN, Cell, apart, factors, learning_curves
from tacit_reproduction.study import Judgement, Study
from tacit_reproduction.table import Results, Row
from tacit_reproduction.verdict import Claim, Pair, above, below, headline, judged, within

POORLY, LITTLE, AT = 0.5, 1.0, 0.1
"""dB: lost at least where a method performs poorly; varied, and above the other where it is as good, at most."""
SAVED = 0.98
HALF, SOME = "Online-Fed 50 %", "Online-Fed 10 %"
PAO = ("U1", "U2", "C2")
KNOWN = {SGD: 0.14, FED: 0.56, PSO: 0.28, HALF: 0.14, SIGN: 0.004}
"""Steps that were matched at the size of the quick form."""
SWEPT = (0.2, 0.8)  # steps with which some methods are run beside the text's rule
SENT = "bits that a client sends per iteration in which it is there"


def cells(quick: bool, first: int) -> list[Cell]:
    usual = [Cell(variant) for variant in PAO]
    if quick:
        return usual
    loads = [Cell(f"{variant}, m = {m}") for variant in ("U1", "C2") for m in (1, 32)]
    ideal = [Cell(variant, "ideal") for variant in ("U1", "C2")]
    steps = [Cell(method, step=step, rule="swept") for method in ("U1", "C2", SGD) for step in SWEPT]
    return [*usual, *loads, *ideal, *steps]


def rivals(quick: bool) -> list[Cell]:
    if quick:
        return [Cell(method, step=step) for method, step in KNOWN.items()]
    return [*(Cell(method) for method in (SGD, FED, SOME, HALF, PSO, SIGN)), Cell(SGD, "ideal")]


def judge(results: Results) -> Judgement:
    ask = partial(judged, unit=" dB", seen_in="baselines")
    full, *parts = (float(results.of("bits", **factors(name))[0]) for name in (SGD, *PAO))
    saved, against = 1 - max(parts) / full, apart(results, *(f"{variant} - {SGD}" for variant in PAO))
    settle = f"U1, U2 and C2 settle at or below (up to {AT:g} dB above) {SGD} with {SAVED:.0%} less communication"
    said = f"figure 4.3 (a): U1 and U2 outperform {SGD} with 98 % less communication; of C2 sec. 4.4.4 says so"
    as_good = ask(settle, against, below(AT), text=said, note=f"{saved:.1%} of the bits are saved")
    if saved < SAVED - 1e-9:
        as_good = as_good._replace(holds=False, outcome="fails", leans=False)
    poor = f"Online-Fed and PSO-Fed, which call some of the few that are there, end {POORLY:g} dB or more above U1"
    alone = "Clients of PSO-Fed that are not called learn on alone, as PAO-Fed's do"
    poorly = "figure 4.3 (a): Online-Fed and PSO-Fed both perform poorly"
    signs = f"SignSGD settles well ({POORLY:g} dB) below Online-Fed at a similar load"
    better = "figure 4.5: significantly better performance than Online-Fed"
    lacks = "figure 4.5: SignSGD does not have the accuracy of C2, and PSO-Fed is not desirable"
    claims = [
        as_good, ask(poor, apart(results, f"{FED} - U1", f"{PSO} - U1"), above(POORLY), text=poorly, note=alone),
        ask(signs, apart(results, f"{HALF} - {SIGN}"), above(POORLY), text=better),
        ask("C2 settles below SignSGD and PSO-Fed", apart(results, f"C2 - {SIGN}", f"C2 - {PSO}"), below(), text=lacks),
    ]  # fmt: skip
    found = headline(
        net.AS_GOOD_AS_SGD, place="figure 4.3 (a)", text="curves: U1 and U2 outperform it with 98 % less communication",
        ours=", ".join(f"{v} {pair.interval.mean:+.2f} dB" for v, pair in zip(PAO, against, strict=True))
        + f"; {saved:.1%} fewer bits",
        why="Clients that are not there learn on alone, and what they refine is sent piece by piece. "
        + (_by_step(results) if "swept" in results.levels("rule") else "Steps of the quick form are known ones."),
        claims=[as_good], seen_in="baselines")  # fmt: skip
    if "ideal" in results.levels("environment"):
        claims += [*_loads(results), *_stragglers(results)]
    return Judgement(claims, [found], _figures(results))


def _by_step(results: Results) -> str:
    def ends(method: str) -> str:
        rows = results.where(rule="swept", method=method).rows
        return ", ".join(f"{row.measures['steady'].mean():.2f} at {row.factors['step']:g}" for row in rows)

    told = "; ".join(f"{method} {ends(method)}" for method in ("U1", "C2", SGD))
    return f"It hangs on the text's rule, steps that start alike: with other steps, in dB, {told}."


def _loads(results: Results) -> list[Claim]:
    steady: Any = lambda name: results.of("steady", **factors(name))  # noqa: E731
    ends = {v: np.stack([steady(name) for name in (f"{v}, m = 1", v, f"{v}, m = 32")]) for v in ("U1", "C2")}
    spreads = [Pair(variant, of.max(axis=0) - of.min(axis=0)) for variant, of in ends.items()]
    levels = [steady(method) for method in (FED, SOME, HALF, SGD)]
    more = [Pair("", first, second) for first, second in zip(levels[1:], levels, strict=False)]
    little = f"U1 and C2 vary little ({LITTLE:g} dB) with the load of a message, m = 1, 4, 32"
    better = "Online-Fed is the better the more it sends: 2, 10, 50 and 100 % of those who are there"
    said = "figure 4.3 (b): methods that share parts vary very little with the load"
    higher = "figure 4.3 (b): the higher its load, up to 6,400 bits, the better Online-Fed is"
    note = "Where whole models are shared, (4.14) with alpha = 1 diverges"
    ask = partial(judged, unit=" dB", seen_in="load")
    return [ask(little, spreads, below(LITTLE), text=said, note=note), ask(better, more, below(), text=higher)]


def _stragglers(results: Results) -> list[Claim]:
    ask, perfect = partial(judged, unit=" dB", seen_in="stragglers"), f"{SGD}@ideal"
    asked = (
        (f"Among ideal clients C2 is almost identical (up to {POORLY:g} dB) to no reduction at all",
         [f"C2@ideal - {perfect}"], within(POORLY), "almost identical to methods with no communication reduction"),
        ("Among ideal clients windows of one's own (U1) are worse than common ones (C2)",
         ["U1@ideal - C2@ideal"], above(), "uncoordinated sharing has slightly worse performance"),
        (f"C2 among stragglers is almost similar (up to {POORLY:g} dB above) to a perfect setting",
         [f"C2 - {perfect}", "C2 - C2@ideal"], below(POORLY),
         "convergence properties almost similar to those in a perfect setting"))  # fmt: skip
    return [
        ask(claim, apart(results, *links), rule, text=f"figure 4.3 (c): {said}") for claim, links, rule, said in asked
    ]


def _load(row: Row) -> Row | None:
    """Return a row of figure 4.3 (b), with the bits that a client sends per iteration in which it is there."""
    name, _, size = str(row.factors["method"]).partition(", m = ")
    if row.factors["environment"] != "usual" or row.factors["rule"] == "swept":
        return None
    if name in ("U1", "C2"):
        return Row({"method": name, "load": 32 * int(size or 4)}, row.measures)
    share = {FED: 0.02, SOME: 0.1, HALF: 0.5, SGD: 1.0}.get(name)
    return Row({"method": "Online-Fed", "load": 32 * net.FEATURES * share}, row.measures) if share else None


def _figures(results: Results) -> list[Figure]:
    def some(*methods: str) -> Label:
        def label(row: Row) -> str | None:
            name, usual = str(row.factors["method"]), row.factors["environment"] == "usual"
            return name if usual and name in methods and row.factors["rule"] != "swept" else None

        return label

    def straggling(row: Row) -> str | None:
        name, where = str(row.factors["method"]), str(row.factors["environment"])
        wanted = name in ("C2", SGD) or (name, where) == ("U1", "ideal")
        return f"{name}, {where}" if wanted and row.factors["rule"] != "swept" else None

    drawn = [
        learning_curves(results, "baselines", "PAO-Fed and others", "As figure 4.3 (a).", some(*PAO, SGD, FED, PSO)),
        learning_curves(results, "reductions", "To communicate less", "As figure 4.5.", some("C2", PSO, HALF, SIGN)),
    ]
    if "ideal" not in results.levels("environment"):
        return drawn
    loads, y = Results(placed for row in results.rows if (placed := _load(row)) is not None), "steady test MSE (dB)"
    axes: dict[str, Any] = {"x": "load", "lines": "method", "x_label": SENT, "y": y}
    by_load = dots(loads, "load", "Error by load", "As figure 4.3 (b).", "steady", log_x=True, **axes)
    late = learning_curves(results, "stragglers", "What stragglers cost", "As figure 4.3 (c).", straggling)
    return [*drawn, by_load, late]


STUDY = Study(
    name="pao-vs-baselines", title="PAO-Fed against other ways to learn from stragglers",
    source="Gauthier (2023), secs. 4.4.3 and 4.4.5, figures 4.3 and 4.5", minutes=10,
    measure=net.measured(cells, rivals), judge=judge, tabled=("steady", "early", "bits"),
    method=f"""{net.setting()}

PAO-Fed's step is {net.STEP:g} and its m is 4. By the text's rule another method's step makes it start alike: the one
whose first {net.INITIAL:.0%} of the iterations are most like U1's (among ideal clients C2's), in the least squares of
mean dB, on {net.MATCHING_SEEDS} other seeds, among {", ".join(map(str, net.GRID))}, for SignSGD
{", ".join(map(str, net.SIGN_GRID))}.

{FED} calls so many of the clients that are there; {PSO} 25 % of them, with 16 coordinates each, and others learn on
alone: either is 2 % of all communication. SignSGD sends whole models down and a bit per coordinate up.

Other methods average whatever arrives in an iteration; built as (4.14) with alpha = 1, {SGD} diverges. "At least as
good" is up to {AT:g} dB above, "almost similar" less than what counts as poor, {POORLY:g} dB.
""")  # fmt: skip
