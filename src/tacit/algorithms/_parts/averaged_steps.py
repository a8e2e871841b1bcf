"""The round of peers whose state is their model: they step, share where the step led, and average what they hear.

    z_i = the step from x_i;   x_i = sum_j W[i, j] z_j

A peer that does not wait for who is late takes the mean over those who arrived instead, by their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tacit.algorithms._parts.descent import Step
from tacit.core.contract import Batch, Inbox, Key, Outbox, Params, Phase, Requirement, Tree, View, share

IfMissing = Literal["wait", "renormalise"]
"""Of the contract's ways to deal with a message that is late, those that an average has."""


def first_model(key: Key, params: Params, views: Mapping[str, View]) -> Params:
    """Return the first state of an agent that carries its model and nothing else."""
    return params


def averaged_step(descent: Step, missing: IfMissing) -> Phase:
    """Return the one phase of the round."""

    def compute(key: Key, state: Params, batch: Batch, view: View) -> tuple[Params, Tree]:
        return state, descent.value(state, state, batch, view)

    def emit(state: Params, released: Tree, view: View) -> tuple[Params, Outbox]:
        return state, share(descent.moved(state, state, released, view))

    def absorb(key: Key, state: Params, inbox: Inbox, view: View) -> Params:
        return (inbox.mix() if missing == "wait" else inbox.mean()).private

    return Phase("peers", compute, descent.mechanism, absorb, emit)


def needs(missing: IfMissing) -> frozenset[Requirement]:
    """Return what that asks of the links: who waits for everybody needs everybody's messages."""
    return frozenset({"reliable"}) if missing == "wait" else frozenset()
