"""Study `pgfl-regression`: a model per cluster of clients across servers (Gauthier 2023, sec. 5.4.1)."""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

from tacit_reproduction.figures import Figure, curves, dots
from tacit_reproduction.gauthier import pgfl, pgfl_optimum
from tacit_reproduction.gauthier.pgfl import PENALTY, PHI, ROUNDS, USUAL, ZETA, Found, Problem, Setting, Task, excess
from tacit_reproduction.study import Crew, Judgement, Study
from tacit_reproduction.table import Results, Row, decibels
from tacit_reproduction.verdict import Claim, Headline, Pair, Rule, above, below, fact, headline, judged

PLAIN, MIXED, FADING = Setting(), Setting(tau=0.4), Setting(tau=0.4, fade=0.98)
GFL, CLUSTERFL, EVERYBODY = Setting("GFL"), Setting("ClusterFL", 0.4), MIXED._replace(noise="clipped")
GAMMAS, SNRS = ("per cluster", "per coordinate"), (15.0, 18.0, 18.5, 19.0, 20.0, 25.0)
WIDE = Problem(spread=0.5)
TAUS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)
ASSUMED = [Problem(clip=c, penalty=p) for p in (PENALTY, 30.0) for c in (0.03, 0.1, 0.3, 1.0)]
CLIPPED = [Problem(clip=c, penalty=p) for p in (PENALTY, 30.0) for c in (1.0, 10.0)]
START, EARLY, AFTER = 10, 50, 200
"""Rounds after which first speeds are compared, a few rounds, and those of figures 5.2 and 5.4."""
NEARLY = 100 * (10**0.1 - 1)  # per cent: "nearly identical" is no more than 1 dB above
TEXT_TOTAL, ZETAS = 0.095, (0.95, 0.97)


def called(setting: Setting, noise: str = "none", zeta: float = ZETA) -> Setting:
    return setting._replace(called=True, noise=noise, zeta=zeta)


def tasks(quick: bool, first: int) -> list[Task]:
    seeds = 5 if quick else 20
    order = [Problem(gamma=g, snr=s) for g in GAMMAS for s in ((18.0, 20.0) if quick else SNRS)]
    taus = [Setting(tau=tau) for tau in (() if quick else TAUS) if tau not in (PLAIN.tau, MIXED.tau)]
    wanted = [
        (called(MIXED, "clipped"), CLIPPED),
        *((setting, order) for setting in (MIXED, PLAIN, GFL, CLUSTERFL, *taus[1:2])),
        *((called(setting, "assumed"), ASSUMED) for setting in (MIXED, PLAIN)),
        *((called(setting), [USUAL, WIDE, Problem(penalty=30.0)]) for setting in (MIXED, PLAIN, GFL)),
        *((called(MIXED, "assumed", zeta), ASSUMED[:1]) for zeta in ZETAS[: 1 if quick else 2]),
        *((called(setting), [USUAL]) for setting in taus), (called(FADING), [WIDE])]  # fmt: skip
    found = [(setting, problems, seeds, first, ROUNDS) for setting, problems in wanted]
    return [*pgfl_optimum.looks(quick, first), *found, (EVERYBODY, CLIPPED[:1], 1, first, ROUNDS)]


def do(task: Task) -> list[Row]:
    return pgfl.run(task) if task[-1] == ROUNDS else pgfl_optimum.arrive(task)


def measure(team: Crew, quick: bool, first: int) -> Results:
    data = f"Ridge regression, 150 clients, 2 to 9 records each in {pgfl.DIMENSIONS} dimensions."
    return Results(chain(*team("running", do, tasks(quick, first))), {"data": data})


def row(claim: str, pairs: Sequence[Pair], rule: Rule, seen_in: str, said: str) -> Claim:
    return judged(claim, pairs, rule, unit=" %", seen_in=seen_in, text=f"figure {said}")


def order(found: Found, problem: Problem) -> list[Claim]:
    where, mixed = f"gamma {problem.gamma}, SNR {problem.snr:g} dB", [found.over(PLAIN, MIXED, problem)]
    worse, poor = [found.over(GFL, s, problem) for s in (MIXED, PLAIN)], [found.over(CLUSTERFL, GFL, problem)]
    return [
        row(f"PGFL 0.4 ends below PGFL 0: {where}", mixed, above(), "snr", "5.1 (a): improved steady-state accuracy"),
        row(f"Both end below GFL: {where}", worse, above(), "snr", "5.1 (a): superiority of PGFL over GFL"),
        row(f"ClusterFL ends above all: {where}", poor, above(), "snr", "5.1 (a): ClusterFL is notably poor"),
    ]


def less(found: Found) -> list[Claim]:
    some, problems = Setting(tau=0.2), [Problem(gamma=GAMMAS[1], snr=snr) for snr in SNRS[1:5]]
    known = found.results.where(tau=some.tau, called=False).rows
    pairs = [found.over(a, b, p) for p in problems for a, b in ((PLAIN, some), (GFL, PLAIN)) if known]
    claim = "PGFL 0.2 is below PGFL 0, and that below GFL: gamma per coordinate, SNR 18 to 20 dB"
    return [judged(claim, pairs, above(), unit=" %", seen_in="snr")] if known else []


def mixing(found: Found) -> list[Claim]:
    mixed, plain, fading = (called(s) for s in (MIXED, PLAIN, FADING))
    start = [found.over(PLAIN, MIXED, Problem(gamma=gamma), START) for gamma in GAMMAS]
    wide = [found.over(plain, mixed, WIDE, START), found.over(mixed, plain, WIDE)]
    both = [found.over(fading, mixed, WIDE, START), found.over(fading, plain, WIDE)]
    slower = [found.over(called(s), s, USUAL, after) for s in (PLAIN, MIXED) for after in (EARLY, ROUNDS)]
    claims = [
        row("gamma up to 0.5: tau = 0.4 is below 0 at first, above it in the end", wide, above(), "similarity",
            "5.3: inter-cluster learning improves the initial rate and degrades the steady state"),
        row("gamma up to 0.5: fading tau starts as 0.4 and ends as 0, up to 1 dB", both, below(NEARLY), "similarity",
            "5.3: the same initial rate, near-identical steady state"),
        row("tau = 0.4 is faster at first, gamma per cluster and per coordinate", start, above(), "learning",
            "5.1 (a): improved convergence speed"),
        row("Calling a few makes PGFL slower, and its NMSD higher in the end", slower, above(), "learning",
            "5.1 (b): slower convergence and higher steady-state NMSD"),
        row("GFL is better with a few called", [found.over(GFL, called(GFL))], above(), "learning",
            "5.1 (b): GFL performs better with client scheduling")]  # fmt: skip
    if found.results.where(tau=TAUS[-1]).rows:
        at = {tau: found(called(Setting(tau=tau)), USUAL, AFTER) for tau in TAUS}
        some = [excess(f"0 over {tau:g}", at[0.0], at[tau]) for tau in (0.1, 0.2, 0.4)]
        most, said = [excess("", at[0.8], at[0.4])], "5.2 (with noise): tau in (0.1, 0.5) is lower than 0"
        claims.append(row(f"PGFL 0 is above 0.1, 0.2 and 0.4 after {AFTER} rounds", some, above(), "tau", said))
        claims.append(row("PGFL 0.8 is above 0.4", most, above(), "tau", "5.2: a value too large degrades it"))
    return claims


def near(found: Found, noise: str, problems: Sequence[Problem]) -> Claim:
    """Noise costs no more than 1 dB in the end, against the same rho without."""
    without = {p: found(called(MIXED), Problem(penalty=p.penalty)) for p in problems}
    pairs = [excess(p.units, found(called(MIXED, noise), p), without[p]) for p in problems]
    claim = f"With the published noise PGFL 0.4 ends as without, up to 1 dB: C {noise}"
    return row(claim, pairs, below(NEARLY), "noise", "5.1 (c): after 300 iterations nearly identical to (b)")


def private(found: Found) -> list[Claim]:
    mixed, base = called(MIXED, "assumed"), ASSUMED[0]
    at = {p: found(mixed, p, AFTER) for p in ASSUMED}
    zetas = [zeta for zeta in ZETAS if found.results.where(zeta=zeta).rows]
    by_zeta = [excess(f"zeta = {z:g}", found(called(MIXED, "assumed", z), base, AFTER), at[base]) for z in zetas]
    by_phi = [excess(b.units, at[b], at[a]) for a, b in pairwise(ASSUMED) if a.penalty == b.penalty]
    helps = [found.over(called(PLAIN, "assumed"), mixed, p, AFTER) for p in ASSUMED if p.clip == ASSUMED[1].clip]
    booked = float(found.results.of("rho", **EVERYBODY._asdict(), **CLIPPED[0]._asdict())[0])
    rising, falling = (pgfl.total(PHI, ratio, ROUNDS) for ratio in (ZETA, 1 / ZETA))
    sums = f"sum of phi_0 zeta^-n {rising:.4f}, of phi_0 zeta^n {falling:.4f}"
    said = "5.2: lower with tau in (0.1, 0.5) than with 0"
    return [
        row(f"Under noise PGFL 0 is above 0.4 after {AFTER} rounds, C = 0.1 assumed", helps, above(), "noise", said),
        row("A smaller phi_0 is worse (C assumed: like a C larger by the square root)", by_phi, above(), "noise",
            "5.4: for smaller phi_0 the NMSD is higher"),
        row("zeta nearer to 1 is worse (C assumed)", by_zeta, below(), "noise", "5.4: zeta near 1 costs accuracy"),
        fact(f"The published noise costs {TEXT_TOTAL:g} in {ROUNDS} rounds", abs(booked - TEXT_TOTAL) < TEXT_TOTAL / 10,
             f"booked {booked:.4f} with everybody called and gradients clipped; {sums}. By (5.32) phi_n grows as noise "
             "shrinks", f"section 5.4.1: phi = {TEXT_TOTAL:g} for all clients")]  # fmt: skip


def judge(results: Results) -> Judgement:
    found, tuned = Found(results), mixing(Found(results))
    both = [claim for gamma in GAMMAS for claim in order(found, Problem(gamma=gamma))]
    noisy = [near(found, "clipped", CLIPPED), near(found, "assumed", ASSUMED)]
    claims = [*both, *less(found), *tuned, *noisy, *private(found), *pgfl_optimum.claims(results)]
    return Judgement(claims, headlines(found, tuned[:2], noisy[:1]), figures(results))


def headlines(found: Found, fading: Sequence[Claim], clipped: Sequence[Claim]) -> list[Headline]:
    snrs, lineup = found.results.where(method="ClusterFL").levels("snr"), (MIXED, PLAIN, GFL, CLUSTERFL)
    problems = [Problem(gamma=g, snr=snr) for g in GAMMAS for snr in snrs]
    kinds = {"clipped": CLIPPED, "assumed": ASSUMED}
    kept = {f"C {kind}, {p.units}": [near(found, kind, [p])] for kind, of in kinds.items() for p in of}
    ends = {kind: [f"{p.units}: {found.db(called(MIXED, kind), p)}" for p in of] for kind, of in kinds.items()}
    few = {s.name: called(s) for s in (MIXED, PLAIN, FADING)}
    wide = [f"{name}: {found.db(s, WIDE, START)}, {found.db(s, WIDE)}" for name, s in few.items()]
    shown = [f"gamma {g}: " + ", ".join(f"{s.name} {found.db(s, Problem(gamma=g))}" for s in lineup) for g in GAMMAS]
    return [
        headline(
            "A model per cluster across servers beats one model for all, and clusters at single servers by far; mixing "
            "speeds up the start, is better still in the end where clusters are alike, and may fade where not",
            place="figures 5.1 (a) and 5.3", text="PGFL 0.4 below PGFL 0 below GFL, ClusterFL notably poor; where "
            "clusters differ 0.4 * 0.98^n starts like tau = 0.4 and ends like tau = 0",
            ours=f"dB, SNR {USUAL.snr:g} dB, {'; '.join(shown)}; gamma up to {WIDE.spread:g}, after {START} and "
            f"{ROUNDS} rounds, {'; '.join(wide)}",
            why="Mixing, and one model for all, trade the error of few data, which follows the noise in y, for a pull "
            "between clusters, which does not. The text gives neither that noise nor whether gamma is one number per "
            "cluster; if it is, clusters of some seeds lie close by chance, and these decide a mean. Where clusters "
            "differ more, others' models help while one's own is far off and mislead once it is near; 0.4 * 0.98^n is "
            "below 0.01 from round 183 on. The text's curves of that are under noise; with its published noise and "
            "gradients that are clipped nothing is learnt, so that these are without.",
            claims=[*order(found, USUAL), *fading],
            sweep={f"gamma {p.gamma}, {p.snr:g} dB": [*order(found, p), *fading] for p in problems}, seen_in="snr"),
        headline(
            f"Noise of phi_0 = {PHI:g}, zeta = {ZETA:g} slows learning down but costs almost nothing after 300 rounds",
            place="figure 5.1 (c)", text=f"nearly identical to (b), at {TEXT_TOTAL:g}-zCDP in all",
            ours=f"dB, no noise, rho = 3: {found.db(called(MIXED))}; clipped, {'; '.join(ends['clipped'])}; C assumed, "
            f"{'; '.join(ends['assumed'])}",
            why="The text assumes a bound C on gradients and never clips to it. Where they are clipped, noise is "
            f"{2 * (2 * PHI) ** -0.5 * pgfl.DIMENSIONS**0.5 / 5.5:.0f} times a client's longest step C / rho at first, "
            "whatever C and rho, and nothing is learnt. Where a small C is only assumed the curve can come out, but "
            "the promise is empty: a record's gradient is around 8 at the start, and no finite loss is booked. The "
            f"total is an error of its own: phi_n grows by 1 / zeta a round, to {pgfl.total(PHI, ZETA, ROUNDS):.2f}.",
            claims=clipped, sweep=kept, seen_in="noise")]  # fmt: skip


def figures(results: Results) -> list[Figure]:
    plain, noisy = results.where(noise="none"), results.where(called=True, tau=0.4, zeta=ZETA)
    few, usual = plain.where(called=True), plain.where(**USUAL._asdict())
    private = noisy.where(noise=("clipped", "assumed"))
    db: dict[str, Any] = {"y": "NMSD (dB)", "change": decibels}
    panels, both = {False: "(a) everybody called", True: "(b) a few called"}, "Drawn like figure 5.1 (a) and (b)."
    by_tau, low = few.where(method="PGFL", fade=1.0, **USUAL._asdict()), few.where(**WIDE._asdict())
    ends, ideal = "Ends of figure 5.1 (a), over open settings; SNR in dB.", plain.where(called=False)
    return [
        dots(ideal, "snr", "NMSD after 300 rounds", ends, "end", x="snr", lines="name", panels="gamma", **db),
        curves(usual, "learning", "Learning curves", both, "nmsd", lines="name", panels="called", words=panels, **db),
        curves(private, "noise", "Noise", "As figure 5.1 (c), PGFL 0.4.", "nmsd", lines="units", panels="noise", **db),
        curves(low, "similarity", "Low similarity", "Drawn like figure 5.3.", "nmsd", lines="name", **db),
        dots(by_tau, "tau", "NMSD by tau", "As figure 5.2, no noise.", "end", x="tau", lines="method", **db),
    ]


STUDY = Study(
    name="pgfl-regression", title="Personalised graph federated learning: ridge regression in clusters",
    source="Gauthier (2023), sec. 5.4.1, figures 5.1 to 5.4", minutes=6, measure=measure, judge=judge,
    method=f"""
w_0 has coordinates of variance 1 / d, a cluster's model is (1 + gamma) w_0 with one gamma per cluster, or one per
coordinate. The text does not give the noise in y: the SNR is {USUAL.snr:g} dB, and swept. Servers have links between 15
random pairs, drawn until all are connected. Our loss is half of (5.34), so that our C and rho are half of the text's:
rho = {PENALTY:g} for all methods. Models are released with Gaussian noise by (5.31) and (5.32). "Clipped": each
record's gradient is clipped to C, as the promise needs. "Assumed": the noise is that of C, and nothing is clipped.

NMSD (5.35) is of clients' own models, averaged over seeds before decibels are taken, as in the text; verdicts are on
differences of these means, in per cent, paired over seeds.""")  # fmt: skip
