"""CHOCO-SGD (Koloskova, Stich and Jaggi (2019), Alg. 2): compressed differences, with memories at both ends.

    x'_i = x_i - eta g_i(x_i)
    q_i  = Q(x'_i - h_i)                                             sent to all neighbours
    h_j <- h_j + q_j,  j = i and all neighbours
    x_i <- x'_i + gamma sum_j W[i, j] (h_j - h_i)

The memories h begin with 0. Of the neighbours' memories only s_i = sum_j W[i, j] h_j is kept, as in the text's version
for little memory. What Q leaves out stays in x' - h, and is sent later: that is the error feedback.

It is `adapt_then_combine` under `tacit.algorithms.compressed` with memories, which other methods can have too.
"""

from __future__ import annotations

from typing import Any, Literal

from tacit.algorithms._parts.descent import gradient_step
from tacit.algorithms._parts.mixing import averaged_step, first_model
from tacit.algorithms.compression import compressed
from tacit.algorithms.local_step import LocalStep, optimised, rate_of
from tacit.algorithms.registry import register
from tacit.core.contract import Algorithm, Mechanism, Objective, same_state, unprotected
from tacit.privacy import statement

Operator = Literal["top_k", "every_k", "sign", "int8", "int4"]
"""What Q makes of a difference: see `tacit.algorithms.compressed`."""


@register("Koloskova et al. (2019), Alg. 2", title="CHOCO-SGD")
def choco_sgd(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    operator: Operator = "top_k",
    share: float | None = None,
    gamma: float | None = None,
) -> Algorithm:
    """CHOCO-SGD: decentralised SGD whose messages are compressed differences to what was said before.

    In a round each agent takes a gradient step, sends what of the difference to its last known model few bytes can say,
    and moves to what its neighbours are known by. What was left out of a message is in the next difference. Peers write
    as few bytes as that takes. Links have to be the same in every round, and reliable.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default. A
        difference is made of what was released.
      operator: "top_k" (the largest numbers), "every_k" (every few-th, from a place drawn anew), "sign", "int8" or
        "int4".
      share: Of the numbers, for "top_k" and "every_k": the part that is sent, above 0 and below 1; 0.1 by default.
      gamma: How far an agent moves to what its neighbours are known by, above 0 and at most 1; by default that of
        `compressed`. Where models grow without end it is too large.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.choco_sgd(tacit.objectives.logistic(), step=0.3, operator="top_k", share=0.1)
      >>> stream = tacit.streams.logistic_drift(agents=8, dim=100)
      >>> run = tacit.simulate(method, tacit.graphs.ring(8), stream, rounds=20)
      >>> int(run.per_round["bits"][0, 0]) // 8 // 16  # bytes of a message: 10 numbers and 10 places
      60

    References:
      Koloskova, Stich and Jaggi (2019), Alg. 2.
    """
    descent = gradient_step(objective, rate_of(step), mechanism)
    made = Algorithm(
        name="choco_sgd",
        objective=objective,
        init={"peer": first_model},
        phases=(averaged_step(descent, "wait"),),
        model=lambda state: state,
        requires=frozenset({"strongly_connected", "symmetric", "doubly_stochastic", "reliable"}),
        privacy=statement(mechanism),
        weights="metropolis",
        continuation={"peer": same_state},
    )
    settings: dict[str, Any] = {} if share is None else {"share": share}
    whole = optimised(made, descent, lambda state: state)
    return compressed(whole, operator, memory=True, gamma=gamma, **settings)._replace(name="choco_sgd")
