"""Browsers that look at a board, as its server knows them, and processes that use as much of a processor as they do."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

ASKS = 2.0
"""Seconds after which a browser asks for the curves anew."""


class Browser(threading.Thread):
    """Listens to the events, and asks for the list and for a run's curves every now and then."""

    def __init__(self, link: str) -> None:
        super().__init__(daemon=True)
        address = urlsplit(link)
        self._place, self.heard, self.over = address.netloc, 0, threading.Event()
        self._headers = {"Authorization": f"Bearer {parse_qs(address.query)['token'][0]}"}

    def run(self) -> None:
        events = http.client.HTTPConnection(self._place, timeout=60)
        events.request("GET", "/api/events", headers=self._headers)
        answer, after, due = events.getresponse(), 0, 0.0
        while not self.over.is_set():
            self.heard += answer.readline().startswith(b"event: progress")
            if time.monotonic() >= due:
                due = time.monotonic() + ASKS
                for run in self._asked("/api/runs")["runs"]:
                    rounds = self._asked(f"/api/runs/{run['id']}/curves?after={after}")["rounds"]
                    after = max([after, *rounds])
        events.close()

    def _asked(self, path: str) -> dict[str, list[dict[str, str]]]:
        connection = http.client.HTTPConnection(self._place, timeout=60)
        connection.request("GET", path, headers=self._headers)
        found: dict[str, list[dict[str, str]]] = json.loads(connection.getresponse().read())
        connection.close()
        return found


def browse(link: str, count: int, told: Connection) -> None:
    """Be some browsers, in a process of their own, until told to end; says how many events they heard."""
    os.nice(19)
    started = [Browser(link) for _ in range(count)]
    for each in started:
        each.start()
    told.recv()
    told.send(sum(each.heard for each in started))


@contextlib.contextmanager
def browsers(link: str, count: int) -> Iterator[list[int]]:
    """Have browsers look at a board; gives a list that has the number of events they heard, in the end."""
    heard: list[int] = []
    if not count:
        yield heard
        return
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=browse, args=(link, count, theirs))
    process.start()
    try:
        yield heard
        ours.send("end")
        heard.append(ours.recv())
    finally:
        process.kill()
        process.join()


def processor_seconds(argument: bytes) -> float:
    """Return the processor seconds that a child of this process, known by its command, has taken so far."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and argument in stat.with_name("cmdline").read_bytes():
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return math.nan


BOARD, BROWSING = b"tacit.board.beside", b"spawn_main"
"""What the commands of the two processes hold."""


def burn(share: float, niceness: int) -> None:
    """Use a share of a core."""
    os.nice(niceness)
    while True:
        until = time.process_time() + 0.01 * share
        begun = time.monotonic()
        while time.process_time() < until:
            pass
        time.sleep(max(0.0, 0.01 - (time.monotonic() - begun)))


@contextlib.contextmanager
def burning(*loads: tuple[float, int]) -> Iterator[None]:
    """Have processes use shares of cores, at a niceness each."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=burn, args=load, daemon=True) for load in loads]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()
