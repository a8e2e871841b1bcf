"""Whoever asks is let in by a token, a host name that is this machine's, and a method that changes nothing.

The token keeps out other users of this machine and pages of other sites; the check of the host keeps out names that are
made to lead here (DNS rebinding). Headers tell the browser to load and run nothing but what the board serves itself.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content security policy of all answers."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
SAFE = ("GET", "HEAD")
OWN = "x-tacit-board"
"""Header that a page of the board sends with what changes something: a form of another site cannot."""
API = "/api/"


_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/]+))(?::\d{1,5})?")


class Guard:
    """Middleware that refuses whoever has no token, another host name, or a method of another site."""

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str], port: int, open_to_addresses: bool) -> None:
        """Guard an application.

        Args:
          app: What is served to those who are let in.
          token: Secret of the printed address.
          hosts: Names under which the board may be asked for, besides those of loopback.
          port: In the cookie's name, since a browser sends cookies to every port of a host.
          open_to_addresses: Whether any address in numbers is a host, where the board listens beyond loopback.
        """
        self._app, self._token = app, token.encode()
        self._hosts = frozenset(LOOPBACK) | {host.lower() for host in hosts}
        self._cookie, self._open = f"tacit_board_{port}", open_to_addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a web socket is not accepted

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    found[name] = value
            await send(message)

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, secured)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to whoever is not let in; None: it is."""
        headers, path = Headers(scope=scope), scope["path"]
        if not self._is_host(headers.get("host", "")):
            return _told(path, 400, "this host name is not the board's; use the address that it printed")
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given and scope["method"] == "GET" and not path.startswith(API):
            return self._welcome(path, query) if self._is_token(given[-1]) else _told(path, 401, NO_TOKEN)
        if not any(map(self._is_token, self._brought(headers))):
            return _told(path, 401, NO_TOKEN)
        if scope["method"] not in SAFE and headers.get(OWN) != "1":
            return _told(path, 403, "this asks for a change and does not come from the board's own page")
        return None

    def _is_host(self, given: str) -> bool:
        found = _HOST.fullmatch(given)
        if found is None:
            return False
        name = (found[1] or found[2]).lower().rstrip(".")
        return name in self._hosts or (self._open and _is_address(name))

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)

    def _brought(self, headers: Headers) -> list[str]:
        kind, _, given = headers.get("authorization", "").partition(" ")
        found = [given.strip()] if kind.lower() == "bearer" else []
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            morsel = None
        return found if morsel is None else [*found, morsel.value]

    def _welcome(self, path: str, query: list[tuple[str, str]]) -> Response:
        """Keep the token in a cookie that no script reads, and take it out of the address."""
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash: an address that begins with two is one of another host.
        answer = RedirectResponse("/" + path.lstrip("/\\") + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="strict", path="/")
        return answer


NO_TOKEN = "the board asks for its token: open the address that `tacit board` printed"


def _told(path: str, status: int, words: str) -> Response:
    if path.startswith(API):
        return JSONResponse({"error": words}, status)
    return PlainTextResponse(words + "\n", status)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
