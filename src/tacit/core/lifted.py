"""States that carry something along, beside what a method keeps in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tacit.core.contract import (
    Algorithm,
    Batch,
    Inbox,
    Key,
    Membership,
    Outbox,
    Params,
    Phase,
    State,
    Tree,
    View,
)  # fmt: skip


class Carrying(NamedTuple):
    """State of a lifted role."""

    state: State
    """The method's own."""
    carried: Tree


def own_part(state: State) -> State:
    """Return the method's own part of a state, whatever it carries."""
    while isinstance(state, Carrying):
        state = state.state
    return state


def lift(algorithm: Algorithm, role: str, first: Callable[[State, Mapping[str, View]], Tree]) -> Algorithm:
    """Return the algorithm with states of one role that carry something along, which its functions do not see.

    All that takes or gives such a state (init, compute, emit, absorb, model, diagnostics) works on the method's own
    part and leaves the rest as it is. Whoever lifts replaces the functions that are to change it.

    Args:
      algorithm: The method.
      role: Whose states: a key of `algorithm.init`.
      first: First state of an agent and its views -> what it carries at first.

    Returns:
      The same method on states that are `Carrying`; the other roles' states stay as they are.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.local_online(tacit.objectives.logistic())
      >>> counting = lift(method, "peer", lambda state, views: 0)
      >>> counting.init["peer"](None, [0.5, 0.5], {})
      Carrying(state=[0.5, 0.5], carried=0)
    """
    init = algorithm.init[role]

    def on_own_part(function: Callable[[State], Tree]) -> Callable[[Carrying], Tree]:
        return lambda carrying: function(carrying.state)

    def lifted_init(key: Key, params: Params, views: Mapping[str, View]) -> Carrying:
        state = init(key, params, views)
        return Carrying(state, first(state, views))

    model, diagnostics = algorithm.model, algorithm.diagnostics
    return algorithm._replace(
        init={**algorithm.init, role: lifted_init},
        phases=tuple(_lifted(phase, role) for phase in algorithm.phases),
        model=on_own_part(model) if role == algorithm.predictor else model,
        diagnostics={name: on_own_part(function) for name, function in diagnostics.items()}
        if role == algorithm.learner
        else diagnostics,
        membership=None if algorithm.membership is None else _lifted_membership(algorithm.membership),
        continuation=_lifted_continuation(algorithm, role),
    )


def _lifted_continuation(
    algorithm: Algorithm, role: str
) -> Mapping[str, Callable[[State, Mapping[str, View]], State]] | None:
    known = algorithm.continuation
    if known is None or role not in known:
        return known

    def continued(carrying: Carrying, views: Mapping[str, View]) -> Carrying:
        return carrying._replace(state=known[role](carrying.state, views))

    return {**known, role: continued}


def _lifted_membership(terms: Membership) -> Membership:
    def vacant(carrying: Carrying) -> Carrying:
        return carrying._replace(state=terms.vacant(carrying.state))

    return Membership(
        vacant, lambda carrying: terms.settled(carrying.state), lambda carrying: terms.ample(carrying.state)
    )


def _lifted(phase: Phase, role: str) -> Phase:
    def compute(key: Key, carrying: Carrying, batch: Batch, view: View) -> tuple[Carrying, Tree]:
        state, value = phase.compute(key, carrying.state, batch, view)
        return carrying._replace(state=state), value

    def emit(carrying: Carrying, released: Tree, view: View) -> tuple[Carrying, Outbox]:
        state, outbox = phase.emit(carrying.state, released, view)
        return carrying._replace(state=state), outbox

    def absorb(key: Key, carrying: Carrying, inbox: Inbox, view: View) -> Carrying:
        return carrying._replace(state=phase.absorb(key, carrying.state, inbox, view))

    sends = {"compute": compute, "emit": emit} if phase.source == role else {}
    hears = {"absorb": absorb} if phase.target == role else {}
    return phase._replace(**sends, **hears)  # type: ignore[arg-type]
