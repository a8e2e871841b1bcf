"""A swarm beside the simulator: the same experiment from the same seed, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm, Params
from tacit.deploy.rehearsal import plan_for, roster, with_lies
from tacit.deploy.swarm import Privacy, Swarm
from tacit.experiments import Problem
from tacit.graphs import Channel, Topology
from tacit.peer.in_memory import speakers
from tacit.peer.machine.claims import FURTHEST_AHEAD
from tacit.peer.sources.batches import in_precision
from tacit.peer.transport.traffic import Forecast, forecast
from tacit.peer.views import AgentViews
from tacit.simulator import simulate
from tacit.simulator.engine import Engine
from tacit.simulator.layout import lay_out
from tacit.simulator.loop_state import joined
from tacit.streams import Stream


class Seen(NamedTuple):
    """A swarm after a round that all have finished."""

    curves: Mapping[str, float]
    """The loss in it, how far apart the models are after it, bits of messages sent, epsilon where it is booked."""
    agents: Mapping[str, np.ndarray]
    """(learners,) figures of each; NaN where unknown."""
    links: Mapping[str, Sequence[tuple[str, str]]]
    """State -> senders and receivers, by name, of links that were not open."""


Figures = Callable[[], Seen]
"""Gives what is to be seen."""


class Outcome(NamedTuple):
    """One algorithm as processes and in the simulator."""

    label: str
    rounds: int
    processes: int
    booked: bool
    """Whether noise came from entropy, so that trajectories are not those of the simulator."""
    difference: float | None
    """The largest of any coordinate of any agent's model after any round; None if it was booked."""
    difference_at: int | None
    """The first round in which it is that large."""
    final_difference: float | None
    """Of the models after the last round, by `tacit.simulate` itself."""
    loss: float
    """Of the swarm, mean over honest agents and the last tenth of the rounds, at the models of the round before."""
    simulated_loss: float
    """The same of the simulator."""
    seconds: float
    """From the start of the processes to their end."""
    rounds_per_second: float | None
    """Between the end of the first round, in which all compile, and that of the last; None for one round."""
    spending: dict[str, dict[str, Any]]
    """Member -> what its ledger says; empty if nothing was booked."""
    socket_bytes: int | None = None
    """Sent by all members together, as the kernel counted it at their sockets; None where it does not say."""
    forecast: Forecast | None = None
    """Expected value of that; None where messages are masked."""
    neighbours: dict[str, dict[str, Any]] | None = None
    """Member -> the evidence that it has against each neighbour; none without a robust rule."""

    def within(self, tolerance: float) -> bool:
        """Whether the swarm did what the simulator does; with booked noise there is nothing to hold against it."""
        differences = (self.difference, self.final_difference)
        return all(found is None or found <= tolerance for found in differences)


def compare(
    problem: Problem,
    index: int,
    directory: Path,
    *,
    privacy: Privacy | None = None,
    limit: float = 300.0,
    told: Callable[[int, Figures], object] = lambda done, figures: None,
) -> Outcome:
    """Run algorithm number `index` as processes for at most `limit` seconds, and hold it against the simulator.

    `told` hears now and then how many rounds all processes have finished, and can ask for their figures.
    """
    (algorithm, stream), settings = _with_lies(problem, index), problem.config.run
    if not algorithm.privacy.private:
        privacy = None  # without a mechanism there is no noise to draw
    begun, losses = time.monotonic(), _losses(problem)
    honest = np.setdiff1d(np.arange(stream.agents), list(problem.liars_of(settings.seed)))
    learners = speakers(algorithm, runtime.prepared_topology(algorithm, problem.graph(settings.seed)))

    def models_after(rounds: Sequence[int] | None = None) -> Params:
        return jax.tree.map(lambda leaf: leaf[:, learners], swarm.models(rounds))

    def figures(done: int) -> Seen:
        before, now = (jax.tree.map(lambda leaf, k=k: leaf[k], models_after([done - 1, done])) for k in (0, 1))
        each, apart, all_ = losses(before, done), _distances(now), list(swarm.members.values())
        curves = {
            "loss": float(each[honest].mean()),
            "consensus": float(apart.mean()),
            "bits": 8.0 * sum(member.said.get("sent", 0) for member in all_),
        }
        agents, spent = {"loss": each, "disagreement": apart}, [member.said.get("spent") for member in all_]
        if any(one is not None for one in spent):
            curves["epsilon"] = max(float(one) for one in spent if one is not None)
            mine = [swarm.members[name].said.get("spent") for name in swarm.learners]
            agents["privacy"] = np.array([np.nan if one is None else one for one in mine], np.float64)
        links: dict[str, list[tuple[str, str]]] = {}
        for member in all_:
            for other, state in member.said.get("not_open", {}).items():
                links.setdefault(state, []).append((other, member.name))
        return Seen(curves, agents, links)

    swarm = Swarm(problem, index, directory, privacy=privacy, told=lambda done: told(done, lambda: figures(done)))
    with swarm:
        swarm.wait(limit)
    seconds = time.monotonic() - begun
    models = models_after()
    finished = {name: member.finished or {} for name, member in swarm.members.items()}
    first, last = (max(report[key] or 0.0 for report in finished.values()) for key in ("first", "last"))
    simulated, expected = rounds_of(problem, index)
    sent = [report["sent_bytes"] for report in finished.values()]
    run = simulate(
        algorithm, problem.graph, stream, rounds=settings.rounds, seed=settings.seed, dtype=settings.dtype,
        progress=False,
    )  # fmt: skip
    per_round = largest_difference(models, simulated)
    final = largest_difference(jax.tree.map(lambda leaf: leaf[-1:], models), run.models)
    return Outcome(
        label=problem.config.labels[index],
        rounds=settings.rounds,
        processes=len(swarm.members),
        booked=privacy is not None,
        difference=None if privacy else float(per_round.max()),
        difference_at=None if privacy else int(per_round.argmax()) + 1,
        final_difference=None if privacy else float(final.max()),
        loss=_last_loss(problem, models),
        simulated_loss=_last_loss(problem, simulated),
        seconds=seconds,
        rounds_per_second=(settings.rounds - 1) / (last - first) if settings.rounds > 1 else None,
        spending={name: report["privacy"] for name, report in finished.items()} if privacy else {},
        socket_bytes=None if None in sent else sum(sent),
        forecast=expected,
        neighbours={name: report["neighbours"] for name, report in finished.items()},
    )


def rounds_of(problem: Problem, index: int) -> tuple[Params, Forecast | None]:
    """Return the models of the simulator's engine after every round, leading axes (rounds, learners), and a forecast.

    It says what the same rounds take at the sockets of a swarm.
    """
    settings = problem.config.run
    with jax.enable_x64(settings.dtype == "float64"):
        return _rounds_of(problem, index, jnp.dtype(settings.dtype))


def _rounds_of(problem: Problem, index: int, dtype: jnp.dtype) -> tuple[Params, Forecast | None]:
    (algorithm, stream), seed = _with_lies(problem, index), problem.config.run.seed
    topology = runtime.prepared_topology(algorithm, problem.graph(seed))
    layout = lay_out(Topology.union([topology]), runtime.link_ends(algorithm), 1)
    learners = layout.roles[algorithm.learner]
    batch = _batches(stream, problem.config.run.dtype)
    spec = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), batch(1))
    params = runtime.first_params(algorithm, spec, dtype, None)
    engine = Engine(algorithm, layout, Channel(), dtype, params, spec)
    network = engine.network(seed, stream.data_size)
    loop, buffers = jax.jit(engine.start)(network, params), engine.send_buffers()
    advance = jax.jit(engine.round)
    models = jax.jit(lambda w, c: jax.tree.map(lambda m: m[learners.position], joined(engine.models(w, c))))
    found, sent = [], []
    for t in range(1, problem.config.run.rounds + 1):
        now = jax.tree.map(lambda leaf: leaf[learners.order], batch(t))
        loop, buffers, tally = advance(network, loop, now, buffers)
        found.append(jax.tree.map(np.asarray, models(network, loop)))
        sent.append(np.asarray(tally.messages)[:, 0])
    stacked: Params = jax.tree.map(lambda *leaves: np.stack(leaves), *found)
    seen = AgentViews(algorithm, topology, seed, dtype)
    return stacked, forecast(algorithm, engine.specs, seen, np.stack(sent), FURTHEST_AHEAD)


def _with_lies(problem: Problem, index: int) -> tuple[Algorithm, Stream]:
    """Return method and data of all agents; those of [liars] lie as their processes do."""
    names = roster(problem.algorithms[index], problem.graph(problem.config.run.seed))
    plan, stream = with_lies(problem, plan_for(problem, index, names[problem.algorithms[index].learner][0]))
    return plan.algorithm, stream


def _batches(stream: Stream, dtype: str) -> Callable[[int], Any]:
    """Return the function from a round to the batches of all agents, in the order of the graph."""
    return lambda t: jax.tree.map(lambda leaf: in_precision(leaf[0], dtype), stream.chunk(t - 1, t))


def largest_difference(one: Params, other: Params) -> np.ndarray:
    """Return the largest difference of each leading index; one that is no number is infinite."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    gaps = [
        np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).reshape(len(a), -1).max(axis=1) for a, b in pairs
    ]
    largest: np.ndarray = np.nan_to_num(np.max(gaps, axis=0), nan=np.inf)
    return largest


def _losses(problem: Problem) -> Callable[[Params, int], np.ndarray]:
    """Return the function from models and a round to the losses of all agents on its batches."""
    seed, dtype = problem.config.run.seed, problem.config.run.dtype
    batch, loss = _batches(problem.stream(seed), dtype), jax.jit(jax.vmap(problem.objective.loss))

    def judged(models: Params, t: int) -> np.ndarray:
        with jax.enable_x64(dtype == "float64"):
            return np.asarray(loss(models, batch(t)), np.float64)

    return judged


def _loss(problem: Problem) -> Callable[[Params, int], float]:
    """Return the function from models and a round to the mean loss of the honest agents on its batches."""
    liars, losses = list(problem.liars_of(problem.config.run.seed)), _losses(problem)
    return lambda models, t: float(np.delete(losses(models, t), liars).mean())


def _last_loss(problem: Problem, models: Params) -> float:
    """Return the mean loss at the models of the round before, over the last tenth of the rounds; of one round: NaN."""
    rounds, loss = problem.config.run.rounds, _loss(problem)
    judged = range(max(2, rounds - max(1, rounds // 10) + 1), rounds + 1)
    losses = [loss(jax.tree.map(lambda leaf, t=t: leaf[t - 2], models), t) for t in judged]
    return float(np.mean(losses)) if losses else float("nan")


def _distances(models: Params) -> np.ndarray:
    """Return the squared distance of each model from their mean."""
    leaves = [np.asarray(leaf, np.float64).reshape(len(leaf), -1) for leaf in jax.tree.leaves(models)]
    return np.asarray(sum(np.square(leaf - leaf.mean(axis=0)).sum(axis=1) for leaf in leaves))
