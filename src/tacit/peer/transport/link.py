"""Names of calls, options of connections and link events, common to both ends of a link."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from tacit.peer.transport.frames import CHUNK

SERVICE = "tacit.Exchange"
LINK = f"/{SERVICE}/Link"
RELAY = f"/{SERVICE}/Relay"

Direction = Literal["in", "out"]


class LinkEvents(Protocol):
    """Observer of a transport. Names come from certificates or from the peer's own configuration."""

    def refused(self, reason: str, name: str | None, detail: str) -> None:
        """Count a refusal of this peer; `reason` is one of `codec.REASONS`."""

    def lost(self, name: str, reason: str, detail: str) -> None:
        """Note why a link to a neighbour failed; `reason` is one of `dialer.LOSSES`."""

    def sent(self, name: str, size: int) -> None:
        """Count a message of `size` bytes that went out."""

    def received(self, name: str, size: int) -> None:
        """Count bytes of messages that arrived, refused ones included."""

    def accepted(self, name: str) -> None:
        """Count a message that was taken in."""

    def linked(self, name: str, direction: Direction, up: bool) -> None:
        """Note that a link came up or went down."""


def common_options(ping_every: float, ping_timeout: float) -> list[tuple[str, Any]]:
    """Return the options of a connection that both ends set alike."""
    return [
        # Longer ones are dropped before they are in memory; what is only somewhat too long gets to our own counter.
        ("grpc.max_receive_message_length", 4 * CHUNK),
        # Otherwise gRPC would inflate a small message to any size before it is seen here. This way the compressed bytes
        # come here, where they are no frame.
        ("grpc.per_message_decompression", 0),
        ("grpc.keepalive_time_ms", _milliseconds(ping_every)),
        ("grpc.keepalive_timeout_ms", _milliseconds(ping_timeout)),
        ("grpc.http2.ping_timeout_ms", _milliseconds(ping_timeout)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # What is under way and not yet read by the receiver: bounded, and enough to keep a fast link busy.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", 4 * CHUNK),
        ("grpc.http2.max_frame_size", CHUNK),
        ("grpc.max_metadata_size", 8192),
        ("grpc.absolute_max_metadata_size", 16384),
    ]


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
