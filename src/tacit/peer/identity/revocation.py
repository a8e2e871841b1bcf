"""Revocation lists: certificates that the federation's authority has taken back, signed by it.

A list is a standard X.509 CRL (RFC 5280). Each entry has the serial number of a certificate and, in an extension that
other readers skip, its name: a peer that is away when it is revoked is known all the same. A renewed certificate of the
same name has another serial number, and is not revoked.

Lists only grow. A peer takes one in the place of another if its number is higher and it holds every entry of the other,
so that nobody gets back in by an old list. A list never lapses: `nextUpdate` is the end of the authority itself, and
nobody looks at it. What an old list revokes is revoked, and to refuse everybody when the authority is slow would let it
stop the federation by doing nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID

from tacit.core.errors import IdentityError
from tacit.peer.identity.identity import Identity, identity_files
from tacit.peer.identity.pem_files import UNREADABLE, load_certificates, read_file, replace_file

_MARK = b"-----BEGIN X509 CRL-----"
_KNOWN = (x509.CRLNumber, x509.AuthorityKeyIdentifier)


class Revoked(NamedTuple):
    """A certificate that was taken back."""

    name: str | None
    """None in a list that another program made."""
    since: datetime
    replaced: bool
    """Whether the peer stays a member, with another certificate."""


@dataclass(frozen=True)
class RevocationList:
    """A list that was verified."""

    number: int
    entries: Mapping[int, Revoked]
    """By serial number."""
    pem: bytes = field(repr=False)

    def revokes(self, der: bytes | None) -> bool:
        """Whether a certificate of the authority, which TLS has verified, is on the list."""
        return der is not None and x509.load_der_x509_certificate(der).serial_number in self.entries

    def status(self) -> dict[str, object]:
        """Return number, size and names, as plain data."""
        return {"number": self.number, "entries": len(self.entries), "names": self.names}

    def warning(self, identity: Identity) -> str | None:
        """Return a warning where an identity is on the list."""
        entry = self.entries.get(x509.load_pem_x509_certificate(identity.certificate_pem).serial_number)
        if entry is None:
            return None
        return (
            f"the certificate of {identity.name!r} was revoked {entry.since:%Y-%m-%d %H:%M} UTC: other peers refuse "
            f"it; if the authority agrees, get a new one: tacit peer request {identity.name}"
        )

    @property
    def names(self) -> list[str]:
        """Names on the list, once each; those of replaced certificates are marked."""
        marks = {f"{one.name or 'unnamed'}{' (replaced)' if one.replaced else ''}" for one in self.entries.values()}
        return sorted(marks)


def is_list(content: bytes) -> bool:
    """Whether a file is meant to be a revocation list."""
    return _MARK in content


def read_list(content: bytes, authorities: Sequence[x509.Certificate], source: Path) -> RevocationList:
    """Return the list in PEM that one of the authorities has signed, or raise.

    Args:
      content: The file's content.
      authorities: Certificates of those who may sign it.
      source: Name of the file, for errors.

    Returns:
      The verified list.
    """
    try:
        crl = x509.load_pem_x509_crl(content)
        extensions = [extension.value for extension in crl.extensions]
        entries = {one.serial_number: _entry(one) for one in crl}
        exact = crl.public_bytes(Encoding.DER).endswith(b"\0" + crl.signature)  # of which no bit is unused
        signed = exact and any(_signed_by(crl, authority) for authority in authorities)
    except UNREADABLE as error:
        raise IdentityError(f"{source} holds no usable revocation list ({error}): get it from the authority") from error
    if not signed:
        raise IdentityError(
            f"the revocation list {source} was not signed by this federation's authority, or was changed on its way: "
            "get it from the authority again"
        )
    numbers = [value.crl_number for value in extensions if isinstance(value, x509.CRLNumber)]
    if content.count(_MARK) != 1 or not numbers or not all(isinstance(value, _KNOWN) for value in extensions):
        raise IdentityError(
            f"{source} is not one complete revocation list with a number: make it with `tacit peer revoke`"
        )
    return RevocationList(numbers[0], entries, content)


def refuse_older(found: RevocationList, known: RevocationList, source: Path) -> None:
    """Refuse a list that is older than the one in use, or lacks some of its entries."""
    missing = known.entries.keys() - found.entries.keys()
    if missing or found.number < known.number:
        lacks = f" and lacks {len(missing)} of its {len(known.entries)} entries" if missing else ""
        raise IdentityError(
            f"the revocation list {source} has number {found.number}; the one in use has number {known.number}{lacks}: "
            "get the newest list from the authority. If it has lost its own, put a peer's copy back into its directory"
        )


def load_list(path: Path, authorities: Sequence[x509.Certificate]) -> RevocationList | None:
    """Read a list; None where there is no file."""
    return read_list(read_file(path), authorities, path) if path.exists() else None


def install_list(source: Path, directory: Path) -> RevocationList:
    """Take a list into use in an identity directory; a running peer notices it."""
    files = identity_files(directory)
    assert files.revoked is not None
    authorities = load_certificates(files.ca)
    found, known = read_list(read_file(source), authorities, source), load_list(files.revoked, authorities)
    if known is not None:
        refuse_older(found, known, source)
    replace_file(files.revoked, found.pem, 0o644)
    return found


def named(name: str) -> x509.SubjectAlternativeName:
    """Return the extension of an entry that holds the name."""
    return x509.SubjectAlternativeName([x509.DNSName(name)])


def _entry(revoked: x509.RevokedCertificate) -> Revoked:
    name, replaced = None, False
    for extension in revoked.extensions:
        value = extension.value
        if isinstance(value, x509.CRLReason):
            replaced = value.reason is x509.ReasonFlags.superseded
        elif extension.oid == ExtensionOID.SUBJECT_ALTERNATIVE_NAME:
            name = _name_in(value.public_bytes())
        elif extension.critical:
            raise ValueError(f"an entry with {extension.oid._name}")
    return Revoked(name, revoked.revocation_date_utc, replaced)


def _name_in(der: bytes) -> str | None:
    """Return the one DNS name in an encoded extension."""
    for head in range(4, 8):  # of both lengths in DER
        text = der[head:].decode("ascii", "replace")
        if text.isascii() and named(text).public_bytes() == der:
            return text
    return None


def _signed_by(crl: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        may = authority.extensions.get_extension_for_class(x509.KeyUsage).value.crl_sign
    except x509.ExtensionNotFound:
        may = False
    return may and crl.issuer == authority.subject and crl.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
