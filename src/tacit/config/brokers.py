"""Streams from brokers and data bases: their tables in a peer's file, and how the peer gets at them.

Loaded where a peer has such a stream.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tacit.config.sections import toml_text
from tacit.config.stream import RecordStream
from tacit.core import limits
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.config.peer import PeerSettings
    from tacit.peer.sources.mqtt import MqttAccess
    from tacit.streams.reading.sql import DataBase

BROKER = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Of Kafka."""
SOON = 3600.0
"""Seconds between two looks at a data base, at most."""


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


# -- checks ------------------------------------------------------------------------------------------------------------


def check_stream(stream: KafkaStream | MqttStream | SqlStream) -> None:
    """Refuse settings that do not go together.

    Args:
      stream: A table whose single values are checked.
    """
    if isinstance(stream, SqlStream):
        _check_sql(stream)
    else:
        _check_broker(stream)


def _check_broker(stream: KafkaStream | MqttStream) -> None:
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
            found[setting] = str(readable(settings, key, getattr(stream, key)))
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
            context.load_verify_locations(readable(settings, "ca", stream.ca))
        if stream.certificate is not None and stream.private_key is not None:
            certificate = readable(settings, "certificate", stream.certificate)
            context.load_cert_chain(certificate, readable(settings, "private_key", stream.private_key), lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{settings.file}: [stream] ca, certificate or private_key: not what TLS can use "
            f"({getattr(error, 'reason', None) or 'no PEM'}); expected PEM files, and a key without a passphrase"
        ) from None
    return context


def readable(settings: PeerSettings, key: str, path: str) -> Path:
    """Return the file of a key of the table; refuse one that cannot be read."""
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
        text = readable(settings, key, path).read_text(encoding="utf-8").strip()
    except ValueError:
        text = ""
    if not text:
        raise ConfigError(f"{settings.file}: [stream] {key} = {path!r}: expected one line of text; write it there")
    return text
