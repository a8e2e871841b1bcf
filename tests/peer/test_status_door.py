"""The status door: what observers and operators get, and what nobody gets by any certificate."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from tacit.peer.identity.authority import init_ca, issue, revoke
from tacit.peer.identity.enrolment import install, request
from tacit.peer.identity.identity import Holder, identity_files
from tacit.peer.identity.pem_files import load_certificate
from tacit.peer.operations.http_server import PATIENCE
from tacit.peer.transport.admission import DoorLimits
from tests.peer.enrolment import DAY, certificate, enrol
from tests.peer.linked import HELLO
from tests.peer.status_door import NAME, Site, raw, said


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def site(root):
    root.reports.asked, root.refusals, root.stops = [], [], 0
    return root


def get(path, method="GET", more="", body=b""):
    head = f"{method} {path} HTTP/1.1\r\nHost: anything\r\nConnection: close\r\n{more}"
    return head.encode() + (f"Content-Length: {len(body)}\r\n".encode() if body else b"") + b"\r\n" + body


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


# --- who reads, and who acts


@pytest.mark.parametrize("home", ["board", "ops"])
def test_observers_and_operators_read_over_one_connection(site, home):
    async def work(port):
        client = site.client(home, port)
        found = [await client.status(), await client.ledger(), await client.status()]
        streams = client._streams
        assert await client.status()
        assert client._streams is streams
        client.close()
        return found

    assert site.served(work) == [{"round": 3}, {"chain": "verified"}, {"round": 3}]
    assert site.reasons == []


def test_any_client_of_https_reads_the_metrics(site):
    files = identity_files(site.root / "board")
    answer = site.served(lambda port: raw(port, site.context(files), get("/metrics")))
    assert status_of(answer) == 200
    assert answer.endswith(b"tacit_round 3.0\n")


def test_an_operator_stops_a_peer_and_an_observer_does_not(site, caplog):
    assert site.served(lambda port: said(site.client("board", port), "stop")) == "role"
    assert (site.stops, site.reasons) == (0, ["role"])
    with caplog.at_level("WARNING", "tacit.peer"):
        site.served(lambda port: said(site.client("ops", port), "stop"))
        assert site.served(lambda port: said(site.client("board", port), "started")) == "role"
        site.served(lambda port: said(site.client("ops", port), "started"))
    assert site.stops == 1, "a note of a start does nothing else"
    noted, start = [record for record in caplog.records if "operator" in getattr(record, "tacit_fields", {})]
    assert (start.getMessage()[:5], start.tacit_fields) == ("start", noted.tacit_fields)
    serial = load_certificate(identity_files(site.root / "ops").certificate).serial_number
    assert noted.tacit_fields == {"operator": "ops", "serial": f"{serial:x}"}


@pytest.mark.parametrize("home", ["board", "ops"])
@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/predict", "POST", 404),
        ("/learn", "POST", 404),
        ("/control", "POST", 404),
        ("/health", "GET", 404),
        ("/model", "GET", 404),
        ("/../status", "GET", 404),
        ("/status/", "GET", 404),
        ("/", "GET", 404),
        ("/stop", "GET", 405),
        ("/started", "GET", 405),
        ("/status", "POST", 405),
        ("/ledger", "DELETE", 405),
        ("/status", "HEAD", 405),
    ],
)
def test_nothing_else_is_there(site, home, path, method, status):
    body, more = (b"{}", "Content-Type: application/json\r\n") if method == "POST" else (b"", "")
    files = identity_files(site.root / home)
    answer = site.served(lambda port: raw(port, site.context(files), get(path, method, more, body)))
    assert status_of(answer) == status
    assert (site.reports.asked, site.stops) == ([], 0)


def test_a_stop_by_a_form_of_a_web_page_is_none(site):
    """A browser that has an operator's certificate sends no JSON to another site unasked."""
    files = identity_files(site.root / "ops")
    more = "Content-Type: text/plain\r\n"
    answer = site.served(lambda port: raw(port, site.context(files), get("/stop", "POST", more, b"{}")))
    assert (status_of(answer), site.stops) == (415, 0)


# --- who does not


def test_a_member_is_refused(site):
    """Also the peer's own certificate: status is no member's business."""
    for home in ("hospital-b", NAME):
        assert site.served(lambda port, home=home: said(site.client(home, port, role="peer"))) == "role"
    assert site.reasons == ["role"] * 2
    assert site.reports.asked == []


def made(**how):
    return lambda site: site.context(certificate(site.root / "bad", site.ca, **how))


def of_another_federation(site):
    ca = site.root / "other ca"
    if not ca.exists():
        init_ca(ca, "federation")  # of the same name
        enrol(site.root / "other", ca, "board", role="observer")
    return site.context(identity_files(site.root / "other"))


OBSERVER = [Holder("board", "observer").general_name]


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        pytest.param(lambda site: site.context(), "no certificate", id="none"),
        pytest.param(of_another_federation, "unknown authority", id="another federation"),
        pytest.param(made(names=OBSERVER, start=-2 * DAY, end=-DAY), "expired", id="expired"),
        pytest.param(made(names=OBSERVER, start=DAY, end=2 * DAY), "not yet valid", id="not yet valid"),
        pytest.param(made(names=OBSERVER * 2), "identity", id="two names"),
        pytest.param(made(names=[*OBSERVER, Holder("ops", "operator").general_name]), "identity", id="two roles"),
        pytest.param(made(names=[Holder("board").general_name]), "role", id="a member"),
        pytest.param(made(names=None), "identity", id="nobody"),
    ],
)
def test_refused_and_counted_and_nothing_is_read(site, context, reason):
    answer = site.served(lambda port: raw(port, context(site), get("/status")))
    assert status_of(answer) in (None, 403)
    assert (site.reasons, site.reports.asked) == ([reason], [])


@pytest.mark.parametrize("data", [HELLO, b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01"])
def test_without_tls_there_is_nothing(site, data):
    async def work(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.write_eof()
        found = await reader.read()
        writer.close()
        return found

    assert b"round" not in site.served(work)
    assert site.reports.asked == []


def test_frames_of_a_link_are_no_requests(site):
    files = identity_files(site.root / "board")
    answer = site.served(lambda port: raw(port, site.context(files), HELLO + b"\r\n\r\n"))
    assert status_of(answer) == 400
    assert site.reports.asked == []


def test_one_that_is_revoked_is_cut_off_with_its_next_request(site):
    """The list is read again while the connection stands."""
    enrol(site.root / "gone", site.ca, "gone", role="observer")
    serial = load_certificate(identity_files(site.root / "gone").certificate).serial_number
    listed = site.root / NAME / "revoked.crl"

    async def work(port):
        client = site.client("gone", port, role="observer")
        assert await client.status()
        listed.write_bytes(revoke([site.ca / "issued" / f"{serial:x}.crt"], site.ca).pem)
        return await said(client)

    assert site.served(work) == "revoked"
    assert site.reasons == ["revoked"]
    assert site.served(lambda port: said(site.client("board", port))) == {"round": 3}


def test_one_that_ends_is_cut_off_with_its_next_request(site, monkeypatch):
    from tacit.peer.observing import door

    class Later(door.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + timedelta(days=91)

    async def work(port):
        client = site.client("board", port)
        assert await client.status()
        monkeypatch.setattr(door, "datetime", Later)
        return await said(client)

    assert site.served(work) == "expired"


def test_a_client_asks_nobody_but_the_peer_that_it_means(site):
    async def work(port):
        return await said(site.client("board", port, name="hospital-b"))

    assert site.served(work) == "server name"
    assert site.reports.asked == []


def test_a_client_is_not_taken_in_by_an_observer(site):
    """Somebody at the address, with any certificate but the peer's: nothing is asked of it."""
    import ssl

    files = identity_files(site.root / "board")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)

    async def run():
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        try:
            return await said(site.client("ops", port, name="board"), "stop")
        finally:
            server.close()

    assert asyncio.run(run()) == "certificate"


def test_renewed_while_it_runs(site):
    async def work(port):
        client = site.client("board", port)
        assert await client.status()
        home = site.root / "board"
        issued = issue(request("board", home).csr, "board", site.ca, site.root / "next.crt", role="observer")
        install(issued, site.ca / "ca.crt", home)
        client.close()
        return await said(client)

    assert site.served(work) == {"round": 3}


# --- limits


def test_a_connection_that_says_nothing_is_closed(site):
    async def work(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()

    site.served(work, DoorLimits(proof_time=0.05))
    assert site.reasons == ["unproven"]


def test_a_crowd_makes_room(site):
    async def work(port):
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        found = await said(site.client("board", port))
        for _, writer in crowd:
            writer.close()
        return found

    assert site.served(work, DoorLimits(4, 4)) == {"round": 3}
    assert set(site.reasons) == {"crowded"}


def test_a_request_that_does_not_come_to_its_end(site, monkeypatch):
    from tacit.peer.operations import http_server

    monkeypatch.setattr(http_server.HttpServer.__init__, "__kwdefaults__", {"patience": 0.05, "local": False})
    files = identity_files(site.root / "board")
    answer = site.served(lambda port: raw(port, site.context(files), b"GET /status HTTP/1.1\r\n"))
    assert status_of(answer) == 408
    assert PATIENCE > 0.05


def test_a_head_without_an_end(site):
    files = identity_files(site.root / "board")
    head = b"GET /status HTTP/1.1\r\nX: " + b"x" * 50_000
    assert status_of(site.served(lambda port: raw(port, site.context(files), head))) == 431


def test_answers_are_json_that_no_browser_takes_for_a_page(site):
    files = identity_files(site.root / "board")
    answer = site.served(lambda port: raw(port, site.context(files), get("/status")))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert json.loads(body) == {"round": 3}
    assert b"nosniff" in head
    assert b"no-store" in head
