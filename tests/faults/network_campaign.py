"""Seeds of bad networks: `python -m tests.faults.network_campaign --seeds 500` says what was done and what broke.

Each seed draws a setting (algorithm, graph, delay, booked or not) and a weather, and is the same run every time:
`--seed K -v` shows its events. What must hold whatever happens is checked after every event, the rest at the end.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from tacit import graphs, objectives, privacy, streams
from tacit.algorithms import distributed_online, fedavg, loss_tolerant_push_sum, online_push_sum
from tacit.graphs import LinkDrop, Shifts, as_topology
from tacit.peer.machine.claims import FURTHEST_AHEAD, LONGEST_LEAP, REST
from tacit.peer.machine.rounds import HORIZON
from tacit.privacy.events import Series
from tacit.privacy.ledger import inspect
from tests.peer.settings import Setting
from tests.peer.virtual import Network, rested
from tests.peer.weather import DEADLINE, BrokenInvariantError, Host
from tests.simulator import specimens

ROUNDS = 10
BLOCK = 4
"""Releases of a block of correlated noise: a run has several."""
CALM_TIME = 60.0
"""Virtual seconds after the faults within which all rounds must be done."""
HEALED = 8.0
"""Virtual seconds after the faults in which methods that do not wait must have found each other again."""
LONGEST_REST = 5
"""Rounds of a shift of methods that do not wait."""
UNLEARNT = 16.0
"""The same, more, where somebody lied: a lie is believed until the link is made anew, and after a leap everybody rests
for rounds, one behind the other."""


def _stream(agents: int):
    return streams.linear_drift(agents, 3, drift=0.0, seed=1, batch=2)


def _setting(name: str, algorithm, graph, **others) -> Callable[[], Setting]:
    return functools.cache(lambda: Setting(name, algorithm(), graph(), _stream(5), ROUNDS, **others))


def _noisy():
    return privacy.laplace(epsilon=2.0, clip=1.0)


def _correlated():
    return privacy.correlated(rounds=BLOCK, rho=0.5, clip=1.0)


def _ops(**others):
    return lambda: online_push_sum(objectives.squared(), **others)


def _dola(**others):
    return lambda: distributed_online(objectives.squared(), mechanism=_noisy(), **others)


def _totals(noise=_noisy):
    return lambda: loss_tolerant_push_sum(objectives.squared(), mechanism=noise())


def _digraph():
    """One-sided edges: a ring, and two chords."""
    return graphs.from_edges(5, [0, 1, 2, 3, 4, 0, 3], [1, 2, 3, 4, 0, 2, 1])


def _changing():
    return graphs.ring(5).with_dynamics(LinkDrop(0.3, symmetric=True))


def _in_shifts(graph, period=14):
    """Absences of several lengths, one of them at the beginning and some by chance."""
    shifts = Shifts.of(5, first=[1, 1, 1, 3, 1], period=[6, 1, 5, 1, period], rounds=[5, 1, 3, 1, 2])
    return as_topology(graph).available("peer", [1, 0.7, 1, 1, 1], shifts=shifts)


def _in_turn():
    return _in_shifts(graphs.complete(5).with_dynamics(graphs.Rotation([1, 3], symmetric=True)))


SETTINGS: dict[str, Callable[[], Setting]] = {
    "ops": _setting("ops", _ops(), _digraph),
    "ops, double precision": _setting("ops, double precision", _ops(), _digraph, dtype="float64"),
    "ops, booked": _setting("ops, booked", _ops(mechanism=_noisy()), _digraph, booked=True),
    "dola": _setting("dola", _dola(), lambda: graphs.ring(5)),
    "dola, changing graph": _setting("dola, changing graph", _dola(), _changing),
    "dola, booked": _setting("dola, booked", _dola(), lambda: graphs.ring(5), booked=True),
    "renormalise": _setting("renormalise", _dola(missing="renormalise"), lambda: graphs.ring(5)),
    "renormalise, late": _setting(
        "renormalise, late", _dola(missing="renormalise"), lambda: graphs.ring(5), longest_delay=2, booked=True
    ),
    "totals": _setting("totals", _totals(), _digraph),
    "totals, late": _setting("totals, late", _totals(), _digraph, longest_delay=2),
    "totals, booked": _setting("totals, booked", _totals(), _digraph, booked=True),
    "three phases": functools.cache(
        lambda: Setting(
            "three phases", specimens.everything(3), specimens.random_graph(5, 3), specimens.targets(5, ROUNDS), ROUNDS
        )
    ),
    "three phases, late": functools.cache(
        lambda: Setting(
            "three phases, late",
            specimens.everything(3),
            specimens.random_graph(5, 3),
            specimens.targets(5, ROUNDS),
            ROUNDS,
            longest_delay=2,
        )
    ),
    "servers and clients": functools.cache(
        lambda: Setting(
            "servers and clients",
            specimens.federated(cohort=4),
            specimens.served(4, 2),
            specimens.targets(4, ROUNDS),
            ROUNDS,
        )
    ),
    "a cohort is called": functools.cache(
        lambda: Setting(
            "a cohort is called",
            fedavg(objectives.squared(), 0.1, cohort=2, local_steps=2),
            graphs.star_roles(5),
            _stream(5),
            ROUNDS,
        )
    ),
    "ops, correlated": _setting("ops, correlated", _ops(mechanism=_correlated()), _digraph, booked=True),
    "totals, correlated": _setting("totals, correlated", _totals(_correlated), _digraph, booked=True),
    "ops, in shifts": _setting("ops, in shifts", _ops(), lambda: _in_shifts(_digraph())),
    "ops, in shifts, booked": _setting(
        "ops, in shifts, booked", _ops(mechanism=_correlated()), lambda: _in_shifts(_digraph()), booked=True
    ),
    "dola, in turn and shifts": _setting("dola, in turn and shifts", _dola(), _in_turn),
    "totals, in shifts": _setting("totals, in shifts", _totals(), lambda: _in_shifts(_digraph(), 5), booked=True),
    "a cohort, correlated": functools.cache(
        lambda: Setting(
            "a cohort, correlated",
            fedavg(objectives.squared(), 0.1, cohort=2, mechanism=_correlated()),
            graphs.star_roles(5),
            _stream(5),
            ROUNDS,
            booked=True,
        )
    ),
}


class Invariants:
    """What has to hold; `after_event` while a network runs, `at_end` when it has stopped."""

    def __init__(self, network: Network) -> None:
        self.network, self.setting = network, network.setting
        self.looked = 0
        self.rounds = dict.fromkeys(network.hosts, 0)
        self.own: Counter[str] = Counter()
        self.carried: Counter[str] = Counter()
        """Peer -> rounds that it did, and rounds that it left out though nobody was there."""

    def after_event(self, network: Network) -> None:
        """Check what must hold at any time."""
        self.looked += 1
        self.carried_so_far()
        if self.looked % 7 == 0:
            self.bounded()
            if not self.setting.waits:
                self.gets_on()
            if self.setting.algorithm.name in MASS and all(h.node is not None for h in network.hosts.values()):
                self.mass()

    def carried_so_far(self) -> None:
        """Nobody is beyond everybody's true round but by what one liar may do."""
        for name, host in self.network.hosts.items():
            before = self.rounds[name]
            if host.node is None or host.node.round == before:
                continue
            truth = max(round_ for other, round_ in self.rounds.items() if other != name)
            following = self.setting.plans[name].following
            due = following(max(following(before) or before, truth) - 1) or truth  # rounds of rest are nobody's lie
            excess = max(0, host.node.round - due - (LONGEST_REST if self.setting.rests else 0))
            self.rounds[name] = host.node.round
            self.own[name] += 1
            self.carried[name] += excess
            most = LONGEST_LEAP * (host.life + self.own[name] // REST)  # every start allows one
            if excess > LONGEST_LEAP or self.carried[name] > most:
                self.network.fail(f"{name} went from round {before} to {host.node.round}, the others are at {truth}")

    def bounded(self) -> None:
        """Outboxes and inboxes have a largest size, whatever the others do."""
        phases, late = len(self.setting.algorithm.phases), self.setting.longest_delay
        kept = FURTHEST_AHEAD + 1 + late
        for host in self.network.hosts.values():
            if host.node is None:
                continue
            for name in host.node.sends_to:
                waiting = len(host.node.outbox.parcels[name])
                if waiting > phases * kept:
                    self.network.fail(f"{host.name} keeps {waiting} messages for {name}, more than {phases * kept}")
            machine, heard = host.node.machine, len(host.node.hears)
            if len(machine._received) > heard * phases * (HORIZON + 1 + late):
                self.network.fail(f"{host.name} holds {len(machine._received)} messages of {heard} neighbours")
            if len(machine._absorbed) > heard * phases * (1 + late):
                self.network.fail(f"{host.name} remembers {len(machine._absorbed)} messages of {heard} neighbours")

    def gets_on(self) -> None:
        """Who does not wait gets on within a deadline per phase, whoever is away."""
        for host in self.network.hosts.values():
            node = host.node
            if node is None:
                continue
            data = host.ready[node.cursor or 0] if node.between_rounds else 0.0
            since = max(rested(host), data)
            if self.network.now > since + DEADLINE + 3 * host.work + 1e-6:
                self.network.fail(f"{host.name} has not got on since {since:.3f}, and need not wait for anybody")

    def mass(self) -> None:
        """What is held and what is under way add up to the number of agents."""
        found, agents = MASS[self.setting.algorithm.name](self.network), len(self.network.hosts)
        tolerance = 1e-11 if self.setting.dtype == "float64" else 1e-5
        if not math.isclose(found, agents, rel_tol=tolerance):
            self.network.fail(f"the mass is {found!r}, expected {agents}")

    def at_end(self) -> None:
        """Check the outcome of a run; mass and ledgers first, for they must be right wherever everybody is."""
        if self.setting.algorithm.name in MASS:
            self.mass()
        self.ledgers()
        if self.setting.waits:
            self.all_rounds_done()
            if not self.setting.booked:
                self.same_as_without_network()
        else:
            self.together_again()

    def all_rounds_done(self) -> None:
        """Every round is done by everybody."""
        if not self.network.finished:
            at = {h.name: None if h.node is None else tuple(h.node.position) for h in self.network.hosts.values()}
            self.network.fail(f"{CALM_TIME} s after the faults the peers are at {at}")

    def same_as_without_network(self) -> None:
        """Bit for bit the models of a run in one process."""
        names = self.setting.members[self.setting.algorithm.predictor]
        for k, name in enumerate(names):
            expected = jax.tree.map(lambda leaf, k=k: leaf[k], self.setting.reference)
            found = self.network.hosts[name].node.model()
            same = jax.tree.map(lambda a, b: np.array_equal(np.asarray(a), np.asarray(b)), found, expected)
            if not all(jax.tree.leaves(same)):
                self.network.fail(f"{name} has the model {found}, expected {expected}")

    def together_again(self) -> None:
        """After the faults everybody is in about the same round, and nobody's messages come too late."""
        rounds = {h.name: h.round for h in self.network.hosts.values()}
        furthest = max(rounds.values())
        for host in self.network.hosts.values():
            if host.node is not None and host.node.between_rounds:  # it may rest until one of its rounds
                rounds[host.name] = min(furthest, max(host.round, (host.node.next_round or furthest + 1) - 1))
        # Round an edge, a peer hears one that is at most a round ahead of what it has heard itself.
        apart = len(rounds) + (LONGEST_REST if self.setting.rests else 0)
        if max(rounds.values()) - min(rounds.values()) >= apart:
            self.network.fail(f"the peers are in rounds {rounds}")
        silent = self.network.latencies.keys() - {
            edge for edge, when in self.network.in_time.items() if when > healed(self.network)
        }
        if silent:
            self.network.fail(f"nothing comes in time any more over {sorted(silent)}; rounds {rounds}")

    def ledgers(self) -> None:
        """What left was booked once, and nothing else."""
        for host in self.network.hosts.values():
            if host.store is not None:
                host.store.close()
            booked = inspect(host.path, lambda replay: {entry.release: event.series for entry, event in replay})
            expected = {
                self.setting.release(sender, at_round, phase)
                for sender, _, at_round, phase, _ in self.network.committed
                if sender == host.name and self.setting.books(phase)
            }
            if self.setting.rests:
                self.nothing_at_rest(host, set(booked), expected)
            elif sorted(booked) != sorted(expected):
                self.network.fail(f"{host.name} has booked {sorted(booked)}, and made {sorted(expected)}")
            self.noise_goes_on(host, [series for series in booked.values() if series is not None])

    def nothing_at_rest(self, host: Host, booked: set[str], expected: set[str]) -> None:
        """Nothing was booked in a round in which a peer rests; in others also what no neighbour was there to hear."""
        plan = self.setting.plans[host.name]
        rounds = {int(release.split()[3]) for release in booked}
        resting = sorted(t for t in rounds if plan.following(t - 1) != t)
        if resting or not expected <= booked:
            self.network.fail(f"{host.name} has booked {sorted(booked)}, rests in {resting}, made {sorted(expected)}")

    def noise_goes_on(self, host: Host, booked: list[Series]) -> None:
        """Correlated noise was drawn once for every place of its blocks, and the memory knows of all of them."""
        places = [(series.block, series.place) for series in booked]
        if places != [(k // BLOCK, k % BLOCK + 1) for k in range(len(places))]:
            self.network.fail(f"{host.name} has booked noise at {places}")
        remembered = sum(int(memory.releases) for memory in host.memories or () if memory is not None)
        if self.setting.booked and remembered != len(places):
            self.network.fail(f"{host.name} remembers the noise of {remembered} releases, booked {len(places)}")


def _split_mass(network: Network) -> float:
    """Push-sum: states between rounds; in a round the part kept, and the parts sent and not yet absorbed."""
    total = 0.0
    for host in network.hosts.values():
        machine = host.node.machine
        total += float(machine.state.mass if machine.between_rounds else machine._own.public)
    for host in network.hosts.values():
        for name in host.node.sends_to:
            for parcel in host.node.waiting(name):
                key = (host.name, parcel.links, parcel.round, parcel.phase, name)
                network.released.setdefault(key, parcel.content)
    for (_, _, sent, phase, receiver), content in network.released.items():
        node = network.hosts[receiver].node
        if sent > node.round - (0 if node.between_rounds else 1):
            total += float(node.codec.unpack(phase, content).public)
    return total


def _total_mass(network: Network) -> float:
    """Running totals: what is held, and what the totals sent are ahead of those heard."""
    total = 0.0
    for host in network.hosts.values():
        state = host.node.machine.state
        total += float(state.held.mass)
        total += float(np.sum(np.float64(state.sent.high.mass) + np.float64(state.sent.low.mass)))
        total -= float(np.sum(np.float64(state.heard.high.mass) + np.float64(state.heard.low.mass)))
    return total


MASS = {"online_push_sum": _split_mass, "loss_tolerant_push_sum": _total_mass}


def healed(network: Network) -> float:
    """Return when methods that do not wait must have found each other again."""
    return network.weather.until + HEALED + (UNLEARNT if network.weather.lies else 0.0)


def run_seed(seed: int, directory: Path, verbose: bool = False, name: str | None = None) -> Network:
    """Run one seed of a setting, by default that of its turn, and check it; returns the network as it ended."""
    setting = SETTINGS[name or list(SETTINGS)[seed % len(SETTINGS)]]()
    network = Network(setting, seed, directory, verbose=verbose)
    invariants = Invariants(network)
    try:
        if setting.waits:
            network.run(network.weather.until + CALM_TIME, invariants.after_event)
        else:
            network.run(
                healed(network) + (LONGEST_REST * DEADLINE + 4.0 if setting.rests else 2.0), invariants.after_event
            )
        invariants.at_end()
    finally:
        network.close()
    return network


def main() -> int:
    """Run seeds and say how many broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--setting", choices=sorted(SETTINGS))
    parser.add_argument("-v", "--verbose", action="store_true")
    asked = parser.parse_args()
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    if asked.setting is not None:
        place = list(SETTINGS).index(asked.setting)
        seeds = [seed for seed in seeds if seed % len(SETTINGS) == place]
    began, violations, faults, refusals, events, rounds = time.monotonic(), [], Counter(), Counter(), 0, 0
    for seed in seeds:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
            try:
                network = run_seed(seed, Path(directory), asked.verbose)
            except BrokenInvariantError as violation:
                violations.append(str(violation))
                print(violation, flush=True)
                continue
        faults += network.faults
        refusals += network.refusals
        events += network.events
        rounds += sum(len(host.began) for host in network.hosts.values())
    print(f"{len(seeds)} seeds, {events:,} events, {rounds:,} rounds in {time.monotonic() - began:.0f} s")
    print(f"faults: {dict(faults)}\nrefusals: {dict(refusals)}\nviolations: {len(violations)}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
