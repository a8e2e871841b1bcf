"""Fleets for tests: doors with made-up reports, and files that name them."""

from __future__ import annotations

import asyncio
import contextlib

from tacit.board.federation import Federation
from tacit.config.fleet import load_fleet
from tacit.peer.identity.authority import init_ca
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.identity import identity_files
from tacit.peer.observing.door import StatusDoor
from tacit.peer.operations.logs import Log
from tacit.peer.transport.admission import DoorLimits
from tests.peer.enrolment import enrol

LINK = {"peer": "hospital-b", "direction": "out", "state": "open", "lag": 0}


class Reports:
    """What a peer says that is none."""

    def __init__(self, stop):
        self.round, self.links, self.stop = 3, [LINK], stop

    def status(self):
        return {"state": "running", "round": self.round, "lag": 0, "links": self.links, "loss": 0.5}

    async def ledger(self):
        return {"chain": "verified", "classes": []}

    async def metrics(self):
        return f"tacit_round {self.round}\n"

    def close(self):
        pass


class Fleet:
    """An authority, identities, and a fleet.toml."""

    def __init__(self, root, *names):
        self.root, self.names, self.stopped = root, names, []
        init_ca(root / "ca", "federation")
        for name in names:
            enrol(root / name, root / "ca", name)
        for role in ("observer", "operator"):
            enrol(root / role, root / "ca", "board", role=role)

    def write(self, ports, *, operator=True, every=0.2, more=""):
        """The file; `ports` by name."""
        lines = ['identity = "observer"', f"every = {every}"] + ['operator = "operator"'] * operator
        tables = [f'[peers.{name}]\naddress = "127.0.0.1:{port}"\n{more}' for name, port in ports.items()]
        file = self.root / "fleet.toml"
        file.write_text("\n".join([*lines, "", *tables]))
        return file

    @contextlib.asynccontextmanager
    async def door(self, name, port=0):
        """A door of one peer."""
        watch = IdentityWatch(identity_files(self.root / name), print)
        reports = Reports(None)
        door = StatusDoor(reports, watch, lambda *refusal: None, DoorLimits(), lambda: self.stopped.append(name), Log())
        await door.start(f"127.0.0.1:{port}")
        try:
            yield door, reports
        finally:
            await door.close()


@contextlib.asynccontextmanager
async def watching(file):
    """A federation that looks at its peers."""
    federation = Federation(load_fleet(file))
    federation.begin()
    try:
        yield federation
    finally:
        await federation.close()


async def until(condition, seconds=300.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def state(federation, name):
    return next(one["state"] for one in federation.as_json()["peers"] if one["name"] == name)
