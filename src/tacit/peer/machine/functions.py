"""An algorithm's functions, compiled for one agent at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.core.contract import Algorithm, Batch, Key, Memory, Phase, State, Tree, View
from tacit.core.inbox import StackedInbox
from tacit.peer.machine.envelopes import Form
from tacit.peer.machine.releases import Releaser
from tacit.peer.machine.snapshots import Memories
from tacit.privacy import records_in
from tacit.privacy.charges import Held
from tacit.runtime import MessageSpec

if TYPE_CHECKING:
    from tacit.privacy.enforcement import Enforced


class AgentFunctions:
    """An algorithm's functions compiled for one agent; agents of equal shapes share them.

    A phase is prepared (compute, release, emit) at its source and absorbed at its target.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
      >>> stream = tacit.streams.logistic_drift(agents=3, dim=2)
      >>> run = tacit.peer.run_in_process(method, tacit.graphs.directed_ring(3), stream, rounds=1)
      >>> functions = run.machines["peer"][0].functions
      >>> functions.algorithm.name, len(functions.specs)
      ('online_push_sum', 1)
    """

    def __init__(self, algorithm: Algorithm, specs: tuple[MessageSpec, ...]) -> None:
        """Compile on first use.

        Args:
          algorithm: The method.
          specs: Shape, type and release of each phase's messages, from `tacit.runtime.settle`.
        """
        algorithm = runtime.self_contained(algorithm)
        self.algorithm, self.specs = algorithm, specs
        self.forms = [Form(spec.message) for spec in specs]
        self._prepare = [jax.jit(self._preparer(k, phase)) for k, phase in enumerate(algorithm.phases)]
        self._compute = [jax.jit(self._computer(k, phase)) for k, phase in enumerate(algorithm.phases)]
        self._emit = [jax.jit(self._emitter(phase)) for phase in algorithm.phases]
        self._absorb = [jax.jit(self._absorber(k)) for k in range(len(algorithm.phases))]
        self.model = jax.jit(algorithm.model)
        self.init = {role: jax.jit(self._initialiser(role)) for role in algorithm.init}

    def _preparer(self, index: int, phase: Phase) -> Any:
        return lambda key, state, batch, view, memory: runtime.prepare(phase, index, key, state, batch, view, memory)

    def _computer(self, index: int, phase: Phase) -> Any:
        def compute(
            key: Key, state: State, batch: Batch, view: View
        ) -> tuple[State, runtime.Declared | None, Enforced]:
            from tacit.privacy.enforcement import Enforced, enforced

            view, batch = runtime.with_data(view, batch)
            after, value = runtime.compute(phase, index, key, state, batch, view)
            declared = runtime.declare(phase, value, records_in(batch), view)
            if declared is None:
                return after, declared, Enforced(value, jnp.zeros((), bool))
            of_one = lambda record: runtime.compute(phase, index, key, state, record, view)[1]  # noqa: E731
            return after, declared, enforced(phase.mechanism, value, batch, view, of_one, declared.sensitivity)

        return compute

    def _emitter(self, phase: Phase) -> Any:
        def emit(state: State, noisy: Tree, view: View, declared: runtime.Declared | None) -> runtime.Prepared:
            return runtime.emit(phase, state, runtime.finish(phase, noisy, declared), view, declared)

        return emit

    def _absorber(self, index: int) -> Any:
        def absorb(key: Key, state: State, inbox: StackedInbox, view: View) -> State:
            return runtime.absorb(self.algorithm, index, key, state, inbox, view)

        return absorb

    def _initialiser(self, role: str) -> Any:
        init = self.algorithm.init[role]
        return lambda key, params, views: init(runtime.init_key(key), params, views)

    def memories(self, role: str, wide: bool) -> Memories:
        """Return the empty memories of an agent's noise, per phase.

        Args:
          role: Of the agent.
          wide: In double precision, as a releaser keeps them.
        """
        phases = zip(self.algorithm.phases, self.specs, strict=True)
        return tuple(spec.release.memory(wide) if phase.source == role else None for phase, spec in phases)

    def prepare(
        self, index: int, key: Key, state: State, batch: Batch, view: View, memory: Memory | None
    ) -> runtime.Prepared:
        """Compute, release with simulated noise, emit.

        Args:
          index: Phase, counted from 0.
          key: The agent's random key.
          state: Its state.
          batch: Its data of the round; `()` in a role without data.
          view: Its view of the phase's links in this round.
          memory: Of its noise; None where draws are independent.
        """
        ready: runtime.Prepared = self._prepare[index](key, state, batch, view, memory)
        return ready

    def prepare_booked(
        self,
        index: int,
        key: Key,
        state: State,
        batch: Batch,
        view: View,
        memory: Memory | None,
        releaser: Releaser,
        name: str,
        held: Held,
    ) -> runtime.Prepared:
        """Compute, release through the ledger, emit.

        Args:
          index: Phase, counted from 0.
          key: The agent's random key.
          state: Its state.
          batch: Its data of the round; `()` in a role without data.
          view: Its view of the phase's links in this round.
          memory: Of its noise; None where draws are independent.
          releaser: Draws the noise and books the release.
          name: Unique name of the release in the ledger.
          held: Records in the batch, as the ledger knows them.
        """
        state, declared, (value, cut) = self._compute[index](key, state, batch, view)
        spec, round_ = self.specs[index].release, int(view.round)
        noisy, memory = releaser(name, spec, round_, declared, value, held, bool(cut), memory)
        ready: runtime.Prepared = self._emit[index](state, noisy, runtime.with_data(view, batch)[0], declared)
        return ready._replace(memory=memory)  # in double precision, which the compiled functions may not have

    def compile(self, index: int, key: Key, state: State, batch: Batch, view: View, booked: bool) -> None:
        """Compile what prepares a phase's messages.

        Args:
          index: Phase, counted from 0.
          key: The agent's random key.
          state: Its state.
          batch: Its data of the round; `()` in a role without data.
          view: Its view of the phase's links in this round.
          booked: Whether releases go through the ledger.
        """
        if not booked:
            self._prepare[index](key, state, batch, view, self.specs[index].release.memory())
            return
        state, declared, (value, _) = self._compute[index](key, state, batch, view)
        self._emit[index](state, jax.tree.map(np.asarray, value), runtime.with_data(view, batch)[0], declared)

    def absorb(self, index: int, key: Key, state: State, inbox: StackedInbox, view: View) -> State:
        """Take in what arrived.

        Args:
          index: Phase, counted from 0.
          key: The agent's random key.
          state: Its state.
          inbox: Messages that arrived, one place per in-slot and age.
          view: Its view of the phase's links in this round.
        """
        return self._absorb[index](key, state, inbox, view)
