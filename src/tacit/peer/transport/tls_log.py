"""Reasons of failed TLS handshakes, read from gRPC's own log.

gRPC does its handshakes in its C core, and a server in Python hears nothing of those that it refuses: no interceptor,
handler or state tells of them (github.com/grpc/grpc/issues/38665 asks for it). With GRPC_VERBOSITY=INFO the core writes
one line for each on file descriptor 2. So that descriptor is led through a pipe: a thread takes out the lines about
handshakes and writes all else to where it went before. None of this is on the way of a message.

The lines do not say which side this process was on: handshakes that it refused as a server and those that it refused
as a dialler count alike. Only a wrong server name is not counted here: the dialler learns it from the call that failed.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import select
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tacit.core.errors import said

REASONS = (
    "no certificate",
    "expired",
    "not yet valid",
    "unknown authority",
    "certificate",
    "plaintext",
    "old tls",
    "handshake",
)
"""Every result of `handshake_reason`; "certificate" and "handshake" are for faults that no other word describes."""

_SIGNS = (
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "no certificate"),
    ("certificate has expired", "expired"),
    ("certificate is not yet valid", "not yet valid"),
    # An authority of another name has no issuer here; one that took our authority's name cannot sign as it does.
    ("unable to get local issuer certificate", "unknown authority"),
    ("self signed certificate", "unknown authority"),
    ("certificate signature failure", "unknown authority"),
    ("CERTIFICATE_VERIFY_FAILED", "certificate"),
    ("BAD_SIGNATURE", "certificate"),
    ("WRONG_VERSION_NUMBER", "plaintext"),  # the first bytes are not a TLS record
    ("HTTP_REQUEST", "plaintext"),
    ("HTTPS_PROXY_REQUEST", "plaintext"),
    # TLS 1.2 is offered no cipher suite (see identity.credentials); TLS 1.1 and older are off in gRPC itself.
    ("NO_SHARED_CIPHER", "old tls"),
    ("UNSUPPORTED_PROTOCOL", "old tls"),
)

_CORE_LINE = re.compile(rb"[IWEF]\d{4} [\d:.]+ +\d+ [\w./-]+:\d+\] (?P<text>.*)")
_BEGUN = re.compile(rb"[IWEF](\d{0,4}$|\d{4} )")
_FAILED = b"Handshake failed with"
_TOLD_ELSEWHERE = (
    b"No match found for server name",  # see `tacit.peer.identity.credentials.refused_server`
    b"Log level INFO is not suitable for production",
)
_PIPE_BYTES, _LONGEST_LINE = 1 << 20, 1 << 14


def handshake_reason(text: str) -> str:
    """Return why a handshake failed, as one of `REASONS`, from gRPC's description."""
    return next((reason for sign, reason in _SIGNS if sign in text), "handshake")


class HandshakeLog:
    """Hands each failed handshake of this process to `on_refusal(reason, line)`, until it is closed.

    Open it before the first use of gRPC, which reads its verbosity then. `on_refusal` is called in the log's own
    thread, which must not write to standard error (it would wait for itself if the pipe were full): pass the work on,
    for example with `loop.call_soon_threadsafe`. A child started meanwhile writes into the pipe as well.
    """

    def __init__(self, on_refusal: Callable[[str, str], None], on_other: Callable[[str], None] | None = None) -> None:
        """Begin; `on_other` gets the core's other lines, which go to standard error as they are where it is None."""
        self._on_refusal, self._on_other = on_refusal, on_other
        self._begun, self._inside_line, self._closed = b"", False, False
        os.environ["GRPC_VERBOSITY"] = "INFO"
        _flush_stderr()
        self._real = os.dup(2)
        self._source, sink = os.pipe()
        self._closing, self._close_it = os.pipe()
        with contextlib.suppress(AttributeError, OSError):  # Linux only; elsewhere the pipe keeps its size
            # Room enough that nobody waits: a writer that waited and held Python's lock would stop the reader.
            fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(self._source, False)
        os.dup2(sink, 2)
        os.close(sink)
        # A daemon, because others are waited for before `atexit` calls `close`, which ends it.
        self._thread = threading.Thread(target=self._run, name="tacit-handshake-log", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give standard error back; what was written before is delivered first. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        _flush_stderr()
        os.dup2(self._real, 2)
        os.close(self._close_it)  # not the end of the pipe: a child may still hold that open
        self._thread.join()
        for descriptor in (self._source, self._closing, self._real):
            os.close(descriptor)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._closing, select.POLLIN)
        closing = False
        while not closing:
            closing = any(descriptor == self._closing for descriptor, _ in poll.poll())
            with contextlib.suppress(BlockingIOError):
                while data := os.read(self._source, _PIPE_BYTES):
                    self._take(data)
                with contextlib.suppress(KeyError):  # somebody put another file in the place of descriptor 2
                    poll.unregister(self._source)
        self._pass_on(self._begun)

    def _take(self, data: bytes) -> None:
        *lines, last = (self._begun + data).split(b"\n")
        for line in lines:
            self._take_line(line)
        # Half a line of the core waits for the other half; anything else (a prompt, a progress bar) is not kept back.
        if not self._inside_line and _BEGUN.match(last) and len(last) < _LONGEST_LINE:
            self._begun = last
        else:
            self._begun = b""
            self._inside_line = self._inside_line or bool(last)
            self._pass_on(last)

    def _take_line(self, line: bytes) -> None:
        found = None if self._inside_line else _CORE_LINE.fullmatch(line)
        self._inside_line = False
        if found is None:
            self._pass_on(line + b"\n")
        elif not found["text"].startswith(_TOLD_ELSEWHERE):
            text = line.decode("utf-8", "backslashreplace")
            try:
                self._hand_over(found["text"].startswith(_FAILED), text)
            except Exception as error:  # the log goes on: it carries everybody's standard error
                self._pass_on(line + f"\nthis line could not be counted: {said(error)}\n".encode())

    def _hand_over(self, refusal: bool, text: str) -> None:
        if refusal:
            self._on_refusal(handshake_reason(text), text)
        elif self._on_other is not None:
            self._on_other(text)
        else:
            self._pass_on(f"{text}\n".encode())

    def _pass_on(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody reads standard error any more: that must not stop its writers
            while data:
                data = data[os.write(self._real, data) :]


def _flush_stderr() -> None:
    with contextlib.suppress(ValueError, OSError, AttributeError):  # closed, broken, or none
        sys.stderr.flush()
