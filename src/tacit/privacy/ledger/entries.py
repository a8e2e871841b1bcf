"""Entries of a ledger: canonical text and hash of each, and the genesis that binds the chain."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tacit.core.contract import Adjacency
from tacit.core.errors import ConfigError, LedgerError
from tacit.privacy.accounting import Budget
from tacit.privacy.events import NO_RECORDS, Event, Series

FORMAT = 2
UNDERCOUNTING = 1
"""The format of tacit 0.1.0, whose peers booked some releases too low: it is read, and never added to."""
GENESIS = "genesis"
"""The release of entry 0, which binds the budget, the job and the ledger's own name."""
BOUND = "goes on as "
"""Begins the release of an entry that books nothing and binds the ledger to another job."""
BEFORE_GENESIS = bytes(32)
LONGEST_NAME = 200


class Entry(NamedTuple):
    """One row."""

    sequence: int
    release: str
    event: str
    """Canonical JSON."""
    previous: bytes
    hash: bytes


@dataclass(frozen=True)
class Genesis:
    """Entry 0: the ledger's name, budget, job and use of a witness, bound for good."""

    ledger: str
    """A random name: two ledgers are never taken for one another."""
    budget: Budget
    job: str
    witnessed: bool
    """Whether it was made with a witness, and may then not be opened without."""


def sealed(sequence: int, release: str, event: str, previous: bytes) -> Entry:
    """Return the entry with its hash.

    Every field of varying length is preceded by its length, so that no two entries are hashed as the same bytes.
    """
    digest = hashlib.sha256(b"tacit ledger entry 1\n" + sequence.to_bytes(8, "big") + previous)
    for text in (release, event):
        data = text.encode()
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return Entry(sequence, release, event, previous, digest.digest())


def encode_event(event: Event) -> str:
    """Return the event as canonical JSON: sorted keys, no spaces, shortest numbers that read back as they were."""
    if not isinstance(event, Event):
        raise LedgerError(f"{event!r} is not an Event: only a declared release can be booked")
    try:
        return _canonical(_written(event))
    except (TypeError, ValueError) as error:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(event).items())  # its repr computes with them
        raise LedgerError(
            f"Event({fields}) cannot be booked ({error}): use plain Python numbers and strings"
        ) from error


def _written(event: Event) -> dict[str, Any]:
    """Return the fields of an event; a series stands there where there is one, with its own names."""
    values = asdict(event)
    del values["series"]
    return values if event.series is None else {**values, "series": event.series._asdict()}


@functools.lru_cache(maxsize=1024)  # most releases of a job are alike
def decode_event(text: str, form: int = FORMAT) -> Event:
    """Read an event back; a text that `encode_event` would not have written is refused."""
    try:
        values = json.loads(text)
        if "series" in values:
            values["series"] = Series(**values["series"])
        event = Event(**{**values, "observers": tuple(values["observers"])})
        written = _written(event)
        if form == UNDERCOUNTING:
            del written["calibration"]
        known = _canonical(written) == text
        if form == UNDERCOUNTING and event.bound is not None and event.scale > 0:  # it was not in units of the scale
            event = replace(event, bound=event.bound / event.scale)
    except (ValueError, TypeError, KeyError, RecursionError, ConfigError) as error:
        raise LedgerError(f"not an event of format {FORMAT} ({error}): {text[:200]}") from error
    if not known:
        raise LedgerError(f"not the canonical form of an event of format {FORMAT}: {text[:200]}")
    return event


def encode_genesis(genesis: Genesis, form: int = FORMAT) -> str:
    """Return the genesis as canonical JSON."""
    return _canonical({"format": form, **asdict(genesis)})


def decode_genesis(text: str, form: int = FORMAT) -> Genesis:
    """Read a genesis back; a text that `encode_genesis` would not have written is refused."""
    try:
        values = json.loads(text)
        del values["format"]
        genesis = Genesis(**{**values, "budget": Budget(**values["budget"])})
        known = encode_genesis(genesis, form) == text
    except (ValueError, TypeError, KeyError, RecursionError, ConfigError) as error:
        raise LedgerError(f"entry 0 is not a genesis of format {FORMAT} ({error}): {text[:200]}") from error
    if not known:
        raise LedgerError(f"entry 0 is not a genesis of format {FORMAT}: {text[:200]}")
    return genesis


def binding(job: str, adjacency: Adjacency = "record") -> tuple[str, Event]:
    """Return the charge, of nothing, that binds a ledger to another job from there on.

    Args:
      job: Name of the job.
      adjacency: Unit of the ledger's losses.
    """
    event = Event("none", "laplace", sensitivity=0.0, scale=0.0, adjacency=adjacency, records=NO_RECORDS)
    return validate_name(BOUND + job, "job"), event


def validate_name(name: str, what: str) -> str:
    """Return a name that can be stored, printed and told from others by eye."""
    if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()):
        raise LedgerError(f"{what} {name!r}: expected 1 to {LONGEST_NAME} printable characters")
    return name


def _canonical(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
