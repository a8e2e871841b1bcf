"""Running peers in one process, and what is asked of them."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest

from tacit.config.peer import load_peer
from tacit.deploy.peer import Peer
from tacit.peer.node.store import PeerStore
from tests.deploy.homes import found, job_text

ALONE = {"hospital-a": []}


def run(scenario, seconds=600):
    """Run a scenario in a fresh loop, and see that it leaves nothing behind."""

    async def limited():
        async with asyncio.timeout(seconds):
            await scenario
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, others

    asyncio.run(limited())
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("tacit-rounds")]
    assert not left


def alone(tmp_path, **peer):
    """A federation of one, which has nobody to wait for."""
    job = peer.pop("job", job_text(members=ALONE))
    peer.setdefault("rounds", "patience = 0.05")
    return found(tmp_path, job, ALONE, **peer)["hospital-a"]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.02)


def used(peer):
    return peer.counters.value("tacit_samples_total", outcome="used")


def ask(peer, path, content=None, *, code=200):
    """Make one request of the loopback port, in a thread."""

    def call():
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{peer.operations_port}{path}", data, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    async def asked():
        found_code, text = await asyncio.to_thread(call)
        assert found_code == code, text
        return text

    return asked()


def start_refused(file, error, words):
    async def scenario():
        with pytest.raises(error, match=words):
            await Peer.start(file)

    run(scenario())


def opens_again(file):
    """Whether the store is free."""
    loaded = load_peer(file)
    PeerStore.open(loaded.store, loaded.budget, loaded.part).close()


def learnt_together(files, chunk, rounds=None):
    """Push samples (rounds, agents) one by one to peers from files; returns each one's model after every round.

    `rounds` are those that each peer takes part in, counted from 1; by default all.
    """
    models = {name: [] for name in files}

    async def one(name, agent):
        peer = await Peer.start(files[name])
        try:
            peer._service._after_round = lambda t, model: models[name].append(np.asarray(model))
            mine = slice(None) if rounds is None else [t - 1 for t in rounds[name]]
            for x, y in zip(chunk.x[mine, agent], chunk.y[mine, agent], strict=True):
                await peer.learn(x, float(y))
            await peer.finished()
        finally:
            await peer.stop()

    async def scenario():
        async with asyncio.timeout(300):
            await asyncio.gather(*(one(name, agent) for agent, name in enumerate(files)))

    asyncio.run(scenario())
    return models
