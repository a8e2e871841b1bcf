"""Peers as real processes (`tacit peer run`), each with its own directory, and all that their logs say."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tomli_w

from tacit.config.peer import PeerSettings, load_peer
from tacit.deploy.swarm import one_thread
from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.enrolment import install, request
from tests.deploy.homes import free_ports

FEATURES = 3
NOISE: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "laplace": ({"epsilon": 2.0}, {"epsilon": 2.0}),
    "correlated": ({"rounds": 25, "rho": 0.5}, {"rho": 0.5}),  # a new block every few seconds
}
"""Kind -> settings, and the budget: what one release costs, or one block, since a row is used in one round only."""
LOOK_EVERY = 0.05
"""Seconds between two looks at the logs."""


class Member:
    """One peer: its files, its process, its log."""

    def __init__(self, name: str, directory: Path, inside: Sequence[str]) -> None:
        self.name, self.directory, self._inside = name, directory, list(inside)
        self.process: subprocess.Popen[bytes] | None = None
        self.spawned = 0.0
        """When, in seconds of the wall clock, the last start was."""
        self.events: list[dict[str, Any]] = []
        """All that the log holds, with `at` in seconds of the wall clock."""
        self.round = 0
        """The last one that it has finished, by its log."""
        self._read = 0

    @property
    def file(self) -> Path:
        """Its settings."""
        return self.directory / "peer.toml"

    @property
    def pid(self) -> int:
        """Process id of the last start."""
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.poll() is None

    def settings(self) -> PeerSettings:
        """Return its settings as the product reads them."""
        return load_peer(self.file)

    def start(self) -> None:
        """Start it, to go on from its store if it has one."""
        command = [*self._inside, str(Path(sys.executable).with_name("tacit")), "peer", "run", "peer.toml"]
        with (self.directory / "log.jsonl").open("ab") as log:
            self.spawned = time.time()
            self.process = subprocess.Popen(
                command, cwd=self.directory, env=one_thread(os.environ), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
            )  # fmt: skip

    def send(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it on the spot."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(300)

    def look(self) -> list[dict[str, Any]]:
        """Return what the log says since the last look; what is no event is an error of the process."""
        with (self.directory / "log.jsonl").open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        news = []
        for line in whole.splitlines():
            try:
                event = json.loads(line)
            except ValueError:  # a line that a kill cut short, or what Python has to say
                event = {"event": "(not an event)", "level": "note", "text": line.decode(errors="replace")}
            event["at"] = datetime.fromisoformat(event["time"]).timestamp() if "time" in event else self.spawned
            if event["event"] == "phase over" and event["over"]:
                self.round = max(self.round, event["round"])
            news.append(event)
        self.events += news
        return news


class Federation:
    """Peers by name; whatever still runs at the end is killed."""

    def __init__(
        self,
        directory: Path,
        sends_to: Mapping[str, Sequence[str]],
        algorithm: str,
        *,
        noise: str = "laplace",
        addresses: Mapping[str, str] | None = None,
        inside: Callable[[str], Sequence[str]] = lambda name: (),
        pushed: Sequence[str] = (),
        rows: int = 20_000,
        interval: float = 0.1,
        deadline: float = 2.0,
        level: str = "debug",
    ) -> None:
        """Write all files; `pushed` get their samples by HTTP, the others have a file of `rows` samples."""
        settings, budget = NOISE[noise]
        self.directory, self.algorithm, self.sends_to = directory, algorithm, dict(sends_to)
        self.hears = {name: [other for other, to in sends_to.items() if name in to] for name in sends_to}
        self.members = {name: Member(name, directory / name, inside(name)) for name in sends_to}
        self.pushed = tuple(pushed)
        ports = free_ports(len(sends_to))
        places = addresses or {name: f"127.0.0.1:{port}" for name, port in zip(sends_to, ports, strict=True)}
        job = {
            "job": {"name": "faults", "features": FEATURES, "batch": 2, "dtype": "float64"},
            "members": {"peer": list(sends_to)},
            "objective": {"kind": "logistic", "l2": 1e-3},
            "algorithm": {
                "name": algorithm,
                "step": 0.2,
                "mechanism": {"kind": noise, "clip": 1.0, **settings},
            },
        }
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "job.toml").write_text(tomli_w.dumps(job))
        init_ca(directory / "ca", "faults")
        for number, (name, member) in enumerate(self.members.items()):
            stream = {"kind": "push"} if name in pushed else {"kind": "csv", "path": "samples.csv", "label": "y"}
            peer = {
                "job": "../job.toml",
                "peer": {"name": name, "listen": places[name]},
                "links": {"peers": {"sends_to": list(sends_to[name]), "hears": self.hears[name]}},
                "addresses": {other: places[other] for other in sends_to[name]},
                "privacy": {**budget, "witness": "witness.json"},
                "stream": stream,
                "rounds": {"deadline": deadline, "patience": 0.05, "interval": interval},
                "operations": {"level": level},
            }
            member.directory.mkdir()
            member.file.write_text(tomli_w.dumps(peer))
            if name not in pushed:
                _write_samples(member.directory / "samples.csv", rows, number)
            identity = member.directory / "identity"
            asked = request(name, identity)
            certificate = issue(asked.csr, name, directory / "ca", member.directory / "certificate.crt")
            install(certificate, directory / "ca" / "ca.crt", identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members.values():
            if member.running:
                member.kill()

    def start(self, seconds: float = 180.0, *, without: Collection[str] = ()) -> None:
        """Start everybody but some, and wait until all have done a round with all their neighbours."""
        started = [name for name in self.members if name not in without]
        for name in started:
            self.members[name].start()
        for name in started:
            self.await_whole_round(name, self.members[name].spawned, seconds)

    def look(self) -> None:
        """Read all logs on; a peer that ended by itself, or an error in a log, ends the campaign."""
        for member in self.members.values():
            for event in member.look() if (member.directory / "log.jsonl").exists() else ():
                if event["level"] == "error" or "Traceback" in event.get("text", ""):
                    raise PeerFailedError(f"{member.name} logged {event}")

    def await_event(
        self, name: str, since: float, wanted: Callable[[dict[str, Any]], bool], seconds: float, what: str
    ) -> float:
        """Wait for an event of a peer that is later than `since`; returns when it was."""
        end, checked = time.monotonic() + seconds, 0
        member = self.members[name]
        while True:
            self.look()
            for event in member.events[checked:]:
                if event["at"] >= since and wanted(event):
                    return float(event["at"])
            checked = len(member.events)
            if not member.running:
                raise PeerFailedError(
                    f"{name} ended with exit code {member.process and member.process.returncode}: {member.events[-3:]}"
                )
            if time.monotonic() > end:
                raise PeerFailedError(f"{name}: waited {seconds:g} s for {what}; its last events: {member.events[-5:]}")
            time.sleep(LOOK_EVERY)

    def await_whole_round(self, name: str, since: float, seconds: float) -> float:
        """Wait until a peer has finished a round in which it heard all of its neighbours."""
        return self.await_event(name, since, _whole_round, seconds, "a round with all neighbours")

    def await_heard(self, sender: str, receiver: str, since: float, seconds: float) -> float:
        """Wait until a message of `sender` has come to `receiver`."""
        return self.await_event(
            receiver,
            since,
            lambda e: e["event"] == "message" and e["neighbour"] == sender,
            seconds,
            f"a message of {sender}",
        )

    def round(self, name: str) -> int:
        """Return the last round that a peer has finished, by its log."""
        return self.members[name].round

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Hold all processes where they are."""
        held = [member for member in self.members.values() if member.running]
        try:
            for member in held:
                member.send(signal.SIGSTOP)
            yield
        finally:
            for member in held:
                member.send(signal.SIGCONT)

    def stop(self, seconds: float = 60.0) -> dict[str, int]:
        """Stop everybody as an operator would; returns the exit codes."""
        running = [member for member in self.members.values() if member.running]
        for member in running:
            member.send(signal.SIGTERM)
        codes = {}
        for member in running:
            assert member.process is not None
            codes[member.name] = member.process.wait(seconds)
        self.look()
        return codes


class PeerFailedError(AssertionError):
    """A peer did what it must not, or not what it must."""


def _whole_round(event: Mapping[str, Any]) -> bool:
    return bool(event["event"] == "phase over" and event["over"] and not event["missing"])


def _write_samples(path: Path, rows: int, seed: int) -> None:
    chance = random.Random(seed)
    with path.open("w") as file:
        file.write("a,b,c,y\n")
        for _ in range(rows):
            values = [chance.gauss(0, 1) for _ in range(FEATURES)]
            file.write(",".join(f"{value:.4f}" for value in values) + f",{int(sum(values) > 0)}\n")
