"""TLS credentials of a peer: mutual TLS 1.3 and nothing else, renewed without a restart."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from cryptography import x509

from tacit.core.errors import IdentityError, MessageRefused, said
from tacit.peer.identity.identity import Holder, Identity, IdentityFiles, Role, holder_of, issued_by, load_identity
from tacit.peer.identity.pem_files import UNREADABLE, read_file
from tacit.privacy.ledger.open_files import SHORT

if TYPE_CHECKING:
    from tacit.peer.identity.revocation import RevocationList

T = TypeVar("T")


class Credentials(NamedTuple):
    """An identity, and what it takes to show it."""

    identity: Identity
    server: ssl.SSLContext
    client: ssl.SSLContext


class _Followed(Generic[T]):
    """Content of files, read again when they have changed; what cannot be used does not replace what can."""

    def __init__(self, load: Callable[[T | None], T], *paths: Path | None) -> None:
        self._load, self._paths = load, paths
        self._seen = self._stamps()
        self.content = load(None)

    def look(self) -> IdentityError | None:
        """Read again what has changed; returns why it cannot be used, once for each change."""
        stamps = self._stamps()
        if stamps == self._seen:
            return None
        self._seen = stamps  # as they were before reading: a change meanwhile is seen the next time
        try:
            self.content = self._load(self.content)
        except IdentityError as error:
            if getattr(error.__cause__, "errno", None) not in SHORT:
                return error
            self._seen = []  # the files may be good: look again
        return None

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [None if path is None else _stamp(path) for path in self._paths]


class IdentityWatch:
    """A peer's identity and revocation list as their files have them now; may be used from any thread.

    Files that have changed are read again. If what they hold now cannot be used, the identity and the list that were in
    use stay, and the fault is reported once for each change.
    """

    def __init__(self, files: IdentityFiles, on_fault: Callable[[IdentityError], None], role: Role = "peer") -> None:
        """Read the files, which must be good at the start; later faults go to `on_fault`, from any thread."""
        self._files, self._on_fault, self._lock, self._role = files, on_fault, threading.Lock(), role
        self._own = _Followed(self._load, files.certificate, files.key, files.ca)
        self._list = _Followed(self._load_list, files.revoked)
        self._credentials = self._joined()

    def current(self) -> Identity:
        """Return the identity to use for a new connection."""
        return self.credentials().identity

    def credentials(self) -> Credentials:
        """Return the credentials to use for a new connection."""
        with self._lock:
            before = self._own.content, self._list.content
            faults = self._own.look(), self._list.look()
            if before != (self._own.content, self._list.content):
                self._credentials = self._joined()
            credentials = self._credentials
        for fault in faults:
            if fault is not None:
                self._on_fault(fault)
        return credentials

    def _joined(self) -> Credentials:
        own = self._own.content
        return own._replace(identity=replace(own.identity, revoked=self._list.content))

    def _load(self, known: Credentials | None) -> Credentials:
        found = load_credentials(self._files, self._role)
        if known is None or found.identity.name == known.identity.name:
            return found
        raise IdentityError(
            f"{self._files.certificate} now holds the name {found.identity.name!r}, this peer runs as "
            f"{known.identity.name!r}: put its own certificate back, or restart it under the new name"
        )

    def _load_list(self, known: RevocationList | None) -> RevocationList | None:
        path = self._files.revoked
        if path is None or (known is None and not path.exists()):
            return None
        from tacit.peer.identity.revocation import read_list, refuse_older

        found = read_list(read_file(path), x509.load_pem_x509_certificates(self._own.content.identity.ca_pem), path)
        if known is not None:
            refuse_older(found, known, path)
        return found


def load_credentials(files: IdentityFiles, role: Role = "peer") -> Credentials:
    """Read and check an identity, and make contexts of it."""
    identity = load_identity(files, role=role)
    return Credentials(identity, _context(files, identity, server=True), _context(files, identity, server=False))


def _context(files: IdentityFiles, identity: Identity, *, server: bool) -> ssl.SSLContext:
    """Return a context in which both ends show a certificate, of TLS 1.3 alone and without resumed sessions."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # `peer_of` wants the one name, exactly
    context.verify_mode = ssl.CERT_REQUIRED
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    if server:
        context.num_tickets = 0
    try:
        context.load_verify_locations(cadata=identity.ca_pem.decode())
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise IdentityError(
            f"{files.certificate} and {files.key} cannot be used for TLS ({said(error)}): install them again"
        ) from error
    return context


def peer_of(tls: ssl.SSLObject, identity: Identity) -> str:
    """Return the name of the peer at the other end; refuse whom `holder_at` refuses, and who is no peer."""
    return _member(holder_at(tls, identity))


def holder_at(tls: ssl.SSLObject, identity: Identity) -> Holder:
    """Return who is at the other end: the only name in its certificate, signed by our own authority.

    TLS has verified the certificate; this refuses what TLS lets pass: a resumed session, in which nobody has looked at
    it, a chain through a subordinate authority, a certificate with several names, or other ones, and one that the
    authority has revoked.
    """
    if tls.version() != "TLSv1.3" or tls.session_reused:
        raise MessageRefused("identity", f"a connection by {tls.version()}, or resumed: expected a new one by TLS 1.3")
    der = tls.getpeercert(binary_form=True)
    if der is None:
        raise MessageRefused("no certificate", "a connection without a certificate")
    return holder_in(der, identity)


def name_in(der: bytes, identity: Identity) -> str:
    """Return the name of a peer in a certificate that TLS has verified, or refuse it."""
    return _member(holder_in(der, identity))


def _member(holder: Holder) -> str:
    if holder.role != "peer":
        raise MessageRefused("role", f"{holder.name!r} is an {holder.role}, which may open no link and send nothing")
    return holder.name


def holder_in(der: bytes, identity: Identity) -> Holder:
    """Return whom a certificate is for that TLS has verified, or refuse it."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        authorities = x509.load_pem_x509_certificates(identity.ca_pem)
        direct = any(issued_by(certificate, authority) for authority in authorities)
    except UNREADABLE:
        direct = False
    if not direct:
        raise MessageRefused("unknown authority", "a certificate that the federation's authority did not sign itself")
    try:
        holder = holder_of(certificate, Path("its certificate"))
    except (IdentityError, *UNREADABLE) as error:
        raise MessageRefused("identity", said(error)) from error
    if identity.revoked is not None and identity.revoked.revokes(der):
        raise MessageRefused("revoked", f"the certificate of {str(holder)!r} that the authority has revoked")
    return holder


def _no_password() -> str:
    return ""  # a key under a password is a fault, and nobody is asked for it


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
