"""A run as one long table."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from pyarrow import parquet

from tacit.core.errors import ConfigError, ResultError


@pytest.fixture
def run(make_run):
    made = make_run(repeats=2, label="ours")
    residual = np.random.default_rng(3).random((2, 10, made.agents))
    return replace(made, recorded={**made.recorded, "residual": residual, "matrix": np.zeros((2, 10, 4, 4))})


def test_every_figure_has_its_row(run, tmp_path) -> None:
    table = parquet.read_table(run.to_parquet(tmp_path / "new" / "run.parquet"))
    assert table.column_names == ["algorithm", "repeat", "round", "metric", "agent", "value"]
    rows = table.to_pylist()
    assert {row["algorithm"] for row in rows} == {"ours"}
    assert {row["metric"] for row in rows} == {*run.per_round, "consensus", "residual"}
    for name, values in run.per_round.items():
        found = {(row["repeat"], row["round"]): row["value"] for row in rows if row["metric"] == name}
        assert found == {(r, t + 1): pytest.approx(values[r, t]) for r in range(2) for t in range(40)}
    each = {(row["repeat"], row["round"], row["agent"]): row["value"] for row in rows if row["metric"] == "residual"}
    assert {round_ for _, round_, _ in each} == set(range(4, 41, 4))
    np.testing.assert_allclose([each[1, 8, agent] for agent in range(3)], run.recorded["residual"][1, 1])
    assert {row["agent"] for row in rows if row["metric"] == "consensus"} == {None}


def test_a_path_that_cannot_be_written(run, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="cannot be written"):
        run.to_parquet(tmp_path / "file" / "run.parquet")


def test_without_pandas_there_is_a_remedy(run, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"pandas.*tacit\[data\]"):
        run.to_pandas()


def test_with_pandas_it_is_a_frame(run) -> None:
    frame = run.to_pandas()
    loss = frame[(frame.metric == "loss") & (frame.repeat == 1)].sort_values("round").value
    np.testing.assert_allclose(loss, run.per_round["loss"][1], rtol=1e-6)
