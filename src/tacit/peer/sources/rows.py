"""Records as samples: CSV with a header line, JSON lines, messages of a broker, rows of a query.

A row has an identity, by which its record is known when it comes again. It is made of all fields with their names, or
of the key's alone, in a form that does not depend on line ends, blanks around a field, quotes, the order of the columns
or the spelling of numbers: 1, 1.0 and 1e0 are one number. A row that cannot be read is known by its bytes.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from tacit.core.errors import DataError
from tacit.peer.sources.queue import Sample, SampleForm, kind_of

_LONG = 1e40
"""Whole numbers up to here are read digit by digit, however they are written."""
CHUNK = 2**16
LONGEST_LINE = 2**20
"""Bytes of a header or row."""

Read = Callable[[int, int], bytes]
"""Offset and length -> bytes of the file, fewer where it ends."""


class Row(NamedTuple):
    """Content of a line."""

    digest: bytes
    """Digest of its identity."""
    columns: str
    """Digest of the names of its fields, in any order; empty where it cannot be read."""
    sample: Sample | None
    """None: it cannot be used, for `fault`."""
    fault: DataError | None = None

    @classmethod
    def unreadable(cls, line: bytes, fault: DataError) -> Row:
        """Return the row of a line that cannot be read."""
        return cls(_digest(b"line ", line.removeprefix(b"\xef\xbb\xbf").strip()), "", None, fault)


@dataclass(frozen=True)
class Header:
    """Description of a file's rows, from its beginning."""

    start: int
    """Offset of the first row."""
    lines: int
    form: SampleForm
    """With the names of the features."""
    columns: tuple[int, ...] = ()
    """CSV: positions of the features, then of the label."""
    names: tuple[str, ...] = ()
    """CSV: of all fields of a row."""


class Records(ABC):
    """Maker of samples from fields with names, and of the digests by which their records are known."""

    def __init__(
        self, name: str, form: SampleForm, label: str, features: Sequence[str] | None, key: Sequence[str] = ()
    ) -> None:
        self.name, self.form, self.label, self.features, self.key = name, form, label, features, tuple(key)

    def _made(self, header: Header, fields: list[tuple[str, Any]], line: bytes, where: str) -> Row:
        """Return the row of some fields; it is known by `line` where its key is missing."""
        named = sorted(((name, _canonical(value)) for name, value in fields), key=repr)
        key = [[value for other, value in named if other == name] for name in self.key]
        for name, values in zip(self.key, key, strict=True):
            if values in ([], [""]):
                text = f"{where}, column {name!r}: the key is missing, by which the record is known; fill it in"
                return Row.unreadable(line, DataError(text))
        found = _digest(b"key " if self.key else b"row ", _text(key or named)), _columns(tuple(n for n, _ in named))
        try:
            return Row(*found, self._sample(header, fields, where))
        except DataError as bad:
            return Row(*found, None, bad)

    @abstractmethod
    def _sample(self, header: Header, fields: list[tuple[str, Any]], where: str) -> Sample: ...


class Rows(Records):
    """Reader of a format of lines."""

    def header(self, read: Read) -> Header | None:
        """Return the header; None where it is not complete yet. A file that cannot be used is refused."""
        if read(0, 2) == b"\x1f\x8b":
            raise DataError(f"{self.name}: it is compressed by gzip, which cannot be followed; write plain lines")
        return self._header(read)

    @abstractmethod
    def _header(self, read: Read) -> Header | None: ...

    def row(self, header: Header, line: bytes, where: str) -> Row:
        """Return the content of a line that is not blank."""
        try:
            fields = self._read(header, line.decode("utf-8-sig"), where)
        except UnicodeDecodeError as fault:
            bad = DataError(f"{where}: byte {fault.start} is not UTF-8; write the file in UTF-8")
            return Row.unreadable(line, bad)
        except DataError as bad:
            return Row.unreadable(line, bad)
        return self._made(header, fields, line, where)

    @abstractmethod
    def _read(self, header: Header, text: str, where: str) -> list[tuple[str, Any]]:
        """Return the fields of a line with their names."""


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
        apart = {self.label, *self.key}
        features = [name for name in names if name not in apart] if self.features is None else list(self.features)
        for name in (*features, self.label, *self.key):
            if names.count(name) != 1:
                raise DataError(
                    f"{self.name}, line 1: column {name!r} is named {names.count(name)} times in the header; expected "
                    "once: mend the header line, or the names in the configuration"
                )
        if len(features) != self.form.features:
            raise DataError(
                f"{self.name}, line 1: {len(features)} columns besides "
                f"{', '.join(map(repr, (self.label, *self.key)))}; expected {self.form.features}, "
                "the features of the job: name the columns to be used"
            )
        columns = tuple(names.index(name) for name in (*features, self.label))
        return Header(end + 1, 1, self.form._replace(names=tuple(features)), columns, tuple(names))

    def _read(self, header: Header, text: str, where: str) -> list[tuple[str, Any]]:
        fields = _fields(text, where)
        if len(fields) != len(header.names):
            raise DataError(f"{where}: {len(fields)} fields; expected {len(header.names)}, as in the header")
        return list(zip(header.names, fields, strict=True))

    def _sample(self, header: Header, fields: list[tuple[str, Any]], where: str) -> Sample:
        *features, label = (fields[at] for at in header.columns)
        x = [_parsed(text, f"{where}, column {name!r}") for name, text in features]
        named = label[1].strip() in (header.form.class_names or ())
        y = label[1] if named else _parsed(label[1], f"{where}, column {label[0]!r}", header.form.class_names)
        return header.form.check(x, y, where)


class JsonRows(Rows):
    """An object per line, or per message of a broker."""

    def message(self, payload: bytes | None, where: str) -> Row:
        """Return the content of a message."""
        payload = payload or b""
        if len(payload) > LONGEST_LINE:
            return Row.unreadable(payload, DataError(f"{where}: longer than {LONGEST_LINE} bytes"))
        return self.row(self._own_header(), payload, where)

    def _header(self, read: Read) -> Header | None:
        return self._own_header()

    def _own_header(self) -> Header:
        names = None if self.features is None else tuple(self.features)
        return Header(0, 0, self.form if names is None else self.form._replace(names=names))

    def _read(self, header: Header, text: str, where: str) -> list[tuple[str, Any]]:
        try:
            row = json.loads(text, parse_float=lambda digits: _plain(float(digits)))
            json.dumps(row)  # may be nested too deeply for that
        except (ValueError, RecursionError):
            raise DataError(f"{where}: not JSON; write one object per line") from None
        if not isinstance(row, dict):
            raise DataError(f"{where}: {kind_of(row)}; expected an object")
        return list(row.items())

    def _sample(self, header: Header, fields: list[tuple[str, Any]], where: str) -> Sample:
        row = dict(fields)
        names = ("x",) if self.features is None else tuple(self.features)
        for name in (*names, self.label):
            if name not in row:
                raise DataError(f"{where}, column {name!r}: it is missing; fill it in, or leave the row out")
        x = row["x"] if self.features is None else [row[name] for name in names]
        return header.form.check(x, row[self.label], where)


class QueryRows(Records):
    """Rows of a query, whose columns have names and values of their own types."""

    def __init__(
        self,
        name: str,
        form: SampleForm,
        label: str,
        features: Sequence[str] | None,
        key: Sequence[str],
        apart: Sequence[str] = (),
    ) -> None:
        """Take columns that are `apart`: no features, besides the label and the key."""
        super().__init__(name, form, label, features, key)
        self._apart = {label, *key, *apart}

    def record(self, row: Mapping[str, Any], where: str) -> Row:
        """Return the content of a row."""
        fields = [(name, _of_data_base(value)) for name, value in row.items()]
        names = self.features
        if names is None:
            names = [name for name in row if name not in self._apart]
        header = Header(0, 0, self.form._replace(names=tuple(names)))
        return self._made(header, fields, _text([[name, str(value)] for name, value in fields]), where)

    def _sample(self, header: Header, fields: list[tuple[str, Any]], where: str) -> Sample:
        row, names = dict(fields), header.form.names or ()
        for name in (*names, self.label):
            if name not in row:
                raise DataError(f"{where}: the query has no column {name!r}; name those of the query in [stream]")
        return header.form.check([row[name] for name in names], row[self.label], where)


def _of_data_base(value: Any) -> Any:
    """Return a value of a data base as JSON would have it."""
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bool | float):
        return int(value) if isinstance(value, bool) else _plain(value)
    return value if value is None or isinstance(value, int | str) else str(value)


def _text(content: object) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _digest(kind: bytes, identity: bytes) -> bytes:
    return hashlib.sha256(kind + identity).digest()[:16]


@functools.lru_cache(maxsize=64)  # most rows of a file have the same
def _columns(names: tuple[str, ...]) -> str:
    return _digest(b"columns ", _text(names)).hex()


def _plain(number: float) -> float | int | str:
    """Return a number in canonical form; NaN, a missing value, as an empty text."""
    if math.isnan(number):
        return ""
    return int(number) if number.is_integer() else number


def _canonical(value: Any) -> Any:
    """Return the same for every spelling of a value."""
    if isinstance(value, str):
        return _number_or_text(value.strip())
    return "" if value is None else value


def _number_or_text(text: str) -> float | int | str:
    if "_" in text:  # Python reads 1_000 as a number
        return text
    try:
        return int(text)  # exactly: it may be long
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    if abs(number) < _LONG:
        with contextlib.suppress(InvalidOperation):
            exact = Decimal(text)
            if exact == exact.to_integral_value():
                return int(exact)  # exactly here too: 9007199254740993.0 is an id that was written as a decimal
    return _plain(number)


def _fields(text: str, where: str) -> list[str]:
    try:
        return next(csv.reader([text.rstrip("\r")], strict=True), [])
    except csv.Error as fault:
        raise DataError(
            f"{where}: not CSV ({fault}); quote a field that holds a comma, and double its quotes"
        ) from None


def _parsed(text: str, where: str, classes: tuple[str, ...] | None = None) -> float:
    try:
        if "_" in text:  # Python reads 1_000 as a number; in a data file it is a slip
            raise ValueError
        return float(text)
    except ValueError:
        what = "the value is missing" if not text.strip() else "text is not a number"
        also = f", nor one of {', '.join(classes)}" if classes and text.strip() else ""
        raise DataError(f"{where}: {what}{also}; fill it in, or leave the row out") from None
