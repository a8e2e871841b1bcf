"""Signatures by a peer's certified key, for words that others pass on."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from tacit.core.errors import MessageRefused
from tacit.peer.identity.identity import is_valid, issued_by


def certified_key(
    der: bytes, name: str, authorities: list[x509.Certificate], now: datetime.datetime
) -> ec.EllipticCurvePublicKey:
    """Return the key of a certificate that a valid authority issued for this name alone, valid now, for clients."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        key, extensions = certificate.public_key(), certificate.extensions
        names = list(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        issued = any(issued_by(certificate, authority) and is_valid(authority, now) for authority in authorities)
    except Exception as error:  # bytes from outside: whatever the parser has to say of them
        raise MessageRefused("certificate", f"it cannot be read: {type(error).__name__}") from None
    if not issued:
        raise MessageRefused("certificate", f"that of {name!r} was not issued by a valid authority of this federation")
    if not is_valid(certificate, now):
        times = f"{certificate.not_valid_before_utc} to {certificate.not_valid_after_utc}"
        raise MessageRefused("certificate", f"that of {name!r} is valid from {times}, and now it is {now}")
    if names != [x509.DNSName(name)]:
        raise MessageRefused("certificate", f"it is not for {name!r} alone")
    if not all(_permits_signing(extension) for extension in extensions):
        raise MessageRefused(
            "certificate", f"that of {name!r} is not for a client's signatures, or restricted in an unknown way"
        )
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise MessageRefused("certificate", f"the key of {name!r} is not on P-256")
    return key


def _permits_signing(extension: x509.Extension[x509.ExtensionType]) -> bool:
    """Whether an extension lets a peer sign with its key; what is absent restricts nothing (RFC 5280, 4.2.1)."""
    match extension.value:
        case x509.ExtendedKeyUsage() as uses:
            return x509.OID_CLIENT_AUTH in uses
        case x509.KeyUsage() as usage:
            return usage.digital_signature
        case x509.SubjectAlternativeName() | x509.BasicConstraints():
            return True
    return not extension.critical
