"""Partial sharing without a server: PAO-Fed's ideas among peers on a graph (beyond Gauthier (2023), ch. 4).

    psi_i = w_i - mu grad_i(w_i)                                                            whether it is there or not
    w_i   = psi_i + sum_j W[i, j] alpha**l_j S_j (psi_j - psi_i)                            over what arrives

S_j is the window of `share` coordinates that j sent, l_j the rounds that it was under way.

Noise goes on the step, and a peer's model is made of what was released: a record is charged once, for the round that
read it, however many windows carry what was learnt from it afterwards.
"""

from __future__ import annotations

import jax.numpy as jnp

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.mixing import first_model
from tacit.algorithms.asynchronous._windows import Late, Order, Windows, flat, shaped
from tacit.algorithms.local_step import LocalStep, optimised, rate_of
from tacit.algorithms.registry import register
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
    same_state,
    share,
    unprotected,
)
from tacit.privacy import statement


@register("beyond Gauthier (2023), ch. 4", {"share": 1}, title="Diffusion with partial sharing")
def partial_diffusion(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    *,
    share: int = 4,
    coordinated: bool = False,
    decay: float = 1.0,
    order: Order = "shift",
) -> Algorithm:
    """Diffusion with partial sharing: peers send windows of their models, however late these come.

    In a round each peer takes a step, sends `share` coordinates of the outcome, and moves those coordinates that
    arrive towards their senders' values, by weight and delay. With all peers there, no delay and all coordinates shared
    it is `adapt_then_combine`. Coordinated windows and doubly stochastic weights keep the mean over the peers; each
    peer's own windows do so on average over the rounds.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      share: Coordinates of a model that a message holds, from 1 on, at most all.
      coordinated: Whether all peers share the same window in a round; by default each has its own.
      decay: A window that was under way for l rounds counts decay**l, from 0 to 1; 1 by default.
      order: "shift", each window begins where the last one ended, or "random".

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> sorted(tacit.algorithms.partial_diffusion(tacit.objectives.squared(), share=2).requires)
      ['receiver_normalised', 'strongly_connected']

    References:
      Gauthier (2023), thesis, NTNU, ch. 4, of which this is an extension.
    """
    windows = Windows(share, coordinated, order).validated()
    late = Late(decay).validated()
    descent = gradient_step(objective, rate_of(step), mechanism)

    def learn(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, descent.value(state, state, batch, view, key)

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

    made = Algorithm(
        name="partial_diffusion",
        objective=objective,
        init={"peer": first_model},
        phases=(Phase("peers", learn, descent.mechanism, combine, offer),),
        model=lambda state: state,
        requires=frozenset({"strongly_connected", "receiver_normalised"}),
        privacy=statement(mechanism, "no text: an extension of Gauthier (2023), ch. 4"),
        weights="metropolis",
        missing="renormalise",
        continuation={"peer": same_state},
    )
    return optimised(made, descent, lambda state: state)


def _window(windows: Windows, w: Array, view: View) -> Outbox:
    return share(windows.taken(w, view.agent, view.round))
