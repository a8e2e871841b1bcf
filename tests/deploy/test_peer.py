"""A peer inside an application: start, learn, predict, look, stop and go on, alone and with others."""

import asyncio
import contextlib
import io
import json
import logging

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tacit.core.errors import DataError
from tacit.deploy.peer import Peer
from tacit.peer.operations import logs
from tacit.peer.sources.queue import QueueClosed
from tests.deploy.homes import BOTH_WAYS, LAPLACE, RING, found, job_text
from tests.deploy.peers import ALONE, alone, ask, run, until, used
from tests.deploy.test_check import edit

BY_DATASET = LAPLACE + 'adjacency = "dataset"\n'


# -- the normal course -----------------------------------------------------------------------------------------------------


def test_learn_predict_look_and_stop(tmp_path):
    file = alone(tmp_path)
    file.write_text(file.read_text() + "\n[limits]\nconnections = 9\nper_address = 7\nproof_time = 8.0\n")

    async def scenario():
        async with await Peer.start(file) as peer:
            assert peer.predict([1.0, -1.0]) == 0
            doors = {"strangers": 0, "connections": 9, "per_address": 7, "proof_time": 8.0}
            assert peer.status()["doors"] == doors
            for k in range(6):
                await peer.learn([1.0, -1.0], k % 2 if k < 2 else 1)
            await until(lambda: used(peer) == 6)
            await until(lambda: peer.predict([1.0, -1.0]) > 0)
            assert peer.name == "hospital-a"
            assert peer.round >= 6
            status = peer.status()
            assert status["samples_waiting"] == 0
            assert (status["name"], status["role"], status["fault"]) == ("hospital-a", "peer", None)
            assert status["port"] == peer.port
            assert peer.settings.control.exists()
            with pytest.raises(DataError, match="3 values; expected 2"):
                peer.predict([1.0, 2.0, 3.0])
            with pytest.raises(DataError, match="label"):
                await peer.learn([1.0, 2.0], 7)
        assert not peer.settings.control.exists()
        assert peer.predict([1.0, -1.0]) > 0  # what it learnt is there after the end
        assert peer.status()["stopping"]
        with pytest.raises(QueueClosed):
            await peer.learn([1.0, 2.0], 1)

    run(scenario())


def test_the_loopback_port_takes_samples_and_questions(tmp_path):
    file = alone(tmp_path)

    async def scenario():
        async with await Peer.start(file) as peer:
            answer = await ask(peer, "/learn", [{"x": [0.5, 1.0], "y": 1}, {"x": [1.0, 1.0], "y": 0}])
            assert json.loads(answer) == {"accepted": 2}
            await until(lambda: used(peer) == 2)
            found_ = json.loads(await ask(peer, "/predict", {"x": [0.5, 1.0]}))
            assert found_ == peer.prediction([0.5, 1.0])
            assert found_["score"] == pytest.approx(float(peer.predict([0.5, 1.0])))
            assert found_["class"] == (1 if found_["score"] > 0 else -1)
            assert found_["probability"]["1"] == pytest.approx(1 / (1 + np.exp(-found_["score"])))
            assert json.loads(await ask(peer, "/health")) == {"healthy": True}
            bad = json.loads(await ask(peer, "/learn", [{"x": [0.5], "y": 1}], code=400))
            assert "1 values; expected 2" in bad["error"]
            await ask(peer, "/predict", {"x": ["a", "b"]}, code=400)

            def refuse(word):
                raise AssertionError(word)

            status = json.loads(await ask(peer, "/status"), parse_constant=refuse)
            assert status["operations_port"] == peer.operations_port
            assert status["privacy"].pop("holds").startswith("nothing")
            assert status["privacy"] == {"booked": False, "releases": 0, "cut": 0, "budget": None}

    run(scenario())


def test_a_full_queue_turns_samples_away(tmp_path):
    file = alone(tmp_path, stream="capacity = 2", rounds="patience = 60", job=job_text(members=ALONE, batch=50))

    async def scenario():
        async with await Peer.start(file) as peer:
            row = {"x": [1.0, 1.0], "y": 1}
            await ask(peer, "/learn", [row, row])
            assert "full" in await ask(peer, "/learn", row, code=429)
            assert peer.counters.value("tacit_samples_total", outcome="turned_away") == 1
            waiting = asyncio.create_task(peer.learn([1.0, 1.0], 1))
            await asyncio.sleep(0)
            assert not waiting.done()
        with pytest.raises(QueueClosed):
            await waiting

    run(scenario())


def test_metrics_are_those_of_a_private_peer(tmp_path):
    file = alone(
        tmp_path, job=job_text(members=ALONE, mechanism=BY_DATASET), privacy="epsilon = 1000.0",
        rounds="patience = 0.05\nlast = 3",
    )  # fmt: skip

    async def scenario():
        async with await Peer.start(file) as peer:
            await peer.learn([1.0, 1.0], 1)
            await peer.finished()
            families = {f.name: f for f in text_string_to_metric_families(await ask(peer, "/metrics"))}
            figures = {name: family.samples[0].value for name, family in families.items()}
            assert figures["tacit_round"] == 3
            assert figures["tacit_epsilon_spent"] + figures["tacit_epsilon_left"] == pytest.approx(1000)
            assert figures["tacit_epsilon_spent"] >= 3 * 2 * (1 - 1e-6)
            assert figures["tacit_certificate_expiry_seconds"] > 80 * 86400
            assert figures["tacit_consensus_distance"] >= 0
            outcomes = {s.labels["outcome"]: s.value for s in families["tacit_samples"].samples}
            assert outcomes == {"used": 1, "queued": 1, "bad": 0, "known": 0, "turned_away": 0}
            assert {s.labels["reason"] for s in families["tacit_refusals"].samples} >= {"job", "sender", "expired"}
            budget = json.loads(await ask(peer, "/status"))["privacy"]["budget"]
            assert budget["unit"] == "epsilon"
            assert budget["spent"] == figures["tacit_epsilon_spent"]
            assert peer.status()["privacy"]["releases"] == 3

    run(scenario())


def test_the_log_holds_no_sample_and_no_model(tmp_path):
    rows = "x0,x1,y\n123.4567,7.654321,1\n77.7777,abcdefg,1\n1.5,98.7654321,3\n"
    home = alone(tmp_path, stream='kind = "csv"\npath = "data.csv"', rounds="patience = 0.05\nlast = 3").parent
    (home / "data.csv").write_text(rows)
    text = io.StringIO()
    logger = logging.getLogger(logs.NAME)
    before = (logger.handlers[:], logger.level, logger.propagate)

    async def scenario():
        async with await Peer.start(home / "peer.toml") as peer:
            await peer.finished()
            weights = np.asarray(peer._service.node.model())
            with pytest.raises(DataError):
                peer.predict([31.41592, "271828.1"])
        assert used(peer) == 1
        assert peer.counters.value("tacit_samples_total", outcome="bad") == 2
        said = text.getvalue()
        for value in ("123.4567", "7.654321", "77.7777", "abcdefg", "98.7654321", "31.41592"):
            assert value not in said
        for weight in weights:
            assert weight == 0 or str(weight)[:7] not in said

    logs.configure("json", "debug", text)
    try:
        run(scenario())
    finally:
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
        for handler in before[0]:
            logger.addHandler(handler)
        logger.level, logger.propagate = before[1:]
    events = [json.loads(line)["event"] for line in text.getvalue().splitlines()]
    assert {"peer started", "operations", "row not used", "peer stopped"} <= set(events)


# -- stop and go on --------------------------------------------------------------------------------------------------------


def test_after_a_stop_it_goes_on_and_uses_nothing_twice(tmp_path):
    file = alone(tmp_path, job=job_text(members=ALONE, batch=2), rounds="patience = 0.05\ninterval = 0.05")

    async def scenario():
        async with await Peer.start(file) as peer:
            for k in range(5):
                await peer.learn([1.0, float(k)], 1)
            await until(lambda: used(peer) >= 2)
        first, reached, said = used(peer), peer.round, peer.predict([1.0, 1.0])
        async with await Peer.start(file) as peer:
            assert peer.round == reached
            assert peer.predict([1.0, 1.0]) == said
            await peer.learn([1.0, 5.0], 1)
            await until(lambda: first + used(peer) == 6)
            await until(lambda: peer.status()["samples_waiting"] == 0)
            later = peer.round
            await until(lambda: peer.round > later + 1)
            assert first + used(peer) == 6
        async with await Peer.start(file) as peer:
            assert peer.round > later
            assert peer.status()["samples_waiting"] == 0

    run(scenario())


def test_samples_that_were_not_used_wait_for_the_next_start(tmp_path):
    file = alone(tmp_path, job=job_text(members=ALONE, batch=50), rounds="patience = 60")

    async def scenario():
        async with await Peer.start(file) as peer:
            await peer.learn([1.0, 2.0], 1)
        assert used(peer) == 0
        edit(file, "patience = 60", "patience = 0.05")
        async with await Peer.start(file) as peer:
            await until(lambda: used(peer) == 1)

    run(scenario())


def test_a_file_is_read_on_from_where_it_was(tmp_path):
    file = alone(tmp_path, stream='kind = "csv"\npath = "data.csv"\nlabel = "y"')
    data = file.with_name("data.csv")
    data.write_text("x0,x1,y\n1,2,1\n3,4,0\n")

    async def scenario():
        async with await Peer.start(file) as peer:
            await until(lambda: used(peer) == 2)
            await until(lambda: peer.round >= 4)  # rounds without samples keep the cursor
            with pytest.raises(DataError, match="source of its own"):
                await peer.learn([1.0, 2.0], 1)
            assert "put samples there" in await ask(peer, "/learn", {"x": [1, 2], "y": 1}, code=400)
        before = peer.round
        with data.open("a") as more:
            more.write("5,6,1\n")
        async with await Peer.start(file) as peer:
            await until(lambda: peer.round >= before + 4)
            assert used(peer) == 1
        whole = data.read_text()
        data.write_text("x0,x1,y\n1,2,1\n")  # cut short: nothing of it may be used again
        async with await Peer.start(file) as peer:
            await until(lambda: peer.round >= before + 8)
            assert used(peer) == 0
            assert "1 of the 3 records" in await ask(peer, "/health", code=503)
            data.write_text("x0,x1,y\r\n" + "5,6,1\r\n3,4.0,0\r\n1,2,1\r\n")  # sorted, and saved by another program
            await until(lambda: peer.counters.value("tacit_samples_total", outcome="known") == 3)
            await until(lambda: peer._feed.fault is None)
            assert json.loads(await ask(peer, "/health"))["healthy"]
            assert peer.status()["rows_not_learnt"] == {"bad": 0, "known": 3}
            assert used(peer) == 0
        data.write_text(whole + "7,8,0\n")
        async with await Peer.start(file) as peer:
            await until(lambda: peer.round >= before + 12)
            assert used(peer) == 1

    run(scenario())


def test_a_file_with_a_key_may_be_exported_anew_every_night(tmp_path):
    file = alone(tmp_path, stream='kind = "csv"\npath = "data.csv"\nkey = "patient"')
    data = file.with_name("data.csv")
    data.write_text("patient,x0,x1,y\na1,1,2,1\na2,3,4,0\n")

    async def scenario():
        async with await Peer.start(file) as peer:
            await until(lambda: used(peer) == 2)
        data.write_text("patient,x0,x1,y\na3,5,6,1\na2,3,4.5,0\n")  # one is new, one corrected, one gone
        async with await Peer.start(file) as peer:
            await until(lambda: used(peer) == 1)
            await until(lambda: peer.status()["rows_not_learnt"] == {"bad": 0, "known": 1})
            assert json.loads(await ask(peer, "/health"))["healthy"]
        edit(file, 'key = "patient"', 'columns = ["x0", "x1"]')
        with pytest.raises(DataError, match=r"known by patient"):
            await Peer.start(file)

    run(scenario())


def test_a_peer_that_is_done_is_done_when_it_starts_again(tmp_path):
    file = alone(tmp_path, rounds="patience = 0.0\nlast = 2")

    async def scenario():
        for _ in range(2):
            async with await Peer.start(file) as peer:
                await peer.finished()
                assert peer.round == 2

    run(scenario())


# -- with others -----------------------------------------------------------------------------------------------------------


def test_who_has_no_data_holds_nobody_up_and_bursts_are_taken_as_they_come(tmp_path):
    files = found(tmp_path, job_text("online_push_sum", batch=4), BOTH_WAYS, rounds="patience = 0.1\nlast = 12")

    async def scenario():
        async with contextlib.AsyncExitStack() as stack:
            peers = [await stack.enter_async_context(await Peer.start(file)) for file in files.values()]
            a, b, silent = peers
            for k in range(20):  # at once
                await a.learn([1.0, k / 20], 1)
            await until(lambda: b.round >= 3)
            for _ in range(3):
                await b.learn([1.0, 0.5], 1)
            await asyncio.gather(*(peer.finished() for peer in peers))
            assert [peer.round for peer in peers] == [12, 12, 12]
            assert [used(peer) for peer in peers] == [20, 3, 0]
            assert silent.predict([1.0, 0.5]) > 0  # it has learnt from the others

    run(scenario())


def test_peers_of_two_jobs_refuse_each_other_naming_both(tmp_path):
    files = found(tmp_path, job_text("loss_tolerant_push_sum"), RING, rounds="deadline = 0.2\npatience = 0.05")
    other = job_text("loss_tolerant_push_sum", epoch=2)
    (tmp_path / "other.toml").write_text(other)
    edit(files["hospital-b"], "../job.toml", "../other.toml")
    text, logger = io.StringIO(), logging.getLogger(logs.NAME)
    handler = logging.StreamHandler(text)
    handler.setFormatter(logs._JsonLines())

    async def scenario():
        async with await Peer.start(files["hospital-b"]) as b, await Peer.start(files["hospital-a"]) as a:
            jobs = {a.settings.job.hash, b.settings.job.hash}
            assert len(jobs) == 2
            await a.learn([1.0, 1.0], 1)
            await until(lambda: b.counters.value("tacit_refusals_total", reason="job"))
            await until(lambda: a.predict([1.0, 1.0]) > 0)
            assert b.counters.total("tacit_messages_received_total") == 0
            assert b.predict([1.0, 1.0]) == 0
            assert a.status()["sends_to"] == {"hospital-b": False}
            assert b.status()["lag"] == 0
            assert any(all(job in line for job in jobs) for line in text.getvalue().splitlines())

    logger.addHandler(handler)
    try:
        run(scenario())
    finally:
        logger.removeHandler(handler)
