from __future__ import annotations

from pathlib import Path

import pytest

from tacit.core.errors import ConfigError
from tacit.sweeps import load_sweep
from tests.sweeps.files import experiment, write


def values(path: Path, sweep: str, text: str | None = None) -> list[dict]:
    return [dict(each.values) for each in load_sweep(write(path, sweep, text)).each]


def test_a_grid_has_every_pair_and_ranges_are_even_on_their_scale(tmp_path: Path) -> None:
    keys = (
        '[sweep.keys]\n"algorithm.step" = {low = 0.01, high = 1.0, scale = "log", points = 3}\n"graph.agents" = [5, 6]'
    )
    found = values(tmp_path, keys)
    assert len(found) == 6
    assert sorted({each["algorithm.step"] for each in found}) == pytest.approx([0.01, 0.1, 1.0])
    assert {each["graph.agents"] for each in found} == {5, 6}


def test_every_setting_is_an_experiment_with_its_values_and_the_seeds(tmp_path: Path) -> None:
    keys = 'seeds = 4\n[sweep.keys]\n"algorithm.step" = [0.1, 0.2]\n"run.channel.loss" = [0.0, 0.5]\n"stream.dim" = [2]'
    sweep = load_sweep(write(tmp_path, keys))
    last = sweep.each[-1].config
    assert last.algorithms[0].settings()["step"] == 0.2
    assert (last.run.channel.loss, last.stream.settings()["dim"]) == (0.5, 2)
    assert sweep.seeds == range(3, 7)
    assert (last.run.references, last.run.regret_points) == (False, 0)


def test_draws_are_those_of_their_seed_within_the_range_and_whole_where_the_ends_are(tmp_path: Path) -> None:
    keys = (
        '[sweep.keys]\n"algorithm.step" = {low = 0.01, high = 1.0, scale = "log"}\n"graph.agents" = {low = 4, high = 6}'
    )
    first, again, other = (values(tmp_path, f'kind = "random"\ncount = 30\nseed = {s}\n{keys}') for s in (0, 0, 1))
    assert first == again != other
    assert all(0.01 <= each["algorithm.step"] <= 1.0 for each in first)
    assert {each["graph.agents"] for each in first} == {4, 5, 6}


@pytest.mark.parametrize(
    ("settings", "rungs"),
    [("eta = 3", [1, 3, 9]), ("eta = 2\nleast_rounds = 2", [2, 4, 9]), ("eta = 10\nleast_rounds = 5", [9])],
)
def test_rungs_end_with_the_rounds_of_the_file(tmp_path: Path, settings: str, rungs: list[int]) -> None:
    keys = f'kind = "halving"\n{settings}\n[sweep.keys]\n"algorithm.step" = [1, 2, 3, 4, 5, 6, 7, 8, 9]'
    assert load_sweep(write(tmp_path, keys), rounds=9).rungs() == rungs


def test_all_faults_of_all_settings_are_told_at_once_with_their_keys(tmp_path: Path) -> None:
    keys = '[sweep.keys]\n"algorithm.step" = [0.1, "much"]\n"stream.dim" = [3, -0.5]\n"graph.agentz" = [5]'
    with pytest.raises(ConfigError) as told:
        load_sweep(write(tmp_path, keys))
    words = str(told.value)
    assert "algorithm.step = 'much'" in words
    assert "stream.dim = -0.5" in words
    assert "graph.agentz = 5" in words
    assert "by algorithm.step = 0.1" not in words


@pytest.mark.parametrize(
    ("sweep", "named"),
    [
        ('[sweep.keys]\n"run.repeats" = [1, 2]', "run.repeats"),
        ('[sweep.keys]\n"step" = [1, 2]', "'step'"),
        ('[sweep.keys]\n"graph.kind.x" = [1, 2]', "graph.kind.x"),
        ('[sweep.keys]\n"algorithm.step" = 0.1', "algorithm.step"),
        ('[sweep.keys]\n"algorithm.step" = [0.1, 0.1]', "algorithm.step"),
        ('[sweep.keys]\n"algorithm.step" = {low = 0.1, high = 1.0}', "points"),
        ('[sweep.keys]\n"algorithm.step" = {low = 0.0, high = 1.0, scale = "log", points = 3}', "low > 0"),
        ('[sweep.keys]\n"algorithm.step" = {low = 2.0, high = 1.0, points = 3}', "low < high"),
        ('kind = "random"\n[sweep.keys]\n"algorithm.step" = [1]', "count"),
        ('count = 3\n[sweep.keys]\n"algorithm.step" = [1]', "count"),
        ('metric = "luck"\n[sweep.keys]\n"algorithm.step" = [1]', "luck"),
        ('kind = "halving"\n[sweep.keys]\n"run.rounds" = [1, 2]', "run.rounds"),
        ("seeds = 2", "keys"),
    ],
)
def test_what_cannot_be_swept_is_refused_by_name(tmp_path: Path, sweep: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named.replace("(", r"\(")):
        load_sweep(write(tmp_path, sweep))


def test_a_file_without_a_sweep_and_one_with_two_methods_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "plain.toml"
    file.write_text(experiment())
    with pytest.raises(ConfigError, match="sweep.keys"):
        load_sweep(file)
    two = experiment() + '\n[[algorithm]]\nname = "local_online"\n'
    with pytest.raises(ConfigError, match="algorithm.name"):
        load_sweep(write(tmp_path, '[sweep.keys]\n"algorithm.step" = [1]', two))


def test_accuracy_is_to_grow_and_losses_to_fall(tmp_path: Path) -> None:
    keys = '[sweep.keys]\n"algorithm.step" = [1]'
    found = {metric: load_sweep(write(tmp_path, f'metric = "{metric}"\n{keys}')) for metric in ("accuracy", "regret")}
    assert [found["accuracy"].minimise, found["regret"].minimise] == [False, True]
    assert found["regret"].metric == "regret_per_agent_round"
    assert found["regret"].each[0].config.run.regret_points > 0
