"""Certificate authority of a federation: it issues names to peers, and knows none of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tacit.core.errors import IdentityError
from tacit.peer.identity.identity import Holder, Role, holder_of, issued_by, uses_of, validate_peer_name
from tacit.peer.identity.pem_files import (
    UNREADABLE,
    alone,
    key_pem,
    load_certificate,
    load_key,
    public_bytes,
    read_file,
    replace_file,
    validate_p256,
    write_new,
)
from tacit.peer.identity.revocation import RevocationList, Revoked, load_list, named, read_list

CLOCK_SKEW = timedelta(hours=1)
"""Certificates are back-dated by this much, so that a peer whose clock is behind accepts a new one."""


def init_ca(directory: Path, name: str, days: int = 3650) -> Path:
    """Make a federation's authority (ca.key, ca.crt) in `directory`; returns the certificate that every peer needs."""
    if not 1 <= len(name) <= 64:
        raise IdentityError(f"the authority's name {name!r} has {len(name)} characters, expected 1 to 64")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key_path, certificate_path = directory / "ca.key", directory / "ca.crt"
    for path in (key_path, certificate_path):
        if path.exists():
            raise IdentityError(f"{path} is there already: choose another directory, an authority is never overwritten")
    key, subject = ec.generate_private_key(ec.SECP256R1()), _common_name(name)
    start = datetime.now(UTC) - CLOCK_SKEW
    certificate = (
        _certificate(subject, subject, key.public_key(), start, _end(start, days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_new(key_path, key_pem(key), 0o600)
    write_new(certificate_path, certificate.public_bytes(Encoding.PEM), 0o644)
    return certificate_path


def issue(csr_path: Path, name: str, ca_directory: Path, out: Path, days: int = 90, role: Role = "peer") -> Path:
    """Sign the request of the peer that is to be called `name`; writes and returns the certificate `out`.

    The request may hold only a P-256 key and that one name: anything else is refused, not dropped. A certificate that
    this authority issued to the same name and role makes room, as in a renewal; nothing else is overwritten. A copy,
    which `revoke` can take back later, stays in ca/issued under the certificate's serial number.

    An observer and an operator ask for their name in the same way: what they are is the authority's decision alone.
    """
    validate_peer_name(name)
    public_key, holder = _validate_request(csr_path, name), Holder(name, role)
    ca_key, ca = load_authority(ca_directory)
    start = datetime.now(UTC) - CLOCK_SKEW
    end = _end(start, days)
    if end > ca.not_valid_after_utc:
        raise IdentityError(
            f"a certificate for {days} days would end {end:%Y-%m-%d}, after the authority itself "
            f"({ca.not_valid_after_utc:%Y-%m-%d}): ask for fewer days, or make a new authority"
        )
    certificate = (
        _certificate(x509.Name([]), ca.subject, public_key, start, end)
        .add_extension(x509.SubjectAlternativeName([holder.general_name]), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses_of(role)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    issued = ca_directory / "issued"
    issued.mkdir(mode=0o700, exist_ok=True)
    content = certificate.public_bytes(Encoding.PEM)
    write = replace_file if _is_renewed(out, holder, ca) else write_new
    write(out, content, 0o644)
    write_new(issued / f"{certificate.serial_number:x}.crt", content, 0o644)
    return out


def _is_renewed(out: Path, holder: Holder, ca: x509.Certificate) -> bool:
    """Whether a file is a certificate that this authority issued to the same holder, and nothing else, as a key is."""
    try:
        before = load_certificate(out)
        alone = read_file(out) == before.public_bytes(Encoding.PEM)
        return alone and holder_of(before, out) == holder and issued_by(before, ca)
    except IdentityError:  # no file, or another one: `write_new` says so
        return False


def _validate_request(path: Path, name: str) -> ec.EllipticCurvePublicKey:
    try:
        csr = x509.load_pem_x509_csr(read_file(path))
        signed = csr.is_signature_valid
        extensions = list(csr.extensions)
        public_key = csr.public_key()
    except UNREADABLE as error:
        raise IdentityError(f"{path} is not a certificate request: {error}") from error
    if not signed:
        raise IdentityError(
            f"the request {path} is not signed by its own key: it was changed on its way, ask for it again"
        )
    for extension in extensions:
        if not isinstance(extension.value, x509.SubjectAlternativeName):
            raise IdentityError(
                f"the request {path} asks for {extension.oid._name}, expected one DNS name and nothing else: "
                f"make it with tacit peer request {name}"
            )
    names = [general.value for extension in extensions for general in extension.value]
    names += [attribute.value for attribute in csr.subject]
    kinds = [type(general) for extension in extensions for general in extension.value]
    if kinds != [x509.DNSName] or set(names) != {name}:
        listed = ", ".join(map(str, names)) or "(none)"
        raise IdentityError(
            f"the request {path} asks for the names {listed}, expected only the DNS name {name!r}: "
            f"issue what was agreed with that peer, or have it make the request again"
        )
    return validate_p256(public_key, path)


def revoke(certificates: Sequence[Path], ca_directory: Path, *, replaced: bool = False) -> RevocationList:
    """Take certificates back that this authority issued: they are added to its list, ca/revoked.crl.

    Args:
      certificates: Files of the certificates. A renewed one of the same name has another serial number and stays good.
      ca_directory: The authority's directory.
      replaced: The peers stay members, with other certificates. Said of one that is on the list already, it is noted.

    Returns:
      The new list, which every peer has to install.
    """
    key, ca = load_authority(ca_directory)
    added = {}
    for path in certificates:
        certificate = load_certificate(path)
        if certificate == ca or not issued_by(certificate, ca):
            raise IdentityError(f"{path} is no peer's certificate of this authority: name one that it issued")
        holder = holder_of(certificate, path)
        added[certificate.serial_number] = Revoked(str(holder), datetime.now(UTC), replaced)
    path = ca_directory / "revoked.crl"
    with alone(path):
        known = load_list(path, [ca])
        before = {} if known is None else known.entries
        entries = {**before, **{serial: one for serial, one in added.items() if serial not in before or replaced}}
        builder = x509.CertificateRevocationListBuilder(ca.subject).last_update(datetime.now(UTC))
        builder = builder.next_update(ca.not_valid_after_utc)  # it does not lapse: see `revocation.py`
        number = x509.CRLNumber(1 if known is None else known.number + 1)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        builder = builder.add_extension(number, critical=False).add_extension(signer, critical=False)
        for serial, one in entries.items():
            builder = builder.add_revoked_certificate(_revoked(serial, one))
        content = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
        found = read_list(content, [ca], path)
        replace_file(path, content, 0o644)
    return found


def _revoked(serial: int, one: Revoked) -> x509.RevokedCertificate:
    builder = x509.RevokedCertificateBuilder(serial, one.since)
    if one.name is not None:
        builder = builder.add_extension(named(one.name), critical=False)
    if one.replaced:
        builder = builder.add_extension(x509.CRLReason(x509.ReasonFlags.superseded), critical=False)
    return builder.build()


def load_authority(directory: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return key and certificate of the authority in a directory."""
    key, certificate = load_key(directory / "ca.key"), load_certificate(directory / "ca.crt")
    if public_bytes(certificate.public_key()) != public_bytes(key.public_key()):
        raise IdentityError(f"ca.key and ca.crt in {directory} do not fit: put back the pair that init-ca made")
    return key, certificate


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _end(start: datetime, days: int) -> datetime:
    if not 1 <= days <= 36500:
        raise IdentityError(f"a certificate cannot be valid for {days} days: expected 1 to 36500")
    return start + CLOCK_SKEW + timedelta(days=days)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(start).not_valid_after(end)


def _key_usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
