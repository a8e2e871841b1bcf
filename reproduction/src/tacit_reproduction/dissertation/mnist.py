"""Study `omd-mnist`: a network learnt by ten clients with and without a server (Dissertation, sec. 5.5)."""

import functools
import math
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from tacit import algorithms, objectives
from tacit.core.contract import Mechanism
from tacit.privacy import gaussian, laplace, unprotected
from tacit.privacy.spending import DELTA
from tacit_reproduction.dissertation import mnist_parts as parts
from tacit_reproduction.dissertation.mnist_parts import CLIENTS, COMPONENT, NEIGHBOURS, client_stream, load
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.study import Crew, Judgement, Study, finished_run, over
from tacit_reproduction.table import Results, Row
from tacit_reproduction.verdict import Claim, Pair, above, below, brief, fact, headline, judged, shown, within

MOMENTUM, CITED_CLIP, POINTS = 0.9, 15.0, 5  # momentum and l2 clip of the cited code; points of a curve
PRINTED = {0.1: {"proposed": 93.28, "fedavg": 91.47}, 0.5: {"proposed": 94.01, "fedavg": 92.59}}
"""Test accuracy in per cent, by the text's epsilon."""
MODELS = {"own": "own models after their step", "mixed": "own models after mixing", "mean": "the mean model"}
METHODS = {
    "proposed": "the proposed method", "fedavg": "FedAvg with the same noise",
    "cited 1": "FedAvg of the cited code, E = 1", "cited 5": "FedAvg of the cited code, E = 5"}  # fmt: skip


class Design(NamedTuple):  # size of the network and of a run
    network: dict[str, Any]
    batch: int
    step: float
    communications: int
    test_images: int


DESIGNS = {
    "text": Design({"channels": (32, 64), "hidden": 512}, 128, 0.01, 150, 10_000),
    "small": Design({"channels": (4, 8), "hidden": 64}, 32, 0.05, 150, 2_000),
    "quick": Design({"channels": (2, 4), "hidden": 16}, 24, 0.1, 20, 500),
}


class Cell(NamedTuple):  # one method with one amount of noise; epsilon is infinite where there is none
    design: str
    method: str
    epsilon: float

    @property
    def local(self) -> int:
        """Steps before each communication."""
        return 5 if self.method == "cited 5" else 1

    @property
    def steps(self) -> int:
        """Steps up to the last communication."""
        return self.local * DESIGNS[self.design].communications


def cells(quick: bool) -> list[Cell]:
    """Return all cells: the full form has the text's network on an accelerator alone, and a small one on a CPU."""
    design = "quick" if quick else "small" if jax.default_backend() == "cpu" else "text"
    epsilons, methods = ((0.1,), list(METHODS)[:3]) if quick else ((0.1, 0.5), list(METHODS))
    noisy = [Cell(design, method, epsilon) for method in reversed(methods) for epsilon in epsilons]
    return noisy if quick else [*noisy, *(Cell(design, method, math.inf) for method in ("proposed", "fedavg"))]


def mechanism(cell: Cell, batch: int, held: int) -> Mechanism:
    """Return the text's noise on every component, or the cited code's for a record over the whole run."""
    if math.isinf(cell.epsilon):
        return unprotected
    if cell.method in ("proposed", "fedavg"):
        return laplace(cell.epsilon, COMPONENT.bound, COMPONENT.norm, perturbs="gradient", adjacency="component")
    multiplier = parts.sampled_multiplier(batch / held, cell.steps, cell.epsilon, DELTA)
    # The code counts a record that is added, which moves a sum by C; here one is replaced, which moves it by 2 C.
    return gaussian(multiplier / 2, CITED_CLIP, perturbs="gradient")


def run(task: tuple[Cell, int, int]) -> dict[str, Any]:
    cell, seeds, first = task
    design, images = DESIGNS[cell.design], load()
    objective = objectives.cnn(**design.network)
    stream = functools.cache(functools.partial(client_stream, images, design.batch))
    noise = mechanism(cell, design.batch, int(np.max(stream(first).data_size)))
    constructor = algorithms.dynamic_mirror_descent if cell.method == "proposed" else algorithms.fedavg
    algorithm = constructor(objective, design.step, noise)
    if cell.method.startswith("cited"):
        algorithm = parts.with_momentum(algorithm, design.step, MOMENTUM)
    judge = parts.accuracies(objective, images.test_x[: design.test_images], images.test_y[: design.test_images])
    run = finished_run(
        algorithm, parts.network(cell.method == "proposed", cell.local, cell.steps), stream,
        rounds=cell.steps + 1, repeats=seeds, seed=first, record={"accuracy": judge},
        record_every=cell.steps // POINTS)  # fmt: skip
    found = run.recorded["accuracy"]  # (seeds, points and the step after them, of the models and of their mean)
    measures = {
        "curve": found[:, :-1, 0], "rounds": np.asarray(run.recorded_rounds[:-1]) / cell.local,
        "own": found[:, -1, 0], "mixed": found[:, -2, 0], "mean": found[:, -2, 1],
        "parameters": sum(leaf[0, 0].size for leaf in jax.tree.leaves(run.models)),
        "reads": stream(first).reads(cell.steps).max()}  # fmt: skip
    if cell.method == "proposed" and math.isfinite(cell.epsilon):
        read = (stream(seed).chunk(0, 1) for seed in range(first, first + seeds))
        batches = [jax.tree.map(lambda leaf: np.asarray(leaf[0, 0]), chunk) for chunk in read]
        measures["told"] = parts.told_apart(objective, batches, cell.epsilon, first)
    return measures


def measure(team: Crew, quick: bool, first: int) -> Results:
    """Measure everything, on an accelerator one cell after the other in this process."""
    alone: Crew = team if jax.default_backend() == "cpu" else lambda what, do, tasks: [do(task) for task in tasks]
    return over(cells, run, seeds=(20, 3), facts=lambda quick: {"data": load().description})(alone, quick, first)


def judge(results: Results) -> Judgement:
    epsilons = [e for e in PRINTED if e in results.levels("epsilon")]
    printed = "; ".join(f"{PRINTED[e]['proposed']} % against {PRINTED[e]['fedavg']} % at eps = {e:g}" for e in epsilons)
    said = {"unit": " %", "text": f"section 5.5: {printed}", "seen_in": "accuracy"}
    baselines = [method for method in METHODS if method in results.levels("method") and method != "proposed"]

    def beats(model: str, baseline: str) -> Claim:
        return judged(
            f"The proposed method ({MODELS[model]}) is more accurate than {METHODS[baseline]}",
            [Pair(f"eps = {e:g}", results.of(model, method="proposed", epsilon=e),
                  results.of("mixed", method=baseline, epsilon=e)) for e in epsilons],
            above(), **said)  # fmt: skip

    first = beats("mixed", "fedavg")
    near = judged(
        "Accuracies are within one point of the text's",
        [Pair(f"{METHODS[method]}, eps = {e:g}", results.of("mixed", method=method, epsilon=e), wanted)
         for e in epsilons for method, wanted in PRINTED[e].items()],
        within(1.0), **said)  # fmt: skip
    ladder = sorted(results.levels("epsilon"))
    less = [Pair(f"{METHODS[m]}, eps = {low:g} under {high:g}",
                 *(results.of("mixed", method=m, epsilon=e) for e in (low, high)))
            for m in ("proposed", "fedavg") for low, high in pairwise(ladder)]  # fmt: skip
    noisier = [judged("Less noise, more accuracy", less, below(), **said)] if less else []
    kept, told = _promise(results.where(method="proposed"), epsilons)
    ours = [
        f"eps = {e:g}: proposed (after the step / after mixing / mean model) "
        + " / ".join(shown(results.of(model, method="proposed", epsilon=e)) for model in MODELS)
        + "".join(f", {METHODS[m]} {shown(results.of('mixed', epsilon=e, method=m))}" for m in baselines)
        for e in epsilons
    ]
    headlines = [
        headline(
            "Without a server the proposed method is more accurate than private FedAvg",
            place="section 5.5, figures 5.1 and 5.2", text=printed, ours="; ".join(ours),
            why="With the same noise both take the same steps, with a ring's average against a server's exact one. The "
            "cited code protects a record over the whole run by Gaussian noise, the text's own noise one component of "
            "one gradient in one round: against it two different promises are compared. The text does not say which "
            "models it judges, nor how many local steps E FedAvg takes. A client's own model right after a step on its "
            "three digits has unlearnt others in part, which mixing mends and the mean of all models does not show.",
            claims=[first], size=[near], seen_in="accuracy",
            sweep={f"{MODELS[model]}, {METHODS[m]}": [beats(model, m)] for model in MODELS for m in baselines}),
        headline(
            "The epsilon of the text protects a record", place="section 5.3, Theorem 1",
            text="eps-local differential privacy of the algorithm, eps = 0.1 and 0.5",
            ours=f"{kept.figure}. Test of one release: {told.figure}",
            why="The text's sensitivity is that of one component of one gradient in one round. A record moves all "
            "components at once, and is read again in every pass. The test looks at ONE noisy gradient of the first "
            "round and asks whether one image of the batch was replaced by a white one: under eps it could not be "
            "right more often than e^eps / (1 + e^eps).",
            claims=[told], seen_in="told")]  # fmt: skip
    judged_at = ((row, *model) for row in results.rows for model in MODELS.items())
    moments = Results(Row({**r.factors, "model": words}, {"accuracy": r.measures[m]}) for r, m, words in judged_at)
    words = METHODS | {e: f"eps = {e:g}" for e in epsilons} | {math.inf: "no noise"}
    axes: dict[str, Any] = {"lines": "method", "panels": "epsilon", "y": "test accuracy (%)", "words": words}
    tests = {e: results.of("told", method="proposed", epsilon=e) for e in epsilons}
    allowed = {e: np.full(of.shape, 100 / (1 + math.exp(-e))) for e, of in tests.items()}
    both = {"found": tests, "most that epsilon allows": allowed}
    of_test = Results(Row({"epsilon": e, "what": w}, {"right": of[e]}) for w, of in both.items() for e in epsilons)
    return Judgement([first, near, *noisier, told, kept], headlines, [
        dots(of_test, "told", "What one release tells of one record", "No figure of the text.", "right", x="epsilon",
             lines="what", y="right guesses (%)"),
        curves(results, "accuracy", "Test accuracy", "As figures 5.1 and 5.2: mean of the clients after mixing.",
               "curve", x="communications", **axes),
        dots(moments, "moments", "What is judged", "The same runs, judged at three moments.", "accuracy",
             x="model", **axes)])  # fmt: skip


def _promise(runs: Results, epsilons: list[float]) -> tuple[Claim, Claim]:
    """What the text's epsilon is worth for a record: booked over the run, and by a test of one release."""
    count, reads = (int(runs.of(name, epsilon=epsilons[0])) for name in ("parameters", "reads"))
    booked = {e: parts.record_level(e, count, reads) for e in epsilons}
    worth = [f"eps = {e:g} is a pure {brief(p)}, or {brief(a, 3)} at delta = {DELTA:g}" for e, (p, a) in booked.items()]
    place = "Theorem 1 of section 5.3: eps-local differential privacy, for gradients that differ in one component"
    why = f"{'; '.join(worth)}: a record moves all {count:,} components and is read up to {reads} times"
    kept = fact("The text's epsilon is what is booked for a record", all(e >= booked[e][0] for e in booked), why, place)
    told = judged(
        "One release tells a record no better than the text's epsilon allows",
        [Pair(f"eps = {e:g}", runs.of("told", epsilon=e), 100 / (1 + math.exp(-e))) for e in epsilons],
        below(), unit=" % right", text=place)  # fmt: skip
    return kept, told


def _sized(name: str) -> str:
    """Say how large a design is."""
    d = DESIGNS[name]
    one, two = d.network["channels"]
    hidden = d.network["hidden"]
    return f"{one}-{two}-{hidden} channels and units, batches of {d.batch}, step {d.step:g}, {d.communications} rounds"


STUDY = Study(
    name="omd-mnist", title="Private learning of MNIST without a server", source="Dissertation, sec. 5.5",
    minutes=math.inf, measure=measure, judge=judge, tabled=tuple(MODELS),
    method=f"""
{CLIENTS} clients share MNIST: sorted by digit, cut into 30 equal shards and dealt three to a client, less a tenth. All
runs start from the same weights; seeds differ in shards, order and noise, and all methods meet the same ones. The
text's network ({_sized("text")}) is run on an accelerator alone:
on a CPU the full form has {_sized("small")},
and the quick form {_sized("quick")}.
The proposed method hears its {NEIGHBOURS} nearest on a ring and itself, all with weight 0.2. The text's noise goes on
the mean gradient of the batch, every component of a record's gradient cut to 0.5 in size.

What is judged is open: a client's own model right after a step on its own digits (x of (5.12)), after mixing (y of
(5.13), at which gradients are taken), or the mean of all.

The FedAvg of the cited code has momentum {MOMENTUM:g}, begun anew with every communication, E local steps, records'
gradients clipped to an l2 norm of {CITED_CLIP:g}, and Gaussian noise for (eps, {DELTA:g}) over a whole run by sampled
Renyi accounting. E = 1 and 5 are run; its notebook has 40, with 5 communications. It draws Poisson samples, while
batches are taken in turn here: the noise is the code's, the promise is not booked.""")  # fmt: skip
