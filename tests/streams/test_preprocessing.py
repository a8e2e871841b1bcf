"""The record by which a table was made, applied to tables that it has not seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.config.experiment import parse
from tacit.core.errors import ConfigError, DataError, TacitError
from tacit.experiments import build
from tacit.streams import Preprocessing, from_table, read_table, scaled

HEAD = "clinic,age,days,ward,smoker,again\n"
ROWS = [
    "Cork,30,1.1,heart,true,yes",
    "Bonn,41,,general,false,no",
    "Cork,52,3.7,,true,no",
    "Bonn,1700000001,0.3,general,true,yes",
    "Cork,65,12,heart,false,no",
]
WAYS = {
    "as they are": {"by": None},
    "by everyone": {},
    "by owner": {"by": "owner"},
    "by bounds, ones and norm": {"bounds": {"age": [0, 100], "days": [0, 7]}, "bias": True, "unit": True},
}
TOML = """
run.rounds = 2
run.regret_points = 0
graph.kind = "complete"
stream.kind = "csv"
stream.path = "visits.csv"
stream.label = "again"
stream.owner = "clinic"
stream.missing = "indicate"
stream.shuffle = false
stream.{extra}
objective.kind = "logistic"
algorithm = [{{ name = "online_push_sum" }}]
"""


def written(folder: Path, *rows: str, head: str = HEAD, name: str = "visits.csv") -> Path:
    (folder / name).write_text(head + "\n".join(rows or ROWS) + "\n")
    return folder / name


def read(path: Path, **settings):
    return read_table(path, "again", owner="clinic", missing="indicate", **settings)


@pytest.mark.parametrize("way", WAYS)
def test_the_table_that_was_learnt_from_comes_out_to_the_bit(tmp_path: Path, way: str) -> None:
    path = written(tmp_path)
    table = scaled(read(path), **WAYS[way])
    record = Preprocessing.from_json(json.loads(json.dumps(table.preprocessing.to_json())))
    assert record == table.preprocessing
    x = record.apply(path)
    assert x.dtype == np.float32
    assert x.tobytes() == table.x.tobytes()
    assert record.columns == table.columns
    np.testing.assert_array_equal(record.labels(path), table.y)
    np.testing.assert_array_equal(record.holders(path), table.owner)
    assert from_table(table).preprocessing == record


def test_rows_alone_without_labels_and_in_another_order_of_columns(tmp_path: Path) -> None:
    table = scaled(read(written(tmp_path)), bias=True)
    alone = written(tmp_path, "general,,30,false", head="ward,days,age,smoker\n", name="new.csv")
    (row,) = table.preprocessing.apply(alone)
    assert dict(zip(table.columns, row, strict=True))["days is missing"] == 1
    assert row[table.columns.index("age")] == table.x[0, 0]
    with pytest.raises(DataError, match="no column 'again'"):
        table.preprocessing.labels(alone)


def test_scaling_sees_all_digits(tmp_path: Path) -> None:
    rows = [f"Cork,{1_700_000_000 + k},1,heart,true,{k % 2}" for k in range(3)]  # beyond single precision
    table = scaled(read_table(written(tmp_path, *rows), "again", features=["age"]))
    np.testing.assert_allclose(table.x[:, 0], [-np.sqrt(1.5), 0, np.sqrt(1.5)], rtol=1e-6)


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ("Cork,30,1,surgery,true,yes", "line 3, column 'ward': 'surgery'"),
        ("Cork,,1,heart,true,yes", "line 3, column 'age': .*missing"),
        ("Cork,old,1,heart,true,yes", "line 3, column 'age': 'old'"),
        ("Cork,inf,1,heart,true,yes", "line 3, column 'age': .*inf"),
    ],
)
def test_what_was_not_foreseen_is_refused_with_its_line(tmp_path: Path, row: str, place: str) -> None:
    record = read(written(tmp_path)).preprocessing
    with pytest.raises(DataError, match=place):
        record.apply(written(tmp_path, ROWS[0], row, name="new.csv"))


def test_a_new_word_is_nothing_if_asked(tmp_path: Path) -> None:
    record = read(written(tmp_path)).preprocessing
    new = written(tmp_path, "Cork,30,1,surgery,true,maybe", name="new.csv")
    (row,) = record.apply(new, unknown="ignore")
    values = dict(zip(record.columns, row.tolist(), strict=True))
    assert [values["ward = general"], values["ward = heart"], values["ward is missing"], values["age"]] == [0, 0, 0, 30]
    with pytest.raises(DataError, match="line 2, column 'again': 'maybe'"):
        record.labels(new)
    with pytest.raises(ConfigError, match="'drop'"):
        record.apply(new, unknown="drop")


def test_scales_of_owners_need_to_know_whose_row_it_is(tmp_path: Path) -> None:
    table = scaled(read(written(tmp_path)), "owner")
    new = written(tmp_path, "30,1.1,heart,true", head="age,days,ward,smoker\n", name="new.csv")
    np.testing.assert_array_equal(table.preprocessing.apply(new, owner="Cork")[0], table.x[0])
    with pytest.raises(DataError, match=r"'clinic'.*Bonn, Cork"):
        table.preprocessing.apply(new)
    with pytest.raises(ConfigError, match="'Rome'"):
        table.preprocessing.apply(new, owner="Rome")
    with pytest.raises(DataError, match="line 2, column 'clinic': 'Rome'"):
        table.preprocessing.apply(written(tmp_path, "Rome,30,1,heart,true,yes", name="rome.csv"))


def test_a_table_is_scaled_once(tmp_path: Path) -> None:
    table = scaled(read(written(tmp_path)))
    with pytest.raises(ConfigError, match="already"):
        scaled(table)


@pytest.mark.parametrize("extra", ['standardise = "owner"', "unit = true", "bias = false"])
def test_an_experiment_hands_it_on_with_its_streams(tmp_path: Path, extra: str) -> None:
    path = written(tmp_path)
    stream = build(parse(TOML.format(extra=extra), tmp_path / "own.toml")).stream(0)
    x = stream.preprocessing.apply(path)
    of_cork = [k for k, row in enumerate(ROWS) if row.startswith("Cork")]
    np.testing.assert_array_equal(stream.chunk(0, 3).x[:, 1], x[of_cork])


@pytest.mark.parametrize(
    ("labels", "task", "classes", "y", "learnt"),
    [
        ("1 2 1", "binary", ("1", "2"), [-1, 1, -1], True),
        ("0 1 1", "binary", ("0", "1"), [-1, 1, 1], False),
        ("1 -1 1", "binary", ("-1", "1"), [1, -1, 1], False),
        ("True False True", "binary", ("false", "true"), [1, -1, 1], False),
        ("0.5 1.5 0.5", "binary", ("0.5", "1.5"), [-1, 1, -1], True),
        ("7 1 3", "multiclass", ("1", "3", "7"), [2, 0, 1], True),
        ("10 9 -2", "multiclass", ("-2", "9", "10"), [2, 1, 0], True),
        ("2 1 0", "multiclass", ("0", "1", "2"), [2, 1, 0], True),
        ("b a c", "multiclass", ("a", "b", "c"), [1, 0, 2], True),
        ("7 1 3", "regression", (), [7, 1, 3], False),
    ],
)
def test_classes_are_found(tmp_path: Path, labels, task, classes, y, learnt) -> None:
    path = written(tmp_path, *(f"{k},{label}" for k, label in enumerate(labels.split())), head="a,y\n")
    table = read_table(path, "y", task=task)
    assert (table.classes, table.y.tolist()) == (classes, y)
    assert [each.kind for each in table.learnt] == ["classes"] * learnt


def test_a_class_that_is_no_number_of_a_kind(tmp_path: Path) -> None:
    path = written(tmp_path, "1,0.5", "2,1", "3,2", head="a,y\n")
    with pytest.raises(DataError, match=r"line 2, column 'y': label 0.5"):
        read_table(path, "y", task="multiclass")


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    good = scaled(read(written(tmp_path))).preprocessing.to_json()
    for key, value in (
        ("inputs", []),
        ("inputs", [{"name": "ward", "kind": "word"}]),
        ("scales", [{"column": "height", "by": "everyone", "numbers": [[0.0, 1.0]]}]),
        ("scales", [{"column": "age", "by": "owner", "numbers": [[0.0, 1.0]]}]),
        ("scales", [{"column": "age", "by": "everyone", "numbers": [[0.0, float("nan")]]}]),
        ("task", "guessing"),
    ):
        with pytest.raises(TacitError, match="preprocessing"):
            Preprocessing.from_json({**good, key: value})
