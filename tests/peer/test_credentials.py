"""Who gets in over real sockets, and that whoever does not is counted with the reason."""

import contextlib
import queue
import socket
import ssl
import subprocess
import sys
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tacit.core.errors import IdentityError, MessageRefused
from tacit.peer.identity import credentials
from tacit.peer.identity.authority import init_ca
from tacit.peer.identity.credentials import (
    IdentityWatch,
    channel_options,
    grpc,
    peer_name,
    refused_server,
    server_options,
)
from tacit.peer.identity.identity import identity_files
from tests.peer.enrolment import DAY, NAME, certificate, enrol
from tests.peer.handshakes import LIMIT, PREFACE, SERVER, WITHOUT_SETTINGS, Federation, ping


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with contextlib.closing(Federation(tmp_path_factory.mktemp("federation"))) as federation:
        federation.port = federation.listener.event()["port"]
        yield federation


# --- who gets in


def test_a_peer_gets_in_and_is_known_by_its_certificate(federation):
    assert federation.dial() == {"answer": "welcome"}
    assert federation.listener.event() == {"called": NAME}


def test_tls13_with_a_certificate_gets_in(federation):
    """So that the refusals below are not of something that never works."""
    with federation.tls(identity_files(federation.peer)) as connection:
        assert connection.version() == "TLSv1.3"
        ping(connection)


# --- who does not


def grpc_client(federation, files=None, secure=True):
    """Any gRPC client, with the certificate that it likes."""
    pair = (files.key.read_bytes(), files.certificate.read_bytes()) if files else (None, None)
    options, address = [("grpc.ssl_target_name_override", SERVER)], f"127.0.0.1:{federation.port}"
    roots = (federation.ca / "ca.crt").read_bytes()
    if secure:
        channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(roots, *pair), options)
    else:
        channel = grpc.insecure_channel(address)
    with channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/t/call")(b"", timeout=LIMIT)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def raw_bytes(content):
    def attack(federation):
        with socket.create_connection(("127.0.0.1", federation.port), LIMIT) as connection:
            connection.sendall(content)
            assert connection.recv(100) == b""

    return attack


def made(**how):
    return lambda federation: grpc_client(federation, certificate(federation.root / "bad", federation.ca, **how))


def other_authority(name):
    def attack(federation):
        ca = federation.root / f"other {name}"
        init_ca(ca, name)
        grpc_client(federation, certificate(federation.root / "bad", ca))

    return attack


def signed_by_a_peer(federation):
    key = load_pem_private_key(identity_files(federation.peer).key.read_bytes(), None)
    grpc_client(federation, certificate(federation.root / "bad", federation.ca, signer=key))


def signed_by_itself(federation):
    key = ec.generate_private_key(ec.SECP256R1())
    grpc_client(federation, certificate(federation.root / "bad", federation.ca, key=key, signer=key))


def old_tls(federation):
    with pytest.raises((ssl.SSLError, ConnectionError)):
        federation.tls(identity_files(federation.peer), ssl.TLSVersion.TLSv1_2)


def no_certificate_tls13(federation):
    # In TLS 1.3 the client is ready before the server has looked at its certificate; the refusal comes when it reads.
    with federation.tls() as connection, contextlib.suppress(ssl.SSLError, ConnectionError):
        connection.sendall(PREFACE)
        assert connection.recv(100) == b""


SERVER_ONLY = [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        pytest.param(grpc_client, "no certificate", id="no certificate"),
        pytest.param(no_certificate_tls13, "no certificate", id="no certificate, other client"),
        pytest.param(other_authority("federation"), "unknown authority", id="other authority of the same name"),
        pytest.param(other_authority("others"), "unknown authority", id="other authority"),
        pytest.param(signed_by_itself, "unknown authority", id="signed by itself"),
        pytest.param(signed_by_a_peer, "unknown authority", id="signed by a peer"),
        pytest.param(made(start=-2 * DAY, end=-DAY), "expired", id="expired"),
        pytest.param(made(start=DAY, end=2 * DAY), "not yet valid", id="not yet valid"),
        pytest.param(made(uses=SERVER_ONLY), "certificate", id="not for clients"),
        pytest.param(lambda federation: grpc_client(federation, secure=False), "plaintext", id="plaintext gRPC"),
        pytest.param(raw_bytes(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n"), "plaintext", id="plaintext HTTP/1"),
        pytest.param(raw_bytes(bytes(range(200, 256))), "plaintext", id="noise"),
        pytest.param(old_tls, "old tls", id="TLS 1.2"),
    ],
)
def test_refused_counted_and_never_served(federation, attack, reason):
    attack(federation)
    assert federation.listener.event() == {"refused": reason}
    assert federation.dial() == {"answer": "welcome"}
    assert federation.listener.event() == {"called": NAME}, "that was the only call and the only refusal"


@pytest.mark.parametrize(
    "names",
    [None, [x509.DNSName("hospital-b"), x509.DNSName(NAME)], [x509.DNSName("*.b")], [x509.RFC822Name(NAME)]],
    ids=["none", "two", "wildcard", "mail"],
)
def test_a_certificate_of_our_authority_without_one_name_is_refused_in_the_call(federation, names):
    files = certificate(federation.root / "bad", federation.ca, names=names)
    roots, pair = files.ca.read_bytes(), (files.key.read_bytes(), files.certificate.read_bytes())
    options = [("grpc.ssl_target_name_override", SERVER)]
    address = f"127.0.0.1:{federation.port}"
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(roots, *pair), options) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/t/call")(b"", timeout=LIMIT)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert federation.listener.event() == {"refused": "identity"}


def test_a_resumed_session_is_refused(federation):
    """It would get in after its certificate has ended: the server looks at that only in a full handshake."""
    from grpc.experimental.session_cache import ssl_session_cache_lru  # not above: credentials come before gRPC

    files = identity_files(federation.peer)
    pair = (files.key.read_bytes(), files.certificate.read_bytes())
    options = [
        ("grpc.ssl_target_name_override", SERVER),
        ("grpc.ssl_session_cache", ssl_session_cache_lru(1)),
        ("grpc.use_local_subchannel_pool", 1),
    ]

    def call():
        key = grpc.ssl_channel_credentials(files.ca.read_bytes(), *pair)
        with grpc.secure_channel(f"127.0.0.1:{federation.port}", key, options) as channel:
            return channel.unary_unary("/t/call")(b"", timeout=LIMIT)

    assert call() == b"welcome"
    assert federation.listener.event() == {"called": NAME}
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert federation.listener.event() == {"refused": "identity"}


# --- whom we do not dial


def test_another_peer_at_the_address_is_not_taken_for_the_one_expected(federation):
    answer = federation.dial(expect="hospital-b")
    assert answer["refused"] == "server name", answer
    # The server did nothing wrong, and sees only that the connection ended.
    assert federation.dial() == {"answer": "welcome"}
    assert federation.listener.event() == {"called": NAME}


def test_a_server_of_another_authority_is_refused(federation, tmp_path):
    init_ca(tmp_path / "ca", "federation")
    enrol(tmp_path / "peer", tmp_path / "ca")
    answer = federation.dial(home=tmp_path / "peer")
    assert answer["refused"] == "unknown authority", answer
    assert (federation.logged or [federation.dialler.event()]) == [{"refused": "unknown authority"}]


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
    context.set_alpn_protocols(["h2"])
    context.maximum_version = version
    port, result = served_once(context)
    assert "answer" not in federation.dial(port=port)
    assert result.get(timeout=LIMIT) == made


# --- rotation


def test_renewed_without_restart(federation):
    before = federation.serial()
    with federation.tls(identity_files(federation.peer)) as old:
        after = federation.renew(federation.home, SERVER)
        assert before != after == federation.serial()
        ping(old)
    home = identity_files(federation.home)
    good = home.certificate.read_bytes()
    home.certificate.write_bytes(b"junk")
    assert federation.serial() == after, "what cannot be used does not replace what can"
    assert "no usable" in federation.listener.event()["fault"]
    assert federation.serial() == after
    home.certificate.write_bytes(good)
    newest = federation.renew(federation.home, SERVER)
    assert federation.serial() == newest
    # The fault was reported once: the next event is this call. It also shows that a renewed peer gets in.
    federation.renew(federation.peer, NAME)
    assert federation.dial() == {"answer": "welcome"}
    assert federation.listener.event() == {"called": NAME}


@pytest.fixture
def enrolled(tmp_path):
    init_ca(tmp_path / "ca", "federation")
    enrol(tmp_path / "home", tmp_path / "ca")
    return tmp_path


def test_watch_reads_again_only_what_has_changed(enrolled, monkeypatch):
    read = []
    monkeypatch.setattr(
        credentials, "load_identity", lambda files, load=credentials.load_identity: read.append(1) or load(files)
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
    assert "now holds the name 'hospital-b', this peer runs as 'hospital-a'" in str(faults[1])
    files.certificate.write_bytes(good)
    assert watch.current() == first
    assert len(faults) == 2


def test_watch_needs_good_files_at_the_start(enrolled):
    identity_files(enrolled / "home").ca.unlink()
    with pytest.raises(IdentityError, match="cannot be read"):
        IdentityWatch(identity_files(enrolled / "home"), print)


# --- names of the other end


def context(*names, dns=None, **more):
    encoded = [name.encode() for name in names]
    return {"x509_subject_alternative_name": encoded, "peer_dns": encoded if dns is None else dns, **more}


def test_name_is_the_only_one_in_the_certificate():
    assert peer_name(context(NAME, x509_common_name=[b"somebody-else"], ssl_tls_version=[b"TLSv1.3"])) == NAME
    assert peer_name(context(NAME)) == NAME


@pytest.mark.parametrize(
    "auth_context",
    [
        {},
        {"x509_common_name": [b"hospital-a"]},
        context(NAME, "hospital-b"),
        context(NAME, NAME),
        context(NAME, dns=[]),
        context(NAME, "spiffe://x/y", dns=[NAME.encode()]),
        context("*.a"),
        context("Hospital-A"),
        context("h\u00f6spital"),
        context(NAME, ssl_tls_version=[b"TLSv1.2"]),
    ],
)
def test_anything_else_is_no_name(auth_context):
    with pytest.raises(MessageRefused) as caught:
        peer_name(auth_context)
    assert caught.value.reason == "identity"


def test_channel_options_check_the_name_they_expect():
    options = channel_options(NAME, ("grpc.keepalive_time_ms", 5))
    assert ("grpc.ssl_target_name_override", NAME) in options
    assert ("grpc.keepalive_time_ms", 5) in options
    with pytest.raises(IdentityError, match="peer name"):
        channel_options("*")


def test_details_of_a_failed_call_that_refused_nobody():
    assert refused_server("failed to connect to all addresses; last error: UNAVAILABLE: Socket closed") is None
    assert refused_server("Deadline Exceeded") is None


@pytest.mark.parametrize(
    ("variable", "expected"), [(None, "TLS 1.2 and older cannot be ruled out"), (credentials.NO_OLD_CIPHERS, "fine")]
)
def test_credentials_are_refused_where_grpc_came_first(enrolled, variable, expected):
    program = (
        "import sys, grpc, pathlib\n"
        "from tacit.core.errors import IdentityError\n"
        "from tacit.peer.identity import credentials, identity\n"
        "watch = credentials.IdentityWatch(identity.identity_files(pathlib.Path(sys.argv[1])), print)\n"
        "for make, of in (credentials.server_credentials, watch), (credentials.channel_credentials, watch.current()):\n"
        "    try: make(of); print('fine')\n"
        "    except IdentityError as error: print(error)\n"
    )
    environment = WITHOUT_SETTINGS | ({credentials.CIPHERS_VARIABLE: variable} if variable else {})
    command = [sys.executable, "-c", program, str(enrolled / "home")]
    lines = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=True).stdout
    assert len(lines.splitlines()) == 2
    assert all(expected in line for line in lines.splitlines())


def test_server_options_limit_the_handshake():
    assert server_options(("grpc.so_reuseport", 0)) == [
        ("grpc.server_handshake_timeout_ms", 10_000),
        ("grpc.so_reuseport", 0),
    ]
