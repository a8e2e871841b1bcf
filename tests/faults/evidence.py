"""What peers have released, as their neighbours saw it, held against what they have booked.

Every receiver logs a digest of each message that reaches it, before it decides what to do with it. Stores are copied
while all processes are stopped, or after they were killed, and opened by the product itself, which verifies them.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from tacit.config.peer import PeerSettings
from tacit.deploy.assignment import plan_of
from tacit.peer.machine.functions import AgentFunctions
from tacit.peer.node.assignment import Plan
from tacit.peer.node.exchange import Position
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.privacy.ledger import inspect
from tests.faults.processes import NOISE, Federation, PeerFailedError

BLOCK = NOISE["correlated"][0]["rounds"]
RELEASE = re.compile(r"peer (\d+) round (\d+) phase (\d+)")
TOLERANCE = 1e-9
"""Of the mass, which is in double precision."""
RUNNING_TOTALS = {"loss_tolerant_push_sum"}
"""Methods whose messages are what was pushed over a link so far."""

Step = tuple[int, int]
"""Round and phase."""


class Figures(NamedTuple):
    """What was found to be in order."""

    releases: int
    """That neighbours have seen."""
    booked: int
    observations: int
    """Messages that reached a receiver, repetitions included."""
    mass: float
    remembered: int
    """Releases that the memories of correlated noise count."""


class Evidence:
    """Looks at a federation; `violations` holds all that must not be."""

    def __init__(self, federation: Federation, messages: bool = True) -> None:
        """Without `messages`, of peers that do not log them, what receivers saw is not looked at."""
        self.federation, self._messages = federation, messages
        self.violations: list[str] = []
        self.observations = 0
        self._digests: dict[tuple[str, Step], dict[str, str]] = defaultdict(dict)
        """(sender, step) -> receiver -> digest of what it saw."""
        self._seen: dict[tuple[str, str], set[Step]] = defaultdict(set)
        """(sender, receiver) -> steps."""
        self._finished = dict.fromkeys(federation.members, 0)
        self._read = dict.fromkeys(federation.members, 0)
        self._settings: dict[str, PeerSettings] = {}
        self._plans: dict[str, Plan] = {}
        self._functions: AgentFunctions | None = None
        self._last_booked: dict[str, int] = {}

    def read_logs(self) -> None:
        """Take in what receivers have seen since the last time."""
        self.federation.look()
        for name, member in self.federation.members.items():
            for event in member.events[self._read[name] :]:
                if event["event"] == "message":
                    self._observe(event["neighbour"], name, (event["round"], event["phase"]), event["digest"])
                elif event["event"] == "phase over" and event["over"]:
                    if event["round"] < self._finished[name]:
                        self.violations.append(f"{name} finished {event['round']} after {self._finished[name]}")
                    self._finished[name] = event["round"]
            self._read[name] = len(member.events)

    def after_kill(self, name: str) -> None:
        """Check the store of a peer that does not run, as it was left."""
        self.read_logs()
        settings = self._settings_of(name)
        if not settings.store.exists():
            return
        booked = self._booked(settings.store, settings.witness)
        self._check_booked(name, booked)
        if settings.job.algorithm.phases[0].mechanism.correlation is None:
            return
        with tempfile.TemporaryDirectory() as directory:
            node = self._node(name, *self._copied(name, Path(directory) / name))
            self._check_memory(name, node, booked)
            node.store.close()

    def at_rest(self) -> Figures:
        """Check everybody at one moment; all are stopped for it."""
        with tempfile.TemporaryDirectory() as directory:
            copies = {}
            with self.federation.frozen():
                self.read_logs()
                for name in self.federation.members:
                    copies[name] = self._copied(name, Path(directory) / name)
            booked = {name: self._booked(*copy) for name, copy in copies.items()}
            for name, steps in booked.items():
                self._check_booked(name, steps)
            nodes = {name: self._node(name, *copy) for name, copy in copies.items()}
            try:
                mass = self._check_nodes(nodes, booked)
            finally:
                for node in nodes.values():
                    node.store.close()
        remembered = sum(map(_remembered, nodes.values()))
        return Figures(len(self._digests), sum(map(len, booked.values())), self.observations, mass, remembered)

    # ------------------------------------------------------------------------------------------------------------------

    def _observe(self, sender: str, receiver: str, step: Step, digest: str) -> None:
        self.observations += 1
        found = self._digests[sender, step]
        found.setdefault(receiver, digest)
        self._seen[sender, receiver].add(step)
        # All out-links of a peer weigh the same here, so that even two receivers get the very same bytes. Not of running
        # totals: nothing is pushed to one that was long silent, whose total stays behind.
        forms = {found[receiver], digest}
        if self.federation.algorithm not in RUNNING_TOTALS:
            forms |= set(found.values())
        if len(forms) > 1:
            self.violations.append(f"{sender} released round and phase {step} in {len(forms)} forms: {found}, {digest}")

    def _booked(self, store: Path, witness: Path | None) -> list[Step]:
        entries = inspect(store, lambda replay: [(entry.release, event.series) for entry, event in replay], witness)
        steps = []
        for number, (name, series) in enumerate(entries):
            parts = RELEASE.fullmatch(name)
            assert parts is not None, name
            steps.append((int(parts[2]), int(parts[3])))
            if series is not None and (series.block, series.place) != (number // BLOCK, number % BLOCK + 1):
                self.violations.append(f"{store}: release {number + 1} is booked as {series}")
        return steps

    def _check_booked(self, name: str, booked: list[Step]) -> None:
        if booked != sorted(set(booked)):
            self.violations.append(f"{name} has booked a step twice, or out of order")
        seen = set().union(*(self._seen[name, receiver] for receiver in self.federation.sends_to[name]))
        if seen - set(booked):
            self.violations.append(f"{name} released {sorted(seen - set(booked))[:5]} and has not booked it")
        if len(booked) < self._last_booked.get(name, 0):
            self.violations.append(f"{name} had booked {self._last_booked[name]} releases, now {len(booked)}")
        self._last_booked[name] = len(booked)

    def _check_memory(self, name: str, node: Node, booked: list[Step]) -> None:
        """What the memory of the noise counts is what was booked, neither less (drawn again) nor more."""
        if node.machine.memories[0] is not None and _remembered(node) != len(booked):
            self.violations.append(f"{name} remembers the noise of {_remembered(node)} releases, booked {len(booked)}")

    def _check_nodes(self, nodes: Mapping[str, Node], booked: Mapping[str, list[Step]]) -> float:
        for name, node in nodes.items():
            self._check_memory(name, node, booked[name])
            rounds = [at_round for at_round, _ in booked[name]]
            if rounds and rounds[-1] != node.round:
                self.violations.append(f"{name} stands in round {node.round}, and has booked up to {rounds[-1]}")
            if node.waits:
                if rounds != list(range(1, len(rounds) + 1)):
                    self.violations.append(f"{name} has left out a round")
                for receiver in node.sends_to if self._messages else ():
                    waiting = {(parcel.round, parcel.phase) for parcel in node.outbox.parcels[receiver]}
                    lost = set(booked[name]) - self._seen[name, receiver] - waiting
                    if lost:
                        self.violations.append(f"{receiver} never got {sorted(lost)[:5]} of {name}")
        mass = MASS[self.federation.algorithm](self.federation, nodes)
        if abs(mass - len(nodes)) > TOLERANCE * len(nodes):
            self.violations.append(f"the mass is {mass!r}, expected {len(nodes)}")
        return mass

    def _settings_of(self, name: str) -> PeerSettings:
        if name not in self._settings:
            self._settings[name] = self.federation.members[name].settings()
        return self._settings[name]

    def _copied(self, name: str, directory: Path) -> tuple[Path, Path]:
        settings = self._settings_of(name)
        assert settings.witness is not None
        directory.mkdir()
        for path in settings.store.parent.glob(settings.store.name + "*"):
            if not path.name.endswith(("-shm", ".control", ".programs")):
                shutil.copyfile(path, directory / path.name)
        return directory / settings.store.name, Path(shutil.copyfile(settings.witness, directory / "witness.json"))

    def _node(self, name: str, path: Path, witness: Path) -> Node:
        settings = self._settings_of(name)
        if name not in self._plans:
            self._plans[name] = plan_of(settings)
        store = PeerStore.open(path, settings.budget, witness=witness)
        plan = self._plans[name]
        with jax.enable_x64(plan.dtype == "float64"):  # the snapshot's own precision
            node = Node(plan, store, 1.0, 0.0, self._functions)
        self._functions = node.machine.functions
        return node


def _remembered(node: Node) -> int:
    return sum(int(memory.releases) for memory in node.machine.memories if memory is not None)


def _split_mass(federation: Federation, nodes: Mapping[str, Node]) -> float:
    """Push-sum: states between rounds; in a round the part kept, and the parts sent and not yet absorbed."""
    total = 0.0
    for name, node in nodes.items():
        own = node.machine._own
        total += float(node.machine.state.mass if own is None else own.public)
        for receiver in federation.sends_to[name]:
            for parcel in node.outbox.parcels[receiver]:
                if Position(parcel.round, parcel.phase) >= nodes[receiver].position:
                    total += float(node.codec.unpack(parcel.phase, parcel.content).public)
    return total


def _total_mass(federation: Federation, nodes: Mapping[str, Node]) -> float:
    """Running totals: what is held, and for every link what the sender's total is ahead of what was heard of it."""
    total = 0.0
    for name, node in nodes.items():
        total += float(node.machine.state.held.mass)
        for receiver in federation.sends_to[name]:
            slot, place = node.links.book.out[receiver].slot, nodes[receiver].links.book.into[name].slot
            sent, heard = (  # not by JAX, which computes in single precision here
                (np.asarray(running.high.mass), np.asarray(running.low.mass))
                for running in (node.machine.state.sent, nodes[receiver].machine.state.heard)
            )
            under_way = float((sent[0][slot] - heard[0][place]) + (sent[1][slot] - heard[1][place]))
            if under_way < -TOLERANCE:
                raise PeerFailedError(f"{receiver} has heard more of {name} than was sent: {-under_way}")
            total += under_way
    return total


MASS: dict[str, Callable[[Federation, Mapping[str, Node]], float]] = {
    "online_push_sum": _split_mass,
    "loss_tolerant_push_sum": _total_mass,
}
