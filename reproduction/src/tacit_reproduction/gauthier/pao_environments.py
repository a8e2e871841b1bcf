"""Study `pao-environments`: full downloads, common delays, harsh networks (Gauthier 2023, sec. 4.4.6)."""

from functools import partial

from tacit.algorithms.asynchronous._stability import largest_curvature
from tacit_reproduction.gauthier import asynchronous as net
from tacit_reproduction.gauthier.asynchronous import ENVIRONMENTS, FED, HARSH, SGD, Cell, apart, learning_curves
from tacit_reproduction.study import Judgement, Study
from tacit_reproduction.table import Floats, Results, Row
from tacit_reproduction.verdict import Claim, Pair, above, below, judged

DRASTIC = 2.0  # dB by which a result is worse at least where it is called drastically so
NEAR = 0.95  # "Near its maximum value obtained in Theorem 4.2": this share of it
COMMON = "common delays"
PANELS = {"usual": "(a) full download", COMMON: "(b) common delays", "harsh": "(c) harsh"}
LARGER = 0.8  # a larger step, at which methods are run beside the text's rule
DRAWN = ("text", "matched")
ask = partial(judged, unit=" dB", seen_in="environments")


def cells(quick: bool, first: int) -> list[Cell]:
    size = Cell("C2").sized(quick)
    data = net.stream(*size.of_data, first).chunk(0, size.rounds)
    near = float(NEAR / largest_curvature(net.objective(size.data), data).max())
    found = [Cell(method) for method in ("U1", "C2", "U1, full download", "C2, full download")]
    found += [Cell("U1", COMMON), Cell("C2", COMMON), Cell("C2", COMMON, near, "near")]
    if quick:
        return found
    found += [Cell(m, "harsh") for m in ("U1", "C1", "C2")] + [Cell(m, "harsh, on time") for m in ("U1", "C1")]
    return [*found, Cell(SGD, COMMON, near, "near"), *(Cell(m, "harsh", LARGER, "larger") for m in ("C2", SGD))]


def rivals(quick: bool) -> list[Cell]:
    return [Cell(SGD, step=0.14), Cell(SGD, COMMON, 0.28), *([] if quick else [Cell(SGD, "harsh"), Cell(FED, "harsh")])]


def judge(results: Results) -> Judgement:
    rival, near = f"{SGD}@{COMMON}", results.of("steady", method="C2", rule="near")
    worse = f"(a) A server that sends its whole model makes U1 and C2 drastically worse (by {DRASTIC:g} dB at least)"
    whole = apart(results, *(f"{variant}, full download - {variant}" for variant in ("U1", "C2")))
    below_bound = Pair(f"C2 against {SGD}", near, results.of("steady", **net.factors(rival)))
    outperforms, delayed = "figure 4.6 (b): Online-FedSGD outperforms U1", apart(results, f"{rival} - U1@{COMMON}")
    best = f"(b) Common delays: C2 with a step near its bound ends below {SGD}"
    said, note = "figure 4.6 (b): C2 significantly outperforms Online-FedSGD", "with that same step"
    claims = [
        ask(worse, whole, above(DRASTIC), text="figure 4.6 (a): performance is drastically reduced"),
        ask(f"(b) Common delays: {SGD} ends below U1", delayed, below(), text=outperforms),
        ask(best, below_bound, below(), text=said, note=_other(results, COMMON, "near", note)),
    ]
    if "harsh" in results.levels("environment"):
        claims += _harsh(results)

    def label(row: Row) -> str | None:
        name, rule = str(row.factors["method"]), row.factors["rule"]
        return f"{name} near the bound" if rule == "near" and name != SGD else name if rule in DRAWN else None

    shown, look = results.where(environment=tuple(PANELS)), {"lines": label, "panels": "environment", "words": PANELS}
    drawn = learning_curves(shown, "environments", "Other environments", "As figure 4.6.", **look)
    return Judgement(claims, [], [drawn])


def _other(results: Results, environment: str, rule: str, words: str) -> str:
    found = results.where(environment=environment, rule=rule, method=SGD).rows
    return f"{SGD} {words} ends at {found[0].measures['steady'].mean():.2f} dB" if found else ""


def _harsh(results: Results) -> list[Claim]:
    def steady(method: str, environment: str = "harsh") -> Floats:
        return results.of("steady", method=method, environment=environment, rule="text")

    gains = [steady("U1", environment) - steady("C2", environment) for environment in ("harsh", "usual")]
    late = {method: (steady(method) - steady(method, "harsh, on time")).mean() for method in ("U1", "C1")}
    larger = "(c) Harsh environment: the distance of C2 below U1, in dB, is larger than in the usual one"
    increases = "figure 4.6 (c): the accuracy difference between C2 and U1 increases"
    little = "There is little that weights could win: with every update on time and all else the same the error is "
    little += f"lower by {late['U1']:.2f} dB (U1) and {late['C1']:.2f} dB (C1), and a late update is 10 iterations old "
    little += f"or more, so that 0.2^l throws {HARSH.delay:.0%} of the messages away"
    note, pairs = _other(results, "harsh", "larger", f"with step {LARGER:g}"), apart(results, f"C2@harsh - {SGD}@harsh")
    said = "figure 4.6 (c): C2 achieves significantly better accuracy"
    ends = ask(f"(c) Harsh environment: C2 ends below {SGD}", pairs, below(), text=said, note=note)
    return [ask(larger, Pair("", *gains), above(), text=increases, note=little), ends]


STUDY = Study(
    name="pao-environments",
    title="PAO-Fed in other environments: full downloads, common delays, and clients that are hardly there",
    source="Gauthier (2023), sec. 4.4.6, figure 4.6", minutes=8, measure=net.measured(cells, rivals), judge=judge,
    tabled=("steady", "early", "bits"),
    method=f"""{net.setting()}

Common delays: an update is l iterations late or later with chance {ENVIRONMENTS[COMMON].delay:g}^l, and lost beyond
{ENVIRONMENTS[COMMON].longest}. Harsh: clients are there with chance {", ".join(f"{p:g}" for p in HARSH.availability)},
and updates 10 i iterations late or later with chance {HARSH.delay:g}^i, lost beyond {HARSH.longest}. {SGD} takes the
mean of what arrives; (4.14) with everything shared and alpha = 1 would diverge. {FED} calls so many of those who are
there.

The step of PAO-Fed is {net.STEP:g}, and m is 4; other methods start like U1 in the same environment. Near the bound:
{NEAR:g} / lambda, the largest eigenvalue of E[z z'] of any client. The quick form matches no steps and leaves the harsh
environment out.
""")  # fmt: skip
