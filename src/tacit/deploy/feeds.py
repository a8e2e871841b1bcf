"""A peer's source of samples, made from its [stream] table; libraries of extras are imported where they are used."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from tacit.config.peer import PeerSettings
from tacit.config.stream import FileStream, PushStream
from tacit.peer.node.assignment import Plan
from tacit.peer.node.store import PeerStore
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.logs import Log
from tacit.peer.sources.batches import Feed, SampleFeed, StreamFeed
from tacit.peer.sources.queue import SampleQueue, Source

if TYPE_CHECKING:
    pass


def feed_of(
    settings: PeerSettings, plan: Plan, store: PeerStore, worker: Executor, counters: Counters, log: Log
) -> Feed:
    """Return the feed of a peer's rounds.

    Args:
      settings: The peer's checked settings.
      plan: Its assignment.
      store: Its open store.
      worker: Thread in which the store's queue is written.
      counters: Figures that /metrics shows.
      log: Its log.
    """
    if plan.role != plan.algorithm.learner:
        return StreamFeed(None, plan.agent, plan.dtype)
    job = settings.job
    return SampleFeed(
        _source(settings, store, worker, counters),
        job.form,
        size=job.settings.batch,
        dtype=job.settings.dtype,
        patience=settings.rounds.patience,
        bias=job.settings.bias,
        on_fault=lambda fault: log.seldom("stream", "the stream cannot be used", reason=str(fault)),
    )


def _source(settings: PeerSettings, store: PeerStore, worker: Executor, counters: Counters) -> Source:
    stream, form = settings.stream, settings.job.form
    if isinstance(stream, PushStream):
        return SampleQueue(store, form, worker, stream.capacity)
    from tacit.peer.sources.not_learnt import NotLearnt
    from tacit.peer.sources.rows import JsonRows, QueryRows

    def counted(outcome: str) -> Callable[[int], None]:
        return lambda count: counters.add("tacit_samples_total", count, outcome=outcome)

    def told(name: str) -> NotLearnt:
        return NotLearnt(name, lambda fault: counted("bad")(1), counted("known"))

    if isinstance(stream, FileStream):
        from tacit.peer.sources.file_follower import FileTail

        path = settings.beside(stream.path)
        return FileTail(
            path,
            form,
            format=stream.kind,
            label=stream.label,
            known=store.records,
            features=stream.columns,
            key=stream.keys,
            not_learnt=told(str(path)),
        )
    from tacit.config.brokers import KafkaStream, SqlStream, data_base, kafka_access, mqtt_access

    if isinstance(stream, SqlStream):
        from tacit.peer.sources.sql import GrowingQuery

        base, key = data_base(settings, stream), stream.keys or [stream.order]
        return GrowingQuery(
            base,
            stream.order,
            QueryRows(base.shown, form, stream.label, stream.columns, key, apart=(stream.order,)),
            store.records,
            table=stream.table,
            query=stream.query,
            poll=stream.poll,
            look_back=stream.look_back,
            not_learnt=told(base.shown),
        )
    name = f"topic {stream.topic}"
    rows = JsonRows(name, form, stream.label, stream.columns, stream.keys)
    if isinstance(stream, KafkaStream):
        from tacit.peer.sources.kafka import KafkaTopic

        return KafkaTopic(
            stream.topic,
            kafka_access(settings, stream),
            rows,
            store.records,
            partitions=stream.partitions,
            start=stream.start,
            not_learnt=told(name),
        )
    from tacit.peer.sources.mqtt import MqttTopic

    queue = SampleQueue(store, form, worker, stream.capacity)
    access = mqtt_access(settings, stream)
    return MqttTopic(
        stream.topic, access, queue, rows, store.records, not_learnt=told(name), on_queued=counted("queued")
    )
