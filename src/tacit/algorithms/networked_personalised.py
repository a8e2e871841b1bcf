"""Networked personalised learning, NPFL, and its mixing tuned by reinforcement learning, NPFL-RL (001 ch. 6, Alg. 6).

Peers without a server, each in a cluster. Neighbours of one cluster ("cluster" links) agree on a model by ADMM; those
of others ("bridge" links) pull with a strength tau_k:

    w_k(tau) = argmin f_k(w) + (tau / 2) ||w - wb_k||^2 + <gamma_k, w> + (rho / 2) sum_l ||w - (u_k + u_l) / 2||^2
    wb_k     = mean over the other clusters that k hears of the mean of their models                  (6.3), (6.5)
    gamma_k <- gamma_k + (rho / 2) sum_l (u_k - u_l)              over neighbours of the own cluster

For squares (`objectives.squared`, half of the text's loss) this is (6.11) with the text's tau and rho; gamma is half of
its. Erratum: (6.6) prints the multiplier's step with the opposite sign, which drives neighbours apart and diverges.
Erratum: (6.11) has rho |N_k| where (6.5) leads to the neighbours of the own cluster only.

After its primal step an agent moves tau by what that does to its loss on records that it holds back (`validation` of
the batch, see `tacit.streams.with_validation`), clipped to [0, 1]; several `epochs` in a row are its batch versions:

    "gradient"       tau <- tau - rate dV(w_k(tau)) / dtau, of half the text's loss half its slope     (6.13), DPG
    "actor_critic"   a = tau + alpha, alpha uniform on [-width / 2, width / 2];
                     tau <- tau - rate sign(V(w_k(a)) - V(w_k(tau))) alpha                            (6.14), SAC

Whom nobody of another cluster pulls has no use for tau; who has no neighbour at all learns alone, which needs l2 > 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms import admm, policies, proximal
from tacit.algorithms.policies import Policy
from tacit.algorithms.registry import register
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
    Requirement,
    Tree,
    View,
    share,
    unprotected,
)
from tacit.errors import ConfigError
from tacit.graphs import Topology
from tacit.privacy import statement

NEEDS: frozenset[Requirement] = frozenset({"symmetric", "fixed", "reliable"})


class State(NamedTuple):
    """What a peer carries."""

    shared: admm.State
    """Among the own cluster."""
    bridged: Params
    """wb, of what was heard last."""
    hears_others: Array
    """Whether anybody of another cluster was heard: 1 or 0."""
    tau: Array
    residual: Array


@register("001 Alg. 6")
def networked_personalised(
    objective: Objective,
    mechanism: Mechanism = unprotected,
    penalty: float = 3.0,
    tau: float = 0.05,
    policy: Policy = "fixed",
    rate: float = 0.001,
    width: float = 0.05,
    epochs: int = 1,
    newton_steps: int = proximal.NEWTON_STEPS,
) -> Algorithm:
    """NPFL and NPFL-RL: a model per cluster without a server, other clusters pulling with a strength that is tuned.

    It runs on a graph with clusters (`graph.with_clusters`). `tau` is the strength, or where it starts.
    """
    rho = admm.positive("penalty", penalty) / 2
    tuned = policies.checked(mechanism, tau, policy, rate, width, epochs)

    def curvature(state: State, strength: Array, view: View) -> Array:
        return 2 * rho * view.into.degree + strength * state.hears_others

    def smallest(view: View) -> Array:
        """The curvature that a sensitivity counts with: the pull of others may not have been heard yet."""
        return 2 * rho * view.into.degree.astype(jnp.result_type(float))

    step = proximal.proximal_step(objective, mechanism, smallest, "networked_personalised", newton_steps)

    def pulled(state: State, strength: Array, view: View) -> tuple[Params, Array]:
        total = admm.pull(state.shared, rho, view) + strength * state.hears_others * state.bridged
        return total, curvature(state, strength, view)

    def solved(state: State, strength: Array, batch: Batch, view: View) -> proximal.Solution:
        return step.solve(*pulled(state, strength, view), batch, view)

    def next_tau(key: Key, state: State, batch: Batch, view: View) -> Array:
        def judged(strength: Array) -> Array:
            return objective.loss(solved(state, strength, batch, view).w, batch.validation)

        move = policies.mover(policy, judged, rate, width)
        moved: Array = jax.lax.fori_loop(0, epochs, lambda e, at: move(jax.random.fold_in(key, e), at), state.tau)
        return moved

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        zero = jnp.zeros((), params.dtype)
        return State(admm.started(params, views["cluster"]), params, zero, zero + tau, zero)

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        if tuned and batch.validation is None:
            raise ConfigError(
                f"policy = {policy!r} tunes tau on records held back, but the stream has none; add them with "
                "tacit.streams.with_validation(stream, validation)"
            )
        pull, mu = pulled(state, state.tau, view)
        solution = step.solve(pull, mu, batch, view)
        value = step.value(pull, mu, solution.w, view)
        strength = next_tau(key, state, batch, view) if tuned else state.tau
        residual = proximal.noted(mechanism, state.residual, solution)
        return state._replace(tau=strength, residual=residual), value

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        u = step.moved(*pulled(state, state.tau, view), released, view)  # tau is tuned for models sent as they are
        return state._replace(shared=state.shared._replace(u=u)), share(u)

    def agree(key: Key, state: State, inbox: Inbox, view: View) -> State:
        return state._replace(shared=admm.hear(state.shared, rho, inbox, view))

    def show(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        return state, state.shared.u

    def across(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        return state, share(released, public=jnp.asarray(view.cluster, jnp.int32))

    def hear_others(key: Key, state: State, inbox: Inbox, view: View) -> State:
        others = inbox.arrived & (inbox.slot > 0)
        heard = inbox.values()
        same = (heard.public[:, None] == heard.public) & others[:, None] & others
        share_of = jnp.where(others, 1 / jnp.maximum(jnp.sum(same, axis=1), 1), 0).astype(heard.private.dtype)
        clusters = jnp.sum(share_of)  # each of those heard adds up to one
        bridged = (share_of @ heard.private) / jnp.maximum(clusters, 1)
        return state._replace(bridged=bridged, hears_others=jnp.minimum(clusters, 1))

    return Algorithm(
        name="networked_personalised",
        objective=objective,
        init={"peer": init},
        phases=(
            Phase("cluster", compute, step.mechanism, agree, emit),
            Phase("bridge", show, unprotected, hear_others, across),
        ),
        model=lambda state: state.shared.u,
        requires=NEEDS,
        privacy=statement(mechanism, "no guarantee is claimed", "parallel", proximal.ASSUMPTIONS),
        check=lambda given: _refuse_unsolvable(given, step.l2),
        prepare=step.prepare,
        diagnostics={"tau": lambda state: state.tau, "residual": lambda state: state.residual},
    )


def _refuse_unsolvable(given: Topology, l2: float) -> None:
    """Refuse a graph without clusters, and agents whose local problem has no unique solution."""
    if not {"cluster", "bridge"} <= given.links.keys():
        raise ConfigError(
            f"networked_personalised got links {', '.join(sorted(given.links))}; say who belongs to which cluster with "
            "graph.with_clusters([0, 1, ...]), or clusters = [0, 1, ...] in a file's [graph]"
        )
    labels = given.clusters.get("peer", np.zeros(given.roles["peer"], np.int32))
    for name, inside in (("cluster", True), ("bridge", False)):
        links = given.links[name]
        strange = np.flatnonzero((labels[links.senders] == labels[links.receivers]) != inside)
        if strange.size:
            a, b = links.senders[strange[0]], links.receivers[strange[0]]
            raise ConfigError(
                f"the link {a} -> {b} is of {name!r}, but agent {a} is in cluster {labels[a]} and agent {b} in "
                f"{labels[b]}; {name!r} links lead {'within one cluster' if inside else 'from one cluster to another'}"
            )
    alone = np.flatnonzero(given.links["cluster"].in_degree == 0)
    if alone.size and l2 == 0:
        raise ConfigError(
            f"agent {alone[0]} has no neighbour of its own cluster, so that nothing makes its local problem's solution "
            "unique; link it to one, or give the objective l2 > 0"
        )
