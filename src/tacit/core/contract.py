"""The contract: all that an algorithm knows, and all that a runtime may ask of it.

An algorithm is a tuple of pure functions of *one* agent. It sees no clock, socket, log or global array; randomness
comes in as a key. A round is a sequence of phases; a phase carries one message along one named set of links::

    batch -> compute -> mechanism (the only place where noise enters) -> emit -> [links] -> absorb

The same functions run vectorised in the simulator and one agent at a time in a peer. docs/design.md holds five methods
written against this file on paper, which is how its shape was settled.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from tacit.core.errors import ConfigError, ContractError

Array = jax.Array
Key = jax.Array
Tree = Any
"""A pytree of arrays."""
State = Tree
Params = Tree
Batch = Tree
Schedule = Callable[[Array], Array]
"""A step size or strength as a function of the round t = 1, 2, ..."""


class Links(NamedTuple):
    """One side of an agent's links in a phase, slot by slot.

    Slot 0 is the agent itself: it hears what it shares with itself, and that is never sent. (Between two roles there is
    no self, and slot 0 is not live.) Slots keep their meaning over the rounds, so that a state may hold one memory per
    slot. What is not live in this round (padding, a link that is down, an absent neighbour) has weight 0.
    """

    agent: Array
    """(S,) int32, id of the neighbour within its role; -1 where there is none."""
    live: Array
    """(S,) bool, whether the link can be used in this round."""
    weight: Array
    """(S,) W[receiver, sender] of that link in this round."""

    @property
    def degree(self) -> Array:
        """Number of live neighbours, itself not counted."""
        return jnp.sum(self.live[1:])


class View(NamedTuple):
    """All that an agent may know of the world in a phase."""

    agent: Array
    """Own id within the role."""
    round: Array
    """t = 1, 2, ... as in the texts."""
    present: Array
    """Whether this agent takes part in the round; an absent one has no live links but may still learn alone."""
    data_size: Array
    """Number of own samples; 0 for an endless stream."""
    out: Links
    """Whom it sends to in this phase."""
    into: Links
    """Whom it hears in this phase."""
    cluster: Array | int = 0
    """Which cluster it belongs to, counted from 0; 0 where there are none."""
    fresh: Array | bool = True
    """In compute and emit of a learner: whether this round brings it data. (How many there are is no secret.)"""


class Message(NamedTuple):
    """What travels along a link."""

    private: Tree
    """Computed from data; passed through the phase's mechanism before it gets here."""
    public: Tree
    """Must not depend on data (push-sum mass, coordinate window, counts): no noise, no charge. Checked."""


Delivery = Literal["share", "push", "per_slot"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Outbox:
    """What an agent sends in a phase. Make it with `share`, `push` or `per_slot`."""

    message: Message
    """What is sent: one for all, or with a leading axis over the out-slots."""
    to: Array | None
    """(L,) out-slots that are addressed in this round, -1 for none; None addresses every live slot."""
    delivery: Delivery = field(metadata={"static": True})
    """Who weighs it: the receiver, the sender, or one value for each."""


def share(private: Tree, public: Tree = (), to: Array | None = None) -> Outbox:
    """Send one value to every neighbour; the receiver weighs it."""
    return Outbox(Message(private, public), to, "share")


def push(private: Tree, public: Tree = (), to: Array | None = None) -> Outbox:
    """Send one value to every neighbour, split by the sender: receiver i gets W[i, j] times the value."""
    return Outbox(Message(private, public), to, "push")


def per_slot(private: Tree, public: Tree = (), to: Array | None = None) -> Outbox:
    """Send its own value to each neighbour: every leaf has a leading axis over the out-slots (slot 0: to itself)."""
    return Outbox(Message(private, public), to, "per_slot")


class Inbox(ABC):
    """What an agent hears in a phase: A entries, each one message that was sent to it.

    With no delay there is one entry per in-slot. With delays up to l rounds there are l + 1 per slot, since several
    messages of one neighbour may arrive together or out of order. What did not arrive reads as zeros, whatever the
    buffers hold. Entry `a` came through in-slot `slot[a]`; entries are in the order of their age, then of their slot.
    """

    slot: Array
    """(A,) int32."""
    arrived: Array
    """(A,) bool."""
    age: Array
    """(A,) int32: rounds since it was sent."""
    weight: Array | None
    """(S,) W[i, j] still to be applied here; None where the sender has applied it (`push`)."""
    slots: int
    """Number of in-slots S."""

    @abstractmethod
    def values(self) -> Message:
        """Every entry, stacked along a leading axis of length A."""

    def sum(self, weight: Array | None = None) -> Message:
        """Add up what arrived, each entry times `weight[its slot]` where weights (S,) are given."""
        scale = jnp.ones(self.arrived.shape) if weight is None else weight[self.slot]
        total: Message = jax.tree.map(
            lambda leaf: jnp.tensordot(jnp.where(self.arrived, scale, 0).astype(leaf.dtype), leaf, axes=1),
            self.values(),
        )
        return total

    def mix(self) -> Message:
        """Sum of W[i, j] times what j sent, over what arrived, whoever applied the weight: the usual combination."""
        return self.sum(self.weight)

    def mean(self) -> Message:
        """`mix` over what arrived, its weights scaled to sum to one, so that a constant is kept whoever is away."""
        if self.weight is None:
            raise ContractError(
                "a mean over what arrived needs the weights, but the sender has applied them; use `share`"
            )
        heard = jnp.sum(jnp.where(self.arrived, self.weight[self.slot], 0))
        scale = 1 / jnp.where(heard > 0, heard, 1)
        scaled: Message = jax.tree.map(lambda leaf: leaf * scale.astype(leaf.dtype), self.mix())
        return scaled

    def fold(self, function: Callable[[Tree, Message, Array, Array], Tree], first: Tree) -> Tree:
        """Go through what arrived, the youngest first and of one age by slot: function(so far, message, slot, age).

        It costs what arrived, not what could have. Use it where messages are not simply added up.
        """
        return self._over_arrived(
            lambda so_far, entry: function(so_far, self._entry(entry), self.slot[entry], self.age[entry]), first
        )

    def _over_arrived(self, function: Callable[[Tree, Array], Tree], first: Tree) -> Tree:
        """Go through the numbers of the entries that arrived."""
        upto = jnp.cumsum(self.arrived, dtype=jnp.int32)

        def step(k: Array, so_far: Tree) -> Tree:
            return function(so_far, jnp.searchsorted(upto, k + 1).astype(jnp.int32))

        return jax.lax.fori_loop(0, upto[-1], step, first)

    def _entry(self, entry: Array) -> Message:
        """Return one entry that arrived."""
        found: Message = jax.tree.map(lambda leaf: leaf[entry], self.values())
        return found

    def newest(self) -> tuple[Message, Array]:
        """Per in-slot the youngest entry that arrived, and whether there was one: leaves (S, ...), mask (S,)."""
        hit = self.arrived & (self.slot == jnp.arange(self.slots)[:, None])
        age = jnp.where(hit, self.age, 2**31 - 1)
        entry = jnp.argmin(age, axis=1)
        found = hit.any(axis=1)

        def pick(leaf: Array) -> Array:
            mask = found.reshape(found.shape + (1,) * (leaf.ndim - 1))
            return jnp.where(mask, leaf[entry], jnp.zeros((), leaf.dtype))

        return jax.tree.map(pick, self.values()), found


Distribution = Literal["laplace", "gaussian", "bounded_laplace"]
Spread = Literal["common", "per_edge", "homomorphic", "masked"]
"""How the noise of a release lies on an agent's links.

- common: one draw, one noisy value for everybody, the agent itself included.
- per_edge: an independent draw for every link, and one for the agent's own copy.
- homomorphic: one draw for all neighbours; what the agent keeps carries it with `own_share`, so that nothing of it is
  left in the (weighed) sum over the network.
- masked: the sender multiplies by W[receiver, sender] and rounds to a fixed-point grid, so that what a receiver adds
  up is a sum of integers, exact in whatever order it is taken. Masks that pairs of the receiver's senders have agreed
  on cancel in it to the bit. The runtime adds them as the message leaves: no agent could draw them alone.
"""
Adjacency = Literal["record", "component", "dataset"]
"""What differs between two neighbouring data sets: one record is replaced; one component of one record's clipped
gradient differs; all records of one agent are replaced."""


Requirement = Literal[
    "strongly_connected",
    "connected_over_time",
    "symmetric",
    "sender_normalised",
    "receiver_normalised",
    "doubly_stochastic",
    "fixed",
    "reliable",
    "hears_itself",
    "several_senders",
]
"""hears_itself: every agent gives its own value a weight above 0. several_senders: nobody hears exactly one other
agent, whose masks would have nothing to cancel against."""


class Noise(NamedTuple):
    """One declaration from which the sampler draws and the ledger books."""

    distribution: Distribution
    """What a draw follows."""
    scale: Array
    """Of Laplace noise b, of Gaussian noise the standard deviation, per coordinate."""
    sensitivity: Array
    """Largest change between neighbours: in the l1 norm for Laplace noise, in the l2 norm for Gaussian noise."""
    bound: Array | None = None
    """Bounded Laplace only: a draw outside [-bound, bound] is replaced by bound / 2."""


class Extent(NamedTuple):
    """What is known of a value before it is computed; a sensitivity may depend on it."""

    coordinates: int
    """Numbers that the value consists of."""
    records: int
    """How many records the value is a mean over: 1, or the batch size."""


class Clip(NamedTuple):
    """The bound that makes a sensitivity true: every record's gradient is scaled down to it."""

    bound: float
    """Largest norm of a record's gradient."""
    norm: Literal["l2", "l1", "linf"] = "l2"
    """linf clips each coordinate by itself."""


class Mechanism(NamedTuple):
    """How a private value becomes one that may leave: the only place where noise enters.

    Make one with `tacit.privacy.laplace`, `gaussian`, `decaying_gaussian` or `bounded_laplace`. Noise is calibrated to
    a loss of privacy by its `ratio`, whatever the method makes of the gradient, or has a size of its own (`scale`).
    """

    name: str
    """What tables and messages call it."""
    distribution: Distribution | None = None
    """None releases the value as it is."""
    sensitivity: Callable[[View, Extent], Array] | None = None
    """View and extent -> how far one record can move the value."""
    scale: Callable[[View, Array], Array] | None = None
    """View and sensitivity -> scale of the noise, where it is not calibrated."""
    ratio: float | None = None
    """Sensitivity over scale in round 1 of calibrated noise: what a release costs, whatever the sensitivity is."""
    decay: float = 1.0
    """By which the variance of calibrated noise shrinks per round."""
    clip: Clip | None = None
    """What `compute` must do to each record's gradient; None leaves gradients as they are."""
    perturbs: Literal["gradient", "update", "model"] = "model"
    """What is released: the gradient, the step made of it, or the model after the step."""
    adjacency: Adjacency = "record"
    """What the numbers speak of: see `Adjacency`."""
    bound: float | None = None
    """Bounded Laplace only: in units of the scale."""
    finish: Callable[[Tree, Noise], Tree] | None = None
    """Post-processing of the noisy value that belongs to the mechanism."""
    spread: Spread = "common"
    """How noise lies on the links: see `Spread`."""
    own_share: Callable[[View], Array] | None = None
    """Homomorphic only: view -> the factor with which the agent's own copy carries the draw."""
    grid: float | None = None
    """Masked only: the step of the fixed-point grid; None takes the one of the value's precision."""
    mask_scale: float = 0.0
    """Masked only: the scale of one pair's Laplace mask; 0 leaves messages as they are, on the grid."""
    requires: frozenset[Requirement] = frozenset()
    """What the spread needs of the links that carry it."""
    mean_over: Callable[[View, Extent], Array] | None = None
    """How many records the value is a mean over; None: over the places of a batch, record by record."""
    apart: bool = False
    """Of a mean over so many records: whether it is made of what each of them gives by itself."""

    def __repr__(self) -> str:
        """Return name, place and clip in one line."""
        place = f" on the {self.perturbs}, per {self.adjacency}" if self.distribution is not None else ""
        clip = f", clip {self.clip.bound:g} in {self.clip.norm}" if self.clip is not None else ""
        return f"Mechanism({self.name}{place}{clip})"

    @property
    def per_slot(self) -> bool:
        """Whether the released value has a leading axis over the out-slots."""
        return self.spread != "common"

    def noise(self, view: View, extent: Extent) -> Noise | None:
        """Return the declaration for this round and agent; None where nothing is added."""
        if self.distribution is None:
            return None
        assert self.sensitivity is not None  # the constructors see to it
        sensitivity = self.sensitivity(view, extent)
        if self.spread == "per_edge":
            # One release of many copies: in the l1 norm their changes add, in the l2 norm the squares.
            copies = (1 + view.out.degree).astype(jnp.result_type(float))
            sensitivity = sensitivity * (jnp.sqrt(copies) if self.distribution == "gaussian" else copies)
        if (self.ratio is None) == (self.scale is None):
            raise ContractError(
                f"mechanism {self.name!r} has ratio = {self.ratio!r} and scale = {self.scale!r}: expected one of them, "
                "noise that is calibrated or noise of a size of its own"
            )
        if self.ratio is None:
            assert self.scale is not None
            scale = self.scale(view, sensitivity)
        else:
            scale = sensitivity / self.ratio
            if self.decay != 1:
                scale *= jnp.exp(math.log(self.decay) / 2 * (view.round - 1).astype(jnp.result_type(float)))
        return Noise(self.distribution, scale, sensitivity, None if self.bound is None else self.bound * scale)

    def ratio_in(self, round_: int) -> float | None:
        """Return what calibrated noise costs in a round: sensitivity over scale, in double precision."""
        if self.ratio is None:
            return None
        try:
            return self.ratio * math.exp(-math.log(self.decay) / 2 * (round_ - 1))
        except OverflowError:
            return math.inf

    def amplified(self, gain: Callable[[View], Array]) -> Mechanism:
        """Return the mechanism for a value that is `gain` times as sensitive as a clipped gradient."""
        sensitivity = self.sensitivity
        if sensitivity is None:
            return self
        # A step backwards (a schedule that falls below 0) moves as far as one forwards.
        return self._replace(sensitivity=lambda view, extent: jnp.abs(gain(view)) * sensitivity(view, extent))

    def for_whole_batch(self) -> Mechanism:
        """Return the mechanism for a value of which one record can move every other record's part as well.

        That is so where a state that depends on data enters the computation: a batch of many records helps no more.
        """
        return self.over(lambda view, extent: jnp.ones(()))

    def over(self, records: Callable[[View, Extent], Array], apart: bool = False) -> Mechanism:
        """Return the mechanism for a mean over so many records; `apart`: one that is made of each of them by itself."""
        sensitivity = self.sensitivity
        if sensitivity is None or self.adjacency == "dataset":
            return self
        if self.adjacency == "component" and not apart:
            raise ConfigError(
                f"mechanism {self.name!r} counts one component of one gradient that changes (adjacency 'component'), "
                "but here a record's gradient goes on to move others, in all components: say adjacency = 'record', or "
                "take one local step on a whole batch, with noise on the gradient or the update"
            )

        def of_mean(view: View, extent: Extent) -> Array:
            return sensitivity(view, extent._replace(records=1)) / records(view, extent)

        return self._replace(sensitivity=of_mean, mean_over=records, apart=apart)


class PrivacyStatement(NamedTuple):
    """What a neighbour may learn, in words that travel with every figure."""

    private: bool
    """Whether anything is promised."""
    unit: str
    """Whose data are protected: a record, say."""
    adjacency: str
    """What differs between two neighbouring data sets."""
    composition: str
    """How releases add up: parallel or sequential."""
    assumptions: tuple[str, ...]
    """What it rests on, and what of that is enforced."""
    text_claims: str
    """What the source text says, which may be more than what holds."""
    holds: str
    """What we vouch for."""

    @classmethod
    def none(cls, text_claims: str = "no guarantee is claimed") -> PrivacyStatement:
        """Return the statement of an algorithm that releases its values as they are."""
        return cls(False, "none", "none", "none", (), text_claims, "not private: values leave as they were computed")


def _release_as_is(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
    return state, share(released)


class Phase(NamedTuple):
    """One message along one named set of links, from agents of one role to agents of one role."""

    links: str
    """Name of the link set."""
    compute: Callable[[Key, State, Batch, View], tuple[State, Tree]]
    """The private work; the only function that sees data. Agents without data get an empty batch `()`."""
    mechanism: Mechanism
    """What the value passes before it leaves."""
    absorb: Callable[[Key, State, Inbox, View], State]
    """Key, state, what arrived and view -> the next state of a receiver."""
    emit: Callable[[State, Tree, View], tuple[State, Outbox]] = _release_as_is
    """Post-processing of the released value into messages."""
    source: str = "peer"
    """Role of the senders."""
    target: str = "peer"
    """Role of the receivers."""
    answers: str | None = None
    """Name of an earlier phase's links. Only agents which that phase reached in this round take part, so that a sampled
    cohort works and is waited for, and nobody else; the others keep their state. Between two roles, whoever the earlier
    phase did not reach keeps its state in that phase as well."""


@runtime_checkable
class Separable(Protocol):
    """A loss that is known to be a loss of the data plus a regulariser, which needs no clipping."""

    @property
    def data(self) -> Callable[[Params, Batch], Array]:
        """Mean loss of the batch."""

    @property
    def regulariser(self) -> Callable[[Params], Array]:
        """What depends on the parameters alone."""


class Objective(NamedTuple):
    """What is learnt: a loss of one agent's batch, and how to start and judge a model for it."""

    name: str
    """What tables and messages call it."""
    loss: Callable[[Params, Batch], Array]
    """Mean loss of the batch plus the regulariser: f_it(x)."""
    initial: Callable[[Batch], Params]
    """From the shapes of one agent's batch to the first parameters."""
    score: Callable[[Params, Batch], Array] | None = None
    """A figure to report besides the loss, e.g. the share of right predictions in the batch."""
    score_name: str = "accuracy"
    """What tables call the score."""
    smoothed: Callable[[float], Callable[[Params, Batch], Array]] | None = None
    """Nonsmooth losses only: mu -> a smooth loss below it by at most mu, for comparators found by a solver."""
    predict: Callable[[Params, Array], Array] | None = None
    """Parameters and x -> what is said of x: a number, or one per class. Peers need it to answer questions."""


class Domain(Protocol):
    """The set that a method keeps its parameters in."""

    @property
    def within(self) -> Any:
        """The convex set itself (`tacit.objectives.ConvexSet`), with whose points regret compares; None: no bounds."""

    def first(self, like: Params) -> Params:
        """Return where a run starts that was not told where."""

    def fault(self, params: Params) -> str | None:
        """Say what keeps parameters out of the set; None where nothing does."""


Missing = Literal["wait", "renormalise", "totals"]
"""What a method does about a neighbour whose message is not there in time: it cannot do without (`wait`), its absorb
mixes over who arrived, alone if nobody did (`renormalise`), or a later message makes up for it (`totals`)."""


class Algorithm(NamedTuple):
    """A method: pure per-agent functions, and what they need of the world."""

    name: str
    """What tables and messages call it."""
    objective: Objective
    """What is learnt."""
    init: Mapping[str, Callable[[Key, Params, Mapping[str, View]], State]]
    """Role -> first state from the first parameters and the role's view of each link set at round 0. The views' shapes
    hold throughout, so a state may reserve one memory per slot."""
    phases: tuple[Phase, ...]
    """What happens in a round, in order."""
    model: Callable[[State], Params]
    """State of a `predictor` -> the parameters to predict with."""
    requires: frozenset[Requirement]
    """What graph and channel must keep, checked before round 0."""
    privacy: PrivacyStatement
    """What holds of its privacy, and what its text claims."""
    weights: Literal["sender", "receiver", "metropolis"] = "receiver"
    """Rule for the weights of a graph that was given without any."""
    topology: Callable[[Any], Any] | None = None
    """What the method makes of the given graph before a run (COL: completes it; DOL-Symm: keeps mutual links)."""
    check: Callable[[Any], None] | None = None
    """Raises if the method cannot run on a topology for reasons that `requires` has no word for."""
    check_data: Callable[[Batch], None] | None = None
    """Raises if the method cannot run on such data: batches with leading axes (rounds, agents), the first of a run."""
    learner: str = "peer"
    """The role that holds data."""
    missing: Missing = "wait"
    """Whether peers wait for a neighbour that is late; whoever does not require reliable links goes on without it."""
    predictor: str = "peer"
    """The role whose states `model` reads; a server's model speaks for the learners that it serves."""
    domain: Domain | None = None
    """Where the parameters live: a start outside of it is refused, and without a start it says where to begin."""
    window: int | None = None
    """B of a method for links that come and go: those of every B rounds in a row must connect everybody together. None:
    those of all rounds."""
    constraints: Mapping[str, Callable[[Params, Batch], Array]] = MappingProxyType({})
    """Name -> c(params, batch), which the method keeps at 0 or below in the long run; noted in every round."""
    prepare: Callable[[Batch], Batch] | None = None
    """What `compute` gets in a batch's place: the batch with more leaves, a factorisation for instance. Pure, so that a
    runtime may do it once where data repeat."""
    horizon: int | None = None
    """T, where settings are made for so many rounds: whoever runs it for another number of them is told."""
    diagnostics: Mapping[str, Callable[[State], Array]] = MappingProxyType({})
    """Name -> a number or an array of a learner's state to look at (a residual, a tuned strength); it never leaves the
    agent."""


unprotected = Mechanism("unprotected")
"""Releases values as they are, said aloud: every phase names its mechanism."""
