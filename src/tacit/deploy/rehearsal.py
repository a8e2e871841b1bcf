"""Assignments of all peers in an experiment, from one seed, exactly as the simulator has them.

A rehearsal hides nothing: the seed gives the noise away. `booked` plans differ from it in their noise
only, which then comes from the operating system and is charged.

Agents of [liars] lie (`with_lies`), with the same job as all others: an honest member's file has no such section, and
it imports nothing of `tacit.attacks`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.config.own_code import program
from tacit.config.sections import located
from tacit.core.contract import Algorithm
from tacit.core.errors import ConfigError
from tacit.experiments import Config, Problem
from tacit.graphs import Graph, Topology
from tacit.peer.machine.rounds import Views
from tacit.peer.node.assignment import Plan
from tacit.peer.node.exchange import VERSION
from tacit.peer.sources.batches import in_precision
from tacit.peer.views import AgentViews
from tacit.streams import Stream
from tacit.streams.learnt import refuse_undeclared

if TYPE_CHECKING:
    from tacit.attacks import Attack


def job_hash(config: Config, index: int) -> str:
    """Return the hash on which the peers of an experiment's algorithm must agree, liars too, in hexadecimal."""
    code = program([config.algorithms[index].function, config.objective.function]).facts()
    facts = {
        "experiment": replace(config, liars=None).settings(only=index),
        "algorithm": index,
        "version": VERSION,
        **code,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, allow_nan=False).encode()).hexdigest()


def roster(algorithm: Algorithm, graph: Graph | Topology) -> dict[str, list[str]]:
    """Return the names of the peers of each role, by id."""
    topology = runtime.prepared_topology(algorithm, graph)
    return {role: [f"{role}-{k}" for k in range(topology.roles[role])] for role in algorithm.init}


def plans(
    algorithm: Algorithm,
    graph: Graph | Topology,
    stream: Stream,
    *,
    job: str,
    seed: int = 0,
    booked: bool = False,
    dtype: str = "float32",
    longest_delay: int = 0,
    only: str | None = None,
) -> list[Plan]:
    """Return what each agent has to do, or only the one of that name; as in `tacit.peer.run_in_process`."""
    refuse_undeclared(algorithm, [stream])
    with jax.enable_x64(dtype == "float64"):
        topology = runtime.prepared_topology(algorithm, graph)
        world = AgentViews(algorithm, topology, seed, jnp.dtype(dtype))
        first = jax.tree.map(lambda leaf: in_precision(np.zeros(leaf.shape, leaf.dtype), dtype), stream.batch_spec())
        params = runtime.first_params(algorithm, first, jnp.dtype(dtype), None)
        members = roster(algorithm, graph)
        sizes = {role: np.zeros(len(names), np.int32) for role, names in members.items()}
        sizes[algorithm.learner] = stream.data_size
        at_first = world.at_first()
        role_views = {role: world.views(role, 0, 0, 0, at_first) for role in members}
        return [
            Plan(
                job,
                algorithm,
                role,
                agent,
                members,
                runtime.agent_key(world.root, index, 0, agent),
                params,
                first,
                _views(world, role, agent, int(sizes[role][agent])),
                role_views,
                longest_delay,
                dtype,
                booked,
                world.co_senders(role, agent, members),
                following=world.rounds_of(role, agent),
            )
            for index, (role, names) in enumerate(members.items())
            for agent, name in enumerate(names)
            if only in (None, name)
        ]


def _views(world: AgentViews, role: str, agent: int, size: int) -> Callable[[int], Views]:
    return lambda t: world.views(role, agent, t, size, world.now(t) if t else world.at_first())


def plan_for(problem: Problem, index: int, name: str, *, booked: bool = False) -> Plan:
    """Return what one peer has to do in one of an experiment's algorithms, in its first repeat."""
    settings = problem.config.run
    found = plans(
        problem.algorithms[index],
        problem.graph(settings.seed),
        problem.stream(settings.seed),
        job=job_hash(problem.config, index),
        seed=settings.seed,
        booked=booked,
        dtype=settings.dtype,
        only=name,
    )
    if not found:
        raise ConfigError(f"there is no peer {name!r} in this experiment")
    return found[0]


def with_lies(problem: Problem, plan: Plan) -> tuple[Plan, Stream]:
    """Return a plan and the data of all agents, in which the agents of [liars] lie as real peers can.

    Args:
      problem: The experiment.
      plan: Of any of its agents: of an honest one it does the same as before.
    """
    seed = problem.config.run.seed
    liars, stream = problem.liars_of(seed), problem.stream(seed)
    if not liars:
        return plan, stream
    from tacit.attacks.crew import labels_of
    from tacit.attacks.parts import relabelled

    asked = problem.config.liars
    assert asked is not None
    with located(asked.place):
        return lying_plan(plan, asked.attack, liars), relabelled(stream, labels_of(liars))


def lying_plan(plan: Plan, attack: Attack, liars: Collection[int]) -> Plan:
    """Return the plan of a peer that lies if it is one of those numbers; its messages fit those of all others."""
    from tacit.attacks.lying import Sent, lying

    with plan.precision():
        specs = runtime.settle(plan.algorithm, plan.params, plan.batch, plan.role_views)
    sends = [Sent(spec.message, spec.delivery) for spec in specs]
    return replace(plan, algorithm=lying(plan.algorithm, sends, attack, liars))


def refuse_channel(config: Config) -> None:
    """Refuse an experiment whose messages are to be lost or late: a real network takes no orders."""
    channel: dict[str, Any] = config.run.channel.model_dump(exclude_unset=True)
    for key, value in channel.items():
        if value:
            raise ConfigError(
                f"{config.file}: [run.channel] {key} = {value!r}: real links lose and delay what they do, not what a "
                "file says; remove the key, or use `tacit run`, which simulates it"
            )
