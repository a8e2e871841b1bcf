"""Members that come and go: `python -m tests.faults.churn_campaign --peers 24 --rounds 1000` says what held.

Peers leave and join at random and are killed, over a simulated network in virtual time. At every quiet point, when
nobody joins or leaves and all are between two rounds, the mass that is held, and with running totals what is under way,
must be as at the start to 1e-9 (float64). Every release is booked under a budget that allows a record one release. At
the end the average loss is compared with that of the same peers without any coming and going: over rounds and over
those who learn in them (who is away learns nothing meanwhile), and over as many batches as were learnt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from tacit import graphs, objectives, privacy, streams
from tacit.algorithms import loss_tolerant_push_sum, online_push_sum
from tacit.core.contract import Algorithm
from tacit.privacy.accounting import Budget
from tests.peer.churn import ChurnNetwork
from tests.peer.settings import Setting
from tests.peer.weather import BrokenInvariantError, Weather

EPSILON = 4.0
"""Of each release, and of each record in all."""
SEGMENT = 12.0
"""Virtual seconds of coming and going between two quiet points."""
LONGEST = 600.0
"""Virtual seconds within which a quiet point must come."""
METHODS = {"ops": online_push_sum, "totals": loss_tolerant_push_sum}


def stream_of(peers: int, rounds: int = 400) -> streams.Stream:
    """Return a linear problem with noise, whose batches say how many records they hold."""
    plain = streams.linear_drift(peers, 5, drift=0.0, seed=1, batch=2).chunk(0, rounds)
    batches = plain._replace(weight=np.ones(plain.y.shape, np.float32))
    return streams.from_function(
        lambda a, b: jax.tree.map(lambda leaf: leaf[a:b], batches), agents=peers, rounds=rounds
    )


def setting_of(name: str, peers: int) -> Setting:
    """Return the peers of a method, on a random digraph."""
    mechanism = privacy.laplace(EPSILON, clip=1.0)
    algorithm: Algorithm = METHODS[name](objectives.squared(), step=0.05, mechanism=mechanism)
    graph = graphs.random_digraph(peers, 3, seed=3)
    return Setting(name, algorithm, graph, stream_of(peers), 400, dtype="float64", booked=True)


class Churn(ChurnNetwork):
    """A network whose records may each be released once."""

    budget = Budget(epsilon=EPSILON)


def run(
    name: str, peers: int, rounds: int, seed: int, comes_and_goes: bool, segment: float, say=print
) -> tuple[dict, np.ndarray]:
    """Run one method until all peers have done so many rounds; returns figures and the loss of each batch learnt."""
    setting, began = setting_of(name, peers), time.perf_counter()
    faults = (
        {"crashes": 0.1, "crashes_at_commit": 0.002, "breaks": 0.1}
        if comes_and_goes
        else dict.fromkeys(("crashes", "crashes_at_commit", "breaks", "ghosts", "repeats", "overtakes"), 0.0)
    )
    weather = Weather(until=segment if comes_and_goes else 0.0, latency=0.002, partings=0.0, **faults)
    worst, points = 0.0, 0
    held = (lambda state: state) if name == "ops" else (lambda state: state.held)
    with tempfile.TemporaryDirectory() as folder:
        network = Churn(setting, seed, Path(folder), weather, pause=0.25 if comes_and_goes else 1.0)
        try:
            while True:
                network.run(network.now + LONGEST)
                if not network.finished:
                    network.fail(f"no quiet point within {LONGEST:g} virtual seconds")
                points += 1
                worst = max(worst, abs(network.mass(held) - peers))
                if worst > 1e-9:
                    network.fail(f"the mass is off by {worst:g}")
                done = min(host.node.round for host in network.hosts.values())
                say(f"{name}: round {done}, {network.left} left, {network.joined} joined, mass off by {worst:.1e}")
                if done >= rounds:
                    break
                network.resume(segment if comes_and_goes else 0.0)
                if not comes_and_goes:
                    network.last_round = rounds
            spent = max(host.store.ledger.use().spent for host in network.hosts.values())
            killed = sum(count for what, count in network.faults.items() if what.startswith("killed"))
            by_round: dict[int, list[float]] = {}
            for at, loss in network.losses:
                by_round.setdefault(at, []).append(loss)
            average = float(np.mean([np.mean(losses) for at, losses in by_round.items() if at <= rounds]))
        finally:
            network.close()
    return {
        "left": network.left,
        "joined": network.joined,
        "killed": killed,
        "quiet points": points,
        "mass off by": worst,
        "spent": spent,
        "loss": average,
        "seconds": time.perf_counter() - began,
    }, np.array([loss for at, loss in network.losses if at <= rounds])


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; the exit code is 1 where something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--segment", type=float, default=SEGMENT)
    given = parser.parse_args(arguments)
    broken = 0
    for name in given.methods:
        try:
            found, losses = run(name, given.peers, given.rounds, given.seed, True, given.segment)
            calm, calm_losses = run(name, given.peers, given.rounds, given.seed, False, given.segment)
        except BrokenInvariantError as fault:
            print(f"{name}: BROKEN: {fault}")
            broken += 1
            continue
        ratio, batches = found["loss"] / calm["loss"], min(len(losses), len(calm_losses))
        alike = losses[:batches].mean() / calm_losses[:batches].mean()
        print(f"{name}: {found}\n{name}, nobody comes or goes: {calm}")
        print(
            f"{name}: average loss {ratio:.4f} times that, {alike:.4f} times over the first {batches:,} batches of each"
        )
        broken += found["spent"] > EPSILON * (1 + 1e-9)
    print("broken" if broken else "all held")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
