"""A peer's log: one event per line, as JSON for machines or as text for people.

    log = Log()
    log.info("round finished", round=7, heard=3)
    log.seldom("file", "row skipped", line=12)     # at most one a second for the key "file"

Events describe the work, never the data: no secret, no sample, no model or message value. An array that gets here by
mistake is written as its type and shape, bytes as their number.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from tacit.core.errors import ConfigError

NAME = "tacit.peer"
LEVELS = ("debug", "info", "warning", "error")
MOST_KEYS = 1024
"""Keys that are remembered for rate limiting; the one not seen for longest is forgotten first."""

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "text"]


_PEER: ContextVar[str | None] = ContextVar("peer", default=None)
"""Name of the peer whose parts are made in this context, where a process has several."""


def name_peer(name: str, level: Level) -> None:
    """Have every log that is made in this context, from here on, carry a peer's name and keep to its level."""
    _PEER.set(name)
    logging.getLogger(f"{NAME}.{name}").setLevel(level.upper())


class Log:
    """Events with fields, written through the standard library's logger of a name."""

    def __init__(self, name: str = NAME, *, interval: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Log to `name`; `seldom` lets one event per key through in `interval` seconds."""
        peer = _PEER.get()
        self._given = {} if peer is None else {"peer": peer}
        self._logger = logging.getLogger(name if peer is None else f"{name}.{peer}")
        self._interval, self._clock = interval, clock
        self._lock = threading.Lock()
        self._last: OrderedDict[str, tuple[float, int]] = OrderedDict()

    @property
    def logger(self) -> logging.Logger:
        """The standard library's logger that it writes to."""
        return self._logger

    @property
    def detailed(self) -> bool:
        """Whether `debug` is written; ask before building an expensive entry."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, /, **fields: object) -> None:
        """Log a detail for developers."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Log the normal course of things."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log something that an operator should look at."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, fault: BaseException | None = None, **fields: object) -> None:
        """Log an error, with its traceback if `fault` is given."""
        self._write(logging.ERROR, event, fields, fault)

    def seldom(self, key: str, event: str, /, **fields: object) -> None:
        """Log a warning unless one with this key was logged just now; the next one says how many were `suppressed`."""
        now = self._clock()
        with self._lock:
            last, suppressed = self._last.get(key, (-math.inf, 0))
            quiet = now - last < self._interval
            self._last[key] = (last, suppressed + 1) if quiet else (now, 0)
            self._last.move_to_end(key)
            if len(self._last) > MOST_KEYS:
                self._last.popitem(last=False)
        if not quiet:
            self._write(logging.WARNING, event, {**fields, "suppressed": suppressed} if suppressed else fields)

    def _write(self, level: int, event: str, fields: Mapping[str, object], fault: BaseException | None = None) -> None:
        self._logger.log(level, "%s", event, extra={"tacit_fields": {**self._given, **fields}}, exc_info=fault)


def configure(format: Format = "json", level: Level = "info", stream: TextIO | None = None) -> None:
    """Send the events of a peer to a stream (standard error unless given), and nowhere else; may be called again."""
    if format not in _FORMATTERS:
        raise ConfigError(f"log format {format!r}: expected one of {', '.join(_FORMATTERS)}")
    if level not in LEVELS:
        raise ConfigError(f"log level {level!r}: expected one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(_FORMATTERS[format]())
    logger = logging.getLogger(NAME)
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


class _JsonLines(logging.Formatter):
    """One JSON object per line: time, level, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_content(self, record), ensure_ascii=False, allow_nan=False)


class _TextLines(logging.Formatter):
    """Time, level and event, then key=value; what is not one plain word is quoted, so that a line stays a line."""

    def format(self, record: logging.LogRecord) -> str:
        content = _content(self, record)
        head = f"{content.pop('time')} {content.pop('level'):<7} {_one_line(content.pop('event'))}"
        return " ".join([head, *(f"{key}={_word(value)}" for key, value in content.items())])


_FORMATTERS: dict[str, Callable[[], logging.Formatter]] = {"json": _JsonLines, "text": _TextLines}


def _content(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    content: dict[str, Any] = {
        "time": moment.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "event": record.getMessage(),
    }
    for key, value in getattr(record, "tacit_fields", {}).items():
        content[f"{key}_" if key in content else key] = _plain(value)
    if record.exc_info:
        content["fault"] = formatter.formatException(record.exc_info)
    return content


def _plain(value: object) -> Any:
    """Return a JSON value: never the content of an array or of bytes, and text for types that JSON lacks."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        value = f"<{value.dtype} of shape {tuple(value.shape)}>" if value.shape else value.item()  # type: ignore[attr-defined]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    plain = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else str(value)


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)


def _word(value: object) -> str:
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "='):
        return value
    return json.dumps(value, ensure_ascii=not str(value).isprintable())
