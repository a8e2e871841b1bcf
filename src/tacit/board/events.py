"""Events for browsers: one task looks at the runs, and all who listen hear of the same changes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tacit.board.runs import Found, Runs

EVERY, REST = 0.5, 5
"""Seconds from one look to the next, at least; and as a multiple of those that a look takes."""
SILENCE = 10.0
"""Seconds from one beat to the next, by which a page knows that it is still connected."""
BEAT = ": the board is here\nevent: beat\ndata: {}\n\n"
MOST_WAITING = 200
"""Events that a listener may be behind; one that is slower loses them and asks for the list anew."""


class Broadcast:
    """Changes of runs, told to all listeners. Used from the event loop alone."""

    def __init__(self, runs: Runs) -> None:
        """Look at some runs."""
        self._runs = runs
        self._listeners: set[asyncio.Queue[str]] = set()
        """Each gets events; an empty one is the last."""
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def heard(self) -> AsyncIterator[str]:
        """Yield events as they are sent, and beats."""
        mine: asyncio.Queue[str] = asyncio.Queue(MOST_WAITING + 1)
        self._listeners.add(mine)
        try:
            async with self._starting:
                if self._task is None or self._task.done():
                    # What a listener asks for after the first beat is as this has it, or later.
                    self._task = asyncio.create_task(self._watch(await self._now()))
            yield BEAT
            beat = time.monotonic() + SILENCE
            while True:
                try:
                    async with asyncio.timeout(max(0.0, beat - time.monotonic())):
                        event = await mine.get()
                except TimeoutError:
                    event, beat = BEAT, time.monotonic() + SILENCE
                if not event:
                    return
                yield event
        finally:
            self._listeners.discard(mine)

    def tell(self, name: str, content: Any) -> None:
        """Send an event to all listeners.

        Args:
          name: Of the event.
          content: Its data, JSON.
        """
        self._send(f"event: {name}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n")

    def close(self) -> None:
        """Let all listeners go."""
        self._send("")

    def _send(self, event: str) -> None:
        for listener in self._listeners:
            if listener.qsize() >= MOST_WAITING:
                while not listener.empty():
                    listener.get_nowait()
                listener.put_nowait('event: runs\ndata: {"changed":[]}\n\n')
                if event:
                    continue
            listener.put_nowait(event)

    async def _now(self) -> dict[str, Found]:
        return {run.id: run for run in await run_in_threadpool(self._runs.all)}

    async def _watch(self, before: dict[str, Found]) -> None:
        pause = EVERY
        while self._listeners:
            await asyncio.sleep(pause)
            begun = time.monotonic()
            now = await self._now()
            pause = max(EVERY, REST * (time.monotonic() - begun))
            self._tell_of(before, now)
            before = now

    def _tell_of(self, before: dict[str, Found], now: dict[str, Found]) -> None:
        changed = [id_ for id_ in before.keys() | now.keys() if before.get(id_) != now.get(id_)]
        other = [id_ for id_ in changed if _standing(before.get(id_)) != _standing(now.get(id_))]
        if other:
            self.tell("runs", {"changed": sorted(other)})
        for id_ in changed:
            if (run := now.get(id_)) is not None and run.done != getattr(before.get(id_), "done", None):
                self.tell("progress", {"id": id_, "done": run.done, "rate": run.rate, "figures": run.figures})


def _standing(run: Found | None) -> Any:
    return None if run is None else (run.state, run.label, run.fault, run.sealed)


def stream(broadcast: Broadcast) -> StreamingResponse:
    """Return the answer that does not end.

    Args:
      broadcast: Whose events it sends.
    """
    return StreamingResponse(broadcast.heard(), media_type="text/event-stream")
