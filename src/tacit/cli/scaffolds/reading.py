"""Settings by which most of a text file can be read: encoding, separator, decimal mark and marks of gaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

from tacit.core.errors import DataError
from tacit.streams.reading.formats import TEXT_ENDINGS, is_several, open_source
from tacit.streams.reading.options import PLAIN, SEPARATORS, Reading
from tacit.streams.reading.source import Source
from tacit.streams.reading.text import survey, text_lines
from tacit.streams.reading.words import LIKE_TIME, MARKS

TIME_FORMATS = ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d/%m/%Y", "%d/%m/%Y %H:%M", "%m/%d/%Y", "%m/%d/%Y %H:%M", "%Y/%m/%d")
"""Of times that are not written as 2015-02-04 17:51:00. Where day and month may be either, the day comes first."""
OTHER_ENCODING = "cp1252"
"""Of a file that is not UTF-8: Windows, western Europe. It is said, since nobody can know."""


def find_reading(data: Path) -> Source:
    """Open a table by the settings that suit it best; they are in `Source.reading`."""
    text = data.name.lower().removesuffix(".gz").endswith(TEXT_ENDINGS) and not is_several(str(data))
    if not text or not data.is_file():
        return open_source(str(data))
    best = open_source(data, _separated(data, _encoded(data)))
    for alternatives in (_decimals, _marks, _time_formats):
        for tried in alternatives(best):
            other = open_source(data, tried)
            if len(_refused(other)) < len(_refused(best)):
                best = other
    return best


def settings_of(reading: Reading) -> dict[str, object]:
    """Return the settings that differ from the plain ones, by their keys."""
    found = {field.name: getattr(reading, field.name) for field in fields(reading)}
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in found.items()
        if value != getattr(PLAIN, key)
    }


def _encoded(path: Path) -> Reading:
    try:
        survey(path, PLAIN)
    except DataError:
        reading = replace(PLAIN, encoding=OTHER_ENCODING)
        survey(path, reading)
        return reading
    return PLAIN


def _separated(path: Path, reading: Reading) -> Reading:
    header = next(text_lines(path, survey(path, reading).encoding), "")
    usual = "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","
    counts = {mark: header.count(mark) for mark in (usual, *SEPARATORS)}
    most = max(counts, key=lambda mark: counts[mark])
    return reading if most == usual or counts[most] == 0 else replace(reading, separator=most)


def _decimals(source: Source) -> Iterator[Reading]:
    if source.reading.separator not in (None, ","):
        yield replace(source.reading, decimal=",")


def _marks(source: Source) -> Iterator[Reading]:
    """Take for gaps what stands among numbers and looks like a mark."""
    odd = {word for name in _refused(source) for word in _different(source, name) if MARKS.fullmatch(word)}
    if odd:
        yield replace(source.reading, missing_marks=tuple(sorted(odd)))


def _time_formats(source: Source) -> Iterator[Reading]:
    if any(LIKE_TIME.fullmatch(word) for name in _refused(source) for word in _different(source, name)[:5]):
        yield from (replace(source.reading, time_format=form) for form in TIME_FORMATS)


def _refused(source: Source) -> list[str]:
    found = []
    for name in source.columns:
        try:
            source.read(name)
        except DataError:
            found.append(name)
    return found


def _different(source: Source, name: str) -> list[str]:
    words = source.words(name).words
    return [] if words is None else words.different
