"""Constraints held by dual variables: what `constrained_mirror_descent` and `lagrangian_descent` have in common.

A peer holds its model x and one dual variable per constraint, which weighs the constraint's gradient in the step and
grows while the constraint is violated. In a round, for weights w(dual) >= 0,

    ghat = clipped grad [f + <w, c>](x) + noise;   z = mirror step from x by eta ghat;   x = sum_j W[i, j] z_j
    dual <- ascend(dual, c(x), <grad c(x), z - x>)

The dual variable stays with the peer: nobody is sent it. Yet it was made of data, and weighs in every later step, so
that a record has a say in all of them. Two ways to account for that:

- dual = "private", the texts' way: c(x) enters the dual as it is. Every release is charged to every record, and since
  the weight is common to all records of a batch, at the sensitivity of a batch of one.
- dual = "released": gradient and value of the constraint leave compute through the mechanism too, clipped together with
  the gradient of the loss. All states are made of released values, and records compose in parallel.

Constraints on the parameters alone (`reads_data=False`) let no data into the dual: with a private one, too, records
compose in parallel then, and there is nothing to release.

Erratum (000 ch. 3 and 4): the texts noise the loss's gradient alone and claim eps for the run, though the constraint is
a function of the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from tacit.algorithms.sight import Observation, constraints_kept, constraints_released
from tacit.contract import (
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
    share,
)
from tacit.errors import ConfigError
from tacit.objectives import Constraint, MirrorMap
from tacit.objectives.constraints import as_constraints, stacked
from tacit.privacy import statement

Dual = Literal["private", "released"]
Ascent = Callable[[Array, Array, Array, View], Array]
"""(duals (k,), values c(x) (k,), changes <grad c(x), z - x> (k,), view) -> next duals (k,)."""


class State(NamedTuple):
    """What a peer holds."""

    model: Params
    duals: Array
    """(k,), >= 0."""
    seen: Observation | tuple[()]
    """Between compute and emit, where the dual is private; it never leaves."""


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
    _check(name, mechanism, dual)
    loss = objective.loss
    data, penalty = (loss.data, jax.grad(loss.regulariser)) if isinstance(loss, Separable) else (loss, None)
    # A step that was released is the gradient times a number that everybody knows: the same noise for the same eps.
    noise = mechanism._replace(perturbs="gradient")
    if dual == "private":
        sight = constraints_kept(data, stacked(limits), noise.clip, needs_slopes)
    else:
        sight = constraints_released(data, stacked(limits), noise.clip)
    data_in_dual = dual == "private" and any(each.reads_data for each in limits)
    if data_in_dual:
        noise = noise.for_whole_batch()

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        duals = jnp.zeros(len(limits), views["peers"].into.weight.dtype)
        slopes = jax.tree.map(lambda leaf: jnp.zeros((len(limits), *leaf.shape), leaf.dtype), params)
        return State(params, duals, Observation(duals, slopes if needs_slopes else ()) if dual == "private" else ())

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        seen, value = sight.look(state.model, weigh(state.duals), batch)
        return state._replace(seen=seen), value

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        x = state.model
        gradient, observed = sight.read(weigh(state.duals), released, state.seen)
        whole = gradient if penalty is None else jax.tree.map(jnp.add, gradient, penalty(x))
        z = mirror.step(x, jax.tree.map(lambda g: step(view.round).astype(g.dtype) * g, whole))
        changes = observed.changes(x, z) if needs_slopes else jnp.zeros_like(observed.values)
        duals = ascend(state.duals, observed.values, changes, view).astype(state.duals.dtype)
        return state._replace(duals=duals), share(z)

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
    )


def _check(name: str, mechanism: Mechanism, dual: Dual) -> None:
    if dual not in get_args(Dual):
        raise ConfigError(f"dual = {dual!r}: expected one of {', '.join(get_args(Dual))}")
    if mechanism.distribution is not None and mechanism.perturbs == "model":
        raise ConfigError(
            f"mechanism {mechanism.name!r} noises the model, but {name} releases what it learns of loss and "
            "constraints; say perturbs='gradient'"
        )
    if mechanism.finish is not None and dual == "released":
        raise ConfigError(
            f"mechanism {mechanism.name!r} reshapes what it noises, which the values of constraints do not survive; "
            "use laplace or gaussian noise, or dual = 'private'"
        )
