"""What the peers of a simulated network work on: plans made of the simulator's world, as `run_in_process` makes them."""

from __future__ import annotations

import functools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm
from tacit.graphs import Channel, Delay, Graph, Topology
from tacit.peer import AgentFunctions, run_in_process
from tacit.peer.node.assignment import Plan
from tacit.peer.views import AgentViews
from tacit.streams import Stream

SEED = 5


class Setting:
    """An algorithm on a graph with a stream, and a plan for each of its agents."""

    def __init__(
        self,
        name: str,
        algorithm: Algorithm,
        graph: Graph | Topology,
        stream: Stream,
        rounds: int,
        longest_delay: int = 0,
        dtype: str = "float32",
        booked: bool = False,
    ) -> None:
        self.name, self.algorithm, self.stream, self.rounds = name, algorithm, stream, rounds
        self.longest_delay, self.dtype, self.booked = longest_delay, dtype, booked
        self.waits = algorithm.missing == "wait"
        self.rests = isinstance(graph, Topology) and any(there.rests for there in graph.availability.values())
        self.channel = Channel(delay=Delay(0.0, longest_delay)) if longest_delay else Channel()
        self.graph = graph
        with self._precision():
            self.topology = runtime.prepared_topology(algorithm, graph)
            self.world = AgentViews(algorithm, self.topology, SEED, jnp.dtype(dtype))
            self._now = functools.cache(lambda t: self.world.now(t) if t else self.world.at_first())
            self.data = jax.tree.map(self._cast, stream.chunk(0, rounds))
            first = jax.tree.map(lambda leaf: leaf[0, 0], self.data)
            params = runtime.first_params(algorithm, first, jnp.dtype(dtype), None)
            roles = {role: self.world.views(role, 0, 0, 0, self._now(0)) for role in algorithm.init}
            self.functions = AgentFunctions(algorithm, runtime.settle(algorithm, params, first, roles))
            self.members = {role: [f"{role}-{k}" for k in range(n)] for role, n in self.topology.roles.items()}
            self.plans = {
                name: Plan(
                    "job",
                    algorithm,
                    role,
                    agent,
                    self.members,
                    runtime.agent_key(self.world.root, index, 0, agent),
                    params,
                    first,
                    self._views(role, agent),
                    roles,
                    longest_delay,
                    dtype,
                    booked,
                    following=self.world.rounds_of(role, agent),
                )
                for index, role in enumerate(algorithm.init)
                for agent, name in enumerate(self.members[role])
            }

    def _precision(self):
        return jax.enable_x64(self.dtype == "float64")

    def _cast(self, leaf: np.ndarray) -> np.ndarray:
        floating = np.issubdtype(leaf.dtype, np.floating)
        return np.asarray(leaf, self.dtype if floating else jax.dtypes.canonicalize_dtype(leaf.dtype))

    def _views(self, role: str, agent: int):
        size = int(self.stream.data_size[agent]) if role == self.algorithm.learner else 0
        return functools.cache(lambda t: self.world.views(role, agent, t, size, self._now(t)))

    def batch(self, name: str, used: int):
        """Return the batch after `used` ones; methods that do not wait may come round to the first again."""
        plan = self.plans[name]
        if plan.role != self.algorithm.learner:
            return ()
        return jax.tree.map(lambda leaf: leaf[used % self.rounds, plan.agent], self.data)

    def books(self, phase: int) -> bool:
        """Whether releases of a phase are booked: those made of data."""
        return self.booked and self.functions.specs[phase].release.from_data

    def release(self, name: str, at_round: int, phase: int) -> str:
        """Return the name under which a release is booked."""
        return f"{self.plans[name].role} {self.plans[name].agent} round {at_round} phase {phase}"

    @functools.cached_property
    def reference(self):
        """Models of the predictors after all rounds, without any network."""
        with mock.patch("tacit.peer.in_memory.AgentFunctions", return_value=self.functions):  # compiled once
            run = run_in_process(
                self.algorithm,
                self.graph,
                self.stream,
                rounds=self.rounds,
                seed=SEED,
                channel=self.channel,
                dtype=self.dtype,
            )
        return jax.tree.map(lambda leaf: leaf[-1], run.models)
