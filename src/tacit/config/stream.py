"""[stream] of a peer.toml: where its samples come from.

    kind = "push"            capacity
    kind = "csv", "jsonl"    path
    kind = "kafka"           brokers, topic; partitions, start; tls and who logs in
    kind = "mqtt"            broker, topic; client_id, capacity; tls and who logs in
    kind = "sql"             url or url_file, table or query, order; poll, look_back

and, for all but "push", label, columns and key. No secret stands in the file: passwords and addresses with passwords
are in files of their own, or in variables of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tacit.config.job import Job
from tacit.config.sections import Place, Section, check, check_path, located, toml_text, unknown_name
from tacit.core import limits
from tacit.core.errors import ConfigError

BROKER = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Of Kafka."""
SOON = 3600.0
"""Seconds between two looks at a data base, at most."""
PATHS = ("path", "ca", "certificate", "private_key", "password_file", "url_file")


class PushStream(Section):
    """Samples that an application hands over, or posts."""

    kind: Literal["push"] = "push"
    capacity: int = Field(default=10_000, ge=1, le=limits.MOST_ROUNDS)
    """Samples that may wait."""


class RecordStream(Section):
    """Records with named fields."""

    label: str = "y"
    """Column, or key, of what is to be predicted."""
    columns: list[str] | None = None
    """Columns, or keys, of the features; by default all others, of JSON the list "x"."""
    key: str | list[str] = Field(default_factory=list)
    """Column, or columns, by which a record is known when it comes again."""

    @property
    def keys(self) -> list[str]:
        """All columns of `key`."""
        return [self.key] if isinstance(self.key, str) else self.key


class FileStream(RecordStream):
    """A file that grows."""

    kind: Literal["csv", "jsonl"]
    path: str


class BrokerStream(RecordStream):
    """Messages of a broker, JSON objects."""

    tls: bool = False
    ca: str | None = None
    """Certificates of authorities, where those of the system are not enough."""
    certificate: str | None = None
    """Of this client, with its `private_key`."""
    private_key: str | None = None
    username: str | None = Field(default=None, min_length=1, max_length=255)
    password_file: str | None = None


class KafkaStream(BrokerStream):
    """A topic of a Kafka-compatible log."""

    kind: Literal["kafka"]
    brokers: str | list[str]
    topic: str
    partitions: list[int] | None = None
    """All, unless some are given."""
    start: Literal["earliest", "latest"] = "earliest"
    """Where a new store begins."""
    sasl: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """How `username` proves itself."""

    @property
    def addresses(self) -> list[str]:
        """All of `brokers`."""
        return [self.brokers] if isinstance(self.brokers, str) else self.brokers


class MqttStream(BrokerStream):
    """Topics of an MQTT broker."""

    kind: Literal["mqtt"]
    broker: str
    topic: str = Field(min_length=1, max_length=65_535)
    """A filter: + and # stand for what may differ."""
    client_id: str | None = Field(default=None, min_length=1, max_length=255)
    """Name of the session that the broker keeps; by default tacit- and the peer's name."""
    capacity: int = Field(default=10_000, ge=1, le=limits.MOST_ROUNDS)
    """Samples that may wait here; more wait at the broker."""

    @property
    def addresses(self) -> list[str]:
        """The broker."""
        return [self.broker]


class SqlStream(RecordStream):
    """A table or query that grows."""

    kind: Literal["sql"]
    url: str | None = None
    """As SQLAlchemy has it; ${NAME} stands for a variable of the environment."""
    url_file: str | None = None
    table: str | None = Field(default=None, min_length=1, max_length=255)
    query: str | None = Field(default=None, min_length=1)
    order: str = Field(min_length=1, max_length=255)
    """Column of whole numbers that grow from row to row."""
    poll: float = Field(default=1.0, gt=0, le=SOON)
    """Seconds between two looks."""
    look_back: int = Field(default=1000, ge=0, le=1_000_000)
    """Numbers behind the largest one seen within which a row may still appear."""


Stream = PushStream | FileStream | KafkaStream | MqttStream | SqlStream
KINDS: Mapping[str, type[Stream]] = {
    "push": PushStream,
    "csv": FileStream,
    "jsonl": FileStream,
    "kafka": KafkaStream,
    "mqtt": MqttStream,
    "sql": SqlStream,
}


def stream_of(data: Mapping[str, Any], job: Job, file: Path) -> Stream:
    """Return the checked table of a peer's file, or say what is wrong with it.

    Args:
      data: Content of the table.
      job: Job of the peer, whose features the columns are.
      file: The peer's file, for messages.
    """
    place, kind = Place(str(file), "[stream]"), data.get("kind", "push")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"{place} kind = {toml_text(kind)}: {unknown_name(str(kind), list(KINDS), 'kind')}")
    needless = [
        key
        for key in data
        if key not in KINDS[kind].model_fields and any(key in k.model_fields for k in KINDS.values())
    ]
    if needless:
        raise ConfigError(
            f"{place}: kind = {kind!r} takes no {', no '.join(sorted(needless))}; remove it, or choose another kind"
        )
    stream: Stream = check(KINDS[kind], data, place)
    for key in PATHS:
        check_path(getattr(stream, key, None), Place(str(file), f"[stream] {key}"))
    with located(place):
        if not isinstance(stream, PushStream):
            _check_columns(stream, job)
        if isinstance(stream, BrokerStream):
            _check_broker(stream)
        if isinstance(stream, SqlStream):
            _check_sql(stream)
    return stream


def _check_columns(stream: RecordStream, job: Job) -> None:
    if stream.columns is not None:
        given, wanted = stream.columns, job.settings.features
        if len(given) != wanted or len({*given, stream.label}) != wanted + 1:
            raise ConfigError(
                f"columns = {toml_text(given)}, label = {stream.label!r}: expected {wanted} names, as many as the job "
                "has features, each once and the label not among them"
            )
    if stream.keys and ("" in stream.keys or len({*stream.keys, stream.label}) != len(stream.keys) + 1):
        raise ConfigError(
            f"key = {toml_text(stream.key)}, label = {stream.label!r}: expected names of columns that tell records "
            "apart, each once and the label not among them"
        )


def _check_broker(stream: BrokerStream) -> None:
    assert isinstance(stream, KafkaStream | MqttStream)  # there is no other
    key = "brokers" if isinstance(stream, KafkaStream) else "broker"
    for address in stream.addresses or [""]:
        found = BROKER.fullmatch(address)
        if found is None or not 0 < int(found["port"]) <= 65535:
            raise ConfigError(f'{key} = {toml_text(address)}: expected "host:port", port 1 to 65535')
    needs = (
        ("ca", stream.ca, "tls = true", stream.tls),
        ("certificate", stream.certificate, "tls = true", stream.tls),
        ("certificate", stream.certificate, "private_key", stream.private_key),
        ("private_key", stream.private_key, "certificate", stream.certificate),
        ("username", stream.username, "password_file", stream.password_file),
        ("password_file", stream.password_file, "username", stream.username),
        ("password_file", stream.password_file, "tls = true, or whoever listens has the password", stream.tls),
    )
    for given, value, other, there in needs:
        if value is not None and not there:
            raise ConfigError(f"{given} = {toml_text(value)} needs {other}; add it, or remove {given}")
    if isinstance(stream, KafkaStream):
        _check_kafka(stream)
    elif not _is_filter(stream.topic):
        raise ConfigError(
            f"topic = {toml_text(stream.topic)}: expected a filter, with + for a whole level, # for the last"
        )


def _check_kafka(stream: KafkaStream) -> None:
    if not TOPIC.fullmatch(stream.topic) or stream.topic in (".", ".."):
        raise ConfigError(f"topic = {toml_text(stream.topic)}: expected letters, digits, dots, - and _, at most 249")
    numbers = stream.partitions
    if numbers is not None and (
        not numbers or len(set(numbers)) < len(numbers) or not 0 <= min(numbers) <= max(numbers) < 2**31
    ):
        raise ConfigError(f"partitions = {toml_text(numbers)}: expected numbers from 0 on, each once")


def _is_filter(topic: str) -> bool:
    levels = topic.split("/")
    return (
        "\0" not in topic
        and all(level in ("+", "#") or not set(level) & set("+#") for level in levels)
        and "#" not in levels[:-1]
    )


def _check_sql(stream: SqlStream) -> None:
    for one, other in (("url", "url_file"), ("table", "query")):
        if (getattr(stream, one) is None) == (getattr(stream, other) is None):
            raise ConfigError(f"expected one of {one} and {other}; give one of them")
    if stream.url is not None:
        from tacit.streams.reading.sql import has_password

        if has_password(stream.url):
            raise ConfigError(
                "url: a password stands in it; write ${DB_PASSWORD} in its place and set that variable, or put the URL "
                "into a file of its own: url_file"
            )
    for key in ("url", "table", "query", "order"):
        if "\0" in (getattr(stream, key) or ""):
            raise ConfigError(f"{key}: a zero byte stands in it; remove it")
