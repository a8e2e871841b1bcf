"""What a message takes at the socket if 2 % of a model is shared: `python -m benchmarks.partial_sharing`.

Sender and receiver are processes of their own with mutual TLS on loopback, and the kernel counts the bytes at the
sender's socket. Messages of m of d numbers (float32) go one by one, each is confirmed before the next, and then the
same with all d. Beside the ratio stands what `tacit.peer.transport.traffic` predicts. Prints a table and writes
benchmarks/results/partial_sharing.json. Exit code 1 if a prediction is off by more than 10 %.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import write
from benchmarks.transport import JOB, Dispatch, Ignored, Reception, specs, watch

MODELS = ((4, 200), (40, 2_000), (400, 20_000), (4_000, 200_000))
"""Numbers that are shared, and of how many."""
MESSAGES, FIRST = 50, 200
"""How many are sent, from which round on."""
PATIENCE = 300.0
"""Seconds for all messages of one size."""
CLOSE = 0.1
"""How far from the prediction a measurement may be."""


class Cost(NamedTuple):
    """Bytes per message at the socket of whoever sends it."""

    out: float
    """The message."""
    back: float
    """Its confirmation."""
    connection: int
    """Before the first message, both directions."""


def form(numbers: int, kind: str = "") -> Any:
    """Return the form of messages of so many numbers, as they are or compressed (`tacit.algorithms.compressed`)."""
    (plain,) = specs(4 * numbers)
    if not kind:
        return (plain,)
    from tacit.algorithms._compressors import COMPRESSORS

    return (plain._replace(packing=COMPRESSORS[kind]().packing),)


async def receive(directory: Path, numbers: int, kind: str) -> None:
    """Take messages and confirm each of them."""
    from tacit.peer.node.exchange import Position

    class Taking(Reception):
        def take(self, arrival: Any) -> None:
            arrival.decide(None)
            self.at = Position(arrival.sent + 1, 0)
            asyncio.get_running_loop().call_soon(self.listener.progressed)  # when it is noted that it was taken in

    taking = Taking(4 * numbers, Position(FIRST, 0))
    taking.specs = form(numbers, kind)
    await taking.serve(directory)


async def send(directory: Path, port: int, numbers: int, kind: str, content: bytes) -> Cost:
    """Send one message after the other, and return what the socket has carried."""
    from tacit.peer.node.exchange import Parcel, Position
    from tacit.peer.transport.dialer import Dialer
    from tacit.peer.transport.sockets import tcp_bytes

    class Giving(Dispatch):
        def __init__(self) -> None:
            self.specs, self.content, self.at, self.end = form(numbers, kind), content, 0, FIRST
            self.changed = asyncio.Event()

        def current_round(self) -> int:
            return FIRST

        def waiting(self, name: str) -> list[Parcel]:
            return [Parcel("uplink", 0, self.at, "b", self.content)] if self.at < self.end else []

        def confirmed(self, name: str, position: Position) -> None:
            self.at = position.round
            self.changed.set()
            dialer.wake()

        async def until(self, round_: int) -> None:
            while self.at < round_:
                self.changed.clear()
                await self.changed.wait()

    giving, identity = Giving(), watch(directory, "a")
    dialer = Dialer(giving, "b", f"127.0.0.1:{port}", identity, Ignored())
    running = asyncio.ensure_future(dialer.run())
    await giving.until(FIRST)
    before = tcp_bytes([port])
    giving.end = FIRST + MESSAGES
    dialer.wake()
    await giving.until(giving.end)
    after = tcp_bytes([port])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    if before is None or after is None:
        raise SystemExit("bytes at sockets can be counted on Linux only")
    carried = after.since(before)
    return Cost(carried.sent / MESSAGES, carried.received / MESSAGES, before.sent + before.received)


def measure(directory: Path, numbers: int, kind: str = "", content: bytes | None = None) -> Cost:
    """Run the receiver as a process, and send to it from this one; without a content zeros."""
    command = [sys.executable, "-m", "benchmarks.partial_sharing", str(directory), str(numbers), kind]
    whole = bytes(4 * numbers) if content is None else content
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdin is not None
        assert receiver.stdout is not None
        try:
            port = int(receiver.stdout.readline())
            cost = asyncio.run(asyncio.wait_for(send(directory, port, numbers, kind, whole), PATIENCE))
        finally:
            receiver.stdin.close()
    return cost


def predict(numbers: int, kind: str = "") -> Cost:
    """Return what it should be."""
    from tacit.peer.transport.codec import Codec
    from tacit.peer.transport.traffic import CONNECTION, message_bytes, position_bytes

    codec = Codec(JOB, form(numbers, kind))
    return Cost(message_bytes(codec, 0, FIRST), position_bytes(FIRST), CONNECTION)


def enrol(directory: Path) -> None:
    """Give both ends an identity."""
    from tacit.peer.identity.authority import init_ca, issue
    from tacit.peer.identity.enrolment import install, request

    init_ca(directory / "authority", "benchmark")
    for name in ("a", "b"):
        wanted = request(name, directory / name)
        certificate = issue(wanted.csr, name, directory / "authority", directory / f"{name}.crt")
        install(certificate, directory / "authority" / "ca.crt", directory / name)


SMOKE = {"MODELS": ((4, 200),), "MESSAGES": 5}


def main() -> int:
    """Measure, print and save; or be the receiver."""
    if len(sys.argv) == 4:
        asyncio.run(receive(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        enrol(directory)
        titles = ("shared", "of", "message", "all of it", "ratio", "with confirmations", "prediction off by")
        print("  ".join(f"{title:>17}" for title in titles))
        for share, size in MODELS:
            part, whole = measure(directory, share), measure(directory, size)
            off = max(error(part, predict(share)), error(whole, predict(size)))
            row = {
                "shared": share,
                "of": size,
                "part": part._asdict(),
                "whole": whole._asdict(),
                "ratio_sent": part.out / whole.out,
                "ratio_both_ways": (part.out + part.back) / (whole.out + whole.back),
                "prediction_error": off,
            }
            rows.append(row)
            cells = (f"{share:,}", f"{size:,}", f"{part.out:,.1f}", f"{whole.out:,.1f}")
            shares = (f"{row['ratio_sent']:.2%}", f"{row['ratio_both_ways']:.2%}", f"{off:.1%}")
            print("  ".join(f"{cell:>17}" for cell in (*cells, *shares)), flush=True)
    write("partial_sharing", {"rows": rows}, "jax")
    return 0 if all(row["prediction_error"] <= CLOSE for row in rows) else 1


def error(found: Cost, expected: Cost) -> float:
    """Return by which share a measurement is off a prediction at most."""
    return max(abs(a / b - 1) for a, b in zip(found, expected, strict=True))


if __name__ == "__main__":
    sys.exit(main())
