"""One link of an in-neighbour: what it sends, and what it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from tacit.core.errors import MessageRefused
from tacit.peer.node.exchange import Arrival, KnownPosition, Position, Reception
from tacit.peer.transport import frames as wire
from tacit.peer.transport.codec import Assembler, Codec
from tacit.peer.transport.frames import KINDS, Answer, End, Header, Letter, Place, Receipt, framed, parse, printable
from tacit.peer.transport.handshake import Secured
from tacit.peer.transport.link import FULL, LinkEvents
from tacit.peer.transport.stream import Stream

if TYPE_CHECKING:
    from tacit.peer.transport.listener import Limits

_LOG = logging.getLogger(__name__)
_NO_MESSAGE = Header()


class IncomingLink:
    """A link of one neighbour, while it lasts."""

    def __init__(
        self,
        name: str,
        secured: Secured,
        codec: Codec,
        reception: Reception,
        events: LinkEvents,
        limits: Limits,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """Take over a connection of `name`; `moved` is called when a position may be due."""
        self.name, self._codec, self._reception, self._events, self._limits = name, codec, reception, events, limits
        self.welcomed, self._moved = False, moved
        self.over: asyncio.Future[End | None] = asyncio.get_running_loop().create_future()
        """Done when the link is; with the last word to the neighbour, if it can still hear one."""
        self.stream = Stream(secured, self)
        self._told = KnownPosition(Position(0, 0), 1)
        self._retiring = self._gone = False
        self._waiting: Arrival | None = None
        self._receiving: Assembler | None = None
        self._about = _NO_MESSAGE
        """Header of the message that is being received."""
        self._skipping = 0
        """Bytes of content that still may come after a refused header."""
        self._relaying: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Wait for hello."""
        loop, limits = asyncio.get_running_loop(), self._limits
        self._hello_time = loop.call_later(limits.hello_time, self._no_hello)
        self._age = loop.call_later(limits.connection_age, self.end, End("", "the link has lived long enough"))
        self.stream.start(limits.ping_every, limits.ping_timeout)

    def end(self, last: End | None) -> None:
        """End the link with a last word, if the neighbour can still hear one."""
        if self.over.done():
            return
        within = self._receiving is not None or not self.stream.is_between_frames
        if within and last is None and self.welcomed and not self._gone:
            self._count(MessageRefused("truncated", "the link ended within a message"))
        self.over.set_result(last)
        self._hello_time.cancel()
        self._age.cancel()
        if self._waiting is not None:
            self._waiting.drop()
        for task in self._relaying:
            task.cancel()
        self.stream.pause()
        if last is not None:
            self.stream.send(last.frame())
        if self.welcomed:
            self.welcomed = False
            self._events.linked(self.name, "in", False)

    def send(self, frame: bytes) -> None:
        """Send a frame, unless the link is over."""
        if not self.over.done():
            self.stream.send(frame)
            self._set_pace()

    def send_key_message(self, sender: str, payload: bytes) -> bool:
        """Send a key message; returns whether there was room for it."""
        if self.over.done() or self.stream.pending > FULL:
            return False
        self.send(Letter(0, sender, payload).frame())
        return True

    # -- what is to be told --------------------------------------------------------------------------------------------

    def tell(self) -> None:
        """Send the position now, if it is not known."""
        position = self._reception.position(self.name)
        if self.welcomed and position != self._told.position:
            self._told.tell(position)
            self.send(Place(*position).frame(wire.PROGRESS))

    def tell_if_due(self, patience: int = 0) -> bool:
        """Send the position if it covers a message, or is the first in a while; returns whether it was left for later.

        That is done for as many rounds as `patience` says.
        """
        # One that does not read hears the last position, when it does.
        position = self._reception.position(self.name)
        if not self.welcomed or self.stream.pending or not self._told.is_due(position):
            return False
        if not self._told.is_urgent(position, patience):
            return True
        self.tell()
        return False

    # -- what comes ----------------------------------------------------------------------------------------------------

    def frame(self, kind: int, payload: memoryview) -> None:
        """Take a frame that is not content."""
        if kind == wire.HEADER and self.welcomed:
            self._header(parse(kind, payload))
        elif not self.welcomed:
            if kind != wire.HELLO:
                raise MessageRefused("order", f"{KINDS[kind]} before hello")
            self._greet(self._codec.check_hello(parse(kind, payload)))
        elif kind == wire.LETTER:
            self._relay(parse(kind, payload))
        elif kind == wire.NOTICE:
            self._reception.noticed(self.name, bytes(payload))
        elif kind == wire.END:
            parse(kind, payload)
            self._retire()
        elif kind != wire.BEAT:
            raise MessageRefused("order", f"{KINDS[kind]} where a message was expected")

    def content(self, size: int) -> memoryview:
        """Return where a chunk belongs."""
        if self._receiving is not None:
            return self._receiving.place(size)
        if not self.welcomed:
            raise MessageRefused("order", "content before hello")
        if size <= self._skipping:
            self._skipping -= size
            return memoryview(bytearray(size))
        if self._skipping:
            raise MessageRefused("oversized", "a refused message is longer than any that this peer takes")
        raise MessageRefused("order", "content without a header")

    def chunk(self, size: int) -> None:
        """Note a chunk that is there."""
        self._events.received(self.name, size)
        if self._receiving is not None and not self._receiving.missing:
            self._finish(self._receiving)

    def refused(self, refusal: MessageRefused) -> None:
        """End the link for what cannot be understood."""
        self._receiving = None
        self._count(refusal)
        if self._about.round:
            self.stream.put(self._receipt(refusal, self._about))
        if refusal.reason == "job" and (parting := self._reception.parting(self.name)):
            self.stream.put(framed(wire.NOTICE, parting))
        self.end(End(refusal.reason, printable(refusal.detail)))

    def broken(self, fault: Exception) -> None:
        """End the link by a fault of this peer; the neighbour is not told which."""
        _LOG.error("the link of %s ends by a fault of this peer", self.name, exc_info=fault)
        self._receiving = None
        self.end(End("", "a fault of this peer"))

    def ended(self, why: str, error: ssl.SSLError | None) -> None:
        """Note that the neighbour has ended the link."""
        if not self.welcomed and not self.over.done():
            self._count(MessageRefused("hello", f"the link ended before hello: {why}"))
        self.end(None)

    def silent(self) -> None:
        """End the link of a neighbour that is not heard any more."""
        self._gone = True  # nobody has cut anything off on purpose
        self.end(None)

    def drained(self) -> None:
        """Go on, now that the neighbour has read all."""
        self._set_pace()
        self.tell_if_due()

    # ------------------------------------------------------------------------------------------------------------------

    def _no_hello(self) -> None:
        self.refused(MessageRefused("hello", f"no hello within {self._limits.hello_time} s"))

    def _greet(self, at_round: int) -> None:
        self._hello_time.cancel()
        self._reception.greeted(self.name, at_round)
        position = self._reception.position(self.name)
        self._told, self.welcomed = KnownPosition(position, self._reception.position_interval), True
        self.send(Place(*position).frame(wire.WELCOME))
        self._events.linked(self.name, "in", True)

    def _header(self, header: Header) -> None:
        if self._receiving is not None:
            raise MessageRefused("order", f"a header while {self._receiving.missing} bytes are missing")
        self._events.received(self.name, len(header.content))
        self._skipping = 0
        try:
            received = self._codec.expect(header)
        except MessageRefused as refusal:
            # Its content can be told from what comes after it, so that the link goes on behind it.
            self._skipping = max((layout.size for layout in self._codec.layouts), default=0)
            self._refuse(refusal, header)
            return
        self._about = header._replace(content=b"")
        if received.missing:
            self._receiving = received
        else:
            self._finish(received)

    def _finish(self, received: Assembler) -> None:
        about, self._about, self._receiving = self._about, _NO_MESSAGE, None
        try:
            message = received.message()
        except MessageRefused as refusal:
            self._refuse(refusal, about)
            return
        self._waiting = Arrival(self.name, received.phase, received.sent, message, received.masks, self._decided)
        self._reception.take(self._waiting)
        self._set_pace()

    def _decided(self, arrival: Arrival, refusal: MessageRefused | None) -> None:
        self._waiting = None
        if refusal is None:
            self._events.accepted(self.name)
        if refusal is None or refusal.reason == "repeated":  # which is here by an older link
            self._told.holds(arrival.sent, arrival.phase)
        if refusal is not None:
            self._refuse(refusal, Header(arrival.phase, arrival.sent))
        if self._told.is_due(self._reception.position(self.name)):
            self._moved()  # a late one is covered already
        self._set_pace()
        if self._retiring:
            self._retire()

    def _set_pace(self) -> None:
        """Read on unless a message is undecided, or the neighbour does not read what it is answered."""
        if self._waiting is not None or self.stream.pending > FULL or self.over.done():
            self.stream.pause()
        else:
            self.stream.resume()

    def _retire(self) -> None:
        """Answer a neighbour that has said all: with the last receipts and the position, and with the end."""
        if self._receiving is not None:
            self.end(None)
            return
        self._retiring = True
        if self._waiting is None:
            if self._told.is_due(self._reception.position(self.name)):
                self.tell()
            self.end(End())

    def _refuse(self, refusal: MessageRefused, about: Header) -> None:
        self._count(refusal)
        self.send(self._receipt(refusal, about))

    def _count(self, refusal: MessageRefused) -> None:
        self._events.refused(refusal.reason, self.name, printable(refusal.detail))

    @staticmethod
    def _receipt(refusal: MessageRefused, about: Header) -> bytes:
        return Receipt(about.phase, about.round, refusal.reason, printable(refusal.detail)).frame()

    def notify(self, payload: bytes) -> bool:
        """Send a notice; returns whether there was room for it."""
        if not self.welcomed or self.stream.pending > FULL:
            return False
        self.send(framed(wire.NOTICE, payload))
        return True

    # -- key messages --------------------------------------------------------------------------------------------------

    def _relay(self, letter: Letter) -> None:
        if len(self._relaying) >= self._limits.relays:
            many = f"{self._limits.relays} letters of {self.name} are on their way; send it later"
            self._answer(letter, MessageRefused("busy", many))
            return
        task = asyncio.ensure_future(self._pass_on(letter))
        self._relaying.add(task)
        task.add_done_callback(self._relaying.discard)

    async def _pass_on(self, letter: Letter) -> None:
        try:
            async with asyncio.timeout(self._limits.relay_time):
                await self._reception.relay_key_message(self.name, letter.correspondent, letter.payload)
        except MessageRefused as refusal:
            self._answer(letter, refusal)
        except TimeoutError:
            late = f"not handed on within {self._limits.relay_time} s"
            self._answer(letter, MessageRefused("recipient", late))
        else:
            self.send(Answer(letter.number).frame())

    def _answer(self, letter: Letter, refusal: MessageRefused) -> None:
        self._count(refusal)
        self.send(Answer(letter.number, refusal.reason, printable(refusal.detail)).frame())

    async def close(self, seconds: float) -> None:
        """Have the last word arrive, and close the connection."""
        if self.over.done() and self.over.result() is not None:
            with contextlib.suppress(Exception):
                await self.stream.finish(seconds)
        self.stream.close()
