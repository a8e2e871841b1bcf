"""`tacit peer fleet`, and certificates of observers and operators by the command line."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import Future

import pytest

from tacit.cli import main
from tacit.cli.peers.fleet import _links
from tacit.peer.identity.identity import identity_files, load_identity
from tests.board.fleets import LINK, Fleet


@pytest.fixture
def tacit(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["peer", *map(str, arguments)])
        return end.value.code or 0, *capsys.readouterr()

    return call


class Doors:
    """Doors of a fleet, open in a thread of their own."""

    def __init__(self, fleet, *names):
        self._fleet, self._names, self._started = fleet, names, Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with self._fleet.door(self._names[0]) as (door, _):
            self._started.set_result(door.port)
            await self._over.wait()

    def __enter__(self):
        self._thread.start()
        return self._started.result(300)

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(300)


def test_all_peers_at_a_glance(tmp_path, tacit):
    fleet = Fleet(tmp_path, "hospital-a", "hospital-b")
    with Doors(fleet, "hospital-a") as port:
        code, said, _ = tacit("fleet", fleet.write({"hospital-a": port, "hospital-b": 9}))
        assert code == 1, "one is down"
        assert "hospital-a" in said
        assert "1 of 1 open" in said
        code, said, _ = tacit("fleet", fleet.write({"hospital-a": port}), "--json")
        assert code == 0
        (one,) = json.loads(said)
        assert (one["name"], one["state"], one["round"]) == ("hospital-a", "up", 3)
    assert tacit("fleet", tmp_path / "fleet.toml", "--json", "--watch")[0] == 2


def test_links_in_words():
    assert _links([]) == "-"
    assert _links([LINK]) == "1 of 1 open"
    dead = {**LINK, "peer": "hospital-c", "state": "dead", "direction": "in"}
    slow = {**LINK, "peer": "hospital-d", "lag": 9}
    assert _links([LINK, dead, slow]).startswith("2 of 3 open; from hospital-c: dead")
    assert _links([LINK, slow]).endswith("to hospital-d: open, lag 9")


@pytest.mark.parametrize("role", ["observer", "operator"])
def test_a_certificate_of_another_role(tmp_path, tacit, monkeypatch, role):
    monkeypatch.chdir(tmp_path)
    assert tacit("init-ca", "ca")[0] == 0
    assert tacit("request", "board", "--out", "board")[0] == 0
    assert tacit("issue", "board", "--csr", "board/board.csr", "--observer", "--operator")[0] == 2
    assert tacit("issue", "board", "--csr", "board/board.csr", f"--{role}")[0] == 0
    code, said, _ = tacit("install", "board.crt", "--ca", "ca/ca.crt", "--out", "board")
    assert code == 0
    assert role in said
    assert load_identity(identity_files(tmp_path / "board"), role=role).role == role
    assert tacit("revoke", "board.crt")[0] == 0
    assert f"{role}:board" in tacit("revoke", "--list")[1]
