"""Tables of every kind in an experiment's file: several files, queries, encodings, classes that are counted."""

from __future__ import annotations

import sqlite3
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tacit.config.experiment import parse
from tacit.core.errors import ConfigError, PrivacyError, TacitError
from tacit.experiments import build
from tests.streams import broken_tables

BASE: dict[str, Any] = {
    "run": {"rounds": 2, "regret_points": 0, "references": False},
    "graph": {"kind": "complete"},
    "stream": {"kind": "csv", "label": "again", "shuffle": False},
    "objective": {"kind": "logistic"},
    "algorithm": [{"name": "online_push_sum"}],
}
NOISE = [{"name": "online_push_sum", "mechanism": {"kind": "laplace", "epsilon": 1.0, "clip": 1.0}}]


def problem(folder: Path, stream: dict[str, Any], **sections: Any) -> Any:
    settings = {**BASE, **sections, "stream": {**BASE["stream"], **stream}}
    return build(parse(tomli_w.dumps(settings), folder / "own.toml"))


@pytest.mark.parametrize("path", ["parts/*.csv*", ["parts/Bonn.csv", "parts/Arles.csv", "parts/Cork.csv.gz"]])
def test_each_of_several_files_is_an_agents(tmp_path: Path, path: Any) -> None:
    (tmp_path / "parts").mkdir()
    broken_tables.owners(tmp_path / "parts")
    made = problem(tmp_path, {"path": path, "standardise": False})
    stream = made.stream(0)
    assert stream.data_size.tolist() == [3, 2, 4]
    assert stream.preprocessing.owners == ("Arles", "Bonn", "Cork")
    assert stream.chunk(0, 1).x[0, :, 0].tolist() == [30, 20, 40]
    with pytest.raises(TacitError, match=r"one per file.*3 owners.*agents = 3"):
        problem(tmp_path, {"path": path}, graph={"kind": "complete", "agents": 5}).stream(0)
    shared = problem(tmp_path, {"path": path, "partition": {"kind": "iid"}}, graph={"kind": "complete", "agents": 2})
    assert sorted(shared.stream(0).data_size.tolist()) == [4, 5]


def test_a_query_and_its_password(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "visits.db")
    base.execute("CREATE TABLE visits (clinic, age, again)")
    base.executemany("INSERT INTO visits VALUES (?, ?, ?)", [("A", 30, "no"), ("B", 40, "yes"), ("A", 50, "yes")])
    base.commit()
    base.close()
    query = {"kind": "sql", "url": "sqlite:///visits.db", "query": "SELECT * FROM visits", "owner": "clinic"}
    made = problem(tmp_path, query)
    assert made.stream(0).data_size.tolist() == [2, 1]
    assert "visits.db" in made.stream(0).description
    for url in ("postgresql://me:hunter2@host/db", "mysql://host/db?password=hunter2"):
        with pytest.raises(ConfigError, match=r"\$\{NAME\}") as caught:
            problem(tmp_path, {**query, "url": url})
        assert "hunter2" not in str(caught.value)


def test_text_as_it_comes(tmp_path: Path) -> None:
    path = broken_tables.encoding(tmp_path)
    with pytest.raises(TacitError, match=r"own.toml: \[stream\]: .*line 2.*cp1252"):
        problem(tmp_path, {"path": path.name, "owner": "clinic"})
    stream = problem(tmp_path, {"path": path.name, "owner": "clinic", "encoding": "cp1252"}).stream(0)
    assert stream.preprocessing.owners == ("Arles", "Cork", "Zürich")
    assert stream.preprocessing.reading.encoding == "cp1252"
    semicolons = broken_tables.separator(tmp_path).name
    marks = {"separator": ";", "decimal": ",", "quote": "", "missing_marks": ["-"], "owner": "clinic"}
    assert problem(tmp_path, {"path": semicolons, **marks}).stream(0).agents == 3
    dates = broken_tables.dates(tmp_path, "german").name
    times = {"time_format": "%d.%m.%Y %H:%M", "time_features": {"at": ["hour"]}, "label": "y"}
    stream = problem(tmp_path, {"path": dates, **times}, graph={"kind": "complete", "agents": 1}).stream(0)
    assert stream.preprocessing.columns == ("at hour (sine)", "at hour (cosine)", "ones")
    with pytest.raises(ConfigError, match="'century'"):
        problem(tmp_path, {"path": dates, **times, "time_features": {"at": ["century"]}})
    with pytest.raises(ConfigError, match=r"\.parquet"):
        problem(tmp_path, {"kind": "parquet", "path": dates, "label": "y"})


def test_classes_are_counted_unless_that_would_tell_something(tmp_path: Path) -> None:
    agents = {"kind": "complete", "agents": 2}
    softmax = {"graph": agents, "objective": {"kind": "softmax"}}
    for labels, classes in (("3124567", tuple("1234567")), ("0120", tuple("012"))):
        path = broken_tables.classes(tmp_path, tuple(labels)).name
        stream = {"path": path, "label": "kind", "standardise": False}
        made = problem(tmp_path, stream, **softmax)
        assert made.config.objective.values.classes == len(classes)
        assert made.stream(0).preprocessing.classes == classes
        with pytest.raises(PrivacyError, match="classes"):
            problem(tmp_path, stream, **softmax, algorithm=NOISE)
        problem(tmp_path, {**stream, "public": ["classes"]}, **softmax, algorithm=NOISE)
        listed = problem(tmp_path, {**stream, "classes": list(classes)}, **softmax, algorithm=NOISE)
        assert listed.config.objective.values.classes == len(classes)
    given = {"graph": agents, "objective": {"kind": "softmax", "classes": 5}}
    assert problem(tmp_path, stream, **given, algorithm=NOISE).stream(0).preprocessing.classes == tuple("01234")
    assert tomllib.loads(tomli_w.dumps(made.config.settings()))["objective"]["classes"] == 3
