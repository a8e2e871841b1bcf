"""The memory of correlated noise is as secret as a key: who has it can take noise off what was released."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import tacit
from tacit.peer.machine.snapshots import Memories
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.peer.operations import logs
from tacit.privacy import correlated
from tacit.privacy.accounting import Budget
from tests.peer.services import Federation, plans

ROUNDS = 6


@pytest.fixture
def open_to_all():
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_store_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path, open_to_all: None) -> None:
    with PeerStore.create(tmp_path / "store", Budget(rho=1.0), "job") as store:
        store.commit(snapshot=b"secret")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert set(modes) >= {"store", "store-wal"}
    assert set(modes.values()) == {0o600}


def test_a_memory_shows_no_number() -> None:
    noise = correlated(rounds=8, rho=0.5).correlation
    assert noise is not None
    memory = noise.after(noise.start(np.zeros(2), wide=True), np.array([1.2345678, 8.7654321]), np)
    assert not set("12345678") & set(f"{memory} {memory!r} {[memory]}")


class Watched:
    """Everything that two peers wrote and sent, and every memory that they had."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.log, self.sent, self.told = io.StringIO(), [], []
        self.memories: list[Memories] = []
        logger = logging.getLogger(logs.NAME)
        for name in ("handlers", "level", "propagate"):
            patch.setattr(logger, name, getattr(logger, name))
        logger.handlers = []
        logs.configure("json", "debug", self.log)
        commit = Node._commit

        def committed(node: Node, parcels: Any, *more: Any) -> None:
            commit(node, parcels, *more)
            self.memories.append(node.machine.memories)
            self.sent += [parcel.content for parcel in parcels]

        patch.setattr(Node, "_commit", committed)
        noise = correlated(rounds=4, rho=0.5)
        method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.5, mechanism=noise)
        few = tacit.streams.logistic_drift(agents=2, dim=3, seed=3)
        work = plans(method, tacit.graphs.complete(2), few, booked=True, dtype="float64")
        federation = Federation(directory, work, few, rounds=ROUNDS, budget=Budget(rho=0.5))
        asyncio.run(self._run(federation))

    async def _run(self, federation: Federation) -> None:
        async with federation.running():
            for service in federation.services.values():
                assert service.fault is None
                node = service.node
                self.told += [json.dumps(service.status(), default=str), service.counters.render()]
                self.told += [repr((node.machine.snapshot().memories, node.specs, node.plan.algorithm.phases))]

    @property
    def numbers(self) -> np.ndarray:
        """All that was ever in a memory, but for zeros."""
        kept = [
            leaf for memories in self.memories for memory in memories if memory for leaf in jax.tree.leaves(memory.kept)
        ]
        found = np.unique(np.concatenate([leaf.ravel() for leaf in kept]))
        return found[found != 0]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        yield Watched(tmp_path_factory.mktemp("peers"), patch)


def test_no_number_of_a_memory_is_logged_told_or_sent(watched: Watched) -> None:
    numbers, text = watched.numbers, watched.log.getvalue() + "".join(watched.told)
    assert numbers.size >= 2 * ROUNDS
    assert '"phase over"' in text  # the log is that of a peer at work, with all that it has to say
    assert "tacit_" in text
    assert not [value for value in numbers if f"{abs(value):.7f}"[:8] in text]
    assert not [value for value in numbers if any(value.tobytes() in content for content in watched.sent)]


def test_the_memory_counts_the_releases_of_all_rounds(watched: Watched) -> None:
    assert [int(memory.releases) for memory in watched.memories[-1] if memory] == [ROUNDS]
