"""Data flow through a method, read off its traces before round 0: what leaves an agent must have been released.

A leaf of a state, value or message is *held back* if it may depend on a batch by another way than a released value.
Each function of an agent is traced once. A trace says of every result on which arguments it may depend, so that the
round is followed by sets of leaves alone: compute, release, emit and absorb of all phases, over and over until no
state changes. A phase may be left out (by whoever is away, was not called or comes back later), so that what a leaf
once held it is taken to hold from then on.

Of a method that promises privacy:

- no operation of any function reaches out of the program or into mutable memory: a trace does not show what it does;
- nothing that is held back is sent, addresses a message, or, where records compose in parallel, stays in a state;
- a public part depends on no data at all, released or not.

A trace is the program that runs, if functions are pure. What Python code does while it is traced is not in it, except
that a value which one function leaves there for another is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from typing import Any, NamedTuple, NoReturn

import jax
import jax.extend.core as program
import jax.numpy as jnp

from tacit.core.contract import Algorithm, Array, Batch, Key, Outbox, Phase, State, Tree, View
from tacit.core.errors import ContractError
from tacit.core.inbox import StackedInbox
from tacit.privacy import records_in

_CALLS = {"jit", "pjit", "call", "closed_call", "checkpoint", "remat", "remat2", "custom_jvp_call", "custom_vjp_call"}
"""Operations that are one inner program, with its arguments and results."""
_ALSO_KNOWN = {"random_wrap", "random_unwrap", "random_clone", "ragged_dot_general"}
"""Operations of JAX's functions that no public module of it names."""


class Trace(NamedTuple):
    """What a function returns, and on which leaves of its arguments each leaf of that may depend."""

    arguments: Mapping[str, Tree]
    """By name, in order."""
    shapes: Tree
    """Of what is returned."""
    reach: tuple[int, ...]
    """For each result the set of argument leaves that it may depend on: bit k stands for leaf k of all arguments."""
    itself: tuple[bool, ...]
    """Whether a result is an argument leaf as it came."""
    foreign: str | None
    """What in it no trace can follow: then everything is taken to depend on everything, and on data."""

    def follow(self, **marked: Tree) -> Tree:
        """Return for each result whether it may depend on a marked leaf; marks are trees of bools, or one for all."""
        marks = self._marks(marked)
        found = [self.foreign is not None or bool(reach & marks) for reach in self.reach]
        return jax.tree.unflatten(jax.tree.structure(self.shapes), found)

    def origins(self, result: int, **marked: Tree) -> str:
        """Name the marked leaves that a result may depend on."""
        found = self.reach[result] & self._marks(marked)
        paths = (name + path for name, tree in self.arguments.items() for path in leaf_names(tree))
        return ", ".join(path for k, path in enumerate(paths) if found >> k & 1)

    def _marks(self, marked: Mapping[str, Tree]) -> int:
        marks, first = 0, 0
        for name, tree in self.arguments.items():
            count, given = len(jax.tree.leaves(tree)), marked.get(name, False)
            flags = [given] * count if isinstance(given, bool) else jax.tree.leaves(given)
            marks |= sum(1 << (first + k) for k, flag in enumerate(flags) if flag)
            first += count
        return marks


def trace(function: Callable[..., Tree], **arguments: Tree) -> Trace:
    """Trace a function of these arguments, given by their shapes in the order in which it takes them."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments.values())
    inputs, outputs = closed.jaxpr.invars, closed.jaxpr.outvars
    reach = _reach(closed.jaxpr, [1 << k for k in range(len(inputs))])
    itself = tuple(not isinstance(v, program.Literal) and v in set(inputs) for v in outputs)
    return Trace(arguments, shapes, tuple(reach), itself, _foreign(closed))


def _reach(jaxpr: Any, given: Sequence[int]) -> list[int]:
    """Return on what each result of a program depends, for arguments that depend on what is given."""
    known = dict(zip(jaxpr.invars, given, strict=True))

    def read(v: Any) -> int:
        return 0 if isinstance(v, program.Literal) else known.get(v, 0)

    for operation in jaxpr.eqns:
        known.update(zip(operation.outvars, _through(operation, [read(v) for v in operation.invars]), strict=True))
    return [read(v) for v in jaxpr.outvars]


def _through(operation: Any, given: list[int]) -> list[int]:
    """Return on what the results of one operation depend: on all that it gets, where its inside is not looked at."""
    name, inner = operation.primitive.name, operation.params
    if name == "cond":
        branches = [_reach(branch.jaxpr, given[1:]) for branch in inner["branches"]]
        return [reduce(or_, found, given[0]) for found in zip(*branches, strict=True)]
    if name == "while":
        first, second = inner["cond_nconsts"], inner["cond_nconsts"] + inner["body_nconsts"]

        def once(carry: list[int]) -> list[int]:
            (goes_on,) = _reach(inner["cond_jaxpr"].jaxpr, given[:first] + carry)
            return [goes_on | found for found in _reach(inner["body_jaxpr"].jaxpr, given[first:second] + carry)]

        return _at_rest(once, given[second:])
    if name == "scan":
        first, carried = _scanned(inner)
        second = first + carried

        def results(carry: list[int]) -> list[int]:
            return _reach(inner["jaxpr"].jaxpr, given[:first] + carry + given[second:])

        carry = _at_rest(lambda carry: results(carry)[: second - first], given[first:second])
        return carry + results(carry)[second - first :]
    if name in _CALLS:
        called = inner["call_jaxpr"] if "call_jaxpr" in inner else inner["jaxpr"]
        return _reach(getattr(called, "jaxpr", called), given)
    return [reduce(or_, given, 0)] * len(operation.outvars)


def _scanned(inner: dict[str, Any]) -> tuple[int, int]:
    """Return how many constants and how many carried values a scan gets; from 0.11 on JAX has them as trees."""
    if "ft_in" in inner:
        constants, carried, _ = inner["ft_in"].unpack()
        return len(constants), len(carried)
    return inner["num_consts"], inner["num_carry"]


def _at_rest(once: Callable[[list[int]], list[int]], carry: list[int]) -> list[int]:
    while True:
        after = [a | b for a, b in zip(carry, once(carry), strict=True)]
        if after == carry:
            return carry
        carry = after


def _foreign(closed: Any) -> str | None:
    """Name the first thing in a program that its trace does not show the whole of."""
    if any(isinstance(value, jax.core.Tracer) for value in getattr(closed, "consts", ())):
        return "a value that another function left behind"
    for operation in getattr(closed, "jaxpr", closed).eqns:
        values = operation.params.values()
        for part in (part for value in values for part in (value if isinstance(value, tuple | list) else (value,))):
            inside = _foreign(part) if isinstance(part, program.ClosedJaxpr | program.Jaxpr) else None
            if inside is not None:
                return inside
        primitive = operation.primitive
        if operation.effects or not (primitive in _public_operations() or primitive.name in _ALSO_KNOWN):
            return f"the operation {primitive.name!r}"
    return None


@cache
def _public_operations() -> frozenset[Any]:
    """Operations that JAX names in public: arithmetic, control flow, calls. None of them runs other code."""
    import jax.extend.core.primitives as named

    spaces = (named, jax.lax, jax.lax.linalg)
    return frozenset(getattr(space, name) for space in spaces for name in dir(space) if name.endswith("_p"))


class Sending(NamedTuple):
    """The traces of one agent's way from data to outbox."""

    compute: Trace
    release: Trace
    emit: Trace
    records: int
    """Places for records in a batch."""

    @property
    def value(self) -> Tree:
        """Shapes of what is released."""
        return self.compute.shapes[1]

    @property
    def outbox(self) -> Outbox:
        """Shapes of what is sent."""
        outbox: Outbox = self.emit.shapes[1]
        return outbox


def sending(phase: Phase, index: int, key: Key, state: State, batch: Batch, view: View) -> Sending:
    """Trace compute, release and emit of a phase, each by itself."""
    places = jax.eval_shape(lambda b: jnp.zeros(records_in(b)), batch).size  # of a batch known by its shapes

    def released(key: Key, value: Tree, view: View) -> Tree:
        if phase.mechanism.changes_nothing:
            return value
        from tacit.privacy.draws import release
        from tacit.privacy.noise import noise_words

        correlation = phase.mechanism.correlation
        memory = None if correlation is None else correlation.start(value)
        return release(phase.mechanism, noise_words(key, view.round, index), value, view, places, memory).value

    compute = trace(phase.compute, key=key, state=state, batch=batch, view=view)
    noisy = trace(released, key=key, value=compute.shapes[1], view=view)
    emit = trace(phase.emit, state=compute.shapes[0], released=noisy.shapes, view=view)
    return Sending(compute, noisy, emit, places)


def hearing(phase: Phase, key: Key, state: State, outbox: Outbox, view: View) -> Trace:
    """Trace absorb of a phase, for messages like these."""
    slots, skip = view.into.live.shape[0], outbox.delivery == "per_slot"
    heard = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((slots, *leaf.shape[skip:]), leaf.dtype), outbox.message)
    arrived = jax.ShapeDtypeStruct((slots,), bool)
    weight = None if outbox.delivery == "push" else view.into.weight

    def absorb(key: Key, state: State, message: Tree, arrived: Array, weight: Array | None, view: View) -> State:
        return phase.absorb(key, state, StackedInbox(message, arrived, weight, slots), view)

    return trace(absorb, key=key, state=state, message=heard, arrived=arrived, weight=weight, view=view)


class Method(NamedTuple):
    """The traces of a whole method."""

    algorithm: Algorithm
    init: Mapping[str, Trace]
    sends: list[Sending]
    """Phase by phase."""
    hears: list[Trace]


class Flow(NamedTuple):
    """Which leaves are marked in a phase."""

    computed: State
    value: Tree
    emitted: State
    outbox: Outbox
    absorbed: State


def followed(method: Method) -> list[Flow]:
    """Return, phase by phase, what may depend on data by another way than through releases, in some round.

    A method that promises privacy and does not keep it is refused.
    """
    if not method.algorithm.privacy.private:
        return _flows(method)
    for what, found in _named(method):
        _check_reach(method.algorithm, what, found)
    flows = _flows(method, check=_check_held_back)
    _flows(method, through_releases=True, check=_check_public)
    return flows


def _flows(
    method: Method, through_releases: bool = False, check: Callable[[Method, int, Flow], None] | None = None
) -> list[Flow]:
    held = {role: init.follow() for role, init in method.init.items()}
    while True:
        before, flows = dict(held), []
        for index, phase in enumerate(method.algorithm.phases):
            flow = _flow(method, index, held, through_releases)
            if check is not None:  # in the order of a run, so that the fault that comes first is named
                check(method, index, flow)
            held[phase.source] = _either(held[phase.source], flow.emitted)
            held[phase.target] = _either(held[phase.target], flow.absorbed)
            flows.append(flow)
        if jax.tree.leaves(held) == jax.tree.leaves(before):
            return flows


def _flow(method: Method, index: int, held: Mapping[str, Tree], through_releases: bool) -> Flow:
    phase, sends = method.algorithm.phases[index], method.sends[index]
    learns = phase.source == method.algorithm.learner
    computed, value = sends.compute.follow(state=held[phase.source], batch=learns)
    released = sends.release.follow(value=value)
    emitted, outbox = sends.emit.follow(state=computed, released=through_releases and released)
    own = outbox
    if phase.mechanism.spread == "homomorphic":  # the copy that stays makes up for the noise on those that leave
        emitted, own = sends.emit.follow(state=computed, released=released)
    heard = own if phase.source == phase.target else outbox
    state = _either(held[phase.source], emitted) if phase.source == phase.target else held[phase.target]
    absorbed = method.hears[index].follow(state=state, message=heard.message, arrived=bool(heard.to))
    return Flow(computed, value, emitted, outbox, absorbed)


def _either(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(or_, a, b)


def check_preparation(algorithm: Algorithm, batch: Batch) -> None:
    """Refuse a preparation of batches that reaches out of the program, in a method that promises privacy."""
    if algorithm.prepare is not None and algorithm.privacy.private:
        _check_reach(algorithm, "prepare", trace(algorithm.prepare, batch=batch))


def _named(method: Method) -> list[tuple[str, Trace]]:
    algorithm = method.algorithm
    found = [(f"init of role {role!r}", init) for role, init in method.init.items()]
    for k, (sends, hears) in enumerate(zip(method.sends, method.hears, strict=True)):
        parts = {"compute": sends.compute, "mechanism": sends.release, "emit": sends.emit, "absorb": hears}
        found += [(f"phase {k}: {part}", traced) for part, traced in parts.items()]
    found.append(("model", trace(algorithm.model, state=method.init[algorithm.predictor].shapes)))
    learner = method.init[algorithm.learner].shapes
    return found + [(f"diagnostic {name!r}", trace(f, state=learner)) for name, f in algorithm.diagnostics.items()]


def _check_reach(algorithm: Algorithm, what: str, found: Trace) -> None:
    if found.foreign is not None:
        raise ContractError(
            f"algorithm {algorithm.name!r}, {what} uses {found.foreign}, through which data could pass unseen; a "
            "method that promises privacy is made of pure JAX operations: leave out callbacks, prints, references and "
            "other libraries' code, or state that it is not private (PrivacyStatement.none())"
        )


def _check_held_back(method: Method, index: int, flow: Flow) -> None:
    """Refuse data in a state whose records compose in parallel, and messages of anything but what was released."""
    if method.algorithm.privacy.composition == "parallel":
        for what, state in (("compute", flow.computed), ("emit", flow.emitted), ("absorb", flow.absorbed)):
            _check_state(method, index, what, state)
    _check_outbox(method, index, flow)


def _check_state(method: Method, index: int, what: str, state: State) -> None:
    for path, marked in zip(leaf_names(state), jax.tree.leaves(state), strict=True):
        if marked:
            _reject(
                method,
                index,
                f"{what} lets data into the state (state{path}), so that later releases depend on them again, but "
                "the privacy statement says that records compose in parallel; make the next state from what was "
                "released (in emit or absorb), by a mechanism that leaves no copy without its noise",
            )


def _check_outbox(method: Method, index: int, flow: Flow) -> None:
    mechanism, emit = method.algorithm.phases[index].mechanism, method.sends[index].emit
    first = len(jax.tree.leaves(flow.emitted))
    released = jax.tree.leaves(emit.follow(released=True))[first:]
    for k, (path, marked) in enumerate(zip(leaf_names(flow.outbox), jax.tree.leaves(flow.outbox), strict=True)):
        if marked:
            origins = emit.origins(first + k, state=flow.computed)
            what = "addresses its message (`to`) by" if path == ".to" else f"makes outbox{path} of"
            _reject(
                method,
                index,
                f"emit {what} {origins}, where data are that were not released: the mechanism covers the value that "
                "compute returns, and nothing else; let compute return it as a value, and make messages of `released`",
            )
        if mechanism.spread == "homomorphic" and released[k] and not emit.itself[first + k]:
            _reject(
                method,
                index,
                f"emit makes outbox{path} of `released`, in which mechanism {mechanism.name!r} has a copy for the "
                "agent alone, whose noise cancels that of the others; send `released` as it is",
            )


def _check_public(method: Method, index: int, flow: Flow) -> None:
    """Refuse a public part that depends on data at all."""
    emit, public = method.sends[index].emit, flow.outbox.message.public
    first = len(jax.tree.leaves((flow.emitted, flow.outbox.message.private)))
    released = method.sends[index].release.follow(value=flow.value)
    for k, (path, marked) in enumerate(zip(leaf_names(public), jax.tree.leaves(public), strict=True)):
        if marked:
            origins = emit.origins(first + k, state=flow.computed, released=released)
            _reject(
                method,
                index,
                f"emit makes the public part{path and ' ' + path} of {origins}, which depends on data; send it as "
                "private, made of `released`",
            )


def _reject(method: Method, index: int, fault: str) -> NoReturn:
    raise ContractError(f"algorithm {method.algorithm.name!r}, phase {index}: {fault}")


def leaf_names(tree: Tree) -> list[str]:
    """Name the leaves of a tree as one would write them after its own name."""
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
