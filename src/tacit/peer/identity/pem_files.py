"""Keys and certificates in files: read with a clear error for each fault, written whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from tacit.core.errors import IdentityError

UNREADABLE = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""Errors of `cryptography` about certificates and requests that are damaged or of an unknown kind."""


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return the P-256 key in `path`, which no other user may be able to read."""
    content, mode = _read(path)
    if mode & 0o077:
        raise IdentityError(f"the key {path} can be read by others (mode {mode:o}): chmod 600 {path}")
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise IdentityError(f"{path} holds no usable private key: expected PEM without a password") from error
    validate_p256(key.public_key(), path)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def load_certificates(path: Path) -> Sequence[x509.Certificate]:
    """Return all certificates in `path`."""
    try:
        certificates = x509.load_pem_x509_certificates(read_file(path))
        for certificate in certificates:
            public_bytes(certificate.public_key())
            list(certificate.extensions)  # read only when asked for: here, where a fault has its message
        return certificates
    except UNREADABLE as error:
        raise IdentityError(f"{path} holds no usable certificate: expected PEM ({error})") from error


def load_certificate(path: Path) -> x509.Certificate:
    """Return the only certificate in `path`."""
    certificates = load_certificates(path)
    if len(certificates) != 1:
        raise IdentityError(f"{path} holds {len(certificates)} certificates, expected one: there are no intermediates")
    return certificates[0]


def validate_p256(public_key: object, path: Path) -> ec.EllipticCurvePublicKey:
    """Return the key if it is an ECDSA P-256 key, else raise."""
    if isinstance(public_key, ec.EllipticCurvePublicKey) and isinstance(public_key.curve, ec.SECP256R1):
        return public_key
    kind = getattr(getattr(public_key, "curve", None), "name", type(public_key).__name__)
    raise IdentityError(f"{path} holds a key of the kind {kind}, expected ECDSA P-256: make a new request")


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM: PKCS 8, no password."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_bytes(key: object) -> bytes:
    """Return a public key in a canonical form, for comparison."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined,no-any-return]


def read_file(path: Path) -> bytes:
    """Return the content of a file."""
    return _read(path)[0]


def _read(path: Path) -> tuple[bytes, int]:
    try:
        with path.open("rb") as file:
            return file.read(), os.fstat(file.fileno()).st_mode & 0o777
    except OSError as error:
        raise IdentityError(f"{path} cannot be read ({error.strerror}): check the path and its owner") from error


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file, whole or not at all, and never over an existing one."""
    with _written_aside(path, content, mode) as aside:
        try:
            os.link(aside, path)
        except FileExistsError as error:
            raise IdentityError(f"{path} is there already: choose another path, it is not overwritten") from error


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """Write a file, whole or not at all, in place of an existing one."""
    with _written_aside(path, content, mode) as aside:
        aside.replace(path)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process changes a file, and keep others from it."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise IdentityError(f"{lock} cannot be written ({error.strerror}): let this user write there") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _written_aside(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    aside = path.with_name(f".{secrets.token_hex(8)}.part")  # short, as the name may be as long as names can be
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)
        yield aside
    except OSError as error:
        raise IdentityError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        aside.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
