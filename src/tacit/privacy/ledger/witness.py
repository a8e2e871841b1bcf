"""The witness of a ledger: its last entry, written down on another disk, by which an old copy is found out.

A chain of hashes says that nothing in the middle of a ledger was changed; it cannot say that its end is still there.
The witness can, unless it is lost or set back together with the ledger: keep it on another disk, or another host.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from tacit.core.errors import LedgerError
from tacit.privacy.ledger.open_files import when_free
from tacit.privacy.ledger.store import sync


class Mark(NamedTuple):
    """A ledger's last entry, as last written down."""

    ledger: str
    sequence: int
    hash: bytes


def write_mark(path: Path, mark: Mark) -> None:
    """Replace the witness: when this returns the mark is on the disk, and at no time is there half of one."""
    text = json.dumps({"ledger": mark.ledger, "sequence": mark.sequence, "hash": mark.hash.hex()})
    descriptor, name = when_free(lambda: tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent))
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(descriptor)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def read_mark(path: Path) -> Mark | None:
    """Return the mark, or None where there is no file."""
    try:
        text = when_free(lambda: path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LedgerError(f"the witness {path} cannot be read: {error}") from error
    try:
        values = json.loads(text)
        mark = Mark(values["ledger"], values["sequence"], bytes.fromhex(values["hash"]))
        known = type(mark.ledger) is str and type(mark.sequence) is int and mark.sequence >= 0 and len(values) == 3
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise LedgerError(f"{path} is not a witness ({error}): name the file that the ledger was made with") from error
    if not known:
        raise LedgerError(f"{path} is not a witness: name the file that the ledger was made with")
    return mark


def refuse_taken(path: Path) -> None:
    """Refuse the place of a witness that has seen a release.

    One that has seen none is of a ledger that never released anything, and perhaps was not even finished.
    """
    if not os.path.lexists(path):
        return
    mark = read_mark(path)
    if mark is None or mark.sequence > 0:
        what = "nobody's" if mark is None else f"ledger {mark.ledger}'s, and has seen {mark.sequence} release(s)"
        raise LedgerError(
            f"the witness {path} exists: it is {what}, and its ledger may have been lost; put that ledger back, or "
            "move the witness away"
        )
