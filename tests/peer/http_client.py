"""A client and a peer for tests of the local server."""

from __future__ import annotations

import asyncio
import json

from tacit.peer.operations.counters import Counters
from tacit.peer.operations.local_http import Handlers, LocalServer
from tacit.peer.sources.queue import SampleForm

FORM = SampleForm.of(2)


class Peer:
    """Handlers that note what reached them."""

    def __init__(self):
        self.reasons, self.samples, self.room, self.asked = [], [], True, 0

    async def health(self):
        return self.reasons

    async def status(self):
        return {"round": 3}

    async def metrics(self):
        return Counters().render()

    async def learn(self, samples):
        checked = [FORM.check(x, y, f"sample {i}") for i, (x, y) in enumerate(samples)]
        if self.room:
            self.samples += checked
        return self.room

    async def predict(self, x):
        self.asked += 1
        return {"value": float(FORM.check_features(x).sum())}

    @property
    def handlers(self):
        return Handlers(self.health, self.status, self.metrics, self.learn, self.predict)


def serving(work, peer=None, **settings):
    """Run `work(server, peer)` beside a server; no connection may end in an exception."""
    peer, faults = peer or Peer(), []

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        async with asyncio.timeout(300):
            server = LocalServer(peer.handlers, **settings)
            await server.start()
            try:
                return await work(server, peer)
            finally:
                await server.close()

    result = asyncio.run(run())
    assert faults == []
    return result


async def exchange(server, data, finish=True):
    """Send bytes, and return all that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(data)
        if finish:
            writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


def split(answer):
    """Return status, headers and body of the one answer in some bytes."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    headers = dict(field.split(": ", 1) for field in fields)
    assert int(headers["Content-Length"]) == len(body)
    return int(first.split(" ")[1]), headers, body


def get(path, host="localhost", method="GET", more=""):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode()


def post(path, content, kind="application/json", more=""):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    lines = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:80\r\nConnection: close\r\nContent-Type: {kind}\r\n{more}"
    return lines.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def ask(data, peer=None, **settings):
    async def work(server, _):
        return split(await exchange(server, data))

    return serving(work, peer, **settings)
