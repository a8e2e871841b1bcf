"""A board served on a free port of loopback, and questions to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from tacit.board.app import application
from tacit.board.serve import listening

TOKEN = "a" * 24


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, *, token: str | None = TOKEN, method: str = "GET", **headers: str) -> Reply:
        """Ask for a path as it stands: nothing is resolved or encoded on the way."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.putrequest(method, path, skip_host="host" in headers)
        for name, value in {**sent, **headers}.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        found = Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        connection.close()
        return found

    def json(self, path: str) -> Any:
        answer = self.ask(path)
        assert answer.status == 200, answer
        return answer.json()

    def runs(self) -> dict[str, Any]:
        return {run["label"]: run for run in self.json("/api/runs")["runs"]}

    @contextlib.contextmanager
    def events(self) -> Iterator[Iterator[tuple[str, Any]]]:
        """Give the events as they come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")

        def heard() -> Iterator[tuple[str, Any]]:
            name = ""
            while line := answer.readline().decode().strip() or "-":
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

        try:
            yield heard()
        finally:
            answer.close()
            connection.close()


@contextlib.contextmanager
def served(directory: Path, **settings: Any) -> Iterator[Client]:
    """Serve a directory."""
    with listening("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        app = application(directory.resolve(), TOKEN, port, **settings)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Client(port)
        finally:
            server.should_exit = True
            thread.join()
