"""Study `omd-three-clients`: private exponentiated gradient among three clients (Dissertation, sec. 2.4)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from tacit import objectives
from tacit.algorithms import inverse, mirror_descent
from tacit.core.contract import Mechanism
from tacit.graphs import from_matrix
from tacit.privacy import bounded_laplace, unprotected
from tacit.streams import Batch, Stream, from_function
from tacit_reproduction.dissertation.growth import jackknife
from tacit_reproduction.figures import Figure, curves, dots
from tacit_reproduction.study import Judgement, Study, finished_run, over
from tacit_reproduction.table import Floats, Results, Row
from tacit_reproduction.verdict import Claim, Pair, below, brief, fact, headline, judged, within

CLIENTS, DIMENSIONS, ROUNDS, GAMMA, EPSILON = 3, 5, 50, 0.1, 0.1
WEIGHTS = np.array([[0.2, 0.5, 0.3], [0.2, 0.4, 0.4], [0.8, 0.1, 0.1]])
"""Row i: what client i hears; the text prints the transpose."""
STARTS = {
    "uniform": np.full((CLIENTS, DIMENSIONS), 1 / DIMENSIONS),
    "own": np.array([[0.5, 0, 0, 0.25, 0.25], [0.25, 0.125, 0.125, 0.25, 0.25], [0.2, 0.1, 0.4, 0.2, 0.1]]),
}
"""The text prints [1/5, 1/5, 1/5, 1/5, 2/5] for client 3's uniform start, which is no distribution."""
MEANS = {"uniform": [0.2352, 0.1994, 0.2079, 0.1703, 0.1871], "own": [0.2339, 0.0678, 0.1618, 0.2500, 0.2864]}
"""The text's mean vectors of 50 runs, by start."""
FIRST = {"uniform": [0.1657, 0.1429, 0.1605, 0.2360, 0.2949], "own": [0.3945, 0.0894, 0.1124, 0.1532, 0.2505]}
"""Those of its first run."""
READINGS = {"scaled": "step 11 as printed", "unscaled": "without step 11"}
NOISES = {"none": "no noise", **READINGS}
WORDS = {**NOISES, "uniform": "uniform start", "own": "own starts"}
GONE = 0.01  # a distance has vanished below this share of what it was at the start
RATE, FITTED, POINTS = -0.5, 3, 7  # slope of the text's bound; slopes are of rounds from FITTED on, at POINTS rounds


class Cell(NamedTuple):  # one setting
    noise: str
    start: str


def cells(quick: bool) -> list[Cell]:
    return [Cell(noise, start) for noise in NOISES for start in STARTS]


def stream(seed: int) -> Stream:
    """Labels +-1, features N(y + t/2, 1) brought to length 1."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], (ROUNDS, CLIENTS))
    drift = 0.5 * np.arange(1, ROUNDS + 1)[:, None, None]
    features = y[..., None] + drift + rng.standard_normal((ROUNDS, CLIENTS, DIMENSIONS))
    x = (features / np.linalg.norm(features, axis=-1, keepdims=True)).astype(np.float32)
    labels = y.astype(np.float32)
    return from_function(lambda a, b: Batch(x[a:b], labels[a:b]), agents=CLIENTS, rounds=ROUNDS, name="three clients")


def mechanism(noise: str) -> Mechanism:
    """Return the text's bounded noise with or without the rescaling to [0, 1] of its step 11."""
    if noise == "none":
        return unprotected
    made = bounded_laplace(EPSILON, ROUNDS)
    step_12: Any = lambda noisy, noise: noisy / jnp.linalg.norm(noisy)  # noqa: E731
    return made if noise == "scaled" else made._replace(finish=step_12)


def run(task: tuple[Cell, int, int]) -> dict[str, Any]:
    cell, seeds, first = task
    objective = objectives.logistic(l2=GAMMA)
    run = finished_run(
        mirror_descent(objective, inverse(1.0), mechanism(cell.noise), objectives.entropy()),
        from_matrix(WEIGHTS), stream, rounds=ROUNDS, repeats=seeds, seed=first,
        start=lambda client: STARTS[cell.start][client], record={"models": lambda models: models}, record_every=1,
    )  # fmt: skip
    begun = np.broadcast_to(STARTS[cell.start], (seeds, 1, CLIENTS, DIMENSIONS))
    regret, spent = run.regret(POINTS), run.privacy.summary()
    return {
        "models": np.concatenate([begun, run.recorded["models"]], axis=1),
        "regret": regret.per_agent_round, "rounds": regret.rounds,
        "booked": [spent["epsilon"], spent["delta"]] if cell.noise != "none" else []}  # fmt: skip


def apart(models: Floats) -> Floats:
    """Return (...) the largest distance between two clients, of models (..., clients, d)."""
    pairs = models[..., :, None, :] - models[..., None, :, :]
    return np.asarray(np.linalg.norm(pairs, axis=-1).max(axis=(-1, -2)))


def scatter(vectors: Floats) -> Floats:
    """Return (seeds,) the root mean square of a run's components about the mean of all runs."""
    return np.asarray(np.sqrt(np.square(vectors - vectors.mean(axis=0)).mean(axis=1)))


def judge(results: Results) -> Judgement:
    models = {(n, s): results.of("models", noise=n, start=s) for n in NOISES for s in STARTS}
    ends = {where: found[:, -1].mean(axis=1) for where, found in models.items()}
    theirs = {s: float(np.sqrt(np.square(np.subtract(FIRST[s], MEANS[s])).mean())) for s in STARTS}
    agree = {
        noise: judged(
            f"All clients reach one vector, {words}: they end within {GONE:g} of the distance of their own starts",
            [Pair(WORDS[start], apart(models[noise, start][:, -1]) / apart(STARTS["own"])) for start in STARTS],
            below(GONE), seen_in="components",
            text="figures 2.1 and 2.2: every component of every client goes to that of one vector")
        for noise, words in READINGS.items()}  # fmt: skip
    differ = {
        noise: judged(
            f"That vector differs from run to run as much as the text's do, {words}: within a factor of 2",
            [Pair(WORDS[s], np.log2(scatter(ends[noise, s]) + 1e-12), np.log2(theirs[s])) for s in STARTS],
            within(1.0), unit=" (log2)", seen_in="vectors",
            text="section 2.4: the vector varies with each iteration; the first run's is off the mean of 50 by "
            f"{theirs['uniform']:.2f} and {theirs['own']:.2f} per component (root mean square; uniform, own starts)")
        for noise, words in READINGS.items()}  # fmt: skip
    same, rate = _same(models), _rate(results)
    epsilon, delta = results.of("booked", noise="scaled", start="own")
    private = fact(
        "Algorithm 3 is eps-locally private, without any delta",
        bool(delta == 0 and epsilon <= EPSILON * (1 + 1e-9)),
        f"booked: epsilon {epsilon:.4g}, delta {delta:.2g} for one component of a gradient; noise of bounded support "
        "cannot hide values near its ends", "Theorem 2")  # fmt: skip
    means = {where: f"[{' '.join(f'{x:.3f}' for x in found.mean(axis=0))}]" for where, found in ends.items()}
    spread = ", ".join(f"{brief(scatter(ends[n, 'uniform']).mean(), 2)} {words}" for n, words in READINGS.items())
    headlines = [
        headline(
            "All three clients reach one vector, and another one in each run", place="figures 2.1 and 2.2",
            text=f"uniform start: first run {FIRST['uniform']}, mean of 50 {MEANS['uniform']}",
            ours=f"uniform start, mean {means['scaled', 'uniform']}, without step 11 {means['unscaled', 'uniform']}; "
            f"scatter of a run per component: {spread}",
            why="The algorithm as printed squeezes what the data and the noise say by 2 b + 1 = 307 (step 11) and "
            "then normalises, so that hardly anything tells components apart, and runs differ by less than the text's "
            "do; the prose normalises only, and what that reading scatters by is beside it.",
            claims=[agree["scaled"]], size=[differ["scaled"]], seen_in="components",
            sweep={words: [agree[noise]] for noise, words in READINGS.items()}),
        headline(
            "The clients reach the same vector regardless of the start", place="section 2.4",
            text=f"mean of 50 from own starts {MEANS['own']}, from the uniform start {MEANS['uniform']}",
            ours=f"from own starts {means['scaled', 'own']}, from the uniform start {means['scaled', 'uniform']}",
            why="The start is remembered, in the text's figures as in ours. The drift of t/2 makes a sample's features "
            "all equal after normalisation, so that every point of the simplex predicts the same and the regulariser "
            f"alone tells points apart; steps of 1/t forget a start like t^(-gamma / d) = t^-{GAMMA / DIMENSIONS:g}.",
            claims=[same], seen_in="vectors"),
        headline(
            "Average regret falls like t^-1/2", place="section 2.4", text="a bound",
            ours=rate.figure, claims=[rate], seen_in="regret",
            why=f"Measured at the text's T = {ROUNDS}, at each round against the vector that was best so far."),
    ]  # fmt: skip
    claims = [*agree.values(), *differ.values(), same, rate, private]
    return Judgement(claims, headlines, _figures(results, models, ends))


def _same(models: Mapping[Any, Floats]) -> Claim:
    def left(noise: str) -> Floats:
        distance = np.linalg.norm(models[noise, "uniform"] - models[noise, "own"], axis=-1).max(axis=-1)
        return np.asarray(distance[:, -1] / distance[:, 0])

    theirs = np.linalg.norm(np.subtract(MEANS["uniform"], MEANS["own"]))
    return judged(
        f"Both starts lead to one vector: less than {GONE:g} of their distance is left",
        [Pair(words, left(noise)) for noise, words in NOISES.items()],
        below(GONE), seen_in="vectors",
        text="section 2.4: the clients converge to the global optimum regardless of the initialization",
        note=f"The start is remembered, in the text's figures as in ours: its own two averages are {theirs:.2f} apart",
    )  # fmt: skip


def _rate(results: Results) -> Claim:
    def slope(noise: str, start: str) -> Floats:
        at, regret = (results.of(name, noise=noise, start=start) for name in ("rounds", "regret"))
        return jackknife(at[at >= FITTED], regret[:, at >= FITTED])

    return judged(
        f"Reg_t / t falls like t^-1/2 or faster up to T = {ROUNDS}",
        [Pair(f"{words}, {WORDS[start]}", slope(n, start), RATE) for n, words in NOISES.items() for start in STARTS],
        below(), seen_in="regret", note="Log-log slopes of the mean",
        text="section 2.4: the bound on Reg_t / t falls like t^-1/2; no regret was measured")  # fmt: skip


def _figures(results: Results, models: Mapping[Any, Floats], ends: Mapping[Any, Floats]) -> list[Figure]:
    clients = Results(
        Row({"component": f"component {k + 1}", "client": f"client {client + 1}"},
            {"value": models["scaled", "own"][:, :, client, k], "rounds": np.arange(ROUNDS + 1.0)})
        for k in range(DIMENSIONS) for client in range(CLIENTS))  # fmt: skip
    shown = {(words, s): ends[n, s] for n, words in READINGS.items() for s in STARTS}
    for whose, found in (("text, mean of 50", MEANS), ("text, first run", FIRST)):
        shown |= {(whose, start): np.array([found[start]]) for start in STARTS}
    vectors = Results(
        Row({"start": WORDS[start], "whose": whose, "component": k + 1}, {"value": values[:, k]})
        for (whose, start), values in shown.items() for k in range(DIMENSIONS))  # fmt: skip
    return [
        curves(clients, "components", "Every component of every client", "As figure 2.2: own starts.", "value",
               lines="client", panels="component", y="component of the model"),
        dots(vectors, "vectors", "Where the clients end", "The text's vectors beside ours.", "value",
             x="component", lines="whose", panels="start", y="component of the model"),
        curves(results, "regret", "Average regret", "The text has a bound and no figure.", "regret",
               lines="noise", panels="start", y="Reg_t / t", log_x=True, log_y=True, words=WORDS)]  # fmt: skip


STUDY = Study(
    name="omd-three-clients", title="Private mirror descent among three clients",
    source="Dissertation, sec. 2.4, figures 2.1 and 2.2", minutes=1, measure=over(cells, run, seeds=(50, 10)),
    judge=judge,
    method=f"""
Exponentiated gradient on the simplex, logistic loss with gamma = {GAMMA:g}, eta = 1/t, T = {ROUNDS}, bounded Laplace
noise of eps = {EPSILON:g}; all settings of a seed meet the same data. The regulariser's gradient joins after the noise.
Open: whether the noisy gradient is brought to [0, 1] before it is normalised. Algorithm 3 does so in step 11, the prose
of section 2.4 does not ("the noisy loss gradient is normalized"): both are run.""")  # fmt: skip
