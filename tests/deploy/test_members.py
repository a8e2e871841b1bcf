"""Members that come and go over real links: invited, joined, gone, and back; what they hold stays in sum."""

from __future__ import annotations

import json

import pytest

from tacit.cli.peers.running import control_of
from tacit.config.job import load_job
from tacit.config.peer import load_peer
from tacit.deploy.peer import Peer
from tacit.peer.identity.invitation import invite
from tests.deploy.homes import NAMES, RING, certify, found, free_ports, job_text, peer_text
from tests.deploy.peers import ask, run, until

SHORT = "patience = 0.02\ndeadline = 0.3"


def _federation(folder, algorithm, links='accepts = "members"'):
    """Three founders in a ring, and the file of a fourth that is invited."""
    files = found(folder, job_text(algorithm, dtype='"float64"'), RING, rounds=SHORT, links=links)
    addresses = {name: load_peer(file).peer.listen for name, file in files.items()}
    home = folder / "hospital-d"
    home.mkdir()
    ports = {name: int(address.rpartition(":")[2]) for name, address in addresses.items()}
    ports["hospital-d"] = free_ports(1)[0]
    certify(folder, ["hospital-d"])
    job = load_job(folder / "job.toml")
    members = len(job.members["peer"])
    invite("hospital-d", job.settings_hash, "peer", members, folder / "ca", home / "hospital-d.invitation")
    files["hospital-d"] = home / "peer.toml"
    store = 'invitation = "hospital-d.invitation"'
    files["hospital-d"].write_text(
        peer_text("hospital-d", ["hospital-a"], ["hospital-c"], ports, rounds=SHORT, links=links, store=store)
    )
    return files, {name: f"127.0.0.1:{port}" for name, port in ports.items()}


def _mass(peer):
    state = peer._service.node.machine.state
    return float(getattr(state, "held", state).mass)


def _states(peer):
    return {(row["way"], row["name"]): row["state"] for row in peer.status()["links"]}


def _control(file, **what):
    return {"token": control_of(load_peer(file))["token"], **what}


@pytest.mark.parametrize("algorithm", ["online_push_sum", "loss_tolerant_push_sum"])
def test_a_peer_is_invited_joins_and_leaves(tmp_path, algorithm):
    files, addresses = _federation(tmp_path, algorithm)
    shown = (files["hospital-d"].parent / "hospital-d.invitation").read_text()

    async def scenario():
        founders = {name: await Peer.start(files[name]) for name in NAMES}
        joiner = await Peer.start(files["hospital-d"])
        await until(lambda: min(peer.round for peer in founders.values()) > 2)
        assert _mass(joiner) == 0
        assert joiner.round == 0
        asked = _control(files["hospital-c"], act="add", name="hospital-d", address=addresses["hospital-d"])
        await ask(founders["hospital-c"], "/control", asked, code=400)  # no member, and no invitation
        await ask(founders["hospital-c"], "/control", {**asked, "token": "0" * 32}, code=400)
        links = json.loads(await ask(founders["hospital-c"], "/control", {**asked, "invitation": shown}))["links"]
        assert ("out", "hospital-d") in {(row["way"], row["name"]) for row in links}
        await until(lambda: _mass(joiner) > 0 and ("in", "hospital-d") in _states(founders["hospital-a"]))
        await until(lambda: _states(joiner).get(("out", "hospital-a")) == "open")
        await ask(joiner, "/control", _control(files["hospital-d"], act="leave"))
        await joiner.finished()
        assert _mass(joiner) == 0
        await joiner.stop()
        await until(lambda: ("out", "hospital-d") not in _states(founders["hospital-c"]))
        await until(lambda: ("in", "hospital-d") not in _states(founders["hospital-a"]))
        before = founders["hospital-a"].round
        await until(lambda: min(peer.round for peer in founders.values()) > before + 2)
        for peer in founders.values():
            await peer.stop()

    run(scenario())


def test_a_changed_file_changes_links_at_the_next_start(tmp_path):
    files, addresses = _federation(tmp_path, "loss_tolerant_push_sum")

    async def scenario():
        founders = {name: await Peer.start(files[name]) for name in NAMES}
        await until(lambda: min(peer.round for peer in founders.values()) > 1)
        await founders["hospital-a"].stop()
        text = files["hospital-a"].read_text()
        text = text.replace('sends_to = ["hospital-b"]', 'sends_to = ["hospital-b", "hospital-c"]')
        text = text.replace("[addresses]\n", f'[addresses]\nhospital-c = "{addresses["hospital-c"]}"\n')
        files["hospital-a"].write_text(text)
        founders["hospital-a"] = await Peer.start(files["hospital-a"])
        await until(lambda: _states(founders["hospital-c"]).get(("in", "hospital-a")) == "open")
        for peer in founders.values():
            await peer.stop()

    run(scenario())


def test_a_peer_with_no_link_cannot_leave_and_one_of_a_fixed_method_changes_none(tmp_path):
    for number, (algorithm, words) in enumerate((("online_push_sum", "links add"), ("distributed_online", "epoch"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        job = job_text(algorithm, members=("hospital-a",))
        file = found(folder, job, {"hospital-a": []}, rounds=SHORT)["hospital-a"]

        async def scenario(file=file, words=words):
            peer = await Peer.start(file)
            answer = await ask(peer, "/control", _control(file, act="leave"), code=400)
            assert words in json.loads(answer)["error"]
            await peer.stop()

        run(scenario())
