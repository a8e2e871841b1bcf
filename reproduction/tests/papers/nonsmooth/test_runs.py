"""Noise by totals, methods by settings, errors by hand, and one real run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from reproduction.tests.analysis.test_classic import view
from tacit.core.contract import Clip, Extent
from tacit.privacy.conversions import tight
from tacit.privacy.mechanisms import classic_multiplier
from tacit.privacy.planning import total_rho
from tacit_reproduction.analysis.classic import classic_total
from tacit_reproduction.nonsmooth import runs, search
from tacit_reproduction.nonsmooth.problems import PROBLEMS, data, excess, optimum
from tacit_reproduction.nonsmooth.runs import AVERAGED, Cell, Outcome, Setting, algorithm, mechanism
from tacit_reproduction.nonsmooth.search import MATCHED, Design, gather

SETTING = Setting(0.4, 1.6)


def noise_ratio(cell: Cell, t: int) -> float:
    ratio = mechanism(cell).ratio_in(t)
    assert ratio is not None
    return 1 / ratio


def test_all_methods_spend_the_same_total_each_by_its_own_rule() -> None:
    for method in ("zCDP-NFL", "zCDP-grad-NFL", MATCHED, "P-ADMM"):
        first = noise_ratio(Cell("ridge", method, SETTING, 4.0, 1.5), 1)
        assert tight(total_rho(1 / (2 * first**2), 200, 0.99), 1e-5) == pytest.approx(4.0, rel=1e-6)
    classic = Cell("ridge", "DP-NFL", SETTING, 4.0, 1.5)
    epsilon = classic_multiplier(0.5, 1e-5 / 200) * 0.5 / noise_ratio(classic, 1)
    assert classic_total(epsilon, 1e-5 / 200, 200, 0.99) == pytest.approx((4.0, 1e-5), rel=1e-6)
    for cell in (classic, classic._replace(method="zCDP-NFL")):
        assert noise_ratio(cell, 3) == pytest.approx(0.99 * noise_ratio(cell, 1), rel=1e-6)
        assert mechanism(cell).clip == Clip(1.5, "l2")
    quiet = mechanism(classic._replace(total=None))
    assert quiet.distribution is None
    assert quiet.clip == Clip(1.5, "l2")
    assert mechanism(Cell("lad", "zCDP-NFL", SETTING, None, None)).clip is None


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("zCDP-NFL", "zcdp_admm"),
        ("DP-NFL", "dp_admm"),
        ("zCDP-grad-NFL", "zcdp_subgradient"),
        (MATCHED, "zcdp_subgradient"),
        ("P-ADMM", "private_admm"),
    ],
)
def test_methods_are_those_of_the_package(method: Any, name: str) -> None:
    made = algorithm(Cell("ridge", method, SETTING, 4.0, 1.5))
    assert made.name == name
    with jax.enable_x64(True):  # in single precision P-ADMM books a hundredth more, for rounding
        sensitivity = made.phases[0].mechanism.noise(view(4), Extent(coordinates=8, records=50))
    degree = 1
    reach = {  # of a unit gradient, at round 4 of an agent with one neighbour
        "zCDP-NFL": 1 / (2 / 0.4 + 2 * 1.6 * degree),
        "DP-NFL": 1 / (2 / 0.4 + 2 * 1.6 * degree),
        "zCDP-grad-NFL": 0.4 / 2,
        MATCHED: 0.4,
        "P-ADMM": 1.001 / (2 * 1.6 * degree + 1 / 50),
    }[method]
    assert float(sensitivity.sensitivity) == pytest.approx(reach * 2 * 1.5 / 50, rel=1e-5)


def test_errors_are_sums_over_nodes_and_averages_are_of_all_rounds() -> None:
    problem, drawn = PROBLEMS["elastic-net"], data(4)
    best = optimum(problem, drawn)
    models = np.broadcast_to(best, (1, 200, 50, 8)).copy()
    models[0, :100, :25, 0] += 0.3
    models[0, -1, :25, 0] += 0.3
    models[0, -1, 25:, 0] -= 0.1
    run: Any = SimpleNamespace(
        recorded={"models": models, "residual": np.array([[1.0, 3.0]])},
        seed=4,
        repeats=1,
        recorded_rounds=np.arange(1, 201),
        privacy=None,
    )
    found = runs._outcome(run, "elastic-net", AVERAGED)
    size = best @ best
    assert found.error[0, 0] == pytest.approx(25 * 0.09 / size)
    assert found.error[0, 150] == pytest.approx(0, abs=1e-20)
    assert found.final[0] == pytest.approx((25 * 0.09 + 25 * 0.01) / size)
    assert found.apart[0] == pytest.approx(50 * 0.04 / size)
    assert found.early == pytest.approx(np.log(25 * 0.09 / size))
    assert found.residual == 3
    moved = best + np.eye(8)[0] * (100 * 0.3 + 0.3) / 200
    lowered = best - np.eye(8)[0] * 0.1 / 200
    assert found.excess is not None
    expected = excess(problem, drawn, np.stack([moved, lowered]), best).mean()
    assert found.excess[0, -1] == pytest.approx(expected, rel=1e-6)
    first = excess(problem, drawn, np.stack([best + np.eye(8)[0] * 0.3, best]), best).mean()
    assert found.excess[0, 0] == pytest.approx(first, rel=1e-6)
    assert found.excess.shape == (1, len(AVERAGED))
    assert runs._outcome(run, "elastic-net").excess is None


@pytest.mark.slow
def test_a_real_run_learns_and_spends_its_total() -> None:
    """One seed of each method's own kind: the error falls by 10 dB, and the total is what was planned."""
    found = runs.run_cell((Cell("lad", "zCDP-NFL", Setting(0.4, 6.4), 16.0, 3.9), 1, 0))
    assert found.rounds.tolist() == list(range(1, 201))
    assert found.final[0] < 0.1 * found.error[0, 0]
    assert found.excess is not None
    assert np.all(found.excess > 0)
    assert found.privacy.guarantee is not None
    assert found.privacy.guarantee.epsilon == pytest.approx(16.0, rel=1e-5)
    assert found.residual == 0


def test_mixing_like_zcdp_nfl_has_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[Any] = []
    monkeypatch.setattr(runs, "_run", lambda *_, network, **__: graphs.append(network(0)))
    monkeypatch.setattr(runs, "_outcome", lambda run, problem: None)
    runs.run_mixed((Cell("lad", "zCDP-grad-NFL", Setting(0.2, np.nan), 4.0, 3.9), Setting(0.4, 6.4), 1, 0))
    (graph,) = graphs
    degree = np.bincount(graph.receivers, minlength=50)
    for t in (1, 2, 200):
        matrix = graph.matrix(t).todense()
        assert matrix.sum(axis=1) == pytest.approx(1)
        own = 1 - 6.4 * degree / (np.sqrt(t) / 0.4 + 2 * 6.4 * degree)
        assert np.diag(matrix) == pytest.approx(own)
        assert matrix[graph.receivers, graph.senders] == pytest.approx(((1 - own) / degree)[graph.receivers])


def stub(cell: Cell, seeds: int = 1, first: int = 0) -> Outcome:
    """Errors with a valley in what is tuned: deepest at rho = 1.6 and a step of 0.4 (or a penalty of 3.2)."""
    step, penalty = cell.setting
    value = penalty if cell.method == "P-ADMM" else step
    depth = np.log2(value / (3.2 if cell.method == "P-ADMM" else 0.4 * (cell.total or 4.0) / 4.0)) ** 2
    if cell.method in ("zCDP-NFL", "DP-NFL"):
        depth += np.log2(penalty / 1.6) ** 2
    error = np.full((seeds, 2), np.exp(depth))
    error[:, 0] = np.exp(-value)
    privacy: Any = None
    return Outcome(np.array([20, 200]), error, np.zeros(seeds), None, privacy, 0.0)


def test_every_method_is_tuned_by_one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def tuning(cell: Cell, seeds: int, first: int) -> Outcome:
        asked.append((seeds, first))
        return stub(cell)

    monkeypatch.setattr(search, "tuning_run", tuning)
    monkeypatch.setattr(search, "run_cell", lambda task: (task[0], task[1:]))
    monkeypatch.setattr(search, "run_limit", lambda task: task)
    monkeypatch.setattr(search, "run_mixed", lambda task: task)
    design = Design(7, 3, (2.0, 4.0, 8.0), (0.4, 1.6, 6.4), 2.0)
    found = gather("ridge", design, 1000, workers=1)
    assert set(asked) == {(3, 1500)}  # never on the seeds that are judged
    assert found.settings["zCDP-NFL", 4.0] == Setting(0.4, 1.6)
    assert found.settings["zCDP-NFL", 8.0] == Setting(0.8, 1.6)
    assert found.settings["DP-NFL", 4.0] == Setting(0.4, 6.4)  # the largest penalty, and a grid of ratio 4
    assert found.settings["zCDP-grad-NFL", 2.0].step == 0.2
    assert found.settings["P-ADMM", 8.0].penalty == 3.2
    assert found.settings[MATCHED, 4.0].step == 0.4  # where the early error is that of zCDP-NFL
    assert (MATCHED, 2.0) not in found.settings
    cell, seeds = found.found["DP-NFL", 8.0]  # type: ignore[misc]
    assert cell == Cell("ridge", "DP-NFL", Setting(0.4, 6.4), 8.0, found.clip)
    assert seeds == (7, 1000)
    quiet = found.quiet[MATCHED][0]  # type: ignore[index]
    assert (quiet.total, quiet.clip) == (None, found.clip)
    assert found.quiet.keys() == {"zCDP-NFL", "zCDP-grad-NFL", "P-ADMM", MATCHED}
    assert found.limit["P-ADMM"] == ("ridge", "P-ADMM", None, 7, 1000)
    assert found.clipped == ("ridge", "zCDP-NFL", found.clip, 7, 1000)
    walker = Cell("ridge", "zCDP-grad-NFL", found.settings["zCDP-grad-NFL", 4.0], 4.0, found.clip)
    assert found.mixed == (walker, Setting(0.4, 1.6), 7, 1000)
    assert found.totals == [2.0, 4.0, 8.0]


def test_without_penalties_to_choose_from_nothing_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "run_cell", lambda task: task)
    monkeypatch.setattr(search, "run_limit", lambda task: task)
    monkeypatch.setattr(search, "run_mixed", lambda task: task)
    found = gather("lad", search.QUICK, 0, workers=1)
    assert {method: setting for (method, _), setting in found.settings.items()} == search.STARTS["lad"]
    assert found.limit.keys() == {"zCDP-NFL"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_limit_is_the_optimum(name: Any) -> None:
    found = runs.run_limit((name, "zCDP-NFL", None, 2, 0))
    assert found.final.max() / 50 <= 1e-6
