"""Text files: their encoding found or refused with the byte's place, and their lines.

UTF-8 is known by itself, UTF-16 by the mark that it begins with. In all other encodings any byte means something, so
that none can be found in a file: it has to be said, and a refusal shows how a word would read.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from tacit.core.errors import DataError
from tacit.streams.reading.bounded import open_bytes
from tacit.streams.reading.options import SEPARATORS, Reading

LONGEST_LINE = 2**24
"""Bytes."""
UTF_8 = "utf-8"
BY_MARK = {
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""First bytes of a file -> its encoding; the longer ones first."""
MOSTLY_MEANT = "cp1252"
"""Encoding of Windows for western Europe, which has all letters of Latin-1."""


class _Transcoded(io.RawIOBase):
    """The content of a file as UTF-8."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._path, self._encoding = path, encoding
        self._content = open_bytes(path)
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready, self._taken, self._lines = b"", 0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            raw = self._content.read(2**18)
            try:
                text = self._decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as fault:
                good = fault.object[: fault.start].decode(self._encoding, "replace")
                line = self._lines + good.count("\n") + 1
                raise DataError(
                    f"{self._path}, line {line}: byte {fault.object[fault.start]:#04x}, about byte "
                    f"{self._taken + fault.start:,} of the file, is not {self._encoding} ({fault.reason}); name the "
                    "encoding that the file was saved in, or save it as UTF-8"
                ) from fault
            except UnicodeError as fault:  # of UTF-16 and UTF-32, whose first bytes say in which order bytes come
                raise DataError(
                    f"{self._path}: not {self._encoding} ({fault}); leave encoding out, or name the order of bytes, "
                    f"as {self._encoding}-le"
                ) from fault
            self._taken += len(raw)
            self._lines += text.count("\n")
            self._ready = text.encode(UTF_8, "surrogatepass")
            if not raw:
                break
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def close(self) -> None:
        self._content.close()
        super().close()


def open_text(path: Path, encoding: str) -> io.BufferedReader:
    """Open a text file; what is read are bytes of UTF-8."""
    return open_bytes(path) if encoding == UTF_8 else io.BufferedReader(_Transcoded(path, encoding), 2**18)


def text_lines(path: Path, encoding: str = UTF_8) -> Iterator[str]:
    """Yield the lines of a text file with their ends; one that is too long to be a row is refused."""
    for number, line in _lines(path, encoding):
        plain = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        for part in plain.splitlines(keepends=True):  # at \r alone too, as old programs write it
            yield part.decode(UTF_8, "replace")


def _lines(path: Path, encoding: str) -> Iterator[tuple[int, bytes]]:
    with open_text(path, encoding) as content:
        for number in itertools.count(1):
            line = content.readline(LONGEST_LINE)
            if not line:
                return
            if len(line) == LONGEST_LINE:
                raise DataError(
                    f"{path}, line {number}: longer than {LONGEST_LINE:,} characters; write one record per line"
                )
            yield number, line


class Survey(NamedTuple):
    """A text file, looked through once."""

    encoding: str
    blank: bool
    """Whether a line that is blank comes before one that is not."""
    unclosed: bool
    """Whether there is a quote too many."""


def survey(path: Path, reading: Reading) -> Survey:
    """Look through a text file for its encoding, or refuse what is none.

    Args:
      path: The file.
      reading: The encoding to take where the file is not UTF-8, and its mark of quotes.
    """
    with open_bytes(path) as content:
        start = content.read(4)
    marked = next((known for mark, known in BY_MARK.items() if start.startswith(mark)), None)
    given = None if reading.encoding is None else codecs.lookup(reading.encoding).name
    given = None if given in (UTF_8, "utf-8-sig", "ascii") else given
    encoding = marked or (given if given is not None and not _of_single_bytes(given) else UTF_8)
    fault: tuple[int, int, bytes, int] | None = None  # line, place in the file, the line, place in it
    quote = reading.quote.encode()
    quotes, place, empty, blank = 0, 0, False, False
    for number, line in _lines(path, encoding):
        if fault is None and not line.isascii():
            try:
                line.decode(UTF_8)
            except UnicodeDecodeError as error:
                fault = (number, place + error.start, line, error.start)
        if b"\0" in line:
            _refuse_zero(path, number, place + line.index(b"\0"))
        quotes += line.count(quote) if quote else 0
        something = bool(line.strip())
        blank, empty = blank or (empty and something), empty or not something
        place += len(line)
    if fault is not None and given is None:
        _refuse_byte(path, reading, *fault)
    if fault is not None and given is not None:
        encoding = given
    return Survey(encoding, blank, quotes % 2 == 1)


def _of_single_bytes(encoding: str) -> bool:
    """Whether each byte is a letter, as in Latin-1: where such a file is valid UTF-8 all through, it is UTF-8."""
    every = bytes(range(128))
    return (
        len(bytes(range(256)).decode(encoding, "replace")) == 256
        and every.decode(encoding, "replace") == every.decode()
    )


def _refuse_zero(path: Path, line: int, place: int) -> NoReturn:
    guess = "utf-16-le" if place % 2 else "utf-16-be"
    raise DataError(
        f"{path}, line {line}: byte {place:,} of the file is zero, which no text has; if it was saved as UTF-16, say "
        f'encoding = "{guess}"; otherwise it is no text file'
    )


def _refuse_byte(path: Path, reading: Reading, line: int, place: int, content: bytes, start: int) -> NoReturn:
    """Refuse a byte that is not UTF-8, and show how its word would read."""
    separator = reading.separator or max(SEPARATORS, key=lambda mark: content.count(mark.encode()))
    before = next(csv.reader([content[:start].decode(MOSTLY_MEANT, "replace")], delimiter=separator), [""])
    fields = next(csv.reader([content.decode(MOSTLY_MEANT, "replace")], delimiter=separator), [""])
    column = max(len(before) - 1, 0)
    word = fields[column] if column < len(fields) else ""
    word = word.strip() if len(word) < 80 else f"... {word[max(len(before[-1]) - 20, 0) :][:40]} ..."
    byte = f"byte {content[start]:#04x} (byte {place:,} of the file)"
    raise DataError(
        f"{path}, line {line}, field {column + 1}: {byte} is not UTF-8; "
        f'by encoding = "{MOSTLY_MEANT}" (Windows, western Europe) the word reads {word!r}: say so if that is right, '
        "or name the encoding that the file was saved in"
    )
