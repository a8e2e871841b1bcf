"""Recursion of diffusion: combinations of the neighbours' models before, within or after a gradient step.

A round is the text's, in its order: w goes out and phi comes of it (`before`), phi goes out and psi comes of it and of
the gradient at phi (`within`), psi goes out and the next w comes of it (`after`). What is not asked for is left out;
with `before` alone the step is a phase by itself, in which nothing is sent. Agents predict with w.

Noise goes on each combination's messages, as the mechanism spreads it. Privacy per record (with a clip):

- noise on gradients or updates, or `after` alone with `common` or `per_edge` noise on the model: states are made of
  released values, so that a record is charged for the round that read it;
- `before`, `within` or several combinations, with noise on the model: w is the agent's own, without the noise of its
  messages, and a record stays in it until the next release, or moves the point where later gradients are taken. Every
  release is charged to every record, at what a whole step can change;
- `graph_homomorphic`: see `tacit.privacy.graph_mechanisms`. Every release is charged to every record, at what
  all steps so far can change together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit.algorithms._parts.local_steps import Steps, local_descent
from tacit.algorithms._parts.mixing import combined, empty_outbox, outbox
from tacit.algorithms.local_step import LocalStep, before_optimiser, optimised
from tacit.algorithms.schedules import as_schedule, sum_until
from tacit.core.contract import (
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
    same_state,
    unprotected,
)
from tacit.core.errors import ConfigError
from tacit.privacy import statement

NEEDS: frozenset[Requirement] = frozenset({"strongly_connected", "receiver_normalised", "reliable"})
TEXT = "epsilon(i) growing linearly, per agent's data set and with a probability below 1 (Rizk (2023), (4.29), (4.34))"


class State(NamedTuple):
    """State of an agent."""

    phi: Params
    """Where the next gradient is taken."""
    w: Params
    """What it predicts with; empty where that is phi: without a combination `before` the step."""
    step: Params
    """Of `within`: -mu grad J(phi), on its way from the gradient to the combination; empty without one."""


def _shared(state: State) -> bool:
    return isinstance(state.w, tuple) and not state.w


def model(state: State) -> Params:
    """Return what an agent predicts with."""
    return state.phi if _shared(state) else state.w


def with_model(state: State, w: Params) -> State:
    """Return a state with another w, where it has one of its own."""
    return state if _shared(state) else state._replace(w=w)


def combinations(
    name: str,
    objective: Objective,
    step: LocalStep,
    mechanism: Mechanism,
    work: Steps,
    before: str | None = None,
    within: str | None = None,
    after: str | None = None,
) -> Algorithm:
    """Return the method that combines over the named links at these places."""
    asked = {place: where for place, where in (("before", before), ("within", within), ("after", after)) if where}
    if not asked:
        raise ConfigError("no combination is asked for: name the links of `before`, `within` or `after`")
    mechanism = before_optimiser(step, mechanism)
    exactly = local_descent(objective, step, unprotected._replace(clip=mechanism.clip), work)
    descent = local_descent(objective, step, mechanism, work)
    on_model = mechanism.perturbs == "model"
    sent = mechanism if on_model else unprotected
    keeps = on_model and (list(asked) != ["after"] or mechanism.spread not in ("common", "per_edge"))
    steps_at = next((place for place in ("within", "after") if place in asked), "before")

    def noise_on(place: str) -> Mechanism:
        """What goes on the messages of a combination, whose values hold the steps so far: those before it."""
        if not on_model:
            return unprotected
        if not keeps:
            return descent.mechanism
        schedule = as_schedule(step)  # type: ignore[arg-type] # an optimiser goes by gradients
        reach = partial(sum_until, schedule) if mechanism.spread == "homomorphic" else schedule
        last = 0 if place == "after" else 1
        return mechanism.for_whole_batch().amplified(lambda view: reach(jnp.maximum(view.round - last, 1)))

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        step = jax.tree.map(jnp.zeros_like, params) if steps_at == "within" else ()
        return State(params, params if before else (), step)

    def stepping(key: Key, state: State, batch: Batch, view: View, memory: Tree = ()) -> tuple[State, Tree]:
        """Release the gradient, the update or the stepped model; within: the model before the step."""
        if not on_model:
            return state, descent.value(state.phi, state.phi, batch, view, key, memory)
        stepped = exactly.value(state.phi, state.phi, batch, view, key)
        if steps_at == "within":
            return state._replace(step=jax.tree.map(jnp.subtract, stepped, state.phi)), state.phi
        own = with_model(state, stepped) if keeps else state
        return own, () if steps_at == "before" else stepped  # the next round sends it

    def stepped_messages(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        value = released
        if not on_model:
            stepped = descent.moved(state.phi, state.phi, released, view)
            within_step = state._replace(step=jax.tree.map(jnp.subtract, stepped, state.phi))
            value, state = (state.phi, within_step) if steps_at == "within" else (stepped, with_model(state, stepped))
        return state, empty_outbox() if steps_at == "before" else outbox(sent, value)

    def absorber(place: str) -> Callable[[Key, State, Inbox, View], State]:
        def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
            found = combined(sent, inbox)
            if place == "before":
                return state._replace(phi=found)
            if place == "within":
                found = jax.tree.map(jnp.add, found, state.step)
            return with_model(state._replace(phi=found), found)

        return absorb

    def phase(place: str, where: str) -> Phase:
        if place == steps_at and place != "before":
            noise = noise_on(place) if on_model else descent.mechanism
            return Phase(where, stepping, noise, absorber(place), stepped_messages)
        send = lambda state, released, view: (state, outbox(sent, released))  # noqa: E731
        return Phase(
            where, lambda key, state, batch, view: (state, model(state)), noise_on(place), absorber(place), send
        )

    phases = [phase(*each) for each in asked.items()]
    if before is not None and steps_at == "before":
        noise = unprotected if on_model else descent.mechanism
        phases.append(Phase(before, stepping, noise, lambda key, state, inbox, view: state, stepped_messages))
    made = Algorithm(
        name=name,
        objective=objective,
        init={"peer": init},
        phases=tuple(phases),
        model=model,
        requires=NEEDS | mechanism.requires,
        privacy=statement(mechanism, TEXT, "sequential" if keeps else "parallel"),
        weights="metropolis",
        continuation={"peer": same_state},
    )
    stepping_phase = len(phases) - 1 if steps_at == "before" else list(asked).index(steps_at)
    return optimised(made, descent, lambda state: state.phi, stepping_phase, trains=stepping)
