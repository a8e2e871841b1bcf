from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit_reproduction.ops import runs
from tacit_reproduction.ops.push_sum import OCCUPANCY_FULL, OCCUPANCY_QUICK, SUSY_FULL, SUSY_QUICK
from tacit_reproduction.ops.runs import FRACTIONS, Network, Task, deal_out, losses, run, stream

ROUNDS = 12


@pytest.fixture
def blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blobs instead of the data."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.5, 1, -1).astype(np.float32)
    data = SimpleNamespace(x=(rng.normal(size=(60, 3)) + 0.8 * y[:, None]).astype(np.float32), y=y, description="two")
    monkeypatch.setattr(runs, "load", lambda name: data)
    monkeypatch.setattr("tacit_reproduction.ops.push_sum.load", lambda name: data)
    deal_out.cache_clear()


TINY = OCCUPANCY_QUICK._replace(
    main=Network(5, 2), sizes=(4, 5), dense=(Network(5, 1), Network(5, 2)), seeds=2, tuning_seeds=1, ratio=4.0
)
TASK = Task(TINY._replace(starts={"OPS": 0.5}), "OPS", TINY.main, 3)


@pytest.mark.usefixtures("blobs")
def test_every_sample_is_dealt_once_and_methods_meet_the_same_ones() -> None:
    for fraction in FRACTIONS:
        held = np.bincount(deal_out("any", 5, fraction, 0), minlength=5)
        assert held.sum() == 60
        assert held.min() > 0
    assert np.ptp(np.bincount(deal_out("any", 5, 1.0, 0))) <= 1
    again = [stream(TASK._replace(method=method), 0.5, 3).chunk(0, ROUNDS).x for method in ("OPS", "COL")]
    np.testing.assert_array_equal(*again)
    assert np.all(again[0][..., -1] == 1)


@pytest.mark.usefixtures("blobs")
def test_push_sum_is_that_of_its_equations() -> None:
    found = losses(TASK, 1.0, 0.5, 3, 1)[0]
    graph = runs.random_digraph(5, 2, seed=10).with_weights("sender")
    weights, batch = graph.matrix(1).toarray(), stream(TASK, 1.0, 3).chunk(0, ROUNDS)
    x, y = np.asarray(batch.x, np.float64).reshape(ROUNDS, 5, 4), np.asarray(batch.y, np.float64).reshape(ROUNDS, 5)
    value, mass = np.zeros((5, 4)), np.ones(5)
    for t in range(ROUNDS):
        model = value / mass[:, None]
        margin = y[t] * (x[t] * model).sum(axis=1)
        loss = np.log1p(np.exp(-margin)) + 5e-5 * (model**2).sum(axis=1)
        assert found[t] == pytest.approx(loss.mean(), rel=1e-4)
        gradient = -(y[t] / (1 + np.exp(margin)))[:, None] * x[t] + 1e-4 * model
        value, mass = weights @ (value - 0.5 * gradient), weights @ mass


@pytest.mark.usefixtures("blobs")
def test_a_run_ends_at_its_average_and_chooses_its_step_on_other_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def counted(task: Task, fraction: float, step: float, first: int, seeds: int) -> Any:
        asked.append((first, seeds))
        return np.full((seeds, ROUNDS), 0.3 + np.log2(step) ** 2)

    monkeypatch.setattr(runs, "losses", counted)
    found = run(TASK)
    assert set(asked) == {(503, 1), (3, 2)}
    np.testing.assert_allclose(found[0.5]["average"], found[0.5]["running"][:, -1])
    assert set(found[1.0]["step"]) == {0.5}  # of 0.5, 2 and 0.125 the nearest to 1
    for design in (OCCUPANCY_FULL, OCCUPANCY_QUICK, SUSY_FULL, SUSY_QUICK):
        assert max(design.seeds, design.tuning_seeds) < runs.TUNING_OFFSET
