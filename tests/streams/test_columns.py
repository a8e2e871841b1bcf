"""Files with columns of every sort."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tacit.core.errors import ConfigError, DataError
from tacit.streams import read_owners, read_table, scaled

TEXT = """clinic,when,age,ward,smoker,again
Cork,2024-03-01,30,heart,true,yes
Bonn,2024-01-01,,general,false,no
Cork,2024-02-01,50,,true,no
"""
FEATURES = ["age", "ward", "smoker"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path, TEXT)


def written(folder: Path, text: str) -> Path:
    file = folder / "visits.csv"
    file.write_text(text)
    return file


def test_mixed_columns_become_numbers_in_the_order_of_time(path: Path) -> None:
    table = read_table(path, "again", owner="clinic", time="when", missing="indicate")
    assert table.columns == ("age", "age is missing", "ward = general", "ward = heart", "ward is missing", "smoker")
    assert table.x.tolist() == [[0, 1, 1, 0, 0, 0], [50, 0, 0, 0, 1, 1], [30, 0, 0, 1, 0, 1]]
    assert (table.classes, table.y.tolist()) == (("no", "yes"), [-1, -1, 1])
    assert (table.owners, table.owner.tolist()) == (("Bonn", "Cork"), [0, 1, 1])
    assert table.marks.tolist() == [False, True, True, True, True, False]
    assert np.argwhere(table.absent).tolist() == [[0, 0]]
    assert read_owners(path, "clinic") == ("Bonn", "Cork")


def test_several_classes_are_numbered_in_the_order_of_the_alphabet(path: Path) -> None:
    table = read_table(written(path.parent, "a,kind\n1,pear\n2,fig\n3,plum\n4,fig\n"), "kind", task="multiclass")
    assert (table.classes, table.y.tolist()) == (("fig", "pear", "plum"), [1, 0, 2, 0])


def test_categories_may_be_fixed_beforehand(path: Path) -> None:
    known = {"ward": ["surgery", "heart", "general"], "smoker": ["1", "0"]}
    table = read_table(path, "again", features=FEATURES, missing="indicate", categories=known)
    assert table.columns[2:5] == ("ward = surgery", "ward = heart", "ward = general")
    assert table.columns[6:] == ("smoker = 1", "smoker = 0")
    assert table.x[0, 2:].tolist() == [0, 1, 0, 0, 1, 0]
    with pytest.raises(DataError, match=r"line 2, column 'ward': 'heart' .*\(general\)"):
        read_table(path, "again", features=["ward"], missing="indicate", categories={"ward": ["general"]})
    with pytest.raises(ConfigError, match="categories of 'age'"):
        read_table(path, "again", features=["ward"], categories={"age": ["1"]})


@pytest.mark.parametrize(
    ("old", "new", "options", "message"),
    [
        ("", "", {}, "line 3, column 'age': the value is missing; .* or say missing='indicate'"),
        ("2024-02-01", "", {"missing": "indicate", "time": "when"}, "line 4, column 'when': the value is missing"),
        (
            "2024-02-01",
            "soon",
            {"missing": "indicate", "time": "when"},
            "line 4, column 'when': 'soon' is not a time",
        ),
        (
            ",true,no",
            ",true,",
            {"missing": "indicate"},
            "line 4, column 'again': the value is missing; .*leave that row",
        ),
        (
            ",true,no",
            ",true,maybe",
            {"missing": "indicate"},
            r"'again': 3 different labels \(maybe, no, yes\); expected two",
        ),
        ("", "", {"missing": "drop"}, "missing='drop': expected 'refuse', 'indicate' or a list"),
        (
            "",
            "",
            {"task": "regression"},
            "line 2, column 'again': 'yes' is not a number, as a regression needs; .*logistic",
        ),
    ],
)
def test_faults_are_named_with_their_place_and_a_remedy(path: Path, old, new, options, message) -> None:
    file = written(path.parent, TEXT.replace(old, new, 1) if old else TEXT)
    with pytest.raises((DataError, ConfigError), match=message):
        read_table(file, "again", features=FEATURES, **options)


def test_names_are_no_categories(path: Path) -> None:
    lines = "\n".join(f"person {k},{k % 2}" for k in range(60))
    with pytest.raises(DataError, match="'person 0' .*60 .*50"):
        read_table(written(path.parent, f"who,y\n{lines}\n"), "y")
    with pytest.raises(DataError, match="column 'a': every value is missing"):
        read_table(written(path.parent, "a,b,y\n,1,0\n,2,1\n"), "y", missing="indicate")


def test_parquet_has_types_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "visits.parquet"
    columns = {
        "at": pa.array([3, 1, 2], pa.timestamp("ms")),
        "age": pa.array([1.5, None, float("nan")]),
        "count": pa.array([1, None, 3], pa.int8()),
        "ward": pa.array(["b", None, "a"]).dictionary_encode(),
        "y": pa.array([0, 1, 1]),
    }
    parquet.write_table(pa.table(columns), file)
    table = read_table(file, "y", time="at", missing="indicate")
    assert table.columns == (
        "age",
        "age is missing",
        "count",
        "count is missing",
        "ward = a",
        "ward = b",
        "ward is missing",
    )
    assert table.x.tolist() == [[0, 1, 0, 1, 0, 0, 1], [0, 1, 3, 0, 1, 0, 0], [1.5, 0, 1, 0, 0, 1, 0]]
    assert table.y.tolist() == [1, 1, -1]


def test_scaling_by_everyone_by_owner_and_by_bounds(path: Path) -> None:
    rows = "".join(f"{who},{age},{ward},{y}\n" for who, age, ward, y in ROWS)
    table = read_table(written(path.parent, f"clinic,age,ward,y\n{rows}"), "y", owner="clinic", missing="indicate")
    assert table.columns == ("age", "age is missing", "ward = g", "ward = h")
    ages = np.array([20.0, 40, 60, 80])
    there = [0, 1, 3, 4]
    alike = scaled(table).x[:, 0]
    np.testing.assert_allclose(alike[there], (ages - 50) / ages.std(), rtol=1e-6)
    assert alike[2] == 0  # the one that is missing
    own = scaled(table, "owner").x[:, 0]
    np.testing.assert_allclose(own, [-1, 1, 0, -1, 1], rtol=1e-6)
    bounded = scaled(table, bounds={"age": [20, 70]}).x
    np.testing.assert_allclose(bounded[:, 0], [-1, -0.2, 0, 0.6, 1], rtol=1e-6)  # 80 is moved to the edge
    for form in (alike, own, bounded):
        assert form.dtype == np.float32
    np.testing.assert_array_equal(scaled(table).x[:, 1:], table.x[:, 1:])  # 0 and 1 stay
    np.testing.assert_array_equal(scaled(table, None).x, table.x)


ROWS = (("a", 20, "h", 0), ("a", 40, "g", 1), ("a", "", "g", 1), ("b", 60, "h", 0), ("b", 80, "h", 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "owner"}, "the table has no owner column"),
        ({"bounds": {"smoker": [1, 0]}}, r"bounds of 'smoker' are \[1, 0\]: expected two numbers, the lower one first"),
        ({"bounds": {"ward": [0, 1]}}, "bounds of 'ward': expected a column of numbers, one of age, smoker"),
    ],
)
def test_scaling_that_cannot_be(path: Path, options, message) -> None:
    table = read_table(path, "again", features=FEATURES, missing="indicate")
    with pytest.raises(ConfigError, match=message):
        scaled(table, **options)
