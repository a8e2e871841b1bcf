"""One link to an out-neighbour: what it is sent, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import NamedTuple

from tacit.core.errors import MessageRefused, RemoteError
from tacit.peer.node.exchange import Dispatch, Parcel
from tacit.peer.transport import frames as wire
from tacit.peer.transport.codec import REASONS, Codec
from tacit.peer.transport.frames import KINDS, End, Letter, Receipt, framed, parse, printable
from tacit.peer.transport.handshake import Secured
from tacit.peer.transport.link import FULL, LinkEvents
from tacit.peer.transport.stream import Stream

_LOG = logging.getLogger(__name__)
_Key = tuple[int, int, bytes]
"""Phase, round and masks, which identify a parcel to one neighbour."""


class Loss(NamedTuple):
    """Why a link is down: one of `dialer.LOSSES`, and in words."""

    reason: str
    detail: str


class OutgoingLink:
    """A link to one neighbour, while it lasts."""

    def __init__(self, name: str, secured: Secured, codec: Codec, dispatch: Dispatch, events: LinkEvents) -> None:
        """Take over a connection to `name`."""
        self._name, self._codec, self._dispatch, self._events = name, codec, dispatch, events
        self.stream = Stream(secured, self)
        self.welcomed = self.was_welcomed = self._retiring = False
        self._loss: Loss | None = None
        self._changed = asyncio.Event()
        """Set by the welcome and by the end."""
        self.is_over = False
        self._sent: dict[_Key, Parcel] = {}
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._letters = 0

    def start(self, every: float, timeout: float) -> None:
        """Say hello."""
        self.stream.send(self._codec.hello(self._dispatch.current_round()).frame())
        self.stream.start(every, timeout)

    async def until_welcomed(self) -> None:
        """Wait for the welcome, or the end."""
        await self._changed.wait()

    async def until_over(self, seconds: float) -> Loss | None:
        """Wait for the end, no longer than `seconds`; returns why it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.is_over:
                    self._changed.clear()
                    await self._changed.wait()
        return self._loss

    def retire(self) -> None:
        """Say that nothing more is sent."""
        self._retiring = True
        self.stream.send(End().frame())

    def distrust(self, detail: str) -> None:
        """End the link to a neighbour that is not to be trusted any more."""
        self._over(Loss("untrusted", detail))

    def close(self) -> None:
        """Close the connection now."""
        self._over(Loss("ended", "closed here"))
        self.stream.close()

    # -- what is sent --------------------------------------------------------------------------------------------------

    def send_waiting(self) -> None:
        """Send what waits and was not sent on this link, as much as the neighbour takes; let go what is confirmed."""
        if not self.welcomed or self._retiring:
            return
        waiting = {(parcel.phase, parcel.round, parcel.masks): parcel for parcel in self._dispatch.waiting(self._name)}
        for key in self._sent.keys() - waiting.keys():
            del self._sent[key]
        if len(self._sent) == len(waiting):
            return
        for key, parcel in waiting.items():
            if key not in self._sent:
                if self.stream.pending > FULL:
                    self.stream.push()
                    if self.stream.pending:
                        break  # `drained` goes on
                self._sent[key] = parcel
                for head, content in self._codec.frames(parcel):
                    self.stream.put(head, content)
                self._events.sent(self._name, len(parcel.content))
        self.stream.push()

    def notify(self, payload: bytes) -> bool:
        """Send a notice; returns whether there was room for it."""
        if not self.welcomed or self._retiring or self.stream.pending > FULL:
            return False
        self.stream.send(framed(wire.NOTICE, payload))
        return True

    async def send_key_message(self, recipient: str, payload: bytes, seconds: float) -> None:
        """Have the neighbour relay a key message, and wait for its answer."""
        if self._retiring or self.stream.pending > FULL:
            raise RemoteError(f"{self._name} takes nothing at the moment; send the letter again later")
        self._letters += 1
        number, answer = self._letters, asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self.stream.send(Letter(number, recipient, payload).frame())
        try:
            async with asyncio.timeout(seconds):
                await answer
        except TimeoutError:
            raise RemoteError(f"{self._name} did not take a letter in {seconds} s; send it again later") from None
        finally:
            del self._answers[number]

    # -- what comes ----------------------------------------------------------------------------------------------------

    def frame(self, kind: int, payload: memoryview) -> None:
        """Take a frame that is not content."""
        if kind == wire.END:
            self._end(parse(kind, payload))
        elif kind == wire.NOTICE:
            self._dispatch.noticed(self._name, bytes(payload))
        elif not self.welcomed:
            if kind != wire.WELCOME:
                raise MessageRefused("order", f"{KINDS[kind]} instead of a welcome")
            position = self._codec.position(parse(kind, payload))
            self.welcomed = self.was_welcomed = True
            self._events.linked(self._name, "out", True)
            self._dispatch.confirmed(self._name, position)
            self._changed.set()
            self.send_waiting()
        elif kind == wire.PROGRESS:
            self._dispatch.confirmed(self._name, self._codec.position(parse(kind, payload)))
        elif kind == wire.RECEIPT:
            self._note_refusal(parse(kind, payload))
        elif kind == wire.LETTER:
            self._deliver(parse(kind, payload))
        elif kind == wire.ANSWER:
            number, reason, detail = parse(kind, payload)
            answer = self._answers.get(number)
            if answer is not None and not answer.done():
                refusal = MessageRefused(known(reason), f"{self._name} says: {printable(detail)}")
                answer.set_exception(refusal) if reason else answer.set_result(None)
        elif kind != wire.BEAT:
            raise MessageRefused("order", f"{KINDS[kind]} where a receipt, progress or a letter was expected")

    def content(self, size: int) -> memoryview:
        """Refuse content, which nobody sends this way."""
        raise MessageRefused("order", f"{KINDS[wire.CONTENT]} where a receipt, progress or a letter was expected")

    def chunk(self, size: int) -> None:
        """Never called: content is refused before."""

    def refused(self, refusal: MessageRefused) -> None:
        """End the link for what cannot be understood."""
        self._events.refused(refusal.reason, self._name, printable(refusal.detail))
        self._over(Loss("ended", f"{self._name} said what cannot be understood"))

    def broken(self, fault: Exception) -> None:
        """End the link by a fault of this peer."""
        _LOG.error("the link to %s ends by a fault of this peer", self._name, exc_info=fault)
        self._over(Loss("ended", "a fault of this peer"))

    def ended(self, why: str, error: ssl.SSLError | None) -> None:
        """Note that the neighbour has ended the link."""
        if error is not None and not self.welcomed:
            self._over(Loss("turned away", f"by its TLS: {why}"))  # it has looked at our certificate by now
        else:
            self._over(Loss("ended", f"{self._name} {why}"))

    def silent(self) -> None:
        """End the link to a neighbour that is not heard any more."""
        self._over(Loss("silent", f"{self._name} gave no sign of life"))

    def drained(self) -> None:
        """Send more, now that there is room."""
        self.send_waiting()

    # ------------------------------------------------------------------------------------------------------------------

    def _end(self, last: End) -> None:
        if last.reason:
            self._over(Loss("turned away", f"{known(last.reason)}: {last.detail}"))
        else:
            self._over(Loss("ended", last.detail or f"{self._name} closed the link"))

    def _over(self, loss: Loss) -> None:
        if self.is_over:
            return
        self.is_over, self._loss = True, loss
        self.stream.pause()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(RemoteError(f"the link to {self._name} broke; send the letter again later"))
        if self.welcomed:
            self.welcomed = False
            self._events.linked(self._name, "out", False)
        self._changed.set()

    def _note_refusal(self, receipt: Receipt) -> None:
        about = receipt.phase, receipt.round
        parcel = next((parcel for key, parcel in self._sent.items() if key[:2] == about), None)
        if parcel is not None:
            self._dispatch.refused(self._name, parcel, known(receipt.reason), printable(receipt.detail))

    def _deliver(self, letter: Letter) -> None:
        try:
            self._dispatch.key_message(self._name, letter.correspondent, letter.payload)
        except MessageRefused as refusal:  # the relay cannot see what is in it: the link goes on
            self._events.refused(refusal.reason, self._name, printable(refusal.detail))


def known(reason: str) -> str:
    """Return a neighbour's reason if it is one of ours."""
    return reason if reason in REASONS else "unknown"
