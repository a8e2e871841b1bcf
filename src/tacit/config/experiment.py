"""An experiment as a TOML file: read, checked, and turned into named choices.

    [run]        name, rounds, repeats, seed, dtype, channel, regret_points, node_loss, record_every, devices, memory
    [graph]      kind and its parameters; weights, dynamics, clusters, availability
    [stream]     kind and its parameters; for data sets and files also partition, batch, ...
    [objective]  kind and its parameters
    [[algorithm]] name and its parameters; label. One table per algorithm.
    [algorithm.mechanism]  below an [[algorithm]]: kind of its noise and the parameters; without it nothing is private.
    [algorithm.mirror], [[algorithm.constraints]]  likewise: its geometry, and what it keeps in the long run.

Every fault is a ConfigError that names the file, the key, the value and what to do.
"""

from __future__ import annotations

import inspect
import os
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tacit import graphs, streams
from tacit.config.choices import Choice, choose, task_of
from tacit.config.experiment_sections import (
    AlgorithmSettings,
    DatasetSettings,
    Evaluate,
    EvaluateSettings,
    FileSettings,
    GraphSettings,
    Liars,
    Privacy,
    PrivacySettings,
    RunSettings,
    SeededGraph,
    SqlSettings,
    SyntheticSettings,
    TableSettings,
    liars_of,
)
from tacit.config.extensions import Extensions
from tacit.config.methods import choose_method, method_name
from tacit.config.schedule import availability_of_agents
from tacit.config.sections import Place, Section, beside, check, located, read_text, read_toml
from tacit.core import limits
from tacit.core.errors import ConfigError
from tacit.graphs import Graph
from tacit.objectives import OBJECTIVES
from tacit.streams import Dataset, Reading, Stream, partition
from tacit.streams.reading.formats import TEXT_ENDINGS
from tacit.streams.reading.sql import has_password
from tacit.streams.splits import held_out_owners

GRAPHS: Mapping[str, Callable[..., Graph]] = {
    "ring": graphs.ring,
    "directed_ring": graphs.directed_ring,
    "complete": graphs.complete,
    "star": graphs.star,
    "exponential": graphs.exponential,
    "one_peer_exponential": graphs.one_peer_exponential,
    "random_digraph": graphs.random_digraph,
    "erdos_renyi": graphs.erdos_renyi,
    "geometric": graphs.geometric,
    "small_world": graphs.small_world,
    "k_regular": graphs.k_regular,
    "edge_list": graphs.from_edge_list,
    "matrix": graphs.from_matrix,
}
DYNAMICS: Mapping[str, Callable[..., Any]] = {
    "link_drop": graphs.LinkDrop,
    "opt_out": graphs.OptOut,
    "attendance": graphs.attendance,
    "random_matching": graphs.RandomMatching,
    "rotation": graphs.Rotation,
    "timetable": graphs.Timetable,
}
SYNTHETIC: Mapping[str, Callable[..., Stream]] = ChainMap(
    {
        "logistic_drift": streams.logistic_drift,
        "linear_drift": streams.linear_drift,
        "autoregressive": streams.autoregressive,
    },
    Extensions("tacit.streams"),  # type: ignore[arg-type]
)
DATASETS: Mapping[str, Callable[[], Dataset]] = Extensions("tacit.datasets")
ENDINGS: Mapping[str, tuple[str, ...]] = {"csv": TEXT_ENDINGS, "parquet": (".parquet",), "npz": (".npz",)}
"""Kind of a file -> how its name ends."""
FILES: Mapping[str, Callable[..., streams.Table]] = dict.fromkeys((*ENDINGS, "sql"), streams.read_table)
PARTITIONS: Mapping[str, Callable[..., Any]] = {
    "iid": partition.iid,
    "label_shards": partition.label_shards,
    "few_classes": partition.few_classes,
    "dirichlet": partition.dirichlet,
    "stochastic_adversarial": partition.stochastic_adversarial,
    "unequal": partition.unequal,
}

OF_THE_RUN = frozenset({"agents", "rounds", "seed", "name", "data"})
"""Parameters of streams that follow from the run and the graph, and the table, which is named by keys of its kind."""
OF_THE_DATA = frozenset({"rows", "x", "y", "agents", "seed"})
WHAT = "an experiment's file"
SECTIONS = ("run", "graph", "stream", "objective", "algorithm")
OPTIONAL = ("privacy", "evaluate", "liars")


@dataclass(frozen=True)
class Config:
    """A checked experiment."""

    file: Path
    """Where it was read from."""
    run: RunSettings
    """Rounds, repeats, seed and the like."""
    graph: Choice
    """The generator of the graph."""
    dynamics: Choice | None
    """How links come and go; None: they stay."""
    stream: Choice
    """Where batches come from."""
    partition: Choice | None
    """How a table's rows are shared out; None: it does not apply."""
    objective: Choice
    """Loss and regulariser."""
    algorithms: tuple[Choice, ...]
    """The methods to compare, in order."""
    labels: tuple[str, ...]
    """One per algorithm, all different."""
    privacy: Privacy | None = None
    """What a record may cost in the algorithms that say nothing else."""
    classes_found: bool = False
    """Whether the number of classes was counted in the stream's table."""
    evaluate: Evaluate | None = None
    """Rows that are held out."""
    liars: Liars | None = None
    """Agents that lie."""

    def settings(self, only: int | None = None) -> dict[str, Any]:
        """Return the experiment as it would stand in a file, defaults spelt out.

        Args:
          only: Number of the one algorithm to keep, from 0; None: all of them.
        """
        tables = [
            {**algorithm.settings("name"), "label": label}
            for k, (algorithm, label) in enumerate(zip(self.algorithms, self.labels, strict=True))
            if only in (None, k)
        ]
        graph, stream = self.graph.settings(), self.stream.settings()
        if self.dynamics is not None:
            graph["dynamics"] = self.dynamics.settings()
        if self.partition is not None:
            stream["partition"] = self.partition.settings()
        return {
            "run": self.run.model_dump(exclude_none=True),
            "graph": graph,
            "stream": stream,
            "objective": self.objective.settings(),
            **({} if self.privacy is None else {"privacy": self.privacy.settings.model_dump()}),
            **({} if self.evaluate is None else {"evaluate": self.evaluate.settings.model_dump(exclude_none=True)}),
            **({} if self.liars is None else {"liars": self.liars.settings.model_dump(exclude_none=True)}),
            "algorithm": tables,
        }


def load(path: str | os.PathLike[str], **overrides: int | None) -> Config:
    """Read an experiment.

    Args:
      path: TOML file; relative paths in it start beside it.
      **overrides: Values of [run] to take instead of the file's, e.g. ``rounds=100``; None: the file's.

    Returns:
      The checked experiment, for `tacit.experiments.build`. A fault is a ConfigError that names file, key and remedy.
    """
    file = Path(path)
    return parse(read_text(file, WHAT), file, **overrides)


def parse(text: str, file: Path, **overrides: int | None) -> Config:
    """Check the text of an experiment.

    Args:
      text: TOML, as it would stand in a file.
      file: Name for messages; relative paths start beside it, and its stem is the default name of the run.
      **overrides: Values of [run] to take instead of the text's; None: the text's.

    Returns:
      The checked experiment, for `tacit.experiments.build`, which shows an example.
    """
    data = read_toml(text, file)
    _check_sections(data, file)
    given = {key: value for key, value in overrides.items() if value is not None}
    run = check(RunSettings, {"name": file.stem, **data["run"], **given}, Place(str(file), "[run]"))
    with limits.memory(run.memory):
        counted = _with_classes(data["objective"], data["stream"], file)
        objective = choose(OBJECTIVES, counted, Place(str(file), "[objective]"))
        stream, shares = _stream(data["stream"], objective, file)
        evaluate = _evaluate(data.get("evaluate"), stream, file)
        graph, dynamics = _graph(_with_owners(data["graph"], stream, evaluate), file)
    algorithms = _algorithms(data["algorithm"], file)
    labels, privacy, place = _labels(algorithms, file), None, Place(str(file), "[privacy]")
    if "privacy" in data:
        privacy = Privacy(check(PrivacySettings, data["privacy"], place), place)
    found = "classes" in counted and "classes" not in {**data["objective"], **data["stream"]}
    made = (file, run, graph, dynamics, stream, shares, objective, algorithms, labels, privacy, found, evaluate)
    return Config(*made, None if "liars" not in data else liars_of(data["liars"], Place(str(file), "[liars]")))


def load_graph(path: str | os.PathLike[str]) -> tuple[Choice, Choice | None]:
    """Read the [graph] of a file, whatever else it holds or lacks: the graph and its dynamics."""
    file = Path(path)
    data = read_toml(read_text(file, WHAT), file)
    if not isinstance(data.get("graph"), dict):
        raise ConfigError(f'{file}: there is no [graph] in it; add one, e.g. kind = "ring" and agents = 10')
    return _graph(data["graph"], file)


def choose_graph(data: Mapping[str, Any], place: Place) -> Choice:
    """Check the settings of a graph."""
    kind = data.get("kind")
    function = GRAPHS.get(kind) if isinstance(kind, str) else None
    seeded = function is not None and "seed" in function.__annotations__
    return choose(
        GRAPHS,
        data,
        place,
        common=SeededGraph if seeded else GraphSettings,
        hidden=frozenset({"seed", "name"}),
    )


def _check_sections(data: Mapping[str, Any], file: Path) -> None:
    for name, content in data.items():
        if name not in SECTIONS + OPTIONAL:
            known = f"the sections {', '.join(SECTIONS)}, and {', '.join(OPTIONAL)} if wanted"
            raise ConfigError(f"{file}: [{name}] is unknown; expected {known}")
        if name == "algorithm" and isinstance(content, dict):
            raise ConfigError(f"{file}: [algorithm] stands in single brackets; write [[algorithm]], one per algorithm")
        if name == "algorithm" and not (isinstance(content, list) and all(isinstance(each, dict) for each in content)):
            raise ConfigError(
                f"{file}: algorithm = {content!r}: expected tables; write [[algorithm]], one per algorithm"
            )
        if name != "algorithm" and not isinstance(content, dict):
            raise ConfigError(f"{file}: {name} = {content!r}: expected a section; write [{name}] on a line of its own")
    for name in SECTIONS:
        if not data.get(name):
            title = "[[algorithm]]" if name == "algorithm" else f"[{name}]"
            raise ConfigError(f"{file}: there is no {title}; add one (see examples/synthetic.toml)")


def _graph(data: Mapping[str, Any], file: Path) -> tuple[Choice, Choice | None]:
    place = Place(str(file), "[graph]")
    graph = choose_graph(_with_path(data, file), place)
    dynamics, there = (getattr(graph.values, key, None) for key in ("dynamics", "availability"))
    if isinstance(there, list):
        availability_of_agents(there, Place(str(file), "[[graph.availability]]"))
    if dynamics is None:
        return graph, None
    return graph, choose(DYNAMICS, dynamics, Place(str(file), "[graph.dynamics]"))


def _evaluate(data: Mapping[str, Any] | None, stream: Choice, file: Path) -> Evaluate | None:
    if data is None:
        return None
    place = Place(str(file), "[evaluate]")
    settings = check(EvaluateSettings, data, place)
    if stream.kind in SYNTHETIC:
        raise ConfigError(f"{place} is for streams over files and data sets; {stream.kind} makes new rows all the time")
    if settings.by == "owner" and (stream.kind not in FILES or not _has_owners(stream)):
        raise ConfigError(f'{place} by = "owner", but [stream] names no owner column; add owner = ..., or leave by out')
    if settings.file is not None:
        if stream.kind not in FILES:
            raise ConfigError(f"{place} file = {settings.file!r} is for a stream over a file; give share = 0.2, say")
        path = str(beside(file, settings.file, Place(str(file), "file")))
        settings = settings.model_copy(update={"file": path})
    return Evaluate(settings, place)


def _with_owners(data: Mapping[str, Any], stream: Choice, evaluate: Evaluate | None = None) -> dict[str, Any]:
    """Give a graph without a number of agents one for each owner in the stream's file that takes part."""
    values, kind = stream.values, data.get("kind")
    function = GRAPHS.get(kind) if isinstance(kind, str) else None
    if function is None or "agents" in data or "n" not in inspect.signature(function).parameters:
        return dict(data)
    if not isinstance(values, TableSettings) or not _has_owners(stream):
        return dict(data)
    with located(stream.place):
        owners = streams.read_owners(getattr(values, "data", None), getattr(values, "owner", None), _reading(values))
        asked = None if evaluate is None or evaluate.settings.by != "owner" else evaluate.settings.share
        held = 0 if asked is None else len(held_out_owners(len(owners), asked))
        return {**data, "agents": len(owners) - held}


def _with_classes(data: Mapping[str, Any], stream: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Give an objective without a number of classes that of the stream's table."""
    if data.get("kind") != "softmax" or "classes" in data or stream.get("kind") not in list(FILES):
        return dict(data)
    any_number = choose(OBJECTIVES, {"kind": "softmax", "classes": 2}, Place(str(file), "[objective]"))
    chosen, _ = _stream(stream, any_number, file)
    values: Any = chosen.values
    if isinstance(values.classes, int):
        return {**data, "classes": values.classes}
    with located(chosen.place):
        found = streams.read_classes(values.data, values.label, values.task, values.classes, _reading(values))
    return {**data, "classes": max(len(found), 2)}


def _reading(values: Any) -> Reading:
    """Return how text is read."""
    given = {each.name: getattr(values, each.name) for each in fields(Reading)}
    marks = given.pop("missing_marks")
    return Reading(**given, missing_marks=None if marks is None else tuple(marks))


def _has_owners(stream: Choice) -> bool:
    """Whether rows of a table have owners, by a column or by file."""
    values: Any = stream.values
    if values.owner is not None:
        return True
    with located(stream.place):
        return values.partition is None and values.several


def _stream(data: Mapping[str, Any], objective: Choice, file: Path) -> tuple[Choice, Choice | None]:
    place = Place(str(file), "[stream]")
    kind = data.get("kind") if isinstance(data.get("kind"), str) else None  # `choose` refuses what is no name
    common: type[Section] = SyntheticSettings if kind in SYNTHETIC else DatasetSettings
    if kind in FILES:
        common = SqlSettings if kind == "sql" else FileSettings
        data = {"task": task_of(objective)[0], **data}
    every: Mapping[str, Callable[..., Any]] = ChainMap({}, SYNTHETIC, DATASETS, FILES)  # type: ignore[arg-type]
    stream = choose(every, _with_path(data, file), place, common=common, hidden=OF_THE_RUN)
    if kind in FILES:
        _check_table(stream)
    shares = getattr(stream.values, "partition", None)
    owned = kind in FILES and _has_owners(stream)
    if kind in SYNTHETIC or owned:
        if shares is not None:
            raise ConfigError(
                f"{place} partition and owner = {getattr(stream.values, 'owner', None)!r}: the owner column says whose "
                "row it is; remove one of them"
            )
        return stream, None
    shared = choose(PARTITIONS, shares or {"kind": "iid"}, Place(str(file), "[stream.partition]"), hidden=OF_THE_DATA)
    return stream, shared


def _check_table(stream: Choice) -> None:
    """Refuse a path of another kind, and a URL that would be kept with its password."""
    values, place = stream.values, stream.place
    if isinstance(values, SqlSettings) and has_password(values.url):
        raise ConfigError(
            f"{place} url: a password stands in it, and settings are kept with results; write ${{NAME}} in its place, "
            "and set that variable of the environment"
        )
    if isinstance(values, FileSettings):
        endings = ENDINGS[stream.kind]
        for path in [values.path] if isinstance(values.path, str) else values.path:
            if not path.lower().removesuffix(".gz").endswith((*endings, "*")):
                raise ConfigError(
                    f"{place} path = {path!r}: expected a file that ends in {', '.join(endings)}; change kind or path"
                )


def _with_path(data: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Take relative paths to start beside the configuration, not in whatever folder the command is given."""
    path, url = data.get("path"), data.get("url")
    found = Place(str(file), "path")
    if isinstance(path, str):
        return {**data, "path": str(beside(file, path, found))}
    if isinstance(path, list):
        return {**data, "path": [str(beside(file, each, found)) if isinstance(each, str) else each for each in path]}
    inside = re.fullmatch(r"(sqlite\S*?:///)([^/:?][^?]*)(.*)", url) if isinstance(url, str) else None
    if inside is not None:
        return {**data, "url": f"{inside[1]}{beside(file, inside[2], Place(str(file), 'url'))}{inside[3]}"}
    return dict(data)


def _algorithms(tables: Sequence[Any], file: Path) -> tuple[Choice, ...]:
    return tuple(
        choose_method(table, Place(str(file), f"[[algorithm]] {number}"), AlgorithmSettings)
        for number, table in enumerate(tables, start=1)
    )


def _labels(algorithms: Sequence[Choice], file: Path) -> tuple[str, ...]:
    """Return what each is called: its label, or its name; names used twice get their number."""
    names = [method_name(algorithm) for algorithm in algorithms]
    labels = [
        getattr(algorithm.values, "label", None) or (name if names.count(name) == 1 else f"{name} {number}")
        for number, (algorithm, name) in enumerate(zip(algorithms, names, strict=True), start=1)
    ]
    doubled = next((label for label in labels if labels.count(label) > 1), None)
    if doubled is not None:
        raise ConfigError(f"{file}: [[algorithm]] label = {doubled!r} is used twice; give each algorithm its own label")
    return tuple(labels)
