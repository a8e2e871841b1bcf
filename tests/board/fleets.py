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


AILING = {
    "lag": 12,
    "accuracy": 0.8,
    "disk_free": 3e9,
    "certificate_expires": "2020-01-01T00:00:00+00:00",
    "model_finite": False,
    "refusals": {"untrusted": 3},
    "errors": ["2026-11-19 10:00:00 warning: link lost (hospital-a, silent)"],
    "budget": [
        {"class": "all", "unit": "epsilon", "limit": 4.0, "spent": 4.0, "left": 0.0, "runs_out": True, "words": ""},
        {"class": "rows", "unit": "epsilon", "limit": None, "spent": 1.0, "left": 0.0, "runs_out": True, "words": ""},
    ],
}
"""Of a status: whatever an operator has to be told of."""
BOOK = {
    "chain": "verified",
    "unit": "epsilon",
    "words": "epsilon 1 per record",
    "releases_in_all": 8,
    "classes": [
        {"name": "rows", "unit": "epsilon", "limit": 4.0, "spent": 3.8, "left": 0.2, "runs_out": True},
        {"name": "other", "unit": "epsilon", "limit": None, "spent": 1.0, "left": 0.0, "runs_out": True},
    ],
    "releases": [{"round": k, "time": None, "class": "rows", "cost": 0.475, "times": 1} for k in range(1, 9)],
}
"""A ledger with releases."""


class Reports:
    """What a peer says that is none."""

    def __init__(self, stop):
        self.round, self.links, self.stop = 3, [LINK], stop
        self.more, self.book = {}, {"chain": "verified", "classes": []}

    def status(self):
        return {"state": "running", "round": self.round, "lag": 0, "links": self.links, "loss": 0.5, **self.more}

    async def ledger(self):
        return self.book

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


class Standing:
    """Doors of peers that a test opens and closes."""

    def __init__(self, loop, fleet):
        self.loop, self.fleet, self.open, self.ports, self.reports = loop, fleet, {}, {}, {}

    def up(self, name):
        async def enter():
            context = self.fleet.door(name, self.ports.get(name, 0))
            return context, await context.__aenter__()

        context, (door, self.reports[name]) = self.loop.call(enter())
        self.open[name], self.ports[name] = context, door.port

    def down(self, name):
        self.loop.call(self.open.pop(name).__aexit__(None, None, None))
