"""Robust mixing: a method whose agents combine what they hear by a rule that some liars cannot lead astray.

A method says `inbox.mix()`, sum_j W[i, j] x_j, or `inbox.mean()`, the same by weights of sum 1. With a rule R, for the
messages x_j that arrived and s = sum_j W[i, j] over these,

    mean() = R(x_j, weights W[i, j] / s),   mix() = s mean()

so that weights which sum to 1, or do not, mean what they did. Private and public part are combined apart. A neighbour
has one voice: of several messages that arrive together its newest counts. What is not finite counts as not arrived. An
agent that hears too few to outvote b liars in a round (2 b or fewer) keeps its own value; a server, which has none,
trims as many as leave one.

Standing. The messages' distances from the outcome, in units of the middle one of them, speak for or against a sender:

    score_j    <- score_j + RATE ([distance_j > FAR] - score_j)
    distance_j <- distance_j + RATE (min(distance_j, FURTHEST) - distance_j)

From a score of THRESHOLD on (45 far messages in a row, say) a job may put a neighbour into quarantine: for some rounds
it counts as not arrived. Then it is heard again, at half the score. No more than b are in quarantine at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.checks import one_of, whole_number
from tacit.core.contract import Algorithm, Array, Inbox, Key, Message, Phase, State, Tree, View
from tacit.core.errors import ConfigError, RequirementError
from tacit.core.lifted import Carrying, lift
from tacit.core.robust_rules import RULES, Rows, Rule, distances, usual_distance
from tacit.core.standing import Standing

RATE, FAR, FURTHEST, THRESHOLD = 0.05, 3.0, 1000.0, 0.9


class Quarantine(NamedTuple):
    """Whether liars are put into quarantine, and for how long."""

    asked: bool
    rounds: int


class RobustInbox(Inbox):
    """An inbox whose mix and mean are a rule's; what would go round the rule is refused."""

    def __init__(self, inbox: Inbox, arrived: Array, outcome: Message, heard: Array, what: str) -> None:
        self.slot, self.age, self.weight, self.slots = inbox.slot, inbox.age, inbox.weight, inbox.slots
        self.arrived, self._outcome, self._heard, self._what = arrived, outcome, heard, what

    def mean(self) -> Message:
        """Return the rule's outcome."""
        return self._outcome

    def mix(self) -> Message:
        """Return the rule's outcome times the weights' sum."""
        mixed: Message = jax.tree.map(lambda leaf: leaf * self._heard.astype(leaf.dtype), self._outcome)
        return mixed

    def values(self) -> Message:
        """Refuse: of raw messages a rule protects nothing."""
        self._refuse("values")

    def sum(self, weight: Array | None = None) -> Message:
        """Refuse: a sum has no rule."""
        self._refuse("sum")

    def fold(self, function: Callable[[Tree, Message, Array, Array], Tree], first: Tree) -> Tree:
        """Refuse: messages taken one by one have no rule."""
        self._refuse("fold")

    def newest(self) -> tuple[Message, Array]:
        """Refuse: of raw messages a rule protects nothing."""
        self._refuse("newest")

    def _refuse(self, how: str) -> NoReturn:
        raise ConfigError(
            f"{self._what} takes messages in by itself (`inbox.{how}`), where no robust rule stands between them and "
            "its state; use a method that mixes models, e.g. distributed_online or adapt_then_combine"
        )


def robust_name(name: str, rule: str) -> str:
    """Return what a method is called whose agents combine by a rule."""
    return f"{name}, robust ({rule})"


def robust(
    algorithm: Algorithm, rule: str = "clipped", *, quarantine: bool = False, release: int = 500, **settings: Any
) -> Algorithm:
    """Let a method's agents combine what they hear by a rule that some lying neighbours cannot lead astray.

    What `inbox.mix()` and `inbox.mean()` mean changes, and nothing else: steps, messages and noise stay as they are.
    Methods that push (push-sum) are refused, since mass is conserved only where a receiver takes all that it is sent;
    so are masks and noise that cancels in a plain sum, and methods that take messages in by themselves. An agent that
    hears others must hear more than `2 * liars`. Whoever hears a single server trusts it.

    Each agent keeps a standing of its neighbours, from what it received itself, which a peer shows in its status.

    Privacy: statement, account and ledger stay as they are, since a rule works on released values.

    Args:
      algorithm: The method, with any objective and mechanism.
      rule: "clipped" (differences to the own value, shortened), "trimmed_mean", "median" (both by coordinate), or
        "geometric_median".
      quarantine: Whether a neighbour against which the evidence is strong counts as not arrived for a while; for
        methods that go on without a neighbour (`missing="renormalise"`). No by default.
      release: Rounds after which it is heard again, from 1 on; 500 by default.
      **settings: Of the rule. For all: `liars`, b, how many of an agent's neighbours may lie, 1 by default; with 0
        "clipped" and "trimmed_mean" are the plain mix. For "clipped": `tau`, the length that differences are cut to; by
        default that of the 2 b + 1st longest. For "geometric_median": `iterations`, 16 by default, and `smoothing`, the
        least distance, 1e-6 by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Raises:
      ConfigError: There is no such rule, it does not take such a setting, or the method cannot have one.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.distributed_online(tacit.objectives.logistic(), step=0.3)
      >>> wary = tacit.algorithms.robust(method, "trimmed_mean", liars=1)
      >>> stream = tacit.streams.logistic_drift(agents=8, dim=5)
      >>> graph = tacit.graphs.small_world(8, 4, 0.0, seed=0)
      >>> liars = {3: tacit.attacks.sign_flip()}
      >>> tacit.simulate(wary, graph, stream, rounds=20, liars=liars).algorithm
      'distributed_online, robust (trimmed_mean)'

    References:
      He, Karimireddy and Jaggi (2022), clipped gossip; Gaucher, Dieuleveut and Hendrikx (2024), its length; Yin et al.
      (2018), trimmed mean and median; Pillutla, Kakade and Harchaoui (2022), geometric median.
    """
    one_of("rule", rule, RULES)
    try:
        made = RULES[rule](**settings)
    except TypeError as error:
        raise ConfigError(f"{rule} of {', '.join(settings)}: {error}; see help(robust)") from error
    _check_method(algorithm, quarantine, release)
    wary = algorithm
    for role in dict.fromkeys(phase.target for phase in algorithm.phases):
        wary = lift(wary, role, _first_standing(algorithm, role))
    careful = Quarantine(quarantine, release)
    given = algorithm.check

    def check(topology: Any) -> None:
        if given is not None:
            given(topology)
        _check_neighbourhoods(algorithm, made.liars, topology)

    return wary._replace(
        name=robust_name(algorithm.name, rule),
        phases=tuple(
            after._replace(absorb=_absorber(algorithm.name, before, made, careful))
            for before, after in zip(algorithm.phases, wary.phases, strict=True)
        ),
        check=check,
    )


def _check_method(algorithm: Algorithm, quarantine: bool, release: int) -> None:
    for phase in algorithm.phases:
        spread = phase.mechanism.spread
        if spread in ("masked", "homomorphic"):
            why = "a masked message says nothing by itself" if spread == "masked" else "its noise cancels in plain sums"
            raise ConfigError(
                f"{algorithm.name!r} with mechanism {phase.mechanism.name!r} cannot have a robust rule: {why}; "
                "use gaussian, laplace or correlated noise"
            )
    if quarantine and algorithm.missing != "renormalise":
        raise ConfigError(
            f"quarantine: {algorithm.name!r} cannot go on without a neighbour's message (missing = "
            f"{algorithm.missing!r}); use a method with missing = 'renormalise', or leave quarantine out"
        )
    whole_number("release", release, "rounds, e.g. 500", most=2**30 - 1)


def _check_neighbourhoods(algorithm: Algorithm, liars: int, topology: Any) -> None:
    for phase in algorithm.phases:
        graph = topology.links.get(phase.links)
        if graph is None:  # named as missing elsewhere
            continue
        degree = np.asarray(graph.in_degree)
        if phase.source != phase.target and degree.max(initial=0) <= 1:
            continue
        short = (degree > 0) & (degree <= 2 * liars)
        if short.any():
            agent = int(np.argmax(short))
            _refuse_neighbourhood(algorithm.name, f"{phase.target} {agent}", int(degree[agent]), phase.links, liars)


def _refuse_neighbourhood(name: str, who: str, heard: int, links: str, liars: int) -> NoReturn:
    raise RequirementError(
        f"{name}: {who} hears {heard} on {links!r}, but to outvote liars = {liars} an agent has to hear more than "
        f"{2 * liars}; add links, or tolerate fewer liars"
    )


def _first_standing(algorithm: Algorithm, role: str) -> Callable[[State, Mapping[str, View]], Tree]:
    heard = dict.fromkeys(phase.links for phase in algorithm.phases if phase.target == role)

    def first(state: State, views: Mapping[str, View]) -> dict[str, Standing]:
        def of(view: View) -> Standing:
            nothing = jnp.zeros(view.into.weight.shape, view.into.weight.dtype)
            return Standing(nothing, nothing, jnp.zeros(nothing.shape, jnp.int32))

        return {links: of(views[links]) for links in heard}

    return first


def _absorber(
    name: str, phase: Phase, rule: Rule, quarantine: Quarantine
) -> Callable[[Key, Carrying, Inbox, View], Carrying]:
    own = phase.source == phase.target

    def absorb(key: Key, carrying: Carrying, inbox: Inbox, view: View) -> Carrying:
        if inbox.slots == 1 or (inbox.slots == 2 and not own):
            return carrying._replace(state=phase.absorb(key, carrying.state, inbox, view))
        if inbox.weight is None:
            raise ConfigError(
                f"{name!r} pushes: a receiver that takes less than it is sent loses mass, and push-sum divides by it, "
                "so that it can have no robust rule; use a method that shares, e.g. distributed_online"
            )
        if 0 < inbox.slots - 1 <= 2 * rule.liars:  # what a peer knows before round 0; padding hides it in simulations
            _refuse_neighbourhood(name, "an agent", inbox.slots - 1, phase.links, rule.liars)
        standing: Standing = carrying.carried[phase.links]
        barred = (standing.until >= view.round) if quarantine.asked else jnp.zeros(standing.until.shape, bool)
        free = inbox.arrived & ~barred[inbox.slot]
        message, found = _voices(inbox)
        if not jax.tree.leaves(message):
            return carrying._replace(state=phase.absorb(key, carrying.state, inbox, view))
        slot = jnp.arange(inbox.slots) if inbox.arrived.shape[0] > inbox.slots else inbox.slot
        private, public = (_flat(part, name, slot.size) for part in message)
        mine = (slot == 0) & found & own
        sound = jnp.all(jnp.isfinite(private), axis=1) & jnp.all(jnp.isfinite(public), axis=1)
        here = mine | (found & ~barred[slot] & sound)
        weight = jnp.where(here, inbox.weight[slot], 0)
        heard = jnp.sum(weight)
        weight = weight / jnp.where(heard > 0, heard, 1)
        others = jnp.sum(here & ~mine)

        def outcome(x: Array) -> Array:
            combined = rule.combine(Rows(x, here, weight.astype(x.dtype), mine))
            if not own:
                return combined
            kept = jnp.sum(jnp.where(mine[:, None], x, 0), axis=0)
            return jnp.where(others > 2 * rule.liars, combined, kept)

        taken = outcome(private)
        result = Message(_shaped(taken, message.private), _shaped(outcome(public), message.public))
        what = f"{name!r}, over {phase.links!r},"
        state = phase.absorb(key, carrying.state, RobustInbox(inbox, free, result, heard, what), view)
        length = distances(Rows(private, here, weight, mine), taken)
        judged = _judged(standing, length, here & ~mine, slot, jnp.linalg.norm(taken))
        after = _confined(judged, rule.liars, quarantine.rounds, view.round) if quarantine.asked else judged
        return Carrying(state, {**carrying.carried, phase.links: after})

    return absorb


def _voices(inbox: Inbox) -> tuple[Message, Array]:
    """Return one message of every neighbour and whether it has one."""
    return inbox.newest() if inbox.arrived.shape[0] > inbox.slots else (inbox.values(), inbox.arrived)


def _flat(part: Tree, name: str, entries: int) -> Array:
    """Return (E, d) the leaves of a part side by side."""
    leaves = jax.tree.leaves(part)
    for leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ConfigError(
                f"{name!r} sends numbers of type {leaf.dtype}, of which no robust rule makes a mean; use a method that "
                "sends models, e.g. distributed_online"
            )
    return jnp.concatenate([jnp.zeros((entries, 0)), *(leaf.reshape(entries, -1) for leaf in leaves)], axis=1)


def _shaped(vector: Array, like: Tree) -> Tree:
    leaves, structure = jax.tree.flatten(like)
    parts, taken = [], 0
    for leaf in leaves:
        size = leaf[0].size
        parts.append(vector[taken : taken + size].reshape(leaf.shape[1:]).astype(leaf.dtype))
        taken += size
    return jax.tree.unflatten(structure, parts)


def _judged(standing: Standing, length: Array, others: Array, slot: Array, size: Array) -> Standing:
    """Note how far each message lay from the outcome, beside what is usual; rounding errors are not far."""
    usual = usual_distance(length, others) + 1e-5 * size
    ratio = jnp.where(others & (length > 0), length / usual, 0)
    ratio = jnp.minimum(ratio, FURTHEST).astype(standing.score.dtype)

    def moved(old: Array, new: Array) -> Array:
        return old.at[slot].add(jnp.where(others, RATE * (new.astype(old.dtype) - old[slot]), 0))

    return standing._replace(score=moved(standing.score, ratio > FAR), distance=moved(standing.distance, ratio))


def _confined(standing: Standing, liars: int, rounds: int, now: Array) -> Standing:
    """Put those with the highest scores into quarantine, no more at a time than may lie."""
    score, inside = standing.score, standing.until > now
    due = (score >= THRESHOLD) & ~inside
    number = jnp.arange(score.size)
    ahead = due & ((score > score[:, None]) | ((score == score[:, None]) & (number < number[:, None])))
    chosen = due & (jnp.sum(ahead, axis=1) + jnp.sum(inside) < liars)
    until = jnp.where(chosen, now + rounds, standing.until).astype(jnp.int32)
    return standing._replace(score=jnp.where(chosen, score / 2, score), until=until)
