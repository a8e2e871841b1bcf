"""A method judged at what its agents have before their noise, as Li et al. and Gauthier (2023) measure errors."""

from collections.abc import Callable, Mapping

from tacit.core.contract import Algorithm, Batch, Inbox, Key, Outbox, Params, PrivacyStatement, State, Tree, View

Look = Callable[[Key, State, Tree, Batch, View], Params]
"""(key, state, value to release, batch, view) -> what an agent would share without noise."""


def before_noise(method: Algorithm, look: Look) -> Algorithm:
    """Return a method of one phase with what `look` sees for its model; draws and releases are as they were."""
    (phase,) = method.phases

    def init(key: Key, params: Params, views: Mapping[str, View]) -> State:
        state = method.init["peer"](key, params, views)
        return state, method.model(state)

    def compute(key: Key, state: State, batch: Batch, view: View) -> tuple[State, Tree]:
        own, value = phase.compute(key, state[0], batch, view)
        return (own, look(key, own, value, batch, view)), value

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        own, outbox = phase.emit(state[0], released, view)
        return (own, state[1]), outbox

    def absorb(key: Key, state: State, inbox: Inbox, view: View) -> State:
        return phase.absorb(key, state[0], inbox, view), state[1]

    return method._replace(
        init={"peer": init}, phases=(phase._replace(compute=compute, emit=emit, absorb=absorb),),
        model=lambda state: state[1], privacy=PrivacyStatement.none(), diagnostics={}, continuation={})  # fmt: skip
