"""Peers at whose doors a crowd stands: `python -m tests.faults.door_campaign`.

    python -m tests.faults.door_campaign                               5,000 idle connections
    python -m tests.faults.door_campaign --connections 200 --files 128 --seconds 5

Three peers learn in a ring. One of them may have few files open; idle connections, and others that stop in the middle of a
handshake, are held at its port and at its loopback port. It also sends to two that are no peers: one reads nothing and
says that it lives, the other falls silent, again and again. Meanwhile its neighbour is killed and comes back. Prints
rounds per second before, during and after, and what the doors did; the exit code is 1 if rounds stopped, or were slower
than `--share` of before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from tests.faults.bad_neighbours import DEAF, MUTE, BadNeighbours
from tests.faults.crowd import HALF_A_HELLO, Crowd
from tests.faults.processes import Federation, PeerFailedError

RING = {"a": ["b"], "b": ["c"], "c": ["a"]}
BAD = {"d": DEAF, "e": MUTE}
VICTIM, CALLER = "a", "c"
"""Who is crowded, and who dials it."""
STRANGERS = tuple(f"127.0.0.{k}" for k in range(2, 18))
"""Addresses of the crowd. From a neighbour's own address it may keep that neighbour away for as long as it lasts."""
LONGEST_WAIT = 600.0


class Figures(NamedTuple):
    """What a crowd did to a peer."""

    before: float
    during: float
    after: float
    """Rounds per second."""
    opened: int
    closed: int
    most: int
    back: float | None
    """Seconds until the neighbour that was killed in the crowd was heard again, its start included."""
    refusals: dict[str, int]
    files: int
    """Most descriptors that were seen in use."""
    welcomes: dict[str, int]
    """Links that each bad neighbour has taken."""
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
    directory: Path, connections: int, files: int | None, seconds: float, *, alone: bool = False, kill: bool = True
) -> Figures:
    """Let peers learn before, in and after a crowd."""
    graph = {VICTIM: []} if alone else {**RING, VICTIM: [*RING[VICTIM], *BAD], **{name: [] for name in BAD}}
    inside = {VICTIM: limited(files)} if files else {}
    with Federation(
        directory, graph, "loss_tolerant_push_sum", inside=lambda name: inside.get(name, ()), interval=0.05
    ) as federation:
        bad = {name: kind for name, kind in BAD.items() if name in graph}
        federation.start(without=bad)
        before = pace(federation, seconds)
        victim = federation.members[VICTIM]
        port = int(victim.settings().peer.listen.rpartition(":")[2])
        local = json.loads(victim.settings().control.read_text())["port"]
        with contextlib.ExitStack() as stack:
            small = _memory(victim.pid)
            neighbours = stack.enter_context(BadNeighbours({n: _place(federation, n, k) for n, k in bad.items()}))
            idle = stack.enter_context(Crowd(port, connections, sources=STRANGERS))
            stack.enter_context(Crowd(port, connections // 4, says=HALF_A_HELLO, sources=STRANGERS))
            stack.enter_context(Crowd(local, connections // 4))
            during = pace(federation, seconds)
            used = len(list(Path(f"/proc/{victim.pid}/fd").iterdir()))
            back = _come_back(federation) if kill and not alone else None
            counted, growth = refusals(federation), _memory(victim.pid) - small
        after = pace(federation, seconds)
        codes = federation.stop()
        if any(codes.values()):
            raise PeerFailedError(f"exit codes {codes}")
    return Figures(
        before, during, after, idle.opened, idle.closed, idle.most, back, counted, used, neighbours.welcomed, growth
    )


def _come_back(federation: Federation) -> float:
    caller = federation.members[CALLER]
    caller.kill()
    caller.start()
    return federation.await_heard(CALLER, VICTIM, caller.spawned, LONGEST_WAIT) - caller.spawned


def _place(federation: Federation, name: str, kind: str) -> tuple[Path, str, str]:
    settings = federation.members[name].settings()
    return settings.identity, settings.peer.listen, kind


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
    parser.add_argument("--share", type=float, default=0.0, help="of the speed before that is expected in the crowd")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="doors-") as folder:
        try:
            found = besieged(Path(folder) / "peers", options.connections, options.files, options.seconds)
        except PeerFailedError as error:
            print(f"failed: {error}")
            return 1
    for name, value in found._asdict().items():
        print(f"{name:>9}: {value:.1f}" if isinstance(value, float) else f"{name:>9}: {value}")
    return 0 if found.during >= options.share * found.before else 1


if __name__ == "__main__":
    sys.exit(main())
