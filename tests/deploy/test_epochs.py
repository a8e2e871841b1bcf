"""A new epoch, agreed on over real links: one member leaves, one is new, state and budget go on."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tacit.cli.peers.running import control_of
from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError, LedgerError
from tacit.deploy.epochs import read_next, refuse_fixed
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
        text = peer_text(
            name, others, others, ports, privacy=PRIVACY, rounds=ROUNDS, links=_weights(others), store=store
        )
        following[name].write_text(text.replace("job.toml", "job-2.toml"))
    return files, {**following, "hospital-c": folder / "job-2.toml"}


def _asked(file, following):
    return {"token": control_of(load_peer(file))["token"], "act": "epoch", "next": str(following)}


async def _stopped(peers):
    """Stop peers all at once: none waits for others that confirm nothing any more."""
    for peer in peers:
        peer._service.pace = dataclasses.replace(peer._service.pace, grace=0.1)
    await asyncio.gather(*(peer.stop() for peer in peers))


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
        await _stopped(stay)
        again = [await Peer.start(following[name]) for name in SECOND]  # from the same stores
        before = again[0].round
        await until(lambda: min(peer.round for peer in again) > before + 2)
        await _stopped(again)

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


# -- what the operator is told -----------------------------------------------------------------------------------------

ALONE = {"hospital-a": []}


def _alone(folder, algorithm="distributed_online", privacy=PRIVACY):
    """A federation of one, with a file of its next epoch."""
    job = job_text(algorithm, ALONE, mechanism=NOISE)
    file = found(folder, job, ALONE, privacy=privacy, rounds=ROUNDS)["hospital-a"]
    (folder / "job-2.toml").write_text(job.replace("[job]\n", "[job]\nepoch = 2\n"))
    following = file.with_name("peer-2.toml")
    following.write_text(file.read_text().replace("job.toml", "job-2.toml"))
    return file, following


def _changed(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def _cli(*arguments):
    return asyncio.to_thread(CliRunner().invoke, app, ["peer", *map(str, arguments)])


def test_the_command_goes_on_and_the_status_shows_it(tmp_path):
    file, following = _alone(tmp_path)

    async def scenario():
        peer = await Peer.start(file)
        assert (await _cli("epoch", file, "--next", tmp_path / "nothing.toml")).exit_code != 0
        said = await _cli("epoch", file, "--next", following)
        assert said.exit_code == 0, said.output
        assert "epoch 2" in said.output
        assert peer.status()["next_epoch"]["missing"] == []
        await until(lambda: peer.settings.job.settings.epoch == 2)
        assert peer.status()["next_epoch"] is None
        await until(lambda: peer.round > peer._service.node.links.epochs.began)
        said = await _cli("epoch", following, "--next", following)
        assert "epoch = 2" in said.output
        third = following.with_name("peer-3.toml")
        third.write_text(following.read_text().replace("job-2.toml", "job-3.toml"))
        job = (tmp_path / "job-2.toml").read_text()
        (tmp_path / "job-3.toml").write_text(job.replace("epoch = 2", "epoch = 3"))
        assert (await _cli("epoch", following, "--next", third)).exit_code == 0
        await until(lambda: peer.settings.job.settings.epoch == 3)
        assert len(peer._service.node.store.ledger.jobs) == 3
        await peer.stop()

    run(scenario())


def test_the_file_of_an_epoch_to_come_does_not_open_the_store(tmp_path):
    file, following = _alone(tmp_path)

    async def scenario():
        await (await Peer.start(file)).stop()

    run(scenario())
    start_refused(following, LedgerError, "epoch to come")


def test_masked_messages_and_one_way_links_are_refused_with_the_reason(tmp_path):
    masked = '\n[algorithm.mechanism]\nkind = "local_graph_homomorphic"\nnoise_std = 0.5\n'
    names = tuple("abc")
    (tmp_path / "one").mkdir()
    job = job_text("adapt_then_combine", names, mechanism=masked)
    files = found(tmp_path / "one", job, _others(names), identities=False, privacy="")
    with pytest.raises(ConfigError, match="masked"):
        refuse_fixed(load_peer(files["a"]))
    (tmp_path / "two").mkdir()
    ring = {"a": ["b"], "b": ["c"], "c": ["a"]}
    files = found(tmp_path / "two", job_text("mirror_descent", names), ring, identities=False)
    with pytest.raises(ConfigError, match="one way"):
        refuse_fixed(load_peer(files["a"]))


def test_a_file_that_changed_since_stops_the_change_and_names_the_remedy(tmp_path):
    file, following = _alone(tmp_path)

    async def scenario():
        peer = await Peer.start(file)
        await ask(peer, "/control", _asked(file, following))
        _changed(tmp_path / "job-2.toml", "epoch = 2", "epoch = 3")
        with pytest.raises(ConfigError, match="put it back"):
            await peer.finished()
        await peer.stop()
        _changed(tmp_path / "job-2.toml", "epoch = 3", "epoch = 2")
        start_again = await Peer.start(file)  # what was proposed is kept
        await until(lambda: start_again.settings.job.settings.epoch == 2)
        await start_again.stop()

    run(scenario())


def test_no_second_ledger_is_begun_for_an_epoch_that_was_proposed(tmp_path):
    file, following = _alone(tmp_path)

    async def scenario():
        peer = await Peer.start(file)
        await ask(peer, "/control", _asked(file, following))
        await until(lambda: peer.settings.job.settings.epoch == 2)
        await peer.stop()

    run(scenario())
    _changed(following, "[links.peers]", 'store = "elsewhere.db"\n\n[links.peers]')
    start_refused(following, ConfigError, "has a ledger")


@pytest.mark.parametrize(
    ("which", "before", "after", "key"),
    [
        ("job", "epoch = 2", "epoch = 1", "epoch = 1"),
        ("job", "step = 0.5", "step = 0.25", "step"),
        ("job", "epsilon = 0.5", "epsilon = 0.25", "mechanism.epsilon"),
        ("job", "features = 2", "features = 3", "features"),
        ("job", '"logistic"', '"squared"', "kind"),
        ("job", 'name = "ward study"', 'name = "another"', "name"),
        ("peer", "epsilon = 1000.0", "epsilon = 2000.0", "privacy"),
        ("peer", "[links.peers]", 'store = "other.db"\n\n[links.peers]', "store"),
        ("peer", "epsilon = 1000.0", 'epsilon = 1000.0\nwitness = "w.json"', "witness"),
    ],
)
def test_all_but_the_graph_has_to_be_the_same(tmp_path, which, before, after, key):
    file, following = _alone(tmp_path)
    _changed(tmp_path / "job-2.toml" if which == "job" else following, before, after)
    with pytest.raises(ConfigError) as refusal:
        read_next(load_peer(file), following)
    assert key in str(refusal.value)


def test_a_member_names_its_own_file_and_one_that_leaves_the_job(tmp_path):
    file, following = _alone(tmp_path)
    with pytest.raises(ConfigError, match="own file"):
        read_next(load_peer(file), tmp_path / "job-2.toml")
    _changed(tmp_path / "job-2.toml", '"hospital-a"', '"hospital-b"')
    coming, after = read_next(load_peer(file), tmp_path / "job-2.toml")
    assert coming.leaves
    assert after is None
    with pytest.raises(ConfigError, match="not a member"):
        read_next(load_peer(file), following)


def test_methods_whose_links_change_are_told_of_the_other_command(tmp_path):
    file, following = _alone(tmp_path, "online_push_sum")

    async def scenario():
        peer = await Peer.start(file)
        said = await ask(peer, "/control", _asked(file, following), code=400)
        assert "tacit peer links" in json.loads(said)["error"]
        await peer.stop()

    run(scenario())
