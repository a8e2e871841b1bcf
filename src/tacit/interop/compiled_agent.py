"""One agent without neighbours as one compiled program: the simulator's round, sample by sample.

A sample that is learnt waits in a queue until a prediction, the model or a full queue asks for it; one call of the
program then does the rounds of all that wait and predicts. So predict-then-learn costs one call a sample. What is
computed is what `tacit.simulate` computes for one agent, in the same order: that samples waited cannot be seen.

It is for methods that promise no privacy: noise has to be drawn and booked before anything is shown
(`tacit.interop.solo`), and nothing of that may wait.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit import runtime
from tacit.core.contract import Algorithm, Params
from tacit.graphs import Channel, Graph, Topology
from tacit.interop.agents import Agent
from tacit.privacy.spending import RunPrivacy
from tacit.runtime.programs import compiled
from tacit.simulator.engine import Engine
from tacit.simulator.layout import lay_out
from tacit.simulator.loop_state import LoopState
from tacit.streams import Batch

PRECISION = jnp.dtype("float32")
QUEUE = 64
"""Samples that wait at most."""

Leaves = list[Any]
"""Arrays of the simulator's `LoopState`, the round first."""


def may_wait(algorithm: Algorithm) -> bool:
    """Whether samples of a method may wait: it promises nothing, and adds no noise and no masks.

    Args:
      algorithm: Any method.
    """
    plain = all(phase.mechanism.distribution is None and not phase.mechanism.per_slot for phase in algorithm.phases)
    return plain and not algorithm.privacy.private


class CompiledAgent(Agent):
    """A method that promises no privacy, on one agent."""

    def __init__(
        self, algorithm: Algorithm, columns: int, label: type[np.generic], seed: int, start: Params | None = None
    ) -> None:
        """Make the first state; the program is compiled when it is first needed.

        Args:
          algorithm: The method; its objective says what it predicts.
          columns: Numbers of a sample.
          label: Type of a label.
          seed: Seed of the choices that the method makes at random.
          start: First parameters; None: those of the objective.
        """
        self.algorithm, self._label = algorithm, label
        topology = runtime.prepared_topology(algorithm, Graph.from_edges(1, [], [], name="one agent"))
        layout = lay_out(Topology.union([topology]), runtime.link_ends(algorithm), 1)
        sample = Batch(jax.ShapeDtypeStruct((columns,), PRECISION), jax.ShapeDtypeStruct((), label))  # type: ignore[arg-type]
        params = runtime.first_params(algorithm, sample, PRECISION, start)
        self._engine = Engine(algorithm, layout, Channel(), PRECISION, params, sample)
        self._network = self._engine.network(seed, np.zeros(1, np.int32))
        first = jax.jit(self._engine.start)(self._network, params)
        self._leaves, self._form = jax.tree.flatten(first)
        self._program: Any = None
        self._predict_many: Any = None
        self._shape = (QUEUE + 1, columns + 1)
        self._new_table()

    @property
    def privacy(self) -> RunPrivacy:
        """Privacy promised: none."""
        return RunPrivacy(self.algorithm.privacy)

    @property
    def model(self) -> Params:
        """Parameters to predict with."""
        self._learn_queue()
        return jax.tree.map(np.asarray, jax.jit(self._model)(self._leaves))

    @property
    def state(self) -> list[NDArray[Any]]:
        """All that the agent has become, for `restore`; the round comes first."""
        self._learn_queue()
        return [np.asarray(leaf) for leaf in self._leaves]

    def restore(self, state: list[NDArray[Any]]) -> None:
        """Go on from the state of an agent of the same settings.

        Args:
          state: From `state`.
        """
        self._leaves = [jnp.asarray(leaf) for leaf in state]
        self._new_table()

    def go_on_from(self, round_: int) -> None:
        """Count rounds on from those of an agent whose model this one has taken over.

        Args:
          round_: Rounds that are over.
        """
        self._leaves[0] = jnp.int32(round_)

    @property
    def round(self) -> int:
        """Rounds done, one per sample."""
        return int(self._leaves[0]) + self._waiting

    def learn(self, x: NDArray[Any], y: float) -> None:
        """Learn from one sample, at the latest when it makes a difference.

        Args:
          x: Numbers of the sample.
          y: Its label.
        """
        if self._waiting == QUEUE:
            self._learn_queue()
        row = self._table[self._waiting]
        row[:-1] = x
        row[-1] = y
        self._waiting += 1

    def learn_many(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        """Learn from samples one after the other.

        Args:
          x: Numbers (samples, columns).
          y: Labels.
        """
        done = 0
        while done < len(x):
            if self._waiting == QUEUE:
                self._learn_queue()
            count = min(QUEUE - self._waiting, len(x) - done)
            rows = self._table[self._waiting : self._waiting + count]
            rows[:, :-1] = x[done : done + count]
            rows[:, -1] = y[done : done + count]
            self._waiting += count
            done += count

    def output(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the model says of a sample: a number, or one per class.

        Args:
          x: Numbers of the sample.
        """
        self._table[QUEUE, :-1] = x
        return np.asarray(self._advance(), np.float64)

    def output_many(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the model says of samples: (samples,) numbers, or (samples, classes).

        Args:
          x: Numbers (samples, columns).
        """
        self._learn_queue()
        piece = np.zeros((QUEUE, x.shape[1]), PRECISION)
        if self._predict_many is None:
            self._predict_many = compiled(self._predicted, self._leaves, piece)
        found = [np.zeros((0, *np.asarray(self._predict_many(self._leaves, piece)).shape[1:]))]
        for first in range(0, len(x), QUEUE):
            part = x[first : first + QUEUE]
            piece = np.zeros((QUEUE, x.shape[1]), PRECISION)
            piece[: len(part)] = part
            found.append(np.asarray(self._predict_many(self._leaves, piece), np.float64)[: len(part)])
        return np.concatenate(found)

    # ------------------------------------------------------------------------------------------------------------------

    def _new_table(self) -> None:
        """Begin an empty queue in memory of its own: the old one may still be read."""
        self._table, self._waiting = np.zeros(self._shape, PRECISION), 0

    def _learn_queue(self) -> None:
        if self._waiting:
            self._advance()

    def _advance(self) -> Any:
        """Do the rounds of all samples that wait, and return what the model then says of the sample asked for."""
        self._table[QUEUE, -1] = self._waiting
        if self._program is None:
            self._program = compiled(self._rounds, self._leaves, self._table)
        self._leaves, said = self._program(self._leaves, self._table)
        self._new_table()
        return said

    def _rounds(self, leaves: Leaves, table: jax.Array) -> tuple[Leaves, jax.Array]:
        """Compiled: rows of the table are samples with their labels; the last one asks, and says how many wait."""

        def one(k: jax.Array, loop: LoopState) -> LoopState:
            row = table[k]
            batch = Batch(row[None, :-1], row[None, -1].astype(self._label))
            return self._engine.round(self._network, loop, batch, self._engine.send_buffers())[0]

        loop = jax.tree.unflatten(self._form, leaves)
        loop = jax.lax.fori_loop(0, table[QUEUE, -1].astype(jnp.int32), one, loop)
        after = jax.tree.leaves(loop)
        return after, self._says(after, table[QUEUE, :-1])

    def _predicted(self, leaves: Leaves, rows: jax.Array) -> jax.Array:
        return jax.vmap(lambda row: self._says(leaves, row))(rows)

    def _model(self, leaves: Leaves) -> Params:
        (models,) = self._engine.models(self._network, jax.tree.unflatten(self._form, leaves))
        return jax.tree.map(lambda leaf: leaf[0], models)

    def _says(self, leaves: Leaves, x: jax.Array) -> jax.Array:
        predict = self.algorithm.objective.predict
        assert predict is not None  # the learner that makes this has checked it
        return predict(self._model(leaves), x)
