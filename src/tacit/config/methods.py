"""Methods that a file names, and what it puts around them: an optimiser, a rule, compression, an average."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import Field

from tacit.config.choices import CONSTRUCTORS, OPTIMISER, Choice, Table, choose, qualified, table_from, types_of
from tacit.config.sections import Place, Section, located, unknown_name
from tacit.core.contract import Algorithm, Objective
from tacit.core.errors import ConfigError


class MethodSettings(Section):
    """Settings of every method, besides its own parameters."""

    average: str | dict[str, Any] | None = None
    """With which average of its models it predicts: a kind, or a table of kind and settings; see
    `tacit.algorithms.averaged`."""
    robust: str | dict[str, Any] | None = None
    """By which rule it combines what it hears: its name, or a table of rule and settings; see
    `tacit.algorithms.robust`."""
    compress: str | dict[str, Any] | None = None
    """In how few bytes its models travel: a kind, or a table of kind and settings; see
    `tacit.algorithms.compressed`."""
    optimiser: dict[str, Any] | None = None
    """What it steps by instead of `step`: a table of kind and settings; see `tacit.algorithms.optimisers`."""


class CompressSettings(Section):
    """Settings of every way to compress, besides its own parameters."""

    memory: bool | None = None
    gamma: float | None = Field(default=None, gt=0, le=1)


class RobustSettings(Section):
    """Settings of every rule, besides its own parameters."""

    quarantine: bool = False
    release: int = Field(default=500, ge=1, lt=2**30)


def choose_method(data: Mapping[str, Any], place: Place, common: type[MethodSettings] = MethodSettings) -> Choice:
    """Check a section that names a method and sets its parameters."""
    choice = _with_rule(choose(CONSTRUCTORS, data, place, common=common, key="name"))
    choice = _with_compression(_with_optimiser(choice))
    average = getattr(choice.values, "average", None)
    if average is None or "average" in choice.own:
        return choice
    from tacit.algorithms.model_average import AVERAGES

    if isinstance(average, str):
        if average not in AVERAGES:
            raise ConfigError(f"{place} average = {average!r}: {unknown_name(average, list(AVERAGES), 'average')}")
        average = {"kind": average}
    table = table_from(AVERAGES, average, place.table("average"))
    return choice._replace(tables={**choice.tables, "average": table})


def _with_optimiser(choice: Choice) -> Choice:
    """Let the table `optimiser`, where there is one, stand for the parameter `step`."""
    asked = getattr(choice.values, "optimiser", None)
    if asked is None or "optimiser" in choice.own:
        return choice
    if OPTIMISER not in map(qualified, get_args(types_of(choice.function).get("step"))):
        raise ConfigError(
            f"{choice.place} optimiser: {choice.kind!r} takes none; use a method that steps by gradients, e.g. "
            "distributed_online, online_push_sum or fedavg"
        )
    if "step" in choice.values.model_fields_set:
        raise ConfigError(f"{choice.place} step and optimiser: its rate is in the optimiser's table; remove step")
    from tacit.algorithms.optimisers import OPTIMISERS

    table = table_from(OPTIMISERS, asked, choice.place.table("optimiser"))
    own = {key: parameter for key, parameter in choice.own.items() if key != "step"}
    return choice._replace(
        values=choice.values.model_copy(update={"step": None}),
        own={**own, "optimiser": "step"},
        tables={**choice.tables, "optimiser": table},
    )


def _with_rule(choice: Choice) -> Choice:
    """Check the rule by which a method is to combine."""
    rule = getattr(choice.values, "robust", None)
    if rule is None or "robust" in choice.own:
        return choice
    from tacit.core.robust_rules import RULES

    place = choice.place.table("robust")
    chosen = choose(RULES, {"rule": rule} if isinstance(rule, str) else rule, place, common=RobustSettings, key="rule")
    with located(place):
        table = Table(chosen.settings("rule"), chosen.function(**chosen.arguments()))
    return choice._replace(tables={**choice.tables, "robust": table})


def _with_compression(choice: Choice) -> Choice:
    """Check in how few bytes a method's models are to travel."""
    kind = getattr(choice.values, "compress", None)
    if kind is None or "compress" in choice.own:
        return choice
    from tacit.algorithms._compressors import COMPRESSORS

    place, given = choice.place.table("compress"), {"kind": kind} if isinstance(kind, str) else kind
    chosen = choose(COMPRESSORS, given, place, common=CompressSettings)
    with located(place):
        table = Table(chosen.settings(), chosen.function(**chosen.arguments()))
    return choice._replace(tables={**choice.tables, "compress": table})


def _wrapper(choice: Choice, key: str) -> dict[str, Any] | None:
    """Return the table of what is put around a method, other than by a parameter of its own; None: nothing is."""
    if key in choice.own or key not in choice.tables:
        return None
    settings = choice.tables[key].settings
    assert isinstance(settings, dict)  # one table, not several
    return settings


def method_name(choice: Choice) -> str:
    """Return what the method that was chosen is called in tables."""
    name, rule, average = choice.kind, _wrapper(choice, "robust"), _wrapper(choice, "average")
    short = _wrapper(choice, "compress")
    if rule is not None:
        from tacit.algorithms.robust_mixing import robust_name

        name = robust_name(name, rule["rule"])
    if short is not None:
        from tacit.algorithms.compression import compressed_name

        name = compressed_name(name, short["kind"])
    if average is not None:
        from tacit.algorithms.model_average import averaged_name

        name = averaged_name(name, average["kind"])
    return name


def make_method(choice: Choice, objective: Objective) -> Algorithm:
    """Return the method that was chosen, with the rule, the compression and the average that were asked for."""
    with located(choice.place):
        made: Algorithm = choice.function(objective, **choice.arguments())
    rule, average = _wrapper(choice, "robust"), _wrapper(choice, "average")
    short = _wrapper(choice, "compress")
    if rule is not None:
        from tacit.algorithms import robust

        with located(choice.place.table("robust")):
            made = robust(made, **rule)
    if short is not None:
        from tacit.algorithms import compressed

        with located(choice.place.table("compress")):
            made = compressed(made, **short)
    if average is not None:
        from tacit.algorithms import averaged

        made = averaged(made, **average)
    return made
