"""How well a peer predicts before it learns: its own figures, in its log, its status and its metrics."""

import asyncio
import json
import logging
import math

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tacit import objectives
from tacit.deploy.peer import Peer
from tacit.peer.operations import logs, prequential
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.prequential import Judged, Prequential
from tacit.peer.sources.queue import Sample, batch_of
from tests.deploy.homes import LAPLACE, job_text
from tests.deploy.peers import ALONE, alone, ask, until, used
from tests.deploy.test_check import edit

RIGHT, WRONG, BAD = Sample(np.array([2.0]), 1.0), Sample(np.array([2.0]), -1.0), None
MODEL = np.array([1.0], np.float32)


class Time:
    now = 0.0

    def __call__(self):
        return self.now


def batch(*samples, size=4):
    return batch_of(samples, size, 1, "float32")


def judging(rounds, objective=None):
    clock, counters = Time(), Counters()
    log = logs.Log(clock=clock)
    return Prequential(objective or objectives.logistic(), rounds, counters, log, clock), clock, counters


def lines(caplog):
    return [record.tacit_fields for record in caplog.records if record.message == "progress"]


def test_samples_are_counted_and_bad_rows_and_empty_places_are_not():
    figures, _, _ = judging(10)
    sums = figures.judge(MODEL, batch(RIGHT, BAD, WRONG))
    assert sums.samples == 2
    assert sums.loss == pytest.approx(math.log1p(math.exp(-2)) + math.log1p(math.exp(2)), rel=1e-6)
    assert sums.score == pytest.approx(1)
    assert figures.judge(MODEL, batch(BAD)) == figures.judge(MODEL, batch()) == Judged()
    assert figures.judge(MODEL, batch(RIGHT, size=1)).samples == 1


def test_means_are_over_the_samples_of_the_last_rounds():
    figures, _, counters = judging(2)
    for samples in ((WRONG,), (RIGHT, RIGHT, RIGHT), (WRONG,)):
        figures.learnt(1, figures.judge(MODEL, batch(*samples)))
    found = figures.status()
    assert found["rounds"] == 2
    assert found["recent"]["samples"] == 4
    assert found["recent"]["accuracy"] == pytest.approx(3 / 4)
    assert found["since_start"]["accuracy"] == pytest.approx(3 / 5)
    figures.publish()
    assert counters.value("tacit_prequential_accuracy") == pytest.approx(3 / 4)
    assert counters.value("tacit_prequential_mse") is None
    for _ in range(2):
        figures.learnt(2, figures.judge(MODEL, batch()))
    figures.publish()
    assert figures.status()["recent"] == {"samples": 0, "loss": None, "accuracy": None}
    assert math.isnan(counters.value("tacit_prequential_loss"))  # not a figure of long ago


def test_a_line_after_so_many_rounds_and_not_more_often_than_the_clock_allows(caplog):
    figures, clock, _ = judging(3)
    with caplog.at_level(logging.INFO, logs.NAME):
        for round_ in range(1, 4):
            clock.now += 1
            figures.learnt(round_, figures.judge(MODEL, batch(RIGHT)))
        assert lines(caplog) == []  # three rounds, but three seconds only
        clock.now = 20.0
        figures.learnt(4, figures.judge(MODEL, batch(WRONG)))
        (line,) = lines(caplog)
        assert (line["round"], line["samples"], line["accuracy"]) == (4, 4, 0.75)
        assert line["rounds_per_second"] == pytest.approx(4 / 20)
        for round_ in range(5, 8):
            clock.now += 10
            figures.learnt(round_, figures.judge(MODEL, batch(RIGHT)))
        assert [found["round"] for found in lines(caplog)] == [4, 7]
        assert lines(caplog)[-1]["accuracy"] == 1.0  # since the line before


def test_a_model_that_diverged_has_no_mean_and_breaks_nothing(caplog):
    figures, clock, counters = judging(1, objectives.squared())
    clock.now = 100.0
    with caplog.at_level(logging.INFO, logs.NAME):
        figures.learnt(1, figures.judge(np.array([np.nan], np.float32), batch(RIGHT)))
    figures.publish()
    assert figures.status()["recent"] == {"samples": 1, "loss": None, "mse": None}
    assert math.isnan(counters.value("tacit_prequential_mse"))
    assert lines(caplog)[0]["loss"] is None
    json.dumps(figures.status(), allow_nan=False)


def test_zero_rounds_take_nothing():
    figures, _, counters = judging(0)
    figures.learnt(1, figures.judge(MODEL, batch(RIGHT)))
    figures.publish()
    assert figures.status() is None
    assert counters.value("tacit_prequential_loss") is None


def test_an_objective_of_ones_own_has_its_own_score():
    own = objectives.squared()._replace(score=None)
    figures, _, _ = judging(1, own)
    figures.learnt(1, figures.judge(MODEL, batch(RIGHT)))
    assert figures.status()["recent"] == {"samples": 1, "loss": pytest.approx(0.5)}


# -- a whole peer ----------------------------------------------------------------------------------------------------------


def test_a_peer_predicts_before_it_learns_and_begins_anew_when_it_starts_again(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(prequential, "SHORTEST", 0.0)
    job = job_text(members=ALONE, bias="false")
    file = alone(tmp_path, job=job, operations="progress = 4")
    samples = [([1.0, 0.5], 1.0), ([0.5, -1.0], -1.0), ([1.0, 1.0], 1.0), ([2.0, -1.0], 1.0)]
    weights, losses = np.zeros(2), []
    for x, y in samples:  # predict, then a step of 0.5
        margin = y * np.dot(weights, x)
        losses.append(np.log1p(np.exp(-margin)))
        weights += 0.5 * y * np.array(x) / (1 + np.exp(margin))

    async def scenario():
        async with await Peer.start(file) as peer:
            for x, y in samples:
                await peer.learn(x, y)
            await until(lambda: used(peer) == len(samples))
            found = peer.status()["prequential"]["since_start"]
            assert found["samples"] == len(samples)
            assert found["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
            await until(lambda: lines(caplog))
            families = {f.name: f for f in text_string_to_metric_families(await ask(peer, "/metrics"))}
            assert {"tacit_prequential_loss", "tacit_prequential_accuracy"} <= families.keys()
            json.loads(await ask(peer, "/status"))
        async with await Peer.start(file) as peer:
            assert peer.status()["prequential"]["since_start"] == {"samples": 0, "loss": None, "accuracy": None}

    with caplog.at_level(logging.INFO, logs.NAME):
        asyncio.run(scenario())


def test_a_batch_beyond_the_budget_was_not_learnt_from_and_is_not_counted(tmp_path):
    job = job_text(members=ALONE, mechanism=LAPLACE + 'adjacency = "dataset"\n')
    file = alone(tmp_path, job=job, privacy="epsilon = 3.0", operations="progress = 5")

    async def scenario():
        async with await Peer.start(file) as peer:
            for _ in range(3):
                await peer.learn([1.0, 1.0], 1.0)
            await until(peer._service.finished.is_set)
            assert used(peer) == 1
            assert peer.status()["prequential"]["since_start"]["samples"] == 1
            assert peer.status()["privacy"]["releases"] == 1
        edit(file, "progress = 5", "progress = 0")
        async with await Peer.start(file) as peer:
            assert peer.status()["prequential"] is None

    asyncio.run(scenario())
