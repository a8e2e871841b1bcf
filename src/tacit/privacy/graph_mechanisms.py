"""Graph-aware noise after Rizk (2023, ch. 3 and 4), and Laplace noise of a given size for comparisons with it.

Rizk declares the standard deviation sigma_g of the noise and not a loss of privacy: Laplace noise of scale
sigma_g / sqrt(2) on every coordinate of every message. Its worth depends on the largest change by a record, which only
a clip bounds; without one these mechanisms promise nothing per record, and say so.

Views of an attacker:

- `per_edge`: an observer of all of an agent's messages of a round sees as many independent noisy copies as it has
  links; they are charged together, its own copy too, from which later messages are made.
- `graph_homomorphic`: neighbours that pool see one noisy copy. But what an agent keeps makes up for the noise that it
  sent out, so a record stays in its private state and is in every later message as well: all of them are charged to
  it, with a sensitivity that grows with every step.
- `local_graph_homomorphic`: a wire-tapper, or a neighbour of the receiver that is no partner in a mask, sees a message
  under at least one Laplace mask. The receiver sees every message masked and learns the exact weighed sum of its
  senders' values, which is no differential privacy towards the receiver: with one sender's partners on its side it
  learns that sender's value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import jax.numpy as jnp
import numpy as np

from tacit.core.checks import positive
from tacit.core.contract import Array, Extent, Mechanism, Requirement, Spread, View
from tacit.core.errors import ConfigError
from tacit.privacy.mechanisms import Norm, Perturbs, Unit, check_words, largest_change, of_unit
from tacit.privacy.noise.fixed_point import DEFAULT_STEPS
from tacit.privacy.noise.mask_noise import check_size

_LARGEST_MASK = 2.0**5
"""Largest standard deviation of masks, at which single precision still has room for the values beside them."""


def laplace_of_size(
    noise_std: float,
    clip: float | None = None,
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    adjacency: Unit = "record",
) -> Mechanism:
    """Laplace noise of a given standard deviation, the same draw to all neighbours.

    Each round an agent releases its value plus independent noise on every coordinate; each release is booked at
    epsilon = sqrt(2) x (l1 sensitivity) / noise_std, and without a clip nothing is promised.

    Args:
      noise_std: Standard deviation per coordinate, in the unit of what is released; above 0 and finite.
      clip: Largest norm of one record's gradient, above 0; None (the default) clips nothing and promises nothing.
      norm: Norm of the clip.
      perturbs: What the noise is put on: the update, the gradient or the model.
      adjacency: Unit of the promise: a record, a component of its gradient, or an agent's data set, of which each
        record is clipped ("dataset") or what all give together ("agent").

    Returns:
      A mechanism for the constructor of a method.

    Example:
      >>> from tacit.privacy import laplace_of_size
      >>> laplace_of_size(0.2).clip is None  # noise without a promise
      True
    """
    return _of_size("laplace_of_size", noise_std, clip, norm, perturbs, adjacency, "common")


def per_edge(noise_std: float, clip: float | None = None, norm: Norm = "l2", adjacency: Unit = "record") -> Mechanism:
    """Independent Laplace noise on every link, the agent's own copy included.

    Each round an agent releases one noisy copy of its model per out-link and one to itself; the 1 + degree copies are
    booked as one release of that many times the sensitivity. The noise's mean over the network does not vanish: the
    centroid's error gains a term of order noise_std^2 / step.

    Args:
      noise_std: Standard deviation per coordinate and link, in the unit of the model; above 0 and finite.
      clip: Largest norm of one record's gradient, above 0; None (the default) clips nothing and promises nothing.
      norm: Norm of the clip.
      adjacency: Unit of the promise: a record, a component of its gradient, or an agent's data set, of which each
        record is clipped ("dataset") or what all give together ("agent").

    Returns:
      A mechanism for the constructor of a method.

    Example:
      >>> from tacit.privacy import per_edge
      >>> per_edge(0.2, clip=1.0).spread
      'per_edge'

    References: Rizk (2023), eqs. (4.24)-(4.26), the "random" scheme.
    """
    return _of_size("per_edge", noise_std, clip, norm, "model", adjacency, "per_edge")


def graph_homomorphic(
    noise_std: float,
    clip: float | None = None,
    norm: Norm = "l2",
    adjacency: Unit = "record",
    perron: Sequence[float] | None = None,
) -> Mechanism:
    """Laplace noise whose (weighted) sum over the network is zero: the centroid stays as it was.

    Each round agent p releases its model plus one draw g_p to all neighbours, and keeps its model plus
    -sum_r q_r W[r, p] / (q_p W[p, p]) times g_p: -(1 - W[p, p]) / W[p, p] on symmetric weights, where q is constant.
    Every release is booked for every record, at a sensitivity that grows with the steps.

    Args:
      noise_std: Standard deviation of g_p per coordinate, in the unit of the model; above 0 and finite.
      clip: Largest norm of one record's gradient, above 0; None (the default) clips nothing and promises nothing.
      norm: Norm of the clip.
      adjacency: Unit of the promise: a record, a component of its gradient, or an agent's data set, of which each
        record is clipped ("dataset") or what all give together ("agent").
      perron: q, one positive number per agent, for weights that are not doubly stochastic
        (`tacit.graphs.perron(graph).left`); None: constant.

    Returns:
      A mechanism for the constructor of a method; its links must be reliable, with a self-weight.

    Example:
      >>> from tacit.privacy import graph_homomorphic
      >>> sorted(graph_homomorphic(0.2).requires)
      ['doubly_stochastic', 'hears_itself', 'reliable']

    References: Rizk (2023), eqs. (3.51) and (4.50). Errata: for weights that are not symmetric the text multiplies what
    goes to r by W[p, r] / W[r, p]. It lacks q (the Perron-weighted sum is then not zero), it cannot be done on a link
    without its reverse, and two neighbours with different factors that pool solve for the value. One factor for all
    neighbours has none of these faults.
    """
    shares = None if perron is None else np.asarray(perron, np.float64)
    if shares is not None and (shares.ndim != 1 or not np.all(np.isfinite(shares) & (shares > 0))):
        raise ConfigError(f"perron = {perron!r}: expected one positive number per agent")

    def own_share(view: View) -> Array:
        out, own = view.out.weight[1:], view.out.weight[0]
        if shares is None:
            return -jnp.sum(out) / own
        q = jnp.asarray(shares, out.dtype)
        heard = jnp.where(view.out.live[1:], q[view.out.agent[1:]], 0)
        return -jnp.sum(heard * out) / (q[view.agent] * own)

    made = _of_size("graph_homomorphic", noise_std, clip, norm, "model", adjacency, "homomorphic")
    needs: frozenset[Requirement] = frozenset({"doubly_stochastic" if shares is None else "fixed"})
    return made._replace(own_share=own_share, requires=needs | {"hears_itself", "reliable"})


def local_graph_homomorphic(noise_std: float, grid: float | None = None) -> Mechanism:
    """Masks that pairs of a receiver's senders agree on and that cancel in its sum to the bit.

    Each round sender s releases to receiver r its weighted share W[r, s] x_s on a fixed-point grid plus Laplace masks.
    The run is that of `on_grid`, bit by bit. Nothing is booked: the receiver learns the exact sum. A reader of one
    message pays at most epsilon = sqrt(2) d / noise_std for two shares that differ by d, so masks have to be large
    beside the values that they hide. Simulated masks come from the seed, those of peers from X25519, HKDF and ChaCha20.

    Args:
      noise_std: Standard deviation of one mask, in the unit of the weighted share; at least sqrt(2) x 1,024 steps of
        the grid (below that a value's digits show) and at most 32 (above, single precision has no room left).
      grid: Step of the grid, above 0; None: 2^-20 in single precision (sums up to 1,024), 2^-40 in double (4 million).

    Returns:
      A mechanism for the constructor of a method; links must be fixed and reliable, with several senders a receiver.

    Example:
      >>> from tacit.privacy import local_graph_homomorphic
      >>> local_graph_homomorphic(2.0).spread
      'masked'

    References: Rizk (2023), eqs. (4.55)-(4.60). Errata: (4.60) prints the reciprocal of the scale.
    """
    size = positive("noise_std", noise_std, "larger masks hide more")
    if size > _LARGEST_MASK:
        raise ConfigError(
            f"noise_std = {noise_std!r}: masks above {_LARGEST_MASK:g} leave single precision no room; scale the values"
        )
    scale, step = size / math.sqrt(2), _step(grid)
    check_size(scale, min(DEFAULT_STEPS) if step is None else step)  # at which precision only a run knows
    return Mechanism(
        "local_graph_homomorphic",
        spread="masked",
        grid=step,
        mask_scale=scale,
        requires=frozenset({"fixed", "reliable", "several_senders"}),
    )


def on_grid(grid: float | None = None) -> Mechanism:
    """No noise, on the fixed-point grid of `local_graph_homomorphic`: the run that a masked one must equal.

    Args:
      grid: Step of the grid, above 0; None: 2^-20 in single precision, 2^-40 in double.

    Returns:
      A mechanism for the constructor of a method.

    Example:
      >>> from tacit.privacy import on_grid
      >>> on_grid().mask_scale
      0.0
    """
    return Mechanism("on_grid", spread="masked", grid=_step(grid))


def _step(grid: float | None) -> float | None:
    return None if grid is None else positive("grid", grid, "leave it out for the default")


def _of_size(
    name: str,
    noise_std: float,
    clip: float | None,
    norm: Norm,
    perturbs: Perturbs,
    adjacency: Unit,
    spread: Spread,
) -> Mechanism:
    scale = positive("noise_std", noise_std, "a larger one means more noise") / math.sqrt(2)
    check_words(norm=norm, perturbs=perturbs, adjacency=adjacency)
    bound = None if clip is None else positive("clip", clip, "leave it out for none")
    relation, given = of_unit(adjacency, bound or 0.0, norm)
    limit = None if bound is None else given
    in_norm: Literal["l1", "l2"] = "l1"

    def sensitivity(view: View, extent: Extent) -> Array:
        change = math.inf if limit is None else largest_change(limit, in_norm, relation, extent)
        return jnp.asarray(change, jnp.result_type(float))

    def declared(view: View, sensitivity: Array) -> Array:
        return jnp.asarray(scale, jnp.result_type(float))

    return Mechanism(
        name,
        "laplace",
        sensitivity,
        declared,
        clip=limit,
        perturbs=perturbs,
        adjacency=relation,
        spread=spread,
    )
