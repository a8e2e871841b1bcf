"""Faults on real processes: `tacit peer run` killed at random points, frozen, and cut off from the network.

    python -m tests.faults.process_campaign                       100 kills, freezes and cuts for two methods
    python -m tests.faults.process_campaign --kills 10 --seed 3
    python -m tests.faults.process_campaign --noise correlated    noise with a memory, which must outlive the kills

For each method five peers learn from files (one from HTTP) with noise that is booked, a witness, and mutual TLS. After
every kill, and at moments at which all processes are held, the evidence is looked at (see `evidence`). The exit code is
1 if anything was not as it must be.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.hosts import Hosts, why_not
from tests.faults.evidence import Evidence, Figures
from tests.faults.processes import NOISE, Federation, PeerFailedError

GRAPH = {"a": ["b", "c"], "b": ["c"], "c": ["d"], "d": ["e", "a"], "e": ["a"]}
"""Five peers, links one way."""
METHODS = ("online_push_sum", "loss_tolerant_push_sum")
"""One that waits for everybody, and one that does not."""
BACK_WITHIN = 5.0
"""Seconds from the moment at which a restarted peer begins with its rounds, or twice what its start took where that
is longer: on a busy machine everything takes longer."""
LONGEST_START = 180.0
FREEZE, CUT, CALM = 15.0, 15.0, 3.0
"""Seconds of a fault, and of nothing before and after a cut."""


@dataclass
class Report:
    """What one method went through."""

    method: str
    violations: list[str] = field(default_factory=list)
    kills: int = 0
    starts: list[float] = field(default_factory=list)
    """Seconds from the start of a process to the beginning of its rounds: imports, the store, compilation."""
    returns: list[float] = field(default_factory=list)
    """Seconds from there to a round with all neighbours, all of whom have a new message of it."""
    others: list[int] = field(default_factory=list)
    """Rounds that the others did while the victim was away."""
    freeze: dict[str, float] = field(default_factory=dict)
    cut: dict[str, float] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    figures: Figures | None = None
    seconds: float = 0.0


class Campaign:
    """One federation under faults."""

    def __init__(self, federation: Federation, chance: random.Random) -> None:
        self.federation, self.chance = federation, chance
        self.evidence = Evidence(federation)
        self.report = Report(federation.algorithm)
        self.waits = federation.algorithm == "online_push_sum"

    def kills(self, count: int, look_every: int = 10) -> None:
        """Kill peers one after the other at random points, some of them again while they start."""
        for number in range(1, count + 1):
            name = self.chance.choice(list(self.federation.members))
            time.sleep(self.chance.uniform(0.0, 1.0))
            self._push()
            self.kill(name)
            time.sleep(self.chance.choice((0.0, 0.0, self.chance.uniform(0.0, 3.0))))
            if self.report.kills < count and self.chance.random() < 0.15:
                self.federation.members[name].start()
                time.sleep(self.chance.uniform(0.0, 6.0))
                self.kill(name)
            self.come_back(name)
            if number % look_every == 0:
                self.look()
            if self.report.kills >= count:
                break

    def kill(self, name: str) -> None:
        """Kill a peer and look at what it left."""
        self._round_of_others = self._others(name)
        self.federation.members[name].kill()
        self.report.kills += 1
        self.evidence.after_kill(name)

    def come_back(self, name: str) -> None:
        """Start a peer again, and measure until it is back in a round."""
        federation, member = self.federation, self.federation.members[name]
        member.start()
        since = member.spawned
        up = federation.await_event(name, since, lambda e: e["event"] == "peer started", LONGEST_START, "its start")
        back = federation.await_whole_round(name, up, 60)
        for receiver in federation.sends_to[name]:
            back = max(back, federation.await_heard(name, receiver, up, 60))
        away = self._others(name) - self._round_of_others
        self.report.starts.append(up - since)
        self.report.returns.append(back - up)
        self.report.others.append(away)
        print(
            f"{self.federation.algorithm}: kill {self.report.kills} of {name}, up after {up - since:.2f} s, back in a round "
            f"{back - up:.2f} s later; the others did {away} rounds",
            flush=True,
        )
        if back - up > max(BACK_WITHIN, 2 * (up - since)):
            self._fault(f"{name} was back in a round {back - up:.2f} s after its rounds began")
        if not self.waits and away == 0:
            self._fault(f"the others did no round while {name} was away")

    def _others(self, name: str) -> int:
        self.federation.look()
        return max(self.federation.round(other) for other in self.federation.members if other != name)

    def look(self) -> None:
        """Hold everybody for a moment and look at all stores."""
        self.report.figures = self.evidence.at_rest()

    def freeze(self, name: str, seconds: float = FREEZE) -> None:
        """Stop a peer as a stuck machine does, and let it go on."""
        begun, before = time.time(), self._others(name)
        self.federation.members[name].send(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self.federation.members[name].send(signal.SIGCONT)
        self.report.freeze = self._silence(name, begun, before, time.time())

    def cut(self, hosts: Hosts, name: str, seconds: float = CUT) -> None:
        """Pull a peer's cable, and put it back."""
        begun, before = time.time(), self._others(name)
        hosts.cut(name)
        try:
            time.sleep(seconds)
        finally:
            hosts.heal(name)
        self.report.cut = self._silence(name, begun, before, time.time())

    def _silence(self, name: str, begun: float, before: int, healed: float) -> dict[str, float]:
        """Check what a silence of one peer did to the others, and that all go on after it."""
        federation = self.federation
        during = self._others(name) - before
        noticed = []
        for other in federation.members:
            direction = {"in": other in federation.sends_to[name], "out": name in federation.sends_to[other]}
            for side in (side for side, there in direction.items() if there):
                downs = [
                    e["at"] - begun
                    for e in federation.members[other].events
                    if begun <= e["at"] <= healed
                    and (e["event"], e.get("neighbour"), e.get("direction")) == ("link down", name, side)
                ]
                if downs:
                    noticed.append(min(downs))
                else:
                    self._fault(f"{other} did not notice within {healed - begun:.0f} s that {name} was silent ({side})")
        back = max(federation.await_whole_round(other, healed, 60) for other in federation.members)
        back = max(back, *(federation.await_heard(name, to, healed, 60) for to in federation.sends_to[name]))
        if self.waits and during > 9:
            self._fault(f"the others did {during} rounds without {name}, for which they have to wait")
        if not self.waits and during < seconds_to_rounds(healed - begun):
            self._fault(f"the others did {during} rounds in {healed - begun:.0f} s without {name}")
        return {"noticed_s": max(noticed, default=float("nan")), "others_rounds": during, "back_s": back - healed}

    def end(self) -> Report:
        """Stop everybody, look at all for the last time, and have the command verify the ledgers."""
        codes = self.federation.stop()
        if any(codes.values()):
            self._fault(f"exit codes after SIGTERM: {codes}")
        self.look()
        for member in self.federation.members.values():
            settings = member.settings()
            tacit = str(Path(sys.executable).with_name("tacit"))
            command = [tacit, "ledger", "verify", str(settings.store), "--witness", str(settings.witness)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                self._fault(f"tacit ledger verify of {member.name}: {done.stderr}")
        self.report.rounds = {name: self.federation.round(name) for name in self.federation.members}
        self.report.violations += self.evidence.violations
        return self.report

    def _push(self) -> None:
        """Give samples to those that take them by HTTP; one that is down gets none."""
        for name in self.federation.pushed:
            with contextlib.suppress(OSError, ValueError):
                control = json.loads(self.federation.members[name].settings().control.read_text())
                samples = [{"x": [self.chance.gauss(0, 1) for _ in range(3)], "y": 1} for _ in range(10)]
                request = urllib.request.Request(
                    f"http://127.0.0.1:{control['port']}/learn",
                    json.dumps(samples).encode(),
                    {"Content-Type": "application/json"},
                )
                urllib.request.urlopen(request, timeout=5).close()

    def _fault(self, text: str) -> None:
        print(f"VIOLATION {self.federation.algorithm}: {text}", flush=True)
        self.report.violations.append(text)


def seconds_to_rounds(seconds: float) -> int:
    """Return the fewest rounds of peers that do not wait: half of what deadlines of 2 s would allow all the time."""
    return int(seconds / 4)


def run_kills(
    method: str, kills: int, seed: int, directory: Path, noise: str = "laplace", freeze: float = FREEZE
) -> Report:
    """Kill and freeze the peers of one method."""
    begun = time.monotonic()
    rows = max(20_000, 500 * kills)  # enough for a busy machine, on which a kill takes longer
    with Federation(directory, GRAPH, method, noise=noise, pushed=["e"], rows=rows) as federation:
        campaign = Campaign(federation, random.Random(seed))
        with _reported(campaign):
            federation.start(LONGEST_START)
            campaign.kills(kills)
            if freeze:
                campaign.freeze("c", freeze)
                campaign.look()
            campaign.end()
    campaign.report.seconds = time.monotonic() - begun
    return campaign.report


def run_cut(method: str, seed: int, directory: Path, noise: str = "laplace") -> Report:
    """Cut one of three hosts off, and let it come back."""
    begun = time.monotonic()
    ring = {"a": ["b"], "b": ["c"], "c": ["a"]}
    places = {name: f"10.78.0.{number}" for number, name in enumerate(ring, 1)}
    with (
        Hosts(directory / "hosts", places) as hosts,
        Federation(
            directory / "peers", ring, method, noise=noise, inside=hosts.inside,
            addresses={name: f"{address}:7443" for name, address in places.items()},
        ) as federation,
    ):  # fmt: skip
        campaign = Campaign(federation, random.Random(seed))
        with _reported(campaign):
            federation.start(LONGEST_START)
            time.sleep(CALM)
            campaign.cut(hosts, "b")
            time.sleep(CALM)
            campaign.look()
            campaign.end()
    campaign.report.seconds = time.monotonic() - begun
    return campaign.report


@contextlib.contextmanager
def _reported(campaign: Campaign):
    try:
        yield
    except PeerFailedError as error:
        campaign._fault(str(error))
        campaign.report.violations += campaign.evidence.violations


def table(reports: Sequence[Report]) -> str:
    """Return the reports as text."""
    lines = []
    for report in reports:
        figures = report.figures
        lines.append(f"{report.method}: {len(report.violations)} violation(s), {report.seconds:.0f} s")
        if report.returns:
            for what, values in (("start of a process", report.starts), ("back in a round after it", report.returns)):
                middle, worst = statistics.median(values), max(values)
                lines.append(f"  {what + ', s':<32} median {middle:.2f}, longest {worst:.2f} of {len(values)}")
            lines.append(f"  {'kills':<32} {report.kills}")
            lines.append(f"  {'rounds of others meanwhile':<32} median {statistics.median(report.others):g}")
        for what, found in (("frozen", report.freeze), ("cut off", report.cut)):
            if found:
                lines.append(f"  {what:<32} " + ", ".join(f"{key} {value:.2f}" for key, value in found.items()))
        if figures is not None:
            lines.append(f"  {'releases seen / booked':<32} {figures.releases} / {figures.booked}")
            if figures.remembered:
                lines.append(f"  {'releases that memories count':<32} {figures.remembered}")
            lines.append(f"  {'messages seen':<32} {figures.observations}")
            lines.append(f"  {'mass':<32} {figures.mass!r}")
        lines.append(f"  {'rounds':<32} {report.rounds}")
        lines += [f"  VIOLATION {violation}" for violation in report.violations]
    return "\n".join(lines)


def main() -> int:
    """Run the campaign and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of all methods together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--noise", choices=NOISE, default="laplace")
    parser.add_argument("--no-cut", action="store_true")
    parser.add_argument("--keep", type=Path, help="a new directory for stores and logs; by default they are removed")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # so that no peer is left behind
    reports = []
    with contextlib.ExitStack() as stack:
        directory = asked.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tacit-faults-")))
        for number, method in enumerate(asked.methods):
            share = asked.kills // len(asked.methods)
            reports.append(run_kills(method, share, asked.seed + number, directory / method, asked.noise))
            print(table(reports[-1:]), flush=True)
        missing = why_not()
        if missing is not None:
            print(f"no cut: {missing}")
        elif not asked.no_cut:
            for number, method in enumerate(asked.methods):
                reports.append(run_cut(method, asked.seed + number, directory / f"{method} cut", asked.noise))
                print(table(reports[-1:]), flush=True)
    violations = sum(len(report.violations) for report in reports)
    print(f"{sum(report.kills for report in reports)} kills, {violations} violation(s)")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
