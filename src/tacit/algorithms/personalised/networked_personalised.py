"""Networked personalised learning, NPFL, and its mixing tuned on data, NPFL-RL (Gauthier (2023), ch. 6, Alg. 6).

    w_k(tau) = argmin f_k(w) + (tau / 2) ||w - wb_k||^2 + <gamma_k, w> + (rho / 2) sum_l ||w - (u_k + u_l) / 2||^2
    wb_k     = mean over the other clusters that k hears of the mean of their models                  (6.3), (6.5)
    gamma_k <- gamma_k + (rho / 2) sum_l (u_k - u_l)              over neighbours of the own cluster

For squares (`objectives.squared`, half of the text's loss) this is (6.11) with the text's tau and rho; gamma is half of
its. With V(tau) the loss of w_k(tau) on records held back, clipped to [0, 1], the policies are

    "gradient"       tau <- tau - rate dV / dtau, of half the text's loss half its slope     (6.13), DPG
    "actor_critic"   a = tau + alpha, alpha uniform on [-width / 2, width / 2];
                     tau <- tau - rate sign(V(a) - V(tau)) alpha                             (6.14), SAC

Errata: (6.6) prints the multiplier's step with the opposite sign, which drives neighbours apart and diverges. (6.11)
has rho |N_k| where (6.5) leads to the neighbours of the own cluster only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from tacit.algorithms._parts import multipliers as admm
from tacit.algorithms._parts import proximal
from tacit.algorithms.personalised._clusters import mean_of_others, refuse_unsolvable
from tacit.algorithms.registry import register
from tacit.core.checks import one_of, positive, proportion, whole_number
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
    Tree,
    View,
    share,
    unprotected,
)
from tacit.core.errors import ConfigError
from tacit.privacy import statement

Policy = Literal["fixed", "gradient", "actor_critic"]
Judged = Callable[[Array], Array]
"""Strength -> the loss on records held back."""


class State(NamedTuple):
    """State of a peer."""

    shared: admm.State
    """Among the own cluster."""
    bridged: Params
    """wb, of what was heard last; at first its own start, as if all others began there."""
    hears_others: Array
    """Whether any agent of another cluster is heard: 1 or 0."""
    tau: Array
    residual: Array


@register("Gauthier (2023), Alg. 6", title="Networked personalised learning (NPFL)")
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
    """Networked personalised learning (NPFL, NPFL-RL): one model per cluster without a server.

    In a round each agent minimises its loss, pulled by ADMM to the neighbours of its own cluster ("cluster" links) and
    with strength tau to the mean of the other clusters that it hears ("bridge" links), and sends the outcome over both.
    A policy then moves tau by what that does to the loss on records held back (`tacit.streams.with_validation`). It
    runs on a graph with clusters (`graph.with_clusters`); an agent without neighbours learns alone, with l2 > 0.

    Args:
      objective: Squared or logistic loss of a linear model, without l1, e.g. `tacit.objectives.squared(l2=0.01)`.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      penalty: rho above 0, how hard neighbours of a cluster are pulled together.
      tau: Strength of the pull to other clusters, or its start, from 0 to 1.
      policy: "fixed"; "gradient", down the slope of the loss; or "actor_critic", by trial of a random change. The last
        two need records held back, and models sent without noise.
      rate: How far a move of tau goes, above 0.
      width: Width of the interval in which a change of tau is tried, above 0.
      epochs: Moves of tau in a round, from 1 on.
      newton_steps: Newton steps of a local problem without noise, from 1 on; under noise as many as it takes.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> algorithm = tacit.algorithms.networked_personalised(tacit.objectives.squared(l2=0.01), tau=0.1)
      >>> [phase.links for phase in algorithm.phases]
      ['cluster', 'bridge']

    References:
      Gauthier (2023), thesis, NTNU, ch. 6, Alg. 6.
    """
    rho = admm.validate_penalty(penalty) / 2
    _validate_tuning(mechanism, tau, policy, rate, width, epochs)
    tuned = policy != "fixed"

    def smallest(view: View) -> Array:
        """The curvature that a sensitivity counts with: without the pull of others, which only adds to it."""
        return 2 * rho * view.into.degree.astype(jnp.result_type(float))

    step = proximal.proximal_step(objective, mechanism, smallest, "networked_personalised", newton_steps)

    def pulled(state: State, strength: Array, view: View) -> tuple[Params, Array]:
        total = admm.pull(state.shared, rho, view) + strength * state.hears_others * state.bridged
        return total, 2 * rho * view.into.degree + strength * state.hears_others

    def next_tau(key: Key, state: State, batch: Batch, view: View) -> Array:
        def judged(strength: Array) -> Array:
            return objective.loss(step.solve(*pulled(state, strength, view), batch, view).w, batch.validation)

        return _mover(policy, judged, rate, width, epochs)(key, state.tau)

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        zero = jnp.zeros((), params.dtype)
        hears_others = (views["bridge"].into.degree > 0).astype(params.dtype)
        return State(admm.started(params, views["cluster"]), params, hears_others, zero + tau, zero)

    def continued(state: State, views: Mapping[str, View]) -> State:
        shared, others = admm.continued(state.shared, views["cluster"]), views["bridge"].into.degree > 0
        return state._replace(shared=shared, bridged=shared.u, hears_others=others.astype(state.hears_others.dtype))

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        if tuned and batch.validation is None:
            raise ConfigError(
                f"policy = {policy!r} tunes tau on records held back, but the stream has none; add them with "
                "tacit.streams.with_validation(stream, validation)"
            )
        pull, mu = pulled(state, state.tau, view)
        solution = step.solve(pull, mu, batch, view)
        value = step.value(mu, solution)
        strength = next_tau(key, state, batch, view) if tuned else state.tau
        residual = proximal.residual_to_store(mechanism, state.residual, solution)
        return state._replace(tau=strength, residual=residual), value

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        u = step.moved(*pulled(state, state.tau, view), released)  # tau is tuned for models sent as they are
        return state._replace(shared=state.shared._replace(u=u)), share(u)

    def agree(key: Key, state: State, inbox: Inbox, view: View) -> State:
        return state._replace(shared=admm.hear(state.shared, rho, inbox, view))

    def show(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        return state, state.shared.u

    def across(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        return state, share(released, public=jnp.asarray(view.cluster, jnp.int32))

    def hear_others(key: Key, state: State, inbox: Inbox, view: View) -> State:
        bridged, clusters = mean_of_others(inbox)
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
        requires=frozenset({"symmetric", "fixed", "reliable"}),
        privacy=statement(mechanism, "no guarantee is claimed", "parallel", proximal.ASSUMPTIONS),
        check=lambda given: refuse_unsolvable(given, step.l2),
        prepare=step.prepare,
        diagnostics={"tau": lambda state: state.tau, "residual": lambda state: state.residual},
        continuation={"peer": continued},
    )


def _mover(policy: Policy, judged: Judged, rate: float, width: float, epochs: int) -> Callable[[Key, Array], Array]:
    """Return a round's moves of the strength within [0, 1], of a policy that tunes it."""
    move = _gradient(judged, rate) if policy == "gradient" else _actor_critic(judged, rate, width)

    def moves(key: Key, tau: Array) -> Array:
        moved: Array = jax.lax.fori_loop(0, epochs, lambda e, at: move(jax.random.fold_in(key, e), at), tau)
        return moved

    return moves


def _gradient(judged: Judged, rate: float) -> Callable[[Key, Array], Array]:
    slope = jax.grad(judged)
    return lambda key, tau: jnp.clip(tau - rate * slope(tau), 0, 1)


def _actor_critic(judged: Judged, rate: float, width: float) -> Callable[[Key, Array], Array]:
    def move(key: Key, tau: Array) -> Array:
        alpha = jax.random.uniform(key, (), tau.dtype, -width / 2, width / 2)
        # One program judges both: where the strength changes nothing they come out the same, to the bit.
        tried, now = jax.vmap(judged)(jnp.stack([jnp.clip(tau + alpha, 0, 1), tau]))
        return jnp.clip(tau - rate * jnp.sign(tried - now) * alpha, 0, 1)

    return move


def _validate_tuning(mechanism: Mechanism, tau: float, policy: str, rate: float, width: float, epochs: int) -> None:
    """Refuse settings of the strength that mean nothing, and tuning past the noise."""
    one_of("policy", policy, get_args(Policy))
    proportion("tau", tau, "at 0 clusters stay apart", zero=True, one=True)
    positive("rate", rate, "how far a move of tau goes")
    positive("width", width, "of the interval in which a change of tau is tried")
    whole_number("epochs", epochs, "how often tau moves in a round")
    if policy != "fixed" and (mechanism.distribution is not None or mechanism.perturbs != "model"):
        raise ConfigError(
            f"policy = {policy!r} with mechanism {mechanism.name!r}: a strength tuned on data enters every model that "
            "is sent, past the noise; keep tau fixed, or send models as they are"
        )
