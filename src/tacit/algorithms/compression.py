"""Compressed messages: methods whose models travel in 8 or 4 bits a number, or a few numbers at a time.

A message x_j is rounded to what few bytes can say, q_j = Q(x_j), and `tacit.core.packing` says it in these bytes. With
weights W, s_i = sum_j W[i, j] over what arrived, a receiver's `mix()` is

    without memories    sum_j W[i, j] q_j + s_i (x_i - q_i)
    with memories       s_i x_i + gamma (sum_j W[i, j] h_j - s_i h_i),   h_j <- h_j + Q(x_j - h_j), at first 0

(`mean()` is that over s_i.) So an agent's own model is not rounded, small steps are not lost, and where the columns of
W sum to 1 the mean of all models is kept, whatever Q takes off. Memories h are CHOCO's: only the difference to what was
said before travels, so that Q may leave out most of it. A receiver needs the weighed sum of its neighbours' memories
alone, which is one model, since weights and links stay the same (`fixed`).

Where the sender splits (`push`), what its rounding takes off stays with it: a part W[i, j] q_j goes to each i, and
x_j - q_j is added to what j receives. Then the sum over all agents is kept as it is without rounding, and masses, which
are public, are not rounded at all. Of a member that leaves the last such rest is lost.

Between two roles nobody hears itself, and a receiver takes q_j for x_j.

Q is a function of what was released and of numbers drawn from a constant key, the agent's number and the round:
post-processing, that neither statement nor account nor ledger know of. Places of large numbers are sent with them and
are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms._compressed_inbox import CompressedInbox, RememberedInbox, Said
from tacit.algorithms._compressors import COMPRESSORS, Compressor
from tacit.core.checks import one_of, proportion
from tacit.core.contract import (
    Algorithm,
    Inbox,
    Key,
    Noise,
    Outbox,
    Phase,
    State,
    Tree,
    View,
)
from tacit.core.errors import ConfigError, RequirementError
from tacit.core.lifted import Carrying, lift
from tacit.core.packing import packed_size
from tacit.privacy.noise import noise_words


def compressed_name(name: str, kind: str) -> str:
    """Return what a method is called whose messages are compressed."""
    return f"{name}, compressed ({kind})"


def compressed(
    algorithm: Algorithm, kind: str = "int8", *, memory: bool | None = None, gamma: float | None = None, **settings: Any
) -> Algorithm:
    """Let a method's models travel in fewer bytes: rounded to 8 or 4 bits, or a few numbers at a time.

    Messages of both runtimes hold the rounded numbers, so that they compute the same, and peers write them in few
    bytes: what a simulation counts as sent is what goes through a peer's sockets as content. An agent's own model is
    not rounded (the module says how), and public parts, such as the mass of push-sum, are sent as they are.

    Kinds. "int8" and "int4" round to whole multiples of a scale. "top_k" sends the largest numbers with their places,
    "every_k" every few-th number from a place drawn anew, "sign" signs and one size: these leave most of a message
    out, and need memories of what was said before, as CHOCO-SGD has them, and then fixed and reliable links. Between
    two roles (a server and its clients) there are no memories, so that only "int8" and "int4" are for them.

    Refused: masks and noise that is drawn link by link, which cancel or are booked for messages as they are; running
    totals, of which rounding would lose more in every round; methods that take messages in one by one; whole numbers.
    Put it around `robust`, not into it: a rule then judges rounded models.

    Privacy: rounding is post-processing of what was released; statement, account and ledger stay as they are.

    Args:
      algorithm: The method, with any objective and mechanism.
      kind: "int8", "int4", "top_k", "every_k" or "sign".
      memory: Whether differences to what was said before are sent, instead of models; by default for "top_k",
        "every_k" and "sign", which cannot do without.
      gamma: With memories, how far an agent moves to what its neighbours are known by, above 0 and at most 1. The more
        is left out, the smaller it has to be, and models that grow without end say that it is too large. By default 1
        for "int8" and "int4", 0.3 for "sign", the share that is sent for "every_k", and four times that for "top_k".
      **settings: Of the kind. For "int8" and "int4": `stochastic`, whether rounding is drawn so that it is right on
        average (yes by default), and `block`, numbers that have one scale (256, for "int4" 64). For "top_k" and
        "every_k": `share` of the numbers that is sent, above 0 and below 1 (0.1), for "every_k" rounded to one in so
        many. For "sign": `block` (256).

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit. Its states hold one more model for what is sent to agents
      of the same role, with memories three.

    Raises:
      ConfigError: There is no such kind, it does not take such a setting, or the method cannot have it.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> short = tacit.algorithms.compressed(method, "int4")
      >>> graph, stream = tacit.graphs.directed_ring(8), tacit.streams.logistic_drift(agents=8, dim=100)
      >>> [int(tacit.simulate(m, graph, stream, rounds=5).per_round["bits"][0, 0]) // 8 for m in (method, short)]
      [3232, 496]

    References:
      Koloskova, Stich and Jaggi (2019), memories of differences; Alistarh et al. (2017), rounding at random.
    """
    operator = _compressor(kind, settings)
    remembers = operator.needs_memory if memory is None else memory
    _check(algorithm, kind, operator, remembers, gamma)
    further = operator.gamma if gamma is None else float(gamma)
    own = dict.fromkeys(phase.source for phase in algorithm.phases if phase.source == phase.target)
    made = algorithm
    for role in own:
        made = lift(made, role, _first(made, role, remembers))
    phases = tuple(_compressed(algorithm.name, made, k, operator, remembers, further) for k in range(len(made.phases)))
    given = algorithm.check

    def check(topology: Any) -> None:
        if given is not None:
            given(topology)
        if remembers and topology.availability:
            raise RequirementError(
                f"{algorithm.name} with compressed differences: {', '.join(sorted(topology.availability))} are away at "
                "times, and would miss differences for good; leave availability out, or send models (memory = false)"
            )

    return made._replace(
        name=compressed_name(algorithm.name, kind),
        phases=phases,
        requires=algorithm.requires | (frozenset({"fixed", "reliable"}) if remembers else frozenset()),
        missing="wait" if remembers else algorithm.missing,
        check=check,
        continuation=_anew(made, own),
    )


def _compressor(kind: str, settings: Mapping[str, Any]) -> Compressor:
    one_of("kind", kind, COMPRESSORS)
    try:
        return COMPRESSORS[kind](**settings)
    except TypeError as error:
        raise ConfigError(f"{kind} with {', '.join(settings)}: {error}; see help(compressed)") from error


def _check(algorithm: Algorithm, kind: str, operator: Compressor, remembers: bool, gamma: float | None) -> None:
    if operator.needs_memory and not remembers:
        raise ConfigError(
            f"memory = false: {kind} leaves out most of a message, so that models themselves cannot be sent by it; "
            'leave memory out, or use "int8" or "int4"'
        )
    if gamma is not None:
        proportion("gamma", gamma, one=True)
    if gamma is not None and not remembers:
        raise ConfigError(f"gamma = {gamma!r}: it is for differences; say memory = true, or leave gamma out")
    for phase in algorithm.phases:
        spread = phase.mechanism.spread
        if spread != "common":
            why = {
                "masked": "masks cancel in sums of messages as they are",
                "per_edge": "its noise is drawn for each link, where one message is rounded for all",
            }.get(spread, "its noise cancels in sums of messages as they are")
            raise ConfigError(
                f"{algorithm.name!r} with mechanism {phase.mechanism.name!r} cannot have compressed messages: {why}; "
                "use gaussian, laplace or correlated noise"
            )
        if remembers and phase.source != phase.target:
            raise ConfigError(
                f"{algorithm.name!r} cannot send differences over {phase.links!r}: a {phase.target} does not hear "
                f"every {phase.source} in every round, so that it does not know what was said before; use kind = "
                '"int8" or "int4" without memories'
            )
    if algorithm.missing == "totals":
        raise ConfigError(
            f"{algorithm.name!r} cannot have compressed messages: it sends running totals, which grow without end, "
            "while what they grow by, and a rounding would take, does not; use online_push_sum"
        )
    if remembers and algorithm.membership is not None:
        raise ConfigError(
            f"{algorithm.name!r} cannot send differences: it splits what it holds among its neighbours, and what a "
            'difference leaves out would be missing in the sum; use kind = "int8" or "int4" without memories'
        )


def _first(algorithm: Algorithm, role: str, remembers: bool) -> Callable[[State, Mapping[str, View]], Tree]:
    """Return what an agent carries at first: nothing, in the shapes of what it sends."""

    def first(state: State, views: Mapping[str, View]) -> dict[str, Said]:
        carried = {}
        for index, phase in enumerate(algorithm.phases):
            if phase.source == role == phase.target:
                none = jax.tree.map(
                    lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), _sent(algorithm, phase, state, views)
                )
                carried[str(index)] = Said(none, none, none) if remembers else Said(none, (), ())
        return carried

    return first


def _sent(algorithm: Algorithm, phase: Phase, state: State, views: Mapping[str, View]) -> Tree:
    """Return the shapes of what a phase sends, where a released value is like a model."""

    def made(state: State, view: View) -> Tree:
        value = algorithm.model(state)
        mechanism = phase.mechanism
        if mechanism.finish is not None and mechanism.distribution is not None:
            unit = jnp.ones(())
            value = mechanism.finish(value, Noise(mechanism.distribution, unit, unit, unit))
        return phase.emit(state, value, view)[1].message.private

    try:
        return jax.eval_shape(made, state, views[phase.links])
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{algorithm.name!r} cannot have compressed messages: what it releases is not of a model's form ({error})"
        ) from error


def _compressed(
    name: str, algorithm: Algorithm, index: int, operator: Compressor, remembers: bool, gamma: float
) -> Phase:
    phase = algorithm.phases[index]
    to_itself, place = phase.source == phase.target, str(index)
    taken_in: Callable[[Key, State, Inbox, View], Carrying] = phase.absorb
    what = f"{name!r}, over {phase.links!r},"

    def rounded(tree: Tree, view: View) -> Tree:
        leaves, structure = jax.tree.flatten(tree)
        words = noise_words(jax.random.fold_in(jax.random.key(_KEY), view.agent), view.round, index)
        return jax.tree.unflatten(
            structure,
            [
                leaf
                if packed_size(operator.packing, leaf.size, np.dtype(leaf.dtype)) is None
                else operator.rounded(leaf.reshape(-1), words, number).reshape(leaf.shape)
                for number, leaf in enumerate(leaves)
            ],
        )

    def emit(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
        state, outbox = phase.emit(state, released, view)
        if outbox.delivery == "per_slot":
            raise ConfigError(f"{what} sends each neighbour a message of its own, of which none is rounded for all")
        given = outbox.message.private
        if not to_itself:
            return state, _with_private(outbox, rounded(given, view))
        said: Said = state.carried[place]
        if _shapes(given) != _shapes(said.own):
            raise ConfigError(f"{what} sends {_shapes(given)}, where {_shapes(said.own)} was expected")
        if remembers:
            if outbox.delivery == "push":
                raise ConfigError(f"{what} pushes: what a difference leaves out would be missing in the sum")
            sent = rounded(jax.tree.map(jnp.subtract, given, said.memory), view)
            after = Said(given, jax.tree.map(jnp.add, said.memory, sent), said.heard)
        else:
            sent = rounded(given, view)
            after = Said(jax.tree.map(jnp.subtract, given, sent), (), ())
        return state._replace(carried={**state.carried, place: after}), _with_private(outbox, sent)

    def absorb(key: Key, state: Carrying, inbox: Inbox, view: View) -> Carrying:
        said: Said = state.carried[place]
        if not remembers:
            return taken_in(key, state, CompressedInbox(inbox, said.own, what), view)
        known = RememberedInbox(inbox, said, gamma, what)
        carried = {**state.carried, place: said._replace(heard=known.heard)}
        return taken_in(key, state._replace(carried=carried), known, view)

    made = phase._replace(emit=emit, packing=operator.packing)
    return made._replace(absorb=absorb) if to_itself else made


_KEY = 0x7AC17
"""Of what is drawn for rounding: no secret, and the same for all runs, so that peers round as a simulation does."""


def _anew(
    algorithm: Algorithm, roles: Mapping[str, None]
) -> Mapping[str, Callable[[State, Mapping[str, View]], State]] | None:
    """Return continuations that begin an epoch with empty memories, at all agents alike."""
    known = algorithm.continuation
    if known is None:
        return None

    def emptied(role: str) -> Callable[[State, Mapping[str, View]], State]:
        def continued(state: Carrying, views: Mapping[str, View]) -> Carrying:
            after: Carrying = known[role](state, views)
            return after._replace(carried=jax.tree.map(jnp.zeros_like, after.carried))

        return continued

    return {role: emptied(role) if role in roles else function for role, function in known.items()}


def _with_private(outbox: Outbox, private: Tree) -> Outbox:
    return Outbox(outbox.message._replace(private=private), outbox.to, outbox.delivery)


def _shapes(tree: Tree) -> Any:
    return jax.tree.map(jnp.shape, tree)
