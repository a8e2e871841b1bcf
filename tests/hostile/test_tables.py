"""Tables damaged at random: each is read, and its record then gives the same rows, or is refused by an error of ours."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from tacit.core.errors import TacitError
from tacit.streams import Preprocessing, read_table, scaled
from tests.streams.broken_tables import COLUMNS, ROWS, lines

TEXT = lines((*COLUMNS, "at"), [(*row, f"2024-0{k + 1}-01 10:0{k}") for k, row in enumerate(ROWS)]).encode()
PIECES = [
    b'"', b"'", b";", b",", b"\n", b"\r", b"\0", b"\xff", b"\xe9", b"?", b"-", b"nan", b"inf", b"1e400", b"9" * 23,
    b"true", b"\t", b" ", b"\xef\xbb\xbf", b"0x1F", b"1_0", b"2024-02-30", b"%", b"\xc2\xa0", "１".encode(), b"1,5",
    b"#REF!", b"-0", b"+5", b"0001-01-01", b"9999-12-31 23:59:59.999999", b"\x1a", b"\x85",
]  # fmt: skip
CASES = 400


def damaged(rng: random.Random) -> bytes:
    """Return the table with a piece put in, put in the place of others, or cut out."""
    content = bytearray(TEXT)
    start = rng.randrange(len(content) + 1)
    stop = start + rng.choice([0, 0, rng.randrange(6), rng.randrange(12)])
    content[start:stop] = rng.choice([b"", *PIECES])
    return bytes(content)


def test_tables_damaged_at_random(tmp_path: Path) -> None:
    rng, file, read = random.Random(0), tmp_path / "damaged.csv", 0
    for _ in range(CASES):
        file.write_bytes(damaged(rng))
        settings = {
            "owner": rng.choice([None, "clinic"]),
            "missing": rng.choice(["refuse", "indicate"]),
            "missing_marks": rng.choice([None, ["?"]]),
            "encoding": rng.choice([None, "cp1252", "latin-1"]),
            "quote": rng.choice(['"', ""]),
            "time_features": {"at": ["hour", "weekday", "month"]},
            **rng.choice([{"label": "again", "task": "multiclass"}, {"label": "age", "task": "regression"}]),
        }
        try:
            table = scaled(read_table(file, **settings), rng.choice([None, "everyone"]), bias=True, unit=True)
        except TacitError:
            continue
        record = Preprocessing.from_json(table.preprocessing.to_json())
        np.testing.assert_array_equal(record.apply(file), table.x)
        np.testing.assert_array_equal(record.labels(file), table.y)
        read += 1
    assert CASES / 4 < read < CASES
