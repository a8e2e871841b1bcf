"""Peers on the board: up, down within five seconds, refused; acts by an operator alone, and noted before they are done."""

from __future__ import annotations

import asyncio
import json
import socket
import sys

import pytest

from tacit.board import federation as module
from tacit.board.federation import Federation, routes
from tacit.config.fleet import load_fleet
from tacit.core.errors import ConfigError, IdentityError, MessageRefused, TacitError
from tacit.peer.identity.authority import revoke
from tacit.peer.identity.identity import identity_files
from tacit.peer.identity.pem_files import load_certificate
from tests.board.fleets import Fleet, state, until, watching

DOWN_WITHIN = 5.0
"""Seconds, promised."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Fleet(tmp_path_factory.mktemp("fleet"), "hospital-a", "hospital-b")


@pytest.fixture
def fleet(made):
    made.stopped.clear()
    (made.root / "actions.jsonl").unlink(missing_ok=True)
    return made


def run(scenario):
    async def limited():
        async with asyncio.timeout(300):
            await scenario

    asyncio.run(limited())


def peer(federation, name):
    return next(one for one in federation.as_json()["peers"] if one["name"] == name)


def test_up_down_and_up_again(fleet):
    async def scenario():
        async with fleet.door("hospital-a") as (door, _), fleet.door("hospital-b") as (other, _):
            file = fleet.write({"hospital-a": door.port, "hospital-b": other.port})
            async with watching(file) as federation:
                told = []
                federation.tell = lambda name, content: told.append((name, content))
                assert {state(federation, name) for name in fleet.names} == {"down"}, "nobody was asked so far"
                await until(lambda: {state(federation, name) for name in fleet.names} == {"up"})
                one = peer(federation, "hospital-a")
                assert (one["round"], one["loss"], one["may"]) == (3, 0.5, ["stop"])
                assert [link["state"] for link in one["links"]] == ["open"]
                await door.close()
                await until(lambda: state(federation, "hospital-a") == "down", DOWN_WITHIN)
                one = peer(federation, "hospital-a")
                assert [link["state"] for link in one["links"]] == ["dead"]
                assert one["errors"]
                assert one["round"] == 3, "the last that is known"
                assert one["may"] == []
                assert state(federation, "hospital-b") == "up"
                async with fleet.door("hospital-a", door.port) as (_, reports):
                    reports.round = 7
                    await until(lambda: state(federation, "hospital-a") == "up")
                    assert peer(federation, "hospital-a")["round"] == 7
                    assert 7 in federation.history("hospital-a")["round"]
                await until(lambda: any(content["peers"][0]["state"] == "up" for name, content in told))
                assert {name for name, _ in told} == {"peers"}

    run(scenario())


def test_one_that_is_frozen_is_down_and_holds_up_no_other(fleet):
    """It accepts connections, as a stopped process does, and says nothing."""

    async def scenario():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            ports = {"hospital-a": silent.getsockname()[1]}
            async with fleet.door("hospital-b") as (other, _):
                ports["hospital-b"] = other.port
                async with watching(fleet.write(ports)) as federation:
                    await until(lambda: bool(peer(federation, "hospital-a")["errors"]), DOWN_WITHIN)
                    assert state(federation, "hospital-a") == "down"
                    assert state(federation, "hospital-b") == "up"

    run(scenario())


def test_one_that_refuses_is_neither_up_nor_down(fleet):
    """The authority has taken the observer's certificate back, as this peer knows; another has not heard of it."""
    serial = load_certificate(identity_files(fleet.root / "observer").certificate).serial_number
    listed = revoke([fleet.root / "ca" / "issued" / f"{serial:x}.crt"], fleet.root / "ca")

    async def scenario():
        async with fleet.door("hospital-a") as (door, _), fleet.door("hospital-b") as (other, _):
            ports = {"hospital-a": door.port, "hospital-b": other.port}
            async with watching(fleet.write(ports)) as federation:
                await until(lambda: state(federation, "hospital-a") == "up")
                (fleet.root / "hospital-a" / "revoked.crl").write_bytes(listed.pem)
                await until(lambda: state(federation, "hospital-a") == "refused", DOWN_WITHIN)
                assert "revoked" in peer(federation, "hospital-a")["errors"][-1]
                assert state(federation, "hospital-b") == "up"

    try:
        run(scenario())
    finally:
        (fleet.root / "hospital-a" / "revoked.crl").unlink(missing_ok=True)


def test_another_peer_at_the_address_is_refused(fleet):
    async def scenario():
        async with (
            fleet.door("hospital-b") as (other, _),
            watching(fleet.write({"hospital-a": other.port})) as federation,
        ):
            await until(lambda: state(federation, "hospital-a") == "refused")
            assert peer(federation, "hospital-a")["round"] is None

    run(scenario())


def test_memory_is_bounded(fleet, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 3)

    async def scenario():
        async with fleet.door("hospital-a") as (door, _):
            federation = Federation(load_fleet(fleet.write({"hospital-a": door.port})))
            for _ in range(5):
                await federation.peers["hospital-a"].look()
            assert {len(column) for column in federation.history("hospital-a").values()} == {3}
            await federation.close()

    run(scenario())


# --- acts


def noted(fleet):
    file = fleet.root / "actions.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_stop_by_an_operator_is_noted_here(fleet):
    async def scenario():
        async with (
            fleet.door("hospital-a") as (door, _),
            watching(fleet.write({"hospital-a": door.port})) as federation,
        ):
            await until(lambda: state(federation, "hospital-a") == "up")
            await federation.stop("hospital-a")
        assert fleet.stopped == ["hospital-a"]

    run(scenario())
    (entry,) = noted(fleet)
    assert (entry["act"], entry["peer"], entry["operator"]) == ("stop", "hospital-a", "board")
    assert len(entry["certificate"]) == 64


def test_nobody_acts_without_an_operator_s_certificate(fleet):
    async def scenario():
        async with (
            fleet.door("hospital-a") as (door, _),
            watching(fleet.write({"hospital-a": door.port}, operator=False)) as federation,
        ):
            await until(lambda: state(federation, "hospital-a") == "up")
            assert peer(federation, "hospital-a")["may"] == []
            for act in (federation.stop, federation.start):
                with pytest.raises(PermissionError):
                    await act("hospital-a")

    run(scenario())
    assert (fleet.stopped, noted(fleet)) == ([], [])


def test_what_cannot_be_noted_is_not_done(fleet):
    async def scenario():
        async with fleet.door("hospital-a") as (door, _):
            file = fleet.write({"hospital-a": door.port}, more='start = ["true"]')
            (fleet.root / "actions.jsonl").mkdir()
            try:
                async with watching(file) as federation:
                    with pytest.raises(ConfigError, match=r"actions\.jsonl"):
                        await federation.stop("hospital-a")
            finally:
                (fleet.root / "actions.jsonl").rmdir()

    run(scenario())
    assert fleet.stopped == []


def test_a_start_is_in_the_peer_s_own_log_whatever_started_it(fleet, caplog):
    """A service manager hands nothing on of who asked it: the peer is told once it is up, over its own door."""

    def told():
        return [
            record.tacit_fields["operator"] for record in caplog.records if record.getMessage().startswith("start,")
        ]

    async def scenario():
        async with fleet.door("hospital-a") as (door, _):
            port = door.port
        file = fleet.write({"hospital-a": port}, more=f'start = ["{sys.executable}", "-c", "pass"]')
        async with watching(file) as federation:
            assert peer(federation, "hospital-a")["may"] == ["start"]
            await federation.start("hospital-a")
            await federation.peers["hospital-a"].child.wait()
            assert told() == []
            async with fleet.door("hospital-a", port):  # as `systemctl start` has it: no child of the board
                await until(lambda: told() == ["board"])
                await until(lambda: federation.peers["hospital-a"].started_by is None)

    with caplog.at_level("WARNING", "tacit.peer"):
        run(scenario())
    assert [entry["act"] for entry in noted(fleet)] == ["start"]


@pytest.mark.parametrize("more", ["", 'start = ["/nowhere/at/all"]'])
def test_a_start_that_cannot_be(fleet, more):
    async def scenario():
        async with watching(fleet.write({"hospital-a": 9}, more=more)) as federation:
            with pytest.raises(ConfigError, match="start"):
                await federation.start("hospital-a")

    run(scenario())


# --- what a browser asks


def asked(federation, path, method="GET"):
    """The answer of a route, by ASGI itself."""

    async def exchange():
        from starlette.applications import Starlette

        sent = []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
                 "headers": [], "http_version": "1.1", "scheme": "http", "root_path": ""}  # fmt: skip
        try:
            await Starlette(routes=routes(federation))(scope, receive, send)
        finally:
            await federation.close()
        return sent[0]["status"], json.loads(b"".join(part.get("body", b"") for part in sent[1:]) or b"null")

    return asyncio.run(exchange())


def test_routes(fleet):
    def federation(**how):
        return Federation(load_fleet(fleet.write({"hospital-a": 9}, **how)))

    status, content = asked(federation(), "/api/peers")
    assert (status, [one["name"] for one in content["peers"]]) == (200, ["hospital-a"])
    assert asked(federation(), "/api/peers/nobody/ledger")[0] == 404
    assert asked(federation(), "/api/peers/hospital-a/ledger")[0] == 409, "it is down"
    assert asked(federation(), "/api/peers/hospital-a/history")[1]["round"] == []
    assert asked(federation(operator=False), "/api/peers/hospital-a/stop", "POST")[0] == 403
    assert asked(federation(), "/api/peers/hospital-a/stop", "POST")[0] == 409
    assert asked(federation(), "/api/peers/hospital-a/start", "POST")[0] == 409


def test_a_member_s_certificate_watches_nobody(fleet):
    file = fleet.write({"hospital-a": 9})
    for name, error in (("hospital-b", IdentityError), ("operator", IdentityError), ("nowhere", IdentityError)):
        file.write_text(file.read_text().replace('identity = "observer"', f'identity = "{name}"'))
        with pytest.raises(error, match=r"fleet\.toml: identity"):
            load_fleet(file)
        fleet.write({"hospital-a": 9})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "identity"),
        ('identity = "observer"', "peers"),
        ('identity = "observer"\n[peers]', "peers"),
        ('identity = 3\n[peers.a]\naddress = "h:1"', "identity"),
        ('identity = "observer"\nevery = 0\n[peers.a]\naddress = "h:1"', "every"),
        ('identity = "observer"\nobserver = "x"\n[peers.a]\naddress = "h:1"', "observer"),
        ('identity = "observer"\n[peers.a]', "address"),
        ('identity = "observer"\n[peers.a]\naddress = "h"', "address"),
        ('identity = "observer"\n[peers.a]\naddress = "h:1"\nstart = "tacit"', "start"),
        ('identity = "observer"\n[peers.a]\naddress = "h:1"\nstart = []', "start"),
        ('identity = "observer"\n[peers.A]\naddress = "h:1"', "A"),
        ('identity = "observer"\npeers.a = 3', "a = 3"),
    ],
)
def test_a_fleet_that_cannot_be_read(fleet, text, words):
    file = fleet.root / "bad.toml"
    file.write_text(text)
    with pytest.raises(TacitError, match=words) as fault:
        load_fleet(file)
    assert "bad.toml" in str(fault.value)


def test_a_refusal_is_told_as_one(fleet):
    """An operator's certificate that a peer refuses: nothing is done, and the board says so."""

    async def scenario():
        serial = load_certificate(identity_files(fleet.root / "operator").certificate).serial_number
        async with fleet.door("hospital-b") as (door, _):
            listed = revoke([fleet.root / "ca" / "issued" / f"{serial:x}.crt"], fleet.root / "ca")
            (fleet.root / "hospital-b" / "revoked.crl").write_bytes(listed.pem)
            federation = Federation(load_fleet(fleet.write({"hospital-b": door.port})))
            with pytest.raises(MessageRefused) as refusal:
                await federation.stop("hospital-b")
            assert refusal.value.reason == "revoked"

    try:
        run(scenario())
    finally:
        (fleet.root / "hospital-b" / "revoked.crl").unlink(missing_ok=True)
    assert fleet.stopped == []
