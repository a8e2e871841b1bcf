"""A sweep as a TOML file: an ordinary experiment with a table [sweep], read, checked and spelt out.

    [sweep]       kind, seeds, count, seed, metric, minimise, eta, least_rounds
    [sweep.keys]  dotted key of the experiment -> a list of values, or a range

Every setting is checked before anything runs; all faults are in one ConfigError.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from tacit.config.experiment import WHAT, Config, parse
from tacit.config.sections import Place, Section, Seeding, check, read_text, read_toml, toml_text, unknown_name
from tacit.core import limits
from tacit.core.errors import ConfigError, TacitError
from tacit.core.extras import require

SWEPT_OTHERWISE: Mapping[str, str] = {
    "run.repeats": "[sweep] seeds says how many",
    "run.seed": "[sweep] seeds says how many, from [run] seed on",
    "run.name": "it decides nothing",
}
"""Keys that no sweep goes over, and why."""
MOST_SETTINGS = 100_000
ALIASES: Mapping[str, str] = {"loss": "average_loss", "regret": "regret_per_agent_round"}
METRICS = (
    "average_loss", "accuracy", "mse", "final_consensus", "messages", "bits_per_agent", "clipped",
    "noise_to_signal", "regret_total", "regret_per_agent_round",
)  # fmt: skip
"""Figures of every table, as far as a run has them; others begin with one of `PREFIXES`."""
PREFIXES = ("held-out ", "violation: ", "one_node_")
GROWS_BETTER = ("accuracy", *(f"held-out {name}" for name in ("accuracy", "balanced accuracy", "F1", "ROC AUC", "R2")))


class Range(Section):
    """Values from `low` to `high`; whole numbers where both ends are."""

    low: int | float
    high: int | float
    scale: Literal["linear", "log"] = "linear"
    points: int | None = Field(default=None, ge=2, le=MOST_SETTINGS)
    """How many a grid takes of it."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError("expected low < high, both finite")
        if self.scale == "log" and self.low <= 0:
            raise ValueError('expected low > 0 with scale = "log"')
        return self

    def at(self, share: float) -> int | float:
        """Return the value that lies a share of the way from low to high."""
        ends = (math.log(self.low), math.log(self.high)) if self.scale == "log" else (self.low, self.high)
        value = ends[0] + share * (ends[1] - ends[0])
        value = math.exp(value) if self.scale == "log" else value
        if isinstance(self.low, int) and isinstance(self.high, int):
            return min(max(round(value), self.low), self.high)
        return float(min(max(value, self.low), self.high))


class SweepSettings(Section):
    """[sweep]."""

    keys: dict[str, Any] = Field(min_length=1)
    kind: Literal["grid", "random", "halving"] = "grid"
    seeds: int | None = Field(default=None, ge=1, le=limits.MOST_ROUNDS)
    """Repeats of every setting; without it those of [run]."""
    count: int | None = Field(default=None, ge=1, le=MOST_SETTINGS)
    """Settings that are drawn; halving takes the grid without it."""
    seed: Seeding = 0
    """Of what is drawn."""
    metric: str = "loss"
    minimise: bool | None = None
    """Without it: accuracy is to grow, anything else to fall."""
    eta: int = Field(default=3, ge=2, le=1000)
    """Of halving: one in eta settings goes on, to eta times the rounds."""
    least_rounds: int | None = Field(default=None, ge=1, le=limits.MOST_ROUNDS)
    """Of halving: rounds of the first rung; without it so many that one setting is left at the last."""

    @model_validator(mode="after")
    def _of_their_kind(self) -> Self:
        if self.kind == "random" and self.count is None:
            raise ValueError('kind = "random" needs count = ..., the number of settings to draw')
        if self.kind == "grid" and self.count is not None:
            raise ValueError('count goes with kind = "random" or "halving"; a grid has all settings')
        if self.kind != "halving" and self.least_rounds is not None:
            raise ValueError('least_rounds goes with kind = "halving"')
        return self


class Setting(NamedTuple):
    """One setting of a sweep."""

    number: int
    """From 0 on."""
    values: Mapping[str, Any]
    """Key -> value."""
    document: Mapping[str, Any]
    """The experiment, as its file would say it."""
    config: Config
    """The same, checked."""

    def text(self, rounds: int) -> str:
        """Return the experiment as a file, with other rounds."""
        document = {**self.document, "run": {**self.document["run"], "rounds": rounds}}
        dumped: str = require("tomli_w", "data", "a sweep").dumps(document)
        return dumped


@dataclass(frozen=True)
class Sweep:
    """A checked sweep."""

    file: Path
    settings: SweepSettings
    document: Mapping[str, Any]
    """Content of the file."""
    each: tuple[Setting, ...]
    metric: str
    minimise: bool

    @property
    def keys(self) -> list[str]:
        """The keys that are swept, in the order of the file."""
        return list(self.settings.keys)

    @property
    def seeds(self) -> range:
        """Seeds of every setting."""
        run = self.each[0].config.run
        return range(run.seed, run.seed + run.repeats)

    @property
    def rounds(self) -> int:
        """Rounds of a setting that is run to its end, at most."""
        return max(each.config.run.rounds for each in self.each)

    def rungs(self) -> list[int]:
        """Return the rounds of each rung of halving, the last those of [run]."""
        eta, last = self.settings.eta, self.rounds
        least = self.settings.least_rounds
        steps = math.ceil(math.log(len(self.each), eta) - 1e-9) if least is None else math.inf
        found = [last]
        while len(found) <= steps and found[0] // eta >= (least or 1):
            found.insert(0, found[0] // eta)
        return found


def load_sweep(path: str | os.PathLike[str], **overrides: int | None) -> Sweep:
    """Read a sweep, and check every setting of it.

    Args:
      path: TOML file, an experiment with a table [sweep].
      **overrides: Values of [run] to take instead of the file's; None: the file's.

    Returns:
      The sweep, all settings spelt out. All faults are in one ConfigError.
    """
    file = Path(path)
    document = read_toml(read_text(file, f"{WHAT} with [sweep]"), file)
    place = Place(str(file), "[sweep]")
    asked = document.pop("sweep", None)
    if not isinstance(asked, dict):
        raise ConfigError(
            f"{file}: there is no [sweep]; add one with [sweep.keys], or use `tacit run {file}` (see "
            "examples/sweep.toml)"
        )
    settings = check(SweepSettings, asked, place)
    tables = document.get("algorithm")
    if isinstance(tables, list) and len(tables) != 1:
        raise ConfigError(
            f'{file}: {len(tables)} [[algorithm]], expected one; to sweep over methods say "algorithm.name" = [...] in '
            "[sweep.keys]"
        )
    if isinstance(document.get("run"), dict):
        run = {**document["run"], **{key: value for key, value in overrides.items() if value is not None}}
        # References double the work; regret is computed where it is asked for.
        regret = {} if ALIASES.get(settings.metric, settings.metric).find("regret") >= 0 else {"regret_points": 0}
        document["run"] = {**regret, **run, "references": False}
        if settings.seeds is not None:
            document["run"]["repeats"] = settings.seeds
    each = _checked(settings, document, file, place)
    metric, minimise = _metric(settings, each, place)
    return Sweep(file, settings, {**document, "sweep": asked}, each, metric, minimise)


def _metric(settings: SweepSettings, each: tuple[Setting, ...], place: Place) -> tuple[str, bool]:
    metric = ALIASES.get(settings.metric, settings.metric)
    if metric not in METRICS and not metric.startswith(PREFIXES):
        raise ConfigError(
            f"{place} metric = {settings.metric!r}: {unknown_name(metric, [*ALIASES, *METRICS], 'metric')}"
        )
    if "regret" in metric and not all(setting.config.run.regret_points for setting in each):
        raise ConfigError(f"{place} metric = {settings.metric!r}, but [run] regret_points = 0; say 1 or more")
    return metric, metric not in GROWS_BETTER if settings.minimise is None else settings.minimise


def _checked(settings: SweepSettings, document: Mapping[str, Any], file: Path, place: Place) -> tuple[Setting, ...]:
    found: list[Setting] = []
    faults: dict[str, list[dict[str, Any]]] = {}
    for number, values in enumerate(_values(settings, place)):
        try:
            own = _with(document, values, place)
            found.append(Setting(number, values, own, _parsed(own, file)))
        except TacitError as error:
            faults.setdefault(str(error), []).append(values)
    if faults:
        alone = _faults_alone([values for where in faults.values() for values in where], document, file, place)
        lines = [
            f"{fault}\n  in {len(where):,} setting(s), e.g. {_in_words(where[0])}"
            for fault, where in faults.items()
            if fault not in alone
        ]
        lines += [f"{fault}\n  by {' or '.join(dict.fromkeys(where))}" for fault, where in alone.items()]
        raise ConfigError("\n".join([f"{place}: {len(lines)} fault(s) in its settings, and nothing is run", *lines]))
    return tuple(found)


def _faults_alone(
    settings: list[dict[str, Any]], document: Mapping[str, Any], file: Path, place: Place
) -> dict[str, list[str]]:
    """Return the faults of single values, which others of their settings may hide, and the values that make them."""
    found: dict[str, list[str]] = {}
    tried: set[str] = set()
    for value in ({}, *({key: value} for values in settings for key, value in values.items())):
        if _in_words(value) in tried:
            continue
        tried.add(_in_words(value))
        try:
            _parsed(_with(document, value, place), file)
        except TacitError as error:
            found.setdefault(str(error), []).append(_in_words(value))
    return {
        fault: where for fault, where in found.items() if "" not in where
    }  # of the file itself, or of a key it lacks


def _parsed(document: Mapping[str, Any], file: Path) -> Config:
    return parse(require("tomli_w", "data", "a sweep").dumps(document), file)


def _with(document: Mapping[str, Any], values: Mapping[str, Any], place: Place) -> dict[str, Any]:
    own = copy.deepcopy(dict(document))
    for key, value in values.items():
        _put(own, key, value, place.table("keys"))
    return own


def _in_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {toml_text(value)}" for key, value in values.items())


def _values(settings: SweepSettings, place: Place) -> Iterator[dict[str, Any]]:
    """Yield the values of each setting."""
    at = place.table("keys")
    domains = {key: _domain(key, given, settings, at) for key, given in settings.keys.items()}
    if settings.count is None:
        grid = {key: _points(domain) for key, domain in domains.items()}
        total = math.prod(map(len, grid.values()))
        if total > MOST_SETTINGS:
            raise ConfigError(f"{place}: a grid of {total:,} settings, at most {MOST_SETTINGS:,}; take fewer values")
        yield from (dict(zip(grid, each, strict=True)) for each in itertools.product(*grid.values()))
        return
    draws = np.random.default_rng(settings.seed)
    for _ in range(settings.count):
        yield {key: _drawn(domain, draws) for key, domain in domains.items()}


def _points(domain: Range | list[Any]) -> list[Any]:
    if isinstance(domain, list):
        return domain
    count = domain.points or 2
    return list(dict.fromkeys(domain.at(k / (count - 1)) for k in range(count)))


def _drawn(domain: Range | list[Any], draws: np.random.Generator) -> Any:
    return domain[draws.integers(len(domain))] if isinstance(domain, list) else domain.at(float(draws.random()))


def _domain(key: str, given: Any, settings: SweepSettings, place: Place) -> Range | list[Any]:
    if key in SWEPT_OTHERWISE:
        raise ConfigError(f"{place} {key!r} cannot be swept: {SWEPT_OTHERWISE[key]}; remove it")
    if settings.kind == "halving" and key == "run.rounds":
        raise ConfigError(f"{place} {key!r} cannot be swept by halving, which says the rounds itself; remove it")
    if isinstance(given, list):
        if not given or len({json.dumps(value, default=str) for value in given}) < len(given):
            raise ConfigError(f"{place} {key!r} = {toml_text(given)}: expected values that differ, at least one")
        return given
    if not isinstance(given, dict):
        raise ConfigError(f"{place} {key!r} = {toml_text(given)}: expected a list, or {{low = ..., high = ...}}")
    found = check(Range, given, Place(place.file, f'[sweep.keys] "{key}"'))
    if settings.count is None and found.points is None:
        raise ConfigError(f"{place} {key!r}: a grid needs points = ..., how many values to take from low to high")
    return found


def _put(document: dict[str, Any], key: str, value: Any, place: Place) -> None:
    """Put a value where a dotted key says, in tables that are made where there are none."""
    *tables, last = key.split(".")
    if not tables or not all((*tables, last)):
        raise ConfigError(f'{place} {key!r}: expected a section and a key, as in "algorithm.step"')
    inner: Any = document
    for name in tables:
        inner = inner.setdefault(name, {})
        if inner is document.get("algorithm") and isinstance(inner, list) and inner:
            inner = inner[0]
        if not isinstance(inner, dict):
            raise ConfigError(f"{place} {key!r}: {name!r} is no table of the experiment; name a key of a table")
    inner[last] = value
