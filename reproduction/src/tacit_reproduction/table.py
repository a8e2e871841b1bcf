"""One tidy table of everything that a study measured.

A row is a cell: its factors (method, noise, step, ...) and its measures, each an array with one entry per seed, a
number or a curve. Claims and figures are made of columns of this table and of nothing else, so that stored outcomes
can be judged again without a run.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError, ResultError, TacitError
from tacit.streams.reading.npz import FAULTS, arrays_of

Floats = NDArray[np.float64]
Factor = str | float | int | bool | None
FACTORS, FACTS = "factors", "facts"


class Row(NamedTuple):
    """One cell."""

    factors: Mapping[str, Any]
    measures: Mapping[str, Floats]
    """Name -> (seeds,) or (seeds, points); places of points, the same for all seeds, are (points,)."""


class Results:
    """The table, and further facts that belong to no cell (a theory's prediction, a description of data)."""

    def __init__(self, rows: Iterable[Row], facts: Mapping[str, Any] | None = None) -> None:
        self.rows = list(rows)
        self.facts = dict(facts or {})

    def __add__(self, other: "Results") -> "Results":
        return Results([*self.rows, *other.rows], {**self.facts, **other.facts})

    def where(self, **factors: Factor | tuple[Factor, ...]) -> "Results":
        """Return the rows with these factors, or with one of several; rows that lack one of them are left out."""
        sets = {name: value if isinstance(value, tuple) else (value,) for name, value in factors.items()}
        return self.keep(lambda row: all(name in row.factors and row.factors[name] in sets[name] for name in sets))

    def of(self, measure: str, **factors: Factor) -> Floats:
        """Return a measure of the one cell with these factors."""
        found = [row for row in self.where(**factors).rows if measure in row.measures]
        if len(found) != 1:
            words = ", ".join(f"{name} = {value!r}" for name, value in factors.items())
            raise TacitError(f"{measure} of {words or 'no factors'}: {len(found)} cells have it; expected just one")
        return np.asarray(found[0].measures[measure], np.float64)

    def keep(self, test: Callable[[Row], bool]) -> "Results":
        """Return the rows that pass a test."""
        return Results(filter(test, self.rows), self.facts)

    def levels(self, factor: str) -> list[Any]:
        """Return the values of a factor in the order of the rows."""
        return list(dict.fromkeys(row.factors[factor] for row in self.rows if factor in row.factors))

    def content(self) -> bytes:
        """Return the file that `loaded` reads."""
        every = ((k, *of) for k, row in enumerate(self.rows) for of in row.measures.items())
        arrays: dict[str, NDArray[Any]] = {f"{k}/{name}": np.asarray(values) for k, name, values in every}
        factors = [{name: _plain(value) for name, value in row.factors.items()} for row in self.rows]
        for key, what in ((FACTORS, factors), (FACTS, self.facts)):
            arrays[key] = np.frombuffer(json.dumps(what, default=_plain).encode("utf-8"), np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        return buffer.getvalue()


def loaded(content: bytes) -> Results:
    """Read a table; nothing in it is run, and it asks for no more memory than `tacit.core.limits` grants."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            arrays = arrays_of(file, len(content), "the table of outcomes")
        factors, facts = (json.loads(arrays.pop(key).tobytes()) for key in (FACTORS, FACTS))
        if not isinstance(facts, dict) or not all(_is_factors(each) for each in factors):
            raise ValueError("factors or facts of another kind")
        rows = [Row(each, {}) for each in factors]
        for key, values in arrays.items():
            place, _, name = key.partition("/")
            if not place.isdecimal() or int(place) >= len(rows) or values.dtype.kind not in "biuf":
                raise ValueError(f"{key!r} of type {values.dtype} belongs to no cell")
            rows[int(place)] = rows[int(place)]._replace(measures={**rows[int(place)].measures, name: values})
    except (*FAULTS, DataError, KeyError, TypeError, RecursionError) as error:
        raise ResultError(f"this is no table of outcomes ({error}); run the experiment again") from error
    return Results(rows, facts)


def _is_factors(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(value, str | float | int | None) for value in found.values())


def cells_of(cells: Sequence[Any], measured: Sequence[Any], facts: Mapping[str, Any] | None = None) -> Results:
    """Return a table of cells, which are NamedTuples, and what was measured of each, or the rows that it came to."""
    rows: list[Row] = []
    for cell, found in zip(cells, measured, strict=True):
        if isinstance(found, Mapping):
            rows.append(Row(cell._asdict(), {name: np.asarray(values) for name, values in found.items()}))
        else:
            rows += found
    return Results(rows, facts)


def parted(
    common: Mapping[str, Factor], places: Iterable[Mapping[str, Factor]], seeds: int, measures: Mapping[str, Any]
) -> list[Row]:
    """Return a row for each place of a program, whose repeats are the seeds of the first place, of the second, ..."""

    def part(k: int) -> dict[str, Any]:
        return {name: of if name == "rounds" else of[k * seeds :][:seeds] for name, of in measures.items()}

    return [Row({**common, **place}, part(k)) for k, place in enumerate(places)]


def decibels(values: Floats) -> Floats:
    """Return 10 log10; of what has left all bounds, not a number."""
    return np.asarray(10 * np.log10(np.where(np.isfinite(values) & (values > 0), values, np.nan)))


def late(values: Floats, share: float = 0.5) -> Floats:
    """Return (seeds,) the mean of curves (seeds, points) over their last part."""
    points = values.shape[1]
    return np.asarray(values[:, points - max(1, round(share * points)) :].mean(axis=1))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value
