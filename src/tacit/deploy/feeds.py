"""A peer's source of samples, made from its [stream] table; libraries of extras are imported where they are used."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.config.peer import PeerSettings
from tacit.config.stream import BrokerStream, FileStream, KafkaStream, MqttStream, PushStream, SqlStream
from tacit.core.errors import ConfigError, DataError
from tacit.peer.node.assignment import Plan
from tacit.peer.node.store import PeerStore
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.logs import Log
from tacit.peer.sources.batches import Feed, SampleFeed, StreamFeed
from tacit.peer.sources.queue import SampleQueue, Source

if TYPE_CHECKING:
    from tacit.peer.sources.mqtt import MqttAccess
    from tacit.streams.reading.sql import DataBase

REACHED = 3.0
"""Seconds for a broker or data base to answer `tacit peer check`."""


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


# -- access ------------------------------------------------------------------------------------------------------------


def kafka_access(settings: PeerSettings, stream: KafkaStream) -> dict[str, str]:
    """Return the settings by which Kafka's library finds the brokers and proves who it is."""
    found = {
        "bootstrap.servers": ",".join(stream.addresses),
        "client.id": f"tacit-{settings.peer.name}",
        "security.protocol": ("SASL_" if stream.username else "") + ("SSL" if stream.tls else "PLAINTEXT"),
    }
    files = (
        ("ssl.ca.location", "ca"),
        ("ssl.certificate.location", "certificate"),
        ("ssl.key.location", "private_key"),
    )
    for setting, key in files:
        if getattr(stream, key) is not None:
            found[setting] = str(_readable(settings, key, getattr(stream, key)))
    password = _password(settings, stream)
    if stream.username is not None and password is not None:
        found |= {"sasl.mechanism": stream.sasl, "sasl.username": stream.username, "sasl.password": password}
    return found


def mqtt_access(settings: PeerSettings, stream: MqttStream) -> MqttAccess:
    """Return the address of an MQTT broker, and what proves who the client is."""
    from tacit.peer.sources.mqtt import MqttAccess

    host, _, port = stream.broker.rpartition(":")
    client = stream.client_id or f"tacit-{settings.peer.name}"
    return MqttAccess(
        host.strip("[]"), int(port), client, _tls(settings, stream), stream.username, _password(settings, stream)
    )


def data_base(settings: PeerSettings, stream: SqlStream) -> DataBase:
    """Return the data base of a stream."""
    from tacit.streams.reading.sql import DataBase

    url = stream.url
    if stream.url_file is not None:
        url = _secret(settings, "url_file", stream.url_file)
    assert url is not None  # one of the two is there
    return DataBase(url)


def _tls(settings: PeerSettings, stream: BrokerStream) -> ssl.SSLContext | None:
    if not stream.tls:
        return None
    context = ssl.create_default_context()
    try:
        if stream.ca is not None:
            context.load_verify_locations(_readable(settings, "ca", stream.ca))
        if stream.certificate is not None and stream.private_key is not None:
            certificate = _readable(settings, "certificate", stream.certificate)
            context.load_cert_chain(certificate, _readable(settings, "private_key", stream.private_key), lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{settings.file}: [stream] ca, certificate or private_key: not what TLS can use "
            f"({getattr(error, 'reason', None) or 'no PEM'}); expected PEM files, and a key without a passphrase"
        ) from None
    return context


def _readable(settings: PeerSettings, key: str, path: str) -> Path:
    found = settings.beside(path)
    try:
        found.open("rb").close()
    except OSError as error:
        raise ConfigError(
            f"{settings.file}: [stream] {key} = {path!r}: {found} cannot be read ({error.strerror}); put it there, "
            "readable for the peer's user"
        ) from error
    return found


def _password(settings: PeerSettings, stream: BrokerStream) -> str | None:
    return None if stream.password_file is None else _secret(settings, "password_file", stream.password_file)


def _secret(settings: PeerSettings, key: str, path: str) -> str:
    try:
        text = _readable(settings, key, path).read_text(encoding="utf-8").strip()
    except ValueError:
        text = ""
    if not text:
        raise ConfigError(f"{settings.file}: [stream] {key} = {path!r}: expected one line of text; write it there")
    return text


# -- tacit peer check --------------------------------------------------------------------------------------------------


def check_reach(settings: PeerSettings) -> Iterator[str]:
    """Refuse files and libraries that are missing; say whether broker or data base can be reached from here.

    Args:
      settings: The peer's checked settings.
    """
    stream = settings.stream
    if isinstance(stream, PushStream | FileStream):
        return
    for key in ("password_file", "private_key", "url_file"):
        path = getattr(stream, key, None)
        if path is not None and _readable(settings, key, path).stat().st_mode & 0o077:
            yield f"warning: [stream] {key} = {path!r}: others on this host can read it; chmod 600 it"
    try:
        if isinstance(stream, SqlStream):
            engine = data_base(settings, stream).engine()
            try:
                data_base(settings, stream).probe(engine)
            finally:
                engine.dispose()
            return
        if isinstance(stream, KafkaStream):
            from tacit.peer.sources.kafka import kafka_library

            kafka_library()
            kafka_access(settings, stream)
        else:
            mqtt_access(settings, stream).client()
        _knock(stream.addresses)
    except DataError as error:
        yield f"warning: {error}; the peer starts all the same, and learns when it answers"


def _knock(addresses: list[str]) -> None:
    """Open a connection to one of several addresses, and close it."""
    reasons = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACHED).close()
            return
        except (OSError, UnicodeError) as error:
            reasons.append(f"{address} ({getattr(error, 'strerror', None) or error})")
    raise DataError(f"[stream]: no broker can be reached: {', '.join(reasons)}")
