"""Files that lie about what they hold, or hold far more than they look: refused before anything is unpacked."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tacit.core import limits
from tacit.core.errors import DataError
from tacit.streams import read_table
from tacit.streams.reading.bounded import open_bytes
from tests.hostile import archives
from tests.hostile.archives import DEFLATED, STORED, Member, npy_header
from tests.hostile.refusals import refusal

Y = archives.array("y", np.array([0, 1]))


def lying(name: str, shape: tuple[int, ...], said: int, content: bytes, method: int = DEFLATED) -> Member:
    plain = npy_header(shape) + content
    return Member(name, archives.deflated(plain) if method == DEFLATED else plain, said, method, zlib.crc32(plain))


def test_nine_megabytes_that_unpack_to_seven_gigabytes(tmp_path: Path) -> None:
    path = archives.write(tmp_path / "bomb.npz", archives.bomb("X", 7), Y)
    assert path.stat().st_size < 9e6
    words = refusal(read_table, path, "y")
    assert "7.0 GiB" in words
    assert "4.0 GiB" in words
    assert "X" in words


HEADER = len(npy_header((1,)))
LIES = {
    "the header says more than the member holds": lying("X.npy", (10**12,), HEADER + 80, bytes(80)),
    "header and directory say more than is there": lying("X.npy", (2**27,), HEADER + 2**30, bytes(80)),
    "nothing is packed, and yet more is said": lying("X.npy", (2**27,), HEADER + 2**30, bytes(80), STORED),
    "the header says less than the member holds": lying("X.npy", (2,), HEADER + 80, bytes(80)),
    "a shape below nothing": lying("X.npy", (-1, 2), HEADER + 80, bytes(80)),
    "a shape of no number": lying("X.npy", (10**30, 10**30), HEADER + 80, bytes(80)),
    "no rows of a trillion columns": lying("X.npy", (0, 10**12), len(npy_header((0, 10**12))), b""),
    "a trillion rows without columns": lying("X.npy", (10**12, 0), len(npy_header((10**12, 0))), b""),
    "no header at all": Member("X.npy", archives.deflated(b"\x93NUMPY"), 6),
    "objects": Member("X.npy", npy_header((1,), "|O"), len(npy_header((1,), "|O")), STORED),
    "one element of a terabyte": Member("X.npy", npy_header((1,), "|V1000000000000"), 128, STORED),
    "an unknown packing": lying("X.npy", (10,), HEADER + 80, bytes(80))._replace(method=99),
}


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_archives_that_lie(tmp_path: Path, lie: str) -> None:
    path = archives.write(tmp_path / "lie.npz", LIES[lie], Y)
    assert "lie.npz" in refusal(read_table, path, "y")


def test_an_honest_archive_of_the_same_kind_is_read(tmp_path: Path) -> None:
    path = archives.write(tmp_path / "honest.npz", archives.array("X", np.array([[1.0], [2.0]])), Y)
    np.testing.assert_array_equal(read_table(path, "y").x, [[1.0], [2.0]])


def test_bytes_are_counted_as_the_numbers_they_become(tmp_path: Path) -> None:
    # 1 GiB of bytes, packed to 1 MB, would be 8 GiB of numbers.
    head = npy_header((2**26, 16), "|u1")
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(archives.ZEROS)) + packer.flush(zlib.Z_FULL_FLUSH)
    content = first + block * (2**30 // archives.ZEROS) + packer.flush()
    path = archives.write(tmp_path / "bytes.npz", Member("X.npy", content, len(head) + 2**30), Y)
    assert "GiB" in refusal(read_table, path, "y")


def test_a_parquet_file_of_two_megabytes_and_240_million_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    nothing = pa.nulls(8_000_000, pa.float64())
    table = pa.table({"x": nothing, "y": nothing})
    with parquet.ParquetWriter(path, table.schema) as writer:
        for _ in range(30):
            writer.write_table(table)
    del nothing, table
    assert path.stat().st_size < 3e6
    before = pa.total_allocated_bytes()
    words = refusal(read_table, path, "y")
    assert "240,000,000" in words
    assert "4.0 GiB" in words
    assert pa.total_allocated_bytes() - before < 2**20


def test_a_parquet_file_that_repeats_one_long_word(tmp_path: Path) -> None:
    path = tmp_path / "words.parquet"
    word = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array(["w" * 2**20]))
    parquet.write_table(pa.table({"x": word, "y": np.zeros(100_000)}), path, store_schema=False)
    assert path.stat().st_size < 1e6  # and 100 GB of text
    assert "GiB" in refusal(read_table, path, "y")


def gzip_bomb(path: Path, head: bytes, block: bytes, times: int, said: int | None = None) -> Path:
    """Write a gzip file of head and `times` blocks, whose last bytes say how large it is."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    body = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    size = len(head) + times * len(block) if said is None else said
    end = bytes(4) + (size & 0xFFFFFFFF).to_bytes(4, "little")
    path.write_bytes(b"\x1f\x8b\x08" + bytes(7) + first + body * times + packer.flush() + end)
    return path


@pytest.mark.parametrize("said", [None, 100], ids=["honest", "lying"])
def test_a_compressed_table_of_twenty_gigabytes(tmp_path: Path, said: int | None) -> None:
    path = gzip_bomb(tmp_path / "bomb.csv.gz", b"x,y\n", b"0,1\n" * 2**22, 1280, said)
    assert path.stat().st_size < 100e6
    with limits.memory(0.1):  # so much is unpacked before it is refused, and nothing of it kept
        words = refusal(read_table, path, "y")
    assert "20.0 GiB" in words or "limit" in words


def test_one_line_of_twenty_gigabytes(tmp_path: Path) -> None:
    path = gzip_bomb(tmp_path / "line.csv.gz", b"x,y\n0,", b"1" * 2**24, 1280)
    with limits.memory(0.1):
        assert "GiB" in refusal(read_table, path, "y")


def test_an_honest_table_that_begins_with_much_of_the_same_is_read(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2**62, 200_000)
    path = tmp_path / "even.csv.gz"
    content = b"x,y\n" + b"0,1\n" * 2**22 + b"".join(b"%d,0\n" % row for row in rows)
    path.write_bytes(gzip.compress(content, 1, mtime=0))
    with limits.memory(1.2 * len(content) / 2**30), open_bytes(path) as unpacked:
        assert unpacked.read() == content
    with limits.memory(0.8 * len(content) / 2**30), pytest.raises(DataError, match="limit"):
        open_bytes(path)


def test_a_field_longer_than_any_number(tmp_path: Path) -> None:
    path = tmp_path / "field.csv"
    path.write_bytes(b"x,y\n" + b"1" * 2**22 + b",0\n1,1\n")
    assert "field.csv" in refusal(read_table, path, "y")


def test_a_plain_file_larger_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "holes.csv"
    with path.open("wb") as file:
        file.write(b"x,y\n1,0\n")
        file.truncate(50 * 2**30)  # it takes no room on the disk
    assert "50.0 GiB" in refusal(read_table, path, "y")


def test_many_columns_are_looked_through_once(tmp_path: Path) -> None:
    # 60,000 names compared with each other took minutes.
    names = [f"c{k}" for k in range(60_000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join([*names, "c0"]) + "\n")
    with pytest.raises(DataError, match="'c0'"):
        read_table(path, "c1")


def test_one_column_of_words_that_would_become_thousands(tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    words = np.array([f"{k % 40_000}w" for k in range(40_000)])
    np.savez(path, x=words, y=np.arange(40_000) % 2)
    listed = {"x": [f"{k}w" for k in range(40_000)]}
    assert "GiB" in refusal(read_table, path, "y", categories=listed)


OWNERS = {
    "a number too large to be counted": ["1e300", "0"],
    "two numbers that no float tells apart": ["9007199254740993.0", "9007199254740992.0"],
    "without end": ["inf", "0"],
    "missing": ["", "0"],
    "a fraction": ["0.5", "1"],
}


@pytest.mark.parametrize("fault", OWNERS, ids=str)
@pytest.mark.parametrize("form", ["csv", "npz", "parquet"])
def test_owners_that_are_no_names(tmp_path: Path, fault: str, form: str) -> None:
    path = tmp_path / f"owners.{form}"
    texts = OWNERS[fault]
    values = np.array([float(text or "nan") for text in texts])
    if form == "csv":
        path.write_text("x,y,who\n" + "".join(f"1,{k},{text}\n" for k, text in enumerate(texts)))
    elif form == "npz":
        np.savez(path, x=np.ones(2), y=np.arange(2), who=values)
    else:
        parquet.write_table(pa.table({"x": np.ones(2), "y": np.arange(2), "who": values}), path)
    words = refusal(read_table, path, "y", owner="who")
    assert "'who'" in words


def test_owners_by_number_keep_their_names(tmp_path: Path) -> None:
    path = tmp_path / "owners.csv"
    path.write_text("x,y,who\n1,0,7.0\n1,1,3\n1,1,7\n")
    table = read_table(path, "y", owner="who")
    assert table.owners == ("3", "7")
    np.testing.assert_array_equal(table.owner, [1, 0, 1])


def test_what_was_cut_off_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n1,0\n" * 1000)[:-20])
    assert "cut.csv.gz" in refusal(read_table, path, "y")
