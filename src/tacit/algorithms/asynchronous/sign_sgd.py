"""SignSGD with a majority vote (Gauthier (2023), sec. 4.4.5, baseline): clients send one bit per coordinate.

server:  sends w to the clients that are there                                                  "downlink"
client:  sends the signs of its gradient, eight to a byte                                       "uplink"
server:  w <- w - step * sign(sum of the signs that arrive)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.mixing import first_model
from tacit.algorithms._parts.per_client import around_one_server
from tacit.algorithms.asynchronous._windows import flat, shaped
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


@register("Gauthier (2023), sec. 4.4.5, SignSGD", title="Majority vote of signs (SignSGD)")
def sign_sgd(objective: Objective, step: StepSize = 0.01, mechanism: Mechanism = unprotected) -> Algorithm:
    """SignSGD with a majority vote: clients send the signs of their gradients, one bit per coordinate.

    In a round the server sends its model to the clients that are there, each sends back the signs of its gradient, and
    the server moves each coordinate by the step size against the majority; a tied vote moves nothing. That is 1/32 of
    the bits on the way up and nothing saved on the way down.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ...; 0.01 by default.
      mechanism: Noise on the gradient before its signs are taken, whatever the mechanism says that it perturbs; none by
        default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> tacit.algorithms.sign_sgd(tacit.objectives.logistic(), step=0.05).name
      'sign_sgd'

    References:
      Gauthier (2023), thesis, NTNU, sec. 4.4.5.
    """
    rate = as_rate(step)
    descent = gradient_step(objective, rate, mechanism._replace(perturbs="gradient"))

    def offer(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, state

    def download(key: Key, state: Params, inbox: Inbox, view: View) -> Params:
        heard = jnp.any(inbox.arrived)
        found: Params = jax.tree.map(lambda new, old: jnp.where(heard, new, old), inbox.sum().private, state)
        return found

    def differentiate(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, descent.value(state, state, batch, view, key)

    def vote(state: Params, released: Tree, view: View) -> tuple[Params, Outbox]:
        signs = jnp.packbits(flat(descent.whole(state, released)) >= 0)
        return state, share(signs, to=jnp.where(view.fresh, 1, -1)[None])

    def count(key: Key, state: Params, inbox: Inbox, view: View) -> Params:
        w = flat(state)

        def add(total: Array, message: Message, slot: Array, age: Array) -> Array:
            return total + 2 * jnp.unpackbits(message.private, count=w.size).astype(jnp.int32) - 1

        majority = jnp.sign(inbox.fold(add, jnp.zeros(w.size, jnp.int32)))
        return shaped(w - rate(view).astype(w.dtype) * majority.astype(w.dtype), state)

    return Algorithm(
        name="sign_sgd",
        objective=objective,
        init={"client": first_model, "server": first_model},
        phases=(
            Phase("downlink", offer, unprotected, download, source="server", target="client"),
            Phase("uplink", differentiate, descent.mechanism, count, vote, "client", "server", answers="downlink"),
        ),
        model=lambda state: state,
        requires=frozenset(),
        privacy=statement(mechanism, "no guarantee is claimed"),
        topology=around_one_server,
        learner="client",
        predictor="server",
        missing="renormalise",
    )
