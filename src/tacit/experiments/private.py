"""The [privacy] of an experiment: noise, step and averaging of its methods, planned from epsilon."""

from __future__ import annotations

import warnings
from dataclasses import replace

import jax
import numpy as np

from tacit.config.choices import Choice, parameters, task_of
from tacit.config.experiment import Config
from tacit.config.experiment_sections import AlgorithmSettings, Privacy, PrivacySettings
from tacit.config.methods import choose_method
from tacit.config.sections import located
from tacit.core.contract import Batch
from tacit.core.errors import ConfigError, TacitWarning
from tacit.objectives.registry import OWN_OBJECTIVES
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
    agents = np.unique(stream.alike(), return_index=True)[1].tolist()
    reads, apart = zip(*(_own_participation(stream, agent, rounds) for agent in agents), strict=True)
    return max(reads), min(apart) if max(reads) > 1 else 1


def _own_participation(stream: Stream, agent: int, rounds: int) -> tuple[int, int]:
    """Return the same of one agent's records; of some that are read once, all rounds lie between two reads."""
    numbers = stream.numbered(agent, 0, rounds)
    if numbers is None:
        return 1, rounds
    round_, place = np.nonzero(numbers >= 0)
    pairs = np.unique(np.stack([numbers[round_, place], round_], axis=1), axis=0)
    same = np.diff(pairs[:, 0]) == 0
    reads = int(np.unique(pairs[:, 0], return_counts=True)[1].max(initial=1))
    return reads, int(np.diff(pairs[:, 1])[same].min(initial=rounds))


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
    if chosen.passes <= 2 or sizes.min() == 0 or sizes.max() <= 2 * sizes.min():
        return
    if _own_participation(stream, int(sizes.argmax()), chosen.rounds)[0] < chosen.passes:
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
    features = int(np.prod(spec.x.shape[y.ndim :]))
    _refuse_networks(config, asked, spec, features * (classes or 1))
    return plan(
        records=batch * config.run.rounds,
        features=features,
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


def _refuse_networks(config: Config, asked: PrivacySettings, spec: Batch, parameters: int) -> None:
    """Refuse a model of the user's own that is not one number for each feature (and class)."""
    choice = config.objective
    if choice.kind not in OWN_OBJECTIVES:
        return
    objective = choice.function(**choice.arguments())
    found = sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(lambda: objective.initial(spec))))
    if found == parameters:
        return
    raise ConfigError(
        f"epsilon = {asked.epsilon:g} plans for linear models, here of {parameters:,} parameters, and {choice.kind!r} "
        f"has {found:,}: the account would hold, but neither step nor clip would fit; leave [privacy] out, and give "
        f'the algorithm a step and mechanism = {{ kind = "correlated", epsilon = {asked.epsilon:g}, '
        f"delta = {asked.delta:g}, rounds = {config.run.rounds}, clip = 1.0 }}"
    )


def steps_kept(config: Config) -> dict[str, float]:
    """Return the step of each algorithm that [privacy] gives its noise, and that names a step itself.

    Args:
      config: A checked experiment, as it was before `planned`.
    """
    return {
        label: choice.settings()["step"]
        for choice, label in zip(config.algorithms, config.labels, strict=True)
        if "step" in choice.values.model_fields_set and _takes_noise(choice)
    }


def _takes_noise(choice: Choice) -> bool:
    """Whether an algorithm takes a mechanism and names none."""
    private = getattr(choice.values, "private", None) is not False
    return private and "mechanism" in parameters(choice.function) and "mechanism" not in choice.tables


def _with_noise(choice: Choice, chosen: Plan) -> Choice:
    """Return an algorithm with the planned noise, step and average, except where it says otherwise."""
    settable = parameters(choice.function)
    if not _takes_noise(choice):
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
