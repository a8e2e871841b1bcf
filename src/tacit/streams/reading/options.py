"""Settings of reading: the encoding of a text file, its separator, decimal mark and quotes, and marks of gaps."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tacit.core.errors import ConfigError

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
"""Separators that files have, in words."""

OF_NO_FILE = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"})
"""Encodings of Python that are of addresses and programs, and of no file."""
NO_MORE: Mapping[str, str] = {"extra": "forbid"}
"""Of records that are read from a file: one with more in it than is known here is refused, not half understood."""


@dataclass(frozen=True)
class Reading:
    """How text is read, in a file or in a column.

    Example:
      >>> from tacit.streams import Reading
      >>> Reading(separator=";", decimal=",").quote
      '"'
    """

    encoding: str | None = None
    """Of files that are neither UTF-8 nor UTF-16 with its mark; None: such a file is refused."""
    separator: str | None = None
    """Between fields of a line; None: a comma, or a tab where the file's name ends in .tsv."""
    decimal: Literal[".", ","] = "."
    """Mark before the fraction of a number."""
    quote: str = '"'
    """Mark around a field that holds separators; empty: there is none."""
    missing_marks: tuple[str, ...] | None = None
    """Words that stand for a gap besides NA, null and the like; None: a lone "?" or "-" is refused, since it may be."""
    time_format: str | None = None
    """Format of times as `datetime.strptime` has it, e.g. "%d.%m.%Y %H:%M"; None: 2015-02-04 17:51:00."""

    __pydantic_config__ = NO_MORE

    def __post_init__(self) -> None:
        if self.encoding is not None:
            try:
                known = codecs.lookup(self.encoding)
                text = getattr(known, "_is_text_encoding", True) and known.name not in OF_NO_FILE
            except (LookupError, ValueError):
                text = False
            if not text:
                raise ConfigError(
                    f"encoding = {self.encoding!r}: there is no such encoding; expected a name such as 'cp1252', "
                    "'latin-1' or 'utf-16-le'"
                )
        for name, mark, least in (("separator", self.separator, 1), ("quote", self.quote, 0)):
            if mark is not None and (not least <= len(mark) <= 1 or mark in ("\n", "\r", "\0") or not mark.isascii()):
                raise ConfigError(f"{name} = {mark!r}: expected one character, e.g. {_example(name)}")
        if self.decimal not in (".", ","):
            raise ConfigError(f"decimal = {self.decimal!r}: expected '.' or ','")
        if self.separator is not None and self.separator in (self.decimal, self.quote):
            raise ConfigError(
                f"separator = {self.separator!r} is also the mark of decimals or quotes; give these different marks"
            )


PLAIN = Reading()
"""Without any settings."""


def _example(name: str) -> str:
    return '";" or "\\t" (a tab)' if name == "separator" else '"\'", or "" for none'
