"""An experiment's whole graph as processes on this machine, with mutual TLS on loopback and a store for each.

    swarm = Swarm(problem, 0, directory)
    with swarm:                    # started here, stopped at the end, whatever happens
        swarm.wait(120)
    models = swarm.models()

Members that [liars] names are processes that lie; the others' file does not say who they are.

A member is stopped by closing its standard input, which also happens when the launcher dies: there are no orphans.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from tacit.config.own_code import own_files
from tacit.core.contract import Params
from tacit.core.errors import ConfigError, RemoteError
from tacit.deploy.member import LONGEST_STOP, MemberSettings
from tacit.deploy.rehearsal import plan_for, refuse_channel, roster, with_lies
from tacit.experiments import Problem
from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.enrolment import install, request
from tacit.results.store import config_bytes

EXPERIMENT, LIARS = "experiment.toml", "liars.toml"
"""Files of the honest members, and of those that lie."""
LAST_LINES = 12
"""Of a member's log, shown when it dies."""


class Privacy(NamedTuple):
    """Budget of every member that draws its noise from entropy and books it."""

    epsilon: float
    delta: float | None = None


@dataclass
class Member:
    """One process."""

    name: str
    directory: Path
    process: subprocess.Popen[str] | None = None
    port: int | None = None
    start: int = 0
    """How often it was started."""
    down: bool = False
    """Whether it was taken down on purpose."""
    finished: Mapping[str, Any] | None = None
    """Report after its last round."""
    first_round: Mapping[str, Any] | None = None
    """Report after the first round since its last start."""
    round: int = 0
    """The last one that it told of."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """Report after that one: see `tacit.deploy.member.facts_of`."""
    exit_codes: list[int] = field(default_factory=list)
    """Of each start that is over."""

    @property
    def pid(self) -> int:
        """Process id."""
        return self.running.pid

    @property
    def running(self) -> subprocess.Popen[str]:
        """The process of the last start."""
        if self.process is None:
            raise ConfigError(f"{self.name} was not started")
        return self.process

    def last_words(self) -> str:
        """Return the last lines of its log."""
        try:
            lines = (self.directory / "member.log").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return "\n".join(f"  | {line}" for line in lines[-LAST_LINES:]) or "  | (its log is empty)"


class Swarm:
    """All members of one of an experiment's algorithms; see the top of this file. Used from one thread."""

    def __init__(
        self,
        problem: Problem,
        algorithm: int,
        directory: Path,
        *,
        privacy: Privacy | None = None,
        record: bool = True,
        deadline: float | None = None,
        told: Callable[[int], object] = lambda done: None,
    ) -> None:
        """Prepare algorithm number `algorithm` (from 0 on); `directory` must be new or empty.

        With `record` every member writes its model of every round. `deadline` is how long a phase of a method that
        can do without a neighbour waits for it, in seconds; without one it waits for all, as in the simulator. `told`
        hears now and then how many rounds all members have finished.
        """
        config = problem.config
        refuse_channel(config)
        self.problem, self.algorithm, self.directory, self._told = problem, algorithm, directory, told
        settings = config.run
        self._own_code = [
            str(file) for file in own_files(choice.function for choice in (config.objective, *config.algorithms))
        ]
        names = roster(problem.algorithms[algorithm], problem.graph(settings.seed))
        self.members = {name: Member(name, directory / name) for role in names.values() for name in role}
        self.learners = learners = names[problem.algorithms[algorithm].learner]
        self.liars = frozenset(learners[k] for k in problem.liars_of(settings.seed))
        """Names of the members that lie."""
        for name in sorted(self.liars)[:1]:
            with_lies(problem, plan_for(problem, algorithm, name))  # refused here, before a process is started
        self._predictors = names[problem.algorithms[algorithm].predictor]
        self._settings = [
            MemberSettings(
                name,
                str(directory.resolve() / (LIARS if name in self.liars else EXPERIMENT)),
                algorithm,
                privacy is not None,
                None if privacy is None else privacy.epsilon,
                None if privacy is None else privacy.delta,
                record,
                deadline,
            )
            for name in self.members
        ]
        self._events: queue.SimpleQueue[tuple[str, int, dict[str, Any] | None]] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        """Start all peers."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all peers."""
        self.stop()

    def start(self, seconds: float = 300.0) -> None:
        """Make an authority and identities, start all members and tell them each other's addresses."""
        self._enrol()
        for member in self.members.values():
            self._launch(member)
        end = time.monotonic() + seconds
        while any(member.port is None for member in self.members.values()):
            self._hear(end)
        book = json.dumps({name: f"127.0.0.1:{member.port}" for name, member in self.members.items()})
        for member in self.members.values():
            stdin = member.running.stdin
            assert stdin is not None
            try:
                stdin.write(book + "\n")
                stdin.flush()
            except BrokenPipeError:
                self._died(member)

    def wait(self, seconds: float) -> None:
        """Return when every member has finished its rounds; raises RemoteError if one dies, or after that time."""
        end = time.monotonic() + seconds
        while any(member.finished is None for member in self.members.values()):
            self._hear(end)

    def kill(self, name: str) -> None:
        """Kill a member on the spot (SIGKILL), on purpose: `wait` goes on without it until it is restarted."""
        member = self.members[name]
        member.down = True
        member.running.kill()
        self._reap(member)

    def restart(self, name: str) -> None:
        """Start a member again at its old address, to go on from its store; one that still runs is killed first."""
        if not self.members[name].down:
            self.kill(name)
        self._launch(self.members[name])

    def await_round(self, name: str, seconds: float) -> float:
        """Wait until a member has finished a round since its last start; returns when, by the monotonic clock."""
        member, end = self.members[name], time.monotonic() + seconds
        while member.first_round is None:
            self._hear(end)
        at: float = member.first_round["at"]
        return at

    def stop(self) -> dict[str, int]:
        """Have all peers stop, kill those that do not; returns the exit codes of the last start."""
        started = [member for member in self.members.values() if member.process is not None]
        for member in started:
            member.down = True
            _close_input(member.running)
        end = time.monotonic() + LONGEST_STOP
        for member in started:
            try:
                member.running.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.running.kill()
            except BaseException:  # a second Ctrl-C: no time to be polite
                for other in started:
                    other.running.kill()
                raise
            finally:
                self._reap(member)
        return {member.name: member.exit_codes[-1] for member in started}

    def models(self, rounds: Sequence[int] | None = None) -> Params:
        """Return the models that were recorded after some rounds, or after all; leading axes (rounds, agents)."""
        algorithm = self.problem.algorithms[self.algorithm]
        rounds = range(1, self.problem.config.run.rounds + 1) if rounds is None else rounds
        files = [[self._written(name, t) for name in self._predictors] for t in rounds]
        leaves = zip(*(_arrays(file) for row in files for file in row), strict=True)
        stacked = [np.stack(leaf).reshape(len(rounds), len(self._predictors), *leaf[0].shape) for leaf in leaves]
        stream = self.problem.stream(self.problem.config.run.seed)
        structure = jax.tree.structure(algorithm.objective.initial(stream.batch_spec()))
        found: Params = jax.tree.unflatten(structure, stacked)
        return found

    # ------------------------------------------------------------------------------------------------------------------

    def _written(self, name: str, t: int) -> Path:
        """Return the file of a member's model after a round: of one in which it rests, that of the last before it."""
        files = (self.directory / name / "models" / f"{before:08d}.npz" for before in range(t, -1, -1))
        return next(file for file in files if file.exists())

    def _enrol(self) -> None:
        if self.directory.exists() and any(self.directory.iterdir()):
            raise ConfigError(f"{self.directory} is not empty: a swarm begins in a new directory; remove it first")
        authority = self.directory / "authority"
        init_ca(authority, "swarm on this machine")
        config = self.problem.config
        (self.directory / EXPERIMENT).write_bytes(config_bytes(replace(config, liars=None).settings()))
        if self.liars:
            (self.directory / LIARS).write_bytes(config_bytes(config.settings()))
        for settings in self._settings:
            directory = self.members[settings.name].directory
            asked = request(settings.name, directory)
            certificate = issue(asked.csr, settings.name, authority, directory / "certificate.crt")
            install(certificate, authority / "ca.crt", directory)
            settings.save(directory)

    def _launch(self, member: Member) -> None:
        member.start += 1
        member.down, member.finished, member.first_round = False, None, None
        with (member.directory / "member.log").open("a") as log:
            member.process = subprocess.Popen(
                [sys.executable, "-m", "tacit.deploy.member", str(member.directory), *self._own_code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=one_thread(os.environ),
            )
        threading.Thread(target=self._listen, args=(member, member.start, member.process), daemon=True).start()

    def _listen(self, member: Member, start: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._events.put((member.name, start, json.loads(line)))
        self._events.put((member.name, start, None))

    def _hear(self, end: float) -> None:
        """Take the next report of any member."""
        try:
            name, start, event = self._events.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            late = [m for m in self.members.values() if m.finished is None]
            words = "\n".join(f"{m.name}:\n{m.last_words()}" for m in late[:2])
            names = ", ".join(m.name for m in late)
            raise RemoteError(
                f"time is up and these have not finished: {names}. The last lines of logs:\n{words}"
            ) from None
        member = self.members[name]
        if start != member.start or member.down:
            return  # from before it was killed
        if event is None:
            self._died(member)
        elif event["event"] == "listening":
            member.port = event["port"]
        elif event["event"] == "round":
            member.first_round = member.first_round or event
            member.round, member.said = event["round"], event
            self._told(min(each.round for each in self.members.values()))
        elif event["event"] == "finished":
            member.finished, member.round = event, event["round"]
            self._told(min(each.round for each in self.members.values()))
            if event["fault"] is not None:
                raise RemoteError(f"{name} ended in round {event['round']}: {event['fault']}")

    def _died(self, member: Member) -> None:
        code = self._reap(member)
        member.down = True
        raise RemoteError(
            f"{member.name} died with exit code {code}. The last lines of its log:\n{member.last_words()}"
        )

    def _reap(self, member: Member) -> int:
        code = member.running.wait()
        _close_input(member.running)
        if len(member.exit_codes) < member.start:
            member.exit_codes.append(code)
        return code


def _close_input(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it is gone
        process.stdin.close()


def _arrays(file: Path) -> Iterator[np.ndarray]:
    with np.load(file, allow_pickle=False) as archive:
        for key in archive.files:
            yield archive[key]


def one_thread(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that computes in one thread, on the CPU: many of them share this machine."""
    flags = f"{environment.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return {
        **environment,
        "JAX_PLATFORMS": "cpu",
        "PJRT_NPROC": "1",
        "XLA_FLAGS": flags,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
