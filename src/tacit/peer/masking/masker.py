"""Masks on what leaves a peer, and the check that they cancel where it arrives: local graph-homomorphic noise.

The senders of a receiver B are split into two sides (`tacit.graphs.masking_sides`). Every two senders A and C of
different sides share a secret (`agreement.py`), hence for each round and phase a mask; A adds it, C takes it off, and
B, who does not know it, adds up whole numbers modulo 2^32 or 2^64. What a peer keeps, in its state and in its outbox,
is not masked: its disk holds its data too. A message is masked as it is handed to the transport, and carries a tag (8
bytes, no secret) of each pair's secret. B goes on when both ends of every pair name the same one.

Why no crash and no order of events brings about

- *an unmasked byte on a link*: parcels leave a node through `Node.waiting` alone, which hands out what `Masker.masked`
  returns; that is held back until there are secrets with all partners, of whom there is at least one. The codec refuses
  to frame a parcel of a masked phase that has no tags. A node that has nothing to make masks from cannot be made.
- *a second copy of a value under other masks*, and n copies average to noise smaller by sqrt(n): a pair has one secret
  as long as both stores live, and a mask is a function of it, round and phase. A value that is sent again, after a
  crash of whomever, is the same bytes again.
- *one mask on two values*, which gives their difference away: of a round and phase there is one value in the outbox,
  committed before it is sent and never made anew; and the commit books it, at no charge, so that a witness knows a
  store that was put back. Without a witness a receiver that is further than the store says is taken for the sign of
  one (`Node.confirmed`), and nothing leaves before it has said where it stands.
- *a wrong sum*: each end takes a pair's mask from the secret that it names. If both name the same one, the masks are
  one number with two signs. B absorbs nothing else: the round machine counts a sender whose tags do not match among
  those that it waits for, and methods with masks wait for all. Two secrets have the same tag with chance 2^-64.
- *a deadlock*: key-agreement messages that arrive lead each pair to its secret, at both ends (`agreement.py`), and then
  it is there for good. A restart needs none: a peer that comes back masks what waits as before.

A peer that is away holds the round; one that has lost its store holds it for good, and needs a new epoch of the job.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError, PrivacyError
from tacit.peer.masking import LARGEST_PAD
from tacit.peer.masking.pairing import TAG_BYTES, partners_of
from tacit.peer.node.exchange import Parcel
from tacit.peer.transport.codec import Layout
from tacit.privacy.events import Event
from tacit.privacy.noise import hides
from tacit.privacy.noise.mask_noise import MaskLaw, mask_law
from tacit.runtime import MessageSpec

if TYPE_CHECKING:
    from tacit.peer.node.assignment import Plan

Steps = NDArray[np.int64]


class Pads(Protocol):
    """Key streams shared with the partners at one receiver: `PairwiseSecrets`, or `SeededPads` in simulations."""

    def session(self, partner: str, /) -> bytes | None:
        """Return the name of a pair's secret, the same at both ends and for good; None while there is none."""

    def pad(self, partner: str, round_: int, phase: int, words: int, /) -> NDArray[np.uint64]:
        """Return the common key stream of a position."""


class Masker:
    """Masks the messages of one peer, receiver by receiver; passes on those that need none. Used from one thread."""

    def __init__(
        self,
        own: str,
        specs: Sequence[MessageSpec],
        senders: Mapping[tuple[str, str], Sequence[str]],
        pads: Callable[[str], Pads | None],
    ) -> None:
        """Take (links, receiver) -> its senders there, in the order of ids; and receiver -> pads, None if not yet."""
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
        self._kept: dict[str, dict[tuple[int, int], Parcel]] = {}
        """Receiver -> masked parcels that wait: a position of a key stream is asked for once."""

    @property
    def needed(self) -> bool:
        """Whether anything that this peer sends is masked."""
        return bool(self._pairs)

    def partners(self) -> dict[str, set[str]]:
        """Return, for each receiver, the partners with which secrets are needed."""
        found: dict[str, set[str]] = {}
        for (_, receiver), (partners, _) in self._pairs.items():
            found.setdefault(receiver, set()).update(partners)
        return found

    def booked(self, parcels: Sequence[Parcel]) -> list[tuple[str, Event]]:
        """Return the entries to book with these parcels, at no charge: they show which store is the newest."""
        places = sorted({(parcel.round, parcel.phase) for parcel in parcels if self._layouts[parcel.phase].masked})
        mechanisms = [(place, self._specs[place[1]].release.mechanism) for place in places]
        return [
            (f"masks of round {t}, phase {k}", Event(mechanism.name, "laplace", 0.0, mechanism.mask_scale))
            for (t, k), mechanism in mechanisms
        ]

    def masked(self, receiver: str, parcels: Sequence[Parcel]) -> tuple[Parcel, ...]:
        """Return the parcels to a receiver that may leave now, oldest first: always the same bytes.

        The first parcel that has to wait for a secret holds back those behind it, whose positions come later.
        """
        kept = self._kept.setdefault(receiver, {})
        for place in kept.keys() - {(parcel.round, parcel.phase) for parcel in parcels}:
            del kept[place]
        ready = []
        for parcel in parcels:
            place = (parcel.round, parcel.phase)
            if not self._layouts[parcel.phase].masked:
                ready.append(parcel)
                continue
            if place not in kept and (made := self._made(parcel)) is not None:
                kept[place] = made
            if place not in kept:
                break
            ready.append(kept[place])
        return tuple(ready)

    def _made(self, parcel: Parcel) -> Parcel | None:
        partners, adds = self._pairs[parcel.links, parcel.receiver]
        pads = self._pads(parcel.receiver)
        sessions = [] if pads is None else [name for p in partners if (name := pads.session(p)) is not None]
        if pads is None or len(sessions) < len(partners):
            return None
        total: Steps = np.sum([self._drawn(parcel, pads, partner) for partner in partners], axis=0, dtype=np.int64)
        content = _added(self._layouts[parcel.phase], parcel.content, total if adds else np.negative(total))
        return parcel._replace(content=content, masks=b"".join(name[:TAG_BYTES] for name in sessions))

    def _drawn(self, parcel: Parcel, pads: Pads, partner: str) -> Steps:
        """Draw one mask for each number of a message, leaf by leaf."""
        laws = self._laws(parcel.phase)
        sizes = [law.words * count for law, count in laws]
        stream = pads.pad(partner, parcel.round, parcel.phase, sum(sizes))
        parts = np.split(stream, np.cumsum(sizes)[:-1])
        return np.concatenate([law.draws(part) for (law, _), part in zip(laws, parts, strict=True)])

    def _laws(self, phase: int) -> list[tuple[MaskLaw, int]]:
        """Return the law of the masks on each leaf, and the number of its elements."""
        mechanism = self._specs[phase].release.mechanism
        return [(mask_law(mechanism, leaf.dtype), leaf.numbers) for leaf in self._layouts[phase].leaves]


def masker_of(plan: Plan, specs: Sequence[MessageSpec], pads: Callable[[str], Pads | None] | None) -> Masker:
    """Return the masker of a peer; refuse a plan whose messages should be masked and could not be."""
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
    """Add a mask to the numbers of a content, modulo the range of their type."""
    parts, begin = [], 0
    for leaf in layout.leaves:
        unsigned = np.dtype(f"<u{leaf.dtype.itemsize}")
        numbers = np.frombuffer(content, unsigned, leaf.numbers, leaf.begin)
        parts.append((numbers + mask[begin : begin + numbers.size].astype(unsigned)).tobytes())
        begin += numbers.size
    return b"".join(parts)


class SeededPads:
    """Pads from a seed, for runs in one process: they are not secret, and hide nothing."""

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
