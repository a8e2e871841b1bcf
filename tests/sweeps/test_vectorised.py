"""Settings that run as one program have the figures of runs by themselves."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from tacit.experiments import build, parse
from tacit.sweeps import load_sweep, vectorised, work
from tacit.sweeps.work import grouped, tasks_of
from tests.sweeps.files import experiment, write

STEPS = '"algorithm.step" = [0.1, 0.7, 2.5]'
SCALES = '"algorithm.step.scale" = [0.1, 0.7, 2.5]'
LOSSY = "[run.channel]\nloss = 0.2\ndelay = {p = 0.3, longest = 2}"
DROPPING = 'dynamics = {kind = "link_drop", probability = 0.3}'
CASES = {
    "online_push_sum": (STEPS, "repeats = 2\nregret_points = 2", "", 'average = "tail"'),
    "loss_tolerant_push_sum": (
        SCALES,
        f"repeats = 2\n{LOSSY}",
        DROPPING,
        'step = {schedule = "inverse_sqrt", scale = 1.0}',
    ),
}


def assert_rows_are_those_of_single_runs(sweep, task, rows) -> None:
    """Compare with what `tacit run` does, setting by setting."""
    for text, found in zip(task.texts, rows, strict=True):
        (run,) = build(parse(text, sweep.file)).runs(progress=False)
        for name, figure in run.metrics().items():
            own = np.array([row[name] for row in found])
            np.testing.assert_allclose(own, np.array(figure["values"]), rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("method", CASES)
def test_rows_of_one_program_are_those_of_single_runs(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, run, graph, more = CASES[method]
    sweep = load_sweep(write(tmp_path, f"[sweep.keys]\n{keys}", experiment(method, run, graph, more)))
    ((settings, task),) = tasks_of(sweep.each, None, 1)
    assert (len(settings), task.lifted) == (3, ("step.scale" if keys == SCALES else "step",))
    with monkeypatch.context() as patch:
        patch.setattr(work, "_alone", lambda config: pytest.fail("a setting was run by itself"))
        kept: list[bool] = []
        patch.setattr(vectorised, "keep_programs", lambda: kept.append(True))
        rows = work.work(task)
    assert kept, "programs are kept for the next sweep"
    assert {row["status"] for found in rows for row in found} == {"done"}
    assert len({found[0]["average_loss"] for found in rows}) == 3
    assert_rows_are_those_of_single_runs(sweep, task, rows)
    assert ("regret_total" in rows[0][0]) == (method == "online_push_sum")


NOT_LIFTED = {
    "noise": experiment(algorithm='[algorithm.mechanism]\nkind = "laplace"\nepsilon = 1.0\nclip = 1.0'),
    "privacy": experiment() + "\n[privacy]\nepsilon = 1.0\n",
    "checked against data": experiment("pao_fed").replace('"logistic"', '"squared"').replace("logistic_d", "linear_d"),
}


@pytest.mark.parametrize("case", NOT_LIFTED)
def test_steps_that_enter_an_account_or_a_check_of_data_are_no_arguments(tmp_path: Path, case: str) -> None:
    sweep = load_sweep(write(tmp_path, f"[sweep.keys]\n{STEPS}", NOT_LIFTED[case]))
    assert [lifted for _, lifted in grouped(sweep.each)] == [()] * 3


def test_groups_agree_in_everything_but_what_is_lifted(tmp_path: Path) -> None:
    keys = f'[sweep.keys]\n{STEPS}\n"objective.l2" = [0.0, 0.1]\n"algorithm.name" = ["online_push_sum", "local_online"]'
    groups = grouped(load_sweep(write(tmp_path, keys)).each)
    assert [len(group) for group, _ in groups] == [6] * 2
    assert {lifted for _, lifted in groups} == {("objective.l2", "step")}


RING = experiment("decentralised_momentum").replace('"random_digraph"', '"ring"').replace("out_degree = 2", "")
OTHER_NUMBERS = {
    "regulariser": ('"objective.l2" = [0.0, 0.01, 0.1]', experiment()),
    "momentum": ('"algorithm.momentum" = [0.0, 0.5, 0.9]', RING),
}


@pytest.mark.parametrize("case", OTHER_NUMBERS)
def test_other_numbers_are_arguments_too(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, text = OTHER_NUMBERS[case]
    sweep = load_sweep(write(tmp_path, f"[sweep.keys]\n{keys}", text))
    ((settings, task),) = tasks_of(sweep.each, None, 1)
    assert len(settings) == 3
    with monkeypatch.context() as patch:
        patch.setattr(work, "_alone", lambda config: pytest.fail("a setting was run by itself"))
        rows = work.work(task)
    assert len({found[0]["average_loss"] for found in rows}) == 3
    assert_rows_are_those_of_single_runs(sweep, task, rows)


def test_an_l1_term_is_there_or_not(tmp_path: Path) -> None:
    groups = grouped(load_sweep(write(tmp_path, f'[sweep.keys]\n{STEPS}\n"objective.l1" = [0.0, 0.1]')).each)
    assert [(len(group), lifted) for group, lifted in groups] == [(3, ("step",))] * 2


def test_a_number_that_a_run_looks_at_is_given_up_and_the_steps_stay_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together: list[tuple[int, tuple[str, ...]]] = []

    def of_steps(choices, objectives, lifted, *rest):
        if tuple(lifted) != ("step",):
            raise TypeError("it looks at the number")
        together.append((len(choices), tuple(lifted)))
        return vectorised.simulate_together(choices, objectives, lifted, *rest)

    sweep = load_sweep(write(tmp_path, '[sweep.keys]\n"algorithm.step" = [0.1, 0.7]\n"objective.l2" = [0.0, 0.1]'))
    ((settings, task),) = tasks_of(sweep.each, None, 1)
    assert len(settings) == 4
    with monkeypatch.context() as patch:
        patch.setattr(work, "simulate_together", of_steps)
        rows = work.work(task)
    assert together == [(2, ("step",))] * 2
    assert_rows_are_those_of_single_runs(sweep, task, rows)


def test_a_schedule_is_no_number(tmp_path: Path) -> None:
    keys = '[sweep.keys]\n"algorithm.step" = [{schedule = "inverse", scale = 1.0}, 0.1]'
    assert sorted(lifted for _, lifted in grouped(load_sweep(write(tmp_path, keys)).each)) == [(), ("step",)]


def test_one_bad_setting_is_a_row_with_its_refusal(tmp_path: Path) -> None:
    sweep = load_sweep(write(tmp_path, '[sweep.keys]\n"algorithm.step" = [-1.0, 0.1, 0.2]'))
    found = [rows for _, task in tasks_of(sweep.each, None, 1) for rows in work.work(task)]
    statuses = sorted((rows[0]["status"], "step" in (rows[0]["error"] or "")) for rows in found)
    assert statuses == [("done", False), ("done", False), ("refused", True)]


def test_a_program_that_cannot_be_traced_is_run_setting_by_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looks_at_it(*arguments, **settings):
        return float(jnp.zeros(2))

    sweep = load_sweep(write(tmp_path, '[sweep.keys]\n"algorithm.step" = [0.1, 0.2]'))
    ((_, task),) = tasks_of(sweep.each, None, 1)
    monkeypatch.setattr(work, "simulate_together", looks_at_it)
    assert_rows_are_those_of_single_runs(sweep, task, work.work(task))
