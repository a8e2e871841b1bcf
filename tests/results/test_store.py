from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from tacit.core.errors import ResultError
from tacit.results import Run, load, sealed, store

MakeRun = Callable[..., Run]
FILES = {
    "config.toml",
    "summary.json",
    "trace.parquet",
    "report.html",
    "model.safetensors",
    "model.html",
    "average_loss.png",
    "consensus.png",
    "loss_against_bits.png",
}


def test_a_run_directory_is_complete_and_reads_back_the_same(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(settings={"run": {"rounds": 40}, "algorithm": [{"name": "online_push_sum", "step": 0.5}]})
    run.regret(points=3)
    folder = run.save(tmp_path / "deep" / "run")
    assert {path.name for path in folder.iterdir()} == FILES | {"regret.png"}
    again, record = load(folder), run.record()
    assert again.summary == record.summary
    assert again.settings == run.settings
    for name in ("rounds", "loss", "average_loss", "score", "consensus", "bits"):
        np.testing.assert_array_equal(getattr(again.trace, name), getattr(record.trace, name))


def test_the_summary_says_what_ran(make_run: MakeRun, tmp_path: Path) -> None:
    store.save_data(make_run().record(), tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    wanted = {"algorithm", "metrics", "privacy", "timings", "versions", "seed", "rounds", "repeats", "agents"}
    assert wanted | {"graph", "stream", "partial"} <= summary.keys()
    assert set(summary["versions"]) == {"tacit", "python", "jax", "numpy"}
    assert not any("second" in key for key in summary["metrics"])  # times are not metrics: these repeat byte by byte


def test_the_trace_has_a_row_per_recorded_round_and_repeat(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    store.save_data(run.record(), tmp_path)
    table = parquet.read_table(tmp_path / "trace.parquet")
    assert table.num_rows == run.repeats * len(run.recorded_rounds)
    assert set(table.column_names) == {
        "round",
        "repeat",
        "loss",
        "average_loss",
        "average_score",
        "consensus",
        "cumulative_bits",
    }


def test_a_run_made_in_python_describes_itself(make_run: MakeRun, tmp_path: Path) -> None:
    store.save_data(make_run().record(), tmp_path)
    settings = tomllib.loads((tmp_path / "config.toml").read_text())
    assert settings["run"] == {"rounds": 40, "repeats": 3, "seed": 0, "dtype": "float32"}
    assert settings["described"]["graph"] == "ring(3)"


def test_a_diverged_run_can_be_saved_and_says_so(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    run.per_round["loss"][:, 20:] = np.nan
    folder = run.save(tmp_path)
    assert load(folder).summary["diverged"]
    assert "diverged" in (folder / "report.html").read_text()
    assert not (folder / "average_loss.png").exists()


def test_saving_again_leaves_nothing_of_the_run_before(make_run: MakeRun, tmp_path: Path) -> None:
    first = make_run()
    first.regret(points=3)
    first.save(tmp_path)
    (tmp_path / "mine.txt").write_text("kept")
    make_run(seed=1).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == FILES | {"mine.txt"}
    assert "regret_total" not in load(tmp_path).metrics


def test_a_failure_while_writing_leaves_no_half_written_run(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save_data(make_run().record(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full_disk(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(ResultError, match=r"No space left.*--out"):
        store.save_data(make_run(seed=1).record(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_death_between_renames_leaves_a_directory_without_summary(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save_data(make_run().record(), tmp_path)
    original = Path.replace

    def dies(self: Path, target: Path) -> Path:
        if target.name == "trace.parquet":
            raise KeyboardInterrupt
        return original(self, target)

    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        store.save_data(make_run(seed=1).record(), tmp_path)
    assert not list(tmp_path.glob(".tacit-*"))
    with pytest.raises(ResultError, match="not a finished run"):
        load(tmp_path)


def rewrite(folder: Path, **changes: object) -> None:
    """Change what summary.json says, and nothing else."""
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, **changes}))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", "{", r"summary\.json"),
        ("summary.json", "[]", r"summary\.json.*list"),
        ("summary.json", "{}", r"summary\.json.*'files'"),
        ("summary.json", '{"files": {}}', r"summary\.json.*algorithm, label"),
        ("config.toml", "= 1", r"config\.toml"),
        ("trace.parquet", "nonsense", r"trace\.parquet"),
    ],
)
@pytest.mark.parametrize("fitting", [False, True])
def test_a_broken_directory_is_refused(
    make_run: MakeRun, tmp_path: Path, name: str, content: str, message: str, fitting: bool
) -> None:
    store.save_data(make_run().record(), tmp_path)
    (tmp_path / name).write_text(content)
    if fitting and name != "summary.json":
        digests = {
            file: sha256((tmp_path / file).read_bytes()).hexdigest() for file in ("config.toml", "trace.parquet")
        }
        rewrite(tmp_path, files=digests)
    with pytest.raises(ResultError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("privacy", [{"private": False, "words": "Not private."}, "none"])
def test_a_run_of_before_privacy_was_counted_is_refused(make_run: MakeRun, tmp_path: Path, privacy: object) -> None:
    store.save_data(make_run().record(), tmp_path)
    rewrite(tmp_path, privacy=privacy)
    with pytest.raises(ResultError, match=r"summary\.json.*privacy"):
        load(tmp_path)


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"no summary\.json"):
        load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="cannot be written"):
        store.put(tmp_path / "file", {"summary.json": b""})


def test_an_empty_file_of_the_results_before_does_not_stay(tmp_path: Path) -> None:
    for name in ("empty.txt", "other.txt"):
        sealed.put(tmp_path, sealed.seal({name: b""}, {}))
    assert {path.name for path in tmp_path.iterdir()} == {"other.txt", "summary.json"}
