"""Generalised decentralised learning (004 ch. 4, (4.21)-(4.26)): consensus, CTA and ATC in one recursion.

    phi_i = sum_j A1[i, j] w_j                               before
    psi_i = sum_j A0[i, j] phi_j - mu grad J_i(phi_i)        within
    w_i   = sum_j A2[i, j] psi_j                             after

A combination that is not asked for is the identity. Consensus has `within` alone, combine-then-adapt `before`,
adapt-then-combine `after`. A round begins with the step, so that `before` closes it: its phi is the next round's, and
the first one is the start. Models to predict with are the w.

Noise goes on each combination's messages, as the mechanism spreads it. Privacy per record (with a clip):

- noise on gradients or updates, or one combination `before` or `after` with `common` or `per_edge` noise on the model:
  states are made of released values, so that a record is charged for the round that read it;
- `within`, or several combinations, with noise on the model: a record stays in a private state until the next release
  and moves the point where later gradients are taken. Every release is charged to every record, at what a whole step
  can change;
- `graph_homomorphic`: see `tacit.privacy.graph_noise`. Every release is charged to every record, at what all steps so
  far can change together.

Errata: (4.34) bounds the l2 norm of what changes, Laplace noise on each of M coordinates needs the l1 norm, sqrt(M)
times as large; and with a probability below 1 it is no bound for the worst case, which differential privacy is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms.descent import gradient_step
from tacit.algorithms.mixing import combined, outbox, own_copy
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import as_rate, as_schedule, sum_until
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
    unprotected,
)
from tacit.errors import ConfigError
from tacit.privacy import statement

Step = float | Callable[[Array], Array]
NEEDS: frozenset[Requirement] = frozenset({"strongly_connected", "receiver_normalised", "reliable"})
TEXT = "epsilon(i) growing linearly, per agent's data set and with a probability below 1 (004 (4.29), (4.34))"


class State(NamedTuple):
    """What an agent carries."""

    phi: Params
    """Where the next gradient is taken."""
    w: Params
    """What it predicts with."""
    step: Params
    """Of `within`: -mu grad J(phi), on its way from the gradient to the combination."""


@register("004 (4.21)-(4.26)", example={"after": "peers"})
def diffusion(
    objective: Objective,
    step: Step = 0.1,
    mechanism: Mechanism = unprotected,
    before: str | None = None,
    within: str | None = None,
    after: str | None = None,
) -> Algorithm:
    """Decentralised learning with up to three combinations, each over the named links, around a gradient step."""
    return _diffusion("diffusion", objective, step, mechanism, before, within, after)


@register("004 (4.15)-(4.16)")
def consensus(objective: Objective, step: Step = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """Consensus: combine the neighbours' models and step with the gradient at one's own."""
    return _diffusion("consensus", objective, step, mechanism, within="peers")


@register("004 (4.17)-(4.18)")
def combine_then_adapt(objective: Objective, step: Step = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """CTA diffusion: combine the neighbours' models, then step from what came of it."""
    return _diffusion("combine_then_adapt", objective, step, mechanism, before="peers")


@register("004 (4.19)-(4.20)")
def adapt_then_combine(objective: Objective, step: Step = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """ATC diffusion: step, then combine what the neighbours' steps led to."""
    return _diffusion("adapt_then_combine", objective, step, mechanism, after="peers")


def _diffusion(
    name: str,
    objective: Objective,
    step: Step,
    mechanism: Mechanism,
    before: str | None = None,
    within: str | None = None,
    after: str | None = None,
) -> Algorithm:
    links = [(place, where) for place, where in (("within", within), ("after", after), ("before", before)) if where]
    if not links:
        raise ConfigError("no combination is asked for: name the links of `before`, `within` or `after`")
    schedule = as_schedule(step)
    exactly = gradient_step(objective, as_rate(step), unprotected._replace(clip=mechanism.clip))
    descent = gradient_step(objective, as_rate(step), mechanism)
    on_model = mechanism.perturbs == "model"
    forgets = mechanism.spread in ("common", "per_edge")
    keeps = on_model and (within is not None or len(links) > 1 or not forgets)
    noise = descent.mechanism
    if keeps:
        reach = (lambda v: sum_until(schedule, v.round)) if mechanism.spread == "homomorphic" else None
        noise = mechanism.for_whole_batch().amplified(reach or (lambda v: schedule(v.round)))

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return State(params, params, jax.tree.map(jnp.zeros_like, params))

    def moved(state: State, batch: Batch, view: View) -> Params:
        return exactly.value(state.phi, state.phi, batch, view)

    def minus(a: Tree, b: Tree) -> Tree:
        return jax.tree.map(jnp.subtract, a, b)

    def first_value(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        """Release the gradient, the update or the stepped model; within: the model before the step."""
        if not on_model:
            return state, descent.value(state.phi, state.phi, batch, view)
        stepped = moved(state, batch, view)
        if links[0][0] == "within":
            return state._replace(step=minus(stepped, state.phi)), state.phi
        return (state._replace(w=stepped) if keeps else state), stepped

    def first_messages(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        if on_model:
            own = state if keeps else state._replace(w=own_copy(mechanism, released))
            return own, outbox(mechanism, released)
        stepped = descent.moved(state.phi, state.phi, released, view)
        if links[0][0] == "within":
            return state._replace(step=minus(stepped, state.phi)), outbox(unprotected, state.phi)
        return state._replace(w=stepped), outbox(unprotected, stepped)

    def next_value(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        return state, state.w

    def absorber(place: str) -> Callable[[Key, State, Inbox, View], State]:
        def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
            found = combined(mechanism if on_model else unprotected, inbox)
            if place == "before":
                return state._replace(phi=found)
            if place == "within":
                found = jax.tree.map(jnp.add, found, state.step)
            return state._replace(phi=found, w=found)

        return absorb

    first, *later = links
    own_noise = noise if on_model else unprotected
    phases = [Phase(first[1], first_value, noise, absorber(first[0]), first_messages)]
    for place, where in later:
        messages = lambda state, released, view: (state, outbox(own_noise, released))  # noqa: E731
        phases.append(Phase(where, next_value, own_noise, absorber(place), messages))
    return Algorithm(
        name=name,
        objective=objective,
        init={"peer": init},
        phases=tuple(phases),
        model=lambda state: state.w,
        requires=NEEDS | mechanism.requires,
        privacy=statement(mechanism, TEXT, "sequential" if keeps else "parallel"),
        weights="metropolis",
    )
