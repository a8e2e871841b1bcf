"""A status door with reports that are made up, and all kinds of callers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from tacit.core.errors import MessageRefused, RemoteError
from tacit.peer.identity.authority import init_ca
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.identity import identity_files
from tacit.peer.observing.client import StatusClient
from tacit.peer.observing.door import StatusDoor
from tacit.peer.operations.logs import Log
from tacit.peer.transport.admission import DoorLimits
from tests.peer.enrolment import enrol

NAME, LIMIT = "hospital-a", 300.0
ROLES = {"board": "observer", "ops": "operator", "hospital-b": "peer"}


class Made:
    """Reports without a peer, which note what was asked."""

    def __init__(self):
        self.asked = []

    def status(self):
        self.asked.append("status")
        return {"round": 3}

    async def ledger(self):
        self.asked.append("ledger")
        return {"chain": "verified"}

    async def metrics(self):
        self.asked.append("metrics")
        return "tacit_round 3.0\n"

    def close(self):
        pass


class Site:
    """An authority, the identity of a peer, and those of callers."""

    def __init__(self, root, *callers):
        self.root, self.ca = root, root / "ca"
        init_ca(self.ca, "federation")
        enrol(root / NAME, self.ca, NAME)
        for name in callers or ROLES:
            enrol(root / name, self.ca, name, role=ROLES[name])
        self.reports, self.refusals, self.stops = Made(), [], 0

    def served(self, work, limits=None):
        """Run `work(port)` beside a door."""

        async def run():
            async with asyncio.timeout(LIMIT):
                watch = IdentityWatch(identity_files(self.root / NAME), print)
                door = StatusDoor(
                    self.reports, watch, lambda *refusal: self.refusals.append(refusal), limits or DoorLimits(),
                    self._stop, Log(),
                )  # fmt: skip
                self.door = door
                await door.start("127.0.0.1:0")
                try:
                    return await work(door.port)
                finally:
                    await door.close()

        return asyncio.run(run())

    def _stop(self):
        self.stops += 1

    def client(self, home, port, name=NAME, role=None):
        files = identity_files(self.root / home)
        watch = IdentityWatch(files, print, role or ROLES[home])
        return StatusClient(name, f"127.0.0.1:{port}", watch, LIMIT)

    @property
    def reasons(self):
        return [reason for reason, _, _ in self.refusals]

    def context(self, files=None, ca=None):
        """Any client of TLS 1.3, with the certificate that it likes."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version, context.check_hostname = ssl.TLSVersion.TLSv1_3, False
        context.load_verify_locations(ca or self.ca / "ca.crt")
        if files:
            context.load_cert_chain(files.certificate, files.key)
        return context


async def said(client, what="status"):
    """What a client gets: a table, or the word for which it got nothing."""
    try:
        return await getattr(client, what)()
    except MessageRefused as refusal:
        return refusal.reason
    except RemoteError as fault:
        return type(fault).__name__
    finally:
        client.close()


async def raw(port, context, data):
    """Bytes over TLS, and all that comes back."""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="")
        try:
            writer.write(data)
            return await reader.read()
        finally:
            writer.transport.abort()
    return b""
