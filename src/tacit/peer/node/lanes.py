"""Workers of many peers on threads that they share."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class Lane(Executor):
    """Worker of one peer on threads that many share: its work is done in order, one thing at a time.

    Args:
      pool: The threads; they outlive the lane.

    Example:
      >>> from concurrent.futures import ThreadPoolExecutor
      >>> done = []
      >>> with ThreadPoolExecutor(4) as pool, Lane(pool) as lane:
      ...     _ = [lane.submit(done.append, k) for k in range(5)]
      >>> done
      [0, 1, 2, 3, 4]
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._idle = threading.Condition()
        self._busy = self._shut = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have something done after all that was submitted before."""
        future: Future[T] = Future()
        with self._idle:
            if self._shut:
                raise RuntimeError("this worker was shut down")
            self._waiting.append((future, partial(fn, *args, **kwargs)))
            if not self._busy:
                self._busy = True
                self._pool.submit(self._next)
        return future

    def _next(self) -> None:
        future, work = self._waiting.popleft()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
        with self._idle:  # another peer's work, if some waits, comes before the next of this one
            self._busy = bool(self._waiting)
            if self._busy:
                self._pool.submit(self._next)
            else:
                self._idle.notify_all()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work, and wait until what was taken is done."""
        with self._idle:
            self._shut = True
            if cancel_futures:
                for future, _ in self._waiting:
                    future.cancel()
            if wait:
                self._idle.wait_for(lambda: not self._busy)
