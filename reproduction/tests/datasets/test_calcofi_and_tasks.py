"""CalCOFI from a small table in the files' own formats, and tasks of clusters; where the real file is, its figures."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.tests.datasets.published import needs, npz, place, take
from tacit.core.errors import ConfigError, DataError
from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets import fetch as datasets
from tacit_reproduction.datasets.calcofi import COLUMNS, _from_table, calcofi
from tacit_reproduction.datasets.tasks import TwoClasses, cluster_tasks, held_out

ROWS, AGENTS = 400, 5


def arrays() -> dict[str, np.ndarray]:
    """Bottles in the order of time; oxygen is the row's number, by which a bottle is known again. Row 7 lacks one."""
    rng = np.random.default_rng(0)
    found = {name: rng.normal(3, 2, ROWS).astype(np.float32) for name in (*COLUMNS, "Salnty")}
    found["O2ml_L"] = np.arange(ROWS, dtype=np.float32)
    found["Salnty"][7] = np.nan
    found["lat"] = rng.integers(30, 34, ROWS).astype(np.float32) + np.float32(0.2)
    found["lon"] = rng.uniform(-125, -117, ROWS).astype(np.float32)
    return found


def put(folder: Path, found: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file that is taken for the prepared one."""
    (name,) = datasets.KNOWN["calcofi"].files
    place(take(monkeypatch, "calcofi", [npz(**found)]), folder / "data")
    return folder / "data" / name


@pytest.fixture
def placed(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return put(nowhere, arrays(), monkeypatch)


def number_of(x: np.ndarray, oxygen: int = 2) -> np.ndarray:
    """The rows in the table that standardised samples came from."""
    complete = np.delete(np.arange(ROWS), 7).astype(np.float64)
    return np.rint(x[..., oxygen] * complete.std() + complete.mean()).astype(int)


def rows_of(stream) -> list[np.ndarray]:
    """Each agent's rows of the table, in the order in which they come."""
    x = stream.chunk(0, stream.rounds).x
    return [number_of(x[stream.arrivals[:, agent], agent]) for agent in range(stream.agents)]


def test_bottles_are_shared_out_unevenly_and_once_and_standardised(placed) -> None:
    stream = calcofi(AGENTS, samples=220, rounds=100, seed=2)
    np.testing.assert_array_equal(stream.data_size, [20, 40, 60, 80, 20])  # 500 : 1000 : 1500 : 2000 : 500
    np.testing.assert_array_equal(stream.arrivals.sum(axis=0), stream.data_size)
    held = np.concatenate(rows_of(stream))
    assert len(np.unique(held)) == 220
    assert 7 not in held
    assert all((np.diff(own) > 0).all() for own in rows_of(stream))  # in the order of time
    assert "220 of 399 complete bottles (1970 to 2020)" in stream.description
    table = np.stack([arrays()[name] for name in (*COLUMNS, "Salnty")], axis=1).astype(np.float64)
    complete = np.delete(table, 7, axis=0)
    scaled = (table - complete.mean(axis=0)) / complete.std(axis=0)
    x, y, weight = stream.chunk(0, 100)
    rows = number_of(x[stream.arrivals])
    np.testing.assert_allclose(x[stream.arrivals], scaled[rows, :4], atol=1e-5)
    np.testing.assert_allclose(y[stream.arrivals], scaled[rows, 4], atol=1e-5)
    assert stream.salinity_deviation == pytest.approx(complete[:, 4].std())
    assert not x[~stream.arrivals].any()
    np.testing.assert_array_equal(weight, stream.arrivals)


def test_an_agent_has_one_region(placed) -> None:
    found = arrays()
    stream = calcofi(AGENTS, samples=220, rounds=100)
    rows = rows_of(stream)
    held = np.sort(np.concatenate(rows))
    by_place = sorted(held, key=lambda row: (round(float(found["lat"][row])), found["lon"][row]))
    position = {row: place for place, row in enumerate(by_place)}
    for own in rows:
        places = sorted(position[row] for row in own)
        assert places == list(range(places[0], places[0] + len(own)))
    starts = [min(position[row] for row in own) for own in rows]
    assert starts != sorted(starts)  # a data group is no region


def test_test_bottles_are_held_by_nobody(placed) -> None:
    stream = calcofi(AGENTS, samples=220, rounds=100)
    fresh = stream.test(179)
    assert (fresh.x.shape, fresh.y.shape, fresh.weight) == ((179, 4), (179,), None)
    everybody = np.concatenate([*rows_of(stream), number_of(fresh.x)])
    np.testing.assert_array_equal(np.sort(everybody), np.delete(np.arange(ROWS), 7))
    np.testing.assert_array_equal(stream.test(20).x, stream.test(20).x)
    assert not np.array_equal(stream.test(20, seed=1).x, stream.test(20).x)
    with pytest.raises(DataError, match="180 bottles to test with, but only 179"):
        stream.test(180)


def test_slices_and_seeds(placed) -> None:
    every = calcofi(AGENTS, samples=220, rounds=100)
    for part, whole in zip(every.chunk(31, 77), every.chunk(0, 100), strict=True):
        np.testing.assert_array_equal(part, whole[31:77])
    other = calcofi(AGENTS, samples=220, rounds=100, seed=2)
    assert not np.array_equal(other.arrivals, every.arrivals)
    assert set(np.concatenate(rows_of(other))) != set(np.concatenate(rows_of(every)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": 399}, "399 samples, but there are 399 complete bottles"),
        ({"samples": 6}, "6 samples for 5 agents; expected at least one for each"),
        ({"rounds": 79}, "agent 3 has 80 samples, but there are 79 rounds"),
        ({"agents": 0}, "agents = 0: expected"),
    ],
)
def test_bad_settings_are_refused(placed, settings, message) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        calcofi(**({"agents": AGENTS, "samples": 220, "rounds": 100} | settings))


def test_the_databases_own_table_will_do(nowhere) -> None:
    found = arrays()
    rng = np.random.default_rng(1)
    line, station = rng.integers(60, 63, ROWS), rng.integers(30, 120, ROWS)
    path = nowhere / "data" / "bottle.csv"
    with path.open("w", encoding="latin-1", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(["Cst_Cnt", "Sta_ID", "Depthm", "T_degC", "Salnty", "O2ml_L", "STheta", "O2Sat", "µmol"])
        for row in range(ROWS):
            cells = [found[name][row] for name in ("Depthm", "T_degC", "Salnty", "O2ml_L")]
            cells = ["" if np.isnan(cell) else repr(float(cell)) for cell in cells]
            writer.writerow([row, f"{line[row]:05.1f} {station[row]:05.1f}", *cells, "", found["O2Sat"][row], ""])
    stream = calcofi(AGENTS, samples=220, rounds=100)
    assert "220 of 399 complete bottles (bottle.csv)" in stream.description
    rows = rows_of(stream)
    assert 7 not in np.concatenate(rows)
    assert datasets.available("calcofi")
    # From one block to the next lines grow; within a line stations fall, from the sea in the west to the coast.
    blocks = sorted(([(line[row], -station[row]) for row in own] for own in rows), key=min)
    for west, east in itertools.pairwise(blocks):
        assert max(west) <= min(east)
    lines = path.read_text("latin-1").splitlines()
    path.write_text("\n".join([lines[0], lines[1].replace(".0 ", ".0")]), "latin-1")
    _from_table.cache_clear()
    with pytest.raises(DataError, match=r"bottle.csv, line 2: .*replace it by the original"):
        calcofi(AGENTS)
    path.write_text("Sta_ID,Depthm,T_degC,O2ml_L,O2Sat\n")
    with pytest.raises(DataError, match=r"bottle.csv: column 'Salnty' is missing"):
        calcofi(AGENTS)


def test_too_few_bottles_and_a_damaged_file_are_refused(nowhere, monkeypatch) -> None:
    found = arrays()
    found["O2Sat"][1:] = np.nan
    path = put(nowhere, found, monkeypatch)
    with pytest.raises(DataError, match="1 bottles have Depthm"):
        calcofi(AGENTS)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DataError, match="its SHA-256 is"):
        calcofi(AGENTS)


def test_where_it_is_not_the_refusal_says_what_to_do(nowhere) -> None:
    assert not datasets.available("calcofi")
    with pytest.raises(DataError) as refusal:
        calcofi(AGENTS)
    for expected in (str(nowhere / "data"), "bottle.csv", "set TACIT_DATA", "https://calcofi.org/"):
        assert expected in str(refusal.value)


@pytest.mark.data
@needs("calcofi")
def test_the_real_bottles() -> None:
    stream = calcofi(256)
    np.testing.assert_array_equal(stream.data_size, np.resize([125, 250, 375, 500], 256))
    assert "80,000 of 354,982 complete bottles (1970 to 2020)" in stream.description
    assert stream.salinity_deviation == pytest.approx(0.4188, abs=1e-4)
    x, y, _ = (leaf[stream.arrivals] for leaf in stream.chunk(0, 2000))
    design = np.column_stack([x, np.ones(len(x))])
    weights = np.linalg.lstsq(design, y, rcond=None)[0]
    fresh = stream.test(20_000)
    left = np.square(fresh.y - np.column_stack([fresh.x, np.ones(len(fresh.x))]) @ weights).mean()
    assert left == pytest.approx(1 - 0.815, abs=0.02)  # a linear fit is known to explain 0.815 of the variance


TASKS = (TwoClasses((1, 2), (6, 8)), TwoClasses((1, 2), (7, 9)), TwoClasses((3,), (8,)))


def made(per_class: int = 40) -> Dataset:
    """Ten classes; a row's two features are its class and its own number, test rows after training rows."""
    y = np.tile(np.arange(10), per_class).astype(np.int32)
    x = np.stack([y, np.arange(len(y))], axis=1).astype(np.float32)
    half = len(y) // 2
    slices = {"train": slice(0, half), "test": slice(half, len(y))}
    return Dataset("made up", x, y, ("class", "row"), "made up", True, slices, "multiclass")


DATA = made()


def test_a_test_set_has_all_rows_of_its_classes_and_signs_or_a_fixed_choice() -> None:
    task = TwoClasses((1, 2), (8,))
    found, few = held_out(DATA, task, 60), held_out(DATA, task, 10)
    assert len(found.y) == len(set(found.x[:, 1])) == 60
    assert set(found.x[found.y == 1, 0]) == {8}
    assert set(found.x[found.y == -1, 0]) == {1, 2}
    assert found.x[:, 1].min() >= 200
    assert np.all(np.diff(found.x[:, 1]) > 0)
    assert found.y.dtype == np.float32
    assert len(set(few.x[:, 1])) == 10
    np.testing.assert_array_equal(few.x, held_out(DATA, task, 10).x)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(2, 5)), min_size=1, max_size=7), st.integers(0, 2**16))
def test_clients_have_their_clusters_task_in_equal_shares_and_no_row_twice(clients, seed) -> None:
    clusters, sizes = (np.array(column) for column in zip(*clients, strict=True))
    stream = cluster_tasks(DATA, TASKS, clusters, sizes, seed)
    np.testing.assert_array_equal(stream.data_size, sizes)
    batch = stream.chunk(0, 1)
    assert batch.x.shape == (1, len(sizes), sizes.max(), 2)
    rows = []
    for k, (q, size) in enumerate(clients):
        classes, y = batch.x[0, k, :size, 0], batch.y[0, k, :size]
        rows += batch.x[0, k, :size, 1].tolist()
        assert abs(np.sum(y)) <= 1
        for side, sign in zip(TASKS[q], (-1, 1), strict=True):
            assert set(classes[y == sign]) <= set(side)
            counts = [int(np.sum(classes == label)) for label in side]
            assert max(counts) - min(counts) <= 1
    assert len(set(rows)) == len(rows)
    assert max(rows) < 200, "all from the training part"


def test_seeds_draw_other_rows_and_the_left_over_falls_on_either_side() -> None:
    clusters, sizes = np.zeros(20, np.int64), np.full(20, 3)
    one, same, other = (cluster_tasks(made(80), TASKS[2:], clusters, sizes, seed).chunk(0, 1) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.x, same.x)
    assert set(one.x[..., 1].ravel()) != set(other.x[..., 1].ravel())
    two = cluster_tasks(DATA, TASKS, clusters, np.full(20, 2), 0).chunk(0, 1)
    assert set(two.x[..., 0].ravel()) == {1, 2, 6, 8}
    # Twenty fair coins that all fall alike: 2e-6, and so for the classes above.
    assert set(one.y.sum(axis=-1).ravel()) == {-1, 1}


def test_clients_that_need_more_rows_than_there_are_are_refused() -> None:
    with pytest.raises(DataError, match="20 rows of class 3"):
        cluster_tasks(DATA, TASKS, np.full(11, 2), np.full(11, 4), 0)
