"""Whole sweeps: tables that go on, halving, and kills in the middle."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pyarrow import parquet

from tacit.board.curves import of_live
from tacit.board.live_reader import LiveRecord
from tacit.board.runs import Runs
from tacit.config.own_code import import_file
from tacit.core.errors import ResultError
from tacit.sweeps import SweepResult, load_sweep, run, run_sweep
from tacit.sweeps.table import TABLE, Rows
from tests.own_network import in_own_network
from tests.sweeps.files import experiment, write
from tests.sweeps.test_workers import RAY

KEYS = '[sweep.keys]\n"algorithm.step" = [0.1, 0.5]\n"graph.out_degree" = [1, 2]'
KILLER = '''
import os, signal
from pathlib import Path
from tacit.algorithms import local_online, register
from tacit.core.contract import Algorithm, Objective


@register("a test")
def killer(objective: Objective, step: float = 0.1) -> Algorithm:
    """Kill the first worker that gets to step 0.3."""
    mark = Path(__file__).with_name("killed")
    if step == 0.3 and os.getpid() != PARENT:
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return local_online(objective, step)
'''


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    folder = tmp_path_factory.mktemp("swept")
    return run_sweep(load_sweep(write(folder, f"seeds = 2\n{KEYS}")), folder / "out", workers=1)


def test_the_table_has_a_row_per_setting_and_seed(swept: SweepResult) -> None:
    table = parquet.read_table(swept.table)
    assert table.num_rows == 8
    assert {"algorithm.step", "graph.out_degree", "seed", "average_loss", "accuracy", "seconds"} <= set(
        table.column_names
    )
    assert set(table.column("status").to_pylist()) == {"done"}
    assert sorted(set(table.column("seed").to_pylist())) == [3, 4]
    best = [standing.figure.mean for standing in swept.standings]
    assert best == sorted(best)
    assert swept.ran == 4


def test_its_live_file_has_the_best_so_far_and_how_many_settings_are_done(swept: SweepResult) -> None:
    (found,) = Runs(swept.directory).all()
    assert (found.kind, found.state, found.done, found.rounds) == ("sweep", "done", 4, 4)
    (path,) = (swept.directory / ".tacit-live").iterdir()
    live = LiveRecord(path)
    live.refresh()
    curve = of_live(live)
    best = curve["curves"]["best"]["mean"]
    assert curve["rounds"][-1] == 4
    assert best == sorted(best, reverse=True)
    values = parquet.read_table(swept.table).column(swept.sweep.metric).to_pylist()
    assert best[-1] == found.figures["loss"] == pytest.approx(min(values), rel=1e-6)


def test_the_page_plots_the_metric_against_every_number(swept: SweepResult) -> None:
    page = swept.report.read_text()
    assert page.count("<figure class='chart'>") == 2
    assert page.count("<tr>") == 5


def test_a_finished_sweep_runs_nothing_again_and_a_torn_one_what_is_missing(
    swept: SweepResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*arguments, **settings):
        return pytest.fail("run again") if arguments[1] else iter(())

    out = tmp_path / "out"
    out.mkdir()
    (out / TABLE).write_bytes(swept.table.read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr(run, "in_parallel", none)
        assert run_sweep(swept.sweep, out).ran == 0
    rows = Rows(swept.sweep, out)
    rows.rows = [row for row in rows.rows if row["setting"] != 2]
    rows.add([])
    again = run_sweep(swept.sweep, out, workers=1)
    assert again.ran == 1
    assert [s.figure.mean for s in again.standings] == pytest.approx([s.figure.mean for s in swept.standings], rel=1e-6)


def test_what_failed_is_tried_again_and_what_was_refused_is_not(swept: SweepResult, tmp_path: Path) -> None:
    rows = Rows(swept.sweep, tmp_path)
    failed, refused, unknown = swept.sweep.each[:3]
    rows.add([(failed, 6, [{"seed": 3, "status": "failed", "error": "killed"}])])
    rows.add([(refused, 6, [{"seed": 3, "status": "refused", "error": "no"}])])
    assert [rows.lacks(each, 6) for each in (failed, refused, unknown)] == [True, False, True]


def test_the_table_of_another_file_is_refused_with_the_keys(swept: SweepResult, tmp_path: Path) -> None:
    out = swept.directory
    before = swept.table.read_bytes()
    other = load_sweep(write(tmp_path, f"seeds = 3\n{KEYS}", experiment(graph="weights = 'sender'")))
    with pytest.raises(ResultError) as told:
        run_sweep(other, out)
    assert "sweep.seeds" in str(told.value)
    assert "graph.weights" in str(told.value)
    assert "stream" not in str(told.value).partition("another sweep")[2]
    assert swept.table.read_bytes() == before
    (tmp_path / TABLE).write_bytes(b"PAR1 no table")
    with pytest.raises(ResultError, match="no table of a sweep"):
        run_sweep(swept.sweep, tmp_path)


def test_halving_runs_few_settings_to_the_end_and_the_best(tmp_path: Path) -> None:
    keys = 'kind = "halving"\neta = 2\nmetric = "accuracy"\n[sweep.keys]\n"algorithm.step" = [0.001, 0.5, 1.0, 2.0]'
    sweep = load_sweep(write(tmp_path, keys), rounds=8)
    result = run_sweep(sweep, tmp_path / "out", workers=1)
    table = parquet.read_table(result.table).to_pylist()
    by_rounds = {rounds: [row for row in table if row["rounds"] == rounds] for rounds in sweep.rungs()}
    assert {rounds: len(rows) for rounds, rows in by_rounds.items()} == {2: 4, 4: 2, 8: 1}
    for rounds, later in ((2, 4), (4, 8)):
        kept = {row["setting"] for row in by_rounds[later]}
        left = [row["accuracy"] for row in by_rounds[rounds] if row["setting"] not in kept]
        stayed = [row["accuracy"] for row in by_rounds[rounds] if row["setting"] in kept]
        assert min(stayed) >= max(left)
    assert result.standings[0].rounds == 8
    assert run_sweep(sweep, tmp_path / "out", workers=1).ran == 0


def killed_in_the_middle(folder: Path, on: str) -> None:
    """Sweep a method that kills the first worker which gets to its third setting."""
    import os

    (folder / "killer.py").write_text(KILLER.replace("PARENT", str(os.getpid())))
    import_file(folder / "killer.py")
    keys = 'seeds = 2\n[sweep.keys]\n"algorithm.step" = [0.1, 0.2, 0.3, 0.4]'
    text = experiment("killer").replace("random_digraph", "ring").replace("out_degree = 2", "")
    sweep = load_sweep(write(folder, keys, text))
    result = run_sweep(sweep, folder / "out", on=on, workers=2)
    assert (folder / "killed").exists()
    assert result.failed == []
    table = parquet.read_table(result.table)
    assert table.num_rows == 8
    assert set(table.column("status").to_pylist()) == {"done"}
    assert all(math.isfinite(loss) for loss in table.column("average_loss").to_pylist())


def test_a_process_that_is_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    killed_in_the_middle(tmp_path, "pool")


@pytest.mark.slow
@pytest.mark.filterwarnings(*RAY)
@in_own_network
def test_a_worker_of_ray_that_is_killed_in_the_middle_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    killed_in_the_middle(tmp_path, "ray")


def test_every_private_setting_has_the_epsilon_of_its_own_run(tmp_path: Path) -> None:
    noise = '[algorithm.mechanism]\nkind = "laplace"\nepsilon = 1.0\nclip = 1.0'
    keys = '[sweep.keys]\n"algorithm.mechanism.epsilon" = [1.0, 2.0]'
    sweep = load_sweep(write(tmp_path, keys, experiment(algorithm=noise)))
    rows = parquet.read_table(run_sweep(sweep, tmp_path / "out", workers=1).table).to_pylist()
    assert [row["epsilon"] for row in rows] == pytest.approx([1.0, 2.0])
    assert [row["algorithm.mechanism.epsilon"] for row in rows] == [1.0, 2.0]
