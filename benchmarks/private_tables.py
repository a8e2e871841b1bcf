"""Real tables under privacy: what ten owners learn together, alone, without noise, and what their pooled rows give.

The estimator `tacit.interop.PeerClassifier` says scaling, plan and method from epsilon alone; all seeds of a cell are
then simulated side by side. Rows are shared out at random, and sets without a test file are split for each seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
OWNERS, DELTA, TEST_ROWS = 10, 1e-6, 20_000
TUNING_SEED = 100
SIGNS = (-1.0, 1.0)
OPEN = (4.0, 16.0)
"""Steps without noise that are tried."""
STEPS = (0.25, 0.5, 1.0, 2.0)
"""Steps of the pooled model that are tried, in units of what a plan for one owner of all rows says."""
BATCHES, PASSES, BANDS = 100, 10, 64
"""Of the pooled model; its noise is that of the square root of the matrix of ones, cut off after so many bands."""
INDEPENDENT = 10
"""Batches of a pass with independent noise: fewer and larger, since its noise falls with the root of a batch."""


class Source(NamedTuple):
    """A table: rows, labels -1 and +1, and as many for tests; without those a fifth is held out by seed."""

    x: Floats
    y: Floats
    test_x: Floats | None = None
    test_y: Floats | None = None
    bounds: tuple[float, float] | None = None
    """Of all columns, where they are public."""


class Cell(NamedTuple):
    """One seed's rows as they are learnt from."""

    rows: Floats
    y: Floats
    owner: NDArray[np.int64]
    test_rows: Floats
    test_y: Floats


def libsvm(file: str, features: int) -> tuple[Floats, Floats]:
    """Read a file of the data folder; FileNotFoundError where there is none."""
    from sklearn.datasets import load_svmlight_file

    from tacit_reproduction.datasets import fetch

    found = fetch.find(file)
    if found is None:
        raise FileNotFoundError(file)
    x, y = load_svmlight_file(str(found), n_features=features)
    return x.toarray().astype(np.float32), np.where(y > 0, 1.0, -1.0)


def _parts(data: Any, test: str) -> tuple[Floats, Floats, Floats, Floats]:
    train, held = data.parts["train"], data.parts[test]
    return data.x[train], data.y[train], data.x[held][:TEST_ROWS], data.y[held][:TEST_ROWS]


def _a9a() -> Source:
    return Source(*libsvm("libsvm_binary/a9a.bz2", 123), *libsvm("libsvm_binary/a9a.t.bz2", 123), SIGNS)


def _ijcnn1() -> Source:
    from tacit_reproduction.datasets.ijcnn1 import ijcnn1

    return Source(*_parts(ijcnn1(), "test"), SIGNS)


def _occupancy() -> Source:
    from tacit_reproduction.datasets.occupancy import occupancy

    return Source(*_parts(occupancy(), "test2"))


def _susy() -> Source:
    from tacit_reproduction.datasets.susy import susy

    data = susy()
    return Source(data.x, data.y)


def _made() -> Source:
    """A table that needs no file."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 3))
    return Source(x, np.sign(x[:, 0] + 0.1), bounds=SIGNS)


SOURCES: dict[str, Callable[[], Source]] = {
    "a9a": _a9a,
    "w8a": lambda: Source(*libsvm("libsvm_binary/w8a.bz2", 300), bounds=SIGNS),
    "phishing": lambda: Source(*libsvm("libsvm_binary/phishing.bz2", 68), bounds=SIGNS),
    "ijcnn1": _ijcnn1,
    "occupancy": _occupancy,
    "susy": _susy,
    "made": _made,
}


@cache
def source(name: str) -> Source:
    return SOURCES[name]()


def estimator(name: str, epsilon: float, seed: int) -> Any:
    """Return the estimator as a user makes it: epsilon and delta alone, and bounds where they are public."""
    from tacit.interop import PeerClassifier

    return PeerClassifier(epsilon=epsilon, delta=DELTA, bounds=source(name).bounds, random_state=seed)


def split(name: str, seed: int) -> tuple[Floats, Floats, NDArray[np.int64], Floats, Floats]:
    """Return rows, labels, owners and the held-out rows and labels of a seed."""
    table, rng = source(name), np.random.default_rng(seed)
    order = rng.permutation(len(table.y))
    if table.test_x is not None and table.test_y is not None:
        x, y, test_x, test_y = table.x[order], table.y[order], table.test_x, table.test_y
    else:
        held, kept = order[: len(order) // 5], order[len(order) // 5 :]
        x, y, test_x, test_y = table.x[kept], table.y[kept], table.x[held], table.y[held]
    return x, y, rng.permutation(len(y)) % OWNERS, test_x, test_y


def prepared(name: str, epsilon: float, seed: int) -> tuple[Cell, Any]:
    """Scale a seed's rows as `fit` does, and return them with the plan."""
    x, y, owner, test_x, test_y = split(name, seed)
    model = estimator(name, epsilon, seed)
    model.task_, model.outputs_, model.owners_ = "binary", 2, np.arange(OWNERS)
    model._scaling = model._find_scaling(x.astype(np.float64), y, owner)
    cell = Cell(model._prepared(x.astype(np.float64)), (y > 0).astype(int), owner, model._prepared(test_x), test_y)
    return cell, model._plan(cell.rows.shape[1], owner)


def scores(models: Floats, cell: Cell) -> tuple[float, float]:
    """Return accuracy and balanced accuracy on held-out rows, the mean over models (models, columns)."""
    right = np.where(cell.test_rows @ models.T > 0, 1.0, -1.0) == cell.test_y[:, None]
    each = [right[cell.test_y == sign].mean() for sign in SIGNS]
    return float(right.mean()), float(np.mean(each))


def together(cells: list[Cell], plan: Any, noisy: bool, alone: bool = False, seed: int = 0) -> Floats:
    """Simulate a plan for all seeds at once and return (seeds, 2) scores: of the mean model, or of owners alone."""
    import tacit
    from tacit.interop.owners import in_passes
    from tacit.interop.peer_estimator import OUT_DEGREE

    def stream(of: int) -> Any:
        cell = cells[of - seed]
        return in_passes(cell.rows, cell.y, cell.owner, "binary", of, batch=plan.batch)

    mechanism = {"mechanism": plan.mechanism()} if noisy else {}
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=plan.step, **mechanism)
    method = tacit.algorithms.averaged(method, "tail", share=plan.tail)
    run = tacit.simulate(
        tacit.experiments.alone(method) if alone else method,
        lambda of: tacit.graphs.random_digraph(OWNERS, OUT_DEGREE, of),
        stream,
        rounds=plan.rounds,
        repeats=len(cells),
        seed=seed,
        record_every=plan.rounds,
        progress=False,
    )
    models = np.asarray(run.models)
    return np.array(
        [scores(own if alone else own.mean(0)[None], cell) for own, cell in zip(models, cells, strict=True)]
    )


def pooled(cells: list[Cell], rho: float, step: float, seed: int = 0) -> Floats | None:
    """Logistic regression on all rows of all owners by jax-privacy, with its own noise and clipping, at the same rho.

    A hundred batches a pass, ten passes, the mean of the later half of models. None where it is not installed.
    """
    size, columns = len(cells[0].y) // BATCHES, cells[0].rows.shape[1]
    try:
        fitted, per_rho = _pooled_program(size, columns)
    except ImportError:
        return None
    import jax

    found = []
    for number, cell in enumerate(cells):
        rows = cell.rows[: size * BATCHES].reshape(BATCHES, size, columns)
        sign = (2.0 * cell.y[: size * BATCHES] - 1).astype(np.float32).reshape(BATCHES, size)
        model = fitted(rows, sign, jax.random.key(seed + number), step, per_rho / math.sqrt(2 * rho))
        found.append(scores(np.asarray(model)[None], cell))
    return np.array(found)


@cache
def _pooled_program(size: int, columns: int) -> tuple[Callable[..., Any], float]:
    """Return the training as a compiled function, and how far a record moves all batches in the strategy's norm."""
    import jax
    import jax.numpy as jnp
    from jax_privacy import clipping, noise_addition
    from jax_privacy.matrix_factorization import toeplitz

    rounds = BATCHES * PASSES
    column = toeplitz.optimal_max_error_strategy_coefs(rounds)[:BANDS]
    norm = math.sqrt(float(toeplitz.minsep_sensitivity_squared(column, BATCHES, PASSES, rounds)))
    matrix = toeplitz.inverse_as_streaming_matrix(column)

    def loss(model: Any, rows: Any, sign: Any) -> Any:
        return jnp.mean(jnp.logaddexp(0, -sign * (rows @ model)))

    gradient = clipping.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2))

    @jax.jit
    def fitted(rows: Any, sign: Any, key: Any, step: float, deviation: float) -> Any:
        noise = noise_addition.matrix_factorization_privatizer(matrix, stddev=deviation, prng_key=key)

        def advance(carry: Any, t: Any) -> tuple[Any, None]:
            model, state, total = carry
            noisy, state = noise.update(gradient(model, rows[t % BATCHES], sign[t % BATCHES]), state)
            model = model - step * noisy / size
            return (model, state, total + jnp.where(t >= rounds // 2, model, 0)), None

        start = jnp.zeros(columns)
        last, _ = jax.lax.scan(advance, (start, noise.init(start), start), jnp.arange(rounds))
        return last[2] / (rounds - rounds // 2)

    return fitted, 2 * norm * float(gradient.sensitivity())  # one record is replaced, not left out


def pooled_step(tuning: Cell, rho: float, likely: float) -> float:
    """Return the best step of the pooled model on another seed."""
    trials = {factor * likely: pooled([tuning], rho, factor * likely, TUNING_SEED) for factor in STEPS}
    return max(trials, key=lambda step: -1 if trials[step] is None else float(trials[step][0, 0]))


def measure(name: str, epsilons: tuple[float, ...], seeds: int) -> dict[str, Any]:
    """Return all columns of a set: epsilon -> column -> (seeds, 2) accuracy and balanced accuracy."""
    from tacit.privacy.planning import plan as planned

    tuning, first = prepared(name, epsilons[0], TUNING_SEED)
    records = first.records
    found: dict[str, Any] = {"records": records, "features": first.features, "at": {}}
    quiet = None
    for epsilon in epsilons:
        both = [prepared(name, epsilon, seed) for seed in range(seeds)]
        cells, plan = [cell for cell, _ in both], both[0][1]
        given: dict[str, Any] = {"epsilon": plan.epsilon, "delta": DELTA, "features": plan.features}
        size = math.ceil(records / INDEPENDENT)
        plain = planned(records, **given, owners=OWNERS, batch=size, strategy="independent")
        likely = planned(records * OWNERS, **given).step
        step = pooled_step(tuning, plan.rho, likely)
        quieter = pooled_step(tuning, plan.rho / OWNERS, likely)
        if quiet is None:
            open_steps = {step: together([tuning], replace(plan, step=step), False, seed=TUNING_SEED) for step in OPEN}
            best = max(OPEN, key=lambda step: float(open_steps[step][0, 0]))
            quiet = together(cells, replace(plan, step=best), False)
        majority = [np.mean(cell.test_y == (1 if cell.y.mean() > 0.5 else -1)) for cell in cells]
        columns = {
            "constant": np.stack([majority, np.full(seeds, 0.5)], axis=1),
            "alone, private": together(cells, planned(records, **given), True, alone=True),
            "independent noise": together(cells, plain, True),
            "together, private": together(cells, plan, True),
            "without noise": quiet,
            "pooled, private": pooled(cells, plan.rho, step),
            "pooled, noise of ten": pooled(cells, plan.rho / OWNERS, quieter),
        }
        found["at"][str(epsilon)] = {
            "plan": plan.words(),
            "pooled step": step,
            "columns": {title: None if each is None else each.tolist() for title, each in columns.items()},
        }
    x, y, owner, test_x, test_y = split(name, 0)
    fit = estimator(name, epsilons[0], 0).fit(x, y, owner=owner, classes=[-1, 1])
    found["fit of seed 0"] = float(np.mean(fit.predict(test_x) == test_y))
    return found


def interval(values: Any) -> tuple[float, float]:
    """Return mean and half-width of the 95 % interval over seeds."""
    from scipy.stats import t

    each = np.asarray(values, np.float64)
    width = t.ppf(0.975, len(each) - 1) * each.std(ddof=1) / math.sqrt(len(each)) if len(each) > 1 else math.nan
    return float(each.mean()), float(width)


def missed(name: str, epsilon: float, found: dict[str, Any]) -> list[str]:
    """Return the goals that a set misses."""
    columns = found["at"][str(epsilon)]["columns"]
    mean = {title: interval(np.asarray(each)[:, 0])[0] for title, each in columns.items() if each is not None}
    ours, where, faults = mean["together, private"], f"{name}, epsilon {epsilon:g}", []
    if ours <= mean["alone, private"]:
        faults.append(f"{where}: {ours:.3f} is not above alone, {mean['alone, private']:.3f}")
    room = 0.02 if epsilon >= 2 else 0.03
    if found["records"] >= 2000 and ours < mean["without noise"] - room:
        faults.append(f"{where}: {ours:.3f} is more than {room:g} below no noise, {mean['without noise']:.3f}")
    if "pooled, private" in mean and ours < mean["pooled, private"] - 0.01:
        faults.append(f"{where}: {ours:.3f} is more than 0.01 below pooled, {mean['pooled, private']:.3f}")
    return faults
