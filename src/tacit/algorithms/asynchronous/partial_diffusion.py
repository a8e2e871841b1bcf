"""Partial sharing without a server: PAO-Fed's ideas among peers on a graph (beyond 001 ch. 4).

    psi_i = w_i - mu grad_i(w_i)                                                            whether it is there or not
    w_i   = psi_i + sum_j W[i, j] alpha**l_j S_j (psi_j - psi_i)                            over what arrives

S_j is the window of `share` coordinates that j sent, l_j the rounds that it was under way. With everybody there, no
delay and all coordinates shared it is adapt-then-combine diffusion. Coordinated windows and doubly stochastic weights
keep the mean over the peers; each peer's own windows do so on average over the rounds.

Noise goes on the step, and a peer's model is made of what was released: a record is charged once, for the round that
read it, however many windows carry what was learnt from it afterwards.
"""

from __future__ import annotations

import jax.numpy as jnp

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.mixing import first_model
from tacit.algorithms.asynchronous._windows import Late, Order, Windows, flat, shaped
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize, as_rate
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Inbox,
    Key,
    Mechanism,
    Message,
    Objective,
    Outbox,
    Params,
    Phase,
    Tree,
    View,
    share,
    unprotected,
)
from tacit.privacy import statement


@register("beyond 001 ch. 4", example={"share": 1})
def partial_diffusion(
    objective: Objective,
    step: StepSize = 0.1,
    mechanism: Mechanism = unprotected,
    *,
    share: int = 4,
    coordinated: bool = False,
    decay: float = 1.0,
    order: Order = "shift",
) -> Algorithm:
    """Diffusion in which peers send windows of `share` coordinates, whoever is there and however late they come."""
    windows = Windows(share, coordinated, order).validated()
    late = Late(decay).validated()
    descent = gradient_step(objective, as_rate(step), mechanism)

    def learn(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, descent.value(state, state, batch, view)

    def offer(state: Params, released: Tree, view: View) -> tuple[Params, Outbox]:
        moved = flat(descent.moved(state, state, released, view))
        w = jnp.where(view.fresh, moved, flat(state))
        return shaped(w, state), _window(windows, w, view)

    def combine(key: Key, state: Params, inbox: Inbox, view: View) -> Params:
        psi, weight = flat(state), view.into.weight

        def pull(total: Array, message: Message, slot: Array, age: Array) -> Array:
            where = windows.places(view.into.agent[slot], view.round - age, psi.size)
            scale = jnp.asarray(late.decay, psi.dtype) ** age * weight[slot].astype(psi.dtype)
            return total.at[where].add(scale * (message.private - psi[where]))

        return shaped(psi + inbox.fold(pull, jnp.zeros_like(psi)), state)

    return Algorithm(
        name="partial_diffusion",
        objective=objective,
        init={"peer": first_model},
        phases=(Phase("peers", learn, descent.mechanism, combine, offer),),
        model=lambda state: state,
        requires=frozenset({"strongly_connected", "receiver_normalised"}),
        privacy=statement(mechanism, "no text: an extension of 001 ch. 4"),
        weights="metropolis",
        missing="renormalise",
    )


def _window(windows: Windows, w: Array, view: View) -> Outbox:
    return share(windows.taken(w, view.agent, view.round))
