"""CSV files: read as text, with the line of every fault and a hint at the setting that it asks for."""

from __future__ import annotations

import csv
import itertools
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tacit.core.errors import DataError
from tacit.core.extras import require
from tacit.streams.learnt import Learnt
from tacit.streams.reading.options import SEPARATORS, Reading
from tacit.streams.reading.source import Source
from tacit.streams.reading.text import UTF_8, Survey, open_text, survey, text_lines

UNREADABLE = (OSError, EOFError, zlib.error, csv.Error)


@dataclass(frozen=True)
class CsvFile:
    """A text file of records, one per line but for line breaks inside of quotes."""

    path: Path
    reading: Reading
    separator: str
    found: Survey

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the last line's number and the fields of each record that is not blank; only to explain a fault."""
        reader = csv.reader(
            text_lines(self.path, self.found.encoding),
            delimiter=self.separator,
            quotechar=self.reading.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.reading.quote else csv.QUOTE_NONE,
        )
        for fields in reader:
            if fields:
                yield reader.line_num, fields

    def header(self) -> list[str]:
        """Return the names of the columns; none where they cannot be read, which is then explained."""
        try:
            return next(self.records(), (0, []))[1]
        except UNREADABLE:
            return []

    def line(self, row: int) -> int:
        """Return the line in which a row begins."""
        line, fields = next(itertools.islice(self.records(), row + 1, None))
        return line - breaks(fields)

    def check_header(self) -> list[str]:
        """Return the names of the columns, or refuse a file that has another separator."""
        names = self.header()
        for other, word in SEPARATORS.items():
            held = [name for name in names if other in name]
            if other == self.separator or not held or len(names) > sum(name.count(other) for name in held):
                continue
            decimal = " and, if numbers have a decimal comma, decimal = ','" if other != "," else ""
            raise DataError(
                f"{self.path}, line 1: the header has {len(names)} column{'s' if len(names) > 1 else ''} by "
                f"separator = {self.separator!r}, and {held[0][:60]!r} holds a {word}; if that is the separator, say "
                f"separator = {other!r}{decimal}"
            )
        refuse_doubled(str(self.path), [name.strip() for name in names])
        return names

    def table(self, names: Sequence[str]) -> Any:
        """Return the records as an Arrow table of text."""
        pyarrow, arrow_csv = require("pyarrow", extra="data"), require("pyarrow.csv", extra="data")
        parsing = arrow_csv.ParseOptions(
            delimiter=self.separator, quote_char=self.reading.quote or False, newlines_in_values=True
        )
        converting = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.large_string()))
        try:
            with self.content(pyarrow) as content:
                table = arrow_csv.read_csv(content, parse_options=parsing, convert_options=converting)
        except (pyarrow.ArrowException, *UNREADABLE) as fault:
            self.explain(fault)
        if self.found.unclosed:
            self.refuse_unclosed()
        return table.rename_columns([name.strip() for name in table.column_names])

    def content(self, pyarrow: Any) -> Any:
        """Return the text as a file of Arrow's own.

        Arrow reads ahead in threads of its own. One that still holds a Python object while the interpreter ends takes
        the process down, after all was done.
        """
        if self.found.encoding == UTF_8 and not self.path.name.lower().endswith(".gz"):
            return pyarrow.OSFile(str(self.path))
        copy = pyarrow.BufferOutputStream()
        with open_text(self.path, self.found.encoding) as content:
            while part := content.read(2**20):
                copy.write(part)
        return pyarrow.BufferReader(copy.getvalue())

    def explain(self, fault: Exception) -> NoReturn:
        """Refuse a file that cannot be read, with the line that differs from the header."""
        try:
            if self.found.unclosed:
                self.refuse_unclosed()
            records = self.records()
            _, header = next(records, (0, []))
            for line, fields in records:
                if len(fields) != len(header):
                    raise DataError(
                        f"{self.path}, line {line}: {len(fields)} fields, but the header names {len(header)} columns; "
                        f"name every column in the header, and quote values that hold {self.separator!r}"
                    ) from fault
        except UNREADABLE:
            pass  # it cannot be read as text either: the first fault says why
        raise DataError(
            f"{self.path}: not a CSV file that can be read ({fault}); save it as UTF-8 with a header line"
        ) from fault

    def refuse_unclosed(self) -> None:
        """Refuse a file with a quote that is not closed, which takes the lines below it into one field."""
        quote, last = self.reading.quote, 0
        for line, fields in self.records():
            if breaks(fields) and any(quote in field or field.endswith(("\n", "\r")) for field in fields):
                raise DataError(
                    f"{self.path}, line {last + 1}: a quote ({quote}) that is not closed on its line, and their "
                    f'number in the file is odd; close it, or say quote = "" if {quote} is a letter like others'
                )
            last = line

    def blank(self) -> tuple[Learnt, ...]:
        """Note a blank line between records: it is none, so that one that became blank would move those after it."""
        last = 0
        for line, fields in self.records() if self.found.blank else ():
            if line - breaks(fields) > last + 1:
                what = f"{self.path.name} has a record less: line {last + 1} is blank"
                return (Learnt("rows", what, "a record there, or no line"),)
            last = line
        return ()


def breaks(fields: Sequence[str]) -> int:
    """Return how many line breaks stand inside of quotes."""
    return sum(field.count("\n") for field in fields)


def open_csv(path: Path, reading: Reading) -> Source:
    """Open a CSV file, compressed or not."""
    require("pyarrow", extra="data")
    plain = path.name.lower().removesuffix(".gz")
    try:
        found = survey(path, reading)
    except UNREADABLE as fault:
        raise DataError(f"{path}: not a CSV file that can be read ({fault}); write it anew") from fault
    file = CsvFile(path, reading, reading.separator or ("\t" if plain.endswith(".tsv") else ","), found)
    table = file.table(file.check_header())
    names = tuple(table.column_names)
    return Source(str(path), names, names, table.column, lambda row: f"line {file.line(row)}", file.blank(), reading)


def refuse_doubled(name: str, columns: Sequence[str]) -> None:
    """Refuse a table in which two columns have one name."""
    for column, times in Counter(columns).items():
        if times > 1:
            raise DataError(f"{name}: column {column!r} occurs more than once; give each column a name of its own")
