"""A board that is served to a browser, and what stands behind it, in a loop of its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from tacit.board.app import application
from tacit.board.federation import Federation

TOKEN = "0123456789abcdef"
PATIENCE = 60_000
"""Milliseconds that a page has for what it does at once on an idle machine."""


class Loop:
    """An event loop in a thread: servers and doors run in it while a test drives the browser."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Return what `work` gives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(300)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Served:
    """A board at a port: it can be taken away, and come back at the same one."""

    def __init__(self, loop: Loop, directory: Path, federation: Federation | None = None) -> None:
        self.loop, self.directory, self.federation, self.port = loop, directory, federation, 0
        self.begin()

    def begin(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(16)
        self.port = listener.getsockname()[1]
        app = application(self.directory, TOKEN, self.port, federation=self.federation)
        settings = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=1, ws="none"
        )
        self._server = uvicorn.Server(settings)
        self._listener = listener
        self.loop.call(self._start())

    async def _start(self) -> None:
        self._task = asyncio.create_task(self._server._serve(sockets=[self._listener]))
        while not self._server.started:
            await asyncio.sleep(0.01)

    def end(self) -> None:
        async def ending() -> None:
            self._server.should_exit = True
            await self._task

        self.loop.call(ending())

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


def until(page: Any, expression: str, patience: float = PATIENCE) -> None:
    """Wait until an expression of JavaScript is true; Playwright's own way needs `eval`, which the policy forbids."""
    deadline = time.monotonic() + patience / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(30)


FOCUSED = (
    "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText || document.activeElement.id"
)
"""The name of what has the focus."""
OUTLINED = (
    "(s => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2)(getComputedStyle(document.activeElement))"
)


def tab_to(page: Any, words: str, most: int = 60) -> None:
    """Press Tab until something of this name has the focus, and can be seen to have it."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if words in (page.evaluate(FOCUSED) or ""):
            assert page.evaluate(OUTLINED), words
            return
    raise AssertionError(f"{words} is not reached")


class Tab:
    """A page of a browser, with a list of whatever goes wrong or leaves the board."""

    def __init__(self, browser: Any, link: str, **settings: Any) -> None:
        self.context = browser.new_context(**settings)
        self.context.set_default_timeout(PATIENCE)
        self.page, self.base = self.context.new_page(), link.partition("?")[0]
        self.faults: list[str] = []
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._leaves)
        self.page.goto(link)

    def _leaves(self, request: Any) -> None:
        if not request.url.startswith((self.base, "blob:")):
            self.faults.append(request.url)

    def open(self, place: str) -> Any:
        """Go to a place of the board, and wait until it is shown."""
        self.page.goto(f"{self.base}#/{place}")
        until(self.page, "!document.getElementById('main').hasAttribute('aria-busy')")
        return self.page


@contextlib.contextmanager
def loops() -> Iterator[Loop]:
    """Give a loop, and close it."""
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()


@contextlib.contextmanager
def served(loop: Loop, directory: Path, federation: Federation | None = None) -> Iterator[Served]:
    """Serve a board."""
    board = Served(loop, directory, federation)
    try:
        yield board
    finally:
        board.end()


@contextlib.contextmanager
def at(browser: Any, link: str, **settings: Any) -> Iterator[Tab]:
    """Open a tab at a board's link; at its end nothing has gone wrong, and nothing has left."""
    tab = Tab(browser, link, **settings)
    try:
        yield tab
        assert tab.faults == []
    finally:
        tab.context.close()


def opened(browser: Any, board: Served, **settings: Any) -> contextlib.AbstractContextManager[Tab]:
    """Open a tab of a board that is served here."""
    return at(browser, f"{board.base}?token={TOKEN}", **settings)
