"""The [privacy] of an experiment: noise, step and averaging of its methods, planned from epsilon."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from tacit.config.choices import Choice, choose_method, parameters, task_of
from tacit.config.experiment import Config
from tacit.config.experiment_sections import AlgorithmSettings, Privacy, PrivacySettings
from tacit.config.sections import located
from tacit.core.errors import TacitWarning
from tacit.privacy.planning import Plan, plan
from tacit.streams import Stream


def participation(stream: Stream, rounds: int) -> tuple[int, int]:
    """Return in how many rounds a record is read at most, and how many lie between two reads at least.

    Args:
      stream: Of which only the numbers of records are read.
      rounds: That are looked at.

    Example:
      >>> import numpy as np, tacit
      >>> owner = np.repeat([0, 1], 4)
      >>> rows = tacit.streams.from_arrays(np.ones((8, 1)), np.ones(8), owner, batch=2, passes=3)
      >>> participation(rows, 6)
      (3, 2)
    """
    reads, apart = 1, rounds
    for agent in np.unique(stream.alike(), return_index=True)[1].tolist():
        numbers = stream.numbered(agent, 0, rounds)
        if numbers is None:
            continue
        round_, place = np.nonzero(numbers >= 0)
        pairs = np.unique(np.stack([numbers[round_, place], round_], axis=1), axis=0)
        same = np.diff(pairs[:, 0]) == 0
        reads = max(reads, int(np.unique(pairs[:, 0], return_counts=True)[1].max(initial=1)))
        apart = min(apart, int(np.diff(pairs[:, 1])[same].min(initial=apart)))
    return reads, apart if reads > 1 else 1


def planned(config: Config, asked: Privacy, stream: Stream) -> tuple[Config, Plan]:
    """Return the experiment with the noise that [privacy] asks for, where an algorithm has none; and the plan.

    Args:
      config: A checked experiment.
      asked: Its [privacy].
      stream: Of its first repeat.
    """
    with located(asked.place):
        chosen = _plan(config, asked.settings, stream)
    _warn_of_unequal_owners(stream, chosen)
    algorithms = tuple(_with_noise(choice, chosen) for choice in config.algorithms)
    return replace(config, algorithms=algorithms), chosen


def _warn_of_unequal_owners(stream: Stream, chosen: Plan) -> None:
    """Say where noise is fitted to an owner who reads its few records far more often than others do."""
    sizes = stream.data_size
    if chosen.passes > 2 and sizes.min() > 0 and sizes.max() > 2 * sizes.min():
        warnings.warn(
            f"the owner with fewest records ({int(sizes.min()):,} of up to {int(sizes.max()):,}) reads each of them "
            f"{chosen.passes} times, and all noise is fitted to that: leave exhausted = 'cycle' out of [stream], "
            "and every record is read once, or as often as passes says",
            TacitWarning,
            stacklevel=2,
        )


def _plan(config: Config, asked: PrivacySettings, stream: Stream) -> Plan:
    spec = stream.batch_spec()
    y = spec.y
    batch = int(y.shape[0]) if y.ndim else 1
    task, classes = task_of(config.objective)
    return plan(
        records=batch * config.run.rounds,
        features=int(np.prod(spec.x.shape[y.ndim :])),
        epsilon=asked.epsilon,
        delta=asked.delta,
        owners=stream.agents,
        task=task,
        outputs=classes or 1,
        batch=batch,
        strategy=asked.strategy,
        rounds=config.run.rounds,
        participation=participation(stream, config.run.rounds),
    )


def _with_noise(choice: Choice, chosen: Plan) -> Choice:
    """Return an algorithm with the planned noise, step and average, except where it says otherwise."""
    settable = parameters(choice.function)
    if getattr(choice.values, "private", None) is False or "mechanism" not in settable or "mechanism" in choice.tables:
        return choice
    given = {key: value for key, value in choice.settings("name").items() if key in choice.values.model_fields_set}
    settings: dict[str, object] = {
        "mechanism": {
            "kind": "correlated",
            "rounds": chosen.rounds,
            "epsilon": chosen.epsilon,
            "delta": chosen.delta,
            "clip": chosen.clip,
            "participation": list(chosen.participation),
            "strategy": chosen.strategy,
        }
    }
    if "step" in settable:
        settings["step"] = chosen.step
    settings["average"] = {"kind": "tail", "share": chosen.tail}
    return choose_method({"name": choice.kind, **settings, **given}, choice.place, AlgorithmSettings)
