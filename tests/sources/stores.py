"""Stores of a peer, and rounds that use what a source hands out as a peer does: one commit for marks and cursor."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

from tacit.core.errors import DataError
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.queue import SampleForm
from tacit.privacy.accounting import Budget

FORM = SampleForm.of(2)


def payload(y, **more):
    return json.dumps({"x": [y, -y], "y": y, **more}).encode()


class Learner:
    """A peer as a source sees it: it takes, commits, and may be killed at any point."""

    def __init__(self, folder, source_of):
        """`source_of(store, worker)` makes the source; the store is begun, or opened as the last commit left it."""
        path = folder / "store.db"
        self.store = PeerStore.open(path) if path.exists() else PeerStore.create(path, Budget(epsilon=1.0), "job")
        self.worker = ThreadPoolExecutor(1)
        self.source = source_of(self.store, self.worker)
        kept = self.store.snapshot()
        try:
            if kept is not None:
                self.source.resume(json.loads(kept))
        except DataError:
            self.store.close()
            raise

    async def take(self, limit=4, patience=0.3):
        """Take without a commit, as a round that is cut off."""
        return await self.source.take(limit, patience)

    def commit(self, taken):
        snapshot = json.dumps(taken.cursor).encode()
        self.store.commit(snapshot=snapshot, used=taken.used, seen=taken.seen)
        return [None if sample is None else sample.y for sample in taken.samples]

    async def learn(self, limit=4, patience=0.3):
        return self.commit(await self.take(limit, patience))

    async def until(self, count, limit=4):
        """Learn until `count` places are taken; faults are waited out, as a feed does."""
        found = []
        async with asyncio.timeout(120):
            while len(found) < count:
                try:
                    found += await self.learn(limit)
                except DataError:
                    await asyncio.sleep(0.05)
        return found

    async def end(self):
        await self.source.close()
        self.store.close()
        self.worker.shutdown()


def usable(ys):
    return [y for y in ys if y is not None]
