"""Samples from an MQTT broker: messages go into the peer's queue, and are confirmed when they are on the disk.

The session is persistent and the subscription has quality of service 1, so that the broker keeps what was not confirmed
and sends it again. A message and the digest of its record are one commit; a record that comes again, because the
broker, the peer or the sender repeated it, is known by that. Quality 2 would promise the same between broker and
library only, which forgets at a crash what it has confirmed.

Every message takes a place in a batch; an unusable one, and one that came before, takes a place without a sample.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tacit.core.errors import DataError, TacitError
from tacit.core.extras import require
from tacit.peer.operations.logs import Log
from tacit.peer.sources.known_records import KnownRecords
from tacit.peer.sources.not_learnt import NotLearnt
from tacit.peer.sources.queue import Cursor, QueueClosed, Sample, SampleQueue, Seen, Taken
from tacit.peer.sources.rows import JsonRows, Row

QUALITY = 1
KEEP_ALIVE = 30
"""Seconds between signs of life."""
LONGEST_BREAK = 30
"""Seconds between two attempts to connect, at most."""


class MqttAccess(NamedTuple):
    """Address and credentials of a broker."""

    host: str
    port: int
    client_id: str
    tls: ssl.SSLContext | None = None
    username: str | None = None
    password: str | None = None

    def client(self) -> Any:
        """Return a client of the library that has not connected yet."""
        library = require("paho.mqtt.client", extra="mqtt", purpose="kind = 'mqtt'")
        client = library.Client(
            library.CallbackAPIVersion.VERSION2,
            client_id=self.client_id,
            clean_session=False,
            protocol=library.MQTTv311,
            manual_ack=True,
        )
        if self.tls is not None:
            client.tls_set_context(self.tls)
        if self.username is not None:
            client.username_pw_set(self.username, self.password)
        client.reconnect_delay_set(1, LONGEST_BREAK)
        return client


class _Message(NamedTuple):
    payload: bytes
    topic: str
    number: int
    quality: int
    connection: int
    """Number of the connection over which it came: the same number may mean another message in the next."""


class MqttTopic:
    """A source that keeps a session with a broker; `take` raises DataError while there is none and nothing waits."""

    def __init__(
        self,
        topic: str,
        access: MqttAccess,
        queue: SampleQueue,
        rows: JsonRows,
        known: KnownRecords,
        *,
        not_learnt: NotLearnt | None = None,
        on_queued: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Subscribe to `topic`, which may have wildcards, at the first `take`."""
        self._topic, self._access, self._queue, self._rows, self._known = topic, access, queue, rows, known
        self.not_learnt = not_learnt or NotLearnt(f"topic {topic}")
        self._on_queued, self._log = on_queued, Log()
        self._client = access.client()
        self._client.on_connect = self._connected
        self._client.on_disconnect = self._disconnected
        self._client.on_connect_fail = self._failed
        self._client.on_subscribe = self._subscribed
        self._client.on_message = self._came
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pump: asyncio.Task[None] | None = None
        self._waiting: list[_Message] = []
        self._arrived = asyncio.Event()
        self._connection = 0
        self._fault: str | None = "it has not answered yet"

    @property
    def depth(self) -> int:
        """Number of samples that wait to be taken."""
        return self._queue.depth

    def resume(self, cursor: Cursor) -> None:
        """Go on from a stored cursor, which is one of the queue."""
        self._queue.resume(cursor)

    async def take(self, limit: int, patience: float) -> Taken:
        """Return the oldest `limit` records, or fewer when `patience` seconds have passed."""
        if self._pump is None:
            self._loop = asyncio.get_running_loop()
            self._pump = asyncio.create_task(self._store_messages())
            self._client.connect_async(self._access.host, self._access.port, KEEP_ALIVE)
            self._client.loop_start()
        if self._pump.done():
            self._pump.result()
        taken = await self._queue.take(limit, patience)
        if self._fault is not None and not taken.samples:
            raise DataError(
                f"the broker {self._access.host}:{self._access.port}: {self._fault}; rounds go on without samples "
                "until it answers"
            )
        return taken

    async def close(self) -> None:
        """End the connection; the broker keeps the session, and what was not confirmed."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
            self._client.disconnect()
            await asyncio.to_thread(self._client.loop_stop)
        await self._queue.close()

    # -- in the library's thread ---------------------------------------------------------------------------------------

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._connection += 1
        if reason.is_failure:
            self._fault = f"it refuses the connection ({reason}); check username, password_file and client_id"
        else:
            client.subscribe(self._topic, QUALITY)

    def _subscribed(self, client: Any, data: Any, number: int, reasons: Sequence[Any], properties: Any) -> None:
        refused = [reason for reason in reasons if reason.is_failure]
        self._fault = f"it refuses the topic {self._topic!r} ({refused[0]})" if refused else None

    def _disconnected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._fault = self._fault or f"the connection has ended ({reason})"

    def _failed(self, client: Any, data: Any) -> None:
        self._fault = "it cannot be reached"

    def _came(self, client: Any, data: Any, message: Any) -> None:
        assert self._loop is not None  # set before the thread was started
        found = _Message(message.payload, message.topic, message.mid, message.qos, self._connection)
        self._loop.call_soon_threadsafe(self._note, found)

    # -- in the event loop ---------------------------------------------------------------------------------------------

    def _note(self, message: _Message) -> None:
        self._waiting.append(message)
        self._arrived.set()

    async def _store_messages(self) -> None:
        """Put all messages that wait into the queue in one commit, then confirm them; for ever."""
        try:
            while True:
                await self._arrived.wait()
                await self._queue.has_room()
                self._arrived.clear()
                messages, self._waiting = self._waiting, []
                records, rows = await asyncio.to_thread(self._told_apart, messages)
                await self._queue.deliver(records)
                self._confirm(messages)
                fresh = [row for row, (_, seen) in zip(rows, records, strict=True) if seen is not None]
                self.not_learnt.report([row.fault for row in fresh if row.fault is not None], len(rows) - len(fresh))
                self._on_queued(sum(sample is not None for sample, _ in records))
        except QueueClosed:
            pass  # the broker keeps what was not confirmed
        except TacitError as fault:
            self._log.error("messages cannot be stored", reason=str(fault))
            raise

    def _told_apart(self, messages: Sequence[_Message]) -> tuple[list[tuple[Sample | None, Seen | None]], list[Row]]:
        """Return each message's place in the queue, without a mark where its record came before."""
        records: list[tuple[Sample | None, Seen | None]] = []
        rows, taken = [], set()
        for message in messages:
            row = self._rows.message(message.payload, f"a message to {message.topic}")
            rows.append(row)
            if row.digest in taken or self._known.uses(row.digest):
                records.append((None, None))
            else:
                taken.add(row.digest)
                records.append((row.sample, Seen(1, row.digest)))
        return records, rows

    def _confirm(self, messages: Sequence[_Message]) -> None:
        for message in messages:
            if message.connection == self._connection and message.quality:
                self._client.ack(message.number, message.quality)
