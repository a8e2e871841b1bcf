"""An algorithm under watch: it runs as it is, while two hypotheses about its data are followed beside it.

The attacker knows the method, both data sets and every message that an agent sends or hears. So it can replay the agent
under either data set: the same functions, fed with the messages that were really heard, give the state the agent would
have, the value it would have handed to the mechanism, and hence the noise that must have been drawn; and the message
that would have left, which must be the one that did. `audited` turns any algorithm into one that carries these replays
in its state, so that the ordinary simulator runs it, every repeat a trial. Noise and messages of the run itself come
from the path that is under audit; the replays only look on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tacit import runtime
from tacit.core.contract import (
    Algorithm,
    Array,
    Batch,
    Inbox,
    Key,
    Mechanism,
    Message,
    Objective,
    Outbox,
    Params,
    Phase,
    PrivacyStatement,
    State,
    Tree,
    View,
)
from tacit.privacy import records_in

_SAME = 1e-9
"""Messages of a run and of its replay that differ by more than this share of the largest number at hand (of the
message, the state, the value or what was released of it) are different. In double precision rounding is 1e-15 of it: a
replay may add the same numbers in another order. Of the message alone it may be any share, where what is added nearly
cancels."""


class DataSetPair(NamedTuple):
    """A batch under either data set; every leaf has a leading axis over pairs of them."""

    given: Batch
    other: Batch

    @property
    def y(self) -> Array | jax.ShapeDtypeStruct | None:
        """Labels, by which `records_in` counts the records of a batch."""
        y = getattr(self.given, "y", None)
        if y is None or hasattr(y, "__getitem__"):
            return None if y is None else y[0]
        return jax.ShapeDtypeStruct(y.shape[1:], y.dtype)  # of a batch that is known by its shapes


class Trial(NamedTuple):
    """Lots of a trial, drawn when it starts; the attacker has to find out `other` and knows the rest."""

    other: Array
    """Whether the run reads the other data set."""
    position: Array
    """The first round whose batch differs."""
    pair: Array


class Evidence(NamedTuple):
    """The attacker's evidence of one agent; entries go round by round, and phase by phase within a round."""

    trial: Trial
    residuals: Array
    """(2, entries, width) released value minus what it would be under either hypothesis; NaN where nothing was seen."""
    ratios: Array
    """(entries,) as declared: sensitivity in units of the noise's scale."""
    scales: Array
    """(entries,) as declared; NaN where no noise was."""
    leaks: Array
    """(2,) whether a message left that could not have left under this hypothesis."""


class Watched(NamedTuple):
    """State of an agent under watch."""

    states: State
    """Leading axis of 3: as it is, and as it would be under either hypothesis."""
    own: Mapping[str, Message]
    """Per phase to its own role, the replays' messages to themselves, which no attacker sees."""
    evidence: Evidence


class _Computed(NamedTuple):
    """Between compute and emit."""

    watched: Watched
    values: Tree
    """Values about to be released, in the run and in either replay: leading axis of 3."""


class _OwnMessage(Inbox):
    """An inbox with another message in place of what the agent sent to itself."""

    def __init__(self, inbox: Inbox, own: Message, own_weight: Array) -> None:
        self.slot, self.arrived, self.age = inbox.slot, inbox.arrived, inbox.age
        self.weight, self.slots = inbox.weight, inbox.slots
        self._inbox, self._own = inbox, own
        self._scale = own_weight if inbox.weight is None else jnp.ones_like(own_weight)

    def values(self) -> Message:
        own_entry = (self.slot == 0) & self.arrived

        def replaced(heard: Array, own: Array) -> Array:
            mask = own_entry.reshape(own_entry.shape + (1,) * own.ndim)
            return jnp.where(mask, self._scale.astype(own.dtype) * own if self.weight is None else own, heard)

        message: Message = jax.tree.map(replaced, self._inbox.values(), self._own)
        return message


def audited(
    algorithm: Algorithm,
    batch: Batch,
    rounds: int,
    positions: Sequence[int],
    every_round: bool = False,
    one_link: bool = False,
    again: tuple[int, int] = (1, 1),
) -> Algorithm:
    """Put an algorithm under watch, for a stream of `DataSetPair`; its `model` is then the `Evidence`.

    A trial draws by lot which of the two data sets is read, which pair of them, and the round in which they differ.

    Args:
      algorithm: The method.
      batch: One agent's batch; shapes are enough.
      rounds: Rounds of the run.
      positions: Rounds of which one differs.
      every_round: Whether the data sets differ in all rounds.
      one_link: Whether the attacker sees the first of the victim's links alone.
      again: In how many rounds the record that differs is read, and how many rounds lie between two of them.

    Returns:
      An algorithm for `tacit.simulate` that promises nothing: its state holds data.

    Example:
      >>> import jax, tacit
      >>> method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
      >>> one = tacit.streams.Batch(jax.ShapeDtypeStruct((2,), "float32"), jax.ShapeDtypeStruct((), "float32"))
      >>> audited(method, one, rounds=3, positions=[1, 3]).privacy.private
      False
    """
    indices = range(len(algorithm.phases))
    phases = tuple(_watched(algorithm, index, batch, every_round, one_link, again) for index in indices)
    objective = Objective(
        name=algorithm.objective.name,
        loss=lambda evidence, both: jnp.zeros(()),
        initial=lambda both: algorithm.objective.initial(batch),
    )
    return algorithm._replace(
        name=f"{algorithm.name} under watch",
        objective=objective,
        init={role: _watched_init(algorithm, role, rounds, tuple(positions), batch) for role in algorithm.init},
        phases=phases,
        model=lambda watched: watched.evidence,
        privacy=without_promise(algorithm.privacy),
        predictor=algorithm.learner,
        constraints={},  # of models, which are the evidence here
        diagnostics={},
    )


def without_promise(statement: PrivacyStatement) -> PrivacyStatement:
    """Return the statement of a run that is watched: its state holds data for the attacker, so nothing is promised.

    Args:
      statement: That of the method; what a release is charged to stays as it says.
    """
    return PrivacyStatement.none()._replace(composition=statement.composition)


def _watched_init(
    algorithm: Algorithm, role: str, rounds: int, positions: tuple[int, ...], batch: Batch
) -> Callable[[Key, Params, Mapping[str, View]], Watched]:
    init = algorithm.init[role]
    mine = [(index, phase) for index, phase in enumerate(algorithm.phases) if phase.source == role]

    def watched_init(key: Key, params: Params, views: Mapping[str, View]) -> Watched:
        state = init(key, params, views)
        first, second = jax.random.key_data(
            key
        )  # the key of this agent's start is random itself, and new in each trial
        places = jnp.asarray(positions, jnp.int32)
        trial = Trial(first % 2 == 1, places[(first >> 1) % len(positions)], second)
        width, own = 1, {}
        for index, phase in mine:
            view = views[phase.links]
            part = batch if role == algorithm.learner else ()
            value = jax.eval_shape(partial(runtime.compute, phase, index), key, state, part, view)[1]
            copies = view.out.live.shape[0] if phase.mechanism.per_slot else 1
            width = max(width, copies * sum(leaf.size for leaf in jax.tree.leaves(value)))
            if phase.target == role:
                correlation = phase.mechanism.correlation
                memory = None if correlation is None else correlation.start(value)
                sent = jax.eval_shape(partial(runtime.prepare, phase, index), key, state, part, view, memory)
                skip = 1 if sent.outbox.delivery == "per_slot" else 0
                own[str(index)] = jax.tree.map(
                    lambda leaf, skip=skip: jnp.zeros((2, *leaf.shape[skip:]), leaf.dtype), sent.outbox.message
                )
        entries = rounds * len(algorithm.phases)
        nothing = Evidence(
            trial,
            jnp.full((2, entries, width), jnp.nan),
            jnp.zeros((entries,)),
            jnp.full((entries,), jnp.nan),
            jnp.zeros(2, bool),
        )
        return Watched(jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), state), own, nothing)

    return watched_init


def _watched(
    algorithm: Algorithm, index: int, batch: Batch, every_round: bool, one_link: bool, again: tuple[int, int]
) -> Phase:
    phase = algorithm.phases[index]
    learns = phase.source == algorithm.learner
    records = records_in(batch) if learns else 1
    to_itself = phase.source == phase.target

    def compute(key: Key, watched: Watched, both: DataSetPair, view: View) -> tuple[_Computed, Tree]:
        batches = _read(watched.evidence.trial, both, view, every_round, again) if learns else ()
        states, values = jax.vmap(phase.compute, in_axes=(None, 0, 0, None))(key, watched.states, batches, view)
        return _Computed(watched._replace(states=states), values), _actual(values)

    def emit(computed: _Computed, released: Tree, view: View) -> tuple[Watched, Outbox]:
        watched, values = computed
        # With noise anything could have been released under either hypothesis; without, only the replay's own value.
        noisy = phase.mechanism.distribution is not None
        given = _released_under(phase.mechanism, released, values, view) if noisy else values
        states, outboxes = jax.vmap(phase.emit, in_axes=(0, 0, None))(watched.states, given, view)
        outbox, replayed = _actual(outboxes), _replays(outboxes)
        seen = view.out.live.at[0].set(False)
        if one_link:
            seen &= jnp.arange(seen.size) == 1
        entry = (view.round - 1) * len(algorithm.phases) + index
        evidence = _noted(phase, watched.evidence, entry, released, _replays(values), records, view, seen)
        size = _largest((outbox, released, _actual(values), _actual(watched.states)))
        leaks = jax.vmap(lambda other: _differs(outbox, other, seen, size))(replayed)
        own = dict(watched.own)
        if to_itself:
            own[str(index)] = jax.tree.map(
                lambda leaf: leaf[:, 0] if outbox.delivery == "per_slot" else leaf, replayed.message
            )
        return Watched(states, own, evidence._replace(leaks=evidence.leaks | leaks)), outbox

    def absorb(key: Key, watched: Watched, inbox: Inbox, view: View) -> Watched:
        def replayed(state: State, own: Tree) -> State:
            heard = _OwnMessage(inbox, own, view.out.weight[0]) if to_itself else inbox
            return phase.absorb(key, state, heard, view)

        actual = phase.absorb(key, _actual(watched.states), inbox, view)
        own: Tree = watched.own[str(index)] if to_itself else ()
        replays = jax.vmap(replayed)(_replays(watched.states), own)
        states = jax.tree.map(lambda one, two: jnp.concatenate([one[None], two]), actual, replays)
        return watched._replace(states=states)

    return phase._replace(compute=compute, absorb=absorb, emit=emit)


def _released_under(mechanism: Mechanism, released: Tree, values: Tree, view: View) -> Tree:
    """Return what was released, and what must have been under either hypothesis: leading axis of 3.

    What others got is what they got. But of homomorphic noise the agent's own copy carries the draw otherwise, and the
    draw that explains what the neighbours got differs between the hypotheses.
    """

    def under(out: Array, value: Array) -> Array:
        everyone = jnp.broadcast_to(out, (3, *out.shape))
        if mechanism.own_share is None:
            return everyone
        own = value + mechanism.own_share(view).astype(out.dtype) * (out[1] - value)
        return everyone.at[1:, 0].set(own[1:])

    return jax.tree.map(under, released, values)


def _actual(states: Tree) -> Tree:
    return jax.tree.map(lambda leaf: leaf[0], states)


def _replays(states: Tree) -> Tree:
    return jax.tree.map(lambda leaf: leaf[1:], states)


def _read(trial: Trial, both: DataSetPair, view: View, every_round: bool, again: tuple[int, int]) -> Batch:
    """Return the batch that the run reads, and those under either hypothesis."""
    pairs = jax.tree.leaves(both.given)[0].shape[0]
    reads, apart = again
    turn, since = jnp.divmod(view.round - trial.position, apart)
    differs = ((since == 0) & (turn >= 0) & (turn < reads)) | every_round

    def leaf(given: Array, other: Array) -> Array:
        one, two = (x[0] if pairs == 1 else x[trial.pair % pairs] for x in (given, other))
        two = jnp.where(differs, two, one)
        return jnp.stack([jnp.where(trial.other, two, one), one, two])

    return jax.tree.map(leaf, both.given, both.other)


def _noted(
    phase: Phase,
    evidence: Evidence,
    entry: Array,
    released: Tree,
    values: Tree,
    records: int,
    view: View,
    seen: Array,
) -> Evidence:
    """Note the evidence of a release; one without receivers is seen too, since it is charged all the same."""
    declared = runtime.declare(phase, jax.tree.map(lambda leaf: leaf[0], values), records, view)
    if declared is None:
        return evidence
    parts = []
    for out, value in zip(jax.tree.leaves(released), jax.tree.leaves(values), strict=True):
        if phase.mechanism.per_slot:
            residual = jnp.where(_along(seen, out), out - value[:, None], jnp.nan)
        else:
            residual = out - value
        parts.append(residual.reshape(2, -1))
    found = jnp.concatenate(parts, axis=1)
    missing = evidence.residuals.shape[-1] - found.shape[1]
    row = jnp.pad(found, ((0, 0), (0, missing)), constant_values=jnp.nan)
    write = jax.lax.dynamic_update_index_in_dim
    return evidence._replace(
        residuals=write(evidence.residuals, row, entry, 1),
        ratios=write(evidence.ratios, declared.sensitivity / declared.scale, entry, 0),
        scales=write(evidence.scales, declared.scale, entry, 0),
    )


def _largest(tree: Tree) -> Array:
    """Return the largest finite number, sign aside."""
    leaves = [jnp.abs(leaf) for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    sizes = [jnp.max(jnp.where(jnp.isfinite(leaf), leaf, 0), initial=0) for leaf in leaves]
    return jnp.max(jnp.stack(sizes)) if sizes else jnp.zeros(())


def _differs(outbox: Outbox, other: Outbox, seen: Array, size: Array) -> Array:
    """Whether a receiver got another message than this replay would have sent, made of numbers up to `size`."""
    different = jnp.zeros(seen.shape, bool)
    pairs = list(zip(jax.tree.leaves(outbox), jax.tree.leaves(other), strict=True))
    for a, b in pairs:
        apart = a != b
        if jnp.issubdtype(a.dtype, jnp.floating):
            apart &= ~(jnp.abs(a - b) <= _SAME * size) & ~(jnp.isnan(a) & jnp.isnan(b))
        per_slot = outbox.delivery == "per_slot" and a is not outbox.to
        different |= jnp.any(apart.reshape(apart.shape[0], -1), axis=1) if per_slot else jnp.any(apart)
    return jnp.any(different & seen)


def _along(slots: Array, leaf: Array) -> Array:
    return slots.reshape(slots.shape + (1,) * (leaf.ndim - 1))
