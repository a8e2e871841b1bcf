"""[evaluate] and class_weight in an experiment's file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.config.experiment import parse
from tacit.core.errors import ConfigError, DataError, PrivacyError, TacitError
from tacit.experiments import build
from tacit.experiments.execute import execute
from tacit.results import load

TEXT = """
[run]
rounds = 8
regret_points = 0
[graph]
kind = "complete"
[stream]
kind = "csv"
path = "rows.csv"
label = "again"
owner = "who"
[objective]
kind = "logistic"
[evaluate]
share = 0.2
[[algorithm]]
name = "online_push_sum"
step = 0.3
"""
ROWS = 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five owners of ten rows; column a is the row's number, and the last row alone is of ward "heart"."""
    lines = [
        f"{k},{'heart' if k == ROWS - 1 else 'general' if k % 3 else 'hand'},{'yes' if k % 4 == 0 else 'no'},{'abcde'[k % 5]}"
        for k in range(ROWS)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["a,ward,again,who", *lines, ""]))
    return tmp_path


def problem(folder: Path, *changes: tuple[str, str]):
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return build(parse(text, folder / "x.toml"))


def read_in_training(made) -> np.ndarray:
    batch = made.stream(0).chunk(0, made.stream(0).rounds)
    return batch.x[batch.weight > 0]


AS_THEY_ARE = ("[objective]", "standardise = false\n[objective]")


@pytest.mark.parametrize("path", ['"rows.csv"', '"*.csv"', '["rows.csv", "more.csv"]'])
def test_rows_that_are_learnt_from_judge_nobody(folder: Path, path: str) -> None:
    (folder / "more.csv").write_text((folder / "rows.csv").read_text())
    (folder / "same").symlink_to(folder, target_is_directory=True)
    with pytest.raises(ConfigError, match=r"\[evaluate\].*rows\.csv"):
        problem(folder, ('path = "rows.csv"', f"path = {path}"), ("share = 0.2", 'file = "same/rows.csv"'))


@pytest.mark.parametrize("by", ["row", "time"])
def test_held_out_rows_are_not_learnt_from(folder: Path, by: str) -> None:
    rounds = ("rounds = 8", "rounds = 5")
    made = problem(folder, AS_THEY_ARE, rounds, ("share = 0.2", f'share = 0.2\nby = "{by}"'))
    held = made.held_out
    assert held is not None
    learnt, judged = set(read_in_training(made)[:, 0]), set(held.x[:, 0])
    assert len(judged) == 10
    assert len(learnt) == 40
    assert not learnt & judged
    assert [held.owners[k] for k in held.owner] == ["abcde"[int(row) % 5] for row in held.x[:, 0]]
    if by == "time":
        assert judged == set(range(40, 50))  # the last two of each owner
    np.testing.assert_allclose(held.constant, [1 - held.constant[1], held.constant[1]])
    yes = sum(row % 4 == 0 for row in learnt)
    assert held.constant[1] == pytest.approx(yes / 40)


def test_whole_owners_are_held_out_and_take_no_part(folder: Path) -> None:
    rounds = ("rounds = 8", "rounds = 10")
    made = problem(folder, AS_THEY_ARE, rounds, ("share = 0.2", 'share = 0.4\nby = "owner"\nseed = 3'))
    assert made.stream(0).agents == 3
    assert made.held_out.owner.tolist() == [-1] * 20
    assert len({row % 5 for row in read_in_training(made)[:, 0]}) == 3
    (run,) = made.runs(progress=False)
    assert run.evaluation.shown == "each"
    with pytest.raises(DataError, match="agents = 3"):
        problem(folder, rounds, ('"complete"', '"complete"\nagents = 5'), ("share = 0.2", 'share = 0.4\nby = "owner"'))


def test_scaling_and_words_are_those_of_rows_that_are_learnt_from(folder: Path) -> None:
    made = problem(folder, ("share = 0.2", 'share = 0.2\nby = "time"'))
    x = read_in_training(made)
    np.testing.assert_allclose(x[:, 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(x[:, 0].std(), 1, atol=1e-6)
    mean, deviation = np.arange(40).mean(), np.arange(40).std()
    np.testing.assert_allclose(made.held_out.x[:, 0], (np.arange(40, 50) - mean) / deviation, rtol=1e-5)
    # a, two wards, ones: "heart" is in a held-out row alone, which is of neither ward that is known
    assert x.shape[1] == made.held_out.x.shape[1] == 4
    np.testing.assert_array_equal(made.held_out.x[-1, 1:], [0, 0, 1])


def test_a_file_of_its_own(folder: Path) -> None:
    (folder / "test.csv").write_text("who,again,a,ward,note\na,yes,100,hand,x\nz,no,3,general,y\n")
    file = ("share = 0.2", 'file = "test.csv"')
    made = problem(folder, AS_THEY_ARE, file)
    assert made.stream(0).data_size.sum() == ROWS
    np.testing.assert_array_equal(made.held_out.x, [[100, 0, 1, 0, 1], [3, 1, 0, 0, 1]])
    assert made.held_out.y.tolist() == [1, -1]
    assert made.held_out.owner.tolist() == [0, -1]  # z took no part
    (folder / "test.csv").write_text("who,again,a,ward\na,yes,1,foot\n")
    with pytest.raises(DataError, match=r'\[evaluate\].*foot.*unknown = "ignore"'):
        problem(folder, file)
    ignored = problem(folder, AS_THEY_ARE, ("share = 0.2", 'file = "test.csv"\nunknown = "ignore"')).held_out
    np.testing.assert_array_equal(ignored.x, [[1, 0, 0, 0, 1]])
    (folder / "test.csv").write_text("who,again,a,ward\na,maybe,1,hand\n")
    with pytest.raises(DataError, match=r"\[evaluate\].*maybe"):
        problem(folder, file)


def test_figures_are_saved_shown_and_read_back(folder: Path) -> None:
    outcome = execute(problem(folder), folder / "run", progress=False)
    table = outcome.comparison.held_out
    assert table is not None
    assert [row[0] for row in table.rows()] == ["online_push_sum", "a constant"]
    assert {len(row) for row in table.rows()} == {len(table.columns())} == {7}
    assert {len(row) for row in outcome.comparison.further_rows()} == {len(outcome.comparison.columns())}
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["evaluation"]["rows"] == 10
    assert sum(each["rows"] for each in summary["evaluation"]["by_owner"]) == 10
    assert summary["metrics"]["held-out accuracy"] == summary["evaluation"]["scores"]["own"]["accuracy"]
    assert load(folder / "run").summary["evaluation"] == summary["evaluation"]
    page = (folder / "run" / "report.html").read_text()
    for word in ("balanced accuracy", "ROC AUC", "a constant", "Owner by owner"):
        assert word in page


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("share = 0.2", "share = 1.5", r"\[evaluate\] share"),
        ("share = 0.2", "", r"\[evaluate\].*share"),
        ("share = 0.2", 'share = 0.2\nfile = "rows.csv"', r"\[evaluate\].*share"),
        ("share = 0.2", 'file = "rows.csv"\nby = "time"', r"\[evaluate\].*by"),
        ("share = 0.2", 'file = "none.csv"', r"\[evaluate\].*none\.csv"),
        ("share = 0.2", 'share = 0.2\nby = "clinic"', "by"),
        ("share = 0.2", 'share = 0.2\nunknown = "ignore"', "unknown"),
        ("share = 0.2", 'share = 0.2\nby = "time"\nseed = 1', "seed"),
        ('owner = "who"\n[objective]', "[objective]\n[evaluate2]", "evaluate2"),
        ('path = "rows.csv"\nlabel = "again"\nowner = "who"', 'path = "rows.csv"\nlabel = "again"', "agents"),
        ('kind = "logistic"', 'kind = "logistic"\nclass_weight = {maybe = 2.0}', r"\[objective\].*maybe.*no, yes"),
        ('kind = "logistic"', 'kind = "logistic"\nclass_weight = {yes = 0.0}', r"\[objective\].*'yes'"),
        ('kind = "logistic"', 'kind = "logistic"\nclass_weight = "equal"', "class_weight"),
    ],
)
def test_faults_are_named(folder: Path, old: str, new: str, named: str) -> None:
    with pytest.raises(TacitError, match=named):
        problem(folder, (old, new))


def test_by_owner_needs_owners_and_a_synthetic_stream_holds_nothing_out(folder: Path) -> None:
    without = ('owner = "who"\n', ""), ('"complete"', '"complete"\nagents = 4')
    with pytest.raises(ConfigError, match=r"\[evaluate\] by = .owner"):
        problem(folder, *without, ("share = 0.2", 'share = 0.2\nby = "owner"'))
    assert problem(folder, *without).held_out.owner is None
    made_up = 'kind = "csv"\npath = "rows.csv"\nlabel = "again"\nowner = "who"'
    with pytest.raises(ConfigError, match=r"\[evaluate\].*logistic_drift"):
        problem(folder, (made_up, 'kind = "logistic_drift"\ndim = 2'), ('"complete"', '"complete"\nagents = 4'))


WEIGHED = 'kind = "logistic"\nclass_weight = '


def test_class_weights_by_the_names_of_the_file(folder: Path) -> None:
    made = problem(folder, ('kind = "logistic"', WEIGHED + "{yes = 5.0}"))
    assert made.objective.loss.data.sample.weights == (1.0, 5.0)
    made = problem(folder, ('kind = "logistic"', WEIGHED + '"balanced"'), ("[evaluate]\nshare = 0.2\n", ""))
    yes = sum(k % 4 == 0 for k in range(ROWS))
    assert made.objective.loss.data.sample.weights == pytest.approx((ROWS / (2 * (ROWS - yes)), ROWS / (2 * yes)))
    (run,) = made.runs(progress=False)
    assert run.constant()["average_loss"].shape == (1,)


def test_a_private_run_refuses_weights_that_were_counted_unless_declared(folder: Path) -> None:
    noise = ("step = 0.3", 'step = 0.3\nmechanism = {kind = "laplace", epsilon = 1.0, clip = 1.0}')
    listed = 'bounds = {a = [0, 50]}\nclasses = ["no", "yes"]\ncategories = {ward = ["general", "hand", "heart"]}\n'
    counted = ('kind = "logistic"', WEIGHED + '"balanced"')
    with pytest.raises(PrivacyError, match="class_weight"):
        problem(folder, noise, counted, ("[objective]", f"{listed}[objective]"))
    public = f'{listed}public = ["class_weight"]\n[objective]'
    assert any(
        each.kind == "class_weight"
        for each in problem(folder, noise, counted, ("[objective]", public)).stream(0).learnt
    )
    given = ('kind = "logistic"', WEIGHED + "{no = 1.0, yes = 3.0}")
    assert problem(folder, noise, given, ("[objective]", f"{listed}[objective]")).stream(0).learnt == ()


CHOOSE = ("share = 0.2", "share = 0.4\nchoose = 0.5\npatience = 1")
EVERY = ("rounds = 8", "rounds = 6\nrecord_every = 1")
FAST = ("step = 0.3", "step = 30.0")


def test_the_best_models_of_a_file_are_chosen_by_some_rows_and_judged_by_others(folder):
    made = problem(folder, CHOOSE, EVERY, FAST)
    learnt = {tuple(row) for row in read_in_training(made)}
    judging, choosing = made.held_out, made.choosing.rows
    assert (len(judging.y), len(choosing.y)) == (10, 10)
    parts = [{tuple(row) for row in part} for part in (judging.x, choosing.x)]
    assert not parts[0] & parts[1]
    assert not learnt & (parts[0] | parts[1])

    outcome = execute(made, folder / "out", progress=False)
    assert not outcome.interrupted
    (run,) = made.runs(progress=False)
    looks = run.recorded["held_out"][0]
    assert run.chosen.rounds == (run.recorded_rounds[looks.argmin()],)
    assert run.rounds == len(looks) == looks.argmin() + 2 < 6
    assert not run.partial
    assert run.evaluation.rows == 10
    kept = tacit.load_model(folder / "out" / "model.safetensors")
    assert kept.card.made.rounds == run.chosen.rounds[0]
    np.testing.assert_allclose(kept.params, run.models[0].mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("share = 0.2\npatience = 3", "choose"),
        ("share = 0.2\nchoose = 0.01", "choose"),
        ("share = 0.2\nchoose = 0.5\npatience = 0", "patience"),
    ],
)
def test_what_a_file_says_of_the_best_models_is_checked(folder, new, message):
    with pytest.raises(TacitError, match=message):
        problem(folder, ("share = 0.2", new))
