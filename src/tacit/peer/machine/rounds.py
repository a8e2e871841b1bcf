"""The round machine of one agent, without input or output of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Batch, Key, Message, Params, State, View
from tacit.core.errors import ContractError, MessageRefused, PrivacyError
from tacit.core.inbox import StackedInbox
from tacit.peer.machine.envelopes import Ends, EndsRead, Envelope, by_slot, misfit, stacked, too_late
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.machine.releases import Releaser, refuse_unnumbered
from tacit.peer.machine.snapshots import Memories, Snapshot
from tacit.privacy.charges import Held
from tacit.privacy.clipping import refuse_nonfinite
from tacit.privacy.events import NO_RECORDS
from tacit.privacy.noise import hides

Views = Mapping[str, View]
"""Link set -> the agent's view of it in a round."""
HORIZON = 2
"""Messages are kept for this many rounds to come; what is sent further ahead has to wait at its sender."""


class RoundMachine:
    """One agent that goes through the phases of one round after another, without input or output of its own.

    A shell (a socket loop, an in-memory network, a test) feeds it batches and envelopes and delivers the envelopes
    that it returns. The machine never waits: `waiting_for` names the senders whose messages the current phase lacks,
    and the shell decides when to `proceed`::

        outgoing = machine.begin(batch, views)      # round t: phase 0 up to its messages
        machine.receive(envelope)                   # as they come, early or late
        outgoing = machine.proceed()                # absorb, and on to the next phase's messages
        ... until machine.between_rounds

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
      >>> stream = tacit.streams.logistic_drift(agents=3, dim=2)
      >>> run = tacit.peer.run_in_process(method, tacit.graphs.directed_ring(3), stream, rounds=2)
      >>> machine = run.machines["peer"][0]
      >>> machine.round, machine.between_rounds, machine.waiting_for()
      (2, True, set())
    """

    def __init__(
        self,
        functions: AgentFunctions,
        role: str,
        agent: int,
        key: Key,
        params: Params,
        views: Views,
        longest_delay: int = 0,
        releaser: Releaser | None = None,
    ) -> None:
        """Make the first state.

        Args:
          functions: The method's compiled functions, shared by all agents of equal shapes.
          role: The agent's role in the method.
          agent: Its id within the role, from 0 on.
          key: Its random key, from which noise is simulated where there is no releaser.
          params: Parameters to begin with.
          views: Its view of each link set in round 0: every link that there will be.
          longest_delay: Rounds that a message may be late, at least 0.
          releaser: Draws noise and books every release; by default nothing is booked.
        """
        self.releaser = releaser
        self.functions, self.role, self.agent, self.key = functions, role, agent, key
        self.algorithm, self.longest_delay = functions.algorithm, longest_delay
        self.round = 0
        self.state: State = functions.init[role](key, params, views)
        self.memories: Memories = functions.memories(role, wide=releaser is not None)
        self._phase: int | None = None
        self._views, self._ends = views, EndsRead()
        self._batch: Batch = ()
        self._held = Held(NO_RECORDS)
        self._numbered = 0
        self._own: Message | None = None
        self._received: dict[tuple[int, int, int], Message | None] = {}
        """(phase, round sent, in-slot) -> message, until it is absorbed or too old."""
        self._masked = [hides(phase.mechanism) for phase in self.algorithm.phases]
        self._masks: dict[tuple[int, int, int], bytes] = {}
        """The same -> tags of its masks; of a masked message the newest version is kept."""
        self._last: tuple[int, State, Message | None, View] | None = None
        """Phase, state, own message and view of the last absorption."""
        self._absorbed: set[tuple[int, int, int]] = set()
        """Those of them that were absorbed, while a repetition of theirs would not be too old."""
        self._addressed: dict[str, set[int]] = {}
        self._reached: set[str] = set()
        self._not_called: tuple[int, ...] = ()

    @property
    def not_called(self) -> tuple[int, ...]:
        """Out-neighbours that an addressed phase does not call."""
        return self._not_called

    @property
    def phase(self) -> int | None:
        """The phase whose messages are awaited; None between rounds."""
        return self._phase

    @property
    def between_rounds(self) -> bool:
        """Whether no round is under way."""
        return self._phase is None

    @property
    def model(self) -> Params:
        """Parameters to predict with now."""
        return self.functions.model(self.state)

    def comparison(self) -> Callable[[], tuple[Params, Params]]:
        """Return a function that computes the model without and with what neighbours sent in the last phase."""
        functions, state, (index, before, own, view) = self.functions, self.state, self._last or (0, None, None, None)

        def compared() -> tuple[Params, Params]:
            if view is None:
                return functions.model(state), functions.model(state)
            inbox = self._inbox(index, {} if own is None else {0: own}, view)
            inbox.weight = None if inbox.weight is None else jnp.zeros_like(inbox.weight).at[0].set(1)
            return functions.model(functions.absorb(index, self.key, before, inbox, view)), functions.model(state)

        return compared

    def begin(self, batch: Batch, views: Views, records: Iterable[int] | None = None) -> list[Envelope]:
        """Start the next round.

        Args:
          batch: The round's data; `()` in a role without data.
          views: View of each link set in this round.
          records: Numbers of the records in the batch (-1: an empty place), by which the ledger knows those that come
            again; None for records that never do.

        Returns:
          The messages of the first phase.
        """
        if self._phase is not None:
            raise ContractError(f"round {self.round} is still in phase {self._phase}; proceed first")
        if self.releaser is not None:
            # A clip would take such a record for zero: safe, but the peer would learn nothing and not say so.
            refuse_nonfinite(batch, f"batch of {self.role} {self.agent} in round {self.round + 1}")
        self.round += 1
        self._batch, self._views = batch, views
        numbered = max(self.round, self._numbered + 1)
        self._held = Held.of(records, numbered)
        if self._held.records == NO_RECORDS and self.role == self.algorithm.learner:
            refuse_unnumbered(batch, self.round)
        self._addressed, self._reached = {}, set()
        try:
            envelopes = self._enter(0)
        except PrivacyError:  # what may not be released is not sent, and the round has not begun
            self._phase = None
            self.round -= 1
            raise
        self._numbered = numbered
        return envelopes

    def skip_to(self, round_: int) -> None:
        """Leave rounds out.

        Args:
          round_: Becomes the last round that is over; not before the present one.
        """
        if self._phase is not None or round_ < self.round:
            raise ContractError(f"round {self.round} cannot become {round_}: rounds are left out between two, forwards")
        self.round = round_
        self._received = {place: m for place, m in self._received.items() if not self._expired(*place[:2])}

    def restart_after(self, round_: int) -> None:
        """Go on after another round; messages received are forgotten.

        Args:
          round_: Becomes the last round that is over; it may lie behind.
        """
        if self._phase is not None:
            raise ContractError(f"round {self.round} is still in phase {self._phase}; proceed first")
        self._numbered = max(self._numbered, self.round)
        self.round = round_
        self._received, self._masks, self._absorbed = {}, {}, set()

    def _revise(self, views: Views) -> None:
        """Take other liveness of links into the round under way; slots stay."""
        self._views = views

    def _forget_slot(self, slot: int) -> None:
        """Forget what came through an in-slot, which another neighbour may get."""
        self._received = {place: m for place, m in self._received.items() if place[2] != slot}
        self._absorbed = {place for place in self._absorbed if place[2] != slot}

    def release_name(self, round_: int, phase: int) -> str:
        """Return the unique name under which the release of a phase is booked.

        Args:
          round_: Round, 1, 2, ...
          phase: Phase, counted from 0.
        """
        return f"{self.role} {self.agent} round {round_} phase {phase}"

    def too_early(self, sent: int) -> bool:
        """Whether a message has to wait at its sender.

        Args:
          sent: Round in which it was sent, 1, 2, ...
        """
        return sent > self.round + HORIZON

    def compile(self, batch: Batch) -> None:
        """Compile all functions of this agent, by running them once; the machine stays as it is.

        Args:
          batch: Data of the shapes of a round's batch.
        """
        for index, phase in enumerate(self.algorithm.phases):
            view = self._views.get(phase.links)
            if view is not None and phase.source == self.role:
                given = batch if self.role == self.algorithm.learner else ()
                self.functions.compile(index, self.key, self.state, given, view, self.releaser is not None)
            if view is not None and phase.target == self.role:
                self.functions.absorb(index, self.key, self.state, self._inbox(index, {}, view), view)

    def snapshot(self) -> Snapshot:
        """Return the state that `restore` needs in another process."""
        return Snapshot(
            self.round,
            self._phase,
            self._held,
            self.state,
            self._batch,
            self._own,
            {links: sorted(agents) for links, agents in self._addressed.items()},
            sorted(self._reached),
            sorted(self._absorbed),
            self._numbered,
            self.memories,
        )

    def restore(self, snapshot: Snapshot, views: Views) -> None:
        """Go on from a snapshot; messages since then have to be sent again.

        Args:
          snapshot: From `snapshot`, of this agent.
          views: View of each link set in its round.
        """
        self.round, self._phase, self._held = snapshot.round, snapshot.phase, snapshot.held
        self.state, self._batch, self._own = snapshot.state, snapshot.batch, snapshot.own
        self.memories, self._numbered = snapshot.memories, max(snapshot.numbered, snapshot.round)
        self._addressed = {links: set(agents) for links, agents in snapshot.addressed.items()}
        self._reached, self._absorbed = set(snapshot.reached), set(snapshot.absorbed)
        self._views, self._received, self._masks = views, {}, {}

    def receive(self, envelope: Envelope) -> None:
        """Take a message in; MessageRefused where it does not fit.

        Args:
          envelope: A message over a link of this agent, neither too old, too early nor repeated.
        """
        if not 0 <= envelope.phase < len(self.algorithm.phases):
            raise MessageRefused("phase", f"phase {envelope.phase} of {len(self.algorithm.phases)}")
        phase = self.algorithm.phases[envelope.phase]
        if phase.target != self.role or envelope.receiver != self.agent or envelope.links != phase.links:
            whose = f"{envelope.links!r} to agent {envelope.receiver}"
            raise MessageRefused("address", f"{whose} is not for {self.role} {self.agent}")
        slot = self._into(phase.links).slot_of.get(envelope.sender)
        if slot is None:
            raise MessageRefused("sender", f"agent {envelope.sender} is not an in-neighbour of {self.agent}")
        if envelope.round < 1 or self._expired(envelope.phase, envelope.round):
            raise MessageRefused("stale", too_late(envelope, self.round, self._phase, self.algorithm))
        if self.too_early(envelope.round):
            raise MessageRefused("early", f"sent in round {envelope.round}, but here it is round {self.round}")
        place = (envelope.phase, envelope.round, slot)
        again = place in self._received and self._masks.get(place, b"") == envelope.masks
        if again or place in self._absorbed:
            raise MessageRefused("repeated", f"round {envelope.round} of agent {envelope.sender} is here already")
        if self._masked[envelope.phase]:
            from tacit.peer.masking.pairing import check_tags

            check_tags(envelope.sender, envelope.masks, self._senders(envelope.phase))
        spec, form = self.functions.specs[envelope.phase], self.functions.forms[envelope.phase]
        if not (spec.addressed if envelope.message is None else form.fits(envelope.message)):
            raise MessageRefused("content", misfit(envelope, spec.message))
        self._received[place] = envelope.message
        if envelope.masks:
            self._masks[place] = envelope.masks

    def waiting_for(self) -> set[int]:
        """Return the ids of the agents whose message of this round the current phase lacks."""
        if self._phase is None or self.algorithm.phases[self._phase].target != self.role:
            return set()
        phase = self.algorithm.phases[self._phase]
        into = self._into(phase.links)
        here = {slot for k, sent, slot in list(self._received) if (k, sent) == (self._phase, self.round)}
        missing = {agent for s, agent in enumerate(into.agents) if s and into.live[s] and s not in here}
        if self._masked[self._phase]:
            from tacit.peer.masking.pairing import unmatched

            return unmatched(
                self._senders(self._phase), {into.agents[s]: self._masks[self._phase, self.round, s] for s in here}
            )
        if phase.answers is None or runtime.link_ends(self.algorithm)[phase.answers][0] != self.role:
            return missing
        return missing & self._addressed.get(phase.answers, set())

    def proceed(self) -> list[Envelope]:
        """Absorb the messages received and go on to the next phase; returns its messages."""
        if self._phase is None:
            raise ContractError(f"round {self.round} is over; begin the next one")
        index = self._phase
        if self._masked[index] and (apart := self.waiting_for()):
            raise ContractError(
                f"round {self.round}, phase {index} cannot go on: messages of {', '.join(map(str, sorted(apart)))} are "
                "not here, or their masks do not cancel; wait for those that do"
            )
        if self.algorithm.phases[index].target == self.role:
            self._take_in(index)
        return self._enter(index + 1)

    def _senders(self, index: int) -> list[int]:
        return sorted(self._into(self.algorithm.phases[index].links).slot_of)

    def _into(self, name: str) -> Ends:
        return self._ends.of("into", name, self._views[name].into)

    def _expired(self, phase: int, sent: int) -> bool:
        done = self.round if self._phase is None or phase < self._phase else self.round - 1
        return sent <= done - self.longest_delay if sent <= done else False

    def _enter(self, index: int) -> list[Envelope]:
        """Start a phase: prepare this agent's messages if it is a source there."""
        self._own, self._not_called = None, ()
        if index == len(self.algorithm.phases):
            self._phase = None
            return []
        self._phase = index
        phase = self.algorithm.phases[index]
        silent = phase.answers is not None and phase.answers not in self._reached
        if phase.source != self.role or silent:
            return []
        view = self._views[phase.links]
        batch = self._batch if self.role == self.algorithm.learner else ()
        given, releaser = (index, self.key, self.state, batch, view, self.memories[index]), self.releaser
        if releaser is None:
            ready = self.functions.prepare(*given)
        else:
            ready = self.functions.prepare_booked(*given, releaser, self.release_name(self.round, index), self._held)
        self.state, outbox = ready.state, ready.outbox
        self.memories = (*self.memories[:index], ready.memory, *self.memories[index + 1 :])
        envelopes = []
        out, addressed = self._ends.of("out", phase.links, view.out), np.asarray(ready.addressed).tolist()
        messages = by_slot(outbox, [slot for slot, called in enumerate(addressed) if called], view)
        for slot, message in messages.items():
            if slot == 0:
                self._own = message
            else:
                envelopes.append(Envelope(phase.links, index, self.round, self.agent, out.agents[slot], message))
        self._addressed.setdefault(phase.links, set()).update(e.receiver for e in envelopes)
        if outbox.to is not None:
            others = zip(out.agents[1:], out.live[1:], addressed[1:], strict=True)
            self._not_called = tuple(agent for agent, live, called in others if live and not called)
        return envelopes

    def _take_in(self, index: int) -> None:
        phase = self.algorithm.phases[index]
        view, live = self._views[phase.links], self._into(phase.links).live
        slots = len(live)
        found: dict[int, Message] = {}
        if self._own is not None:
            found[0] = self._own
        for place in list(self._received):
            k, sent, slot = place
            if k == index and sent <= self.round:
                message = self._received.pop(place)
                self._masks.pop(place, None)
                # Over a link that was up when it was sent: for this round that is known.
                if self.round - sent <= self.longest_delay and (sent < self.round or live[slot]):
                    if message is not None:
                        found[(self.round - sent) * slots + slot] = message
                    self._absorbed.add(place)
        # A repetition in a phase that this round has yet to come to is not too old before that phase is over.
        self._absorbed = {
            (k, sent, s) for k, sent, s in self._absorbed if sent > self.round - self.longest_delay - (k > index)
        }
        if any(entry % slots for entry in found):
            self._reached.add(phase.links)
        elif runtime.is_answered(self.algorithm, index):
            return
        inbox = self._inbox(index, found, view)
        self._last = (index, self.state, self._own, view)
        self.state = self.functions.absorb(index, self.key, self.state, inbox, view)

    def _inbox(self, index: int, found: Mapping[int, Message], view: View) -> StackedInbox:
        return stacked(self.functions.specs[index], self.functions.forms[index], found, view, self.longest_delay)
