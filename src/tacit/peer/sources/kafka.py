"""Samples from a topic of a Kafka-compatible log, read by position.

The cursor is the next offset of each partition; it is stored in the transaction that uses the samples, and nothing is
committed at the broker. So a record that the broker delivers again lies before the cursor and is passed over, whatever
was killed in between. With a `key` a record is known by these fields too, under whatever offset a producer repeats it.

Every record takes a place in a batch; an unusable one, and one whose key came before, takes a place without a sample.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tacit.core.errors import ConfigError, DataError
from tacit.core.extras import require
from tacit.peer.operations.logs import Log
from tacit.peer.sources.known_records import KnownRecords
from tacit.peer.sources.not_learnt import NotLearnt
from tacit.peer.sources.queue import Cursor, Sample, Seen, Taken
from tacit.peer.sources.rows import JsonRows

ANSWER_TIME = 5.0
"""Seconds for a broker to describe a topic."""
SLICE = 0.2
"""Seconds for which one call of the library may wait for records."""
LOOK_AGAIN = 300.0
"""Seconds after which new partitions are looked for."""
QUIET = logging.getLogger("tacit.kafka.library")  # its faults come as errors, too
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def kafka_library() -> Any:
    """Import the library of Kafka, or name its extra."""
    return require("confluent_kafka", extra="kafka", purpose="kind = 'kafka'")


class KafkaTopic:
    """A source that reads the partitions of a topic; `take` raises DataError while the broker cannot be used.

    The samples of one `take` have to be committed, or are lost, before the next one.
    """

    def __init__(
        self,
        topic: str,
        access: Mapping[str, str],
        rows: JsonRows,
        known: KnownRecords,
        *,
        partitions: Sequence[int] | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        not_learnt: NotLearnt | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read `topic` with the settings `access` of the library; all partitions unless some are given.

        A new peer begins with the oldest records that are there, or behind the newest.
        """
        self._library = kafka_library()
        self._topic, self._rows, self._known = topic, rows, known
        self._wanted, self._start, self._clock = partitions, start, clock
        self._settings = {
            **access,
            "group.id": "tacit",  # the library wants one; no offset is stored under it
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": "false",
            "error_cb": self._note,
        }
        self.not_learnt = not_learnt or NotLearnt(f"topic {topic}")
        self._log, self._lock = Log(), threading.Lock()
        self._consumer: Any = None
        self._trouble: str | None = None
        self._look_at = 0.0
        self._cluster = ""
        self._offsets: dict[int, int] = {}
        """Partition -> offset of the first record that was not taken."""
        self._read: list[Any] = []
        """Records read and not taken yet."""
        self._taken: set[bytes] = set()
        """Digests of the last records taken."""

    def resume(self, cursor: Cursor) -> None:
        """Go on from a stored cursor."""
        try:
            offsets = {int(partition): int(offset) for partition, offset in cursor["offsets"].items()}
            topic, cluster, key = cursor["topic"], cursor["cluster"], tuple(cursor["key"])
        except (TypeError, KeyError, AttributeError, ValueError) as fault:
            raise DataError(
                "the stored cursor is not one of a topic; it was stored for another stream: give that one back to the "
                "peer, or begin a new store"
            ) from fault
        if topic != self._topic:
            raise DataError(
                f"topic {self._topic!r}: the store holds positions of {topic!r}; put that topic back, or begin a new "
                "store with what is left of the budget"
            )
        if key != self._rows.key:
            raise DataError(
                f"topic {topic!r}: records are to be known by {', '.join(self._rows.key) or 'their offset'} ([stream] "
                f"key), but those that were used are known by {', '.join(key) or 'their offset'}; put the key back, or "
                "begin a new store with what is left of the budget"
            )
        self._offsets, self._cluster = offsets, cluster

    async def take(self, limit: int, patience: float) -> Taken:
        """Return the next `limit` records, or fewer when `patience` seconds have passed."""
        deadline = self._clock() + patience
        while True:
            left = deadline - self._clock()
            await asyncio.to_thread(self._fetch, limit, max(0.0, min(left, SLICE)))
            if len(self._read) >= limit or left <= 0:
                break
        samples, seen, faults, known, offsets = await asyncio.to_thread(self._told_apart, limit)
        self._read, self._offsets = self._read[len(samples) :], offsets
        self._taken = {digest for _, digest in seen}
        self.not_learnt.report(faults, known)
        return Taken(samples, self._cursor(), seen)

    async def close(self) -> None:
        """Leave the broker."""
        await asyncio.to_thread(self._leave)

    def _leave(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
            self._consumer = None

    def _cursor(self) -> Cursor:
        offsets = {str(partition): offset for partition, offset in sorted(self._offsets.items())}
        return {"topic": self._topic, "cluster": self._cluster, "offsets": offsets, "key": list(self._rows.key)}

    # -- the broker; in a thread ---------------------------------------------------------------------------------------

    def _note(self, fault: Any) -> None:
        self._trouble = fault.str()

    def _fetch(self, limit: int, wait: float) -> None:
        with self._lock:
            if self._consumer is None or self._trouble is not None or self._clock() >= self._look_at:
                self._assign()
            if len(self._read) >= limit:
                return
            wanted = limit - len(self._read)
            try:
                found = self._consumer.consume(wanted, wait)
            except self._library.KafkaException as fault:
                raise self._unusable(fault.args[0].str()) from None
            for record in found:
                if record.error() is None:
                    self._read.append(record)
                elif record.error().code() == self._library.KafkaError._AUTO_OFFSET_RESET:
                    self._look_at = 0.0  # the records there are gone: which ones, `_assign` finds out
                else:
                    self._trouble = record.error().str()
            if self._trouble is not None and not self._read:
                raise self._unusable(self._trouble)

    def _unusable(self, reason: str) -> DataError:
        return DataError(f"topic {self._topic!r}: {reason}; rounds go on without samples until the broker answers")

    def _assign(self) -> None:
        """Find the partitions and read on from their positions, if they are where they were."""
        if self._consumer is None:
            try:
                self._consumer = self._library.Consumer(self._settings, logger=QUIET)
            except (self._library.KafkaException, ValueError, TypeError) as fault:
                raise ConfigError(f"[stream]: the library of Kafka refuses its settings ({_said(fault)})") from None
        try:
            positions = self._positions()
        except self._library.KafkaException as fault:
            raise self._unusable(_said(fault)) from None
        place = self._library.TopicPartition
        if positions != self._offsets or self._look_at == 0.0 or self._trouble is not None:
            self._read = []
            self._consumer.assign([place(self._topic, *each) for each in positions.items()])
        self._offsets = {**self._offsets, **positions}
        self._look_at, self._trouble = self._clock() + LOOK_AGAIN, None

    def _positions(self) -> dict[int, int]:
        found = self._consumer.list_topics(self._topic, timeout=ANSWER_TIME)
        described = found.topics[self._topic]
        if described.error is not None:
            raise DataError(f"topic {self._topic!r}: {described.error.str()}; create it, or mend [stream] topic")
        cluster = found.cluster_id or ""
        if self._cluster and cluster != self._cluster:
            raise DataError(
                f"topic {self._topic!r}: it is on the cluster {cluster}, and records of {self._cluster} were used; "
                "offsets of one mean nothing in the other: put brokers back, or begin a new store with what is left of "
                "the budget"
            )
        partitions = sorted(described.partitions) if self._wanted is None else list(self._wanted)
        missing = sorted(set(partitions) - set(described.partitions))
        if missing:
            raise DataError(
                f"topic {self._topic!r}: no partition {missing[0]}; it has {len(described.partitions)}, from 0: mend "
                "[stream] partitions"
            )
        positions = {partition: self._position(partition) for partition in partitions}
        self._cluster = cluster
        return positions

    def _position(self, partition: int) -> int:
        place = self._library.TopicPartition(self._topic, partition)
        low, high = self._consumer.get_watermark_offsets(place, timeout=ANSWER_TIME)
        at = self._offsets.get(partition)
        if at is None:  # of partitions that came later nothing was passed over
            return int(high if self._start == "latest" and not self._offsets else low)
        if at > high:
            raise DataError(
                f"topic {self._topic!r}, partition {partition}: records up to offset {at} were used, and it ends at "
                f"{high}: it was made anew or has lost records, and others may have the old offsets; put it back, or "
                "begin a new store with what is left of the budget"
            )
        if at < low:
            self._log.warning(
                "records were deleted before they were read", topic=self._topic, partition=partition, lost=low - at
            )
        return max(at, int(low))

    # -- the records ---------------------------------------------------------------------------------------------------

    def _told_apart(self, limit: int) -> tuple[list[Sample | None], list[Seen], list[DataError], int, dict[int, int]]:
        """Return the places of the next records, and the positions behind them."""
        samples: list[Sample | None] = []
        seen: list[Seen] = []
        faults: list[DataError] = []
        known, offsets, taken = 0, dict(self._offsets), set(self._taken)
        for record in self._read[:limit]:
            partition, offset = record.partition(), record.offset()
            where = f"topic {self._topic}, partition {partition}, offset {offset}"
            row = self._rows.message(record.value(), where)
            came = offset < offsets[partition] or (
                bool(self._rows.key) and (row.digest in taken or bool(self._known.uses(row.digest)))
            )
            offsets[partition] = max(offsets[partition], offset + 1)
            samples.append(None if came else row.sample)
            if came:
                known += 1
                continue
            if row.fault is not None:
                faults.append(row.fault)
            if self._rows.key:
                seen.append(Seen(1, row.digest))
                taken.add(row.digest)
        return samples, seen, faults, known, offsets


def _said(fault: BaseException) -> str:
    """Return a fault of the library in words; its settings, a password among them, are not in it."""
    first = fault.args[0] if fault.args else fault
    return first.str() if hasattr(first, "str") else type(fault).__name__
