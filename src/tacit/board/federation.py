"""A federation on the board: peers through their doors for status, by an observer's certificate.

Each peer is asked once in a while, by itself, within a deadline: one that is dead or frozen is down within `every`
seconds and the client's patience, whatever the others do. What was heard is kept in memory, and nowhere else. Stop and
start take an operator's certificate, and are noted in the fleet's file of actions before they are done.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tacit.config.fleet import Fleet, FleetPeer
from tacit.core.errors import ConfigError, IdentityError, MessageRefused, RemoteError, TacitError
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.observing.client import StatusClient

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

KEPT = 900
"""Looks at one peer that are kept: a quarter of an hour, at one a second."""
LONGEST_ERROR = 300
TOLD = 0.5
"""Part of the time between two looks after which changes are told again."""


class Moment(NamedTuple):
    """Figures of one look at a peer."""

    time: float
    """Seconds since 1970."""
    round: int | None
    lag: int | None
    loss: float | None
    spent: float | None


class Watched:
    """One peer as it was seen last.

    Args:
      name: Its name.
      peer: Its address, and how it is started.
      observer: The identity that asks.
    """

    def __init__(self, name: str, peer: FleetPeer, observer: IdentityWatch) -> None:
        self.name, self.peer, self.client = name, peer, StatusClient(name, peer.address, observer)
        self.state, self.since, self.status = "down", time.time(), dict[str, Any]()
        self.fault: str | None = None
        """Why it is not up."""
        self.history: deque[Moment] = deque(maxlen=KEPT)
        self.child: asyncio.subprocess.Process | None = None
        self.started_by: IdentityWatch | None = None
        """Operator who had it started, which is not in its log yet."""

    async def look(self) -> bool:
        """Ask once; returns whether anything is to be told."""
        before = self.state, self.status, self.fault
        try:
            self.status = await self.client.status()
            state, self.fault = "up", None
        except MessageRefused as refusal:
            state, self.fault = "refused", f"{refusal.reason}: {refusal.detail}"
        except (RemoteError, IdentityError) as fault:
            state, self.fault = "down", str(fault)
        if state != self.state:
            self.state, self.since = state, time.time()
        if state == "up":
            budget = self.status.get("budget") or [{}]
            round_, lag, loss = (_number(self.status.get(key)) for key in ("round", "lag", "loss"))
            self.history.append(Moment(time.time(), round_, lag, loss, _number(budget[0].get("spent"))))
        return before != (self.state, self.status, self.fault)

    def as_json(self, may_act: bool) -> dict[str, Any]:
        """Return what the board shows."""
        known = self.status
        errors = list(known.get("errors") or [])
        may = ["stop"] if self.state == "up" else ["start"] if self.peer.start else []
        return {
            **{key: known.get(key) for key in SHOWN},
            "name": self.name,
            "state": self.state,
            "since": self.since,
            "links": known.get("links", []) if self.state == "up" else _dead(known.get("links", [])),
            "refusals": known.get("refusals", {}),
            "budget": known.get("budget", []),
            "errors": [*errors, *([] if self.fault is None else [self.fault[:LONGEST_ERROR]])],
            "may": may if may_act else [],
        }


SHOWN = (
    *("job", "algorithm", "round", "lag", "disk_free", "certificate_expires", "releases", "model_finite", "loss"),
    "accuracy",
)


class Federation:
    """All peers of a fleet, watched.

    Args:
      fleet: Whom to watch, and by which identities.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._observer = observer = IdentityWatch(fleet.observer, lambda fault: None, "observer")
        self.peers = {name: Watched(name, peer, observer) for name, peer in fleet.peers.items()}
        self._operator: IdentityWatch | None = None
        if fleet.operator is not None:
            self._operator = IdentityWatch(fleet.operator, lambda fault: None, "operator")
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self.tell: Callable[[str, Any], None] = lambda name, content: None
        """Hears of every change as ("peers", what `as_json` gives), each `every` seconds at most."""

    def begin(self) -> None:
        """Look at all peers from now on; called in the event loop, and again without effect."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._follow(one)) for one in self.peers.values()]
            self._tasks.append(asyncio.create_task(self._telling()))

    async def close(self) -> None:
        """Look no more."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in self.peers.values():
            one.client.close()

    def as_json(self) -> dict[str, Any]:
        """Return all peers as the board shows them."""
        return {"peers": [one.as_json(self._operator is not None) for one in self.peers.values()]}

    async def ledger(self, name: str) -> dict[str, Any]:
        """Return the summary of a peer's ledger, over a connection of its own: a long answer holds up no look."""
        client = StatusClient(name, self._peer(name).peer.address, self._observer)
        try:
            return await client.ledger()
        finally:
            client.close()

    def history(self, name: str) -> dict[str, Any]:
        """Return the figures of the last looks at a peer, column by column."""
        kept = self._peer(name).history
        return {key: [getattr(moment, key) for moment in kept] for key in Moment._fields}

    async def stop(self, name: str) -> None:
        """Have a peer end, by the operator's certificate."""
        operator = self._acting()
        client = StatusClient(name, self._peer(name).peer.address, operator)
        self._note("stop", name, operator)
        try:
            await client.stop()
        finally:
            client.close()

    async def start(self, name: str) -> None:
        """Start a peer by its command in the fleet, for whoever holds the operator's certificate.

        What it says goes to NAME.log beside the fleet's file.
        """
        one, operator = self._peer(name), self._acting()
        command = one.peer.start
        if command is None:
            raise ConfigError(f"[peers.{name}] has no start; give the command that starts it, or start it on its host")
        if one.state == "up" or (one.child is not None and one.child.returncode is None):
            raise ConfigError(f"{name} runs already")
        self._note("start", name, operator)
        try:
            with (self.fleet.file.parent / f"{name}.log").open("ab") as log:
                one.child = await asyncio.create_subprocess_exec(
                    *command,
                    cwd=self.fleet.file.parent,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # it outlives the board
                )
        except OSError as error:
            raise ConfigError(f"[peers.{name}] start: {command[0]} cannot be run ({error.strerror})") from error
        one.started_by = operator

    # ------------------------------------------------------------------------------------------------------------------

    async def _follow(self, one: Watched) -> None:
        while True:
            began = time.monotonic()
            if await one.look():
                self._changed.set()
            if one.state == "up" and one.started_by is not None:
                await self._tell_start(one, one.started_by)
            await asyncio.sleep(max(0.0, began + self.fleet.every - time.monotonic()))

    async def _tell_start(self, one: Watched, operator: IdentityWatch) -> None:
        """Have a peer write into its log who had it started, however it was: what starts it need not hand that on."""
        client = StatusClient(one.name, one.peer.address, operator)
        try:
            await client.started()
            one.started_by = None
        except MessageRefused:
            one.started_by = None
        except (RemoteError, IdentityError):  # at the next look
            pass
        finally:
            client.close()

    async def _telling(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self.tell("peers", self.as_json())
            await asyncio.sleep(TOLD * self.fleet.every)

    def _peer(self, name: str) -> Watched:
        if name not in self.peers:
            raise LookupError(name)
        return self.peers[name]

    def _acting(self) -> IdentityWatch:
        """Return the operator's identity, if there is one that is valid now."""
        if self._operator is None:
            raise PermissionError("the fleet names no operator; peers are stopped and started on their hosts")
        identity = self._operator.current()
        if identity.not_after <= datetime.now(UTC):
            raise PermissionError(f"the certificate of operator {identity.name!r} has ended; renew it")
        return self._operator

    def _note(self, act: str, name: str, operator: IdentityWatch) -> None:
        """Write what is about to be done, to the disk: an act that cannot be noted is not done."""
        identity = operator.current()
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "act": act,
            "peer": name,
            "operator": identity.name,
            "certificate": identity.fingerprint,
        }
        try:
            with self.fleet.actions.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ConfigError(
                f"{self.fleet.actions}: cannot be written ({error.strerror}), so nothing was done"
            ) from error


def _dead(links: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the links of a peer that is not there."""
    return [{**link, "state": "dead"} for link in links]


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def routes(federation: Federation) -> list[Route]:
    """Return what the board answers of a federation; the first question begins the watch.

    Args:
      federation: Its peers.
    """
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def stop(name: str) -> Any:
        await federation.stop(name)
        return {"done": True}

    async def start(name: str) -> Any:
        await federation.start(name)
        return {"done": True}

    async def history(name: str) -> Any:
        return federation.history(name)

    async def everybody(name: str) -> Any:
        return federation.as_json()

    def answering(work: Callable[[str], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            federation.begin()
            try:
                return JSONResponse(await work(request.path_params.get("name", "")))
            except LookupError:
                return JSONResponse({"error": "there is no such peer in the fleet"}, 404)
            except PermissionError as refusal:
                return JSONResponse({"error": str(refusal)}, 403)
            except MessageRefused as refusal:
                return JSONResponse({"error": f"{refusal.reason}: {refusal.detail}"}, 403)
            except TacitError as fault:
                return JSONResponse({"error": str(fault)}, 409)

        return answer

    found: Mapping[str, tuple[str, Callable[[str], Awaitable[Any]]]] = {
        "/api/peers": ("GET", everybody),
        "/api/peers/{name}/ledger": ("GET", federation.ledger),
        "/api/peers/{name}/history": ("GET", history),
        "/api/peers/{name}/stop": ("POST", stop),
        "/api/peers/{name}/start": ("POST", start),
    }
    return [Route(path, answering(work), methods=[method]) for path, (method, work) in found.items()]
