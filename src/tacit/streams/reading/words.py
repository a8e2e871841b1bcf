"""Words of a column, told apart: numbers, truths, times and true words; what looks like one and is not, is refused.

Each different word is looked at once. A slip (a word among numbers, a "?" among words, a decimal comma) is named with
its setting or its remedy, since guessing would be wrong for somebody.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError
from tacit.streams.reading.options import Reading

MISSING_WORDS = frozenset({"", "#N/A", "N/A", "NA", "n/a", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "<NA>", "NaT"})
"""Words for a missing value, in any column."""
MARKS = re.compile(r"[^\w\s]{1,3}|#[A-Z/0]+[!?]")
"""Words that are rather a mark for a gap than a value: "?", "-", "..." and errors of spreadsheets."""
TRUTHS = {word: truth for truth in (True, False) for word in (str(truth), str(truth).lower(), str(truth).upper())}
ISO_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([ T].*)?")
LIKE_TIME = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}([ T,]+\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2})?( ?[AaPp][Mm])?")
LIKE_NUMBER = re.compile(r"[+-]?[$€£]? ?\d[\d.,' \u00a0\u2009\u202f]*( ?[%$€£])?")
WITH_COMMA = re.compile(r"[+-]?\d*,\d+")
WHOLE = re.compile(r"[+-]?\d+")
LARGEST_WHOLE = 2.0**53
"""Above it not every whole number is one of double precision."""
AS_WORDS = "if these are words, list them (categories, or classes of a label)"


LEAVE_OUT = "leave the column out by features=[...]"


class SlipError(Exception):
    """A word that is not what its column holds."""

    def __init__(self, word: int, fault: str) -> None:
        super().__init__(fault)
        self.word = word
        """Number of the word."""


class Parsed(NamedTuple):
    """The different words of a column, told apart."""

    kind: Literal["number", "word", "time"]
    values: NDArray[Any]
    """Numbers, truths, text or datetime64; anything where the value is missing."""
    missing: NDArray[np.bool_]
    local: NDArray[Any] | None = None
    """Of times, as the clock showed them, where they are written with their distance from Greenwich."""
    inexact: NDArray[np.bool_] | None = None
    """Whether a whole number is beyond those of double precision."""


def is_number(value: Any) -> bool:
    """Whether text in a data file is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return "_" not in str(value)  # Python reads 1_000 as a number; in a data file it is a slip


def is_missing(words: Sequence[str], reading: Reading) -> NDArray[np.bool_]:
    """Return which words stand for a gap."""
    known = MISSING_WORDS.union(reading.missing_marks or ())
    return np.array([word in known for word in words], bool)


def parse(words: Sequence[str], reading: Reading) -> Parsed:
    """Tell apart the different words of a column, in the order in which they come.

    Args:
      words: Each once, without blanks around it.
      reading: Marks of decimals, gaps and times.

    Raises:
      SlipError: A word that does not fit the others, or is rather something else.
    """
    missing = is_missing(words, reading)
    there = [k for k, gap in enumerate(missing) if not gap]
    if not there:
        return Parsed("number", np.zeros(len(words)), missing)
    plain = {k: _plain(words[k], reading) for k in there}
    numeric = [k for k in there if plain[k] is not None]
    if len(numeric) == len(there):
        return _numbers(words, {k: word for k, word in plain.items() if word is not None}, missing)
    if numeric:
        odd = [k for k in there if plain[k] is None]
        raise SlipError(odd[0], _mixed([words[k] for k in odd]))
    if all(words[k] in TRUTHS for k in there):
        return Parsed("number", np.array([TRUTHS.get(word, False) for word in words]), missing)
    times = {k: _time(words[k], reading.time_format) for k in there}
    zones = {time.tzinfo is None for time in times.values() if time is not None}
    if zones:
        odd = [k for k in there if times[k] is None]
        if odd or len(zones) > 1:
            raise SlipError((odd or there)[0], _mixed([words[k] for k in odd or there], "a time"))
        return _times(len(words), {k: time for k, time in times.items() if time is not None}, missing)
    marks = reading.missing_marks is None and (len(there) == 1 or not all(MARKS.fullmatch(words[k]) for k in there))
    for k in there:
        fault = _suspicious(words[k], marks, reading)
        if fault is not None:
            raise SlipError(k, fault)
    return Parsed("word", np.array(words, object), missing)


def _plain(word: str, reading: Reading) -> str | None:
    """Return a number as Python writes it; None: it is none."""
    if reading.decimal == ",":
        word = "?" if "." in word else word.replace(",", ".")  # a point would be a mark of thousands
    return word if is_number(word) else None


def with_point(word: str, reading: Reading) -> str:
    """Return a word; a number that has a decimal comma with a point, as lists of categories write it."""
    return word.replace(",", ".") if reading.decimal == "," and WITH_COMMA.fullmatch(word) else word


def _numbers(words: Sequence[str], plain: dict[int, str], missing: NDArray[np.bool_]) -> Parsed:
    values = np.zeros(len(words))
    values[list(plain)] = [float(word) for word in plain.values()]
    inexact = np.zeros(len(words), bool)
    for k in np.flatnonzero(np.abs(values) >= LARGEST_WHOLE):
        inexact[k] = WHOLE.fullmatch(plain[int(k)]) is not None and abs(int(plain[int(k)])) > LARGEST_WHOLE
    if not missing.any() and all(WHOLE.fullmatch(word) for word in plain.values()):
        whole = [int(plain[k]) for k in range(len(words))]
        if all(-(2**63) <= number < 2**63 for number in whole):
            return Parsed("number", np.array(whole, np.int64), missing, None, inexact if inexact.any() else None)
    return Parsed("number", values, missing, None, inexact if inexact.any() else None)


def _times(count: int, times: dict[int, datetime], missing: NDArray[np.bool_]) -> Parsed:
    """Return times by the clock of Greenwich, if they say how far from it they are, and by the clock on the wall."""
    local, universal = np.full((2, count), "NaT", "datetime64[us]")
    for k, time in times.items():
        local[k] = time.replace(tzinfo=None)
        universal[k] = _universal(time).replace(tzinfo=None)
    return Parsed("time", universal, missing, local)


def _universal(time: datetime) -> datetime:
    return time.astimezone(UTC) if time.tzinfo else time


def _time(word: str, form: str | None) -> datetime | None:
    try:
        if form is None and not ISO_TIME.fullmatch(word):
            return None
        time = datetime.fromisoformat(word) if form is None else datetime.strptime(word, form)
        _universal(time)  # of years 1 and 9999 it may not exist
        return time
    except (ValueError, OverflowError):
        return None
    except re.error as fault:
        raise ConfigError(f"time_format = {form!r}: no format of a time ({fault}); e.g. '%d.%m.%Y %H:%M'") from fault


def _mixed(odd: list[str], what: str = "a number") -> str:
    """Return what is wrong with words among numbers, or among times."""
    fault = f"{odd[0]!r} is not {what}, as others in this column are"
    if any(WITH_COMMA.fullmatch(word) for word in odd):
        return f"{fault}; if numbers have a decimal comma, say decimal = ','; otherwise take marks of thousands out"
    different = set(odd)
    digit = any(letter.isdigit() for word in different for letter in word)
    if not digit and len(different) <= 3 and (len(different) == 1 or all(map(MARKS.fullmatch, different))):
        marks = ", ".join(f'"{word}"' for word in sorted(different))
        return f"{fault}; if it stands for a gap, say missing_marks = [{marks}]; otherwise mend it, or {LEAVE_OUT}"
    return f"{fault}; mend it, or {LEAVE_OUT}"


def _suspicious(word: str, marks: bool, reading: Reading) -> str | None:
    """Return what a word rather is, or None; `marks`: one like "?" may be that of a gap."""
    if "\n" in word and (reading.separator or ",") in word:
        return (
            f"{word[:60]!r} holds a line break and separators, as where a quote is not closed; close it, or say "
            f'quote = "" if {reading.quote} is a letter like others; or {AS_WORDS}'
        )
    if WITH_COMMA.fullmatch(word):
        return f"{word!r} looks like a number with a decimal comma; say decimal = ','; or {AS_WORDS}"
    if LIKE_TIME.fullmatch(word):
        day = {".": "%d.%m.%Y ", "/": "%m/%d/%Y ", "-": "%d-%m-%Y "}
        example = next((form for mark, form in day.items() if mark in word), "")
        example += "%H:%M:%S" if word.count(":") == 2 else "%H:%M" if ":" in word else ""
        example = example.strip()
        return (
            f"{word!r} looks like a time that is not written as 2015-02-04 17:51:00; say its format, e.g. "
            f"time_format = '{example}'; or {AS_WORDS}"
        )
    if LIKE_NUMBER.fullmatch(word):
        return f"{word!r} looks like a number but for its marks; write it with digits and one '.'; or {AS_WORDS}"
    if marks and MARKS.fullmatch(word):
        return (
            f'{word!r} looks like a mark for a gap; if it is one, say missing_marks = ["{word}"]; if it is a word like '
            "others, missing_marks = []"
        )
    return None


def candidates(value: Any) -> tuple[str, ...]:
    """Return a value as text, in every way in which a list of categories may write it."""
    if isinstance(value, bool | np.bool_) or (isinstance(value, str) and value in TRUTHS):
        truth = TRUTHS[str(value)]
        return (str(value), str(truth).lower(), str(truth), str(int(truth)))
    if isinstance(value, int | np.integer):
        return (str(value),)
    if isinstance(value, float | np.floating):
        return (digits(value),)
    if not isinstance(value, str):  # a time
        return (str(value),)
    if not is_number(value) or not math.isfinite(float(value)):
        return (value,)
    return (value, str(int(value)) if WHOLE.fullmatch(value) else digits(value))


def digits(value: Any) -> str:
    """Return a number in digits, without an exponent."""
    return np.format_float_positional(float(value), trim="-")
