"""Settings of one method that differ in numbers alone, as arguments of one compiled program.

The method and its objective are built anew inside of the trace, of traced numbers; a parameter that takes "a number or
a function of the round" gets the function that returns the argument. So none has to know of sweeps, and whatever a
constructor makes of the number is part of the program. What cannot be built so, because it looks at the number, is
found out by trying. Graphs, data and random draws are those of a run of one setting.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeGuard, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.config.choices import SCHEDULES, Choice, StepSchedule
from tacit.core import limits
from tacit.core.contract import Algorithm, Array, Objective, Params
from tacit.core.errors import ConfigError, TacitError
from tacit.experiments.references import made
from tacit.metrics import consensus_distance
from tacit.results import Run
from tacit.runtime.program_cache import keep_programs
from tacit.runtime.programs import compiled
from tacit.simulator.api import NOTED_BYTES
from tacit.simulator.checkpoint import Log
from tacit.simulator.loop_state import LoopState
from tacit.simulator.progress import Interrupts
from tacit.simulator.shards.programs import Programs
from tacit.simulator.simulation import GraphSource, Options, Simulation, StreamSource

Values = Mapping[str, Any]
"""Key -> its value, or one for each setting."""
MOST = 64
"""Settings in one program."""
SCALE, OBJECTIVE = "scale", "objective."
"""The number of a schedule, and what keys of [objective] begin with."""
LOOP_AXES = LoopState(None, 0, 0, 0, 0)  # type: ignore[arg-type]
"""All settings are in the same round, so that what a round draws or decides by itself is done once for all."""


def liftable(choice: Choice, objective: Choice | Objective, swept: Collection[str]) -> frozenset[str]:
    """Return the keys that may be arguments of a compiled program.

    They are numbers of the method, of a step that falls by a schedule its scale, and numbers of the objective, as far
    as both can be built of a number that is traced. A method that adds noise has none: its settings may enter what is
    booked. Neither has one that prepares or checks data by its settings.

    Args:
      choice: The method and its settings.
      objective: Its loss and regulariser, or what was made of them, which has no keys.
      swept: Keys of [[algorithm]], e.g. ``step`` or ``step.scale``, and of [objective], e.g. ``objective.l2``.
    """
    algorithm = built(choice, objective, {})
    if not _unprotected(algorithm):
        return frozenset()
    found = []
    for key in swept:
        of, name = _place(choice, objective, key)
        if not _is_number(of, name):
            continue
        try:
            traced = _built_of(choice, objective, {key: number_at(choice, objective, key)})
        except (TacitError, TypeError, ValueError):  # it looks at the number, so that this has to be one
            continue
        if _alike(algorithm, traced):
            found.append(key)
    return frozenset(found)


def _place(choice: Choice, objective: Choice | Objective, key: str) -> tuple[Choice | Objective, str]:
    """Return whose key it is, and its name there."""
    return (objective, key.removeprefix(OBJECTIVE)) if key.startswith(OBJECTIVE) else (choice, key)


def _is_number(of: Choice | Objective, name: str) -> TypeGuard[Choice]:
    """Whether a key is that of a number which need not be whole, or of the scale of a schedule."""
    first, _, rest = name.partition(".")
    if not isinstance(of, Choice) or first not in of.own:
        return False
    value = getattr(of.values, first)
    if rest:
        return rest == SCALE and isinstance(value, StepSchedule)
    return isinstance(value, int | float) and not isinstance(value, bool) and float in _kinds(of, first)


def _kinds(choice: Choice, name: str) -> tuple[Any, ...]:
    hint = get_type_hints(choice.function)[choice.own[name.partition(".")[0]]]
    return get_args(hint) or (hint,)


def _takes_function(choice: Choice, name: str) -> bool:
    """Whether a parameter may be a function of the round."""
    return any(get_origin(kind) is get_origin(Callable[..., Any]) for kind in _kinds(choice, name))


def number_at(choice: Choice, objective: Choice | Objective, key: str) -> float:
    """Return the number at a key that is lifted: a step, say, or the scale of its schedule.

    Args:
      choice: The method and its settings.
      objective: Its loss and regulariser.
      key: As in `liftable`.
    """
    of, name = _place(choice, objective, key)
    assert isinstance(of, Choice)
    name, _, scale = name.partition(".")
    value = getattr(of.values, name)
    return float(value.scale if scale else value)


def built(choice: Choice, objective: Choice | Objective, values: Values) -> Algorithm:
    """Return a method whose constructor, and that of its objective, get traced numbers in place of their own.

    Args:
      choice: The method and its settings.
      objective: Its loss and regulariser, or what was made of them.
      values: Key, as in `liftable`, -> number.
    """
    if isinstance(objective, Choice):
        own = {key.removeprefix(OBJECTIVE): value for key, value in values.items() if key.startswith(OBJECTIVE)}
        lifted = {objective.own[name]: value for name, value in own.items()}
        loss: Objective = objective.function(**{**objective.arguments(), **lifted})
    else:
        loss = objective
    steps = {name: value for name, value in values.items() if not name.startswith(OBJECTIVE)}
    return made(_with_values(choice, steps), loss)


def _with_values(choice: Choice, values: Values) -> Choice:
    def taken(key: str, value: Any) -> Any:
        asked = getattr(choice.values, key.partition(".")[0])
        if isinstance(asked, StepSchedule):
            return SCHEDULES[asked.schedule](value)
        return (lambda t: value) if _takes_function(choice, key) else value

    @functools.wraps(choice.function)
    def function(objective: Objective, **given: Any) -> Algorithm:
        lifted = {choice.own[key.partition(".")[0]]: taken(key, value) for key, value in values.items()}
        algorithm: Algorithm = choice.function(objective, **{**given, **lifted})
        return algorithm

    return choice._replace(function=function)


def _built_of(choice: Choice, objective: Choice | Objective, values: Values) -> Algorithm:
    """Build a method inside of a trace, and return it; its functions are not to be called."""
    found: list[Algorithm] = []
    jax.eval_shape(lambda given: found.append(built(choice, objective, given)), dict(values))
    return found[0]


def _unprotected(algorithm: Algorithm) -> bool:
    noise = any(phase.mechanism.distribution is not None for phase in algorithm.phases)
    return not (noise or algorithm.privacy.private or algorithm.prepare or algorithm.check_data)


def _alike(algorithm: Algorithm, traced: Algorithm) -> bool:
    """Whether a method of traced numbers asks for nothing else than the method of the numbers does."""
    facts = ("name", "requires", "weights", "learner", "predictor", "missing", "window", "horizon")
    return all(getattr(algorithm, name) == getattr(traced, name) for name in facts)


def simulate_together(
    choices: Sequence[Choice],
    objectives: Sequence[Choice | Objective],
    lifted: Sequence[str],
    graph: GraphSource,
    stream: StreamSource,
    options: Options,
) -> list[Run]:
    """Run settings of one method that differ in liftable parameters, all in one program.

    Args:
      choices: The method with each setting, at least one.
      objectives: Loss and regulariser of each setting, or what was made of them where they are the same in all.
      lifted: Keys in which they differ, as `liftable` returns them.
      graph: As `tacit.simulate` takes it.
      stream: Likewise.
      options: Of every one of the runs.

    Returns:
      One run per setting, with the figures of a run by itself, apart from rounding. Ctrl-C is raised.
    """
    keep_programs()
    with jax.enable_x64(options.dtype == jnp.float64):
        return _Together(choices, objectives, lifted, graph, stream, options).runs()


class _Together:
    def __init__(
        self,
        choices: Sequence[Choice],
        objectives: Sequence[Choice | Objective],
        lifted: Sequence[str],
        graph: GraphSource,
        stream: StreamSource,
        options: Options,
    ) -> None:
        self.choices, self.objectives, self.options = choices, objectives, options
        self.algorithms = [built(*setting, {}) for setting in zip(choices, objectives, strict=True)]
        if not all(_alike(self.algorithms[0], each) for each in self.algorithms):
            raise ConfigError("settings that ask for different graphs or data are no one program; run them one by one")
        noted = len(choices) * options.repeats * options.rounds * NOTED_BYTES * (1 + len(self.algorithms[0].phases))
        limits.refuse_beyond(noted, f"curves of {options.rounds:,} rounds x {len(choices)} settings")
        self.base = Simulation(self.algorithms[0], graph, stream, options)
        models = len(choices) * options.repeats * self.base.learners.agents
        what = f"models of {len(choices)} settings"
        limits.refuse_beyond(models * runtime.model_bytes(self.base.params), f"{models:,} {what}")
        self.values = {
            key: jnp.asarray([number_at(*each, key) for each in zip(choices, objectives, strict=True)], options.dtype)
            for key in lifted
        }

    def _of(self, values: Values) -> Programs:
        """Return the programs of one setting, inside of a trace."""
        return self.base.programs.of_method(built(self.choices[0], self.objectives[0], values))

    def _start(self, values: Values, network: Any) -> LoopState:
        return self._of(values).engine.start(network, self.base.params, self.base.own_params)

    def _advance(self, values: Values, *rest: Any) -> Any:
        return self._of(values).advance_shard(*rest)

    def _look(self, values: Values, network: Any, loop: LoopState) -> tuple[Params, dict[str, Array]]:
        found = self._of(values)
        models = found.models_of_shard(network, loop)
        return models, {"consensus": jax.vmap(consensus_distance)(models), **found.shown_of_shard(network, loop)}

    def runs(self) -> list[Run]:
        base, options, count = self.base, self.options, len(self.choices)
        begun = time.perf_counter()
        start = jax.vmap(self._start, in_axes=(0, None), out_axes=LOOP_AXES)
        loop = jax.jit(start)(self.values, base.network)
        resident = base.data.resident()
        data = resident if resident is not None else base.data.abstract_chunk()
        number = jax.ShapeDtypeStruct((), jnp.int32)
        advance = compiled(
            jax.vmap(self._advance, in_axes=(0, None, LOOP_AXES, None, None, None), out_axes=(LOOP_AXES, 0)),
            self.values, base.network, loop, data, number, number, donate=(2,),
        )  # fmt: skip
        look = compiled(jax.vmap(self._look, in_axes=(0, None, LOOP_AXES)), self.values, base.network, loop)
        compiling = time.perf_counter() - begun
        names = ["consensus", *base.algorithm.diagnostics]
        logs = [Log({}, names) for _ in self.choices]
        begun = time.perf_counter()
        with Interrupts() as interrupts:
            for first, length, data in base.data.pieces(0, options.every, resident):
                offset = np.int32(0 if base.data.period is None else first % base.data.period)
                loop, trace = advance(self.values, base.network, loop, data, offset, length)
                trace = jax.tree.map(np.asarray, trace)
                for k, log in enumerate(logs):
                    log.add(int(length), trace.figures[k, :length], trace.messages[k], trace.ratios[k, :length])
                done = first + length
                if done % options.every == 0 or done == options.rounds:
                    models, found = jax.tree.map(np.asarray, look(self.values, base.network, loop))
                    for k, log in enumerate(logs):
                        log.record(done, {name: values[k] for name, values in found.items()})
                if interrupts.asked:
                    raise KeyboardInterrupt
        seconds = time.perf_counter() - begun
        return [
            self._collected(k, jax.tree.map(lambda leaf, k=k: leaf[k], models), log, seconds / count, compiling / count)
            for k, log in enumerate(logs)
        ]

    def _collected(self, k: int, models: Params, log: Log, seconds: float, compiling: float) -> Run:
        found = copy.copy(self.base)
        found.algorithm = self.algorithms[k]
        return found.collect(models, log, seconds, compiling)
