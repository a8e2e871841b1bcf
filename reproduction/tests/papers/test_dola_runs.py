from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tacit.core.errors import ConfigError, DataError
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets import rcv1 as loader
from tacit_reproduction.dola import accuracies, documents, minibatch, rcv1, synthetic
from tacit_reproduction.dola.accuracies import Cell, Plan, run_cell, stream, way
from tacit_reproduction.dola.documents import Documents
from tacit_reproduction.dola.networks import exchanges, matchings, rounds_to_average
from tacit_reproduction.dola.samples import Samples, dealt, unit_ball
from tacit_reproduction.dola.table import (
    LABEL_CHOICE,
    PRINTED,
    PUBLIC_CHOICE,
    TABLE_1,
    Protocol,
    Representation,
    representation,
)
from tacit_reproduction.experiment import Findings


@pytest.fixture(scope="module")
def made_up() -> Documents:
    """Two blobs, as if they were documents."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(120) < 0.5, 1, -1).astype(np.float32)
    x = (rng.normal(size=(120, 60)) + 0.5 * y[:, None]).astype(np.float32)
    return Documents(x, y, 90, "two blobs")


# -- pieces ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 8])
def test_exchanges_average_exactly(nodes: int) -> None:
    graph = exchanges(nodes).with_weights("metropolis")
    product = np.eye(nodes)
    for t in range(1, rounds_to_average(nodes) + 1):
        weights = np.asarray(graph.matrix(t).todense() if hasattr(graph.matrix(t), "todense") else graph.matrix(t))
        np.testing.assert_allclose(weights.sum(axis=0), 1)
        assert np.all((weights > 0).sum(axis=1) <= 2)
        product = weights @ product
    np.testing.assert_allclose(product, 1 / nodes)


def test_exchanges_need_a_power_of_two() -> None:
    with pytest.raises(ConfigError, match="nodes = 6"):
        exchanges(6)
    assert [rounds_to_average(nodes) for nodes in (1, 2, 4, 64)] == [1, 1, 2, 6]


def test_points_lie_in_the_ball_and_depend_on_the_seed() -> None:
    samples = unit_ball(400, 3)
    lengths = np.linalg.norm(samples.x.astype(np.float64), axis=1)
    assert lengths.max() <= 1
    assert 0.85 < lengths.mean() < 0.97  # d / (d + 1) = 0.909; a standard error is 0.004
    assert set(samples.y) == {-1, 1}
    assert not np.array_equal(unit_ball(400, 4).x, samples.x)


def test_every_sample_is_dealt_once() -> None:
    samples = Samples(np.arange(24, dtype=np.float32)[:, None] / 24, np.ones(24, np.float32))
    found = dealt(samples, 4, 3, 7, "x")
    assert (found.agents, found.rounds, found.reads(2).max()) == (4, 2, 1)
    batch = found.chunk(0, 2)
    assert sorted(np.asarray(batch.x).ravel()) == sorted(samples.x.ravel())
    assert not np.array_equal(dealt(samples, 4, 3, 8, "x").chunk(0, 2).x, batch.x)


def test_settings_cover_table_1() -> None:
    assert len(TABLE_1) == 12
    assert PUBLIC_CHOICE.keys() == LABEL_CHOICE.keys() == TABLE_1.keys()
    assert Representation(14, 3).clip == 1
    assert Representation(50).clip == pytest.approx((100 / np.pi) ** 0.5)
    assert Representation(300).at_most(80) == Representation(80)
    assert Representation(14, 3).at_most(80) == Representation(14, 3)
    assert representation("printed", (0.1, 4)) == PRINTED


def test_rows_are_scaled_and_cut(made_up: Documents) -> None:
    full = made_up.represented(Representation(10))
    assert full.shape == (120, 10)
    np.testing.assert_allclose(np.linalg.norm(full, axis=1), 1, atol=1e-5)
    few = made_up.represented(Representation(10, 3))
    assert np.all((few != 0).sum(axis=1) == 3)
    assert np.all(np.abs(few.astype(np.float64)).sum(axis=1) <= 1)
    kept = few != 0
    assert np.all(np.where(kept, np.abs(full), np.inf).min(axis=1) >= np.where(kept, 0, np.abs(full)).max(axis=1))


@pytest.mark.data
def test_documents_are_those_of_the_loader() -> None:
    if not datasets.available("rcv1"):
        pytest.skip(datasets.where("rcv1"))
    wide = documents.load(20)
    for form in (Representation(8), Representation(14, 3)):
        own = loader.rcv1("public_svd", form.columns, form.keep)
        # Directions have a sign, which changes neither a hinge model's accuracy nor its noise.
        np.testing.assert_allclose(np.abs(wide.represented(form)), np.abs(own.x), atol=2e-4)
        assert wide.training == own.parts["train"].stop


# -- one entry of Table 1 ----------------------------------------------------------------------------------------------


def plan(made_up: Documents, protocol: Protocol, epsilon: float | None, nodes: int, form: Representation) -> Plan:
    return Plan(Cell(protocol, (epsilon, nodes), form), *made_up.split(form), range(5, 7))


def test_one_release_then_averaging_costs_epsilon_once_and_all_agree(made_up: Documents) -> None:
    task = plan(made_up, "public", 0.5, 4, Representation(6))
    found = run_cell(task)
    assert found.rounds == 2
    assert found.privacy.guarantee is not None
    assert found.privacy.guarantee.epsilon == pytest.approx(0.5, rel=1e-6)
    assert found.privacy.guarantee.delta == 0
    assert found.privacy.reads == 1
    np.testing.assert_allclose(found.network, found.own)
    assert found.network.shape == (2,)
    # 2 C / (h eps) per node and coordinate, h = ceil(90 / 4); variance 2 scale^2, six coordinates, mean of four.
    scale = 2 * Representation(6).clip / (23 * 0.5)
    assert found.disturbance == pytest.approx((2 * 6 / 4) ** 0.5 * scale)


def test_without_noise_the_nodes_mean_is_the_mean_step(made_up: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    task = plan(made_up, "public", None, 2, Representation(6))
    models = []
    judged: Callable[..., np.ndarray] = accuracies._accuracy
    monkeypatch.setattr(accuracies, "_accuracy", lambda m, test: models.append(m) or judged(m, test))
    monkeypatch.setattr(accuracies, "MOST_BYTES", 1)  # so that seeds are run one by one
    found = run_cell(task)
    expected = (task.training.x * task.training.y[:, None]).mean(axis=0)
    assert [m.shape for m in models[:-1]] == [(1, 1, 6), (1, 2, 6)] * 2  # the last one is the step by itself
    for model in models[::2]:
        np.testing.assert_allclose(model[0, 0], expected, rtol=1e-4, atol=1e-6)
    assert found.signal == pytest.approx(np.linalg.norm(expected), rel=1e-5)
    assert found.disturbance == 0
    assert not found.privacy.private
    right = (task.test.x @ expected) * task.test.y > 0
    np.testing.assert_allclose(found.network, 100 * right.mean())
    assert found.ceiling == pytest.approx(100 * right.mean())


def test_as_printed_reads_one_document_at_a_time_and_gathers_noise(made_up: Documents) -> None:
    task = plan(made_up, "printed", 0.1, 2, Representation(6))
    how = way(task.cell, 90)
    assert (how.rounds, how.batch, how.once) == (45, 1, False)
    assert how.graph.dynamics == matchings(2).dynamics
    signal, disturbance, ceiling = accuracies._strengths(task, how)
    assert np.isnan([signal, ceiling]).all()
    # Each of 45 rounds leaves 2 sqrt(d) / (lambda T eps) in each coordinate of each of two nodes.
    assert disturbance == pytest.approx((2 * 6 * 45 / 2) ** 0.5 * 2 * 6**0.5 / (0.01 * 45 * 0.1))


def test_later_rounds_of_one_release_have_no_data(made_up: Documents) -> None:
    task = plan(made_up, "labels", 1.0, 4, Representation(6))
    how = way(task.cell, 90)
    batch = stream(task, how, 3).chunk(0, how.rounds)
    assert np.asarray(batch.weight)[0].sum() == 90
    assert np.asarray(batch.weight)[1:].sum() == 0
    assert [float(accuracies.once(np.int32(t))) for t in (1, 2, 3)] == [1, 0, 0]


# -- whole experiments, as small as they come --------------------------------------------------------------------------


def check(findings: Findings) -> None:
    assert all(claim.figure for claim in findings.claims)
    assert all(picture.png.startswith(b"\x89PNG") for picture in findings.figures)
    for table in findings.tables:
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
    assert findings.method
    assert findings.data["description"]


@pytest.fixture
def rough_comparator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the solver stop early: how regret is used is tested here, not how good its comparator is."""
    monkeypatch.setattr("tacit.metrics.comparator.ITERATIONS", 3)
    monkeypatch.setattr("tacit.metrics.comparator.FRESH_STARTS", 1)
    monkeypatch.setattr("tacit.metrics.comparator.SMALLEST_MU", 0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("rough_comparator")
def test_synthetic_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "NODES", (1, 2))
    monkeypatch.setattr(synthetic, "COMPARED_NODES", 2)
    monkeypatch.setattr(synthetic, "EPSILONS", (None, 1.0, 0.1, 0.01))
    monkeypatch.setattr(synthetic, "STEPS", {"strong": synthetic.STEPS["strong"]})
    findings = synthetic.investigate(synthetic.Design(48, 2, 2, whole=False), 0, workers=1)
    check(findings)
    assert len(findings.claims) == 9
    assert len(findings.metrics["cells"]) == 2 + 7
    assert {cell["privacy"]["epsilon"] for cell in findings.metrics["cells"] if cell["epsilon"] == 1.0} == {1.0}
    assert {picture.name for picture in findings.figures} == {"privacy-strong", "nodes-strong"}
    assert findings.tables[0].columns[2:5] == ("epsilon", "delta", "unit")


@pytest.mark.slow
def test_rcv1_end_to_end(made_up: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rcv1, "NODES", (1, 2))
    monkeypatch.setattr(rcv1, "EPSILONS", (None, 1.0))
    monkeypatch.setattr(rcv1, "TABLE_1", {(e, n): 60.0 for e in (None, 1.0) for n in (1, 2)})
    monkeypatch.setattr(rcv1, "representation", lambda protocol, entry: Representation(6))
    findings = rcv1.investigate(rcv1.Design(2, 6), made_up, 0, workers=1)
    check(findings)
    assert len(findings.claims) == 3 * (2 + 3)
    assert len(findings.metrics["cells"]) == 3 * 4
    assert all(cell["privacy"]["epsilon"] == cell["epsilon"] for cell in findings.metrics["cells"])
    assert {cell["rounds"] for cell in findings.metrics["cells"] if cell["protocol"] == "printed"} == {90, 45}
    assert len(findings.tables[0].rows) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("rough_comparator")
def test_minibatch_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibatch, "NODES", 2)
    monkeypatch.setattr(minibatch, "BATCHES", (1, 5))
    monkeypatch.setattr(minibatch, "JUDGED", {"average": minibatch.JUDGED["average"]})
    findings = minibatch.investigate(minibatch.Design(40, 40, 2), 0, None, "left out", workers=1)
    check(findings)
    assert len(findings.claims) == 2 * 2
    assert len(findings.tables[0].rows) == 2 * 3
    by_cell = {(c["batch"], c["epsilon"], c["order"]): c for c in findings.metrics["cells"]}
    assert by_cell[1, 1.0, "text"]["rounds"] == 20
    assert by_cell[5, 1.0, "text"]["rounds"] == 4
    assert by_cell[5, 1.0, "text"]["privacy"]["epsilon"] == pytest.approx(1, rel=1e-6)
    values = {tuple(cell["average_regret"]["values"]) for cell in by_cell.values()}
    assert len(values) == len(by_cell)


def test_minibatch_draws_other_documents_for_each_seed(made_up: Documents) -> None:
    rows = made_up.split(Representation(6))[0]
    design = minibatch.Design(40, 40, 2)
    streams = [minibatch._stream(rows, 5, design, seed) for seed in (0, 1)]
    assert [found.data_size.sum() for found in streams] == [40, 40]
    drawn = [np.asarray(found.chunk(0, 2).x).reshape(-1, 6) for found in streams]
    assert [len(np.unique(x, axis=0)) for x in drawn] == [40, 40]
    assert len(np.unique(np.concatenate(drawn), axis=0)) > 40


# -- absent data -------------------------------------------------------------------------------------------------------


def test_rcv1_says_where_it_looked_for_absent_data(nowhere: Path) -> None:
    with pytest.raises(DataError, match=str(nowhere / "data")):
        rcv1.RCV1.run(True, nowhere / "out", 0)
    assert not (nowhere / "out").exists()


def test_minibatch_goes_on_without_absent_data(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(minibatch, "investigate", lambda *given: asked.append(given))
    minibatch._with_documents(True, 3)
    ((design, seed, documents, words),) = asked
    assert (design, seed, documents) == (minibatch.QUICK, 3, None)
    assert "dola-rcv1" in words
