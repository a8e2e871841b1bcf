"""A new epoch, agreed on over real links: one member leaves, one is new, state and budget go on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tacit.cli.peers.running import control_of
from tacit.config.peer import load_peer
from tacit.core.errors import LedgerError
from tacit.deploy.ledger_register import Register
from tacit.deploy.peer import Peer
from tacit.privacy.ledger import inspect
from tests.deploy.homes import certify, found, free_ports, job_text, peer_text
from tests.deploy.peers import ask, run, start_refused, until

FIRST, SECOND = ("hospital-a", "hospital-b", "hospital-c"), ("hospital-a", "hospital-b", "hospital-d")
NOISE = '\n[algorithm.mechanism]\nkind = "laplace"\nepsilon = 0.5\nclip = 1.0\nadjacency = "dataset"\n'
ROUNDS = "patience = 0.02"
PRIVACY = "epsilon = 1000.0"


def _weights(names):
    return f"weight_from = {{ {', '.join(f'{name} = 0.25' for name in names)} }}"


def _others(names):
    return {a: [b for b in names if b != a] for a in names}


def _job(members, epoch, algorithm="distributed_online", **job):
    return job_text(algorithm, members, mechanism=NOISE, epoch=epoch, **job)


def _federation(folder):
    """Three founders, all linked, and their files of an epoch in which one has left and another is new."""
    links = {name: _weights(others) for name, others in _others(FIRST).items()}
    files = found(folder, _job(FIRST, 1), _others(FIRST), privacy=PRIVACY, rounds=ROUNDS, links=links)
    ports = {name: int(load_peer(file).peer.listen.rpartition(":")[2]) for name, file in files.items()}
    ports["hospital-d"] = free_ports(1)[0]
    (folder / "hospital-d").mkdir()
    certify(folder, ["hospital-d"])
    (folder / "job-2.toml").write_text(_job(SECOND, 2))
    following = {name: folder / name / "peer-2.toml" for name in SECOND}
    for name, others in _others(SECOND).items():
        store = "joins = true" if name == "hospital-d" else ""
        text = peer_text(name, others, others, ports, privacy=PRIVACY, rounds=ROUNDS, links=_weights(others), store=store)
        following[name].write_text(text.replace("job.toml", "job-2.toml"))
    return files, {**following, "hospital-c": folder / "job-2.toml"}


def _asked(file, following):
    return {"token": control_of(load_peer(file))["token"], "act": "epoch", "next": str(following)}


def test_running_peers_go_on_to_another_epoch(tmp_path):
    files, following = _federation(tmp_path)

    async def scenario():
        peers = {name: await Peer.start(files[name]) for name in FIRST}
        peers["hospital-d"] = await Peer.start(following["hospital-d"])
        for peer in peers.values():
            await peer.learn([0.5, -1.0], 1.0)
        await until(lambda: peers["hospital-a"].round > 1)
        for name in FIRST:
            answer = json.loads(await ask(peers[name], "/control", _asked(files[name], following[name])))["next_epoch"]
            assert answer["epoch"] == 2
            assert name not in answer["missing"]
        await peers["hospital-c"].finished()
        await peers["hospital-c"].stop()
        last = peers["hospital-c"].round
        stay = [peers[name] for name in SECOND]
        await until(lambda: min(peer.round for peer in stay) > last + 3)
        assert {peer.settings.job.settings.epoch for peer in stay} == {2}
        assert {peer._service.node.links.epochs.began for peer in stay} == {last + 1}
        assert all(peer.status()["fault"] is None for peer in stay)
        await peers["hospital-a"].learn([0.5, 1.0], -1.0)  # the queue of samples goes on
        assert np.isfinite(peers["hospital-a"].predict([0.5, 1.0]))
        for peer in stay:
            await peer.stop()
        again = [await Peer.start(following[name]) for name in SECOND]  # from the same stores
        before = again[0].round
        await until(lambda: min(peer.round for peer in again) > before + 2)
        for peer in again:
            await peer.stop()

    run(scenario())
    start_refused(files["hospital-a"], LedgerError, "later epoch")
    for name in ("hospital-a", "hospital-b"):
        settings = load_peer(following[name])
        replay = inspect(settings.store, lambda replay: replay.run())
        assert replay.jobs[-1] == settings.part
        assert replay.account.spent().epsilon == pytest.approx(0.5 * (replay.last.sequence - 1))
        accounts = [load_peer(file).account for file in (files[name], following[name])]
        ledgers = {Register(settings.identity).get(account).ledger for account in accounts}
        assert ledgers == {replay.genesis.ledger}
