"""A peer that may not release, may not start, or is given up half-way: nothing leaves, and nothing is left behind."""

import asyncio
import contextlib
import json
import re
import socket

import pytest

from tacit.core.errors import BudgetExceeded, ConfigError, IdentityError, LedgerError, ModelError
from tacit.deploy.peer import Peer
from tests.deploy.homes import LAPLACE, RING, found, job_text
from tests.deploy.peers import ALONE, alone, ask, opens_again, run, start_refused, until, used
from tests.deploy.test_check import edit, expire
from tests.peer.enrolment import enrol

BY_DATASET = LAPLACE + 'adjacency = "dataset"\n'


# -- the budget ------------------------------------------------------------------------------------------------------------


def test_when_the_budget_is_spent_it_predicts_on_and_says_why(tmp_path):
    job = job_text(members=ALONE, mechanism=BY_DATASET)
    file = alone(tmp_path, job=job, privacy='epsilon = 5.0\nwitness = "witness.json"')

    async def scenario():
        async with await Peer.start(file) as peer:
            await peer.learn([1.0, 1.0], 1)
            with pytest.raises(BudgetExceeded, match="above the budget of 5"):
                await peer.finished()
            health = json.loads(await ask(peer, "/health", code=503))
            assert "epsilon would be" in health["reasons"][0]
            status = json.loads(await ask(peer, "/status"))
            assert "epsilon would be" in status["fault"]
            assert status["privacy"]["releases"] == 2
            json.loads(await ask(peer, "/predict", {"x": [1.0, 1.0]}))
            await peer.learn([1.0, 1.0], 1)  # kept for a new budget's store
        async with await Peer.start(file) as peer:  # and a restart does not forget
            with pytest.raises(BudgetExceeded):
                await peer.finished()
            assert peer.status()["privacy"]["releases"] == 2

    run(scenario())


def test_a_model_that_is_not_finite_is_told_and_not_used(tmp_path):
    job = job_text(members=ALONE, objective='kind = "squared"').replace("step = 0.5", "step = 1e30")
    file = alone(tmp_path, job=job)

    async def scenario():
        async with await Peer.start(file) as peer:
            await peer.learn([1.0, 2.0], 3.0)
            await until(lambda: peer.predict([1.0, 1.0]) != 0)
            assert json.loads(await ask(peer, "/health")) == {"healthy": True}
            await ask(peer, "/predict", {"x": [3e38, 3e38]}, code=400)  # this x is too large, not the model
            assert json.loads(await ask(peer, "/status"))["model_fault"] is None
            for _ in range(3):
                await peer.learn([1.0, 2.0], 3.0)
            reached = peer.round
            await until(lambda: used(peer) == 4 and peer.round > reached + 4)
            (reason,) = json.loads(await ask(peer, "/health", code=503))["reasons"]
            assert "finite" in reason
            refused = json.loads(await ask(peer, "/predict", {"x": [1.0, 1.0]}, code=503))
            status = json.loads(await ask(peer, "/status"))
            for told in (refused["error"], status["model_fault"]):  # rounds go on meanwhile
                assert re.sub(r"\d+", "", told) == re.sub(r"\d+", "", reason)
            with pytest.raises(ModelError, match="finite"):
                peer.predict([1.0, 1.0])

    run(scenario())


def test_a_store_is_opened_only_as_what_it_is(tmp_path):
    job = job_text("loss_tolerant_push_sum", mechanism=LAPLACE)
    privacy = 'epsilon = 2.5\nwitness = "witness.json"'
    files = found(tmp_path, job, RING, privacy=privacy, rounds="deadline = 0.1\npatience = 0.0")
    file = files["hospital-a"]
    store = file.parent / "state" / "store.db"

    async def begin():
        async with await Peer.start(file) as peer:
            await until(lambda: peer.round >= 2)

    run(begin())
    text = file.read_text()

    def changed(old, new, error, words):
        edit(file, old, new)
        start_refused(file, error, words)
        file.write_text(text)

    changed("epsilon = 2.5", "epsilon = 3.0", LedgerError, "budget")
    changed('witness = "witness.json"', "", LedgerError, "has a witness")
    (tmp_path / "job.toml").write_text(job.replace("step = 0.5", "step = 0.4"))
    start_refused(file, LedgerError, "is the ledger of job")
    (tmp_path / "job.toml").write_text(job)
    away = store.rename(store.with_name("away"))
    start_refused(file, ConfigError, r"store\.db is not there, but hospital-a has a ledger")
    register = file.parent / "identity" / "ledgers.json"
    hidden = register.rename(register.with_name("hidden"))
    start_refused(file, ConfigError, r"store\.db is gone, but its witness .*witness\.json is there")
    hidden.rename(register)
    away.rename(store)

    async def go_on():
        async with await Peer.start(file) as peer:
            assert peer.round >= 2
            with pytest.raises(LedgerError, match="process"):
                await Peer.start(file)
            assert peer.settings.control.exists()

    run(go_on())


# -- what fails half-way ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["listen", "operations"])
def test_a_port_in_use(tmp_path, where):
    file = alone(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        if where == "operations":
            edit(file, "[operations]\n", f"[operations]\nport = {port}\n")
        else:
            lines = file.read_text().splitlines()
            file.write_text("\n".join(f'listen = "127.0.0.1:{port}"' if x.startswith("listen") else x for x in lines))
        start_refused(file, ConfigError, str(port))
    opens_again(file)

    async def afterwards():
        async with await Peer.start(file) as peer:
            assert peer.settings.control.exists()

    run(afterwards())


def test_a_certificate_of_another_name(tmp_path):
    file = alone(tmp_path)
    enrol(tmp_path / "other", tmp_path / "ca", "hospital-b")
    edit(file, "[operations]", f'[identity]\ndirectory = "{tmp_path / "other"}"\n[operations]')
    start_refused(file, ConfigError, "names 'hospital-b', but this is 'hospital-a'")
    opens_again(file)


def test_a_certificate_that_has_ended(tmp_path):
    file = alone(tmp_path)
    expire(tmp_path, "hospital-a")
    start_refused(file, IdentityError, "ended")


def test_no_certificate_at_all(tmp_path):
    file = alone(tmp_path, identities=False)
    start_refused(file, IdentityError, "identity")
    assert not (file.parent / "state" / "store.db").exists()


def test_a_control_file_that_cannot_be_written(tmp_path, monkeypatch):
    file = alone(tmp_path)

    def fail(peer):
        raise PermissionError("no")

    monkeypatch.setattr(Peer, "_write_control", fail)
    start_refused(file, PermissionError, "no")
    opens_again(file)


def test_starting_is_given_up(tmp_path):
    file = alone(tmp_path)

    async def scenario():
        starting = asyncio.create_task(Peer.start(file))
        await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            peer = await starting
            await peer.stop()

    run(scenario())
    opens_again(file)


def test_stopping_twice_and_at_once_and_impatiently(tmp_path):
    file = alone(tmp_path)

    async def scenario():
        peer = await Peer.start(file)
        await asyncio.gather(peer.stop(), peer.stop())
        await peer.stop()
        async with await Peer.start(file) as again:
            await peer.stop()
            assert again.settings.control.exists()  # the first one's stop is not the second one's
            impatient = asyncio.create_task(again.stop())
            await asyncio.sleep(0)
            impatient.cancel()
            with pytest.raises(asyncio.CancelledError):
                await impatient

    run(scenario())
    opens_again(file)


def test_a_loop_that_ends_while_it_stops(tmp_path):
    file = alone(tmp_path)

    async def scenario():
        peer = await Peer.start(file)
        stopping = asyncio.create_task(peer.stop())
        while not peer.status()["stopping"]:
            await asyncio.sleep(0)
        stopping.cancel()  # and all other tasks are, by asyncio.run

    asyncio.run(scenario())
    opens_again(file)
