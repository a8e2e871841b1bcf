"""Identity of a peer: one authority per federation, one key per peer, one certificate with one DNS name.

The key never leaves the peer::

    authority                                  peer
    init_ca -> ca.key, ca.crt
                                               request -> next.key (stays), NAME.csr
    issue(NAME.csr) -> certificate
                                               install(certificate, ca.crt) -> identity.pem, ca.crt

Renewal is the same three steps, made while the peer runs: `request` makes a *fresh* key in next.key and touches nothing
that is in use. `install` joins that key and its certificate in one file, identity.pem, by one rename, so that a crash
at any point leaves a pair that fits. Asked twice, `request` asks again for the pending key: a certificate on its way
stays of use. The old pair is not kept: a key that still proves the name, and that nobody uses, is one to be stolen.

Keys are ECDSA P-256. Certificates are issued by the authority itself, with no intermediates.

A peer's certificate holds one DNS name. That of an observer, who may read the status of peers, or of an operator, who
may stop them too, holds one URI instead, `tacit:observer:NAME`: whatever looks for a member's name finds none there. It
is good for clients only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from tacit.core.errors import IdentityError
from tacit.peer.identity.pem_files import (
    key_pem,
    load_certificate,
    load_certificates,
    load_key,
    public_bytes,
)

if TYPE_CHECKING:
    from tacit.peer.identity.revocation import RevocationList

WARNING_SHARE, WARNING_TIME = 0.3, timedelta(days=21)
"""A warning is due when this share of a certificate's life is left, or this time where that is shorter."""

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
Role = Literal["peer", "observer", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)


class Holder(NamedTuple):
    """Whom a certificate is for."""

    name: str
    role: Role = "peer"

    def __str__(self) -> str:
        """Return the name that a revocation list has; that of a peer is its own."""
        return self.name if self.role == "peer" else f"{self.role}:{self.name}"

    @property
    def general_name(self) -> x509.GeneralName:
        """The only name in its certificate."""
        return x509.DNSName(self.name) if self.role == "peer" else x509.UniformResourceIdentifier(f"tacit:{self}")


class IdentityFiles(NamedTuple):
    """Files of a peer's identity; certificate and key may be one file."""

    certificate: Path
    key: Path
    ca: Path
    revoked: Path | None = None
    """Revocation list, which need not be there."""


@dataclass(frozen=True)
class Identity:
    """A peer's name, with the verified certificate that proves it."""

    name: str
    not_before: datetime
    not_after: datetime
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal."""
    certificate_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)
    ca_pem: bytes = field(repr=False)
    revoked: RevocationList | None = field(default=None, repr=False)
    """Certificates that are not to be trusted any more; None: the authority has sent no list."""
    role: Role = "peer"

    @property
    def revocation(self) -> str | None:
        """A warning where it is on its own list."""
        return None if self.revoked is None else self.revoked.warning(self)


def identity_files(directory: Path) -> IdentityFiles:
    """Return the files of an identity that `install` wrote."""
    own = directory / "identity.pem"
    return IdentityFiles(own, own, directory / "ca.crt", directory / "revoked.crl")


def validate_peer_name(name: str) -> str:
    """Return the name if a peer can have it: lower-case DNS labels, no wildcard, no final dot, not an IP address."""
    expected = (
        "lower-case letters, digits and '-' in labels of 1 to 63 characters joined by '.', for example hospital-a"
    )
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise IdentityError(f"peer name {name!r} cannot be used: expected {expected}")
    if _NUMBER.fullmatch(name.rsplit(".", 1)[-1]):
        # RFC 1123 2.1: no host name ends so; resolvers read even "127.1" and "0x7f000001" as an address.
        raise IdentityError(f"peer name {name!r} ends in a number, as an IP address does: expected {expected}")
    return name


def load_identity(files: IdentityFiles, now: datetime | None = None, role: Role = "peer") -> Identity:
    """Read and check an identity: key and certificate fit, the authority signed it, it is valid and has one name.

    Args:
      files: Where it is.
      now: Time at which it has to be valid; by default now.
      role: What its holder is; a certificate of another role is refused.

    Returns:
      The verified identity.
    """
    now = now or datetime.now(UTC)
    key, certificate = load_key(files.key), load_certificate(files.certificate)
    name = only_name(certificate, files.certificate, role)
    if public_bytes(certificate.public_key()) != public_bytes(key.public_key()):
        raise IdentityError(
            f"the certificate {files.certificate} was not issued for the key {files.key}: install the certificate "
            f"that answers the last request, or make a new request"
        )
    authorities = load_certificates(files.ca)
    if not any(issued_by(certificate, authority) and is_valid(authority, now) for authority in authorities):
        raise IdentityError(
            f"the certificate of {name!r} ({files.certificate}) was not issued by the authority in {files.ca}, or "
            f"that authority's certificate is not valid on {now:%Y-%m-%d}: get both from the same authority"
        )
    _check_uses(certificate, files.certificate, role)
    if now < certificate.not_valid_before_utc:
        raise IdentityError(
            f"the certificate of {name!r} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC, "
            f"now it is {now:%Y-%m-%d %H:%M}: set this machine's clock"
        )
    identity = Identity(
        name,
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        certificate.fingerprint(hashes.SHA256()).hex(),
        certificate.public_bytes(Encoding.PEM),
        key_pem(key),
        b"".join(authority.public_bytes(Encoding.PEM) for authority in authorities),
        role=role,
    )
    expiry_warning(identity, now)
    return identity


def expiry_warning(identity: Identity, now: datetime) -> str | None:
    """Return a warning when the certificate is about to end, else None; raise IdentityError when it has ended."""
    left = identity.not_after - now
    remedy = f"renew it: tacit peer request {identity.name}, have it issued, install it (no restart needed)"
    if left <= timedelta():
        raise IdentityError(
            f"the certificate of {identity.name!r} ended {identity.not_after:%Y-%m-%d %H:%M} UTC, "
            f"now it is {now:%Y-%m-%d %H:%M}: {remedy}"
        )
    if left > min(WARNING_SHARE * (identity.not_after - identity.not_before), WARNING_TIME):
        return None
    hours = left // timedelta(hours=1)
    span = f"{hours // 24} days" if hours >= 48 else f"{hours} hours"
    return (
        f"the certificate of {identity.name!r} ends in {span} ({identity.not_after:%Y-%m-%d %H:%M} UTC); "
        f"other peers will refuse it then: {remedy}"
    )


def only_name(certificate: x509.Certificate, path: Path, role: Role = "peer") -> str:
    """Return the one name in a certificate; refuse one with others, and one of another role."""
    holder = holder_of(certificate, path)
    if holder.role != role:
        raise IdentityError(
            f"{path} is the certificate of {holder.name!r} as {holder.role}, expected one of a {role}: have it issued "
            f"as {role} (tacit peer issue {holder.name}{'' if role == 'peer' else f' --{role}'})"
        )
    return holder.name


def holder_of(certificate: x509.Certificate, path: Path) -> Holder:
    """Return whom a certificate is for, by its one name; refuse one with several, or of another kind."""
    try:
        general = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        general = []
    named = len(general) == 1 and isinstance(general[0], x509.DNSName | x509.UniformResourceIdentifier)
    for role in ROLES if named else ():
        holder = Holder(str(general[0].value).rpartition(":")[2], role)
        if general[0] == holder.general_name:
            validate_peer_name(holder.name)
            return holder
    found = ", ".join(str(name.value) for name in general) or "(none)"
    raise IdentityError(f"{path} holds the names {found}, expected exactly one DNS name: have it issued again")


def is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether a certificate is valid at a time."""
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority signed a certificate and may do so; dates are not checked."""
    try:
        certificate.verify_directly_issued_by(authority)
        return authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False


def uses_of(role: Role) -> tuple[x509.ObjectIdentifier, ...]:
    """Return for what a certificate may be used in TLS: a peer dials and listens, others only dial."""
    listens = (ExtendedKeyUsageOID.SERVER_AUTH,) if role == "peer" else ()
    return ExtendedKeyUsageOID.CLIENT_AUTH, *listens


def _check_uses(certificate: x509.Certificate, path: Path, role: Role) -> None:
    try:
        uses = set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return  # no restriction
    missing = [use._name for use in uses_of(role) if use not in uses]
    if missing:
        raise IdentityError(
            f"{path} may not be used for {' and '.join(missing)}: a peer both dials and listens; have it issued again"
        )
