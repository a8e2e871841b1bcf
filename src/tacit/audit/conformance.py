"""Checks of the contract on a user's algorithm: in both runtimes, over a restart, on other data and other numbering.

Each check runs the method and raises a ContractError that names the difference. `check_contract` does all of them; the
package's own tests do them one by one, on every registered method.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import jax
import numpy as np

from tacit.core.contract import Algorithm, Mechanism, Params, Tree
from tacit.core.errors import ConfigError, ContractError, ResultError
from tacit.graphs import Channel, Graph, Topology
from tacit.peer import Envelope, run_in_process
from tacit.peer.in_memory import speakers
from tacit.peer.machine.releases import BookedReleaser, NothingBooked
from tacit.privacy.noise import NoiseSource
from tacit.results import Run
from tacit.runtime import prepared_topology
from tacit.simulator import simulate
from tacit.streams import Stream, from_function

PRECISE = 1e-10
"""Largest relative difference between two ways of the same computation in double precision."""


@dataclass(frozen=True)
class Trial:
    """A method and a problem to try it on."""

    algorithm: Algorithm
    graph: Graph | Topology
    stream: Stream
    channel: Channel
    rounds: int
    seed: int

    def simulated(self, **settings: Any) -> Run:
        """Run it in the simulator."""
        given = {"rounds": self.rounds, "channel": self.channel, "seed": self.seed, "progress": False, **settings}
        return simulate(self.algorithm, given.pop("graph", self.graph), given.pop("stream", self.stream), **given)

    @cached_property
    def precise(self) -> Run:
        """The run in double precision, which several checks compare with."""
        return self.simulated(dtype="float64")

    def refuse(self, what: str) -> NoReturn:
        """Say what is wrong with the method."""
        raise ContractError(f"algorithm {self.algorithm.name!r}: {what}")


def check_contract(
    algorithm: Algorithm,
    graph: Graph | Topology,
    stream: Stream,
    *,
    other: Stream | None = None,
    channel: Channel | None = None,
    rounds: int = 20,
    seed: int = 0,
) -> tuple[str, ...]:
    """Run a method in all the ways that must agree, and name the checks that were made.

    A method with noise is not relabelled, since noise goes by the agent's number. `tacit.audit.audit` attacks the
    privacy of its messages.

    Args:
      algorithm: The method, with its objective and mechanism.
      graph: A small network.
      stream: Data for its learners.
      other: Stream of other data for the check of public parts; None: each agent gets the next one's.
      channel: Loss and delay of messages; None: reliable.
      rounds: Rounds of each run, from 1 on.
      seed: Of the runs.

    Returns:
      The checks, in words.

    Raises:
      ContractError: A check fails; its message names the difference and the remedy.

    Example:
      Some seconds::

        method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
        check_contract(method, tacit.graphs.directed_ring(3), tacit.streams.logistic_drift(3, 2), rounds=4)
        # ('the simulator equals peers', 'a restart goes on', 'public parts ignore the data', ...)
    """
    of_any_length = algorithm._replace(horizon=None)
    trial = Trial(of_any_length, graph, stream, channel or Channel(), rounds, seed)
    simulator_equals_peers(trial)
    restart_goes_on(trial)
    done = ["the simulator equals peers", "a restart goes on"]
    if algorithm.privacy.private and not any(_on_model(phase.mechanism) for phase in algorithm.phases):
        releases_keep_to_their_declaration(trial)
        done.append("releases keep to their declaration")
    if algorithm.privacy.private:  # both runtimes have followed them, or they would have refused it
        done.append("no data leave beside the mechanism")
    if trial.channel.reliable:
        public_parts_ignore_data(trial, _next_agents_data(stream) if other is None else other)
        done.append("public parts ignore the data")
    if (
        isinstance(graph, Graph)
        and trial.channel.reliable
        and stream.arrivals is None
        and not algorithm.privacy.private
    ):
        relabelling_changes_nothing(trial)
        done.append("the numbering of agents does not matter")
    return tuple(done)


def _on_model(mechanism: Mechanism) -> bool:
    """Whether peers refuse a mechanism: noise on models, or link by link."""
    return mechanism.distribution is not None and (mechanism.perturbs == "model" or mechanism.per_slot)


def simulator_equals_peers(trial: Trial, dtype: str = "float64", tolerance: float = PRECISE) -> None:
    """Compare losses, messages and last models of the simulator and of separate peers."""
    algorithm, seed, rounds = trial.algorithm, trial.seed, trial.rounds
    run = trial.precise if dtype == "float64" else trial.simulated(dtype=dtype)
    peers = run_in_process(
        algorithm, trial.graph, trial.stream, rounds=rounds, seed=seed, channel=trial.channel, dtype=dtype
    )
    if peers.refused:
        trial.refuse(f"peers refused {peers.refused} of each other's messages")
    if not np.array_equal(run.per_round["messages"][0], peers.messages):
        trial.refuse("peers send another number of messages than the simulator")
    if not np.all(np.isfinite(run.per_round["loss"])):
        trial.refuse("its loss is not finite; take a smaller step, or data of a smaller size")
    serving = speakers(algorithm, prepared_topology(algorithm, trial.graph, trial.channel))
    last = jax.tree.map(lambda leaf: leaf[-1][serving], peers.models)
    apart = max(
        _relative(jax.tree.map(lambda leaf: leaf[0], run.models), last), _relative(run.per_round["loss"][0], peers.loss)
    )
    if not apart <= tolerance:
        trial.refuse(
            f"after {rounds} rounds the simulator and separate peers differ by {apart:.2g}, more than {tolerance:g}; "
            "its functions must depend on their arguments alone, and on what arrived"
        )


def releases_keep_to_their_declaration(trial: Trial) -> None:
    """Let peers release as they do with a ledger, and see whether anything had to be cut down to what is declared."""
    releasers: list[BookedReleaser] = []

    def releaser(role: str, agent: int) -> BookedReleaser:
        releasers.append(BookedReleaser(NothingBooked(), NoiseSource()))
        return releasers[-1]

    run_in_process(
        trial.algorithm,
        trial.graph,
        trial.stream,
        rounds=min(trial.rounds, 4),
        seed=trial.seed,
        channel=trial.channel,
        releaser=releaser,
    )
    if cut := sum(each.cut for each in releasers):
        trial.refuse(
            f"{cut} releases went beyond the sensitivity that its mechanism declares; clip every record's part in "
            "compute, and release that alone: what does not depend on data joins in emit"
        )


def restart_goes_on(trial: Trial) -> None:
    """Compare a run with one that was stopped on the way and went on from its file."""
    whole = trial.precise
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "state"
        trial.simulated(rounds=max(trial.rounds // 2, 1), checkpoint=file, dtype="float64")
        try:
            rest = trial.simulated(checkpoint=file, dtype="float64")
        except ResultError as error:  # it was compiled to something else
            trial.refuse(f"stopped and started again it takes another way: {error}")
    unlike = [name for name, values in whole.per_round.items() if not np.array_equal(rest.per_round[name], values)]
    if unlike or not _identical(rest.models, whole.models):
        trial.refuse(f"stopped and started again it takes another way ({', '.join(unlike) or 'models'} differ)")


def public_parts_ignore_data(trial: Trial, other: Stream) -> None:
    """Compare the public parts of all messages on two streams."""
    one, two = ([_public(envelope) for envelope in _sent(trial, stream)] for stream in (trial.stream, other))
    if [address for address, _ in one] != [address for address, _ in two]:
        trial.refuse("who sends to whom depends on the data, and is seen by everybody")
    for (address, a), (_, b) in zip(one, two, strict=True):
        if not _identical(a, b):
            links, t, sender, _ = address
            trial.refuse(
                f"the public part of agent {sender}'s message along {links!r} in round {t} depends on the data; "
                "send it as private, so that it passes the mechanism"
            )


def relabelling_changes_nothing(trial: Trial) -> None:
    """Compare a run with one of the same agents under other numbers."""
    assert isinstance(trial.graph, Graph)
    stream, new = trial.stream, np.random.default_rng(0).permutation(trial.stream.agents)
    old = np.argsort(new)
    data = _reordered(stream, old, stream.data_size[old])
    moved = trial.simulated(graph=trial.graph.relabelled(new), stream=data, dtype="float64")
    plain = trial.precise
    apart = _relative(jax.tree.map(lambda leaf: leaf[0][new], moved.models), jax.tree.map(lambda m: m[0], plain.models))
    if not apart <= PRECISE:
        trial.refuse(f"with its agents numbered in another way its models differ by {apart:.2g}; do not use view.agent")


def _next_agents_data(stream: Stream) -> Stream:
    """Return other data for each agent; their number and times stay as they were: these are no secret."""
    if stream.arrivals is not None:
        raise ConfigError(
            f"stream {stream.name!r} brings data now and then; give a second one like it, with other data (other=...)"
        )
    return _reordered(stream, np.roll(np.arange(stream.agents), -1), stream.data_size)


def _reordered(stream: Stream, order: np.ndarray, sizes: np.ndarray) -> Stream:
    def chunk(start: int, stop: int) -> Tree:
        return jax.tree.map(lambda leaf: leaf[:, order], stream.chunk(start, stop))

    return from_function(
        chunk,
        agents=stream.agents,
        rounds=stream.rounds,
        period=stream.period,
        data_size=sizes,
        records=lambda agent, start, stop: stream.records(int(order[agent]), start, stop),
    )


def _sent(trial: Trial, stream: Stream) -> list[Envelope]:
    seen: list[Envelope] = []
    rounds, channel = min(trial.rounds, 4), trial.channel
    run_in_process(
        trial.algorithm, trial.graph, stream, rounds=rounds, seed=trial.seed, channel=channel, watch=seen.append
    )
    return seen


def _public(envelope: Envelope) -> tuple[tuple[str, int, int, int], Tree]:
    address = (envelope.links, envelope.round, envelope.sender, envelope.receiver)
    return address, () if envelope.message is None else envelope.message.public


def _identical(a: Tree, b: Tree) -> bool:
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, a, b)))


def _relative(a: Params, b: Params) -> float:
    """Largest ||a - b|| / ||b|| over the leaves."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(
        float(np.linalg.norm(np.asarray(x) - y) / max(np.linalg.norm(y), np.finfo(float).tiny)) for x, y in pairs
    )
