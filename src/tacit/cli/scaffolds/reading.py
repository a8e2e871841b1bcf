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
from tacit.streams.reading.words import MARKS

OTHER_ENCODING = "cp1252"
"""Of a file that is not UTF-8: Windows, western Europe. It is said, since nobody can know."""


def find_reading(data: Path) -> Source:
    """Open a table by the settings that suit it best; they are in `Source.reading`."""
    text = data.name.lower().removesuffix(".gz").endswith(TEXT_ENDINGS) and not is_several(str(data))
    if not text or not data.is_file():
        return open_source(str(data))
    reading = _separated(data, _encoded(data))
    best = open_source(data, reading)
    for tried in _alternatives(best):
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


def _alternatives(source: Source) -> Iterator[Reading]:
    """Go through other settings, each made of what columns hold that cannot be read."""
    decimals = [source.reading]
    if source.reading.separator not in (None, ","):
        decimals.append(replace(source.reading, decimal=","))
        yield decimals[1]
    odd = {word for name in _refused(source) for word in _different(source, name) if MARKS.fullmatch(word)}
    if odd:
        for reading in decimals:
            yield replace(reading, missing_marks=tuple(sorted(odd)))


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
