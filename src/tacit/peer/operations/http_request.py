"""Policy for HTTP requests to a peer, on top of h11: which hosts, methods, headers and bodies are accepted."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from http import HTTPStatus

import h11

LONGEST_HEAD = 2**14
LONGEST_BODY = 2**20

_LENIENT = re.compile(rb"(?<!\r)\n|\r\n[ \t]")
"""Line ends and folded headers that h11 accepts and some proxies read in another way."""
_NAME = re.compile(rb"\r\n([^:\r\n]+):")
_ONCE = (b"host", b"content-length", b"content-type", b"transfer-encoding", b"connection", b"expect")
"""Headers of which two would be read as the first here and as the last there."""
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?")


class Refused(Exception):  # noqa: N818 - it is what happened to the request
    """A request that gets no further; never leaves the server."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, headers


def admit(http: h11.Connection, head: bytes, routes: Mapping[str, str], *, local: bool = True) -> tuple[str, int]:
    """Read a request up to its empty line; returns its path and the length of its body, or refuses it.

    `routes` says which path is served, and with which method; where it is `local`, a loopback host has to be named.
    """
    if _LENIENT.search(head):
        raise Refused(HTTPStatus.BAD_REQUEST, "a line ends without CRLF, or a header is folded")
    names = [name.lower() for name in _NAME.findall(head)]
    for name in _ONCE:
        if names.count(name) > 1:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the header {name.decode()} is there twice")
    try:
        http.receive_data(head)
        request = http.next_event()
    except h11.RemoteProtocolError as fault:
        raise Refused(fault.error_status_hint, str(fault)) from None
    assert isinstance(request, h11.Request)  # the head is complete
    if request.method == b"HEAD":
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "", (("Allow", "GET, POST"),))  # its answer has no body
    headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
    if request.http_version not in (b"1.0", b"1.1"):
        raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "expected HTTP/1.1")
    if "transfer-encoding" in headers:
        raise Refused(HTTPStatus.NOT_IMPLEMENTED, "no transfer encoding is known here; send a Content-Length")
    if headers.get("expect", "100-continue").lower() != "100-continue":
        raise Refused(HTTPStatus.EXPECTATION_FAILED, "the only expectation known here is 100-continue")
    if local and not _is_loopback(headers.get("host", "")):
        raise Refused(
            HTTPStatus.MISDIRECTED_REQUEST, "expected a Host header with a loopback name: localhost, 127.0.0.1"
        )
    method, path = request.method.decode(), request.target.decode().split("?")[0]
    if path not in routes:
        raise Refused(HTTPStatus.NOT_FOUND, f"expected one of {', '.join(routes)}")
    if method != routes[path]:
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"expected {routes[path]}", (("Allow", routes[path]),))
    return path, _body_length(method, headers)


def _body_length(method: str, headers: Mapping[str, str]) -> int:
    """Refuse a body that is not JSON of a known and modest length."""
    length = headers.get("content-length")
    if method != "POST":
        if length not in (None, "0"):
            raise Refused(HTTPStatus.BAD_REQUEST, f"{method} has no body")
        return 0
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected Content-Type: application/json")
    if length is None:
        raise Refused(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
    if int(length) > LONGEST_BODY:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {LONGEST_BODY} bytes; send parts")
    return int(length)


def _is_loopback(host: str) -> bool:
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return False
    if found[1] == "localhost":
        return True
    try:
        return ipaddress.ip_address(found[1].strip("[]")).is_loopback
    except ValueError:
        return False
