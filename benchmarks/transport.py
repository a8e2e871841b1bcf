"""Links between two processes on loopback, beside a bare exchange by the same TLS: `python -m benchmarks.transport`.

Messages per second at 10 KB and 1 MB, up to sixteen on their way at once, and bytes per second of messages of 100 MB;
sender and receiver are processes of their own. The bare exchange sends the same bytes over asyncio's own TLS and looks
at none of them. The median of the repetitions counts. Prints a table and writes benchmarks/results/transport.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import write

JOB = "00" * 32
WORKLOADS = {"10 KB": (10_000, 3_000), "1 MB": (1_000_000, 200), "100 MB": (100_000_000, 8)}
"""Bytes of a message and how many are sent per repetition."""
OUTBOX, COMMITTED = 16, 4
"""Messages that wait for confirmation at most, and after how many the receiver confirms."""
REPETITIONS = 5
KINDS = ("link", "bare")
GOALS = {"10 KB": 20_000.0, "1 MB": 900.0}
"""Messages per second."""


def specs(size: int) -> Any:
    import jax

    from tacit.core.contract import Message, unprotected
    from tacit.runtime import MessageSpec, ReleaseSpec

    message = Message(jax.ShapeDtypeStruct((size // 4,), "float32"), ())
    return (MessageSpec(message, "share", False, ReleaseSpec(unprotected, size // 4, True)),)


def watch(directory: Path, name: str) -> Any:
    from tacit.peer.identity.credentials import IdentityWatch
    from tacit.peer.identity.identity import identity_files

    return IdentityWatch(identity_files(directory / name), lambda fault: print(fault, file=sys.stderr))


class Ignored:
    """Counts nothing, but tells of faults."""

    def refused(self, reason: str, name: str | None, detail: str) -> None:
        print("refused", reason, name, detail, file=sys.stderr)

    def lost(self, name: str, reason: str, detail: str) -> None:
        print("lost", name, reason, detail, file=sys.stderr)

    def sent(self, name: str, size: int) -> None: ...
    def received(self, name: str, size: int) -> None: ...
    def accepted(self, name: str) -> None: ...
    def linked(self, name: str, direction: str, up: bool) -> None: ...


class Reception:
    """Hears everybody, takes no letters, and says how far it is."""

    job, position_interval, patience = JOB, 1, 0

    def __init__(self, size: int, at: Any) -> None:
        self.specs, self.at = specs(size), at
        self.listener: Any = None

    def admit(self, name: str) -> None: ...
    def greeted(self, name: str, at_round: int) -> None: ...

    def position(self, name: str) -> Any:
        return self.at

    async def relay_key_message(self, name: str, recipient: str, payload: bytes) -> None: ...
    def noticed(self, name: str, payload: bytes) -> None: ...

    async def serve(self, directory: Path) -> None:
        """Listen, print the port, and go on until the standard input ends."""
        from tacit.peer.transport.listener import Listener

        self.listener = Listener(self, watch(directory, "b"), Ignored())
        print(await self.listener.start("127.0.0.1:0"), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await self.listener.close()


class Dispatch:
    """Has nothing to hear and takes no refusal."""

    job = JOB

    def refused(self, name: str, parcel: Any, reason: str, detail: str) -> None:
        raise SystemExit(f"refused: {reason} {detail}")

    def key_message(self, relay: str, sender: str, payload: bytes) -> None: ...
    def noticed(self, name: str, payload: bytes) -> None: ...


async def receive_link(directory: Path, size: int, count: int) -> None:
    """Take `count` messages at a time and tell the sender after each batch how far it is."""
    from tacit.peer.node.exchange import Position

    class Taking(Reception):
        position_interval = COMMITTED

        def take(self, arrival: Any) -> None:
            arrival.decide(None)
            if arrival.sent % COMMITTED == 0:
                self.at = Position(arrival.sent + 1, 0)
                self.listener.progressed()

    await Taking(size, Position(1, 0)).serve(directory)


async def send_link(directory: Path, port: int, size: int, count: int) -> list[float]:
    """Return the seconds of each repetition, from the first byte to the receiver's word that it has the last."""
    import numpy as np

    from tacit.peer.node.exchange import Parcel, Position
    from tacit.peer.transport.dialer import Dialer

    content = np.random.default_rng(0).normal(size=size // 4).astype("float32").tobytes()

    class Giving(Dispatch):
        def __init__(self) -> None:
            self.specs, self.at, self.end, self.done = specs(size), 1, 1, asyncio.Event()

        def current_round(self) -> int:
            return 1

        def waiting(self, name: str) -> list[Parcel]:
            return [Parcel("peers", 0, t, "b", content) for t in range(self.at, min(self.at + OUTBOX, self.end))]

        def confirmed(self, name: str, position: Position) -> None:
            self.at = position.round
            dialer.wake()
            if self.at == self.end:
                self.done.set()

    giving, identity = Giving(), watch(directory, "a")
    dialer = Dialer(giving, "b", f"127.0.0.1:{port}", identity, Ignored())
    running = asyncio.ensure_future(dialer.run())
    await giving.done.wait()
    times = []
    for repetition in range(REPETITIONS + 1):
        giving.done.clear()
        begun = time.perf_counter()
        giving.end = (repetition + 1) * count + 1
        dialer.wake()
        await giving.done.wait()
        times.append(time.perf_counter() - begun)
    running.cancel()
    return times[1:]


class BareEnd(asyncio.BufferedProtocol):
    """Counts whole messages, and does nothing with them."""

    def __init__(self, size: int, arrived: Callable[[int], None]) -> None:
        self.memory, self.filled, self.count, self.arrived = memoryview(bytearray(size)), 0, 0, arrived
        self.room = asyncio.Event()
        self.room.set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, hint: int) -> memoryview:
        return self.memory[self.filled :]

    def buffer_updated(self, count: int) -> None:
        self.filled += count
        if self.filled == len(self.memory):
            self.filled, self.count = 0, self.count + 1
            self.arrived(self.count)

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()


async def receive_bare(directory: Path, size: int, count: int) -> None:
    """Read messages and answer with one byte after each batch; nothing is parsed, kept or looked at."""

    def end() -> BareEnd:
        made = BareEnd(size, lambda got: made.transport.write(b"x") if got % count == 0 else None)
        return made

    context = watch(directory, "b").credentials().server
    server = await asyncio.get_running_loop().create_server(end, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


async def send_bare(directory: Path, port: int, size: int, count: int) -> list[float]:
    done, context = asyncio.Event(), watch(directory, "a").credentials().client
    transport, end = await asyncio.get_running_loop().create_connection(
        lambda: BareEnd(1, lambda got: done.set()), "127.0.0.1", port, ssl=context
    )
    content, times = os.urandom(size), []
    for _ in range(REPETITIONS + 1):
        done.clear()
        begun = time.perf_counter()
        for _ in range(count):
            transport.write(content)
            await end.room.wait()
        await done.wait()
        times.append(time.perf_counter() - begun)
    transport.close()
    return times[1:]


ROLES = {
    ("link", "receive"): receive_link,
    ("link", "send"): send_link,
    ("bare", "receive"): receive_bare,
    ("bare", "send"): send_bare,
}


def measure(directory: Path, kind: str, size: int, count: int) -> list[float]:
    """Run both processes; returns the seconds of each repetition."""
    command = [sys.executable, "-m", "benchmarks.transport", str(directory), kind]
    numbers = [str(size), str(count)]
    with subprocess.Popen(
        [*command, "receive", "0", *numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as receiver:
        assert receiver.stdin is not None
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        sender = subprocess.run([*command, "send", port, *numbers], stdout=subprocess.PIPE, text=True, check=True)
        receiver.stdin.close()
    times: list[float] = json.loads(sender.stdout)
    return times


SMOKE = {"WORKLOADS": {"1 KB": (1_000, COMMITTED)}, "KINDS": ("link",)}


def main() -> int:
    if len(sys.argv) == 7:
        directory, kind, role, port, size, count = sys.argv[1:]
        arguments = (Path(directory), int(port)) if role == "send" else (Path(directory),)
        times = asyncio.run(ROLES[kind, role](*arguments, int(size), int(count)))
        if role == "send":
            print(json.dumps(times))
        return 0
    from tacit.peer.identity.authority import init_ca, issue
    from tacit.peer.identity.enrolment import install, request

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        init_ca(directory / "authority", "benchmark")
        for name in ("a", "b"):
            wanted = request(name, directory / name)
            certificate = issue(wanted.csr, name, directory / "authority", directory / f"{name}.crt")
            install(certificate, directory / "authority" / "ca.crt", directory / name)
        print(f"{'message':>8}  {'link':>24}  {'bare TLS':>24}  ratio")
        for label, (size, count) in WORKLOADS.items():
            rates = {}
            for kind in KINDS:
                times = measure(directory, kind, size, count)
                rates[kind] = count / statistics.median(times)
            rows.append({"message": label, "bytes": size, "messages_per_second": rates})
            cells = [f"{rates[k]:>9,.1f} /s {rates[k] * size / 1e6:>7,.0f} MB/s" for k in KINDS]
            print(f"{label:>8}  {'  '.join(cells)}  {rates[KINDS[0]] / rates[KINDS[-1]]:.2f}", flush=True)
    missed = [row for row in rows if row["messages_per_second"]["link"] < GOALS.get(row["message"], 0.0)]
    for row in missed:
        print(f"{row['message']}: the goal of {GOALS[row['message']]:,.0f} messages/s was missed")
    write("transport", {"rows": rows}, "cryptography")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
