"""The table of outcomes, and the directory of a study: what is written, read again, judged again and refused."""

import io
import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduction.tests import made_up
from tacit.core import limits
from tacit.core.errors import ResultError, TacitError
from tacit_reproduction import study as studies
from tacit_reproduction.figures import curves, dots
from tacit_reproduction.study import Judgement, finished_run, over
from tacit_reproduction.summary import command, read
from tacit_reproduction.table import FACTORS, FACTS, Results, Row, cells_of, decibels, late, loaded

QUIET = settings(derandomize=True, deadline=None, max_examples=50)
scalar = st.text(max_size=8) | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.none()
name = st.text("abcdefgh_", min_size=1, max_size=6)
cell = st.tuples(st.dictionaries(name, scalar, max_size=3), st.lists(st.floats(width=32), min_size=1, max_size=4))


@QUIET
@given(st.lists(cell, max_size=4), st.dictionaries(name, scalar | st.lists(scalar, max_size=2), max_size=3))
def test_a_table_is_read_as_it_was_written(cells: list[Any], facts: dict[str, Any]) -> None:
    table = Results([Row(f, {"a": np.array(v), "b/c": np.array([v])}) for f, v in cells], facts)
    again = loaded(table.content())
    assert again.facts == table.facts
    assert [row.factors for row in again.rows] == [row.factors for row in table.rows]
    for row, other in zip(again.rows, table.rows, strict=True):
        assert row.measures.keys() == other.measures.keys()
        for key, values in row.measures.items():
            np.testing.assert_array_equal(values, other.measures[key])


def packed(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    empty = {key: np.frombuffer(text, np.uint8) for key, text in ((FACTORS, b"[{}]"), (FACTS, b"{}"))}
    np.savez_compressed(buffer, **(empty | arrays))
    return buffer.getvalue()


def text(content: str) -> np.ndarray:
    return np.frombuffer(content.encode(), np.uint8)


HOSTILE = {
    "nothing": b"", "no archive": b"<html>moved</html>", "cut off": packed()[:-30],
    "one array": b"\x93NUMPY\x01\x00" + bytes(60), "objects": packed(**{"0/a": np.array([{}], object)}),
    "no such cell": packed(**{"1/a": np.ones(2)}), "a cell before the first": packed(**{"-1/a": np.ones(2)}),
    "words": packed(**{"0/a": np.array(["x"])}), "belongs to nothing": packed(a=np.ones(2)),
    "no JSON": packed(**{FACTORS: text("[{}")}), "deep": packed(**{FACTORS: text("[" * 100_000)}),
    "factors of another kind": packed(**{FACTORS: text("5")}),
    "factors within factors": packed(**{FACTORS: text('[{"a": [1]}]')}),
    "facts of another kind": packed(**{FACTS: text("[]")}),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_file_that_is_no_table_is_refused(what: str) -> None:
    with pytest.raises(ResultError, match="no table of outcomes"):
        loaded(HOSTILE[what])


def test_a_file_that_asks_for_too_much_memory_is_refused_before_it_gets_it() -> None:
    with limits.memory(0.001), pytest.raises(ResultError, match="limit"):
        loaded(packed(**{"0/a": np.zeros(10**6)}))
    lying = io.BytesIO()
    with zipfile.ZipFile(lying, "w") as archive, zipfile.ZipFile(io.BytesIO(packed(**{"0/a": np.zeros(3)}))) as honest:
        for each in honest.namelist():
            archive.writestr(each, honest.read(each).replace(b"(3,)", b"(9,)"))
    with pytest.raises(ResultError, match="is said to be"):
        loaded(lying.getvalue())


def test_cells_are_found_by_their_factors() -> None:
    class Cell(NamedTuple):
        noise: str
        step: float

    rows = [Row({"noise": "more", "step": 0.2}, {}), Row({"noise": "most"}, {})]
    cells = [Cell("none", 0.1), Cell("some", 0.1), Cell("program", 0.0)]
    table = cells_of(cells, [{"end": [1.0]}, {"end": [2.0], "more": [3.0]}, rows])
    assert table.of("end", noise="some").tolist() == [2.0]
    assert table.of("more", step=0.1).tolist() == [3.0]
    assert table.levels("noise") == ["none", "some", "more", "most"]
    assert len(table.where(step=0.1, noise="none").rows) == 1
    assert table.keep(lambda row: "more" in row.measures).levels("noise") == ["some"]
    for factors in ({"step": 0.1}, {"noise": "other"}):
        with pytest.raises(TacitError, match="expected just one"):
            table.of("end", **factors)
    np.testing.assert_array_equal(decibels(np.array([10.0, 0.0, np.inf])), [10, np.nan, np.nan])
    assert late(np.arange(8.0)[None], 0.25).tolist() == [6.5]


def test_figures_are_means_and_intervals_of_columns() -> None:
    values = np.random.default_rng(0).random((5, 3000)) + 1
    table = Results([Row({"m": m, "n": n}, {"rounds": np.arange(1, 3001), "v": values, "e": n + values[:, 0]})
                     for m in "ab" for n in (4, 2)])  # fmt: skip
    (panel,) = curves(table.where(n=2), "f", "F", "", "v", lines="m", words={"a": "A"}, log_x=True).as_json()["panels"]
    line = panel["lines"][0]
    assert [each["label"] for each in panel["lines"]] == ["A", "b"]
    assert (len(line["at"]) <= 100, line["at"][0], line["at"][-1]) == (True, 1, 3000)
    np.testing.assert_allclose(line["mean"], values.mean(axis=0)[np.array(line["at"], int) - 1], rtol=1e-4)
    assert all(low < mean < high for low, mean, high in zip(line["low"], line["mean"], line["high"], strict=True))
    dotted = dots(table, "d", "D", "", "e", x="n", lines="m").as_json()
    assert (dotted["panels"][0]["lines"][0]["at"], dotted["joined"]) == ([2, 4], True)
    named = dots(table, "d", "D", "", "e", x="m", lines="n").as_json()
    assert (named["axes"]["names"], named["joined"]) == (["a", "b"], False)


@pytest.fixture(scope="module")
def fine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("fine")
    return out, made_up.named("fine").run(True, out, 3)


def test_a_summary_has_headlines_claims_and_where_it_comes_from(fine: tuple[Path, dict[str, Any]]) -> None:
    out, summary = fine
    assert read(out) == summary
    assert {path.name for path in out.iterdir()} >= {"summary.json", "outcomes.npz", "report.html"}
    assert [each["verdict"] for each in summary["headlines"]] == ["reproduced", "depends on an open setting", "refuted"]
    assert all(each.keys() >= {"headline", "verdict", "text", "ours", "place", "why"} for each in summary["headlines"])
    first, _, own = summary["claims"]
    assert first.keys() >= {"claim", "holds", "figure", "headline", "verdict", "text", "ours"}
    assert [first[key] for key in ("holds", "ours", "verdict")] == [True, False, "reproduced"]
    assert first["headline"] == "A is best | of all"
    assert (own["ours"], own["headline"], own["verdict"]) == (True, "", None)
    assert summary["made_of"].keys() == {"code", "data"}
    assert command(summary) == "tacit reproduce fine --quick --seed 3"
    assert summary["table"]["columns"] == ["method", "step", "end"]


def test_stored_outcomes_judged_again_give_the_same_summary(fine: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out, summary = fine
    shutil.copytree(out, tmp_path / "copy")
    (tmp_path / "copy" / "report.html").unlink()
    assert made_up.named("fine").judge_again(tmp_path / "copy") == summary
    for name in ("summary.json", "outcomes.npz", "report.html"):
        assert (tmp_path / "copy" / name).read_bytes() == (out / name).read_bytes()
    with pytest.raises(ResultError, match="holds fine, expected dies"):
        made_up.named("dies").judge_again(tmp_path / "copy")


LINE = ("figures", 0, "panels", 0, "lines", 0)


@pytest.mark.parametrize(("place", "value"), [
    (("claims", 0, "holds"), "yes"), (("claims", 0, "headline"), None), (("headlines", 0, "verdict"), "<b>"),
    (("headlines", 1, "settings", "R = 2"), "likely"), ((*LINE, "mean"), [1.0]), ((*LINE, "low"), ["<script>"] * 20),
    (("figures", 1, *LINE[2:], "at"), [7.0, 8.0]), (("table", "rows"), [5]), (("seed",), -1), (("made_of", "data"), []),
])  # fmt: skip
def test_a_summary_of_another_shape_is_refused(fine, tmp_path: Path, place: tuple[Any, ...], value: Any) -> None:
    shutil.copytree(fine[0], tmp_path / "copy")
    summary = json.loads((tmp_path / "copy" / "summary.json").read_text())
    part = summary
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    (tmp_path / "copy" / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(ResultError, match=str(place[0])):
        read(tmp_path / "copy")


@pytest.mark.parametrize("kind", ["claim", "headline"])
def test_what_is_seen_in_no_figure_is_refused(tmp_path: Path, kind: str) -> None:
    def lost(results: Results) -> Judgement:
        claims, headlines, figures = made_up.judge(results)
        if kind == "claim":
            return Judgement([claims[0]._replace(seen_in="elsewhere")], [], figures)
        return Judgement(claims, [headlines[0]._replace(seen_in="elsewhere")], figures)

    study = made_up.study("lost", "Li et al.").__class__(**{**vars(made_up.named("fine")), "judge": lost})
    with pytest.raises(TacitError, match="'elsewhere'"):
        study.run(True, tmp_path, 0)
    assert not (tmp_path / "summary.json").exists()


def test_cells_are_measured_by_themselves_with_seeds_of_the_form() -> None:
    class Cell(NamedTuple):
        k: int

    def team(what: str, do: Any, tasks: Any) -> list[Any]:
        return [do(task) for task in tasks]

    def run(task: tuple[Cell, int, int]) -> Mapping[str, Any]:
        cell, seeds, first = task
        return {"v": cell.k + first + np.arange(seeds)}

    cells = [Cell(1), Cell(2)]
    measure = over(lambda quick: cells[: 2 - quick], run, (20, 5), lambda quick: {"data": "none"})
    few, many = (measure(team, quick, 1000) for quick in (True, False))
    assert few.of("v", k=1).tolist() == [1001, 1002, 1003, 1004, 1005]
    assert (many.of("v", k=2).shape, many.facts) == ((20,), {"data": "none"})


def test_an_interrupted_run_ends_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([False, True])
    monkeypatch.setattr(studies, "simulate", lambda *_, **__: SimpleNamespace(partial=next(ends)))
    assert not finished_run("method", "graph", "stream", rounds=3).partial
    with pytest.raises(KeyboardInterrupt):
        finished_run("method", "graph", "stream", rounds=3)
