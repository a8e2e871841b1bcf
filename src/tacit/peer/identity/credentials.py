"""gRPC credentials of a peer: mutual TLS 1.3 and nothing else, renewed without a restart.

gRPC's Python interface has no lowest TLS version. The one thing it lets us choose, by an environment variable that it
reads when it is imported, is the list of cipher suites for TLS 1.2 and older (those of TLS 1.3 are always on). We leave
there a single suite that needs a pre-shared key, which gRPC never has, so that no older handshake can succeed, whatever
the certificate. Modules that use gRPC take it from here (`from tacit.peer.identity.credentials import grpc`), so that
the variable is set first; where it was too late, making credentials is refused.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography import x509

from tacit.core.errors import IdentityError, MessageRefused
from tacit.peer.identity.identity import Identity, IdentityFiles, issued_by, load_identity, validate_peer_name
from tacit.peer.identity.pem_files import UNREADABLE
from tacit.peer.transport.tls_log import handshake_reason
from tacit.privacy.ledger.open_files import SHORT

CIPHERS_VARIABLE, NO_OLD_CIPHERS = "GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-AES128-CBC-SHA"

HANDSHAKE_TIMEOUT_MS = 10_000
"""Longest time of a handshake."""

_too_late = "grpc" in sys.modules and os.environ.get(CIPHERS_VARIABLE) != NO_OLD_CIPHERS
os.environ[CIPHERS_VARIABLE] = NO_OLD_CIPHERS

import grpc as grpc  # noqa: E402, PLC0414 - after the variable; others import it from here
from grpc._cython import cygrpc  # noqa: E402 - channelz, as grpcio-channelz takes it


class IdentityWatch:
    """A peer's identity as its files have it now; may be used from any thread.

    Files that have changed are read again. If what they hold now cannot be used, the identity that was in use stays,
    and the fault is reported once for each change.
    """

    def __init__(self, files: IdentityFiles, on_fault: Callable[[IdentityError], None]) -> None:
        """Read the files, which must be good at the start; later faults go to `on_fault`, from any thread."""
        self._files, self._on_fault, self._lock = files, on_fault, threading.Lock()
        self._seen = _stamps(files)
        self._identity = load_identity(files)

    def current(self) -> Identity:
        """Return the identity to use for a new connection."""
        with self._lock:
            stamps = _stamps(self._files)
            if stamps == self._seen:
                return self._identity
            self._seen = stamps  # as they were before reading: a change meanwhile is seen the next time
            try:
                self._identity = self._same_peer(load_identity(self._files))
                return self._identity
            except IdentityError as error:
                fault, identity = error, self._identity
                if getattr(error.__cause__, "errno", None) in SHORT:  # the files may be good: look again
                    self._seen = []
                    return identity
        self._on_fault(fault)
        return identity

    def _same_peer(self, identity: Identity) -> Identity:
        if identity.name == self._identity.name:
            return identity
        raise IdentityError(
            f"{self._files.certificate} now holds the name {identity.name!r}, this peer runs as "
            f"{self._identity.name!r}: put its own certificate back, or restart it under the new name"
        )


def server_credentials(watch: IdentityWatch) -> grpc.ServerCredentials:
    """Return credentials of a server that requires client certificates; new connections use the current identity."""
    _require_only_tls13()
    used = watch.current()

    def renewed() -> object | None:
        nonlocal used
        identity = watch.current()
        if identity is used:
            return None
        used = identity
        return _configuration(identity)

    return grpc.dynamic_ssl_server_credentials(_configuration(used), renewed, require_client_authentication=True)


def server_options(*others: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Return options of a server that closes connections whose handshake takes too long."""
    return [("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS), *others]


def channel_credentials(identity: Identity) -> grpc.ChannelCredentials:
    """Return credentials for one channel to another peer; make new ones for each channel, to use a renewed identity."""
    _require_only_tls13()
    return grpc.ssl_channel_credentials(identity.ca_pem, identity.key_pem, identity.certificate_pem)


def channel_options(expected_name: str, *others: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Return options of a channel on which only the peer `expected_name` may answer, whatever the address."""
    return [
        ("grpc.ssl_target_name_override", validate_peer_name(expected_name)),
        ("grpc.use_local_subchannel_pool", 1),  # a new channel makes its own handshake, with its own credentials
        *others,
    ]


def peer_name(auth_context: Mapping[str, Iterable[bytes]]) -> str:
    """Return the name of the peer at the other end of a call: the only name, of any kind, in its certificate."""
    names = [list(auth_context.get(kind, ())) for kind in ("x509_subject_alternative_name", "peer_dns")]
    if len(names[1]) != 1 or names[0] != names[1]:
        raise MessageRefused(
            "identity", f"a certificate with the names {_words(names[0])}, expected exactly one DNS name"
        )
    if list(auth_context.get("ssl_session_reused", ())) == [b"true"]:
        # gRPC's server lets a client resume a session without a look at its certificate, which may have ended since.
        raise MessageRefused("identity", "a resumed TLS session, expected a full handshake with the certificate")
    # gRPC 1.85 tells the version; from one that does not, the cipher suites alone rule the others out.
    versions = list(auth_context.get("ssl_tls_version", ()))
    if versions not in ([], [b"TLSv1.3"]):
        raise MessageRefused("identity", f"a connection by {_words(versions)}, expected TLS 1.3")
    try:
        return validate_peer_name(names[1][0].decode("ascii", "backslashreplace"))
    except IdentityError as error:
        raise MessageRefused("identity", str(error)) from error


def _words(found: list[bytes]) -> str:
    return ", ".join(name.decode("ascii", "backslashreplace") for name in found) or "(none)"


def require_direct_issue(certificate_pem: bytes, identity: Identity) -> None:
    """Refuse a certificate that the federation's own authority did not sign itself.

    TLS takes a chain through any authority that ours has signed: BoringSSL does not look at the path length of a root.
    """
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        authorities = x509.load_pem_x509_certificates(identity.ca_pem)
        direct = any(issued_by(certificate, authority) for authority in authorities)
    except UNREADABLE:
        direct = False
    if not direct:
        raise MessageRefused("unknown authority", "a certificate that the federation's authority did not sign itself")


def caller_certificate(auth_context: Mapping[str, Iterable[bytes]]) -> bytes:
    """Return the caller's certificate, in PEM; empty where gRPC does not give it."""
    return b"".join(auth_context.get("x509_pem_cert", ()))


def server_certificates(address: str) -> list[bytes]:
    """Return the certificates, in PEM, of all servers that this process's channels to `address` are connected to.

    gRPC shows a dialler's code nothing of the server but its name; its own diagnostics (channelz) do.
    """
    found = []
    for channel in _channels():
        if urllib.parse.unquote(channel["data"].get("target", "")).rpartition("/")[2] != address:
            continue
        for subchannel in channel.get("subchannelRef", ()):
            described = _described(cygrpc.channelz_get_subchannel, subchannel["subchannelId"])
            for socket in described.get("subchannel", {}).get("socketRef", ()):
                about = _described(cygrpc.channelz_get_socket, socket["socketId"]).get("socket")
                if about is None:
                    continue
                found.append(base64.b64decode(about.get("security", {}).get("tls", {}).get("remoteCertificate", "")))
    return found


def _channels() -> Iterator[dict[str, Any]]:
    page: dict[str, Any] = {}
    while not page.get("end"):
        last = page["channel"][-1]["ref"]["channelId"] if page else -1
        page = json.loads(cygrpc.channelz_get_top_channels(int(last) + 1))
        yield from page.get("channel", ())
        if not page.get("channel"):
            return


def _described(ask: Callable[[int], str], number: str) -> dict[str, Any]:
    """Return gRPC's description of one of its parts; empty if that is gone since it was listed."""
    try:
        described: dict[str, Any] = json.loads(ask(int(number)))
    except ValueError:
        return {}
    return described


def refused_server(details: str) -> str | None:
    """Return why this peer refused the server that it dialled, from the details of the failed call, else None.

    A server that refuses *us* only closes the connection, which says nothing, and is None here.
    """
    if "Hostname Verification Check failed" in details:
        return "server name"
    return handshake_reason(details) if "Tls handshake failed" in details else None


def _configuration(identity: Identity) -> object:
    pair = (identity.key_pem, identity.certificate_pem)
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=identity.ca_pem)


def _require_only_tls13() -> None:
    if _too_late:
        raise IdentityError(
            f"gRPC was imported before tacit.peer.identity.credentials, so TLS 1.2 and older cannot be ruled out: "
            f"import it first, or start the process with {CIPHERS_VARIABLE}={NO_OLD_CIPHERS}"
        )


def _stamps(files: IdentityFiles) -> list[tuple[int, int, int] | None]:
    return [_stamp(path) for path in files]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
