"""Two of the methods against which the contract was written on paper (docs/design.md), without the trimmings of a product.

The package has them too; tests of jobs and of the engine use these, which are shorter.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tacit.core.contract import Algorithm, Phase, PrivacyStatement, share, unprotected


def _plain(**fields):
    defaults = {"privacy": PrivacyStatement.none(), "requires": frozenset()}
    return Algorithm(**{**defaults, **fields})


def adapt_then_combine(objective, step):
    """Rizk (2023), (4.x): psi = w - mu grad J(w); w = sum_j W[i, j] psi_j."""

    def compute(key, state, batch, view):
        psi = jax.tree.map(lambda w, g: w - step * g, state, jax.grad(objective.loss)(state, batch))
        return state, psi

    return _plain(
        name="adapt_then_combine",
        objective=objective,
        init={"peer": lambda key, params, views: params},
        phases=(Phase("peers", compute, unprotected, lambda k, s, inbox, v: inbox.mix().private),),
        model=lambda state: state,
        requires=frozenset({"symmetric", "doubly_stochastic", "reliable"}),
        weights="metropolis",
    )


def sampled_fedavg(objective, step, cohort, clients):
    """Rizk (2023), ch. 2: the server calls `cohort` of its clients; only these work, answer, and are waited for."""

    def call(key, state, batch, view):
        chosen = 1 + jax.random.choice(key, clients, (cohort,), replace=False)
        return {**state, "chosen": chosen.astype(jnp.int32)}, state["w"]

    def send(state, released, view):
        return state, share(released, to=state["chosen"])

    def download(key, state, inbox, view):
        message, found = inbox.newest()
        return jnp.where(found[1], message.private[1], state)

    def train(key, state, batch, view):
        moved = state - step * jax.grad(objective.loss)(state, batch)
        return moved, moved

    def average(key, state, inbox, view):
        count = jnp.sum(inbox.arrived)
        return {**state, "w": jnp.where(count > 0, inbox.sum().private / jnp.maximum(count, 1), state["w"])}

    return _plain(
        name="sampled_fedavg",
        objective=objective,
        init={
            "client": lambda key, params, views: params,
            "server": lambda key, params, views: {"w": params, "chosen": jnp.zeros(cohort, jnp.int32)},
        },
        phases=(
            Phase("downlink", call, unprotected, download, send, source="server", target="client"),
            Phase("uplink", train, unprotected, average, source="client", target="server", answers="downlink"),
        ),
        model=lambda state: state["w"],
        learner="client",
        predictor="server",
    )
