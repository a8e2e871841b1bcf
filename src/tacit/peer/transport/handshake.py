"""TLS handshakes on a connected socket, and the reasons for which they fail."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tacit.peer.transport.turns import Turns

REASONS = (
    "no certificate",
    "expired",
    "not yet valid",
    "unknown authority",
    "certificate",
    "plaintext",
    "old tls",
    "handshake",
)
"""Every result of `handshake_reason`; "certificate" and "handshake" are for faults that no other word describes."""

_VERIFICATION = {
    10: "expired",
    9: "not yet valid",
    # An authority of another name has no issuer here; one that took our authority's name cannot sign as it does.
    7: "unknown authority",
    18: "unknown authority",
    19: "unknown authority",
    20: "unknown authority",
    21: "unknown authority",
    25: "unknown authority",  # a subordinate one, which the authority's own certificate rules out
}
"""By OpenSSL's number of a fault in a certificate."""
_SIGNS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no certificate",
    "BAD_SIGNATURE": "certificate",
    "WRONG_VERSION_NUMBER": "plaintext",  # the first bytes are not a TLS record
    "BAD_RECORD_TYPE": "plaintext",
    "HTTP_REQUEST": "plaintext",
    "HTTPS_PROXY_REQUEST": "plaintext",
    "UNSUPPORTED_PROTOCOL": "old tls",
    "VERSION_TOO_LOW": "old tls",
    "TLSV1_ALERT_PROTOCOL_VERSION": "old tls",
}
_BYTES = 2**14


class Secured(NamedTuple):
    """A connection whose handshake is over."""

    connection: socket.socket
    tls: ssl.SSLObject
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO


def handshake_reason(error: ssl.SSLError) -> str:
    """Return why a handshake failed, as one of `REASONS`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFICATION.get(error.verify_code, "certificate")
    return _SIGNS.get(error.reason or "", "handshake")


def said_of(error: ssl.SSLError) -> str:
    """Return OpenSSL's words for an error, without its place in OpenSSL's sources."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    return (error.reason or str(error)).replace("_", " ").lower()


async def shake_hands(
    connection: socket.socket, context: ssl.SSLContext, *, server_side: bool, turns: Turns | None = None
) -> Secured:
    """Do the handshake on a non-blocking socket, each step of it in one of the `turns` of strangers.

    Raises ssl.SSLError where it fails, after the other end was told, and ConnectionError where the other end leaves.
    """
    loop, incoming, outgoing = asyncio.get_running_loop(), ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=server_side)
    while True:
        try:
            async with contextlib.nullcontext() if turns is None else turns.next():
                tls.do_handshake()
            waits = False
        except ssl.SSLWantReadError:
            waits = True
        except ssl.SSLError:
            await loop.sock_sendall(connection, outgoing.read())
            raise
        if outgoing.pending:
            await loop.sock_sendall(connection, outgoing.read())
        if not waits:
            return Secured(connection, tls, incoming, outgoing)
        data = await loop.sock_recv(connection, _BYTES)
        if not data:
            raise ConnectionError("the connection was closed in the handshake")
        incoming.write(data)
