"""Masks on what leaves a peer, and the check that they cancel where it arrives: local graph-homomorphic noise.

The senders of a receiver B are split into two sides (`tacit.graphs.masking_sides`). Every two senders A and C of
different sides share a session (`pairwise.py`), hence for each round and phase a mask; A adds it, C takes it off, and
B, who does not know it, adds up whole numbers modulo 2^32 or 2^64. What a peer keeps, in its state and in its outbox,
is not masked: its disk holds its data too. A message is masked as it is handed to the transport, under the sessions
that stand *then*, and carries a tag (8 bytes, no secret) of each of them. B keeps the newest version of each sender's
message and goes on when both ends of every pair name the same session.

Why no crash and no order of events brings about

- *an unmasked byte on a link*: parcels leave a node through `Node.waiting` alone, which hands out what `Masker.masked`
  returns; that is held back until sessions with all partners stand, of whom there is at least one. The codec refuses
  to frame a parcel of a masked phase that has no tags. A node that has nothing to make masks from cannot be made.
- *a wrong sum*: a pair's mask is a function of session, round and phase, and each end takes it from the session that it
  names. If both name the same one, the pair's masks are one number with two signs. B absorbs nothing else: the round
  machine counts a sender whose tags do not match among those that it waits for, and methods with masks wait for all.
  Two sessions of a pair have the same tag with chance 2^-64.
- *a deadlock*: suppose that crashes stop and letters arrive. Then each pair settles on one session, at both ends
  (`pairwise.py`), and keeps it. When a session changes, each end masks anew what B has not confirmed, oldest first, so
  that positions in the key stream only grow, and sends it again. Nothing is in the way on the link: what B would hold
  because it is early is not sent. Links keep the order, and a new link begins when the old one has ended and brings
  everything again, so that B's newest versions are those under the last sessions: the tags match. What B has committed
  it needs from nobody. B's own crash changes no session: it gets the same bytes again.

A peer that dies takes its sessions with it. Its partners' messages to B stay under the dead ones, and the round waits,
until it is back and all of them have new sessions; one that stays away holds the round.

A value that is masked anew leaves a second time. Masks of other partners are then those of before and hide it as
before; if all are new, who sees both copies sees two with independent noise, and n of them average to noise smaller by
sqrt(n). A receiver that is dishonest in its part as relay can provoke new sessions. So there is always a partner with
whom one process made no more than `MOST_MASKS` masks for a value; what would need more is held back for good, and
`Masker.faults` says so.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ConfigError, PrivacyError
from tacit.peer.codec import Layout
from tacit.peer.exchange import Parcel
from tacit.peer.matching import TAG_BYTES, partners_of
from tacit.peer.pairwise import LARGEST_PAD
from tacit.privacy.mask_noise import MaskLaw, hides, mask_law
from tacit.runtime import MessageSpec

if TYPE_CHECKING:
    from tacit.peer.plan import Plan

MOST_MASKS = 4
"""Of one value with some partner, by one process: whoever sees all of them is left with half of one mask's noise."""

Steps = NDArray[np.int64]


class Pads(Protocol):
    """Key streams shared with the partners at one receiver: `PairwiseSecrets`, or `SeededPads` where nobody is real."""

    def session(self, partner: str, /) -> bytes | None:
        """Return the name of the standing session, the same at both ends; None where none stands."""

    def pad(self, partner: str, round_: int, phase: int, words: int, /) -> NDArray[np.uint64]:
        """Return the common key stream of a position."""


@dataclass(eq=False)
class _Kept:
    """What was made for one parcel."""

    masks: dict[str, tuple[bytes, Steps]] = field(default_factory=dict)
    """Partner -> the session that it came from, and the mask: a position of a key stream is given out once."""
    drawn: Counter[str] = field(default_factory=Counter)
    """Partner -> how many masks there were."""
    parcel: Parcel | None = None


class Masker:
    """Masks what one peer sends, receiver by receiver; passes on what needs no masks. Used from one thread."""

    def __init__(
        self,
        own: str,
        specs: Sequence[MessageSpec],
        senders: Mapping[tuple[str, str], Sequence[str]],
        pads: Callable[[str], Pads | None],
    ) -> None:
        """Take (links, receiver) -> whom it hears there, in the order of ids; and receiver -> pads, None if not yet."""
        self._specs, self._pads = specs, pads
        self._layouts = [Layout(spec) for spec in specs]
        self._pairs: dict[tuple[str, str], tuple[list[str], bool]] = {}
        for (links, receiver), names in senders.items():
            partners, adds = partners_of(own, names)
            if own not in names or not partners:
                raise ConfigError(
                    f"{receiver!r} hears {', '.join(names) or 'nobody'} over {links!r}: expected {own!r} and at least "
                    "one more, or there is nobody whose mask could cancel; add a link, or use a mechanism without masks"
                )
            self._pairs[links, receiver] = partners, adds
        for k, layout in enumerate(self._layouts):
            if layout.masked and (words := sum(law.words * count for law, count in self._laws(k))) > LARGEST_PAD:
                raise ConfigError(
                    f"a message of phase {k} takes {words:,} words of key stream for one mask, at most {LARGEST_PAD:,} "
                    "are to be had; take a smaller model, smaller masks or a coarser grid"
                )
        self._kept: dict[str, dict[tuple[int, int], _Kept]] = {}
        self._spent: dict[str, Parcel] = {}

    @property
    def needed(self) -> bool:
        """Whether anything that this peer sends is masked."""
        return bool(self._pairs)

    def partners(self) -> dict[str, set[str]]:
        """Return, for each receiver, everybody with whom secrets are needed."""
        found: dict[str, set[str]] = {}
        for (_, receiver), (partners, _) in self._pairs.items():
            found.setdefault(receiver, set()).update(partners)
        return found

    def masked(self, receiver: str, parcels: Sequence[Parcel]) -> tuple[Parcel, ...]:
        """Return what may leave now of all that waits for a receiver, oldest first: the same bytes while sessions last.

        The first that has to wait for a session holds back those behind it, whose positions come later.
        """
        kept = self._kept.setdefault(receiver, {})
        for place in kept.keys() - {(parcel.round, parcel.phase) for parcel in parcels}:
            del kept[place]
        self._spent.pop(receiver, None)
        ready = []
        for parcel in parcels:
            if self._layouts[parcel.phase].masked:
                version = self._version(parcel, kept.setdefault((parcel.round, parcel.phase), _Kept()))
                if version is None:
                    break
                ready.append(version)
            else:
                ready.append(parcel)
        return tuple(ready)

    def faults(self) -> list[str]:
        """Say what is held back for good."""
        return [
            f"round {parcel.round}, phase {parcel.phase} to {receiver} had {MOST_MASKS} masks with every partner, "
            "as often as sessions began anew, and is held back: find out why partners, or their relay, do so, and "
            "restart this peer"
            for receiver, parcel in self._spent.items()
        ]

    def _version(self, parcel: Parcel, kept: _Kept) -> Parcel | None:
        partners, adds = self._pairs[parcel.links, parcel.receiver]
        pads = self._pads(parcel.receiver)
        if pads is None:
            return None
        sessions = {partner: session for partner in partners if (session := pads.session(partner)) is not None}
        if len(sessions) < len(partners):
            return None
        changed = [p for p in partners if p not in kept.masks or kept.masks[p][0] != sessions[p]]
        if not changed:
            return kept.parcel
        if min(kept.drawn[partner] + (partner in changed) for partner in partners) > MOST_MASKS:
            self._spent[parcel.receiver] = parcel
            return None
        for partner in changed:
            kept.masks[partner] = sessions[partner], self._drawn(parcel, pads, partner)
        kept.drawn.update(changed)
        total: Steps = np.sum([mask for _, mask in kept.masks.values()], axis=0, dtype=np.int64)
        tags = b"".join(sessions[partner][:TAG_BYTES] for partner in partners)
        content = _added(self._layouts[parcel.phase], parcel.content, total if adds else np.negative(total))
        kept.parcel = parcel._replace(content=content, masks=tags)
        return kept.parcel

    def _drawn(self, parcel: Parcel, pads: Pads, partner: str) -> Steps:
        """Draw one mask for each number of a message, leaf by leaf."""
        laws = self._laws(parcel.phase)
        sizes = [law.words * count for law, count in laws]
        stream = pads.pad(partner, parcel.round, parcel.phase, sum(sizes))
        parts = np.split(stream, np.cumsum(sizes)[:-1])
        return np.concatenate([law.draws(part) for (law, _), part in zip(laws, parts, strict=True)])

    def _laws(self, phase: int) -> list[tuple[MaskLaw, int]]:
        """Return the law of the masks on each leaf, and how many numbers it has."""
        mechanism = self._specs[phase].release.mechanism
        return [
            (mask_law(mechanism, leaf.dtype), (leaf.end - leaf.begin) // leaf.dtype.itemsize)
            for leaf in self._layouts[phase].leaves
        ]


def masker_of(plan: Plan, specs: Sequence[MessageSpec], pads: Callable[[str], Pads | None] | None) -> Masker:
    """Return what masks a peer's messages; refuse a plan whose messages should be masked and could not be."""
    masked = [k for k, phase in enumerate(plan.algorithm.phases) if hides(phase.mechanism)]
    if not masked:
        return Masker(plan.name, specs, {}, lambda receiver: None)
    phases = [plan.algorithm.phases[k] for k in masked]
    name = f"mechanism {phases[0].mechanism.name!r} of {plan.algorithm.name!r}"
    if pads is None:
        raise PrivacyError(
            f"{name} masks messages, but this node was given no pads to make masks from, and would send nothing; "
            "expected the secrets that it shares with each receiver's other senders: give it `pads`"
        )
    chooses = any(phase.answers for phase in phases) or any(specs[k].addressed for k in masked)
    if chooses or plan.algorithm.missing != "wait" or plan.longest_delay:
        raise ConfigError(
            f"{name} needs every sender's message in every round, or masks are left over; expected a method that waits "
            "for all, with no choice of receivers and no delay"
        )
    senders = {}
    for phase in phases:
        if phase.source != plan.role:
            continue
        for agent in np.asarray(plan.views(0)[phase.links].out.agent)[1:]:
            receiver = plan.members[phase.target][agent]
            if agent >= 0 and (phase.links, receiver) not in plan.co_senders:
                raise ConfigError(
                    f"{name}: who else sends to {receiver!r} over {phase.links!r} is not known, so that there is "
                    "nobody to share masks with; name them in the plan's co_senders"
                )
            if agent >= 0:
                senders[phase.links, receiver] = plan.co_senders[phase.links, receiver]
    return Masker(plan.name, specs, senders, pads)


def _added(layout: Layout, content: bytes, mask: Steps) -> bytes:
    """Add a mask to the numbers of a content, modulo what their type holds."""
    parts, begin = [], 0
    for leaf in layout.leaves:
        unsigned = np.dtype(f"<u{leaf.dtype.itemsize}")
        numbers = np.frombuffer(content[leaf.begin : leaf.end], unsigned)
        parts.append((numbers + mask[begin : begin + numbers.size].astype(unsigned)).tobytes())
        begin += numbers.size
    return b"".join(parts)


class SeededPads:
    """Pads from a seed, for runs in one process: everybody knows them, and they hide nothing."""

    def __init__(self, seed: int, own: str, receiver: str) -> None:
        self._seed, self._own, self._receiver = seed, own, receiver

    def session(self, partner: str, /) -> bytes:
        """Return a name for the pair at this receiver."""
        return hashlib.sha256(repr((self._seed, self._receiver, *sorted((self._own, partner)))).encode()).digest()

    def pad(self, partner: str, round_: int, phase: int, words: int, /) -> NDArray[np.uint64]:
        """Return the stream of a position."""
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        nonce = struct.pack("<LLQ", 0, phase, round_)
        stream = Cipher(ChaCha20(self.session(partner), nonce), mode=None).encryptor().update(bytes(8 * words))
        return np.frombuffer(stream, "<u8")
