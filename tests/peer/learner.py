"""A peer that learns from a file, whole but for the network: file, feed, node and store, and what it has used."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from tacit import graphs, objectives, privacy, runtime, streams
from tacit.algorithms import distributed_online
from tacit.peer import AgentFunctions
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.batches import SampleFeed
from tacit.peer.sources.queue import batch_of
from tacit.privacy.accounting import Budget
from tests.peer.followed import FORM, Time, tail
from tests.peer.settings import Setting

SIZE = 3
BUDGET = Budget(epsilon=1.0)
"""Of one release: whatever is learnt from twice is not paid for."""


@functools.cache
def part():
    """One peer of two, which goes on without the other, with batches of SIZE; compiled once."""
    algorithm = distributed_online(
        objectives.squared(), mechanism=privacy.laplace(1.0, 1.0, norm="l1"), missing="renormalise"
    )
    setting = Setting("file", algorithm, graphs.complete(2), streams.linear_drift(2, 2, seed=1), 2, booked=True)
    batch = batch_of([], SIZE, 2, "float32")
    with jax.enable_x64(False):
        params = runtime.first_params(algorithm, batch, jnp.dtype("float32"), None)
        plan = replace(setting.plans["peer-0"], batch=batch, params=params)
        return plan, AgentFunctions(algorithm, runtime.settle(algorithm, params, batch, plan.role_views))


class Learner:
    """A peer and its file. `released` counts how often the record of each number was in a batch that left noised."""

    def __init__(self, folder, path=None, **source):
        self.store_path, self.path, self.source = (
            folder / "s.db",
            path or folder / "data.csv",
            {"features": ["a", "b"], **source},
        )
        self.released, self.batches, self.faults = Counter(), [], []
        self.start()

    def start(self):
        plan, functions = part()
        make = PeerStore.open if self.store_path.exists() else PeerStore.create
        self.store = make(self.store_path, BUDGET, "job")
        self.node = Node(plan, self.store, 1.0, 0.0, functions)
        self.tail = tail(self.path, Time(), known=self.store.records, **self.source)
        self.feed = SampleFeed(self.tail, FORM, size=SIZE, dtype="float32", patience=0.0, on_fault=self.faults.append)
        if self.node.cursor is not None:
            self.feed.resume(self.node.cursor)
        if not self.node.between_rounds:
            self.node.proceed(10.0)

    def taken(self):
        """Take a batch, which is not used yet."""
        return asyncio.run(self.feed.next(self.node.round + 1))

    def use(self, given):
        """Begin and end a round with a batch."""
        self.node.begin(given.batch, 0.0, records=given.records, cursor=given.cursor, used=given.used, seen=given.seen)
        self.batches.append(given.batch)
        for x, weight in zip(given.batch.x, given.batch.weight, strict=True):
            if weight > 0:
                self.released[int(x[0])] += 1
        self.node.proceed(10.0)
        return given

    def round(self):
        """Do a round."""
        return self.use(self.taken())

    def rounds(self, most=100):
        """Do rounds until one finds nothing; returns how many records were used in all."""
        before, quiet = self.released.total(), 0
        for _ in range(most):
            cursor = self.node.cursor
            quiet = 0 if self.round().cursor != cursor else quiet + 1
            if quiet == 2:
                break
        return self.released.total() - before

    def close(self):
        """End as by kill -9: nothing is written that was not committed."""
        asyncio.run(self.tail.close())
        self.store.close()

    def again(self):
        """Be killed, and start again from the store."""
        self.close()
        self.start()


def lines(*numbers, b=0.0):
    """One line per record: its number, a feature and the label."""
    return "".join(f"{n},{b},{n % 2}\n" for n in numbers)


def places(batches):
    """All batches one after the other, as rows of features, label and weight as a method sees it."""
    return [
        (*np.asarray(x).tolist(), float(y), max(float(w), 0.0))
        for batch in batches
        for x, y, w in zip(batch.x, batch.y, batch.weight, strict=True)
    ]
