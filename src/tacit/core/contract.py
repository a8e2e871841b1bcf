"""The contract: all that an algorithm knows, and all that a runtime may ask of it.

An algorithm is a tuple of pure functions of *one* agent. It sees no clock, socket, log or global array; randomness
comes in as a key. A round is a sequence of phases; a phase carries one message along one named set of links::

    batch -> compute -> mechanism (the only place where noise enters) -> emit -> [links] -> absorb

The same functions run vectorised in the simulator and one agent at a time in a peer. docs/design.md holds five methods
written against this file on paper, which is how its shape was settled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from tacit.core.lazy import lazy_exports
from tacit.core.mechanism import (
    Adjacency,
    Clip,
    Distribution,
    Extent,
    Mechanism,
    Memory,
    Noise,
    Requirement,
    Spread,
    unprotected,
)
from tacit.core.messages import (
    Array,
    Batch,
    Delivery,
    Inbox,
    Key,
    Links,
    Message,
    Outbox,
    Params,
    Schedule,
    State,
    Tree,
    View,
    per_slot,
    push,
    share,
)

if TYPE_CHECKING:  # a running peer loads these where its messages are packed, or its noise has a memory
    from tacit.core.correlation import Correlation
    from tacit.core.packing import Packing

__all__ = [
    "Adjacency",
    "Algorithm",
    "Array",
    "Batch",
    "Clip",
    "Correlation",
    "Delivery",
    "Distribution",
    "Domain",
    "Extent",
    "Inbox",
    "Key",
    "Links",
    "Mechanism",
    "Membership",
    "Memory",
    "Message",
    "Missing",
    "Noise",
    "Objective",
    "Outbox",
    "Params",
    "Phase",
    "PrivacyStatement",
    "Requirement",
    "Schedule",
    "Separable",
    "Spread",
    "State",
    "Tree",
    "View",
    "per_slot",
    "push",
    "share",
    "unprotected",
]
__getattr__ = lazy_exports(__package__, {"correlation": "Correlation"})[0]


class PrivacyStatement(NamedTuple):
    """Statement of what a neighbour may learn, in words that travel with every figure.

    Args:
      private: Whether anything is promised.
      unit: Whose data are protected: a record, say.
      adjacency: What differs between two neighbouring data sets.
      composition: How releases add up: parallel or sequential.
      assumptions: What it rests on, and what of that is enforced.
      text_claims: What the source text says, which may be more than what holds.
      holds: The guarantee that is vouched for here.
    """

    private: bool
    unit: str
    adjacency: str
    composition: str
    assumptions: tuple[str, ...]
    text_claims: str
    holds: str

    @classmethod
    def none(cls, text_claims: str = "no guarantee is claimed") -> PrivacyStatement:
        """Return the statement of an algorithm that releases its values as they are.

        Args:
          text_claims: What the source text says of it.
        """
        return cls(False, "none", "none", "none", (), text_claims, "not private: values leave as they were computed")


def _release_as_is(state: State, released: Tree, view: View) -> tuple[State, Outbox]:
    return state, share(released)


class Phase(NamedTuple):
    """One message along one named set of links, from agents of one role to agents of one role.

    Args:
      links: Name of the link set.
      compute: Key, state, batch and view -> the next state and the value to release: the private work, and the only
        function that sees data. Agents without data get an empty batch `()`.
      mechanism: Of the release: noise and its accounting; `unprotected` releases the value as it is.
      absorb: Key, state, what arrived and view -> the next state of a receiver.
      emit: State, released value and view -> state and outbox; the default shares the value with all neighbours.
      source: Role of the senders.
      target: Role of the receivers.
      answers: Name of an earlier phase's links. Only agents which that phase reached in this round take part, so that a
        sampled cohort works and is waited for, and no other agent; the others keep their state. Between two roles, an
        agent that the earlier phase did not reach keeps its state in that phase as well.
      packing: How peers write the floating numbers of the private part in fewer bytes; the numbers that `emit` gives
        must be such as it can write (`tacit.algorithms.compressed`). None: as they are.
    """

    links: str
    compute: Callable[[Key, State, Batch, View], tuple[State, Tree]]
    mechanism: Mechanism
    absorb: Callable[[Key, State, Inbox, View], State]
    emit: Callable[[State, Tree, View], tuple[State, Outbox]] = _release_as_is
    source: str = "peer"
    target: str = "peer"
    answers: str | None = None
    packing: Packing | None = None


@runtime_checkable
class Separable(Protocol):
    """A loss that is known to be a loss of the data plus a regulariser, which needs no clipping."""

    @property
    def data(self) -> Callable[[Params, Batch], Array]:
        """Mean loss of the batch."""

    @property
    def regulariser(self) -> Callable[[Params], Array]:
        """Part that depends on the parameters alone."""


class Objective(NamedTuple):
    """Objective of learning: a loss of one agent's batch, and how to start and judge a model for it.

    Args:
      name: For tables and messages.
      loss: Mean loss of the batch plus the regulariser: f_it(x).
      initial: From the shapes of one agent's batch to the first parameters.
      score: A figure to report besides the loss, e.g. the share of right predictions in the batch.
      score_name: Name of the score in tables.
      smoothed: Nonsmooth losses only: mu -> a smooth loss below it by at most mu, for comparators found by a solver.
      predict: Parameters and x -> what is said of x: a number, or one per class. Peers need it to answer questions.
      training: Key, parameters and batch -> the loss that is learnt from, where it draws (dropout, augmentation); of a
        `Separable` loss in the place of the data's part. None: it is `loss`, which draws nothing and judges models.
      task: Kind of the labels: "binary" (-1, 1), "multiclass" (0, 1, ...) or "regression"; None: that of the name.
    """

    name: str
    loss: Callable[[Params, Batch], Array]
    initial: Callable[[Batch], Params]
    score: Callable[[Params, Batch], Array] | None = None
    score_name: str = "accuracy"
    smoothed: Callable[[float], Callable[[Params, Batch], Array]] | None = None
    predict: Callable[[Params, Array], Array] | None = None
    training: Callable[[Key, Params, Batch], Array] | None = None
    task: Literal["binary", "multiclass", "regression"] | None = None

    def __repr__(self) -> str:
        penalty = getattr(self.loss, "regulariser", None)
        terms = "".join(f", {name}={value:g}" for name in ("l1", "l2") if (value := getattr(penalty, name, 0)))
        return f"Objective({self.name}{terms})"


class Domain(Protocol):
    """The set that a method keeps its parameters in."""

    @property
    def within(self) -> Any:
        """The convex set itself (`tacit.objectives.ConvexSet`), with whose points regret compares; None: no bounds."""

    def first(self, like: Params) -> Params:
        """Return the start of a run that was given none.

        Args:
          like: The objective's first parameters, of the shapes that are needed.
        """

    def fault(self, params: Params) -> str | None:
        """Say what keeps parameters out of the set; None where nothing does.

        Args:
          params: Parameters, numbers and not traced ones.
        """


Missing = Literal["wait", "renormalise", "totals"]
"""Treatment of a neighbour whose message is late: the method cannot do without it (`wait`), its absorb mixes over what
arrived, if need be its own value alone (`renormalise`), or a later message makes up for it (`totals`)."""


class Membership(NamedTuple):
    """How agents come and go while a method runs, for methods in which the sender splits what it holds.

    A leaver needs no function of its own: in its last rounds its view has weight 0 for itself, so that all it holds
    goes to those it sends to.

    Args:
      vacant: First state -> that of an agent which joins: it holds nothing, and adds nothing to what the others hold.
      settled: State -> whether it holds enough to learn from its own data; until then it only passes on.
      ample: State -> whether it holds enough to share; until then it keeps all it has while links to it come and go,
        and does not begin to learn after it has joined.
    """

    vacant: Callable[[State], State]
    settled: Callable[[State], Array]
    ample: Callable[[State], Array]


def same_state(state: State, views: Mapping[str, View]) -> State:
    """Return the state as it is: the continuation of a method whose state knows nothing of its links.

    Args:
      state: Last state of an epoch.
      views: Views of the next epoch's links.
    """
    return state


class Algorithm(NamedTuple):
    """A method: pure functions of one agent, and what they need of graph, channel and data.

    Args:
      name: For tables and messages.
      objective: Loss to be learnt.
      init: Role -> first state from the first parameters and the role's view of each link set at round 0. The views'
        shapes hold throughout, so a state may reserve one memory per slot.
      phases: Parts of a round, in order.
      model: State of a `predictor` -> the parameters to predict with.
      requires: Properties of graph and channel, checked before round 0.
      privacy: Guarantee that holds, and what its text claims.
      weights: Rule for the weights of a graph that was given without any.
      topology: Given graph -> the graph that is run on (completed, or only its mutual links); None: as given.
      check: Raises if the method cannot run on a topology for reasons that `requires` has no word for.
      check_data: Raises if the method cannot run on such data: batches with leading axes (rounds, agents), the first of
        a run.
      learner: The role that holds data.
      missing: Whether peers wait for a neighbour that is late; a method that does not require reliable links goes on.
      predictor: The role whose states `model` reads; a server's model speaks for the learners that it serves.
      domain: Where the parameters live: a start outside of it is refused, and without a start it says where to begin.
      window: B of a method for links that come and go: those of every B rounds in a row must together connect all
        agents. None: those of all rounds.
      constraints: Name -> c(params, batch), which the method keeps at 0 or below in the long run; noted in every round.
      prepare: Batch -> what `compute` gets in its place: the batch with more leaves, a factorisation for instance.
        Pure, so that a runtime may do it once where data repeat.
      horizon: T, where settings are made for so many rounds; a run of another length warns.
      diagnostics: Name -> a number or an array of a learner's state to look at (a residual, a tuned strength); it never
        leaves the agent.
      membership: How peers join and leave within an epoch; None: members and links are fixed.
      continuation: Role -> (last state of an epoch, views of the next one's links at round 0) -> first state of the
        next, in which memories per slot are with their neighbours already; None: no state is carried to other links.

    Example:
      A step on the own batch, then the mean over the neighbours:

      >>> import jax, tacit
      >>> objective = tacit.objectives.logistic()
      >>> def compute(key, model, batch, view):
      ...     return model, model - 0.1 * jax.grad(objective.loss)(model, batch)
      >>> def absorb(key, model, inbox, view):
      ...     return inbox.mix().private
      >>> method = Algorithm(
      ...     "adapt_and_mix",
      ...     objective,
      ...     init={"peer": lambda key, params, views: params},
      ...     phases=(Phase("peers", compute, unprotected, absorb),),
      ...     model=lambda state: state,
      ...     requires=frozenset({"receiver_normalised", "reliable"}),
      ...     privacy=PrivacyStatement.none(),
      ... )
      >>> method
      Algorithm(adapt_and_mix)
      >>> run = tacit.simulate(method, tacit.graphs.ring(4), tacit.streams.logistic_drift(4, 3), rounds=5)
    """

    name: str
    objective: Objective
    init: Mapping[str, Callable[[Key, Params, Mapping[str, View]], State]]
    phases: tuple[Phase, ...]
    model: Callable[[State], Params]
    requires: frozenset[Requirement]
    privacy: PrivacyStatement
    weights: Literal["sender", "receiver", "metropolis"] = "receiver"
    topology: Callable[[Any], Any] | None = None
    check: Callable[[Any], None] | None = None
    check_data: Callable[[Batch], None] | None = None
    learner: str = "peer"
    missing: Missing = "wait"
    predictor: str = "peer"
    domain: Domain | None = None
    window: int | None = None
    constraints: Mapping[str, Callable[[Params, Batch], Array]] = MappingProxyType({})
    prepare: Callable[[Batch], Batch] | None = None
    horizon: int | None = None
    diagnostics: Mapping[str, Callable[[State], Array]] = MappingProxyType({})
    membership: Membership | None = None
    continuation: Mapping[str, Callable[[State, Mapping[str, View]], State]] | None = None

    def __repr__(self) -> str:
        return f"Algorithm({self.name})"
