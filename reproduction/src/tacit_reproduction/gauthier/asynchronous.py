"""The network of Gauthier (2023), sec. 4.4: 256 clients that are mostly away, data, channel, methods and their steps.

Everything that happens to a client (its data, when it is there, how late its messages are) is drawn from the seed of a
run alone, so that methods which are compared live through the same.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit import algorithms, objectives, streams
from tacit.core.contract import Objective
from tacit.graphs import Channel, Delay, Topology, star_roles
from tacit.streams import Batch
from tacit.streams.arrivals import ArrivalStream
from tacit_reproduction.datasets.calcofi import ARRIVALS, CalcofiStream, calcofi
from tacit_reproduction.figures import Figure, curves
from tacit_reproduction.study import Crew, finished_run
from tacit_reproduction.table import Floats, Results, cells_of, decibels, late
from tacit_reproduction.verdict import Pair

CLIENTS, FEATURES, ROUNDS = 256, 200, 2000
QUICK_CLIENTS, QUICK_ROUNDS = 64, 500
SEEDS = (20, 4)  # of the full and of the quick form
BOTTLES, TEST_SAMPLES = 80_000, 4000
POINTS = 100  # places on a learning curve
STEP = 0.4  # PAO-Fed's, in the text
INITIAL = 0.1  # share of the rounds in which methods shall fall alike, and after which an error is called early
STEADY = 0.1  # share of the rounds, the last, over which a steady error is averaged
GRID = (0.035, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.56, 0.8)
SIGN_GRID = (0.001, 0.002, 0.004, 0.008, 0.016, 0.03)  # steps among which one is looked for that starts alike
MATCHING_FROM, MATCHING_SEEDS = 500, 4
"""First seed on which steps are matched, counted from the first that is judged, and their number."""
BANDWIDTHS = {"synthetic": 2.0}
"""Of the kernel, which the text does not say: of 0.5, 1, 2 and 4 it has the lowest least-squares error on pooled data;
that of both forms of CalCOFI is 1."""
DEALT = 7  # stream of the random numbers that deal bottles out; other uses of a seed have other numbers
SGD, FED, PSO, SIGN = "Online-FedSGD", "Online-Fed 2 %", "PSO-Fed", "SignSGD"
AS_GOOD_AS_SGD = f"PAO-Fed is at least as good as {SGD} with 98 % less communication; on CalCOFI C2 is the best of all"
VARIANTS = ("C0", "U0", "C1", "U1", "C2", "U2")
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{variant: ("pao_fed", {"variant": variant}) for variant in VARIANTS},
    **{f"{v}, m = {m}": ("pao_fed", {"variant": v, "share": m}) for v in ("U1", "C2") for m in (1, 32)},
    **{f"{v}, full download": ("pao_fed", {"variant": v, "download": "all"}) for v in ("U1", "C2")},
    SGD: ("online_fedsgd", {}),
    **{f"Online-Fed {100 * share:g} %": ("online_fed", {"fraction": share}) for share in (0.02, 0.1, 0.5)},
    PSO: ("pso_fed", {"fraction": 0.25, "share": 16}), SIGN: ("sign_sgd", {})}  # fmt: skip
USUAL = (0.25, 0.1, 0.025, 0.005)


class Environment(NamedTuple):  # properties of clients and channel
    availability: tuple[float, ...] = USUAL
    """Of the four groups of clients, which are spread evenly over the groups by data."""
    delay: float = 0.2
    longest: int = 10
    step: int = 1  # delays come in multiples of it

    @property
    def channel(self) -> Channel:
        """Updates may come late; what the server says comes at once, as in the text."""
        delay = Delay(self.delay, self.longest, self.step)
        return Channel(delay=delay, links=("uplink",)) if self.delay else Channel()


HARSH = Environment((0.025, 0.01, 0.0025, 0.0005), delay=0.4, longest=60, step=10)
ENVIRONMENTS = {
    "usual": Environment(), "ideal": Environment((1.0,), 0.0, 0),
    "common delays": Environment(delay=0.8, longest=5), "harsh": HARSH,
    "harsh, on time": HARSH._replace(delay=0.0)}  # fmt: skip


class Cell(NamedTuple):  # one method in one environment; its fields are the table's factors
    method: str
    environment: str = "usual"
    step: float = STEP
    rule: str = "text"
    """Where the step is from: the text, "matched" to how PAO-Fed starts, "near" the bound, or "swept"."""
    data: str = "synthetic"  # or "by place" or "dealt", of CalCOFI
    clients: int = CLIENTS
    rounds: int = ROUNDS

    @property
    def of_data(self) -> tuple[str, int, int]:
        """What its data depend on."""
        return self.data, self.clients, self.rounds

    def sized(self, quick: bool) -> "Cell":
        """Return the cell at the size of a form."""
        return self._replace(clients=QUICK_CLIENTS, rounds=QUICK_ROUNDS) if quick else self


class DealtStream(ArrivalStream):
    """A CalCOFI stream whose clients are alike: bottles are dealt out by chance, unevenly and at the same times."""

    def __init__(self, by_place: CalcofiStream, seed: int) -> None:
        rounds = int(by_place.rounds or 0)
        held = by_place.chunk(0, rounds)
        theirs = np.swapaxes(held.weight, 0, 1) > 0
        x, y = np.swapaxes(held.x, 0, 1)[theirs], np.swapaxes(held.y, 0, 1)[theirs]
        order = np.random.default_rng([seed, DEALT]).permutation(len(y))
        sizes, rng = np.asarray(by_place.data_size, np.int64), np.random.default_rng([seed, ARRIVALS])
        words = {"name": "calcofi-dealt", "description": f"{by_place.description}, dealt by chance"}
        super().__init__(x[order], y[order], sizes, rounds, rng, **words)
        self.test = by_place.test  # bottles that no client holds


@functools.lru_cache(maxsize=64)
def stream(data: str, clients: int, rounds: int, seed: int) -> Any:
    """Return the data of one seed; for other sizes of a run than the text's those of the groups go along."""
    if data == "synthetic":
        samples = tuple(size * rounds // ROUNDS for size in (500, 1000, 1500, 2000))
        return streams.autoregressive(clients, samples=samples, rounds=rounds, seed=seed)
    bottles = BOTTLES * clients * rounds // (CLIENTS * ROUNDS)
    by_place = calcofi(clients, rounds=rounds, seed=seed, samples=bottles)
    return DealtStream(by_place, seed) if data == "dealt" else by_place


def objective(data: str) -> Objective:
    return objectives.fourier(count=FEATURES, bandwidth=BANDWIDTHS.get(data, 1.0), seed=0)


def network(cell: Cell) -> Callable[[int], Topology]:
    """Return who is there: every group by availability has clients of every group by data."""
    groups = np.asarray(ENVIRONMENTS[cell.environment].availability)
    chances = groups[(np.arange(cell.clients) // 4) % groups.size]

    def of_seed(seed: int) -> Topology:
        arrivals = stream(*cell.of_data, seed).arrivals
        return star_roles(cell.clients).available("client", chances, arrivals)

    return of_seed


def run(task: tuple[Cell, int, int]) -> dict[str, Any]:
    """Run a method with so many seeds and test the server's model on the way, each seed on its own test set."""
    cell, seeds, first = task
    name, settings = METHODS[cell.method]
    found = finished_run(
        algorithms.find(name).constructor(objective(cell.data), **settings, step=cell.step),
        network(cell),
        functools.partial(stream, *cell.of_data),
        rounds=cell.rounds,
        repeats=seeds,
        seed=first,
        channel=ENVIRONMENTS[cell.environment].channel,
        record={"w": lambda models: models[0]},  # one server: all clients have its model
        record_every=max(1, cell.rounds // POINTS),
    )
    models = found.recorded["w"].astype(np.float64)
    mse = np.stack([_test_errors(cell, seed, models[r]) for r, seed in enumerate(range(first, first + seeds))])
    up, down = found.traffic["uplink"], found.traffic["downlink"]
    return {
        "rounds": found.recorded_rounds, "mse": mse, "steady": decibels(late(mse, STEADY)),
        "early": decibels(mse[:, int(np.searchsorted(found.recorded_rounds, INITIAL * cell.rounds))]),
        "bits": np.array([up.bits.mean() + down.bits.mean()]) / cell.clients,
        "messages": np.array([up.messages.mean()])}  # fmt: skip


def _test_errors(cell: Cell, seed: int, models: Floats) -> Floats:
    """Return the test error of models (points, d): on fresh samples of a seed's clients, or bottles that none has."""
    test: Batch = stream(*cell.of_data, seed).test(TEST_SAMPLES)
    kernel = objectives.FourierFeatures(FEATURES, BANDWIDTHS.get(cell.data, 1.0), 0)
    features = np.asarray(kernel(test.x), np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # of a model that has diverged
        return np.asarray(np.mean((models @ features.T - np.asarray(test.y)) ** 2, axis=1))


def measured(
    cells: Callable[[bool, int], Sequence[Cell]], rivals: Callable[[bool], Sequence[Cell]] = lambda quick: ()
) -> Callable[[Crew, bool, int], Results]:
    """Return a `Study.measure` of cells at steps that are known, by (quick, first seed), and of rivals, by quick.

    Each rival first gets the step with which it starts like PAO-Fed, by the first tenth of the rounds on seeds of their
    own; the quick form takes their steps as they are.
    """

    def measure(team: Crew, quick: bool, first: int) -> Results:
        wanted = [cell.sized(quick) for cell in cells(quick, first)]
        alike = [cell._replace(rule="matched").sized(quick) for cell in rivals(quick)]
        if not quick:
            alike = _matched(team, alike, first + MATCHING_FROM)
        everything = sorted((*wanted, *alike), key=lambda cell: cell.rounds, reverse=True)
        found = team("running", run, [(cell, SEEDS[quick], first) for cell in everything])
        held = stream(*everything[0].of_data, first)
        return cells_of(everything, found, {"data": f"{held.description}; {SEEDS[quick]} seeds"})

    return measure


def _matched(team: Crew, rivals: Sequence[Cell], first: int) -> list[Cell]:
    short = [cell._replace(rounds=int(INITIAL * cell.rounds)) for cell in rivals]
    tried = [cell._replace(step=step) for cell in short for step in (SIGN_GRID if cell.method == SIGN else GRID)]
    models = list(dict.fromkeys(_model(cell) for cell in short))
    curves = team("matching steps", run, [(cell, MATCHING_SEEDS, first) for cell in (*models, *tried)])
    level = {cell: decibels(found["mse"]).mean(axis=0) for cell, found in zip((*models, *tried), curves, strict=True)}

    def off(cell: Cell) -> float:
        gap = float(np.sum((level[cell] - level[_model(cell)]) ** 2))
        return gap if np.isfinite(gap) else np.inf

    best = [min((c for c in tried if c._replace(step=cell.step) == cell), key=off).step for cell in short]
    return [cell._replace(step=step) for cell, step in zip(rivals, best, strict=True)]


def _model(cell: Cell) -> Cell:
    """Return whom a rival shall start like: U1, or C2 among ideal clients."""
    return cell._replace(method="C2" if cell.environment == "ideal" else "U1", step=STEP, rule="text")


def factors(name: str) -> dict[str, str]:
    """Return the factors of a cell: "C2" in the usual environment, "C2@harsh" in another; others' steps are matched."""
    method, _, environment = name.partition("@")
    rule = "text" if method.partition(",")[0] in VARIANTS else "matched"
    return {"method": method, "environment": environment or "usual", "rule": rule}


def apart(results: Results, *links: str) -> list[Pair]:
    """Compare steady errors in dB: of "U1 - C2@harsh" the first is of U1 in the usual environment."""
    found = []
    for link in links:
        names = link.split(" - ")
        first, second = (results.of("steady", **factors(name)) for name in names)
        found.append(Pair(" against ".join(name.partition("@")[0] for name in names), first, second))
    return found


def learning_curves(results: Results, name: str, title: str, said: str, lines: Any = "method", **look: Any) -> Figure:
    look |= {"x": "iteration n", "y": "test MSE (dB)", "change": decibels}
    return curves(results, name, title, said, "mse", lines=lines, **look)


def setting(data: str = "") -> str:
    return f"""
{CLIENTS} clients of four groups with new data in 25, 50, 75 and 100 % of {ROUNDS:,} iterations; those of four other
groups, spread over the first, are there with chance {", ".join(map(str, USUAL))} when they have. An update is l
iterations late or later with chance 0.2^l and lost beyond 10. Each seed has its own clients, data, absences and delays,
which all methods share. {FEATURES} random Fourier features of a Gaussian kernel, whose bandwidth
({BANDWIDTHS.get(data or "synthetic", 1.0):g}) the text does not give: of 0.5, 1, 2 and 4 it has the lowest
least-squares error on pooled data. Errors are the server's on {TEST_SAMPLES:,} fresh samples; steady: mean of the last
tenth of the iterations. The quick form has {QUICK_CLIENTS} clients, {QUICK_ROUNDS} iterations and known steps."""
