"""Readiness of one peer on its own host: its budget, its data file, its store and its ports, before anything runs."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np

from tacit import runtime
from tacit.config.peer import PeerSettings
from tacit.config.sections import toml_text
from tacit.config.stream import FileStream
from tacit.core.errors import ConfigError, DataError, TacitError
from tacit.peer.machine.releases import BookedReleaser
from tacit.peer.node.assignment import Plan
from tacit.privacy.accounting import Account
from tacit.privacy.charges import Held
from tacit.privacy.events import Event, Loss, fresh
from tacit.privacy.ledger import inspect
from tacit.privacy.ledger.budget_use import budget_use, spending
from tacit.privacy.noise import NoiseSource

if TYPE_CHECKING:
    from tacit.peer.sources.rows import CsvRows, JsonRows, Row

T = TypeVar("T")
LOOKED_AT = 100
"""Lines of a data file that are read before a start, at most."""


# -- the budget --------------------------------------------------------------------------------------------------------


class _Noted:
    """Books that accept every release and note what it would cost."""

    def __init__(self) -> None:
        self.account = Account()

    def release(self, release: str, event: Event, draw: Callable[[], T], /) -> T:
        """Note, and draw."""
        self.account = self.account.charged(event)
        return draw()


def round_costs(plan: Plan) -> Account:
    """Return what the releases of a peer's first round cost, all phases: booked as they will be, of zeros."""
    books = _Noted()
    releaser, batch = BookedReleaser(books, NoiseSource()), plan.batch
    if plan.role == plan.algorithm.learner:
        batch = batch._replace(weight=np.ones_like(batch.weight))
    with plan.precision():
        specs, views = plan.specs, plan.views(1)
        for phase, spec in zip(plan.algorithm.phases, specs, strict=True):
            if phase.source != plan.role or phase.links not in views:
                continue
            release, view = spec.release, runtime.with_data(views[phase.links], batch)[0]
            zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), release.value)
            declared = runtime.declare(phase, zeros, release.records, view)
            name, memory = f"phase {release.phase}", release.memory(wide=True)
            releaser(name, release, 1, declared, zeros, Held(fresh(1)), memory=memory)
    return books.account


def check_budget(settings: PeerSettings, plan: Plan) -> Iterator[str]:
    """Refuse a budget that not even one round of the job fits, or one more; say for how many it is enough.

    Args:
      settings: The peer's checked settings.
      plan: Its assignment.
    """
    if not settings.booked:
        return
    account, budget = round_costs(plan), settings.budget
    cost = account.spent()
    if budget.refusal(cost) is not None:
        unit, least = spending(budget, cost)[:2]
        given = budget.epsilon if budget.rho is None else budget.rho
        finite = f"{unit} {least:.6g}" if math.isfinite(least) else cost.words()
        raise ConfigError(
            f"{settings.file}: [privacy] {budget.words()}: one round of this job costs {finite} "
            f"({_noise_of(settings)}), more than {unit} = {given:g}, so that nothing could ever be released; raise "
            f"{unit} in [privacy], or put more noise into the job"
        )
    use, booked = budget_use(budget, account), _booked(settings)
    if not use.runs_out:
        yield use.words
        return
    rounds, more = _rounds(budget.left(booked.spent()), cost), ""
    if booked.adjacency is not None:
        use, more = budget_use(budget, booked), "more "
    if not rounds:
        raise ConfigError(
            f"{settings.file}: [privacy] {budget.words()}: {use.words}; it is spent, for one round of this job costs "
            f"{cost.words()}; begin a new epoch of the job, with other records or with a budget of its own"
        )
    yield f"{use.words}; enough for {rounds:,} {more}round(s) at the cost of the first"


def _booked(settings: PeerSettings) -> Account:
    """Return what was spent so far; nothing of a store that cannot be read, of which `check_store` says so."""
    if settings.store.exists():
        with contextlib.suppress(TacitError):
            return inspect(settings.store, lambda replay: replay.run().account)
    return Account()


def _rounds(limit: Loss, cost: Loss) -> int:
    """Return how many rounds of the same cost fit: those of the pure sum, or of zCDP if they are more."""
    fits = [most / each for most, each in zip(limit[:2], cost[:2], strict=True) if 0 < each < math.inf > most]
    return math.floor(max(fits, default=0) * (1 + 1e-9))


def _noise_of(settings: PeerSettings) -> str:
    """Return the tables of the job's file that set its noise."""
    tables = {key: value for key, value in settings.job.described["algorithm"].items() if isinstance(value, dict)}
    noise = [
        f"[algorithm.{key}] " + ", ".join(f"{name} = {toml_text(inner)}" for name, inner in value.items())
        for key, value in tables.items()
        if "kind" in value
    ]
    return "its file has " + ("; ".join(noise) or "[algorithm]")


# -- the data file -----------------------------------------------------------------------------------------------------


def check_data(settings: PeerSettings, plan: Plan) -> Iterator[str]:
    """Refuse a data file that is missing, lacks a column, or of whose first rows none can be used.

    Args:
      settings: The peer's checked settings.
      plan: Its assignment.
    """
    stream = settings.stream
    if not isinstance(stream, FileStream) or plan.role != plan.algorithm.learner:
        return
    from tacit.peer.sources.rows import CsvRows, JsonRows

    path, key = settings.beside(stream.path), f"{settings.file}: [stream] path = {stream.path!r}"
    make = CsvRows if stream.kind == "csv" else JsonRows
    reader = make(str(path), settings.job.form, stream.label, stream.columns, stream.keys)
    try:
        rows = _first_rows(path, reader)
    except DataError as error:
        raise DataError(f"{key}: {error}") from error
    bad = [row for row in rows if row.sample is None]
    if bad and len(bad) == len(rows):
        raise DataError(f"{key}: none of the first {len(rows)} row(s) can be used; {bad[0].fault}")
    if bad:
        yield f"{len(bad)} of the first {len(rows)} rows of {stream.path} cannot be used; {bad[0].fault}"
    elif not rows:
        yield f"{stream.path} has no rows yet: it learns from those that are appended"


def _first_rows(path: Path, reader: CsvRows | JsonRows) -> list[Row]:
    from tacit.peer.sources.followed_file import NO_FILE, FollowedFile

    with contextlib.closing(FollowedFile.opened(path)) as file:
        if file is NO_FILE:
            raise DataError(f"{path}: No such file; put it there, or mend the path")
        header = reader.header(file.read)
        if header is None:
            raise DataError(f"{path}: no complete header line; name the columns in its first line")
        lines = file.lines(reader, header, header.start, header.lines, skipping=False)
        return [line.row for line in itertools.islice(lines, LOOKED_AT) if line.row is not None]


def running(settings: PeerSettings) -> int | None:
    """Return the process in which a peer runs on this host; None where it does not.

    Args:
      settings: The peer's checked settings.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        pid = int(json.loads(settings.control.read_text(encoding="utf-8"))["pid"])
        with contextlib.suppress(PermissionError):  # another user's process is one
            os.kill(pid, 0)
        return pid
    return None
