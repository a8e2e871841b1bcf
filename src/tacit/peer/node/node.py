"""A whole peer without input or output of its own: round machine, store, outbox, and the rules of waiting.

A shell reports events with their time (`now`, in seconds of any clock) and asks for the next step. The service drives a
node over TLS in real time; tests drive it over a simulated network in virtual time. Per phase there is one commit, of
charges, state and messages together, and no message leaves before it::

    node.begin(batch, now)                      # when node.ready_to_begin
    node.receive(name, links, phase, sent, message)
    node.proceed(now)                           # when node.due(now), until node.between_rounds
    node.waiting(name)                          # messages that a neighbour has not confirmed

After a crash a new node goes on from the store: in-neighbours send again what its position does not cover, and it sends
again, byte by byte the same, what its out-neighbours have not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tacit.core.contract import Batch, Message, Params
from tacit.core.errors import ContractError, MessageRefused, StoreError
from tacit.peer.machine.claims import FURTHEST_AHEAD, Claims, Patience
from tacit.peer.machine.envelopes import Envelope
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.machine.releases import BookedReleaser
from tacit.peer.machine.rounds import HORIZON, RoundMachine
from tacit.peer.masking.no_masks import masks_of
from tacit.peer.membership.fixed import FixedLinks, links_of
from tacit.peer.node.assignment import Plan
from tacit.peer.node.exchange import Parcel, Position
from tacit.peer.node.outbox import Outbox, parcels_of
from tacit.peer.node.snapshot import decode, encode, links_in
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.queue import Seen
from tacit.peer.transport.codec import LAST_ROUND, Codec
from tacit.privacy.ledger.store import number_of
from tacit.privacy.noise import NoiseSource

if TYPE_CHECKING:
    from tacit.peer.masking.masker import Pads
    from tacit.peer.membership.members import Members


class Node:
    """One peer: see the top of this file."""

    def __init__(
        self,
        plan: Plan,
        store: PeerStore,
        deadline: float | None,
        now: float,
        functions: AgentFunctions | None = None,
        pads: Callable[[str], Pads | None] | None = None,
    ) -> None:
        """Begin, or go on from what the store holds; `deadline` is how long a phase waits, in seconds.

        Without a deadline every phase waits for every neighbour and no round is left out, even if the method allows it.
        Peers of a job in one process may share `functions`, compiled once; `pads`: receiver -> key streams of masks.
        """
        self.plan, self.store, self.deadline = plan, store, deadline
        data = store.snapshot()
        with self.plan.precision():
            self.links = links_of(self, links_in(data))
            first = self.links.views(0)
            if functions is None:
                functions = AgentFunctions(plan.algorithm, plan.specs)
            self.machine = RoundMachine(
                functions,
                plan.role,
                plan.agent,
                plan.key,
                plan.params,
                first,
                plan.longest_delay,
                BookedReleaser(store.staged, NoiseSource()) if plan.booked else None,
            )
        self.specs = functions.specs
        self.codec = Codec(plan.job, self.specs)
        self.masker = masks_of(plan, self.specs, pads)
        """Masks messages as they leave; passes on those that need no masks."""
        self.cursor: Any = None
        """Cursor of the data source, as of the last round that began."""
        self._phase_began = now
        self.claims = Claims()
        """Rounds that in-neighbours claim to be in."""
        self._patience = Patience()
        self.outbox = Outbox(self.sends_to, self.waits, plan.longest_delay)
        with self.plan.precision():
            self._restore(data)

    # -- state and deadlines -------------------------------------------------------------------------------------------

    @property
    def members(self) -> Members | None:
        """Changes of links while the peer runs; None where they are fixed."""
        return None if isinstance(self.links, FixedLinks) else self.links

    @property
    def hears(self) -> frozenset[str]:
        """Names of those whom this peer hears."""
        return self.links.hears

    @property
    def sends_to(self) -> frozenset[str]:
        """Names of those to whom this peer sends, or is about to."""
        return self.links.sends_to

    @property
    def waits(self) -> bool:
        """Whether a round waits for every neighbour, however long it takes."""
        return self.deadline is None or self.plan.algorithm.missing == "wait"

    @property
    def position_interval(self) -> int:
        """Rounds after which in-neighbours get a position that confirms nothing; under `wait` they need few."""
        return FURTHEST_AHEAD if self.waits else HORIZON

    @property
    def patience(self) -> int:
        """Rounds for which a confirmation may wait: senders that are not held back by it go on."""
        return FURTHEST_AHEAD // 2 if self.waits and not self.plan.longest_delay else 0

    @property
    def round(self) -> int:
        """The round under way, or the last one."""
        return self.machine.round

    @property
    def between_rounds(self) -> bool:
        """Whether no round is under way."""
        return self.machine.between_rounds

    @property
    def position(self) -> Position:
        """Position of this peer by its last commit."""
        return self._position

    @property
    def held_back_by(self) -> set[str]:
        """Out-neighbours that have to confirm before the next round may begin."""
        return self.outbox.held_back_by(self.round)

    @property
    def next_round(self) -> int | None:
        """The next round of this peer by the job's schedule; None: none."""
        return self.plan.following(self.round)

    @property
    def ready_to_begin(self) -> bool:
        """Whether the next round may begin."""
        return self.between_rounds and self.links.may_begin and self.next_round is not None and not self.held_back_by

    def ready(self, now: float) -> bool:
        """Whether the next round should begin, as far as this peer knows without its data."""
        return self.ready_to_begin and (self.links.hurries or now >= self._phase_began + (self.deadline or 0))

    def missing(self) -> set[str]:
        """Return the names of the neighbours whose message of this phase has not come."""
        phase = self.machine.phase
        if phase is None:
            return set()
        role = self.plan.algorithm.phases[phase].source
        return {self.links.name_of(role, agent) for agent in self.machine.waiting_for()} - self.links.ending

    def due(self, now: float) -> bool:
        """Whether the round should proceed: all messages are here, or the missing ones are not waited for."""
        if self.between_rounds:
            return False
        missing = self.missing()
        if self.waits or not missing:
            return not missing
        beyond = self.round + self.plan.longest_delay
        given_up = all(self._patience.is_over(name) or self.claims.is_beyond(name, beyond) for name in missing)
        return given_up or (self.deadline is not None and now >= self._phase_began + self.deadline)

    def due_at(self) -> float | None:
        """Return the time of the phase's deadline, or of a round that does not hurry; None where there is none."""
        no_time = self.links.hurries if self.between_rounds else self.waits
        return None if no_time or self.deadline is None else self._phase_began + self.deadline

    def lag(self) -> int:
        """Return by how many rounds the furthest in-neighbour claims to be ahead."""
        return max(0, self.claims.furthest - max(self.round, (self.next_round or 0) - 1))

    def doubted(self) -> dict[str, int]:
        """Return in-neighbours whose claimed round is too far ahead to be followed at once, with that round."""
        return {} if self.waits else self.claims.doubted(self.round)

    def model(self) -> Params:
        """Return the parameters to predict with now."""
        with self.plan.precision():
            return self.machine.model

    @property
    def predicts(self) -> bool:
        """Whether an agent of this role has a model."""
        return self.plan.role == self.plan.algorithm.predictor

    def comparison(self) -> Callable[[], tuple[Params, Params]]:
        """Return a function that computes the model had no neighbour been heard in the last phase, and as it is."""
        return self.machine.comparison()

    @property
    def releases_cut(self) -> int:
        """Releases since the start that exceeded their declared sensitivity, and were cut down to it."""
        releaser = self.machine.releaser
        return releaser.cut if isinstance(releaser, BookedReleaser) else 0

    def compile(self) -> None:
        """Compile all functions, so that the first deadline is not spent on that."""
        with self.plan.precision():
            self.machine.compile(self.plan.batch)

    def begin(
        self,
        batch: Batch,
        now: float,
        *,
        records: Iterable[int] | None = None,
        cursor: Any = None,
        used: int | None = None,
        seen: Sequence[Seen] = (),
    ) -> None:
        """Begin the next round with its data; when this returns its messages are in the outbox, and charged.

        `records` are as in `RoundMachine.begin`. `cursor` is that of the data source after this batch, `used` the
        number up to which the store's queue of samples is used up, and `seen` the digests by which its records are
        known again: all of it is committed together with the batch's messages.
        """
        if not self.ready_to_begin:
            raise ContractError(f"the next round cannot begin: {self.round} is not over, not confirmed, or the last")
        self.plan.validate_batch(batch)
        with self.plan.precision():
            self._catch_up()
            envelopes = self.links.begin(batch, records)
            self.cursor = cursor
            self.outbox.drop_expired(self.round)
            self._commit(parcels_of(self.plan, self.codec, self.machine, envelopes, self.links.name_of), used, seen)
        self._phase_began = now

    def proceed(self, now: float) -> None:
        """Absorb what was received, and go on to the next phase or the round's end; who rests then confirms at once."""
        missing = self.missing()
        if missing and self.waits:
            raise ContractError(f"round {self.round} cannot go on without {', '.join(sorted(missing))}: wait for them")
        with self.plan.precision():
            self.links.take_finals()
            envelopes = self.machine.proceed()
            parcels = parcels_of(self.plan, self.codec, self.machine, envelopes, self.links.name_of)
            rests = self.between_rounds and self.next_round != self.round + 1
            if self.links.after_phase() or parcels or rests or self.store.staged.charges:
                self._commit(parcels)
        self._patience.missed(missing)
        self._phase_began = now

    def flush(self) -> None:
        """Commit the current position, as before a stop."""
        self._commit([])

    def restart_at(self, next_round: int) -> None:
        """Go on with a round that may lie behind, for a store whose round was led astray (`set_round.py`)."""
        while not self.between_rounds:  # as at a deadline without any message
            self.proceed(0.0)
        self.machine.restart_after(next_round - 1)
        self.links.restart_at(next_round)
        self.outbox.drop_from(next_round)
        self._commit([])

    def admit(self, name: str) -> None:
        """Refuse a name that is not heard on any link."""
        if name not in self.hears and not self.links.expects(name):
            raise MessageRefused("sender", f"{name!r} is not among those whom {self.plan.name!r} hears")

    def greeted(self, name: str, at_round: int) -> None:
        """Note the round that an in-neighbour names as it opens its link; what it named before is taken back."""
        if self._is_claim(name, at_round):
            self.claims.greet(name, at_round)
            self._patience.greeted(name)

    def announced(self, name: str, at_round: int) -> None:
        """Note the round of an in-neighbour's message."""
        if self._is_claim(name, at_round):
            self.claims.raise_to(name, at_round)
            self._patience.heard(name)

    def _is_claim(self, name: str, at_round: int) -> bool:
        """Whether a round counts; it does not where a link is yet to be opened, or was closed meanwhile."""
        self.admit(name)
        if name not in self.hears:
            return False
        if not 0 <= at_round <= LAST_ROUND:
            raise MessageRefused("round", f"round {at_round}: expected 0 to {LAST_ROUND}")
        return True

    def too_early(self, name: str, sent: int) -> bool:
        """Whether a neighbour's message of that round has to be held back for now."""
        return self.machine.too_early(sent) or self.links.early(name)

    def receive(
        self, name: str, links: str, phase: int, sent: int, message: Message | None, masks: bytes = b""
    ) -> None:
        """Take a message in, or refuse it; `name` comes from a certificate."""
        if name not in self.hears:
            raise MessageRefused("sender", f"{name!r} has no link to {self.plan.name!r} yet, or no longer")
        self.announced(name, sent)
        (role, agent), phases = self.links.place_of(name), self.plan.algorithm.phases
        if 0 <= phase < len(phases) and phases[phase].source != role:
            whose = f"phase {phase} comes from a {phases[phase].source!r}"
            raise MessageRefused("address", f"{whose}, {name!r} is a {role!r}")
        envelope = Envelope(links, phase, sent, agent, self.plan.agent, message, masks)
        if not self.links.keeps(name, envelope):
            self.machine.receive(envelope)

    def waiting(self, name: str) -> Sequence[Parcel]:
        """Return the unconfirmed messages to an out-neighbour that may be sent now, oldest first, under their masks.

        Called from one thread, the one that sends.
        """
        if self.masker.needed and name not in self.outbox.positions:
            return ()  # its position may show that this store is an old copy: see `confirmed`
        return self.masker.masked(name, self.outbox.wanted(name))

    def unconfirmed(self, name: str) -> int:
        """Return the number of messages to an out-neighbour that wait, those that lack a mask included."""
        return len(self.outbox.wanted(name))

    def confirmed(self, name: str, position: Position) -> None:
        """Forget the messages that an out-neighbour needs no more; refuse a position that cannot be."""
        # Under `wait` a receiver may be ahead of what it was sent, over links that come and go; and no peer follows it.
        furthest = None if self.waits else max(self.round, self.claims.furthest) + 1 + FURTHEST_AHEAD
        self.outbox.check(name, position, self.round if self.masker.needed else None, furthest)
        self.outbox.confirm(name, position)

    def _catch_up(self) -> None:
        """Go on with the next round of the schedule; under `wait` no other was missed, else at the current one."""
        coming = self.next_round or LAST_ROUND
        if not self.waits:
            following = self.links.at_most(self.claims.next_round(coming - 1))
            while following <= LAST_ROUND and self._was_done(following):
                following += 1  # before it was put back (`set_round.py`)
            coming = self.plan.following(following - 1) or coming
        self.machine.skip_to(coming - 1)
        self.refuse_exhausted()

    def _was_done(self, round_: int) -> bool:
        """Whether a release of this round is booked."""
        names = [self.machine.release_name(round_, k) for k in range(len(self.plan.algorithm.phases))]
        return self.plan.booked and self.store.ledger.read(lambda c: any(number_of(c, n) is not None for n in names))

    def refuse_exhausted(self) -> None:
        """Refuse to begin a round where no number is left for one."""
        if self.round >= LAST_ROUND:
            raise StoreError(
                f"round {self.round} is the last that has a number (at most {LAST_ROUND}): the peer was carried there "
                "by others, for no run gets so far; stop the peers that were, put each back with `tacit peer "
                "set-round PEER.toml`, which keeps all that was charged, and start them again"
            )

    def _commit(self, parcels: Sequence[Parcel], used: int | None = None, seen: Sequence[Seen] = ()) -> None:
        position = self._next_position()
        taken = self.machine.snapshot()
        packed = None if taken.phase is None else self.codec.pack(taken.phase, taken.own)
        snapshot, own = encode(taken, self.cursor, self.links.facts, packed)
        self.store.commit(
            charges=self.masker.booked(parcels),
            snapshot=snapshot,
            own=next((parcel.content for parcel in parcels if parcel.content == own), own),
            parcels=parcels,
            drop=self.outbox.dropped(),
            used=used,
            oldest=self.outbox.oldest(position.round),
            seen=seen,
        )
        self.codec.forget()
        self.outbox.committed(parcels)
        self._position = position
        self.outbox.pinned = self.links.pinned()
        self.links.committed()

    def _next_position(self) -> Position:
        phase = self.machine.phase
        return Position(self.machine.round + 1, 0) if phase is None else Position(self.machine.round, phase)

    def _restore(self, data: bytes | None) -> None:
        if data is not None:
            snapshot, self.cursor = decode(data, self.machine.state, self.specs, self.plan.batch, self.machine.memories)
            self.machine.restore(snapshot, self.links.views(snapshot.round))
        self.outbox.restore(self.store.outbox())
        self._position = self._next_position()
        self.outbox.pinned = self.links.pinned()
        self.links.began(first=data is None)
