"""Ten tables, broken in the ways in which files are: `python -m tests.streams.broken_tables FOLDER` writes them."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

COLUMNS = ("clinic", "age", "cost", "ward", "again")
ROWS: tuple[tuple[str, ...], ...] = (
    ("Arles", "31", "4.5", "général", "no"),
    ("Zürich", "58", "2.25", "cœur", "yes"),
    ("Arles", "44", "9.0", "cœur", "yes"),
    ("Zürich", "70", "1.5", "général", "no"),
    ("Cork", "25", "6.75", "cœur", "no"),
    ("Cork", "62", "3.0", "général", "yes"),
)


def lines(columns: Sequence[str], rows: Sequence[Sequence[str]], separator: str = ",") -> str:
    return "".join(separator.join(row) + "\n" for row in (columns, *rows))


def changed(column: str, **values: str) -> list[tuple[str, ...]]:
    """Return the rows with other values in a column: by the number of the row, "r1" for the first."""
    k = COLUMNS.index(column)
    return [(*row[:k], values.get(f"r{number}", row[k]), *row[k + 1 :]) for number, row in enumerate(ROWS, start=1)]


def encoding(folder: Path, name: str = "latin.csv", code: str = "cp1252") -> Path:
    """An export of a Windows program."""
    return written(folder / name, lines(COLUMNS, ROWS).encode(code))


def separator(folder: Path, name: str = "semicolon.csv") -> Path:
    """An export where the comma is the decimal mark."""
    rows = [(*row[:2], row[2].replace(".", ","), *row[3:]) for row in ROWS]
    return written(folder / name, lines(COLUMNS, rows, ";").encode())


def gaps(folder: Path, column: str = "age", mark: str = "?", name: str = "gaps.csv") -> Path:
    """A gap that is marked by a word of the author's own."""
    return written(folder / name, lines(COLUMNS, changed(column, r3=mark)).encode())


def classes(folder: Path, labels: Sequence[str] = ("3", "1", "7", "2", "5", "6", "4", "1")) -> Path:
    """Labels that do not begin with 0."""
    return written(folder / "classes.csv", lines(("a", "kind"), [(str(k), y) for k, y in enumerate(labels)]).encode())


def dates(folder: Path, form: str = "iso") -> Path:
    """Times, as programs write them or as people do."""
    times = {
        "iso": ("2024-03-01 06:00:00", "2024-01-07 18:00:00", "2024-07-01 00:00:00"),
        "german": ("01.03.2024 06:00", "07.01.2024 18:00", "01.07.2024 00:00"),
        "zones": ("2024-03-01T06:00:00+02:00", "2024-01-07T18:00:00-05:00", "2024-07-01T00:00:00Z"),
        "broken": ("2024-03-01 06:00:00", "2024-02-30 18:00:00", "2024-07-01 00:00:00"),
    }[form]
    return written(folder / "dates.csv", lines(("at", "y"), list(zip(times, "010", strict=True))).encode())


def owners(folder: Path, odd: bool = False) -> str:
    """One file for each owner, with columns in any order."""
    for k, name in enumerate(("Bonn", "Arles", "Cork")):
        columns, rows = ("age", "again"), [(str(20 + 10 * k + j), str(j % 2)) for j in range(k + 2)]
        if k == 1:
            columns, rows = ("again", "years" if odd else "age"), [row[::-1] for row in rows]
        text = lines(columns, rows).encode()
        written(folder / f"{name}.csv.gz", gzip.compress(text)) if k == 2 else written(folder / f"{name}.csv", text)
    return str(folder / "*.csv*")


def rare(folder: Path) -> Path:
    """One positive in a hundred, the first of them after a megabyte of zeros."""
    rows = [(f"{k}.{k % 10}", "1" if k % 100 == 99 and k > 150_000 else "0") for k in range(160_000)]
    return written(folder / "rare.csv", lines(("a", "y"), rows).encode())


def few(folder: Path) -> Path:
    """Three rows."""
    return written(folder / "few.csv", lines(COLUMNS, ROWS[:3]).encode())


def huge(folder: Path, number: int = 2**53 + 1) -> Path:
    """Identifiers beyond what numbers can tell apart."""
    rows = [(str(number + k), str(number + k % 2), str(k), str(k % 2)) for k in range(4)]
    return written(folder / "huge.csv", lines(("patient", "clinic", "age", "y"), rows).encode())


def mixed(folder: Path) -> Path:
    """A word among numbers."""
    return written(folder / "mixed.csv", lines(COLUMNS, changed("age", r4="seventy", r6="sixty")).encode())


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


TABLES = (encoding, separator, gaps, classes, dates, owners, rare, few, huge, mixed)

if __name__ == "__main__":
    for make in TABLES:
        place = Path(sys.argv[1]) / make.__name__
        place.mkdir(parents=True)
        print(make(place))
