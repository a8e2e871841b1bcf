"""Primal-dual round of `constrained_mirror_descent` and `lagrangian_descent`.

A peer holds its model x and one dual variable per constraint, which weighs the constraint's gradient in the step and
grows while the constraint is violated. In a round, for weights w(dual) >= 0,

    ghat = clipped grad [f + <w, c>](x) + noise;   z = mirror step from x by eta ghat;   x = sum_j W[i, j] z_j
    dual <- ascend(dual, c(x), <grad c(x), z - x>)

The dual variable stays with the peer. Yet it was made of data, and weighs in every later step, so
that a record has a say in all of them. Two ways to account for that:

- dual = "private", the texts' way: c(x) enters the dual as it is. Every release is charged to every record, and since
  the weight is common to all records of a batch, at the sensitivity of a batch of one.
- dual = "released": gradient and value of the constraint leave compute through the mechanism too, clipped together with
  the gradient of the loss. All states are made of released values, and records compose in parallel.

Constraints on the parameters alone (`reads_data=False`) let no data into their dual, nor into the step: <w, grad c(x)>
joins the gradient after the noise, unclipped, as the regulariser does. Where there are no others, records compose in
parallel with a private dual, too. The runtimes follow the data and refuse a constraint that only says so.

Erratum (Dissertation, ch. 3 and 4): the texts noise the loss's gradient alone and claim eps for the run, though the
constraint is a function of the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.batches import counted, of_own_records
from tacit.algorithms._parts.perturbation import added, whole_gradient
from tacit.algorithms.mirror._observations import (
    Both,
    Dual,
    Observation,
    dual_observation,
    nothing,
    observed,
    of_both,
    validate_noise,
)
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Inbox,
    Key,
    Mechanism,
    Objective,
    Outbox,
    Params,
    Phase,
    Schedule,
    Separable,
    Tree,
    View,
    same_state,
    share,
)
from tacit.objectives import Constraint, MirrorMap
from tacit.objectives.constraints import as_constraints, stacked
from tacit.privacy import statement

Ascent = Callable[[Array, Array, Array, View], Array]
"""(duals (k,), values c(x) (k,), changes <grad c(x), z - x> (k,), view) -> next duals (k,)."""


class State(NamedTuple):
    """State of a peer."""

    model: Params
    duals: Both
    """(k,) of either kind, >= 0."""
    seen: Both
    """Between compute and emit: of constraints that read data where the dual is private; it never leaves."""


def primal_dual(
    name: str,
    objective: Objective,
    constraints: Constraint | Sequence[Constraint],
    mechanism: Mechanism,
    mirror: MirrorMap,
    dual: Dual,
    *,
    step: Schedule,
    weigh: Callable[[Array], Array],
    ascend: Ascent,
    needs_slopes: bool,
    text_claims: str,
) -> Algorithm:
    """Return the method with this step, these weights of the constraints' gradients and this ascent of the duals."""
    limits = as_constraints(constraints)
    kinds = Both(*(tuple(each for each in limits if bool(each.reads_data) is reads) or None for reads in (True, False)))
    validate_noise(name, mechanism, dual, kinds)
    values = of_both(stacked, kinds)
    loss = objective.loss
    data, penalty = (loss.data, jax.grad(loss.regulariser)) if isinstance(loss, Separable) else (loss, None)
    # A step that was released is the gradient times a number that is known to all: the same noise for the same eps.
    noise, joined = whole_gradient(mechanism._replace(perturbs="gradient"))
    observation = dual_observation(data, values.reading, noise.clip, dual, needs_slopes)
    data_in_dual = dual == "private" and kinds.reading is not None
    noise = noise.for_whole_batch() if data_in_dual else of_own_records(noise, apart=True)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        dtype = views["peers"].into.weight.dtype
        first = of_both(lambda own, slopes: nothing(len(own), params, dtype, slopes), kinds, Both(needs_slopes, True))
        kept = first if dual == "private" else first._replace(reading=None)
        return State(params, of_both(lambda own: own.values, first), kept)

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        kept, value = observation.observe(state.model, of_both(weigh, state.duals).reading, batch, counted(batch, view))
        free = None if values.free is None else observed(values.free, state.model, batch)
        return state._replace(seen=Both(kept, free)), value

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        x, weights = state.model, of_both(weigh, state.duals)
        gradient, told = observation.read(weights.reading, released, state.seen.reading)
        pull = None if state.seen.free is None else state.seen.free.pull(weights.free)
        rest = pull if penalty is None else added(penalty(x), pull)
        z = mirror.step(x, jax.tree.map(lambda g: step(view.round).astype(g.dtype) * g, joined(gradient, rest)))

        def ascended(duals: Array, seen: Observation) -> Array:
            changes = seen.changes(x, z) if needs_slopes else jnp.zeros_like(seen.values)
            return ascend(duals, seen.values, changes, view).astype(duals.dtype)

        return state._replace(duals=of_both(ascended, state.duals, state.seen._replace(reading=told))), share(z)

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        return state._replace(model=inbox.mix().private)

    return Algorithm(
        name=name,
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", compute, noise, absorb, emit),),
        model=lambda state: state.model,
        requires=frozenset({"strongly_connected", "receiver_normalised", "reliable"}),
        privacy=statement(noise, text_claims, "sequential" if data_in_dual else "parallel"),
        domain=mirror,
        constraints={each.name: each.value for each in limits},
        continuation={"peer": same_state},
    )
