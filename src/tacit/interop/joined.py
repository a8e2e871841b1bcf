"""A running peer behind plain calls, for applications that are not asynchronous: its loop runs in a thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Objective
from tacit.deploy.peer import Peer
from tacit.interop.agents import Agent
from tacit.privacy.spending import RunPrivacy

T = TypeVar("T")


class JoinedPeer(Agent):
    """A peer that was started from its file, and stands in for an agent that learns alone."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Start the peer; returns when it listens."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tacit-peer", daemon=True)
        self._thread.start()
        try:
            self.peer: Peer = self._waited(Peer.start(path))
        except BaseException:
            self._end()
            raise

    @property
    def objective(self) -> Objective:
        """Objective of the job."""
        return self.peer.settings.job.algorithm.objective

    def learn(self, x: NDArray[Any], y: float) -> None:
        """Give the peer a sample; returns when it is on the disk."""
        self._waited(self.peer.learn(x.tolist(), float(y)))

    def output(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the peer's model says of a sample."""
        return np.asarray(self.peer.predict(x.tolist()), np.float64)

    @property
    def privacy(self) -> RunPrivacy:
        """Promise of the job; the costs so far are in the ledger (`learner.peer.status()`, `tacit ledger`)."""
        return RunPrivacy(self.peer.settings.job.algorithm.privacy)

    def close(self) -> None:
        """Stop the peer in good order; may be called again."""
        if self._loop.is_closed():
            return
        try:
            self._waited(self.peer.stop())
        finally:
            self._end()

    def _waited(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
