"""Pairwise secrets over the network: the sans-IO party of `agreement.py`, its messages relayed by the receiver."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import MessageRefused, RemoteError
from tacit.peer.identity.identity import Identity
from tacit.peer.masking.agreement import KeyStore, PairwiseParty

Refused = Callable[[str, str | None, str], None]


class KeyChannels(Protocol):
    """Transport of key-agreement messages: `tacit.peer.node.links.NodeLinks`."""

    def open_key_channel(
        self, relay: str, take: Callable[[str, bytes], None]
    ) -> Callable[[str, bytes], Awaitable[None]]:
        """Hand messages that `relay` passes on to `take`; returns the function that sends through it."""


class PairwiseSecrets:
    """Secrets of this peer with the other senders of one receiver, agreed on once and kept in its store."""

    def __init__(
        self,
        channels: KeyChannels,
        identity: Callable[[], Identity],
        job: str,
        receiver: str,
        partners: Collection[str],
        store: KeyStore,
        *,
        refused: Refused,
        changed: Callable[[], None] = lambda: None,
        retry: float = 0.5,
    ) -> None:
        """Speak to `partners` through `receiver`. Call it in an event loop.

        Offers are repeated every `retry` seconds until each partner has answered. `changed` is called whenever there
        may be a secret that was not there before.
        """
        self._party = PairwiseParty(identity(), bytes.fromhex(job), receiver, partners, store, datetime.now(UTC))
        self._identity, self._refused, self._retry = identity, refused, retry
        self._on_change = changed
        self._known = self._identity()
        self._send = channels.open_key_channel(receiver, self._take)
        self._changed = asyncio.Event()
        self._replies: set[asyncio.Task[None]] = set()
        self._offering = asyncio.create_task(self._offer())

    async def established(self, seconds: float) -> None:
        """Wait until there is a secret with every partner; TimeoutError if that takes longer than this."""
        async with asyncio.timeout(seconds):
            while self._party.unsettled():
                self._changed.clear()
                await self._changed.wait()

    def session(self, partner: str) -> bytes | None:
        """Name of the secret, the same at both ends; None while there is none."""
        return self._party.session(partner)

    def pad(self, partner: str, round_: int, phase: int, words: int) -> NDArray[np.uint64]:
        """Return the common key stream of a position."""
        return self._party.pad(partner, round_, phase, words)

    async def close(self) -> None:
        """Send no more messages."""
        tasks = (self._offering, *self._replies)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------------------------------------------------------

    async def _offer(self) -> None:
        while True:
            identity = self._identity()
            if identity is not self._known:
                self._party.renew(identity, datetime.now(UTC))
                self._known = identity
            for partner in self._party.unsettled():
                await self._post(partner, self._party.offer(partner))
            await asyncio.sleep(self._retry)

    async def _post(self, partner: str, payload: bytes) -> None:
        # A partner that is not there yet gets the next offer.
        with contextlib.suppress(RemoteError):
            await self._send(partner, payload)

    def _take(self, sender: str, payload: bytes) -> None:
        """Take a message; its author follows from its signature, not from what the relay says."""
        try:
            writer, reply = self._party.accept(payload, datetime.now(UTC))
        except MessageRefused as refusal:
            self._refused(refusal.reason, sender, str(refusal))
            return
        if reply is not None:
            self._reply(writer, reply)
        self._changed.set()
        self._on_change()

    def _reply(self, partner: str, payload: bytes) -> None:
        task = asyncio.create_task(self._post(partner, payload))
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)
