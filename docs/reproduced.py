"""Outcomes of the studies in the repository, and what they say in the manual.

    python docs/reproduced.py                 # docs/reproduction.md and docs/claims.md anew, of reproduction/outcomes
    python docs/reproduced.py runs/gallery    # the same, having taken what that directory holds first

Taken is what is whole: full forms, and quick ones of studies of which no full one is stored. Of each there is the table
of outcomes and where it comes from; claims and verdicts are found anew by the code that is here. The table of headlines
goes between two comments of docs/reproduction.md, every claim is docs/claims.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.errors import ResultError
from tacit_reproduction import catalogue
from tacit_reproduction.gallery import Finished
from tacit_reproduction.gallery.markdown import claims, headlines
from tacit_reproduction.study import ORIGIN, Study
from tacit_reproduction.summary import OUTCOMES, outcomes, read
from tacit_reproduction.table import Results, Row, loaded

HERE = Path(__file__).parent
STORE = HERE.parent / "reproduction" / "outcomes"
WHENCE = "origin.json"
BEGIN, END = "<!-- headlines: made by docs/reproduced.py -->", "<!-- end of headlines -->"
LOW_BITS, LOWER_BITS, LARGE = 0x3FF, 0x7FFF, 100_000
"""Of curves in larger files: bits of a single-precision number that are not kept (what is left tells 1 from 1.0001), or
between ends that stay as they are (1 from 1.004), and bytes of a file from which on."""
FEWER = (10**9, 50, 20, None)  # points of a curve that are kept, one after the other; None: the ends as they are


def take(gallery: Path) -> Iterator[str]:
    """Store what a directory of studies holds, and yield the names of what was new."""
    for study in catalogue.all_studies().values():
        directory = STORE / study.name
        try:
            found, content = read(gallery / study.name), outcomes(gallery / study.name)
        except ResultError:  # it is not there, or not whole
            continue
        if (
            found["quick"]
            and (directory / WHENCE).exists()
            and not json.loads((directory / WHENCE).read_text())["quick"]
        ):
            continue
        origin = {key: found[key] for key in ORIGIN}
        directory.mkdir(parents=True, exist_ok=True)
        (directory / OUTCOMES).write_bytes(smaller(study, content, origin))
        (directory / WHENCE).write_text(json.dumps(origin, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        yield study.name


def smaller(study: Study, content: bytes, origin: dict[str, Any]) -> bytes:
    """Return a table with curves in few digits, or at few points too, if every claim stays as it is to the letter."""

    def cut(values: Any, bits: int) -> Any:
        with np.errstate(over="ignore"):
            return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFFFFF ^ bits)).view(np.float32)

    def short(values: Any, points: int | None, few: int | None) -> Any:
        if points is not None and few is not None and few < points in values.shape[:2]:
            kept = np.linspace(0, points - 1, few).round().astype(int)
            values = np.take(values, kept, values.shape[:2].index(points))
        if values.ndim < 2 or values.dtype.kind != "f" or (few is None and values.nbytes < LARGE):
            return values
        if few is not None:
            return cut(values, LOW_BITS)
        return np.concatenate([values[:, :1], cut(values[:, 1:-1], LOWER_BITS), values[:, -1:]], axis=1)

    def shortened(row: Row, few: int | None) -> Row:
        lengths = [len(values) for name, values in row.measures.items() if values.ndim == 1 and name == "rounds"]
        points = lengths[0] if lengths else None
        return Row(row.factors, {name: short(values, points, few) for name, values in row.measures.items()})

    def told(table: bytes) -> list[Any]:
        summary = study.summary(table, origin)
        return [summary["claims"], summary["headlines"]]

    table, found = loaded(content), content
    for few in FEWER:
        small = Results([shortened(row, few) for row in table.rows], table.facts).content()
        if len(found) > LARGE and len(small) < len(found) and told(small) == told(content):
            found = small
    return found


def stored(study: Study) -> dict[str, Any] | None:
    """Judge what is stored of a study by the code that is here."""
    directory = STORE / study.name
    if not (directory / WHENCE).exists():
        return None
    return study.summary((directory / OUTCOMES).read_bytes(), json.loads((directory / WHENCE).read_text()))


def pages() -> dict[Path, str]:
    """Return both pages as they have to be."""
    told = [
        (
            text,
            [Finished(each, STORE / each.name, stored(each), "nothing is stored") for each in catalogue.studies(text)],
        )
        for text in catalogue.TEXTS
    ]
    page = HERE / "reproduction.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return {page: f"{before}{BEGIN}\n\n{headlines(told)}\n{END}{after}", HERE / "claims.md": claims(told)}


def main(galleries: list[Path]) -> None:
    """Take what galleries hold, and write the pages."""
    for gallery in galleries:
        print(f"{gallery}: {', '.join(take(gallery)) or 'nothing new'}")
    for path, content in pages().items():
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
