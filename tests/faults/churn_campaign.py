"""Members that come and go: `python -m tests.faults.churn_campaign --peers 24 --rounds 1000` says what held.

Peers leave and join at random and are killed, over a simulated network in virtual time. At every quiet point, when
nobody joins or leaves and all are between two rounds, the mass that is held, and with running totals what is under way,
must be as at the start to 1e-9 (float64). Every release is booked under a budget that allows a record one release.

At the end the loss of each batch before it is learnt is compared with that of the same peers when nobody comes or goes:

- over rounds: the mean over rounds of the mean over those who learn in them. Who is away learns nothing meanwhile, and
  those present hold its mass too: a batch moves the mean of all models by step / peers, whoever is there, so that a
  round with a fifth of the peers away leads a fifth less far. A loss that falls from round to round is then larger by
  as much, however well members are joined and left.
- over as many batches: the first n batches of each run, n as many as the run with fewer has. This says what coming and
  going does to what is learnt from a batch, and is the figure of the requirement (at most 5 % more, mean of the seeds).
- the later half of these batches, where the losses of the beginning no longer count.
- of one model that everybody shares, without a network, noise or mass, and that takes a step of step / peers for each
  batch which the peers have learnt, in their order: over rounds. So much more is due to fewer batches, however
  members come and go; `--away` says how much where peers are away by chance for a share of the rounds.

Both runs draw the same noise for the same batch of a peer. With fresh noise (`--own-noise`) two runs of 250 rounds in
which nobody came or went were 7 % apart, which is more than what is to be found.
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
from tacit.core.contract import Algorithm, Clip
from tacit.privacy.accounting import Budget
from tacit.privacy.clipping import clipped_gradient
from tacit.privacy.noise import NoiseSource
from tests.peer.churn import ChurnNetwork
from tests.peer.settings import Setting
from tests.peer.weather import BrokenInvariantError, Host, Weather

EPSILON = 4.0
"""Of each release, and of each record in all."""
SEGMENT = 12.0
"""Virtual seconds of coming and going between two quiet points."""
LONGEST = 600.0
"""Virtual seconds within which a quiet point must come."""
LARGEST_RATIO = 1.05
"""Of the losses over as many batches."""
STEP, CLIP = 0.05, 1.0
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
    mechanism = privacy.laplace(EPSILON, clip=CLIP)
    algorithm: Algorithm = METHODS[name](objectives.squared(), step=STEP, mechanism=mechanism)
    graph = graphs.random_digraph(peers, 3, seed=3)
    return Setting(name, algorithm, graph, stream_of(peers), 400, dtype="float64", booked=True)


class CommonNoise(NoiseSource):
    """A seeded source that a releaser takes for one that is not."""

    predictable = False


class Churn(ChurnNetwork):
    """A network whose records may each be released once; the noise of a batch is the same in every run."""

    budget = Budget(epsilon=EPSILON)
    common_noise = True

    def __init__(self, *given, **more) -> None:
        self.learnt: list[tuple[int, int, int]] = []
        """Round, agent and number of each batch."""
        super().__init__(*given, **more)

    def _note_loss(self, host: Host, used: int) -> None:
        super()._note_loss(host, used)
        self.learnt.append((host.node.round + 1, self.numbers[host.name], used))
        if self.common_noise:
            drawn = (self.seed * len(host.ready) + used) * len(self.hosts) + self.numbers[host.name]
            host.node.machine.releaser.source = CommonNoise.seeded_for_simulation(drawn)


def of_one_model(learnt: list[tuple[int, int, int]], peers: int, rounds: int) -> float:
    """Return the loss over rounds of one model that takes the batches as they were learnt."""
    objective, data = objectives.squared(), stream_of(peers).chunk(0, 400)
    slope = clipped_gradient(objective, Clip(CLIP))

    @jax.jit
    def gone_on(model, batches, present):
        moves = jax.vmap(slope, (None, 0))(model, batches)
        losses = jax.vmap(objective.loss, (None, 0))(model, batches)
        return model - STEP / peers * present @ moves, losses @ present / present.sum()

    in_round: dict[int, list[tuple[int, int]]] = {}
    for at, agent, used in learnt:
        in_round.setdefault(at, []).append((agent, used))
    model, losses = np.zeros(data.x.shape[-1]), []
    for at in range(1, rounds + 1):
        if at in in_round:
            chosen, present = np.zeros((peers, 2), int), np.zeros(peers)
            chosen[: len(in_round[at])], present[: len(in_round[at])] = [(u % 400, k) for k, u in in_round[at]], 1
            batches = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen[:, 0], chosen[:, 1]], data)
            model, loss = gone_on(model, batches, present)
            losses.append(float(loss))
    return float(np.mean(losses))


def of_one_model_away(share: float, peers: int, rounds: int, seed: int) -> float:
    """Return how many times the loss over rounds is that of peers that stay, if each is away for a share of them."""
    random, used, learnt = np.random.default_rng(seed), np.zeros(peers, int), []
    for at in range(1, rounds + 1):
        for agent in np.flatnonzero(random.random(peers) >= share):
            learnt.append((at, int(agent), int(used[agent])))
            used[agent] += 1
    everybody = [(at, agent, at - 1) for at in range(1, rounds + 1) for agent in range(peers)]
    return of_one_model(learnt, peers, rounds) / of_one_model(everybody, peers, rounds)


def run(
    name: str, peers: int, rounds: int, seed: int, comes_and_goes: bool, segment: float, say=print
) -> tuple[dict, np.ndarray]:
    """Run one method until all peers have done so many rounds; returns figures and the loss of each batch in turn."""
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
        "seconds in virtual time": network.now,
        "mass off by": worst,
        "spent": spent,
        "loss": average,
        "loss of one model": of_one_model(network.learnt, peers, rounds),
        "seconds": time.perf_counter() - began,
    }, np.array([loss for at, loss in network.losses if at <= rounds])


def compare(name: str, peers: int, rounds: int, seed: int, segment: float) -> tuple[list[float], bool]:
    """Run one method with and without coming and going; returns the ratios of losses, and whether all was in budget."""
    found, losses = run(name, peers, rounds, seed, True, segment)
    calm, calm_losses = run(name, peers, rounds, seed, False, segment)
    batches = min(len(losses), len(calm_losses))
    later = slice(batches // 2, batches)
    ratios = [
        found["loss"] / calm["loss"],
        losses[:batches].mean() / calm_losses[:batches].mean(),
        losses[later].mean() / calm_losses[later].mean(),
        found["loss of one model"] / calm["loss of one model"],
    ]
    print(f"{name}, seed {seed}: {found}\n{name}, seed {seed}, nobody comes or goes: {calm}")
    print(f"{name}, seed {seed}: batches {len(losses):,} and {len(calm_losses):,}, loss {_said(ratios)}", flush=True)
    return ratios, found["spent"] <= EPSILON * (1 + 1e-9)


def _said(ratios) -> str:
    over_rounds, alike, later, of_one = ratios
    return (
        f"{over_rounds:.3f} times over rounds ({of_one:.3f} of one model), {alike:.3f} over as many batches, "
        f"{later:.3f} over their later half"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; the exit code is 1 where something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--segment", type=float, default=SEGMENT)
    parser.add_argument("--own-noise", action="store_true", help="fresh noise in every run, as peers draw it")
    parser.add_argument("--away", type=float, nargs="+", help="shares of the rounds: of one model, and nothing else")
    given = parser.parse_args(arguments)
    for share in given.away or ():
        seeds = range(given.seed, given.seed + given.seeds)
        ratios = [of_one_model_away(share, given.peers, given.rounds, seed) for seed in seeds]
        print(f"away {share:.0%}: {np.mean(ratios):.3f} times the loss over rounds, of one model")
    if given.away:
        return 0
    Churn.common_noise = not given.own_noise
    broken = 0
    for name in given.methods:
        ratios = []
        for seed in range(given.seed, given.seed + given.seeds):
            try:
                found, in_budget = compare(name, given.peers, given.rounds, seed, given.segment)
            except BrokenInvariantError as fault:
                print(f"{name}, seed {seed}: BROKEN: {fault}")
                broken += 1
                continue
            ratios.append(found)
            broken += not in_budget
        if ratios:
            mean, spread = np.mean(ratios, axis=0), np.std(ratios, axis=0)
            print(f"{name}: {len(ratios)} seed(s), mean loss {_said(mean)}; standard deviations {np.round(spread, 3)}")
            broken += bool(mean[1] > LARGEST_RATIO)
    print("broken" if broken else "all held")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
