"""`omd-mnist`: its claims on evidence made up, the honest epsilons, its pieces, and a tiny run from end to end."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit.core.errors import DataError
from tacit.graphs import Topology
from tacit.privacy import laplace, statement
from tacit.privacy.accounting import guarantee
from tacit.privacy.conversions import tight
from tacit.privacy.events import Loss
from tacit.privacy.spending import DELTA, RunPrivacy
from tacit_reproduction.mirror import mnist, mnist_images
from tacit_reproduction.mirror.mnist_cells import (
    CLIENTS,
    COMPONENT,
    GAUSSIAN,
    METHODS,
    PLAIN,
    PURE,
    TEXT,
    WHOLE,
    Cell,
    Design,
    Method,
    Noise,
    Outcome,
    algorithm,
    cells,
    honest,
    judged,
    network,
)
from tacit_reproduction.mirror.mnist_claims import PRINTED, judge
from tacit_reproduction.mirror.mnist_images import Images, client_stream, shared_out, spread

SEEDS = 12
JITTER = np.random.default_rng(0).normal(size=SEEDS)
PARAMETERS, READS = 1_663_370, 4
ALL = (*TEXT, PLAIN, GAUSSIAN, PURE)
DESIGN = mnist.FULL._replace(noises=ALL, seeds=SEEDS)


def level(method: Method, noise: Noise) -> float:
    """A world in which everything comes out as the text says, in per cent."""
    if noise.kind == "text":
        return PRINTED[method, noise.epsilon]
    return {"pure": 10.0, "gaussian": 85.0, "plain": 97.0}[noise.kind]


def made_up(changed: dict[tuple[Method, Noise], float] | None = None) -> dict[Cell, Outcome]:
    found = {}
    private = RunPrivacy(statement(laplace(1.0, 1.0)), guarantee(Loss(1.0, 0.5), "record"), READS)
    free = RunPrivacy(statement(laplace(1.0, 1.0)), None)
    for cell in cells(DESIGN):
        mean = (changed or {}).get((cell.method, cell.noise), level(cell.method, cell.noise))
        accuracy = mean / 100 + 0.0005 * (JITTER if cell.method == "proposed" else JITTER[::-1])
        privacy = free if cell.noise == PLAIN else private
        curve = np.stack([accuracy / 2, accuracy], axis=1)
        found[cell] = Outcome(accuracy, curve, np.array([75, 150]), 0.1 + 0 * JITTER, privacy, READS, PARAMETERS)
    return found


def test_a_world_as_the_text_has_it() -> None:
    claims = judge(made_up(), DESIGN)
    assert failing(claims) == [4]  # the text's epsilon is not what a record loses over the whole run
    assert claims[1].seen_in == "accuracy"
    assert all(number in claims[1].text for number in ("94.01 %", "92.59 %", "0.5", "5.2"))
    assert all(number in claims[0].figure for number in ("-1.81", "93.28", "91.47", "+0.00"))
    assert all(number in claims[4].figure for number in ("1,663,370", "4 times"))
    assert "92.59" in claims[2].figure


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({("proposed", TEXT[0]): 91.47}, [0, 2, 4]),
        (
            {("proposed", TEXT[1]): 92.5, ("fedavg", TEXT[1]): 93.4},
            [1, 2, 3, 4],
        ),
        ({("fedavg", PLAIN): 92.0}, [3, 4]),
        ({("proposed", TEXT[0]): 95.0, ("proposed", TEXT[1]): 94.5}, [2, 3, 4]),
        ({("fedavg", PURE): 30.0}, [4, 5]),
        ({("fedavg", PURE): 20.0}, [4, 5]),  # the mean may be below, but not the whole interval
        ({("proposed", GAUSSIAN): 50.0}, [4, 6]),
        ({("proposed", GAUSSIAN): 40.0}, [4, 6]),
    ],
)
def test_each_claim_can_fail(changed, broken) -> None:
    assert failing(judge(made_up(changed), DESIGN)) == broken


def test_a_design_without_some_noises_makes_no_claims_on_them() -> None:
    design = DESIGN._replace(noises=(TEXT[0], PLAIN))
    every = [claim.claim for claim in judge(made_up(), DESIGN)]
    assert [every.index(claim.claim) for claim in judge(made_up(), design)] == [0, 3, 4]


def test_the_paragraph_for_practitioners_and_the_table_hold_the_figures() -> None:
    evidence = made_up()
    (paragraph,) = mnist._for_practitioners(evidence, DESIGN)
    promised = honest(TEXT[0], PARAMETERS, 128, READS)
    assert f"eps = {promised.pure:,.0f}" in paragraph
    assert f"eps = {promised.approximate:,.0f} with delta = 1e-05" in paragraph
    assert "93.28 ± " in paragraph
    table = mnist._table(evidence, DESIGN)
    assert len(table.rows) == len(evidence) == 2 * len(ALL)
    assert all(len(row) == len(table.columns) for row in table.rows)
    cell = mnist._metrics(evidence, DESIGN)["cells"][0]
    assert (cell["printed"], cell["record_level"]) == (93.28, promised._asdict())


# -- epsilons ----------------------------------------------------------------------------------------------------------


def test_honest_epsilons_by_hand() -> None:
    """Scale 1 / (h eps); a record moves each of d components by 1 / h: d as much in l1, sqrt(d) in l2; four reads."""
    found = honest(TEXT[1], 10_000, 128, READS)
    assert found.pure == pytest.approx(READS * 10_000 * 0.5)
    assert found.approximate == pytest.approx(tight(READS * 10_000 * 0.5**2 / 2, DELTA))
    assert honest(TEXT[1], 1, 128, 1).pure == pytest.approx(0.5)
    assert honest(TEXT[1], 1, 128, 1).approximate <= 0.5


def test_concentrated_loss_of_laplace_noise_adds_up_over_components() -> None:
    """Renyi divergences of the two products, integrated numerically, stay below alpha times the booked rho."""
    epsilon, components = 0.7, 9
    shift = epsilon / math.sqrt(components)  # an l2 change of epsilon, spread evenly; scale 1
    grid = np.linspace(-60, 60, 400_001)
    log_p, log_q = -np.abs(grid) - math.log(2), -np.abs(grid - shift) - math.log(2)
    for alpha in (1.5, 2.0, 8.0, 32.0):
        one = np.log(np.trapezoid(np.exp(alpha * log_p + (1 - alpha) * log_q), grid)) / (alpha - 1)
        assert components * one <= alpha * epsilon**2 / 2


@pytest.mark.parametrize("noise", [PURE, GAUSSIAN])
def test_planned_noise_keeps_its_total(noise: Noise) -> None:
    mechanism = noise.mechanism(READS)
    assert (mechanism.adjacency, mechanism.perturbs) == ("record", "gradient")
    ratio = mechanism.ratio
    total = READS * ratio if noise.kind == "pure" else tight(READS * ratio**2 / 2, DELTA)
    assert total == pytest.approx(noise.epsilon, rel=1e-5)


# -- pieces ------------------------------------------------------------------------------------------------------------


def images(rows: int = 600, seed: int = 0) -> Images:
    """Digits that are easy to tell: digit k is a bright row k + 4 under noise. Classes differ in size."""
    rng = np.random.default_rng(seed)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.choice(10, count, p=np.arange(8, 18) / 125).astype(np.int32)
        x = 0.1 * rng.random((count, 28, 28))
        x[np.arange(count), y + 4] += 0.9
        return np.rint(255 * x).reshape(count, 784).astype(np.uint8), y

    return Images(*draw(rows), *draw(60), "rows of light")


def test_clients_hold_three_shards_less_a_tenth() -> None:
    made = images()
    parts = shared_out(made, CLIENTS, 3)
    assert [len(part) for part in parts] == [54] * CLIENTS
    assert len(np.unique(np.concatenate(parts))) == 540
    digits = [len(np.unique(made.y[part])) for part in parts]
    assert max(digits) <= 6
    assert np.mean(digits) < 6
    found = spread(made, CLIENTS, range(3, 4))
    assert found.digits == pytest.approx(np.mean(digits))
    assert 0.6 < found.main <= 1
    assert not all(np.array_equal(a, b) for a, b in zip(parts, shared_out(made, CLIENTS, 4), strict=True))
    stream = client_stream(made, CLIENTS, 8, 3)
    assert (stream.agents, stream.reads(7).max()) == (CLIENTS, 2)


def test_everybody_hears_four_and_itself_or_a_server() -> None:
    ring = network(Cell("proposed", PLAIN))
    assert not isinstance(ring, Topology)
    weights = ring.matrix().toarray()
    np.testing.assert_allclose(weights[weights > 0], 0.2)
    assert ((weights > 0).sum(axis=1) == 5).all()
    star = network(Cell("fedavg", PLAIN))
    assert isinstance(star, Topology)
    assert star.roles == {"client": CLIENTS, "server": 1}


def test_methods_are_made_with_their_noise() -> None:
    for method, name in (("proposed", "dynamic_mirror_descent"), ("fedavg", "fedavg")):
        made = algorithm(Cell(method, TEXT[0]), mnist.QUICK, READS)
        assert made.name == name
        assert made.phases[0].mechanism.adjacency == "component"
        assert made.phases[0].mechanism.clip == COMPONENT
    assert algorithm(Cell("fedavg", GAUSSIAN), mnist.QUICK, READS).phases[0].mechanism.clip == WHOLE


def test_judged_counts_every_image_once() -> None:
    """61 images are no whole number of pieces; a model that always says 3 is right on the threes."""
    made = images()
    x, y = np.concatenate([made.test_x, made.test_x[:1]]), np.concatenate([made.test_y, made.test_y[:1]])
    objective = mnist.QUICK.objective()
    weights = jax.tree.map(np.zeros_like, objective.initial(client_stream(made, CLIENTS, 4, 0).batch_spec()))

    def always(digit: int):
        return weights._replace(output=weights.output._replace(bias=np.eye(10, dtype=np.float32)[digit]))

    both = jax.tree.map(lambda *leaves: np.stack(leaves), always(3), always(7))
    expected = (np.mean(y == 3) + np.mean(y == 7)) / 2
    assert judged(objective, x, y)(both) == pytest.approx(expected, rel=1e-6)


def test_without_the_images_the_loader_speaks(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    def refuse():
        raise DataError("mnist is not here")

    monkeypatch.setattr(mnist_images, "mnist", refuse)
    mnist_images.load.cache_clear()
    with pytest.raises(DataError, match="mnist is not here"):
        mnist.MNIST.run(True, tmp_path / "out", 0)
    assert not (tmp_path / "out").exists()


TINY = Design(
    channels=(2, 2),
    hidden=8,
    batch=8,
    step=0.2,
    clipped_step=0.2,
    communications=20,
    noises=(TEXT[1], PURE, PLAIN),
    seeds=3,
    together=2,
    curve_points=5,
    curve_images=20,
    test_images=60,
)


@pytest.mark.slow
def test_from_end_to_end() -> None:
    """Six cells on images that are easy: what has no noise learns, what has all of it does not."""
    findings = mnist.investigate(TINY, images, seed=1, workers=1)
    found = {(c["method"], c["noise"]): c for c in findings.metrics["cells"]}
    assert len(found) == 6
    assert len(found["proposed", "text"]["accuracy"]["values"]) == 3
    for method in METHODS:
        assert found[method, "plain"]["accuracy"]["mean"] > 25
        assert not found[method, "plain"]["privacy"]["private"]
        assert found[method, "pure"]["accuracy"]["mean"] < 25
        spent = found[method, "pure"]["privacy"]
        assert (spent["epsilon"], spent["reads"]) == (pytest.approx(0.5), 4)
        assert found[method, "text"]["privacy"]["epsilon"] == pytest.approx(4 * 0.5)
    # After every communication all clients of a server hold one model.
    assert found["fedavg", "plain"]["apart"]["mean"] < 1e-9 < found["proposed", "plain"]["apart"]["mean"]
    assert [figure.name for figure in findings.figures] == ["accuracy"]
