from __future__ import annotations

from tacit.experiments import build
from tacit.experiments import demo as module
from tacit.experiments.demo import STEPS, TUNING_SEED, demo, tune


def test_the_demonstration_compares_push_sum_with_its_baselines() -> None:
    config = demo()
    assert config.labels == tuple(STEPS) == tuple(module.METHODS)
    steps = {label: choice.values.step for label, choice in zip(config.labels, config.algorithms, strict=True)}
    assert steps == STEPS
    assert set(STEPS.values()) <= set(module.GRID)


def test_steps_are_tuned_on_other_seeds_than_they_are_shown_on() -> None:
    config = demo()
    shown = range(config.run.seed, config.run.seed + config.run.repeats)
    tuned = range(TUNING_SEED, TUNING_SEED + module.TUNING_REPEATS)
    assert not set(shown) & set(tuned)


def test_tuning_takes_the_step_of_the_lowest_loss() -> None:
    tried: dict[float, float] = {}
    best = tune(["Alone (local OGD)"], (1e-3, 1.0), 20, lambda name, step, loss: tried.update({step: loss}))
    assert set(tried) == {1e-3, 1.0}
    assert tried[1.0] < tried[1e-3]
    assert best == {"Alone (local OGD)": 1.0}


def test_one_row_is_private_and_the_others_are_not() -> None:
    problem = build(demo(rounds=3))
    private = [algorithm.privacy.private for algorithm in problem.algorithms]
    assert private == [False] * 5 + [True]
