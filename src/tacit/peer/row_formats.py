"""Rows of a text file as samples: CSV with a header line, and JSON lines."""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tacit.errors import DataError
from tacit.peer.sources import Sample, SampleForm

CHUNK = 2**16
LONGEST_LINE = 2**20
"""Bytes of a header or row."""

Read = Callable[[int, int], bytes]
"""Offset and length -> bytes of the file, fewer where it ends."""


@dataclass(frozen=True)
class Header:
    """What the beginning of a file says about its rows."""

    start: int
    """Where the rows begin."""
    lines: int
    form: SampleForm
    """With the names of the features."""
    columns: tuple[int, ...] = ()
    """CSV: positions of the features, then of the label."""
    width: int = 0
    """CSV: fields per row."""


class Rows(ABC):
    """How a format is read."""

    def __init__(self, name: str, form: SampleForm, label: str, features: Sequence[str] | None) -> None:
        self.name, self.form, self.label, self.features = name, form, label, features

    def header(self, read: Read) -> Header | None:
        """Return the header; None where it is not complete yet. A file that cannot be used is refused."""
        if read(0, 2) == b"\x1f\x8b":
            raise DataError(f"{self.name}: it is compressed by gzip, which cannot be followed; write plain lines")
        return self._header(read)

    @abstractmethod
    def _header(self, read: Read) -> Header | None: ...

    def sample(self, header: Header, line: bytes, where: str) -> Sample:
        """Return the sample of a line, or refuse it."""
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            raise DataError(f"{where}: byte {fault.start} is not UTF-8; write the file in UTF-8") from None
        return self._sample(header, text, where)

    @abstractmethod
    def _sample(self, header: Header, text: str, where: str) -> Sample: ...


class CsvRows(Rows):
    """A header line, then a row per line; a quoted field may hold commas but no line break."""

    def _header(self, read: Read) -> Header | None:
        data = read(0, CHUNK)
        if b"\n" not in data and len(data) == CHUNK:
            data = read(0, LONGEST_LINE + 1)
        end = data.find(b"\n")
        if end < 0:
            if len(data) > LONGEST_LINE:
                raise DataError(f"{self.name}, line 1: a header longer than {LONGEST_LINE} bytes; name fewer columns")
            return None
        try:
            names = _fields(data[:end].decode("utf-8-sig"), f"{self.name}, line 1")
        except UnicodeDecodeError as fault:
            raise DataError(f"{self.name}, line 1: byte {fault.start} is not UTF-8; write the file in UTF-8") from None
        names = [name.strip() for name in names]
        features = [name for name in names if name != self.label] if self.features is None else list(self.features)
        for name in (*features, self.label):
            if names.count(name) != 1:
                raise DataError(
                    f"{self.name}, line 1: column {name!r} is named {names.count(name)} times in the header; expected "
                    "once: mend the header line, or the names in the configuration"
                )
        if len(features) != self.form.features:
            raise DataError(
                f"{self.name}, line 1: {len(features)} columns besides {self.label!r}; expected {self.form.features}, "
                "the features of the job: name the columns to be used"
            )
        columns = tuple(names.index(name) for name in (*features, self.label))
        return Header(end + 1, 1, self.form._replace(names=tuple(features)), columns, len(names))

    def _sample(self, header: Header, text: str, where: str) -> Sample:
        fields = _fields(text, where)
        if len(fields) != header.width:
            raise DataError(f"{where}: {len(fields)} fields; expected {header.width}, as in the header")
        names = (*(header.form.names or ()), self.label)
        *x, y = (_parsed(fields[at], f"{where}, column {n!r}") for at, n in zip(header.columns, names, strict=True))
        return header.form.check(x, y, where)


class JsonRows(Rows):
    """An object per line."""

    def _header(self, read: Read) -> Header | None:
        names = None if self.features is None else tuple(self.features)
        return Header(0, 0, self.form if names is None else self.form._replace(names=names))

    def _sample(self, header: Header, text: str, where: str) -> Sample:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            raise DataError(f"{where}: not JSON; write one object per line") from None
        if not isinstance(row, dict):
            raise DataError(f"{where}: a JSON {type(row).__name__}; expected an object")
        names = ("x",) if self.features is None else tuple(self.features)
        for name in (*names, self.label):
            if name not in row:
                raise DataError(f"{where}, column {name!r}: it is missing; fill it in, or leave the row out")
        x = row["x"] if self.features is None else [row[name] for name in names]
        return header.form.check(x, row[self.label], where)


def _fields(text: str, where: str) -> list[str]:
    try:
        return next(csv.reader([text.rstrip("\r")], strict=True), [])
    except csv.Error as fault:
        raise DataError(
            f"{where}: not CSV ({fault}); quote a field that holds a comma, and double its quotes"
        ) from None


def _parsed(text: str, where: str) -> float:
    try:
        if "_" in text:  # Python reads 1_000 as a number; in a data file it is a slip
            raise ValueError
        return float(text)
    except ValueError:
        what = "the value is missing" if not text.strip() else "text is not a number"
        raise DataError(f"{where}: {what}; fill it in, or leave the row out") from None
