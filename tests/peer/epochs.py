"""A network in virtual time that goes on to another epoch: some members leave, some are new, links come and go."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import jax
import numpy as np

from tacit import streams
from tacit.core.errors import BudgetExceeded, MessageRefused
from tacit.peer.identity.authority import init_ca
from tacit.peer.machine.rounds import RoundMachine
from tacit.peer.membership.carry import carry_over
from tacit.peer.membership.epochs import MARGIN, Coming, Epochs
from tacit.peer.membership.proposals import Voice
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tests.peer.enrolment import enrol
from tests.peer.settings import Setting
from tests.peer.virtual import Network
from tests.peer.weather import BACKOFF, DEADLINE, Connection, Host, Killed, Weather

JOBS = ("epoch 1", "epoch 2")


def part_of(job: str, name: str) -> str:
    """Return what a member's ledger is bound to."""
    return f"{job} as {name}"


class TwoEpochs:
    """One method on two graphs, of which each has members of its own: a setting for `EpochNetwork`."""

    def __init__(self, name, algorithm, graphs, members, rounds, booked=False):
        """Take the graph and the members' names, by id, of each epoch; a name's data are the same in both."""
        self.name, self.algorithm, self.rounds, self.booked, self.members = name, algorithm, rounds, booked, members
        self.waits = algorithm.missing == "wait"
        self.names = sorted({name for names in members for name in names})
        self._data = streams.linear_drift(len(self.names), 3, drift=0.0, seed=1, batch=2).chunk(0, rounds)
        self.settings = [
            Setting(name, algorithm, graph, self._stream(names), rounds, dtype="float64", booked=booked)
            for graph, names in zip(graphs, members, strict=True)
        ]
        self.epochs = [
            {names[plan.agent]: self._plan(plan, job, names, members[0]) for plan in setting.plans.values()}
            for setting, job, names in zip(self.settings, JOBS, members, strict=True)
        ]
        self.plans = {**self.epochs[1], **self.epochs[0]}
        self.at: dict[str, int] = dict.fromkeys(self.names, 0)
        """Name -> the epoch that it is in, 0 or 1."""

    def _stream(self, names):
        columns = [self.names.index(name) for name in names]
        own = jax.tree.map(lambda leaf: leaf[:, columns], self._data)
        cut = lambda a, b: jax.tree.map(lambda leaf: leaf[a:b], own)  # noqa: E731
        return streams.from_function(cut, agents=len(names), rounds=self.rounds)

    def _plan(self, plan, job, names, founders):
        members, joins = {"peer": list(names)}, names[plan.agent] not in founders
        return dataclasses.replace(plan, job=job, settings=job, members=members, joins=joins)

    @functools.cached_property
    def functions(self):
        """Compiled functions: the same for both epochs but for shapes."""
        return [setting.functions for setting in self.settings]

    def batch(self, name, used):
        """Return a member's batch of a round, counted from 0."""
        return jax.tree.map(
            lambda leaf: np.asarray(leaf[used % self.rounds, self.names.index(name)], np.float64), self._data
        )

    def books(self, phase):
        return self.settings[0].books(phase)

    def release(self, name, at_round, phase):
        return f"peer {self.epochs[self.at[name]][name].agent} round {at_round} phase {phase}"

    def reference(self, last, carried):
        """Return the models after all rounds, by machines in memory: `carried` makes the first states of epoch 2."""
        states = self._run(0, {}, 0, last)
        second = {}
        for name, plan in self.epochs[1].items():
            with plan.precision():
                fresh = self.algorithm.init["peer"](plan.key, plan.params, plan.views(0))
                second[name] = carried(states[name], plan.views(0)) if name in states else fresh
        states = self._run(1, second, last, self.rounds)
        return {name: np.asarray(self.algorithm.model(state)) for name, state in states.items()}

    def _run(self, epoch, states, first, last):
        plans = self.epochs[epoch]
        machines = {}
        for name, plan in plans.items():
            with plan.precision():
                machine = RoundMachine(self.functions[epoch], "peer", plan.agent, plan.key, plan.params, plan.views(0))
                machine.state = states.get(name, machine.state)
                machine.skip_to(first)
                machines[name] = machine
        order = list(plans)
        with precision():
            for t in range(first + 1, last + 1):
                sent = [e for n in order for e in machines[n].begin(self.batch(n, t - 1), plans[n].views(t))]
                while any(not machines[n].between_rounds for n in order):
                    for envelope in sent:
                        machines[self.members[epoch][envelope.receiver]].receive(envelope)
                    sent = [e for n in order for e in machines[n].proceed()]
        return {name: machine.state for name, machine in machines.items()}


def precision():
    return jax.enable_x64(True)


@functools.cache
def voices(names: tuple[str, ...], directory: Path) -> dict[str, Voice]:
    """Return a voice for each name, of one authority."""
    init_ca(directory / "ca", "test federation")
    identities = {name: enrol(directory / f"id-{name}", directory / "ca", name) for name in names}
    return {name: Voice(lambda identity=identity: identity) for name, identity in identities.items()}


class EpochNetwork(Network):
    """Peers that are told, at times of their own, to go on to epoch 2."""

    def __init__(
        self, setting: TwoEpochs, seed: int, directory: Path, weather: Weather, told=None, strike=None, budget=None
    ):
        """Take when each founder is told; `strike` is (name, number of a commit, "before" or "after" it)."""
        self.directory, self.told = directory, told or {}
        self.strike, self.commits, self.bare = strike, 0, []
        """`bare`: numbers of the commits without messages, as proposals and changes of epoch are."""
        self.gone: set[str] = set()
        self.spent: set[str] = set()
        self.voices = voices(tuple(setting.names), directory)
        self.by_round: dict[tuple, tuple] = {}
        """(name, round, phase) -> job and content of what was handed out."""
        self.budget = budget or self.budget
        setting.at = dict.fromkeys(setting.names, 0)
        super().__init__(setting, seed, directory, weather)
        for sender in setting.names:
            for receiver in setting.names:
                self.latencies.setdefault((sender, receiver), self.weather.latency)
        for name in setting.members[0]:
            self._at(self.told.get(name, 0.1), self._propose, name)

    def epochs(self, host: Host) -> Epochs:
        found = host.node.links.speak_of_epochs()
        if found.voice is None:
            found.speak_by(self.voices[host.name])
        return found

    # -- what the operators do -----------------------------------------------------------------------------------------

    def _propose(self, name: str) -> None:
        host = self.hosts[name]
        if name in self.gone or (host.node is not None and host.node.plan.job != JOBS[0]):
            return
        if host.node is None:
            self._at(self.now + 0.3, self._propose, name)
            return
        part = part_of(JOBS[1], name) if name in self.setting.epochs[1] else ""
        self._acting(host, lambda: self.epochs(host).propose(self.coming(part, host.node.round + MARGIN)))
        if host.node is None:  # killed: the operator asks again
            self._at(self.now + 2.0, self._propose, name)

    def coming(self, part: str, last: int) -> Coming:
        return Coming(JOBS[1], 2, "next.toml", part, last)

    def _acting(self, host: Host, act) -> None:
        try:
            act()
        except Killed:
            self._kill(host)
            return
        except MessageRefused as refusal:
            self.refusals[refusal.reason] += 1
        self._moved(host)

    # -- hooks of the network ------------------------------------------------------------------------------------------

    def _start(self, host: Host) -> None:
        budget = self.budget if self.setting.booked else NOTHING_BOOKED
        if host.path.exists():
            host.store = PeerStore.open(host.path, budget)
        else:
            first = JOBS[0] if host.name in self.setting.epochs[0] else JOBS[1]
            host.store = PeerStore.create(host.path, budget, part_of(first, host.name))
        self._watch_commits(host)
        self._make_node(host)
        host.life += 1
        host.alarm = float("inf")
        if host.node.position < host.position or host.node.round < host.round:
            self.fail(f"{host.name} came back at {tuple(host.node.position)}, and was at {tuple(host.position)}")
        host.progressed = self.now
        self._moved(host)

    def _make_node(self, host: Host) -> None:
        epoch = [part_of(job, host.name) for job in JOBS].index(host.store.ledger.jobs[-1])
        self.setting.at[host.name] = epoch
        plan, functions = self.setting.epochs[epoch][host.name], self.setting.functions[epoch]
        host.node = Node(plan, host.store, DEADLINE, self.now, functions)
        if host.node.links.epochs is not None:
            self.epochs(host)

    def _watch_commits(self, host: Host) -> None:
        super()._watch_commits(host)
        write = host.store.commit

        def counted(**what) -> None:
            if self.strike is None or host.name != self.strike[0]:
                write(**what)
                return
            self.commits += 1
            if not what["parcels"]:
                self.bare.append(self.commits)
            if self.commits != self.strike[1]:
                write(**what)
                return
            if self.strike[2] == "after":
                write(**what)
            raise Killed

        host.store.commit = counted

    def _has_more(self, host: Host) -> bool:
        return host.name not in self.spent and (host.node.plan.job == JOBS[0] or host.node.round < self.setting.rounds)

    @property
    def finished(self) -> bool:
        return all(
            host.name in self.gone
            or (
                (host.node is not None and host.node.plan.job == JOBS[1] and host.node.between_rounds)
                and not self._has_more(host)
                and host.node.round >= self.setting.rounds
            )
            for host in self.hosts.values()
        )

    def _restart(self, name: str) -> None:
        if name not in self.gone:
            try:
                super()._restart(name)
            except Killed:
                self._kill(self.hosts[name])

    def _act(self, host: Host) -> None:
        try:
            super()._act(host)
        except BudgetExceeded:
            self.spent.add(host.name)

    def _moved(self, host: Host) -> None:
        if host.node is None:
            return
        super()._moved(host)
        node = host.node
        if node is None or not node.links.over:
            return
        if node.links.epochs.coming.leaves:
            if not node.links.epochs.lingers:
                self._end(host)
            return
        try:
            carry_over(node, self.setting.epochs[1][host.name])
        except Killed:
            self._kill(host)
            return
        self._make_node(host)
        self._part_from_all(host)
        for name in sorted(host.node.sends_to):
            self._at(self.now, self._dial, host.name, name)
        self._alarm(host, self.now + host.work)

    def _end(self, host: Host) -> None:
        self.gone.add(host.name)
        host.store.close()
        host.node = host.store = None
        self._part_from_all(host)

    def _part_from_all(self, host: Host) -> None:
        for connection in list(self.connections.values()):
            if host.name in (connection.sender, connection.receiver):
                self._break(connection)

    def _dial(self, sender: str, receiver: str) -> None:
        one, other = self.hosts[sender], self.hosts[receiver]
        if one.node is None or receiver not in one.node.sends_to:
            return
        if other.node is not None and other.node.plan.job != one.node.plan.job and not self._cut(sender, receiver):
            parting = b"" if other.node.links.epochs is None else other.node.links.epochs.parting(sender)
            if parting and (other.node.links.expects(sender) or sender in other.node.hears):
                self._at(self.now + self.weather.latency, self._turned_away, sender, receiver, parting)
            self._at(self.now + BACKOFF, self._dial, sender, receiver)
            return
        super()._dial(sender, receiver)

    def _turned_away(self, sender: str, receiver: str, payload: bytes) -> None:
        host = self.hosts[sender]
        if host.node is not None and receiver in host.node.sends_to:
            self._acting(host, lambda: self.epochs(host).heard(receiver, payload))

    def _pump(self, connection: Connection) -> None:
        host = self.hosts[connection.sender]
        if host.node.links.epochs is not None:
            for payload in self.epochs(host).to_say(connection.receiver):
                if payload not in connection.sent:
                    connection.sent.add(payload)
                    self._forth(connection, self._on, payload)
        super()._pump(connection)

    def _on(self, connection: Connection, payload: bytes) -> None:
        if connection.alive:
            host = self.hosts[connection.receiver]
            self._acting(host, lambda: self.epochs(host).heard(connection.sender, payload))

    def _handed_out(self, host: Host, parcel) -> None:
        super()._handed_out(host, parcel)
        key, said = (host.name, parcel.round, parcel.phase), (host.node.plan.job, parcel.content)
        if self.by_round.setdefault(key, said) != said:
            self.fail(f"{key} was released twice: in {self.by_round[key][0]!r} and in {said[0]!r}, or in two forms")
