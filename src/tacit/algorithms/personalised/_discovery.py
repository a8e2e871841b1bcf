"""Who belongs together, told from what clients have released: clusters that nobody knows in advance.

Beyond the texts, whose clusters are given (001 ch. 5). Learn one model for all first: `personalised_graph_federated`
with `clusters=1`. Where that has settled, a client's multiplier phi_k is its gradient at the common model, which points
away from what its own cluster would learn; and phi_k is made of models that the client has released and of what its
server sent it, so that both of them know it. `find_clusters` centres such vectors, keeps the few directions in which
they differ by more than chance would have it (at most one less than there are clusters), and groups them there.

Privacy: this is post-processing of released values and costs nothing by itself. The rounds that released them do cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.core.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
RESTARTS, MOST_STEPS = 20, 100
"""Of k-means."""
FLIPS = 100
"""A direction counts if it explains more than in every one of so many copies of the values with signs at random."""


class Found(NamedTuple):
    """Clusters as they were found."""

    labels: Labels
    """(clients,) from 0 on, in the order in which clusters first appear."""
    directions: int
    """In how many directions the released values were told apart."""
    explained: float
    """Share of the (weighed) variance in these directions that lies between clusters, 0 to 1."""


def find_clusters(released: ArrayLike, clusters: int, seed: int, weight: ArrayLike | None = None) -> Found:
    """Return in which of so many clusters each client is, by its released vector (clients, d).

    `weight` (clients,) says how much each vector is to be relied on; how many records a client holds, for instance.
    The same arguments give the same clusters. No cluster is empty.
    """
    values, reliance = _checked(released, clusters, weight)
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


def _checked(released: ArrayLike, clusters: int, weight: ArrayLike | None) -> tuple[Floats, Floats]:
    values = np.asarray(released, np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise DataError(
            f"released values of shape {values.shape}: expected (clients, d), all finite; average each client's rounds "
            "first, and leave out a run that diverged"
        )
    if isinstance(clusters, bool) or not isinstance(clusters, int) or not 1 <= clusters <= len(values):
        raise ConfigError(f"clusters = {clusters!r}: expected a whole number from 1 to {len(values)}, one client each")
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
    """Return the nearest centre of each; one that is nobody's gets whoever is farthest from its own."""
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
