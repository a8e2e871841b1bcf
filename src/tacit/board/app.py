"""The board's web application: its pages, and what they ask for."""

from __future__ import annotations

import json
import math
import mimetypes
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from tacit.board import graph_view
from tacit.board.curves import curves_of
from tacit.board.detail import compared, detail, table
from tacit.board.events import Broadcast, stream
from tacit.board.federation import Federation
from tacit.board.federation import routes as federation_routes
from tacit.board.guard import API, Guard
from tacit.board.ledger_view import ledger_of_run, ledger_of_swarm, stores_of
from tacit.board.runs import Found, Runs
from tacit.core.errors import TacitError

KINDS = {".js": "text/javascript", ".mjs": "text/javascript", ".svg": "image/svg+xml", ".webmanifest": "text/json"}
Asked = Callable[[Request], Any]


class Answer(Response):
    """JSON in which what is not finite is null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the bytes of a body."""
        return json.dumps(finite(content), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )


def finite(value: Any) -> Any:
    """Return a value of JSON with None in place of numbers that are not finite.

    Args:
      value: Tables, lists, text and numbers.

    Example:
      >>> finite({"loss": float("nan"), "rounds": [1, 2]})
      {'loss': None, 'rounds': [1, 2]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    return [finite(inner) for inner in value] if isinstance(value, list | tuple) else value


class Board:
    """What the routes answer with."""

    def __init__(self, directory: Path) -> None:
        """Tell of the runs below a directory."""
        self.runs = Runs(directory)
        self.broadcast = Broadcast(self.runs)

    def routes(self) -> list[BaseRoute]:
        """Return the routes of runs."""
        asked: dict[str, Asked] = {
            "/api/runs": self.list,
            "/api/runs/{id}": self.detail,
            "/api/runs/{id}/curves": self.curves,
            "/api/runs/{id}/graph": self.graph,
            "/api/runs/{id}/frames": self.frames,
            "/api/runs/{id}/links": self.links,
            "/api/runs/{id}/agents/{number:int}": self.agent,
            "/api/runs/{id}/ledger": self.ledger,
            "/api/runs/{id}/data.csv": self.csv,
            "/api/runs/{id}/data.json": self.json,
            "/api/compare": self.compare,
        }
        found: list[BaseRoute] = [
            Route(path, _answering(function), methods=["GET"]) for path, function in asked.items()
        ]
        return [*found, Route("/api/events", self.events, methods=["GET"])]

    def list(self, request: Request) -> Any:
        """All runs, those under way first."""
        return {"runs": [run.as_json() for run in self.runs.all()]}

    def detail(self, request: Request) -> Any:
        """One run."""
        return detail(self.runs, self._run(request))

    def curves(self, request: Request) -> Any:
        """Its curves."""
        return curves_of(self.runs, self._run(request), number(request, "after", 0))

    def graph(self, request: Request) -> Any:
        """Its network."""
        return graph_view.graph(self.runs.record(self._run(request)))

    def frames(self, request: Request) -> Any:
        """Figures of its agents, round by round."""
        live, measure = self.runs.record(self._run(request)), request.query_params.get("measure", "loss")
        return graph_view.frames(live, measure, number(request, "from", 0), optional(request, "to"))

    def links(self, request: Request) -> Any:
        """Its links that were not open, round by round."""
        live = self.runs.record(self._run(request))
        return graph_view.links(live, number(request, "from", 0), optional(request, "to"))

    def agent(self, request: Request) -> Any:
        """One of its agents."""
        run = self._run(request)
        who, round_ = request.path_params["number"], optional(request, "round")
        return graph_view.agent(self.runs.record(run), who, run.private, run.figures.get("epsilon"), round_)

    def ledger(self, request: Request) -> Any:
        """The privacy that it spent."""
        run = self._run(request)
        if run.kind == "swarm":
            return ledger_of_swarm(stores_of(run.live), request.query_params.get("member", ""))
        found = detail(self.runs, run)
        privacy = (found["summary"] or {}).get("privacy", {})
        return ledger_of_run(run, self.runs.record(run), privacy, found["settings"])

    def csv(self, request: Request) -> Any:
        """Its curves as a table."""
        run = self._run(request)
        return _download(run, "csv", table(curves_of(self.runs, run)).encode())

    def json(self, request: Request) -> Any:
        """Its curves, and what the list tells of it."""
        run = self._run(request)
        return _download(run, "json", bytes(Answer({**run.as_json(), **curves_of(self.runs, run)}).body))

    def compare(self, request: Request) -> Any:
        """Several runs side by side."""
        ids = [id_ for id_ in request.query_params.get("ids", "").split(",") if id_]
        return compared(self.runs, [self._named(id_) for id_ in ids])

    async def events(self, request: Request) -> Response:
        """What changes, as it does."""
        return stream(self.broadcast)

    def _run(self, request: Request) -> Found:
        return self._named(request.path_params["id"])

    def _named(self, id_: str) -> Found:
        found = self.runs.get(id_)
        if found is None:
            raise HTTPException(404, "there is no such run")
        return found


def _download(run: Found, ending: str, content: bytes) -> Response:
    name = re.sub(r"[^a-z0-9]+", "-", run.label.lower()).strip("-")[:60] or "run"
    kind = "text/csv; charset=utf-8" if ending == "csv" else "application/json"
    return Response(
        content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}.{ending}"'}
    )


def number(request: Request, name: str, default: int) -> int:
    """Return a whole number of the query.

    Args:
      request: What was asked.
      name: Of the number.
      default: Where it is not there.
    """
    given = request.query_params.get(name)
    if given is None:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 16):
        raise HTTPException(400, f"{name} = {given[:40]!r}; expected a whole number from 0 on")
    return int(given)


def optional(request: Request, name: str) -> int | None:
    """Return a whole number of the query; None where it is not there.

    Args:
      request: What was asked.
      name: Of the number.
    """
    return number(request, name, 0) if name in request.query_params else None


def _answering(function: Asked) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        found = await run_in_threadpool(function, request)
        return found if isinstance(found, Response) else Answer(found)

    return answer


def application(
    directory: Path,
    token: str,
    port: int,
    hosts: Iterable[str] = (),
    beyond: bool = False,
    federation: Federation | None = None,
) -> Starlette:
    """Return the application over a directory.

    Args:
      directory: Runs are those below it.
      token: Whoever asks has to have it.
      port: That it is served at.
      hosts: Names that it may be asked under, besides those of loopback.
      beyond: Whether it listens beyond loopback.
      federation: Peers that it shows, too.
    """
    board, peers = Board(directory), list[BaseRoute]()
    if federation is None:
        peers.append(Route("/api/peers", _no_peers, methods=["GET"]))
    else:
        peers, federation.tell = [*federation_routes(federation)], board.broadcast.tell
    guard = Middleware(Guard, token=token, hosts=hosts, port=port, open_to_addresses=beyond)
    routes = [*board.routes(), *peers, Route("/{path:path}", _static, methods=["GET"])]
    app = Starlette(
        routes=routes,
        middleware=[guard],
        exception_handlers={HTTPException: _refused, TacitError: _faulty, OSError: _faulty},
    )
    app.state.broadcast = board.broadcast
    return app


async def _no_peers(request: Request) -> Response:
    """Peers, where none were asked for."""
    return Answer({"peers": []})


def _static(request: Request) -> Response:
    """A file of the front end, by its name among those that are there."""
    name = request.path_params["path"] or "index.html"
    found = static_files().get(name)
    if found is None or name.startswith("api/"):
        raise HTTPException(404, "there is nothing here")
    kind = KINDS.get(found.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(found.read_bytes(), media_type=kind)


def static_files() -> dict[str, Path]:
    """Return the files of the front end by their names in addresses."""
    with resources.as_file(resources.files("tacit.board") / "static") as folder:
        files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return {path.relative_to(folder).as_posix(): path for path in files}


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _told(request, error.status_code, str(error.detail), error.headers)


def _faulty(request: Request, error: Exception) -> Response:
    return _told(request, 409, str(error))


def _told(request: Request, status: int, words: str, headers: Mapping[str, str] | None = None) -> Response:
    if request.url.path.startswith(API):
        return Answer({"error": words}, status, headers)
    return PlainTextResponse(words + "\n", status, headers)
