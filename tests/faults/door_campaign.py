"""Peers at whose doors a crowd stands: `python -m tests.faults.door_campaign`.

    python -m tests.faults.door_campaign --share 0.8                   5,000 idle connections
    python -m tests.faults.door_campaign --share 0.8 --unpaced         while rounds follow each other at once
    python -m tests.faults.door_campaign --connections 200 --files 128 --seconds 5

Three peers learn in a ring. One of them may have few files open; idle connections, and others that stop in the middle of a
handshake, are held at its port and at its loopback port, from several addresses, and made again where they are closed. It
also sends to four that are no peers, and hears two (`bad_neighbours`): readers that take nothing, a few bytes at a time or
fall silent, and links that are frozen before the handshake, after it and after the hello, again and again. Meanwhile its
neighbour is killed and comes back. Then the crowd is gone, and a process of its own uses as much of the processor as the
crowd did, and does nothing else: that much anybody on the same cores takes away. Prints rounds per second before, during, beside that
process and after, and what the doors did; the exit code is 1 if rounds stopped, or were slower than `--share` of
before. The ratio to those beside that process is told beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tacit.deploy.assignment import plan_of
from tacit.peer.machine.claims import GIVEN_UP_AFTER
from tacit.peer.transport.codec import Codec
from tests.faults.bad_neighbours import DEAF, FROZEN, HAILED, MUTE, SLOW, STIFF, BadNeighbours
from tests.faults.crowd import HALF_A_HELLO, Crowd
from tests.faults.processes import Federation, PeerFailedError

RING = {"a": ["b"], "b": ["c"], "c": ["a"]}
BAD = {"d": DEAF, "e": MUTE, "f": SLOW, "g": STIFF}
HALF_OPEN = {"h": FROZEN, "i": HAILED}
"""Whom the crowded peer dials, and who dials it."""
VICTIM, CALLER = "a", "c"
"""Who is crowded, and who dials it."""
STRANGERS = tuple(f"127.0.0.{k}" for k in range(2, 18))
"""Addresses of the crowd. From a neighbour's own address it may keep that neighbour away for as long as it lasts."""
LONGEST_WAIT = 600.0
BURN = """
import sys, time
load, begun = float(sys.argv[1]), time.monotonic()
while True:
    while time.process_time() < load * (time.monotonic() - begun):
        pass
    time.sleep(0.002)
"""


class Figures(NamedTuple):
    """What a crowd did to a peer."""

    before: float
    during: float
    beside: float
    """In the place of the crowd a process that uses as much of the processor as it did."""
    after: float
    """Rounds per second."""
    load: float
    """Processors that the crowd used, with the connections that its own system made for it."""
    opened: int
    closed: int
    most: int
    back: float | None
    """Seconds until the neighbour that was killed in the crowd was heard again, its start included."""
    refusals: dict[str, int]
    files: int
    """Most descriptors that were seen in use."""
    welcomes: dict[str, int]
    """Links that each bad neighbour has taken, or made."""
    growth: float
    """MiB by which the peer's memory grew in the crowd."""


def limited(files: int) -> list[str]:
    """Return the words in front of a command that limit its open files."""
    return ["bash", "-c", f'ulimit -n {files}; exec "$@"', "limited"]


def pace(federation: Federation, seconds: float) -> float:
    """Return a peer's rounds per second, over some time and at least one round."""
    federation.look()
    first, begun = federation.round(VICTIM), time.monotonic()
    while (passed := time.monotonic() - begun) < seconds or federation.round(VICTIM) == first:
        if passed > LONGEST_WAIT:
            raise PeerFailedError(f"no round of {VICTIM} in {passed:.0f} s")
        time.sleep(0.05)
        federation.look()
    return (federation.round(VICTIM) - first) / passed


def asked(federation: Federation, path: str) -> bytes:
    """Ask the crowded peer on its loopback port, as often as it takes."""
    control = json.loads(federation.members[VICTIM].settings().control.read_text())
    end = time.monotonic() + LONGEST_WAIT
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{control['port']}{path}", timeout=10) as answer:
                return bytes(answer.read())
        except OSError:
            if time.monotonic() > end:
                raise


def refusals(federation: Federation) -> dict[str, int]:
    """Return what the crowded peer refused, by reason."""
    rows = re.findall(r'tacit_refusals_total\{reason="([^"]+)"\} (\d+)', asked(federation, "/metrics").decode())
    return {reason: int(count) for reason, count in rows if int(count)}


def besieged(
    directory: Path,
    connections: int,
    files: int | None,
    seconds: float,
    *,
    alone: bool = False,
    kill: bool = True,
    interval: float = 0.05,
) -> Figures:
    """Let peers learn before, in and after a crowd; rounds begin `interval` seconds after each other, at least."""
    others = {} if alone else {**BAD, **HALF_OPEN}
    graph = {name: [*to, *(BAD if name == VICTIM else ())] for name, to in RING.items()} if others else {VICTIM: []}
    graph |= {name: [VICTIM] if name in HALF_OPEN else [] for name in others}
    inside = {VICTIM: limited(files)} if files else {}
    with Federation(
        directory, graph, "loss_tolerant_push_sum", inside=lambda name: inside.get(name, ()), interval=interval
    ) as federation:
        _start(federation, [name for name in graph if name not in others])
        _settled(federation)
        before, own = _timed(federation, seconds)
        victim = federation.members[VICTIM]
        port = int(victim.settings().peer.listen.rpartition(":")[2])
        local = json.loads(victim.settings().control.read_text())["port"]
        with contextlib.ExitStack() as stack:
            small = _memory(victim.pid)
            bad = {name: _place(federation, name, kind) for name, kind in others.items()}
            neighbours = stack.enter_context(BadNeighbours(bad, _hello(federation) if others else b""))
            idle = stack.enter_context(Crowd(port, connections, sources=STRANGERS))
            stack.enter_context(Crowd(port, connections // 4, says=HALF_A_HELLO, sources=STRANGERS))
            stack.enter_context(Crowd(local, connections // 4))
            _settled(federation)
            during, load = _timed(federation, seconds)
            open_files = len(list(Path(f"/proc/{victim.pid}/fd").iterdir()))
            back = _come_back(federation) if kill and not alone else None
            counted, growth = refusals(federation), _memory(victim.pid) - small
        with burning(load - own):
            beside = pace(federation, seconds)
        after = pace(federation, seconds)
        codes = federation.stop()
        if any(codes.values()):
            raise PeerFailedError(f"exit codes {codes}")
    opened = idle.opened, idle.closed, idle.most
    return Figures(
        before, during, beside, after, load - own, *opened, back, counted, open_files, neighbours.welcomed, growth
    )


def _start(federation: Federation, names: Sequence[str]) -> None:
    """Start some, and wait until all have done a round."""
    for name in names:
        federation.members[name].start()
    for name in names:
        since = federation.members[name].spawned
        federation.await_event(name, since, lambda e: e["event"] == "phase over" and e["over"], 180.0, "a round")


def _timed(federation: Federation, seconds: float) -> tuple[float, float]:
    """Return a peer's rounds per second, and the processors that this process used meanwhile."""
    used, begun = time.process_time(), time.monotonic()
    rounds = pace(federation, seconds)
    return rounds, (time.process_time() - used) / (time.monotonic() - begun)


def _settled(federation: Federation) -> None:
    """Wait for the phases that a peer waits for a neighbour that is not there, or comes and sends nothing."""
    federation.look()
    end = federation.round(VICTIM) + GIVEN_UP_AFTER + 1
    while federation.round(VICTIM) <= end:
        pace(federation, 0.1)


@contextlib.contextmanager
def burning(load: float) -> Iterator[None]:
    """Have a process use so much of one processor."""
    if load <= 0:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", BURN, str(load)]) as process:
        try:
            yield
        finally:
            process.kill()


def _hello(federation: Federation) -> bytes:
    """Return the first words of one that dials and goes on to say nothing."""
    plan = plan_of(federation.members[min(HALF_OPEN)].settings())
    return Codec(plan.job, plan.specs).hello(0).frame()


def _come_back(federation: Federation) -> float:
    caller = federation.members[CALLER]
    caller.kill()
    caller.start()
    return federation.await_heard(CALLER, VICTIM, caller.spawned, LONGEST_WAIT) - caller.spawned


def _place(federation: Federation, name: str, kind: str) -> tuple[Path, str, str]:
    settings = federation.members[name].settings()
    at = federation.members[VICTIM].settings() if name in HALF_OPEN else settings
    return settings.identity, at.peer.listen, kind


def _memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.door_campaign", description=__doc__)
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument(
        "--files", type=int, help="open files that the crowded peer may have; by default as many as here"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each part (10)")
    parser.add_argument("--share", type=float, default=0.0, help="of the speed that is expected in the crowd")
    parser.add_argument("--unpaced", action="store_true", help="let rounds follow each other at once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="doors-") as folder:
        try:
            found = besieged(
                Path(folder) / "peers",
                options.connections,
                options.files,
                options.seconds,
                interval=0.0 if options.unpaced else 0.05,
            )
        except PeerFailedError as error:
            print(f"failed: {error}")
            return 1
    for name, value in found._asdict().items():
        print(f"{name:>9}: {value:.2f}" if isinstance(value, float) else f"{name:>9}: {value}")
    shares = found.during / found.before, found.during / found.beside
    print(f"in the crowd {shares[0]:.2f} of the speed before, {shares[1]:.2f} of that beside a process of its load")
    return 0 if shares[0] >= options.share else 1


if __name__ == "__main__":
    sys.exit(main())
