"""Study `fedavg-private`: noise on models or on updates (Rizk 2023, sec. 2.6.4)."""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tacit import algorithms, graphs, objectives
from tacit.privacy import laplace_of_size, unprotected
from tacit.streams import linear_regression
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.rizk.diffusion import PER_TEXT_STEP, climb, in_decibels, noise_by_round, piecewise, stretches
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Floats, Results, Row, decibels, late
from tacit_reproduction.verdict import Pair, above, below, fact, headline, judged, slopes, within

CLIENTS, COHORT, DIMENSIONS, RIDGE = 1000, 30, 2, 0.007
STEP, VARIANCE = 0.2, 0.02
LOCAL_STEPS, BATCH_SIZES, SIZES = (1, 10), (1, 10), (50, 150)
"""Ranges of E_k, the text's, of B_k, which it gives for its first experiment only, and of N_k, which it does not."""
LOSS = objectives.squared(l2=RIDGE)
CLIP = 1.0  # of the question how private the two are: bounds a record's gradient of half the loss
WORDS = {"none": "no noise", "models": "noise on models", "updates": "noise on updates"}
NOISY, SLOPE_SPARE = ("models", "updates"), 0.1


class Task(NamedTuple):  # one kind of noise, at steps and variances one after the other
    noise: str
    steps: tuple[float, ...]
    variances: tuple[float, ...]
    clip: float | None = None

    def settings(self) -> list[tuple[float, float, int]]:
        """Return steps, variances and rounds, the text's first: at small steps until well after the error settled."""
        noisy = self.noise != "none"
        found = [(STEP, VARIANCE)] + [(step, VARIANCE) for step in self.steps if step != STEP]
        found += [(STEP, variance) for variance in self.variances if noisy and variance != VARIANCE]
        return [(step, variance * noisy, max(300, round(24 / step))) for step, variance in found]


def tasks(quick: bool) -> list[Task]:
    """Return all programs; the text gives no steps for figure 2.7."""
    steps = (0.05, 0.2, 0.5, 1.0) if quick else (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    variances = (0.02, 0.5) if quick else (0.01, 0.02, 0.05, 0.1, 0.5)
    return [*(Task(noise, steps, variances) for noise in WORDS), *(Task(noise, (), (), CLIP) for noise in NOISY)]


def run(given: tuple[Task, int, int]) -> list[Row]:
    task, seeds, first = given
    own = np.random.default_rng(CLIENTS)
    sizes, local, batch = (own.integers(low, high + 1, CLIENTS) for low, high in (SIZES, LOCAL_STEPS, BATCH_SIZES))
    drawn = [linear_regression(CLIENTS, SIZES[1], DIMENSIONS, seed) for seed in range(first, first + seeds)]
    best = np.stack([each.optima(RIDGE, sizes)[0] for each in drawn])[:, None]
    clients: dict[str, Any] = {"cohort": COHORT, "local_steps": local.tolist(), "batch_size": batch.tolist()}
    steps, variances, lengths = (list(values) for values in zip(*task.settings(), strict=True))
    noise, places = unprotected, {"models": ("model", 1), "updates": ("gradient", PER_TEXT_STEP)}
    if task.noise != "none":  # on updates it is on our gradients, which are half as large
        place, ours = places[task.noise]
        noise = laplace_of_size(math.sqrt(VARIANCE) / ours, task.clip, perturbs=place)  # type: ignore[arg-type]
        if task.clip is None:
            noise = noise_by_round(noise, [math.sqrt(variance) / ours for variance in variances], lengths)
    outcome = finished_run(
        algorithms.fedavg(LOSS, piecewise([PER_TEXT_STEP * s for s in steps], lengths), noise, **clients),
        graphs.star_roles(CLIENTS), lambda seed: drawn[seed - first].stream(sizes), rounds=sum(lengths),
        repeats=seeds, seed=first, evaluate="cohort", record={"server": lambda models: models[0]}, record_every=3,
    )  # fmt: skip
    deviation = np.square(np.asarray(outcome.recorded["server"], np.float64) - best).sum(axis=-1)
    rows = []
    for number, (rounds, msd) in enumerate(stretches(outcome.recorded_rounds, deviation, lengths)):
        factors = {"noise": task.noise, "step": steps[number], "variance": variances[number], "clip": task.clip or 0.0}
        measures: dict[str, Any] = {"rounds": rounds, "msd": msd, "settled": decibels(late(msd))}
        if outcome.privacy.guarantee is not None:
            measures["epsilon"] = np.array([outcome.privacy.guarantee.epsilon])
        rows.append(Row(factors, measures))
    return rows


def judge(results: Results) -> Judgement:
    free = results.where(clip=0.0)
    steps = sorted(free.where(noise="models", variance=VARIANCE).levels("step"))
    variances = sorted(free.where(noise="models", step=STEP).levels("variance"))

    def settled(noise: str, step: float = STEP, variance: float = VARIANCE) -> Floats:
        return free.of("settled", noise=noise, step=step, variance=variance if noise != "none" else 0.0)

    def added(noise: str, step: float = STEP, variance: float = VARIANCE) -> Floats:
        return np.asarray(10 ** (settled(noise, step, variance) / 10) - 10 ** (settled("none", step) / 10))

    lowest = min(steps[1:-1], key=lambda step: float(settled("models", step).mean()))
    outer = (steps[0], steps[-1])
    ends = [Pair(f"mu {at:g} over {lowest:g}", settled("models", at), settled("models", lowest)) for at in outer]
    louder = [p for n in NOISY for p in climb(n, partial(settled, n, STEP), variances)]
    rise = Pair("", *(added(n, variance=variances[-1]) - added(n, variance=variances[0]) for n in NOISY))
    falls = Pair("", *(added("updates", step=at) for at in outer))
    more = Pair("", settled("models"), settled("updates"))
    growing, both = climb("mu", lambda at: settled("updates", at), steps), "figure 2.7 (c), (d): performance diminishes"
    claims = [
        in_decibels("Noise on models harms more", more, above(), "figure 2.6: it is worse", "learning"),
        in_decibels("With noise on updates MSD grows with mu", growing, above(), "figure 2.7 (b): it does", "steps"),
        in_decibels("With noise on models a middle mu is best", ends, above(), "figure 2.7 (a): a trade-off", "steps"),
        judged("At small mu noise on updates adds less", falls, below(), text="section 2.6.4: some mu decreases it"),
        in_decibels("MSD grows with sigma_g^2", louder, above(), both, "variances"),
        judged("A larger sigma_g^2 harms models more", rise, above(), text=f"{both}, more so", seen_in="variances"),
    ]
    runs = np.concatenate([np.isfinite(row.measures["msd"]).all(axis=1) for row in free.rows])
    gone, shares = int((~runs).sum()), [np.log(added("models", variance=v)) for v in variances]
    slope = Pair("models: slope of logarithms", slopes(np.log(variances), np.stack(shares, axis=1)), 1.0)
    figure = f"{gone} of {len(runs)} runs diverge, sigma_g^2 to {variances[-1]:g}"
    diverges = fact("Runs diverge at some sigma_g^2", gone > 0, figure, "section 2.6.4: lower where models are shared")
    linear = judged("What noise adds is in proportion to sigma_g^2", slope, within(SLOPE_SPARE), seen_in="variances")
    spent = {noise: float(results.of("epsilon", noise=noise, clip=CLIP)[0]) for noise in NOISY}
    told = f"epsilon {spent['updates']:.4g} against {spent['models']:.4g} per record and clip, 1 / mu times as much"
    claim, same = "At one sigma_g noise on updates is as private as noise on models", "(2.69): one bound for both"
    private = fact(claim, spent["updates"] <= spent["models"] * (1 + 1e-6), told, same)
    headlines = [
        headline(
            "Noise on updates harms far less than the same noise on models, which asks for a trade-off in mu",
            place="figures 2.6 and 2.7", text="curves without numbers",
            ours=f"MSD in dB: {', '.join(f'{WORDS[noise]} {settled(noise).mean():.1f}' for noise in WORDS)}",
            why="A step carries mu times an update's noise, and all of a model's: hence the distance, the growth "
            f"with mu and the trade-off. It is no gain at equal privacy, where both are the very same noise: {told}.",
            claims=claims, seen_in="steps"),
        headline(
            "Large noise makes the algorithm diverge, sooner where models are shared",
            place="figure 2.7 (c), (d); likewise 2.5 (b) and 3.3 (a)", text="it diverges at lower sigma_g^2",
            ours=f"{figure}; {linear.figure}",
            why="The risks are quadratic: noise enters a linear recursion, w <- M w + b + noise. What it adds to the "
            "MSD is in proportion to its variance, and whether the recursion converges depends on M alone, made of "
            "features and steps. No variance of the noise makes it diverge.",
            claims=[diverges], seen_in="variances")]  # fmt: skip
    y: dict[str, Any] = {"lines": "noise", "words": WORDS, "y": "MSD (dB)", "log_x": True}
    swept = free.where(variance=(0.0, VARIANCE))
    first, text = swept.where(step=STEP), free.where(step=STEP, noise=NOISY)
    figures = [
        curves(first, "learning", "MSD round by round", "As figure 2.6.", "msd", change=decibels, **y),
        dots(swept, "steps", "Settled MSD by mu", "As figure 2.7 (a), (b).", "settled", x="step", **y),
        dots(text, "variances", "Settled MSD by sigma_g^2", "As figure 2.7 (c), (d).", "settled", x="variance", **y),
    ]
    return Judgement([*claims, diverges, linear, private], headlines, figures)


STUDY = Study(
    name="fedavg-private", title="Private federated averaging: noise on models or on updates",
    source="Rizk (2023), sec. 2.6.4, figures 2.6 and 2.7", minutes=2, measure=over(tasks, run, seeds=(20, 6)),
    judge=judge, tabled=("settled",),
    method=f"""
The server calls {COHORT} of {CLIENTS:,} clients in a round; each takes 1 to 10 local steps with mu / E_k on 1 to 10 of
its 50 to 150 samples. rho = {RIDGE:g}; feature covariances have eigenvalues from 0.5 to 1.5, data noise 0.01 to 0.1:
of these ranges the text gives the first only. MSD is (2.73), over the second half of each setting's rounds; steps and
variances are swept one after the other in one run. The clip, {CLIP:g} for a record's gradient of half the loss, is of
the question on privacy alone.""")  # fmt: skip
