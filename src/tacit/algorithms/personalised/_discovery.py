"""Discovery of clusters from vectors that clients have released.

Beyond Gauthier (2023), ch. 5, whose clusters are given. Vectors are centred, the few directions are kept in which they
differ by more than chance would have it (at most one less than there are clusters), and k-means groups them there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.checks import whole_number
from tacit.core.errors import DataError

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
RESTARTS, MOST_STEPS = 20, 100
"""Of k-means."""
FLIPS = 100
"""A direction counts if it explains more than in every one of so many copies of the values with signs at random."""


class Found(NamedTuple):
    """Clusters as `find_clusters` found them."""

    labels: Labels
    """(clients,) from 0 on, in the order in which clusters first appear."""
    directions: int
    """In how many directions the released values were told apart."""
    explained: float
    """Share of the (weighed) variance in these directions that lies between clusters, 0 to 1."""


def find_clusters(released: ArrayLike, clusters: int, seed: int, weight: ArrayLike | None = None) -> Found:
    """Cluster of each client, told from a vector that it has released.

    Learn one model for all first: `personalised_graph_federated` with `clusters=1`. Where that has settled, a client's
    multiplier (the run's diagnostic "dual") is its gradient at the common model, which points away from what its own
    cluster would learn; it is made of released models, so that client and server know it. This is post-processing and
    costs no privacy; the rounds that released the vectors do cost.

    Args:
      released: (clients, d) one vector per client.
      clusters: Number of clusters, from 1 to the number of clients; none will be empty.
      seed: Seed of the starts; the same arguments give the same clusters.
      weight: (clients,) reliance on each vector, above 0, e.g. how many records a client holds; equal by default.

    Returns:
      Labels from 0 on, the number of directions that tell clusters apart, and the explained share of the variance.

    Example:
      >>> import numpy as np, tacit
      >>> vectors = np.array([[1.0, 0.1], [1.1, 0.0], [-1.0, 0.1], [-1.1, 0.0], [0.9, -0.1], [-0.9, -0.1]])
      >>> tacit.algorithms.find_clusters(vectors, clusters=2, seed=0).labels.tolist()
      [0, 0, 1, 1, 0, 1]
    """
    values, reliance = _validated(released, clusters, weight)
    if clusters == 1:
        return Found(np.zeros(len(values), np.int64), 0, 0.0)
    draws = np.random.default_rng(seed)
    root = np.sqrt(reliance)[:, None]
    centred = values - np.average(values, axis=0, weights=reliance)
    _, strength, directions = np.linalg.svd(root * centred, full_matrices=False)
    kept = _standing_out(root * centred, strength, directions, min(clusters - 1, len(strength)), draws)
    places = centred @ directions[:kept].T
    _, labels = min((_grouped(places, reliance, clusters, draws) for _ in range(RESTARTS)), key=lambda found: found[0])
    within = _spread(places, reliance, labels, clusters)
    total = float(np.sum(reliance[:, None] * places**2))
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return Found(rank[inverse].astype(np.int64), kept, 0.0 if total == 0 else 1 - within / total)


def _validated(released: ArrayLike, clusters: int, weight: ArrayLike | None) -> tuple[Floats, Floats]:
    values = np.asarray(released, np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise DataError(
            f"released values of shape {values.shape}: expected (clients, d), all finite; average each client's rounds "
            "first, and leave out a run that diverged"
        )
    whole_number("clusters", clusters, "one client each at the most", most=len(values))
    reliance = np.ones(len(values)) if weight is None else np.asarray(weight, np.float64)
    if reliance.shape != (len(values),) or not (np.isfinite(reliance) & (reliance > 0)).all():
        raise DataError(
            f"weights of shape {reliance.shape}: expected one number above 0 for each of {len(values)} clients"
        )
    return values, reliance / reliance.mean()


def _standing_out(values: Floats, strength: Floats, directions: Floats, most: int, draws: np.random.Generator) -> int:
    """Return how many directions, one after the other, explain more of what is left than signs at random let any."""
    # Turned at random first, so that no difference sits in one coordinate, whose size signs leave as it is.
    turn = np.linalg.qr(draws.normal(size=(values.shape[1],) * 2))[0]
    for k in range(most):
        left = (values - values @ directions[:k].T @ directions[:k]) @ turn
        flips = (left * draws.choice((-1.0, 1.0), left.shape) for _ in range(FLIPS))
        if strength[k] <= max(np.linalg.norm(flipped, ord=2) for flipped in flips):
            return max(k, 1)
    return most


def _grouped(places: Floats, weight: Floats, clusters: int, draws: np.random.Generator) -> tuple[float, Labels]:
    """Do k-means from one start; return the spread within clusters, and the labels."""
    labels = _labels(places, _starts(places, weight, clusters, draws))
    for _ in range(MOST_STEPS):
        moved = _labels(places, _means(places, weight, labels, clusters))
        if np.array_equal(moved, labels):
            break
        labels = moved
    return _spread(places, weight, labels, clusters), labels


def _starts(places: Floats, weight: Floats, clusters: int, draws: np.random.Generator) -> Floats:
    """Draw centres among the places, each with a chance that grows with its square distance to those before it."""
    chosen = [int(draws.choice(len(places), p=weight / weight.sum()))]
    while len(chosen) < clusters:
        far = weight * _distances(places, places[chosen]).min(axis=1)
        chance = far if far.sum() > 0 else weight
        chosen.append(int(draws.choice(len(places), p=chance / chance.sum())))
    return places[chosen]


def _distances(places: Floats, centres: Floats) -> Floats:
    """(clients, clusters) square distances."""
    return np.asarray(np.sum((places[:, None] - centres) ** 2, axis=2))


def _labels(places: Floats, centres: Floats) -> Labels:
    """Return the nearest centre of each; an empty one gets the client that is farthest from its own."""
    distances = _distances(places, centres)
    labels: Labels = np.argmin(distances, axis=1)
    for empty in set(range(len(centres))) - set(labels.tolist()):
        spare = np.bincount(labels, minlength=len(centres))[labels] > 1
        own = distances[np.arange(len(labels)), labels]
        labels[np.argmax(np.where(spare, own, -1.0))] = empty
    return labels


def _means(places: Floats, weight: Floats, labels: Labels, clusters: int) -> Floats:
    member = (labels[:, None] == np.arange(clusters)) * weight[:, None]
    return np.asarray((member.T @ places) / member.sum(axis=0)[:, None])


def _spread(places: Floats, weight: Floats, labels: Labels, clusters: int) -> float:
    """Return the weighed sum of square distances to the own cluster's mean."""
    centres = _means(places, weight, labels, clusters)
    return float(np.sum(weight[:, None] * (places - centres[labels]) ** 2))
