"""Study `isfedavg-regression`: importance sampling of clients and records (Rizk 2023, secs. 2.6.1 and 2.6.3)."""

from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from tacit import objectives
from tacit.streams import Batch, LinearRegression, linear_regression
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.rizk.diffusion import PER_TEXT_STEP, in_decibels
from tacit_reproduction.rizk.importance_ijcnn1 import Star, around_servers
from tacit_reproduction.study import Judgement, Study, over
from tacit_reproduction.table import Factor, Floats, Results, Row, decibels, parted
from tacit_reproduction.verdict import Claim, Pair, above, below, fact, headline, judged

DIM, RIDGE, STEP = 2, 1e-3, 0.01
FEATURES, NOISE = (0.5, 1.5), (0.01, 0.1)  # narrow ranges of variances, uniform: the text's are "randomly generated"
CENTRES, DECADES = (10**-0.5, 10**-1.5), (3.0, 5.0)
"""Of wide ranges, uniform as logarithms: at width 1 features have 0.01 to 10, noise 1e-4 to 10."""
DATA = {"narrow": (0.0, 1.0), "half wide": (0.5, 1.0), "wide": (1.0, 1.0)}
DATA |= {f"few x {contrast:g}": (0.0, contrast) for contrast in (10.0, 30.0, 100.0)}
"""Width of the ranges, and factor on the noise of few clients, one in twenty."""
ENDS, BOTH = ("narrow", "wide"), ("uniform", "optimal")
LOSS, NOISY_SHARE = objectives.squared(l2=RIDGE), 0.05
EXTENTS = {False: (300, 100, 800, 400), True: (60, 30, 500, 340)}
"""Quick -> clients, samples, rounds, and after how many of these the steady state begins."""
TEXT_GAIN, NEAR, AS_GOOD, EARLY = 13.1, 1.0, 0.5, 60
"""dB: the text's, give or take, and what counts as no worse; rounds in which speed is told."""
BEYOND_MEASURE = 1e6  # A model has diverged once its MSD is so many times the first one's


class Task(NamedTuple):  # one program
    rule: str
    problems: tuple[tuple[str, float], ...]  # Data, and factors on all noise v_k, the text's way to a larger xi
    quick: bool
    cohort: int = 6
    most_steps: int = 5


def tasks(quick: bool) -> list[Task]:
    main = [(name, 1.0) for name in DATA]
    louder = list(product(ENDS, (3.0, 100.0) if quick else (3.0, 15.0, 50.0, 100.0)))
    ends = tuple((name, 1.0) for name in ENDS)
    found = [Task("current", ends, quick), *(Task(rule, (*main, *louder), quick) for rule in BOTH)]
    for rule in () if quick else BOTH:
        found += [Task(rule, ends, quick, cohort=n) for n in (30, 60)]
        found += [Task(rule, ends, quick, most_steps=most) for most in (10, 20)]
    return [*found, Task("sampled", ends, quick)]


def data_of(name: str, loud: float, clients: int, samples: int, seed: int) -> LinearRegression:
    """Draw one repeat's samples; what a problem does not change is the same for all problems."""
    width, contrast = DATA[name]
    if width == 0:
        louder = [(NOISE[0] * by, NOISE[1] * by) for by in (loud**2, (loud * contrast) ** 2)]
        sizes: dict[str, Any] = {"feature_variance": FEATURES}
        plain, others = (linear_regression(clients, samples, DIM, seed, noise_variance=of, **sizes) for of in louder)
        few = round(NOISY_SHARE * clients) if contrast > 1 else 0
        return plain._replace(y=np.concatenate([others.y[:few], plain.y[few:]]))
    plain = linear_regression(clients, samples, DIM, seed, feature_variance=(1, 1), noise_variance=(1, 1))
    rng = np.random.default_rng([seed, 97])
    places = [rng.uniform(-0.5, 0.5, shape) for shape in ((clients, 1, DIM), (clients, 1))]
    variances = [c * 10 ** (width * d * at) for c, d, at in zip(CENTRES, DECADES, places, strict=True)]
    x = (plain.x * np.sqrt(variances[0])) @ np.linalg.qr(rng.standard_normal((clients, DIM, DIM)))[0]
    y = x @ plain.w_star + loud * np.sqrt(variances[1]) * (plain.y - plain.x @ plain.w_star)
    return plain._replace(x=x.astype(np.float32), y=y.astype(np.float32))


def run(given: tuple[Task, int, int]) -> list[Row]:
    task, seeds, first = given
    clients, samples, rounds, steady = EXTENTS[task.quick]
    drawn = [data_of(*problem, clients, samples, first + s) for problem in task.problems for s in range(seeds)]
    optima = [data.optima(RIDGE) for data in drawn]
    best, sizes = np.array([common for common, _ in optima]), np.full(clients, samples)
    stars = [Star(Batch(data.x, data.y), sizes, best[k], first + k % seeds) for k, data in enumerate(drawn)]

    def square(models: Floats) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.nan_to_num(np.sum((models.astype(np.float64) - best) ** 2, axis=1), nan=np.inf, posinf=np.inf)

    extent = (rounds, 20, task.cohort, task.most_steps)
    at, msd = around_servers(LOSS, PER_TEXT_STEP * STEP, task.rule, stars, square, *extent)
    measures = {
        "rounds": at, "msd": msd, "settled": decibels(msd[:, at > steady].mean(axis=1)),
        "early": decibels(msd[:, np.searchsorted(at, EARLY)]),
        "diverged": (~(msd[:, -1] < BEYOND_MEASURE * np.sum(best**2, axis=1))).astype(float),
        "xi": np.array([np.linalg.norm(local - common, axis=1).max() for common, local in optima])}  # fmt: skip
    common: dict[str, Factor] = {"rule": task.rule, "cohort": task.cohort, "steps": task.most_steps}
    return parted(common, ({"data": name, "loud": loud} for name, loud in task.problems), seeds, measures)


def leads(here: Results, rule: str, other: str = "uniform", measure: str = "settled") -> list[Pair]:
    both = (rule, other)
    return [Pair(f"{rule}, {data}", *(here.of(measure, rule=name, data=data) for name in both)) for data in ENDS]


def changes(here: Results, factor: str) -> tuple[list[Pair], list[Pair]]:
    """Compare each level of a factor with the one before: MSD of both rules, and what one is ahead (linear)."""
    levels, ahead = [], []
    for data, (low, high) in product(ENDS, pairwise(sorted(here.levels(factor)))):
        msd = [{r: here.of("settled", rule=r, data=data, **{factor: at}) for r in BOTH} for at in (high, low)]
        name = f"{data}, {high:g} over {low:g}"
        levels += [Pair(f"{name}, {rule}", msd[0][rule], msd[1][rule]) for rule in BOTH]
        ahead.append(Pair(name, *(10 ** (of["uniform"] / 10) - 10 ** (of["optimal"] / 10) for of in msd)))
    return levels, ahead


def of_ranges(plain: Results, louder: Results) -> list[Claim]:
    """Judge the sweeps over L and E_k, which the quick form has not, and over xi."""
    found, called, local = [], plain.where(steps=5), plain.where(cohort=6)
    if len(called.levels("cohort")) > 1:
        levels, ahead = changes(called, "cohort")
        said = "figure 2.3: as L increases both perform better, and the improvement decreases"
        found.append(in_decibels("More clients a round lower the settled MSD of both", levels, below(), said))
        found.append(judged("The more clients a round, the smaller the difference of MSDs", ahead, below(), text=said))
        claim = f"More local steps do not make the settled MSD worse, by {AS_GOOD:g} dB at most"
        said = "figure 2.4: does not change much; without the factor 1 / E_k it would deteriorate"
        found.append(in_decibels(claim, changes(local, "steps")[0], below(AS_GOOD), said))
    said = "figure 2.5 (a): as xi increases both worsen, ISFedAvg always does better"
    every = ((loud, pair) for loud in louder.levels("loud") for pair in leads(louder.where(loud=loud), "optimal"))
    ahead = [pair._replace(name=f"{pair.name}, noise x {loud:g}") for loud, pair in every]
    found.append(in_decibels("A larger xi makes both worse", changes(louder, "loud")[0], above(), said, "xi"))
    found.append(in_decibels("Importance sampling is better at every xi", ahead, below(), said, "xi"))
    runs = [row.measures["diverged"] for row in louder.where(rule="uniform").rows]
    gone, most = sum(of.sum() for of in runs), max(row.measures["xi"].mean() for row in louder.rows)
    figure = f"{gone:g} of {sum(map(len, runs))} runs diverge, with noise to xi = {most:.3g}"
    said = "figure 2.5 (b): there is a range of xi in which FedAvg diverges while ISFedAvg converges"
    return [*found, fact("Uniform sampling diverges where noise makes xi large", bool(gone), figure, said, "xi")]


def judge(results: Results) -> Judgement:
    plain, louder = results.where(loud=1.0), results.keep(lambda row: float(row.factors["loud"]) > 1)
    main, place = plain.where(cohort=6, steps=5), "section 2.6.1, figure 2.1"
    lower = "sampling has a lower settled MSD than uniform sampling"
    better = in_decibels(f"Importance {lower}", leads(main, "optimal"), below(), f"{place}: does better", "learning")
    sizes, gains = {}, {}
    for name in main.levels("data"):
        gain = main.of("settled", rule="uniform", data=name) - main.of("settled", rule="optimal", data=name)
        claim = f"The gain of optimal probabilities is {TEXT_GAIN:g} dB or more, give or take {NEAR:g}: {name}"
        sizes[name] = in_decibels(claim, Pair("", gain, TEXT_GAIN), above(-NEAR), place, "data")
        gains[name] = f"{gain.mean():.1f} dB ({name})"
    near = [pair for rule in ("current", "sampled") for pair in leads(main, rule)]
    as_good = f"Sampled probabilities settle no more than {AS_GOOD:g} dB above optimal ones"
    current = {name: leads(main, "current", "optimal", name) for name in ("settled", "early")}
    faster = f"Current probabilities are ahead of optimal ones in round {EARLY}"
    claims = [
        better, *sizes.values(), in_decibels(f"Approximate importance {lower}", near, below(), place, "learning"),
        in_decibels(as_good, leads(main, "sampled", "optimal"), below(AS_GOOD), f"{place}: just as well", "learning"),
        in_decibels("Current ones settle below optimal ones", current["settled"], below(), f"{place}: outperforms"),
        in_decibels(faster, current["early"], below(), f"{place}: converges faster", "learning"),
        *of_ranges(plain, louder)]  # fmt: skip
    told = headline(
        "Importance sampling lowers the MSD of federated averaging", place=place, text=f"by {TEXT_GAIN:g} dB",
        ours=f"by {', '.join(gains.values())}",
        why="The gain is the mean square of gradient norms, of clients and records, over the square of their mean: "
        'what heterogeneity is put in comes out. The text\'s covariances and noise are "randomly generated", without a '
        "range. Where variances differ by a factor of ten there are a few dB to gain by any probabilities; the text's "
        "size takes norms that differ by orders of magnitude, as those of the wide ranges do, or of few loud clients.",
        claims=[better], size={name: [size] for name, size in sizes.items()}, seen_in="data")  # fmt: skip
    y: dict[str, Any] = {"lines": "rule", "y": "MSD (dB)"}
    at_ends, both = main.where(data=ENDS), main.where(rule=BOTH)
    said = "As figure 2.5 (a); xi is in proportion to the noise."
    figures = [
        curves(at_ends, "learning", "MSD", "As figure 2.1.", "msd", panels="data", change=decibels, **y),
        dots(both, "data", "Settled MSD by data", "Noise is so many times as large at few.", "settled", x="data", **y),
        dots(louder, "xi", "MSD by factor on noise", said, "settled", x="loud", panels="data", log_x=True, **y),
    ]
    return Judgement(claims, [told], figures)


STUDY = Study(
    name="isfedavg-regression", title="Federated averaging under importance sampling: regression",
    source="Rizk (2023), secs. 2.6.1 and 2.6.3, figures 2.1 and 2.3-2.5", minutes=4,
    measure=over(tasks, run, seeds=(20, 8)), judge=judge, tabled=("settled", "diverged", "xi"),
    method=f"""
300 clients around one server, 100 samples each, rho = {RIDGE:g}, batches of 1 to 10 and 1 to 5 local steps by client, 6
clients a round, mu = {STEP:g} (the text's loss has no factor 1/2). The MSD is that of the server's model from (2.74),
over the second half of the rounds. The quick form has 60 clients with 30 samples.

The text's covariances and noise are "randomly generated". Narrow: variances uniform on {FEATURES} and {NOISE}. Wide:
uniform as logarithms, 0.01 to 10 for features and 1e-4 to 10 for noise; half wide has half of the decades. Or one
client in twenty has noise 10, 30 or 100 times as large, on the narrow ranges.

All sampling is without replacement; a tenth of importance sampling is uniform (0.46 dB at most).""")  # fmt: skip
