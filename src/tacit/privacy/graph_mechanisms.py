"""Noise that knows the graph (004 ch. 3 and 4), and Laplace noise of a given size for that text's comparisons.

The text declares the standard deviation sigma_g of the noise and not a loss of privacy: Laplace noise of scale
sigma_g / sqrt(2) on every coordinate of every message. What that is worth depends on what a record can change, which
only a clip bounds; without one these mechanisms promise nothing per record, and say so. (The text's own claim, for an
agent's whole data set and with a stated probability, is `tacit.privacy.trajectory_claim`.)

Who sees what:

- `per_edge`: whoever pools all of an agent's messages of a round sees as many independent noisy copies as it has links;
  they are charged together, its own copy too, from which later messages are made.
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

from tacit.core.contract import Adjacency, Array, Clip, Extent, Mechanism, Requirement, Spread, View
from tacit.core.errors import ConfigError
from tacit.privacy.mechanisms import Norm, Perturbs, check_one_of, largest_change, positive
from tacit.privacy.noise import DEFAULT_STEPS, check_size

_LARGEST_MASK = 2.0**5
"""Largest standard deviation of masks, at which single precision still has room for the values beside them."""


def laplace_of_size(
    noise_std: float,
    clip: float | None = None,
    norm: Norm = "l2",
    perturbs: Perturbs = "update",
    adjacency: Adjacency = "record",
) -> Mechanism:
    """Laplace noise of a given standard deviation, one draw for everybody; it promises nothing without a clip."""
    return _of_size("laplace_of_size", noise_std, clip, norm, perturbs, adjacency, "common")


def per_edge(
    noise_std: float, clip: float | None = None, norm: Norm = "l2", adjacency: Adjacency = "record"
) -> Mechanism:
    """Independent Laplace noise on every link (004 (4.24)-(4.26), the "random" scheme), own copy included.

    Its mean over the network does not vanish: the centroid's error gains a term of order noise_std^2 / step.
    """
    return _of_size("per_edge", noise_std, clip, norm, "model", adjacency, "per_edge")


def graph_homomorphic(
    noise_std: float,
    clip: float | None = None,
    norm: Norm = "l2",
    adjacency: Adjacency = "record",
    perron: Sequence[float] | None = None,
) -> Mechanism:
    """Noise whose (weighed) sum over the network is zero (004 (3.51), (4.50)): the centroid is left as it was.

    Agent p draws one g_p, adds it to what it sends, and - sum_r q_r W[r, p] / (q_p W[p, p]) times it to what it keeps:
    -(1 - W[p, p]) / W[p, p] on symmetric weights, where q is constant. Other weights need their Perron vector
    (`tacit.graphs.perron(graph).left`).

    Errata: for weights that are not symmetric the text multiplies what goes to r by W[p, r] / W[r, p]. It lacks q (the
    Perron-weighted sum is then not zero), it cannot be done on a link without its reverse, and two neighbours with
    different factors who compare notes solve for the value. One factor for all neighbours has none of these faults.
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
    """Masks that pairs of a receiver's senders agree on and that cancel there to the bit (004 (4.55)-(4.60)).

    Messages are the senders' weighed shares W[r, s] x_s on a fixed-point grid (`grid`, a step; the default is 2^-20 in
    single and 2^-40 in double precision, which holds sums up to 1,024 and 4 million) plus Laplace masks of standard
    deviation `noise_std`, in the unit of the weighed share. A difference of d between two shares costs whoever reads a
    message at most epsilon = sqrt(2) d / noise_std: masks have to be large beside what they are to hide. They are
    refused below 1,024 steps of the grid, which hide nothing. The run is `on_grid`'s, bit by bit. Simulated masks come
    from the seed, those of peers from X25519 -> HKDF -> ChaCha20. Errata: (4.60) prints the reciprocal of the scale.
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
    """No noise, on the fixed-point grid of `local_graph_homomorphic`: what its masked run is compared with."""
    return Mechanism("on_grid", spread="masked", grid=_step(grid))


def _step(grid: float | None) -> float | None:
    return None if grid is None else positive("grid", grid, "leave it out for the default")


def _of_size(
    name: str,
    noise_std: float,
    clip: float | None,
    norm: Norm,
    perturbs: Perturbs,
    adjacency: Adjacency,
    spread: Spread,
) -> Mechanism:
    scale = positive("noise_std", noise_std, "a larger one means more noise") / math.sqrt(2)
    check_one_of(norm=norm, perturbs=perturbs, adjacency=adjacency)
    limit = None if clip is None else Clip(positive("clip", clip, "leave it out for none"), norm)
    in_norm: Literal["l1", "l2"] = "l1"

    def sensitivity(view: View, extent: Extent) -> Array:
        change = math.inf if limit is None else largest_change(limit, in_norm, adjacency, extent)
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
        adjacency=adjacency,
        spread=spread,
    )
