"""Enrolment of a peer: a key and a request for its certificate, and the certificate taken into use."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tacit.core.errors import IdentityError
from tacit.peer.identity.identity import (
    ROLES,
    Identity,
    IdentityFiles,
    Role,
    holder_of,
    identity_files,
    load_identity,
    validate_peer_name,
)
from tacit.peer.identity.pem_files import (
    key_pem,
    load_certificate,
    load_certificates,
    load_key,
    public_bytes,
    replace_file,
    write_new,
)


class Request(NamedTuple):
    """A request for a certificate."""

    name: str
    csr: Path
    """To be sent to the authority."""
    key: Path
    """Stays here, unused until the certificate is installed."""


def request(name: str, directory: Path) -> Request:
    """Make a key for `name` in `directory` and a request for its certificate; files in use there are left alone."""
    validate_peer_name(name)
    installed = identity_files(directory).certificate
    _refuse_other_peer(installed, name, ROLES)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key_path, csr_path = directory / "next.key", directory / f"{name}.csr"
    if key_path.exists() and installed.exists():
        in_use = public_bytes(load_certificate(installed).public_key())
        if in_use == public_bytes(load_key(key_path).public_key()):  # of an `install` that did not come to its end
            key_path.unlink()
    if not key_path.exists():
        write_new(key_path, key_pem(ec.generate_private_key(ec.SECP256R1())), 0o600)
    key = load_key(key_path)
    csr = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))  # the name is in the extension; a common name would be a second place for it
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
        .sign(key, hashes.SHA256())
    )
    replace_file(csr_path, csr.public_bytes(Encoding.PEM), 0o644)
    return Request(name, csr_path, key_path)


def install(certificate: Path, ca: Path, directory: Path) -> Identity:
    """Take a certificate into use with the key that `request` left in `directory`; a running peer notices it."""
    files, pending = identity_files(directory), directory / "next.key"
    if not pending.exists():
        raise IdentityError(f"{pending} is not there: make a request first, a certificate is installed with its key")
    role = holder_of(load_certificate(certificate), certificate).role
    identity = load_identity(IdentityFiles(certificate, pending, ca), role=role)
    if files.ca.exists() and load_certificates(files.ca) != load_certificates(ca):
        raise IdentityError(
            f"{files.ca} holds another authority than {ca}: if the federation did change its authority, "
            f"put the new certificate there by hand and install again"
        )
    _refuse_other_peer(files.certificate, identity.name, (role,))
    replace_file(files.ca, identity.ca_pem, 0o644)
    replace_file(files.certificate, identity.key_pem + identity.certificate_pem, 0o600)
    pending.unlink()
    (directory / f"{identity.name}.csr").unlink(missing_ok=True)
    return identity


def _refuse_other_peer(installed: Path, name: str, roles: tuple[Role, ...]) -> None:
    """Refuse a second peer, or another role, in the directory of a first."""
    if not installed.exists():
        return
    owner = holder_of(load_certificate(installed), installed)
    if owner.name != name or owner.role not in roles:
        raise IdentityError(
            f"{installed} is the identity of {str(owner)!r}, not of {name!r} as {roles[0]}: one directory holds one "
            "identity, choose another"
        )
