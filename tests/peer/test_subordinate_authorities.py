"""Certificates of a subordinate authority: a peer takes none, even where its TLS would."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from tacit.peer.identity import credentials
from tacit.peer.identity.credentials import Credentials
from tacit.peer.identity.identity import Identity, IdentityFiles
from tacit.peer.identity.pem_files import key_pem
from tests.peer.linked import Federation, Hearing, Sending, ear, mouth, parcel, within

DAY = timedelta(days=1)


class Given:
    """Credentials that no peer would load."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def credentials(self) -> Credentials:
        return self._credentials

    def current(self) -> Identity:
        return self._credentials.identity


def signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> bytes:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
    return builder.add_extension(extension, critical=True).sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


def of_a_subordinate(federation: Federation, name: str) -> Given:
    """Return `name` as an authority says it that the federation's own has signed."""
    ca = federation.directory / "authority"
    signer = load_pem_private_key((ca / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    authority = x509.load_pem_x509_certificate((ca / "ca.crt").read_bytes())
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    middle, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    other = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a member that signs")])
    subordinate = signed(other, authority.subject, middle, signer, x509.BasicConstraints(ca=True, path_length=None))
    leaf = signed(x509.Name([]), other, key, middle, x509.SubjectAlternativeName([x509.DNSName(name)]))
    known = federation.watches["a"].current()
    identity = replace(known, name=name, certificate_pem=leaf + subordinate, key_pem=key_pem(key))
    (federation.directory / "subordinate.crt").write_bytes(subordinate)
    pair = federation.directory / "subordinate.pem"
    pair.write_bytes(key_pem(key) + leaf + subordinate)
    files = IdentityFiles(pair, pair, ca / "ca.crt")
    return Given(Credentials(identity, *(credentials._context(files, identity, server=s) for s in (True, False))))


def trust_the_subordinate(federation: Federation, name: str) -> None:
    """Have a member's TLS take what its authority's path length rules out; its own look must do then."""
    found = federation.watches[name].credentials()
    for context in (found.server, found.client):
        context.load_verify_locations(federation.directory / "subordinate.crt")
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


@pytest.fixture
def deceived(tmp_path: Path) -> Federation:
    """Three members, and somebody that may sign."""
    return Federation(tmp_path, "a", "b", "c")


@pytest.mark.parametrize("taken", [False, True], ids=["by TLS", "by the peer"])
def test_a_dialler_of_a_subordinate_authority_is_not_heard(deceived: Federation, taken: bool) -> None:
    deceived.watches["c"] = of_a_subordinate(deceived, "c")  # type: ignore[assignment]
    if taken:
        trust_the_subordinate(deceived, "b")

    async def story() -> None:
        async with ear(deceived, "b", Hearing("a", "c")) as b:
            async with mouth(deceived, "c", Sending(parcel("b", 1)), "b", b.address) as c:
                await c.diary.until(lambda: bool(c.diary.losses or c.diary.out))
            assert not b.hearing.taken
            assert set(b.diary.reasons) == {"unknown authority"}
            async with mouth(deceived, "a", Sending(parcel("b", 1)), "b", b.address):
                await b.hearing.until(lambda: bool(b.hearing.taken))

    within(story())


@pytest.mark.parametrize("taken", [False, True], ids=["by TLS", "by the peer"])
def test_nothing_is_sent_to_a_listener_of_a_subordinate_authority(deceived: Federation, taken: bool) -> None:
    deceived.watches["b"] = of_a_subordinate(deceived, "b")  # type: ignore[assignment]
    if taken:
        trust_the_subordinate(deceived, "a")

    async def story() -> None:
        async with (
            ear(deceived, "b", Hearing("a")) as b,
            mouth(deceived, "a", Sending(parcel("b", 1)), "b", b.address) as a,
        ):
            await a.diary.until(lambda: bool(a.diary.losses or a.diary.out))
            assert not b.hearing.taken
            assert not a.sending.positions
            assert a.diary.losses[0][1] == "untrusted"
            assert "unknown authority" in a.diary.reasons

    within(story())
