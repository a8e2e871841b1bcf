"""Mutual TLS between peers: who gets in, who does not and how it is counted, and certificates that are renewed."""

import contextlib
import queue
import re
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from tacit.core.errors import IdentityError, MessageRefused
from tacit.peer.identity import credentials
from tacit.peer.identity.authority import init_ca
from tacit.peer.identity.credentials import IdentityWatch, load_credentials, name_in
from tacit.peer.identity.identity import identity_files
from tests.peer.enrolment import DAY, NAME, certificate, enrol
from tests.peer.handshakes import LIMIT, SERVER, Federation, heard
from tests.peer.linked import HELLO


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with contextlib.closing(Federation(tmp_path_factory.mktemp("federation"))) as federation:
        yield federation


# --- who gets in


def test_a_peer_gets_in_and_is_known_by_its_certificate(federation):
    assert federation.dial() == {"answer": "welcome"}
    assert federation.event() == {"called": NAME}


def test_tls13_with_a_certificate_gets_in(federation):
    """So that the refusals below are not of something that never works."""
    with federation.tls(identity_files(federation.peer)) as connection:
        assert connection.version() == "TLSv1.3"
        assert connection.compression() is None
        connection.sendall(HELLO)
        assert heard(connection)
    assert federation.event() == {"called": NAME}


# --- who does not


def client(federation, files=None):
    """Any client of TLS 1.3, with the certificate that it likes."""
    # It is ready before the server has looked at its certificate; the refusal comes when it reads.
    with contextlib.suppress(ssl.SSLError, ConnectionError), federation.tls(files) as connection:
        connection.sendall(HELLO)
        assert heard(connection) == b""


def raw_bytes(content):
    def attack(federation):
        with socket.create_connection(("127.0.0.1", federation.port), LIMIT) as connection:
            connection.sendall(content)
            with contextlib.suppress(ConnectionError):
                while connection.recv(100):  # an alert, at most
                    pass

    return attack


def made(**how):
    return lambda federation: client(federation, certificate(federation.root / "bad", federation.ca, **how))


def other_authority(name):
    def attack(federation):
        ca = federation.root / f"other {name}"
        init_ca(ca, name)
        client(federation, certificate(federation.root / "bad", ca))

    return attack


def signed_by_a_peer(federation):
    key = load_pem_private_key(identity_files(federation.peer).key.read_bytes(), None)
    client(federation, certificate(federation.root / "bad", federation.ca, signer=key))


def signed_by_itself(federation):
    key = ec.generate_private_key(ec.SECP256R1())
    client(federation, certificate(federation.root / "bad", federation.ca, key=key, signer=key))


def old_tls(federation):
    with pytest.raises((ssl.SSLError, ConnectionError)):
        federation.tls(identity_files(federation.peer), ssl.TLSVersion.TLSv1_2)


def cut_off(federation):
    """A whole hello of TLS, and then another record that cannot come there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    raw_bytes(outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32))(federation)


SERVER_ONLY = [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        pytest.param(client, "no certificate", id="no certificate"),
        pytest.param(other_authority("federation"), "unknown authority", id="other authority of the same name"),
        pytest.param(other_authority("others"), "unknown authority", id="other authority"),
        pytest.param(signed_by_itself, "unknown authority", id="signed by itself"),
        pytest.param(signed_by_a_peer, "unknown authority", id="signed by a peer"),
        pytest.param(made(start=-2 * DAY, end=-DAY), "expired", id="expired"),
        pytest.param(made(start=DAY, end=2 * DAY), "not yet valid", id="not yet valid"),
        pytest.param(made(uses=SERVER_ONLY), "certificate", id="not for clients"),
        pytest.param(raw_bytes(HELLO), "plaintext", id="frames without TLS"),
        pytest.param(raw_bytes(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "plaintext", id="plaintext HTTP/2"),
        pytest.param(raw_bytes(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n"), "plaintext", id="plaintext HTTP/1"),
        pytest.param(raw_bytes(bytes(range(200, 256))), "plaintext", id="noise"),
        pytest.param(old_tls, "old tls", id="TLS 1.2"),
        pytest.param(cut_off, "handshake", id="a handshake that goes wrong"),
    ],
)
def test_refused_counted_and_never_served(federation, attack, reason):
    attack(federation)
    assert federation.event() == {"refused": reason}
    assert federation.dial() == {"answer": "welcome"}
    assert federation.event() == {"called": NAME}, "that was the only call and the only refusal"


@pytest.mark.parametrize(
    "names",
    [None, [x509.DNSName("hospital-b"), x509.DNSName(NAME)], [x509.DNSName("*.b")], [x509.RFC822Name(NAME)]],
    ids=["none", "two", "wildcard", "mail"],
)
def test_a_certificate_of_our_authority_without_one_name_is_refused(federation, names):
    client_with(federation, certificate(federation.root / "bad", federation.ca, names=names))
    assert federation.event() == {"refused": "identity"}


def client_with(federation, files):
    """A client that TLS lets in, and that is told why it has to go."""
    with federation.tls(files) as connection:
        connection.sendall(HELLO)
        assert b"identity" in heard(connection)


def test_no_session_can_be_resumed(federation):
    """It would get in after its certificate has ended: a server looks at that only in a full handshake."""
    context = federation.context(identity_files(federation.peer))
    with federation.tls(context=context) as connection:
        connection.sendall(HELLO)
        assert heard(connection)
        session = connection.session
    assert federation.event() == {"called": NAME}
    assert session is None or not session.has_ticket
    if session is not None:
        with federation.tls(context=context, session=session) as connection:
            connection.sendall(HELLO)
            assert not connection.session_reused
            assert heard(connection)
        assert federation.event() == {"called": NAME}


# --- whom we do not dial


def test_another_peer_at_the_address_is_not_taken_for_the_one_expected(federation):
    assert federation.dial(expect="hospital-b") == {"refused": "server name", "lost": "untrusted"}
    assert federation.event() == {"refused": "hello"}  # of one that went away
    assert federation.dial() == {"answer": "welcome"}
    assert federation.event() == {"called": NAME}


def test_a_server_of_another_authority_is_refused(federation, tmp_path):
    init_ca(tmp_path / "ca", "federation")
    enrol(tmp_path / "peer", tmp_path / "ca")
    assert federation.dial(home=tmp_path / "peer") == {"refused": "unknown authority", "lost": "untrusted"}
    assert federation.event() == {"refused": "handshake"}  # by the alert of one that went away


def served_once(context):
    """A server of the standard library for one connection: its port, and the TLS version (None: no handshake)."""
    listener, result = socket.create_server(("127.0.0.1", 0)), queue.Queue()
    listener.settimeout(LIMIT)

    def serve():
        version = None
        with listener, contextlib.suppress(OSError):
            plain, _ = listener.accept()
            with plain, context.wrap_socket(plain, server_side=True) as connection:
                version = connection.version()
        result.put(version)

    threading.Thread(target=serve).start()
    return listener.getsockname()[1], result


@pytest.mark.parametrize("kind", ["P-256", "RSA"])
@pytest.mark.parametrize(("version", "made"), [(ssl.TLSVersion.TLSv1_2, None), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")])
def test_a_server_of_old_tls_is_refused(federation, version, made, kind):
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "P-256" else rsa.generate_private_key(65537, 2048)
    files = certificate(federation.root / "old", federation.ca, names=[x509.DNSName(SERVER)], key=key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    context.maximum_version = version
    port, result = served_once(context)
    found = federation.dial(port=port)
    assert result.get(timeout=LIMIT) == made
    assert found == (
        {"refused": "old tls", "lost": "untrusted"} if made is None else {"refused": None, "lost": "ended"}
    )


@pytest.mark.parametrize("names", [[x509.DNSName("*.b")], [x509.DNSName(SERVER), x509.DNSName("x.b")]])
def test_a_server_with_a_wildcard_or_with_several_names_is_nobody(federation, names):
    files = certificate(federation.root / "many", federation.ca, names=names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    port, result = served_once(context)
    expect = "x.b" if len(names) == 1 else SERVER
    assert federation.dial(port=port, expect=expect) == {"refused": "identity", "lost": "untrusted"}
    assert result.get(timeout=LIMIT) == "TLSv1.3"


def test_a_server_without_tls_is_told_apart_from_nobody(federation):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(10_000)

        thread = threading.Thread(target=answer)
        thread.start()
        found = federation.dial(port=listening.getsockname()[1])
        thread.join(LIMIT)
    assert found == {"refused": "plaintext", "lost": "untrusted"}


# --- rotation


def test_renewed_without_restart(federation):
    before = federation.serial()
    with federation.tls(identity_files(federation.peer)) as old:
        after = federation.renew(federation.home, SERVER)
        old.sendall(HELLO)
        assert heard(old), "what was open before goes on"
        assert federation.event() == {"called": NAME}
        assert before != after == federation.serial()
    home = identity_files(federation.home)
    good = home.certificate.read_bytes()
    home.certificate.write_bytes(b"junk")
    assert dialled_fault(federation), "what cannot be used does not replace what can"
    assert federation.serial() == after
    home.certificate.write_bytes(good)
    newest = federation.renew(federation.home, SERVER)
    assert federation.serial() == newest
    # The fault was reported once: the next event is this call. It also shows that a renewed peer gets in.
    federation.renew(federation.peer, NAME)
    assert federation.dial() == {"answer": "welcome"}
    assert federation.event() == {"called": NAME}


def dialled_fault(federation):
    assert federation.dial() == {"answer": "welcome"}
    found = [federation.event(), federation.event()]
    assert {"called": NAME} in found
    return any("no usable" in event.get("fault", "") for event in found)


@pytest.fixture
def enrolled(tmp_path):
    init_ca(tmp_path / "ca", "federation")
    enrol(tmp_path / "home", tmp_path / "ca")
    return tmp_path


def test_watch_reads_again_only_what_has_changed(enrolled, monkeypatch):
    read = []
    monkeypatch.setattr(
        credentials, "load_identity", lambda files, role, load=credentials.load_identity: read.append(1) or load(files)
    )
    faults = []
    watch = IdentityWatch(identity_files(enrolled / "home"), faults.append)
    first = watch.current()
    assert watch.current() is first
    assert len(read) == 1
    second = enrol(enrolled / "home", enrolled / "ca")
    assert watch.current() == second != first
    assert watch.current() == second
    assert len(read) == 2
    assert faults == []


def test_watch_keeps_the_old_identity_and_reports_each_change_once(enrolled):
    faults, files = [], identity_files(enrolled / "home")
    watch = IdentityWatch(files, faults.append)
    first, good = watch.current(), files.certificate.read_bytes()
    files.certificate.unlink()
    assert watch.current() is watch.current() is first
    assert len(faults) == 1
    assert "cannot be read" in str(faults[0])
    enrol(enrolled / "other", enrolled / "ca", "hospital-b")
    files.certificate.write_bytes(identity_files(enrolled / "other").certificate.read_bytes())
    files.certificate.chmod(0o600)
    assert watch.current() is watch.current() is first
    assert len(faults) == 2
    assert re.search("'hospital-b', .*'hospital-a'", str(faults[1]))
    files.certificate.write_bytes(good)
    assert watch.current() == first
    assert len(faults) == 2


def test_watch_needs_good_files_at_the_start(enrolled):
    identity_files(enrolled / "home").ca.unlink()
    with pytest.raises(IdentityError, match="cannot be read"):
        IdentityWatch(identity_files(enrolled / "home"), print)


def test_a_key_under_a_password_is_a_fault_and_nobody_is_asked_for_it(enrolled, monkeypatch):
    files = identity_files(enrolled / "home")
    monkeypatch.setattr(credentials, "load_identity", lambda files, role, known=load_credentials(files).identity: known)
    text = files.certificate.read_text()
    begin, end = text.index("-----BEGIN CERT"), text.index("-----END CERT")
    files.certificate.write_text(text[begin:end] + "-----END CERTIFICATE-----\n" + "no key")
    with pytest.raises(IdentityError, match="install them again"):
        load_credentials(files)


# --- names of the other end


def named(root, ca, names):
    files = certificate(root / "named", ca, names=names)
    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).public_bytes(Encoding.DER)


def test_name_is_the_only_one_in_the_certificate(enrolled):
    identity = load_credentials(identity_files(enrolled / "home")).identity
    assert name_in(named(enrolled, enrolled / "ca", [x509.DNSName("hospital-b")]), identity) == "hospital-b"


@pytest.mark.parametrize(
    "names",
    [
        None,
        [x509.DNSName(NAME), x509.DNSName("hospital-b")],
        [x509.DNSName(NAME), x509.DNSName(NAME)],
        [x509.RFC822Name(NAME)],
        [x509.DNSName(NAME), x509.UniformResourceIdentifier("spiffe://x/y")],
        [x509.DNSName("*.a")],
        [x509.DNSName("Hospital-A")],
    ],
)
def test_anything_else_is_no_name(enrolled, names):
    identity = load_credentials(identity_files(enrolled / "home")).identity
    with pytest.raises(MessageRefused) as caught:
        name_in(named(enrolled, enrolled / "ca", names), identity)
    assert caught.value.reason == "identity"


def test_a_certificate_that_cannot_be_read_has_no_authority(enrolled):
    identity = load_credentials(identity_files(enrolled / "home")).identity
    with pytest.raises(MessageRefused) as caught:
        name_in(b"junk", identity)
    assert caught.value.reason == "unknown authority"
