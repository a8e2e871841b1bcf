"""The door on loopback: what it answers and what it refuses."""

from __future__ import annotations

import asyncio
import json

import pytest

from tacit.core.errors import ConfigError, DataError, StoreError
from tacit.peer.operations import http_server, local_http
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.http_request import LONGEST_BODY, LONGEST_HEAD
from tacit.peer.operations.local_http import LocalServer
from tests.peer.http_client import Peer, ask, exchange, get, post, serving, split


def test_health_status_and_metrics():
    peer = Peer()
    status, headers, body = ask(get("/health"), peer)
    assert (status, json.loads(body)) == (200, {"healthy": True})
    assert headers["Content-Type"] == "application/json"
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
    peer.reasons = ["no data since round 3"]
    status, _, body = ask(get("/health"), peer)
    assert (status, json.loads(body)) == (503, {"healthy": False, "reasons": peer.reasons})
    status, _, body = ask(get("/status?verbose=1"), peer)
    assert (status, json.loads(body)) == (200, {"round": 3})
    status, headers, body = ask(get("/metrics"), peer)
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert body.decode() == Counters().render()


def test_learn_and_predict():
    peer = Peer()
    assert ask(post("/learn", {"x": [1, 2], "y": 3}), peer)[0] == 200
    status, _, body = ask(post("/learn", [{"x": [4, 5], "y": 6}] * 2, "application/json; charset=utf-8"), peer)
    assert (status, json.loads(body)) == (200, {"accepted": 2})
    assert [(list(s.x), s.y) for s in peer.samples] == [([1, 2], 3), ([4, 5], 6), ([4, 5], 6)]
    status, _, body = ask(post("/predict", {"x": [1, 2]}), peer)
    assert (status, json.loads(body)) == (200, {"value": 3})


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"\xff", b'{"x": [1, 2]}', b'{"x": [1, 2], "y": 1, "z": 1}', b"3", b"[3]"),
        *(b'{"x": [1, NaN], "y": 1}', b'{"x": [1], "y": 1}', b'[{"x": [1, 2], "y": 1}, {"x": [1, "2"], "y": 1}]'),
        *(b"[" * 200_000, b"9" * 5000, b'{"x": [1, 2], "y": 1e999}', b'{"x": [1, 2], "y": true}'),
        '{"x": [1, 2], "y": 1}'.encode("utf-16"),
    ],
)
def test_bad_samples_are_the_callers_fault_and_none_is_taken(content):
    peer = Peer()
    status, _, body = ask(post("/learn", content), peer)
    assert (status, list(json.loads(body))) == (400, ["error"])
    assert peer.samples == []


def test_json_has_no_nan():
    _, _, body = ask(post("/predict", b'{"x": [1, -Infinity]}'))
    assert "no NaN and no Infinity" in json.loads(body)["error"]


def test_no_room_means_later():
    peer = Peer()
    peer.room = False
    status, headers, _ = ask(post("/learn", {"x": [1, 2], "y": 3}), peer)
    assert (status, headers["Retry-After"], peer.samples) == (429, "1", [])


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        (DataError("x is odd"), 400, "x is odd"),
        (StoreError("the disk is full"), 503, "the disk is full"),
        (RuntimeError("secret"), 500, "its log says more"),
    ],
)
def test_faults_of_handlers(fault, status, says):
    class Failing(Peer):
        async def predict(self, x):
            raise fault

    found, _, body = ask(post("/predict", {"x": [1, 2]}), Failing())
    assert found == status
    assert says in json.loads(body)["error"]
    assert b"secret" not in body


def test_a_handler_that_hangs_is_given_up(monkeypatch):
    class Hanging(Peer):
        async def status(self):
            await asyncio.Event().wait()

    monkeypatch.setattr(http_server, "HANDLER_PATIENCE", 0.01)
    status, headers, _ = ask(get("/status"), Hanging())
    assert (status, headers["Retry-After"]) == (503, "1")


JSON = "Content-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get("/stop"), 404),
        (get("/health/"), 404),
        (get("/health", method="POST"), 405),
        (get("/learn"), 405),
        (get("/learn", method="OPTIONS"), 405),
        (get("localhost:80", method="CONNECT"), 404),
        (get("/health", host="evil.example"), 421),
        (get("/health", host="localhost.evil.example"), 421),
        (get("/health", host="127.0.0.1.evil.example"), 421),
        (get("/health", host="127.0.0.1@evil.example"), 421),
        (get("/health", host="localhost:80@evil.example"), 421),
        (get("/health", host="localhost:999999"), 421),
        (get("/health", host="192.168.1.1"), 421),
        (get("/health", host=""), 421),
        (get("/health", host="[::1"), 421),
        (b"GET /health HTTP/1.0\r\n\r\n", 421),
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (get("/health", more="Host: localhost\r\n"), 400),
        (get("/health", more="Content-Length: 3\r\n"), 400),
        (get("/health", more="Transfer-Encoding: chunked\r\n"), 501),
        (post("/learn", {}, more="Transfer-Encoding: chunked\r\n"), 501),
        (post("/learn", {}, more="Content-Length: 3\r\n"), 400),
        (post("/learn", {}, more="Content-Length: 2\r\n"), 400),
        (post("/learn", {}, more=JSON), 400),
        (post("/learn", {}, kind="text/plain", more=JSON), 400),
        (post("/learn", {}, more="Expect: a miracle\r\nexpect: 100-continue\r\n"), 400),
        (get("/health", more="CONNECTION: keep-alive\r\n"), 400),
        (post("/learn", {}, kind="text/plain"), 415),
        (post("/learn", {}, kind="application/x-www-form-urlencoded"), 415),
        (post("/learn", {}, kind="text/plain; application/json"), 415),
        (get("/learn", method="POST"), 415),
        (get("/learn", method="POST", more=JSON), 411),
        (get("/learn", method="POST", more=JSON + "Content-Length: -1\r\n"), 400),
        (get("/learn", method="POST", more=JSON + "Content-Length: +1\r\n"), 400),
        (get("/learn", method="POST", more=JSON + "Content-Length: 1_0\r\n"), 400),
        (get("/learn", method="POST", more=JSON + f"Content-Length: {LONGEST_BODY + 1}\r\n"), 413),
        (get("/learn", method="POST", more=JSON + "Content-Length: " + "9" * 19 + "\r\n"), 413),
        (get("/learn", method="POST", more=JSON + "Content-Length: " + "9" * 21 + "\r\n"), 400),
        (get("/health", more="Expect: a miracle\r\n"), 417),
        (get("/health").replace(b"1.1", b"2.0"), 505),
        (get("/health").replace(b"1.1", b"1.1 "), 400),
        (get("http://localhost/health"), 404),
        (get("/health", method="get"), 405),
        (get("/hea lth"), 400),
        (get("/health", more=" folded: x\r\n"), 400),
        (get("/health", more="Space : x\r\n"), 400),
        (get("/health", more="no colon\r\n"), 400),
        (get("/health", more="A: b\nB: c\r\n"), 400),
        (get("/health", more="A: \x00\r\n"), 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (get("/health", more="A: " + "b" * LONGEST_HEAD + "\r\n"), 431),
        (b"A" * (2 * LONGEST_HEAD), 431),
    ],
)
def test_what_is_refused(request_, status):
    peer = Peer()
    found, headers, body = ask(request_, peer)
    assert (found, headers["Connection"]) == (status, "close")
    assert list(json.loads(body)) == ["error"]
    assert headers.get("Allow") == ({404: None, 405: "POST" if b"learn" in request_ else "GET"}.get(status))
    assert peer.samples == []


@pytest.mark.parametrize("host", ["localhost", "LocalHost:8080", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:80"])
def test_loopback_names_are_accepted(host):
    assert ask(get("/health", host=host))[0] == 200


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.1", "example.org", "", "127.0.0.1.example.org", "10.0.0.1"]
)
def test_it_binds_to_loopback_only(host):
    async def run():
        await LocalServer(Peer().handlers).start(host)

    with pytest.raises(ConfigError, match="loopback only"):
        asyncio.run(run())


def test_a_port_in_use_is_named():
    async def work(server, peer):
        with pytest.raises(ConfigError, match=f"port {server.port}: cannot listen there"):
            await LocalServer(peer.handlers).start("localhost", server.port)

    serving(work)


def test_a_connection_may_be_used_again_until_it_is_closed():
    async def work(server, peer):
        twice = get("/status").replace(b"close", b"keep-alive") + get("/status")
        return await exchange(server, twice, finish=False)

    answers = serving(work)
    assert answers.count(b"HTTP/1.1 200 OK") == 2
    assert answers.count(b"Connection: close") == 1
    assert b"Connection: close" in answers.split(b"HTTP/1.1 200 OK")[2]


def test_no_other_protocol_is_switched_to():
    assert ask(get("/status", more="Upgrade: websocket\r\n"))[0] == 200


def test_the_old_version_is_answered_once():
    assert ask(get("/status").replace(b"1.1", b"1.0").replace(b"close", b"Keep-Alive"))[1]["Connection"] == "close"


def test_what_asks_for_a_head_only_is_refused_without_a_body():
    status, headers, body = ask(get("/health", method="HEAD"))
    assert (status, headers["Allow"], headers["Connection"], body) == (405, "GET, POST", "close", b"")


def test_a_client_that_asks_first_is_told_to_go_on():
    async def work(server, peer):
        data = post("/learn", {"x": [1, 2], "y": 3}, more="Expect: 100-continue\r\n")
        head, _, body = data.partition(b"\r\n\r\n")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + b"\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        answer = await reader.read()
        writer.close()
        return answer

    assert split(serving(work))[0] == 200


def test_the_answer_reaches_a_client_that_is_still_sending():
    async def work(server, peer):
        return split(await exchange(server, post("/learn", b" " * 2 * LONGEST_BODY)))

    assert serving(work)[0] == 413


@pytest.mark.parametrize("sent", [b"", b"GET /hea", post("/learn", {"x": [1, 2], "y": 3})[:-1]])
def test_a_slow_client_is_dropped(sent):
    async def work(server, peer):
        return await exchange(server, sent, finish=False)

    peer = Peer()
    assert split(serving(work, peer, patience=0.02))[0] == 408
    assert peer.samples == []


def test_an_idle_connection_is_closed_without_a_word():
    async def work(server, peer):
        return await exchange(server, get("/status").replace(b"close", b"keep-alive"), finish=False)

    assert split(serving(work, patience=0.02))[0] == 200


def test_connections_are_bounded_and_a_crowd_keeps_nobody_out(monkeypatch):
    monkeypatch.setattr(local_http, "local_limit", lambda left: 3)

    async def work(server, peer):
        asking = await asyncio.open_connection("127.0.0.1", server.port)
        asking[1].write(get("/status").replace(b"close", b"keep-alive"))
        await asking[0].readuntil(b"}\n")
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(8)]
        assert split(await exchange(server, get("/status")))[0] == 200
        assert server._door.serving <= 3
        for reader, _ in idle[:6]:  # those that said nothing, the oldest first
            assert await reader.read() == b""
        asking[1].write(get("/status"))
        assert split(await asking[0].read())[0] == 200
        for _, writer in (asking, *idle):
            writer.close()

    serving(work, patience=1000)


def test_closing_drops_open_connections():
    async def work(server, peer):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(get("/status").replace(b"close", b"keep-alive"))
        await reader.readuntil(b"}\n")
        await server.close()
        assert await reader.read() == b""
        writer.close()
        assert not server._door.serving

    serving(work, patience=1000)
