"""Streams over a data set or a file, as an experiment asks for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from tacit import streams
from tacit.config.choices import Choice, task_of
from tacit.config.experiment import DATASETS, Config
from tacit.config.experiment_sections import Seed
from tacit.config.sections import located
from tacit.core.errors import ConfigError, DataError
from tacit.graphs import Graph
from tacit.metrics.held_out import HeldOut, constant_of
from tacit.objectives.class_weights import SIGNS, balanced, weights_in_order
from tacit.privacy.planning import planned_batch
from tacit.streams import Preprocessing, SqlQuery, Stream, Table
from tacit.streams.dataset import with_bias
from tacit.streams.learnt import Kind, Learnt, declared
from tacit.streams.reading.columns import Unknown
from tacit.streams.reading.formats import paths_of
from tacit.streams.reading.preprocessing import unit_rows
from tacit.streams.reading.source import listed
from tacit.streams.splits import IN_WORDS as HELD_IN_WORDS
from tacit.streams.splits import held_out_rows, hold_out, scaled_like

NOT_COVERED = "which no privacy account covers"


def seeded(choice: Choice, seed: int) -> dict[str, int]:
    """Return the seed for a function that takes one: the repeat's, or the fixed one."""
    chosen: Seed | None = getattr(choice.values, "seed", None)
    if chosen is None:
        return {}
    return {"seed": seed if chosen == "repeat" else chosen}


class Tabular:
    """Streams over one table, which is read once."""

    def __init__(self, config: Config, graph: Callable[[int], Graph]) -> None:
        """Read and scale the table."""
        self.choice, self.partition, self.graph = config.stream, config.partition, graph
        self.settings = cast(Any, config.stream.values)
        self.owner: Any = None
        self.learnt: tuple[Learnt, ...] = ()
        self.preprocessing: Preprocessing | None = None
        self.evaluate, self.seed = config.evaluate, config.run.seed
        self.classes: tuple[str, ...] = ()
        self.held_out: HeldOut | None = None
        """Rows that are not learnt from."""
        private, given = config.privacy is not None, self.settings.model_fields_set
        self._unit = self.settings.unit if "unit" in given else private
        with located(self.choice.place):
            published = self.choice.kind in DATASETS
            self.x = self._read_data_set("unit" in given) if published else self._read_file(config)
        if self.evaluate is not None and self.evaluate.settings.file is not None:
            with located(self.evaluate.place):
                self._hold_file(self.evaluate.settings.file, self.evaluate.settings.unknown)
        self._batch = None if private and "batch" not in given else self.settings.batch
        self.learnt = declared((*self.learnt, *self._learnt_by_partition()), self._public())
        self.stream = functools.cache(self._stream)
        """Seed of a repeat -> its stream."""

    def _read_data_set(self, asked: bool) -> Any:
        found = self.choice.function()
        asked_for = self._share()
        held = None if asked_for is None else held_out_rows(len(found.y), **asked_for)
        data = found.standardised(None if held is None else ~held) if self.settings.standardise else found
        self.y, self.task, self.shuffle = data.y, data.task, self.settings.shuffle
        self.name, self.description = data.name, data.description
        if self.settings.standardise:
            what = f"mean and deviation of every column over all rows of {data.name}, a published data set"
            self.learnt = (Learnt("scaling", what, "standardise = false"),)
        x = with_bias(data.x) if self.settings.bias else data.x
        x = unit_rows(x) if self._unit and (asked or x.ndim == 2) else x
        if held is None:
            return x
        self.y = data.y[~held]
        self._hold(x[held], data.y[held])
        return x[~held]

    def _read_file(self, config: Config) -> Any:
        settings = self.settings
        count = task_of(config.objective)[1]
        given = {"classes": count} if settings.classes is None and settings.task == "multiclass" else {}
        table: Table = self.choice.function(settings.data, **{**self.choice.arguments(), **given})
        asked, test = self._share(), None
        if asked is not None:
            table, test = hold_out(table, **asked)
        by_owner, bounds = settings.standardise == "owner", settings.bounds or {}
        by = "owner" if by_owner else "everyone" if settings.standardise else None
        scaled = streams.scaled(table, by, bounds, bias=settings.bias, unit=self._unit)  # type: ignore[arg-type]
        self.learnt, self.preprocessing = scaled.learnt, scaled.preprocessing
        if config.classes_found and all(fact.kind != "classes" for fact in self.learnt):
            remedy = 'classes = ["...", "..."], or their number in [objective]'
            self.learnt = (*self.learnt, Learnt("classes", f"how many classes {settings.label!r} has", remedy))
        self.owner, self.y, self.task, self.name = table.owner, table.y, settings.task, self.choice.kind
        self.classes = table.classes
        self._check_classes(table, count)
        if settings.time is not None and settings.shuffle and "shuffle" in settings.model_fields_set:
            raise ConfigError(f"shuffle = true and time = {settings.time!r}: rows are read by time; remove one of them")
        self.shuffle = settings.shuffle and settings.time is None
        words = [f"{len(table.x):,} rows of {_named(settings.data)}"]
        if table.classes:
            numbers = (-1, 1) if self.task == "binary" else range(len(table.classes))
            words.append("label " + ", ".join(f"{c} = {n}" for c, n in zip(table.classes, numbers, strict=True)))
        if bounds:
            words.append(f"{', '.join(bounds)} scaled by given bounds")
        if by is not None and self._free_columns(table, bounds):
            whose = "each owner's own rows" if by_owner else "all rows"
            words.append(f"columns scaled by mean and deviation of {whose}, {NOT_COVERED}")
        self.description = "; ".join(words)
        if test is not None:
            test = scaled_like(test, scaled)
            self._hold(test.x, test.y, test.owner, table.owners)
        return scaled.x

    def _share(self) -> dict[str, Any] | None:
        """Return how rows are held out, where a share of them is."""
        if self.evaluate is None or self.evaluate.settings.share is None:
            return None
        asked = self.evaluate.settings
        return {"share": asked.share, "by": asked.by, "seed": self.seed if asked.seed is None else asked.seed}

    def _hold_file(self, path: str, unknown: Unknown) -> None:
        record, judged_by = self.preprocessing, Path(path).resolve()
        assert record is not None  # of a table that was read
        if judged_by in [each.resolve() for each in paths_of(self.settings.data)]:
            raise ConfigError(
                f"file = {path!r} is learnt from as well: [stream] path has it, so that its figures would be those of "
                "training; name another file, or say share = 0.2, say, in its place"
            )
        source = streams.open_source(path, record.reading)
        owner = None
        if record.owner is not None and record.owner in source.columns:
            owner = source.words(record.owner).numbered(record.owners)  # -1: took no part
        self._hold(record.apply(source, unknown=unknown), record.labels(source), owner, record.owners)

    def _hold(self, x: Any, y: Any, owner: Any = None, owners: tuple[str, ...] = ()) -> None:
        """Keep rows that are not learnt from, beside the constant of those that are."""
        assert self.evaluate is not None
        asked = self.evaluate.settings
        how = f"file {asked.file}" if asked.share is None else f"{100 * asked.share:g} % {HELD_IN_WORDS[asked.by]}"
        classes = int(max(self.y.max(), y.max())) + 1 if self.task == "multiclass" else 2
        self.held_out = HeldOut(x, y, owner, owners, how, constant_of(self.y, self.task, classes))
        self.description += f"; {len(y):,} rows are held out ({how})"

    def class_weights(self, objective: Choice) -> dict[str, Any]:
        """Return the weights of classes that an objective asks for, in their order; nothing where it asks for none."""
        asked = getattr(objective.values, "class_weight", None)
        if asked is None or isinstance(asked, list):
            return {}
        count = objective.arguments()["classes"] if self.task == "multiclass" else None
        if asked == "balanced":
            what, remedy = "how often each class occurs", "class_weight = {... = 1.0, ... = 5.0} in [objective]"
            self.learnt += declared((Learnt("class_weight", what, remedy),), self._public())
            return {"class_weight": balanced(self.y, count)}
        names = self.classes or (SIGNS if count is None else tuple(map(str, range(count))))
        spare = tuple(f"(class {k})" for k in range(len(names), count or 2))
        return {"class_weight": weights_in_order(asked, (*names, *spare))}

    def _public(self) -> Collection[str]:
        """A published data set holds no secret; of a file the user declares what is public."""
        return get_args(Kind) if self.choice.kind in DATASETS else self.settings.public

    def _learnt_by_partition(self) -> tuple[Learnt, ...]:
        if self.partition is None or not {"x", "y"} & self.partition.function.__annotations__.keys():
            return ()
        what = f"who holds which rows, by {self.partition.kind} of all of them"
        return (Learnt("partition", what, 'partition = {kind = "iid"}, or name the owner column'),)

    def _free_columns(self, table: Table, bounds: Any) -> bool:
        marks = np.zeros(len(table.columns), bool) if table.marks is None else table.marks
        return any(not mark and name not in bounds for name, mark in zip(table.columns, marks, strict=True))

    def _check_classes(self, table: Table, classes: int | None) -> None:
        found = len(table.classes) if self.task == "multiclass" else 0
        if classes is not None and found > classes:
            raise DataError(
                f"label = {self.settings.label!r}: the file has {found} classes ({listed(table.classes)}), but the "
                f"objective {classes}; "
                f"give [objective] classes = {found}"
            )

    def _stream(self, seed: int) -> Stream:
        agents = self.graph(seed).agents
        seed = seeded(self.choice, seed)["seed"]
        shares, words = self._shares(agents, seed)
        with located(self.choice.place):
            made = streams.from_arrays(
                self.x,
                self.y,
                shares,
                batch=self._batch or _hundredth(shares, agents),
                exhausted=self.settings.exhausted,
                passes=self.settings.passes,
                shuffle_seed=seed if self.shuffle else None,
                task=self.task,
                name=self.name,
                description=f"{self.description}; {words}",
            )
        made.learnt, made.preprocessing = self.learnt, self.preprocessing
        return made

    def _shares(self, agents: int, seed: int) -> tuple[Any, str]:
        if self.partition is None:
            owners = int(self.owner.max()) + 1
            if owners != agents:
                by = "one per file" if self.settings.owner is None else f"owner = {self.settings.owner!r}"
                raise DataError(
                    f"{self.choice.place} {by}: the table has {owners} owners, but "
                    f"the graph {agents} agents; give [graph] agents = {owners}, or leave agents out"
                )
            return self.owner, "each owner's rows with its own agent"
        wanted = self.partition.function.__annotations__
        data = {name: found for name, found in (("rows", len(self.x)), ("x", self.x), ("y", self.y)) if name in wanted}
        own = self.partition.arguments()
        with located(self.partition.place):
            shares = self.partition.function(**data, agents=agents, seed=seed, **own)
        given = "".join(f", {name} {value:g}" for name, value in own.items())
        return shares, f"shared out by {self.partition.kind}{given}"


def _named(data: Any) -> str:
    """Return what a table is called in reports."""
    if isinstance(data, SqlQuery):
        return f"a query of {data.shown}"
    return data if isinstance(data, str) else ", ".join(data)


def _hundredth(shares: Any, agents: int) -> int:
    """Return the batch that a private run gets: see `tacit.privacy.planning.plan`."""
    sizes = np.bincount(shares, minlength=agents) if np.ndim(shares[0]) == 0 else [len(rows) for rows in shares]
    return planned_batch(int(max(sizes)))
