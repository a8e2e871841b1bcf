from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tacit.core.errors import ConfigError
from tacit.metrics import mean_interval
from tacit.objectives import Ball
from tacit.privacy.conversions import tight
from tacit.results import Run, load

from .conftest import GAUSSIAN, PRIVATE

MakeRun = Callable[..., Run]


def test_metrics_are_means_with_intervals_over_repeats(make_run: MakeRun) -> None:
    run = make_run()
    metrics = run.metrics()
    values = run.per_round["loss"].astype(np.float64).mean(axis=1)
    expected = mean_interval(values)
    found = metrics["average_loss"]
    assert (found["mean"], found["low"], found["high"]) == pytest.approx(expected[:3])
    assert found["values"] == pytest.approx(values.tolist())
    assert metrics["accuracy"]["mean"] == pytest.approx(run.per_round["accuracy"].mean(), rel=1e-6)
    assert metrics["final_consensus"]["values"] == run.recorded["consensus"][:, -1].tolist()
    assert metrics["messages"]["mean"] == run.rounds * 5
    assert metrics["bits_per_agent"]["mean"] == run.rounds * 5 * 96 / run.agents


def test_a_score_that_is_lost_is_not_counted_as_none(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(label="lost")
    present = np.ones((3, 40))
    present[:, 5] = 0
    run.per_round |= {"present": present, "present_loss": run.per_round["loss"]}
    run.per_round["accuracy"][:, 5] = np.nan  # of nobody
    assert run.metrics()["accuracy"]["mean"] == pytest.approx(np.nanmean(run.per_round["accuracy"]), rel=1e-6)
    run.per_round["accuracy"][0, 30:] = np.inf  # as a squared error is, of a model that diverged
    assert run.metrics()["accuracy"]["mean"] is None
    record = load(run.save(tmp_path))
    assert record.metrics["accuracy"]["values"][0] is None


def test_regret_joins_the_metrics_once_it_was_asked_for(make_run: MakeRun) -> None:
    run = make_run()
    assert "regret_total" not in run.metrics()
    curve = run.regret(points=3)
    metrics = run.metrics()
    assert metrics["regret_total"]["values"] == curve.total[:, -1].tolist()
    assert metrics["regret_per_agent_round"]["values"] == curve.per_agent_round[:, -1].tolist()
    assert "one_node_regret_total" not in metrics
    assert run.regret(points=3) is curve


def test_one_nodes_regret_is_a_metric_where_its_loss_was_recorded(make_run: MakeRun) -> None:
    run = make_run()
    run.per_round = {**run.per_round, "node_loss": run.per_round["loss"] + 1}
    run.regret(points=1)
    metrics = run.metrics()
    difference = metrics["one_node_regret_per_agent_round"]["mean"] - metrics["regret_per_agent_round"]["mean"]
    assert difference == pytest.approx(1)


def test_one_repeat_has_no_interval_and_infinity_has_no_mean(make_run: MakeRun) -> None:
    run = make_run(repeats=1)
    assert run.metrics()["average_loss"]["low"] is None
    assert run.metrics()["average_loss"]["mean"] is not None
    run.per_round["loss"][0, 3] = np.inf
    assert run.metrics()["average_loss"] == {"mean": None, "low": None, "high": None, "values": [None]}
    assert run.record().summary["diverged"]


def test_a_record_holds_the_recorded_rounds(make_run: MakeRun) -> None:
    run = make_run()
    trace = run.record().trace
    at = run.recorded_rounds
    np.testing.assert_allclose(trace.loss, run.per_round["loss"][:, at - 1])
    for k, t in enumerate(at):
        np.testing.assert_allclose(trace.average_loss[:, k], run.per_round["loss"][:, :t].mean(axis=1), rtol=1e-6)
        np.testing.assert_array_equal(trace.bits[:, k], run.per_round["bits"][:, :t].sum(axis=1))
    np.testing.assert_array_equal(trace.consensus, run.recorded["consensus"])


def test_privacy_is_said_in_words(make_run: MakeRun) -> None:
    open_words = make_run().record().summary["privacy"]["words"]
    assert open_words.startswith("Not private: ")
    private = make_run(privacy=PRIVATE).record().summary["privacy"]
    assert private["private"] is True
    for words in (
        "Epsilon = 1.5 per record",
        "one record is replaced",
        "used in 3 releases in sequence",
        "Noise on the model.",
        "gradients are clipped",
        "The source says: epsilon 1 in total.",
    ):
        assert words in private["words"]


def test_a_summary_has_every_figure_of_the_privacy_spent(make_run: MakeRun) -> None:
    found = make_run(privacy=PRIVATE).record().summary["privacy"]
    assert (found["epsilon"], found["delta"], found["rho"], found["reads"]) == (1.5, 0.0, 1.125, 3)
    assert (found["unit"], found["adjacency"]) == ("record", "one record is replaced")
    assert found["composition"].startswith("parallel")
    assert "Laplace mechanism" in found["theorem"]
    gaussian = make_run(privacy=GAUSSIAN).record().summary["privacy"]
    assert gaussian["delta"] == 1e-6
    assert gaussian["composition"].startswith("sequential: ")
    open_ = make_run().record().summary["privacy"]
    assert (open_["private"], open_["epsilon"], open_["delta"], open_["rho"]) == (False, None, None, None)
    assert found.keys() == gaussian.keys() == open_.keys()


def test_privacy_fits_into_a_cell(make_run: MakeRun) -> None:
    assert make_run().record().privacy == "not private"
    assert make_run(privacy=PRIVATE).record().privacy == "eps 1.5 per record"
    assert make_run(privacy=GAUSSIAN).record().privacy == f"eps {tight(0.1, 1e-6):.3g}, delta 1e-06 per agent"


def test_a_run_is_called_by_its_label(make_run: MakeRun) -> None:
    assert make_run().record().label == "online_push_sum"
    assert make_run(label="OPS").record().label == "OPS"


def spent(params: jnp.ndarray, batch: Any) -> jnp.ndarray:
    return jnp.sum(params) - 0.1


def test_a_run_in_a_set_is_measured_against_the_best_of_the_set(make_run: MakeRun) -> None:
    wide, narrow = make_run(), make_run(within=Ball(0.01))
    assert np.all(narrow.regret(2).total < wide.regret(2).total)
    gap = narrow.regret(2).gap
    assert gap is not None
    assert gap <= 1e-7


def test_regret_under_constraints_is_asked_for_by_a_window(make_run: MakeRun) -> None:
    run = make_run(within=Ball(2.0), constraints={"spent": spent})
    run.per_round = {**run.per_round, "spent": np.zeros_like(run.per_round["loss"])}
    free = run.regret(points=1)
    assert run.known_regret is free
    kept = run.regret(points=1, window=4)
    assert run.regret(points=1, window=4) is kept
    assert run.regret(points=1) is free
    assert np.all(kept.total <= free.total)
    assert np.any(kept.total < free.total - 1e-3)
    assert run.known_regret is kept
    assert run.metrics()["regret_total"]["values"] == kept.total[:, -1].tolist()
    with pytest.raises(ConfigError, match="window = 4 .*'online_push_sum'"):
        make_run().regret(window=4)


def test_violation_is_the_sum_of_a_constraint_over_agents_and_rounds(make_run: MakeRun) -> None:
    run = make_run(constraints={"spent": spent})
    noted = np.random.default_rng(5).normal(size=(3, run.rounds)).astype(np.float32)
    noted[0] -= 1
    noted[2] += 1
    run.per_round = {**run.per_round, "spent": noted}
    expected = run.agents * np.cumsum(noted.astype(np.float64), axis=1)
    np.testing.assert_allclose(run.violation()["spent"], expected)
    final = run.metrics()["violation: spent"]["values"]
    assert final == pytest.approx(np.maximum(expected[:, -1], 0).tolist())
    assert final[0] == 0 < final[2]
    assert make_run().violation() == {}
    assert not any("violation" in name for name in make_run().metrics())
    assert run.record().summary["metrics"]["violation: spent"]["values"] == final


def test_dynamic_regret_is_found_once(make_run: MakeRun) -> None:
    run = make_run(within=Ball(0.01))
    found = run.dynamic_regret()
    assert run.dynamic_regret() is found
    assert found.total.shape == (run.repeats, run.rounds)
    # The best of each round together are better than any fixed model.
    assert np.all(found.total[:, -1] > run.regret(points=1).total[:, -1])
    assert np.all(np.diff(found.path_length, axis=1) >= 0)
    assert np.all(found.path_length[:, -1] <= 0.02 * run.rounds)  # no step is longer than the set is wide


def test_a_run_is_shown_on_one_line(make_run: MakeRun) -> None:
    shown = repr(make_run())
    assert re.fullmatch(r"Run\(\w+, 3 agents, 40 rounds, 3 repeats, loss \S+, not private\)", shown)
    assert "eps " in repr(make_run(privacy=PRIVATE))
