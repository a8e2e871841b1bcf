"""`npfl-rl`: data, measures by hand, verdicts on made-up tables, a micro run."""

from typing import Any

import numpy as np
import pytest

from tacit.core.errors import DataError
from tacit_reproduction.gauthier import npfl, npfl_data
from tacit_reproduction.gauthier.npfl_data import CONNECTED, DRAWN, World, parts, world


@pytest.mark.parametrize("network", [CONNECTED, DRAWN])
def test_a_world_is_as_the_text_has_it(network: str) -> None:
    found = world(network, 3)
    labels = np.asarray(found.graph.clusters)
    assert np.bincount(labels).tolist() == [10, 10, 10]
    assert 4.5 < len(found.graph.senders) / 30 < 7.5  # 87 links expected, standard deviation 8
    assert (found.sizes.min() >= 5, found.sizes.max()) == (True, 35)
    ratio = found.truth / found.truth[0]
    np.testing.assert_allclose(ratio, ratio[:, :1] * np.ones(60))
    assert len(np.unique(ratio[:, 0].round(9))) == 3
    batch = found.stream.chunk(0, 1)
    np.testing.assert_array_equal(batch.weight[0].sum(axis=1), found.sizes)
    assert not np.array_equal(batch.validation.x, batch.x)
    noise = np.square(batch.y[0] - np.einsum("kni,ki->kn", batch.x[0], found.truth)).sum(axis=1) / found.sizes
    assert noise.max() < 3
    assert noise.max() > 4 * noise.min()
    own = [k for k in range(30) if np.any(labels[found.graph.senders[found.graph.receivers == k]] == labels[k])]
    assert np.flatnonzero(found.accompanied).tolist() == own
    assert parts(found.graph, np.zeros(30, np.int64)) == 1
    assert (parts(found.graph, labels) == 3) == (network == CONNECTED)


def test_networks_share_data_and_one_that_is_not_found_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(world(CONNECTED, 3).stream.chunk(0, 1).x, world(DRAWN, 3).stream.chunk(0, 1).x)
    monkeypatch.setattr(npfl_data, "MOST_DRAWS", 0)
    with pytest.raises(DataError, match="seed 999"):
        world(DRAWN, 999)


def test_measures_are_those_of_a_loop() -> None:
    rng, at = np.random.default_rng(1), np.arange(5, 205, 5)
    models, tau = rng.normal(size=(1, 40, 30, 4)), rng.uniform(0, 0.02, (1, 40, 30))
    sizes, truth = rng.permutation(30) + 5, rng.normal(size=(30, 4))
    someone: Any = None
    alone = sizes != sizes.max()  # who has the most has no neighbour of its own cluster
    found = npfl.measures(models, tau, at, [World(someone, someone, truth, sizes, alone)])
    nmsd = [np.mean([np.sum((w - v) ** 2) / np.sum(v**2) for w, v in zip(of, truth, strict=True)]) for of in models[0]]
    np.testing.assert_allclose(found["nmsd"][0], 10 * np.log10(nmsd))
    assert found["settled"][0] == pytest.approx(10 * np.log10(np.mean(nmsd[-4:])))
    assert found["early"][0] == pytest.approx(np.mean(10 * np.log10(nmsd[:10])))
    order, end = np.argsort(sizes), tau[0, -4:].mean(axis=0)
    assert found["poor near"][0] == pytest.approx(tau[0, 19, order[:10]].mean())
    assert found["poor end"][0] == pytest.approx(end[order[:10]].mean())
    assert found["rich at 0"][0] == pytest.approx(100 * np.mean(end[order[-10:]] < 0.01))
    np.testing.assert_array_equal(found["tau, few"][0], tau[0, :, order[0]])
    np.testing.assert_array_equal(found["tau, many"][0], tau[0, :, order[-2]])
