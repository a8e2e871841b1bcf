"""A gradient step with combinations of the neighbours' models before, within or after it: `diffusion`'s recursion.

A round begins with the step, so that `before` closes it: its phi is the next round's, and the first one is the start.
Models to predict with are the w.

Noise goes on each combination's messages, as the mechanism spreads it. Privacy per record (with a clip):

- noise on gradients or updates, or one combination `before` or `after` with `common` or `per_edge` noise on the model:
  states are made of released values, so that a record is charged for the round that read it;
- `within`, or several combinations, with noise on the model: a record stays in a private state until the next release
  and moves the point where later gradients are taken. Every release is charged to every record, at what a whole step
  can change;
- `graph_homomorphic`: see `tacit.privacy.graph_noise`. Every release is charged to every record, at what all steps so
  far can change together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms.descent import gradient_step
from tacit.algorithms.mixing import combined, outbox, own_copy
from tacit.algorithms.schedules import StepSize, as_rate, as_schedule, sum_until
from tacit.contract import (
    Algorithm,
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


def combinations(
    name: str,
    objective: Objective,
    step: StepSize,
    mechanism: Mechanism,
    before: str | None = None,
    within: str | None = None,
    after: str | None = None,
) -> Algorithm:
    """Return the method that combines over the named links at these places."""
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
        reach = partial(sum_until, schedule) if mechanism.spread == "homomorphic" else schedule
        noise = mechanism.for_whole_batch().amplified(lambda view: reach(view.round))

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        return State(params, params, jax.tree.map(jnp.zeros_like, params))

    def minus(a: Tree, b: Tree) -> Tree:
        return jax.tree.map(jnp.subtract, a, b)

    def first_value(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        """Release the gradient, the update or the stepped model; within: the model before the step."""
        if not on_model:
            return state, descent.value(state.phi, state.phi, batch, view)
        stepped = exactly.value(state.phi, state.phi, batch, view)
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
