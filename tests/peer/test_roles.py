"""Certificates of observers and operators: whom the authority makes them for, and that no member's door takes them."""

from __future__ import annotations

import contextlib
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tacit.core.errors import IdentityError, MessageRefused
from tacit.peer.identity.authority import init_ca, issue, revoke
from tacit.peer.identity.credentials import IdentityWatch, holder_in, load_credentials, name_in
from tacit.peer.identity.enrolment import install, request
from tacit.peer.identity.identity import Holder, holder_of, identity_files, load_identity
from tacit.peer.identity.pem_files import load_certificate
from tacit.peer.identity.signatures import certified_key
from tests.peer.enrolment import DAY, NAME, certificate, enrol
from tests.peer.handshakes import SERVER, Federation, heard
from tests.peer.linked import HELLO

OTHERS = ("observer", "operator")
URI = x509.UniformResourceIdentifier


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with contextlib.closing(Federation(tmp_path_factory.mktemp("federation"))) as federation:
        for role in OTHERS:
            enrol(federation.root / role, federation.ca, NAME, role=role)  # the name of a member, on purpose
        yield federation


@pytest.mark.parametrize("role", OTHERS)
def test_a_role_is_signed_for_clients_alone_and_read_back(federation, role):
    files = identity_files(federation.root / role)
    found = load_identity(files, role=role)
    assert (found.name, found.role) == (NAME, role)
    made = load_certificate(files.certificate)
    uses = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.critical
    assert list(names.value) == [URI(f"tacit:{role}:{NAME}")]
    assert holder_of(made, files.certificate) == Holder(NAME, role)


@pytest.mark.parametrize("role", OTHERS)
def test_no_member_s_door_lets_them_in(federation, role):
    """They hear nothing of the job: the refusal comes before the first frame is read."""
    with federation.tls(identity_files(federation.root / role)) as connection:
        connection.sendall(HELLO)
        answer = heard(connection)
        assert b"role" in answer
        assert heard(connection) == b""
    assert federation.event() == {"refused": "role"}
    assert federation.dial() == {"answer": "welcome"}
    assert federation.event() == {"called": NAME}, "the member of the same name is heard as before"


@pytest.mark.parametrize("role", OTHERS)
def test_they_cannot_be_a_server_either(federation, role):
    """A peer that dials finds out in the handshake: what they hold is good for clients alone."""
    credentials = load_credentials(identity_files(federation.root / role), role)
    client = load_credentials(identity_files(federation.peer)).client
    ends = [ssl.MemoryBIO() for _ in range(4)]
    dialled = client.wrap_bio(ends[0], ends[1])
    server = credentials.server.wrap_bio(ends[2], ends[3], server_side=True)

    def shake_hands():
        for _ in range(4):
            for one in (dialled, server):
                with contextlib.suppress(ssl.SSLWantReadError):
                    one.do_handshake()
                ends[2].write(ends[1].read())
                ends[0].write(ends[3].read())

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands()


@pytest.mark.parametrize("role", OTHERS)
def test_they_sign_nothing_for_a_member(federation, role):
    """Neither letters about masks nor proposals of an epoch."""
    files = identity_files(federation.root / role)
    made = load_certificate(files.certificate)
    identity = load_identity(files, role=role)
    authorities = x509.load_pem_x509_certificates(identity.ca_pem)
    with pytest.raises(MessageRefused) as refusal:
        certified_key(made.public_bytes(Encoding.DER), NAME, authorities, identity.not_before + DAY / 2)
    assert refusal.value.reason == "certificate"
    with pytest.raises(MessageRefused) as refusal:
        name_in(made.public_bytes(Encoding.DER), identity)
    assert refusal.value.reason == "role"


def test_no_peer_runs_by_them_and_no_member_is_one_of_them(federation):
    for role in OTHERS:
        with pytest.raises(IdentityError, match=role):
            IdentityWatch(identity_files(federation.root / role), print)
    for role in OTHERS:
        with pytest.raises(IdentityError, match=f"--{role}"):
            IdentityWatch(identity_files(federation.peer), print, role)
    with pytest.raises(IdentityError, match="operator"):
        load_identity(identity_files(federation.root / "observer"), role="operator")


@pytest.mark.parametrize(
    "names",
    [
        [URI(f"tacit:observer:{NAME}"), x509.DNSName(NAME)],
        [URI(f"tacit:observer:{NAME}"), URI(f"tacit:operator:{NAME}")],
        [URI(f"tacit:peer:{NAME}")],
        [URI(f"tacit:{NAME}")],
        [URI(NAME)],
        [URI("tacit:observer:")],
        [URI("tacit:observer:*")],
        [URI(f"TACIT:observer:{NAME}")],
        [URI(f"tacit:operator:observer:{NAME}")],
        [x509.DNSName(f"tacit:observer:{NAME}")],
        [x509.DNSName(f"observer:{NAME}")],
        [x509.RFC822Name(f"tacit:observer:{NAME}")],
    ],
)
def test_a_certificate_that_says_it_otherwise_is_of_nobody(federation, names):
    files = certificate(federation.root / "odd", federation.ca, names=names)
    der = load_certificate(files.certificate).public_bytes(Encoding.DER)
    with pytest.raises(MessageRefused) as refusal:
        holder_in(der, load_identity(identity_files(federation.peer)))
    assert refusal.value.reason == "identity"


def test_an_identity_directory_keeps_its_role(federation, tmp_path):
    home = tmp_path / "home"
    enrol(home, federation.ca, "board", role="observer")
    asked = request("board", home)
    issued = issue(asked.csr, "board", federation.ca, tmp_path / "board.crt", role="operator")
    with pytest.raises(IdentityError, match="observer:board"):
        install(issued, federation.ca / "ca.crt", home)
    with pytest.raises(IdentityError, match="is there already"):  # nor does one role's file make room for another's
        issue(asked.csr, "board", federation.ca, issued, role="observer")
    with pytest.raises(IdentityError, match="observer:board"):
        request("other", home)


def test_revoked_by_its_number_and_never_a_member_of_the_same_name(tmp_path):
    ca, member, home = tmp_path / "ca", tmp_path / "member", tmp_path / "observer"
    init_ca(ca, "federation")
    enrol(member, ca, SERVER)
    enrol(home, ca, SERVER, role="observer")
    serial = load_certificate(identity_files(home).certificate).serial_number
    listed = revoke([ca / "issued" / f"{serial:x}.crt"], ca)
    assert listed.names == [f"observer:{SERVER}"], "a peer cuts off neighbours by their names on a list"
    (member / "revoked.crl").write_bytes(listed.pem)
    identity = IdentityWatch(identity_files(member), print).current()
    with pytest.raises(MessageRefused) as refusal:
        holder_in(load_certificate(identity_files(home).certificate).public_bytes(Encoding.DER), identity)
    assert refusal.value.reason == "revoked"
    assert name_in(load_certificate(identity_files(member).certificate).public_bytes(Encoding.DER), identity) == SERVER
