"""The head of an HTTP/1.1 request (RFC 9112), read strictly: what is not plainly well-formed is refused."""

from __future__ import annotations

import ipaddress
import re
from http import HTTPStatus
from typing import NamedTuple

LONGEST_HEAD = 2**14
LONGEST_BODY = 2**20

_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,1023}) HTTP/(\d)\.(\d)")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?")
_ONCE = ("host", "content-length", "content-type", "transfer-encoding", "connection", "expect")


class Refused(Exception):  # noqa: N818 - it is what happened to the request
    """A request that gets no further; never leaves the server."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, headers


class Request(NamedTuple):
    """What a request's head says."""

    method: str
    path: str
    """Without the query."""
    version: tuple[int, int]
    headers: dict[str, str]
    """By lower-case name; of a header that is repeated, the last."""

    @property
    def keep_alive(self) -> bool:
        """Whether the client wants to ask again on this connection."""
        options = [option.strip().lower() for option in self.headers.get("connection", "").split(",")]
        return "close" not in options and (self.version >= (1, 1) or "keep-alive" in options)

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for a word before it sends the body."""
        return self.headers.get("expect", "").lower() == "100-continue"

    def body_length(self) -> int:
        """Return how many bytes follow, or refuse a body that is not JSON of a known and modest length."""
        length = self.headers.get("content-length")
        if self.method != "POST":
            if length not in (None, "0"):
                raise Refused(HTTPStatus.BAD_REQUEST, f"{self.method} has no body")
            return 0
        kind = self.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected Content-Type: application/json")
        if length is None:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if not re.fullmatch(r"[0-9]{1,18}", length):
            raise Refused(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")
        if int(length) > LONGEST_BODY:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {LONGEST_BODY} bytes; send parts")
        return int(length)


def parse_head(head: bytes) -> Request:
    """Read a request line and headers up to the empty line, or refuse them."""
    first, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise Refused(HTTPStatus.BAD_REQUEST, "the request line is malformed")
    version = int(found[3]), int(found[4])
    if version not in ((1, 0), (1, 1)):
        raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "expected HTTP/1.1")
    headers: dict[str, str] = {}
    for field in fields:
        parts = _FIELD.fullmatch(field)
        if parts is None:
            raise Refused(HTTPStatus.BAD_REQUEST, "a header is malformed")
        name = parts[1].decode().lower()
        if name in headers and name in _ONCE:
            raise Refused(HTTPStatus.BAD_REQUEST, f"the header {name} is there twice")
        headers[name] = parts[2].decode("latin-1")
    if "transfer-encoding" in headers:
        raise Refused(HTTPStatus.NOT_IMPLEMENTED, "no transfer encoding is known here; send a Content-Length")
    if headers.get("expect", "100-continue").lower() != "100-continue":
        raise Refused(HTTPStatus.EXPECTATION_FAILED, "the only expectation known here is 100-continue")
    if not _is_loopback(headers.get("host", "")):
        raise Refused(
            HTTPStatus.MISDIRECTED_REQUEST, "expected a Host header with a loopback name: localhost, 127.0.0.1"
        )
    return Request(found[1].decode(), found[2].decode().split("?")[0], version, headers)


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
