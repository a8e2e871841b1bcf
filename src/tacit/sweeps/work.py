"""Tasks of a sweep: settings that are run by one worker, together where they differ in liftable numbers alone."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp

from tacit.algorithms import REGISTRY
from tacit.config.choices import Choice
from tacit.config.experiment import Config, parse
from tacit.config.own_code import import_file, own_files
from tacit.config.sections import in_words_of_a_file
from tacit.core import limits
from tacit.core.contract import Objective
from tacit.core.errors import ConfigError, TacitError, TacitWarning
from tacit.experiments.build import Problem, build
from tacit.experiments.references import made
from tacit.objectives import OBJECTIVES
from tacit.results import Run
from tacit.simulator.simulation import Options
from tacit.sweeps.settings import Setting
from tacit.sweeps.table import DONE, REFUSED, Row
from tacit.sweeps.vectorised import MOST, OBJECTIVE, liftable, number_at, simulate_together

MOST_AGENTS = 2**18
"""Agents of all settings and seeds in one program; beyond that there is nothing to gain."""
QUICK = 2 * 10**8
"""Rounds of single agents that one worker does in seconds: settings with fewer of them are not dealt out."""
METHOD = "algorithm."


class Task(NamedTuple):
    """Settings for one worker."""

    file: str
    """Of the sweep, for messages; relative paths start beside it."""
    texts: tuple[str, ...]
    """The experiment of each setting, as TOML."""
    lifted: tuple[str, ...]
    """Keys of [[algorithm]] in which alone they differ; none: there is one setting."""
    code: tuple[tuple[str, str], ...]
    """A method of the user's own, and the file that registers it."""


def grouped(settings: Iterable[Setting]) -> list[tuple[list[Setting], tuple[str, ...]]]:
    """Return the settings that can be one program, and the keys in which they differ.

    Args:
      settings: Settings of one sweep.
    """
    groups: dict[str, tuple[list[Setting], tuple[str, ...]]] = {}
    for setting in settings:
        lifted = _lifted(setting)
        other = {key: value for key, value in setting.values.items() if key.removeprefix(METHOD) not in lifted}
        key = json.dumps([lifted, other], sort_keys=True, default=str)
        groups.setdefault(key, ([], lifted))[0].append(setting)
    return list(groups.values())


def _lifted(setting: Setting) -> tuple[str, ...]:
    """Return the keys of a setting's method and objective that are swept and may be arguments of a program."""
    config = setting.config
    swept = {key.removeprefix(METHOD) for key in setting.values if key.startswith((METHOD, OBJECTIVE))}
    if config.privacy is not None or not swept:
        return ()
    try:
        return tuple(sorted(liftable(config.algorithms[0], config.objective, swept)))
    except (TacitError, TypeError, ValueError):  # the worker will say it, of this setting
        return ()


def tasks_of(settings: Sequence[Setting], rounds: int | None, workers: int) -> list[tuple[list[Setting], Task]]:
    """Return settings with the tasks in which they are run, so that every worker has some.

    Args:
      settings: What is to be run.
      rounds: Of all of them; None: each setting's own.
      workers: That there are.
    """
    found = []
    for group, lifted in grouped(settings):
        size = _together_at_most(group, rounds, workers) if lifted else 1
        for first in range(0, len(group), size):
            part = group[first : first + size]
            texts = tuple(each.text(rounds or each.config.run.rounds) for each in part)
            asked = part[0].config.algorithms[0], part[0].config.objective
            code = tuple((each.kind, str(file)) for each in asked for file in own_files([each.function]))
            found.append((part, Task(str(part[0].config.file.resolve()), texts, lifted, code)))
    return found


def _together_at_most(group: Sequence[Setting], rounds: int | None, workers: int) -> int:
    """Return how many settings are one program: all of a small group, since compiling takes longer than its rounds."""
    config = group[0].config
    agents = getattr(config.graph.values, "agents", None) or MOST_AGENTS
    wanted = len(group) * agents * config.run.repeats * (rounds or config.run.rounds)
    return min(MOST, len(group) if wanted <= QUICK else -(-len(group) // workers))


def work(task: Task) -> list[list[Row]]:
    """Run the settings of a task.

    Args:
      task: What to run.

    Returns:
      The rows of each setting, one per seed.
    """
    for name, file in task.code:
        if name not in REGISTRY and name not in OBJECTIVES:
            import_file(Path(file))
    configs = [parse(text, Path(task.file)) for text in task.texts]
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TacitWarning)  # of each setting the same
        outcomes = _outcomes(configs, task.lifted)
    share = (time.perf_counter() - begun) / len(configs)
    return [_rows(config, outcome, share) for config, outcome in zip(configs, outcomes, strict=True)]


def _outcomes(configs: Sequence[Config], lifted: Sequence[str]) -> list[Run | str]:
    """Return the run of each setting, or why it cannot be run."""
    found: dict[int, Run | str] = {}
    problem: Problem | None = None
    able: list[int] = []
    for k, config in enumerate(configs):
        try:
            choice = config.algorithms[0]
            if problem is None:
                problem = build(_recording_once(config))
            else:
                problem.check(choice, made(choice, problem.objective))
            able.append(k)
        except TacitError as error:
            found[k] = str(error)
    if problem is not None:
        agents = problem.stream(problem.config.run.seed).agents * problem.config.run.repeats
        size = max(1, MOST_AGENTS // agents)
        for first in range(0, len(able), size):
            part = able[first : first + size]
            found.update(zip(part, _run(problem, [configs[k] for k in part], lifted), strict=True))
    return [found[k] for k in range(len(configs))]


def _recording_once(config: Config) -> Config:
    """Return an experiment of which the last state alone is recorded, unless its file says otherwise."""
    run = config.run
    return replace(config, run=run.model_copy(update={"record_every": run.record_every or run.rounds}))


def _run(problem: Problem, configs: Sequence[Config], lifted: Sequence[str]) -> list[Run | str]:
    """Run settings of one problem, together if they can be."""
    if len(configs) > 1:
        try:
            runs = _together(problem, configs, lifted)
        except (TacitError, TypeError, ValueError):  # a function of the method looks at a number
            runs = None
        if runs is not None:
            return [_judged(problem, run) for run in runs]
        if len(lifted) > 1:
            return _without_one(configs, lifted)
    return [_alone(config) for config in configs]


def _without_one(configs: Sequence[Config], lifted: Sequence[str]) -> list[Run | str]:
    """Run settings together that agree in one of the numbers: steps are the last that are given up."""
    key = min(lifted, key=lambda key: (key.partition(".")[0] == "step", key))
    rest = [other for other in lifted if other != key]
    groups: dict[float, list[int]] = {}
    for k, config in enumerate(configs):
        groups.setdefault(number_at(config.algorithms[0], config.objective, key), []).append(k)
    found: dict[int, Run | str] = {}
    for group in groups.values():
        found.update(zip(group, _outcomes([configs[k] for k in group], rest), strict=True))
    return [found[k] for k in range(len(configs))]


def _together(problem: Problem, configs: Sequence[Config], lifted: Sequence[str]) -> list[Run]:
    settings = problem.config.run
    choices = [config.algorithms[0] for config in configs]
    objectives: list[Choice | Objective] = [problem.objective] * len(configs)
    if any(key.startswith(OBJECTIVE) for key in lifted):
        objectives = [config.objective for config in configs]
        first = configs[0].objective
        if first.function(**first.arguments()) != problem.objective:
            raise ConfigError("an objective that is made of the data, with weights of classes say, is that of one run")
    options = Options(
        rounds=settings.rounds,
        repeats=settings.repeats,
        seed=settings.seed,
        channel=problem.channel,
        dtype=jnp.dtype(settings.dtype),
        start=None,
        node_loss=settings.node_loss,
        figures={},
        evaluate="everyone",
        record={},
        record_every=settings.record_every,
        checkpoint=None,
        progress=False,
        liars=problem.liars_of(settings.seed),
    )
    with limits.memory(settings.memory), in_words_of_a_file():
        return simulate_together(choices, objectives, lifted, problem.graph, problem.stream, options)


def _alone(config: Config) -> Run | str:
    try:
        (run,) = build(_recording_once(config)).runs(progress=False)
    except TacitError as error:
        return str(error)
    if run.partial:
        raise KeyboardInterrupt
    return run


def _judged(problem: Problem, run: Run) -> Run | str:
    try:
        problem.judge(run, progress=False)
    except TacitError as error:
        return str(error)
    return run


def _rows(config: Config, outcome: Run | str, seconds: float) -> list[Row]:
    seeds = range(config.run.seed, config.run.seed + config.run.repeats)
    if isinstance(outcome, str):
        refused: Any = {"status": REFUSED, "error": outcome, "seconds": seconds / len(seeds)}
        return [{"seed": seed, **refused} for seed in seeds]
    spent = outcome.privacy.summary()
    privacy = {name: spent[name] for name in ("epsilon", "delta") if spent["private"]}
    figures = {name: found["values"] for name, found in outcome.metrics().items()}
    facts = {**privacy, "seconds": seconds / len(seeds), "status": DONE, "error": None}
    return [
        {"seed": seed, **{name: values[k] for name, values in figures.items()}, **facts} for k, seed in enumerate(seeds)
    ]
