"""A small MQTT 3.1.1 server for tests: persistent sessions, quality 1, and faults on demand."""

from __future__ import annotations

import asyncio
import contextlib


class MqttServer:
    """Sends each published message, and again on every connection until it is confirmed."""

    def __init__(self):
        self.unconfirmed: dict[int, bytes] = {}
        self.confirmed: list[int] = []
        self.sent: list[int] = []
        self.subscribed: list[bytes] = []
        self.clients: list[bytes] = []
        self.quality: list[int] = []
        self.accept, self.port = 0, 0
        self._number = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self):
        """End without a word; sessions stay, as on the disk of a broker."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers = []
        await self._server.wait_closed()

    def publish(self, *payloads):
        for payload in payloads:
            self._number += 1
            self.unconfirmed[self._number] = payload
            for writer in self._writers:
                self._send(writer, self._number)

    def _send(self, writer, number, again=False):
        topic = b"ward/1"
        body = len(topic).to_bytes(2) + topic + number.to_bytes(2) + self.unconfirmed[number]
        writer.write(bytes([0x32 | (8 if again else 0)]) + _length(len(body)) + body)
        self.sent.append(number)

    async def _serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                kind = (await reader.readexactly(1))[0]
                body = await reader.readexactly(await _read_length(reader))
                if kind >> 4 == 1:
                    size = int.from_bytes(body[10:12])
                    self.clients.append(body[12 : 12 + size])
                    assert not body[7] & 2, "a clean session forgets what was not confirmed"
                    writer.write(bytes([0x20, 2, 0, self.accept]))
                    if self.accept:
                        break
                elif kind >> 4 == 8:
                    self.subscribed.append(body[4:-1])
                    self.quality.append(body[-1])
                    writer.write(bytes([0x90, 3]) + body[:2] + b"\1")
                    self._writers.append(writer)
                    for number in self.unconfirmed:
                        self._send(writer, number, again=number in self.sent)
                elif kind >> 4 == 4:
                    number = int.from_bytes(body)
                    self.confirmed.append(number)
                    self.unconfirmed.pop(number, None)
                elif kind >> 4 == 12:
                    writer.write(b"\xd0\0")
                elif kind >> 4 == 14:
                    break
        if writer in self._writers:
            self._writers.remove(writer)
        writer.close()


def _length(size):
    out = b""
    while True:
        size, low = divmod(size, 128)
        out += bytes([low | (128 if size else 0)])
        if not size:
            return out


async def _read_length(reader):
    size = shift = 0
    while True:
        byte = (await reader.readexactly(1))[0]
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return size
