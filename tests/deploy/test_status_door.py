"""The status of real peers over mutual TLS: what observers learn, what they never learn, and what an operator does."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import numpy as np
import pytest

from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError
from tacit.deploy.peer import Peer
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.identity import identity_files
from tacit.peer.observing.client import StatusClient
from tacit.peer.observing.report import MADE_OF_DATA
from tests.deploy.homes import LAPLACE, RING, found, job_text
from tests.deploy.peers import ALONE, ask, run, until, used
from tests.peer.enrolment import enrol
from tests.peer.status_door import raw

DOOR = 'status = "127.0.0.1:0"'
SECRET = 0.123456789
"""A value of the data, which is looked for in all that leaves."""


def caller(root, peer, role="observer", port=None):
    home = root / role
    if not home.exists():
        enrol(home, root / "ca", "board", role=role)
    watch = IdentityWatch(identity_files(home), print, role)
    return StatusClient(peer.name, f"127.0.0.1:{port or peer.status_port}", watch, 300.0)


async def metrics(root, peer):
    """What Prometheus would scrape, by the observer's certificate."""
    files, context = identity_files(root / "observer"), caller(root, peer).watch.credentials().client
    assert files.certificate.exists()
    request = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    return (await raw(peer.status_port, context, request)).partition(b"\r\n\r\n")[2].decode()


async def learn(peer, samples=3):
    for k in range(samples):
        await peer.learn([SECRET, -SECRET * k], 1.0)
    await until(lambda: used(peer) >= samples)


@pytest.mark.parametrize("shown", [False, True])
def test_what_an_observer_learns(tmp_path, shown):
    """Loss and accuracy only where the owner's own file asks for them: they are made of raw data."""
    operations = DOOR + ("\nprogress = 100" if shown else "")
    budget = "epsilon = 100.0"
    job = job_text(members=ALONE, mechanism=LAPLACE)
    file = found(tmp_path, job, ALONE, privacy=budget, rounds="patience = 0.05", operations=operations)["hospital-a"]

    async def scenario():
        async with await Peer.start(file) as peer:
            await learn(peer)
            client = caller(tmp_path, peer)
            seen = []

            async def classes():
                seen.append(await client.status())
                return len(seen[-1]["budget"]) > 1

            while not await classes():  # nobody has asked for the ledger: it is read beside the first status
                await asyncio.sleep(0)
            ledger, status = await client.ledger(), seen[-1]
            figures = await metrics(tmp_path, peer)
            local = await ask(peer, "/metrics")
            model = np.asarray(peer._service.node.model())
            client.close()
        assert (status["name"], status["state"], status["model_finite"]) == ("hospital-a", "running", True)
        assert status["round"] >= 3
        assert status["disk_free"] > 0
        assert (status["loss"] is not None, status["accuracy"] is not None) == (shown, shown)
        first, once = status["budget"]
        assert (first["class"], first["unit"], first["limit"]) == ("all", "epsilon", 100.0)
        assert (once["class"], once["spent"], once["left"]) == ("each record once", first["spent"], 100.0)
        assert ledger["chain"] == "verified"
        assert [one["name"] for one in ledger["classes"]] == ["each record once"]
        assert 3 <= sum(one["times"] for one in ledger["releases"]) <= ledger["releases_in_all"]
        assert {one["cost"] for one in ledger["releases"]} == {first["spent"]}
        text = json.dumps([ledger, status]) + figures
        for secret in (str(SECRET)[:6], str(tmp_path), "PRIVATE", "token", *(f"{x:.5g}" for x in model.ravel() if x)):
            assert secret not in text
        series = {line.partition("{")[0].partition(" ")[0] for line in figures.splitlines() if line[:1] != "#"}
        assert bool(series & MADE_OF_DATA) == shown
        here = {line.partition("{")[0].partition(" ")[0] for line in local.splitlines() if line[:1] != "#"}
        assert here - series == (set() if shown else MADE_OF_DATA & here)

    run(scenario())


def test_states_of_links_and_errors_without_their_texts(tmp_path, caplog):
    """One of three is up: its links are dead, and its log is told by the names of events."""
    files = found(tmp_path, job_text("loss_tolerant_push_sum"), RING, operations=DOOR, rounds="patience = 0.05")

    async def scenario():
        first = await Peer.start(files["hospital-a"])
        client = caller(tmp_path, first)
        try:
            alone = await client.status()
            assert {(one["peer"], one["direction"], one["state"]) for one in alone["links"]} == {
                ("hospital-b", "out", "dead"), ("hospital-c", "in", "dead")
            }  # fmt: skip
            logging.getLogger("tacit.peer").warning("%s", "boom", extra={"tacit_fields": {"reason": "row 7 holds 'x'"}})
            second = await Peer.start(files["hospital-b"])
            try:
                await until(lambda: all(first._service.status()["sends_to"].values()))
                linked = await client.status()
                assert ("hospital-b", "out") in {
                    (one["peer"], one["direction"]) for one in linked["links"] if one["state"] != "dead"
                }
                assert any("unreachable" in words for words in linked["errors"])
                assert any("boom" in words for words in linked["errors"])
                assert "row 7" not in json.dumps(linked)
            finally:
                await second.stop()
        finally:
            client.close()
            await first.stop()

    run(scenario())


def test_an_operator_stops_it_and_it_is_in_the_log(tmp_path, caplog):
    file = found(tmp_path, job_text(members=ALONE), ALONE, operations=DOOR, rounds="patience = 0.05")["hospital-a"]

    async def scenario():
        peer = await Peer.start(file)
        lasting = asyncio.create_task(peer.until_over(asyncio.Event()))
        await caller(tmp_path, peer, "operator").stop()
        await lasting
        assert not peer.settings.control.exists()

    with caplog.at_level("INFO", "tacit.peer"):
        run(scenario())
    fields = [getattr(record, "tacit_fields", {}) for record in caplog.records]
    assert any(one.get("operator") == "board" for one in fields)


def test_no_door_unless_the_file_asks_for_it(tmp_path):
    file = found(tmp_path, job_text(members=ALONE), ALONE, rounds="patience = 0.05")["hospital-a"]

    async def scenario():
        async with await Peer.start(file) as peer:
            assert (peer.status_port, peer.status()["status_port"]) == (0, None)

    run(scenario())


@pytest.mark.parametrize("value", ['"9443"', '"0.0.0.0:70000"', '""', "9443", "true"])
def test_an_address_that_is_none(tmp_path, value):
    operations = f"status = {value}"
    file = found(tmp_path, job_text(members=ALONE), ALONE, operations=operations, identities=False)["hospital-a"]
    with pytest.raises(ConfigError, match=r"peer\.toml.*status"):
        load_peer(file)


def test_a_port_that_is_taken_is_named_by_its_key(tmp_path):
    file = found(tmp_path, job_text(members=ALONE), ALONE, operations=DOOR, rounds="patience = 0.05")["hospital-a"]

    async def scenario():
        async with await Peer.start(file) as peer:
            taken = f'status = "127.0.0.1:{peer.status_port}"'
            other = re.sub(r'listen = ".*"', 'listen = "127.0.0.1:0"\\nstore = "other/store.db"', file.read_text())
            file.write_text(other.replace(DOOR, taken))
            (file.parent / "other").mkdir()
            with pytest.raises(ConfigError, match=r"\[operations\] status"):
                await Peer.start(file)

    run(scenario())
