"""Settings of one method that differ in numbers alone, as arguments of one compiled program.

The method is built anew inside of the trace, of traced numbers: a parameter that takes "a number or a function of the
round" gets the function that returns the argument. So no method has to know of sweeps, and whatever its constructor
makes of the number is part of the program. Graphs, data and random draws are those of a run of one setting.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

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
"""Parameter of a constructor -> its value, or one for each setting."""
MOST = 64
"""Settings in one program."""
SCALE = "scale"
"""The number of a schedule."""
LOOP_AXES = LoopState(None, 0, 0, 0, 0)  # type: ignore[arg-type]
"""All settings are in the same round, so that what a round draws or decides by itself is done once for all."""


def liftable(choice: Choice, objective: Objective) -> frozenset[str]:
    """Return the parameters of a method that may be arguments of a compiled program.

    They are those that take a function of the round; of one that falls by a schedule, its scale. A method that adds
    noise has none: its steps may enter what is booked. Neither has one that prepares or checks data by its settings.

    Args:
      choice: The method and its settings.
      objective: Its loss.

    Returns:
      Keys of [[algorithm]], e.g. ``step`` or ``step.scale``.
    """
    found = []
    algorithm = made(choice, objective)
    hints = get_type_hints(choice.function)
    for key, name in choice.own.items():
        value = getattr(choice.values, key)
        takes_function = any(get_origin(kind) is get_origin(Callable[..., Any]) for kind in get_args(hints[name]))
        if not takes_function or isinstance(value, bool) or not isinstance(value, int | float | StepSchedule):
            continue
        found_key = f"{key}.{SCALE}" if isinstance(value, StepSchedule) else key
        try:
            traced = _built_of(choice, objective, {name: _number(choice, found_key)})
        except (TacitError, TypeError, ValueError):  # it looks at the number, so that this has to be one
            continue
        if _unprotected(algorithm) and _alike(algorithm, traced):
            found.append(found_key)
    return frozenset(found)


def _number(choice: Choice, key: str) -> float:
    """Return the number at a key that is lifted: a step, or the scale of its schedule."""
    name, _, scale = key.partition(".")
    value = getattr(choice.values, name)
    return float(value.scale if scale else value)


def with_values(choice: Choice, values: Values) -> Choice:
    """Return a choice whose constructor gets traced numbers in place of its own: functions of the round."""

    keys = {name: key for key, name in choice.own.items()}

    def of_the_round(name: str, value: Any) -> Callable[[Array], Any]:
        asked = getattr(choice.values, keys[name])
        return SCHEDULES[asked.schedule](value) if isinstance(asked, StepSchedule) else lambda t: value

    @functools.wraps(choice.function)
    def function(objective: Objective, **given: Any) -> Algorithm:
        steps = {name: of_the_round(name, value) for name, value in values.items()}
        algorithm: Algorithm = choice.function(objective, **{**given, **steps})
        return algorithm

    return choice._replace(function=function)


def _built_of(choice: Choice, objective: Objective, values: Values) -> Algorithm:
    """Build a method inside of a trace, and return it; its functions are not to be called."""
    built: list[Algorithm] = []
    jax.eval_shape(lambda given: built.append(made(with_values(choice, given), objective)), dict(values))
    return built[0]


def _unprotected(algorithm: Algorithm) -> bool:
    noise = any(phase.mechanism.distribution is not None for phase in algorithm.phases)
    return not (noise or algorithm.privacy.private or algorithm.prepare or algorithm.check_data)


def _alike(algorithm: Algorithm, traced: Algorithm) -> bool:
    """Whether a method of traced numbers asks for nothing else than the method of the numbers does."""
    facts = ("name", "requires", "weights", "learner", "predictor", "missing", "window", "horizon")
    return all(getattr(algorithm, name) == getattr(traced, name) for name in facts)


def simulate_together(
    choices: Sequence[Choice],
    lifted: Sequence[str],
    objective: Objective,
    graph: GraphSource,
    stream: StreamSource,
    options: Options,
) -> list[Run]:
    """Run settings of one method that differ in liftable parameters, all in one program.

    Args:
      choices: The method with each setting, at least one.
      lifted: Keys in which they differ.
      objective: Loss and regulariser.
      graph: As `tacit.simulate` takes it.
      stream: Likewise.
      options: Of every one of the runs.

    Returns:
      One run per setting, with the figures of a run by itself, apart from rounding. Ctrl-C is raised.
    """
    keep_programs()
    with jax.enable_x64(options.dtype == jnp.float64):
        return _Together(choices, lifted, objective, graph, stream, options).runs()


class _Together:
    def __init__(
        self,
        choices: Sequence[Choice],
        lifted: Sequence[str],
        objective: Objective,
        graph: GraphSource,
        stream: StreamSource,
        options: Options,
    ) -> None:
        self.choices, self.objective, self.options = choices, objective, options
        self.algorithms = [made(choice, objective) for choice in choices]
        if not all(_alike(self.algorithms[0], each) for each in self.algorithms):
            raise ConfigError("settings that ask for different graphs or data are no one program; run them one by one")
        noted = len(choices) * options.repeats * options.rounds * NOTED_BYTES * (1 + len(self.algorithms[0].phases))
        limits.refuse_beyond(noted, f"curves of {options.rounds:,} rounds x {len(choices)} settings")
        self.base = Simulation(self.algorithms[0], graph, stream, options)
        models = len(choices) * options.repeats * self.base.learners.agents
        what = f"models of {len(choices)} settings"
        limits.refuse_beyond(models * runtime.model_bytes(self.base.params), f"{models:,} {what}")
        self.values = {
            choices[0].own[key.partition(".")[0]]: jnp.asarray([_number(c, key) for c in choices], options.dtype)
            for key in lifted
        }

    def _of(self, values: Values) -> Programs:
        """Return the programs of one setting, inside of a trace."""
        return self.base.programs.of_method(made(with_values(self.choices[0], values), self.objective))

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
