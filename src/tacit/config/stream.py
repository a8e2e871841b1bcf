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

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field

from tacit.config.job import Job
from tacit.config.sections import Place, Section, check, check_path, located, toml_text, unknown_name
from tacit.core import limits
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.config.brokers import KafkaStream, MqttStream, SqlStream

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


Stream: TypeAlias = "PushStream | FileStream | KafkaStream | MqttStream | SqlStream"
KINDS: Mapping[str, str] = {
    "push": "stream.PushStream",
    "csv": "stream.FileStream",
    "jsonl": "stream.FileStream",
    "kafka": "brokers.KafkaStream",
    "mqtt": "brokers.MqttStream",
    "sql": "brokers.SqlStream",
}
"""Kind -> module of this package and class of its table."""


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
    table = table_of(kind)
    others = [key for key in data if key not in table.model_fields]
    needless = [key for key in others if any(key in table_of(other).model_fields for other in KINDS)]
    if needless:
        raise ConfigError(
            f"{place}: kind = {kind!r} takes no {', no '.join(sorted(needless))}; remove it, or choose another kind"
        )
    stream: Stream = check(table, data, place)
    for key in PATHS:
        check_path(getattr(stream, key, None), Place(str(file), f"[stream] {key}"))
    with located(place):
        if not isinstance(stream, PushStream):
            _check_columns(stream, job)
        if not isinstance(stream, PushStream | FileStream):
            from tacit.config.brokers import check_stream

            check_stream(stream)
    return stream


def table_of(kind: str) -> type[Stream]:
    """Return the class of a kind's table.

    Args:
      kind: One of `KINDS`.
    """
    module, name = KINDS[kind].split(".")
    found: type[Stream] = getattr(import_module(f"{__package__}.{module}"), name)
    return found


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
