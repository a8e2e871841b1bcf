"""`pgfl-mnist` and `pgfl-organ`: accuracies by hand, units of the images, verdicts on made-up tables, a micro run."""

import numpy as np
import pytest

from tacit import objectives
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets.tasks import TwoClasses
from tacit_reproduction.gauthier import pgfl_image_data, pgfl_images
from tacit_reproduction.gauthier.pgfl_image_data import Group, accuracies, clients
from tacit_reproduction.gauthier.pgfl_images import Cell

SMALL = Group((TwoClasses((0,), (1,)), TwoClasses((0,), (2,)), TwoClasses((3,), (1,))), 3, (2, 3), 2)


def pictures(columns: int = 12) -> Dataset:
    """Images of classes that are easy to tell apart: each has a bright place of its own."""
    rng, y = np.random.default_rng(3), np.tile(np.arange(columns), 80).astype(np.int32)
    x = rng.uniform(0, 0.3, (len(y), columns)) + np.eye(columns)[y]
    parts = {"train": slice(0, len(y) // 2), "test": slice(len(y) // 2, len(y))}
    names = tuple(map(str, range(columns)))
    return Dataset("pictures", x.astype(np.float32), y, names, "made up", True, parts, "multiclass")


def of_norm_one(classes: tuple[int, ...]) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pgfl_image_data, "loaded", lambda source: pictures())
        return pgfl_image_data.images.__wrapped__("", classes)


def test_images_have_one_norm_and_keep_their_parts():
    data = of_norm_one(SMALL.classes)
    np.testing.assert_allclose(np.linalg.norm(data.x, axis=1), 1, rtol=1e-6)
    assert set(data.y) == {0, 1, 2, 3}
    assert data.parts == {"train": slice(0, 160), "test": slice(160, 320)}


def test_clusters_are_equal_and_sizes_in_range():
    for seed in range(3):
        clusters, sizes = clients(pgfl_image_data.GROUPS["triplets"], seed)
        assert np.bincount(clusters).tolist() == [50, 50, 50]
        assert (sizes.min(), sizes.max(), len(sizes)) == (6, 12, 150)
        assert clients(SMALL._replace(sizes=(2, 400)), seed)[1].max() == 400, "batches of all seeds have one shape"


def test_models_are_judged_on_their_own_clusters_test():
    """A model that finds class 1 is right on {0} / {1} and {3} / {1}, and says no to all of {0} / {2}."""
    knows = np.zeros(12, np.float32)
    knows[[0, 1, 2, 3]] = -1, 1, -1, -1
    models = np.broadcast_to(knows, (1, 2, 6, 12)).copy()
    models[0, 1, 4] *= -1  # one of two clients of cluster 2, later
    found = accuracies(models, [np.array([0, 0, 1, 1, 2, 2])], SMALL, of_norm_one(SMALL.classes))
    np.testing.assert_allclose(found, [[250 / 3, 200 / 3]])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(pgfl_image_data.GROUPS, "small", SMALL)
    monkeypatch.setattr(pgfl_images, "images", lambda source, classes: of_norm_one(classes))
    for name, value in {"ROUNDS": 6, "EVERY": 3}.items():
        monkeypatch.setattr(pgfl_images, name, value)
    return monkeypatch


@pytest.mark.slow
def test_norms_stand_for_penalties(small):
    """Images of norm 1 learn what images of norm 0.25 do with a sixteenth of the penalties."""
    one = pgfl_images.run((("", Cell("small"), (1.0, 4.0)), 2, 7))[0]
    small.setattr(pgfl_images, "PENALTY", 1 / 16)
    small.setattr(objectives, "logistic", lambda l2, made=objectives.logistic: made(l2=l2 / 16))
    (same,) = pgfl_images.run((("", Cell("small"), (0.25,)), 2, 7))
    np.testing.assert_allclose(same.measures["accuracy"], one.measures["accuracy"], atol=0.7)
    assert one.measures["accuracy"].shape == (2, 2)
    assert one.measures["end"].min() > 60
