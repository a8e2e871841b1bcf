"""The model of a peer's last commit, out of its store: read in one piece while the peer may be running."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.config.peer import PeerSettings, load_peer
from tacit.config.stream import FileStream, PushStream
from tacit.core.contract import Adjacency, Params
from tacit.core.errors import ConfigError, LedgerError, ModelError
from tacit.deploy.assignment import plan_of
from tacit.models import Model
from tacit.models.card import DataCard, MadeCard
from tacit.models.making import model_of, now, plain, privacy_card
from tacit.peer.node.assignment import Plan
from tacit.peer.node.snapshot import unpack
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.followed_file import NO_FILE, FollowedFile
from tacit.peer.sources.rows import CsvRows
from tacit.privacy.accounting import guarantee
from tacit.privacy.events import Loss, labels_in
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.entries import FORMAT
from tacit.privacy.ledger.replay import Replay
from tacit.privacy.ledger.store import reading
from tacit.privacy.ledger.witness import read_mark
from tacit.privacy.spending import DELTA, RunPrivacy
from tacit.results.record import versions
from tacit.streams import Preprocessing
from tacit.streams.reading.columns import Input

T = TypeVar("T")
EVERY_RECORD = ""
"""Label of releases that are charged to all records."""


class _Read(NamedTuple):
    """What one look into a store found, all of one commit."""

    snapshot: bytes | None
    spent: Loss
    adjacency: Adjacency | None
    """None: nothing was released."""
    uses: int
    """Releases that one record took part in, at most."""


class _OpenForReading:
    """A ledger that is only read: all of `Ledger` that a store needs to be checked and looked at."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    def read(self, use: Callable[[sqlite3.Connection], T]) -> T:
        return use(self._connection)


def peer_model(path: Path, command: str | None = None) -> Model:
    """Return the model of a peer's last commit, with what its ledger says was spent.

    Args:
      path: The peer's TOML file.
      command: Command line for the card.
    """
    settings = load_peer(path)
    name, job = settings.peer.name, settings.job
    plan = plan_of(settings)
    if plan.role != plan.algorithm.predictor:
        raise ConfigError(f"{name} is a {plan.role!r}, which has no model; ask a {plan.algorithm.predictor!r}")
    if not settings.store.exists():
        raise ConfigError(
            f"{name} has no store at {settings.store}: it has not run yet; start it with `tacit peer run`"
        )
    found = _look(settings)
    if found.snapshot is None:
        raise ModelError(f"{name} has not finished a phase yet, so that there is no model; wait for its first round")
    facts, params = _parameters(plan, found.snapshot)
    record = _preprocessing(settings)
    statement = job.algorithm.privacy
    return model_of(
        job.algorithm.objective,
        params,
        owned=None,
        which=name,
        agents=len(job.members[job.algorithm.learner]),
        took_part=dict.fromkeys(job.members[job.algorithm.learner]),
        preprocessing=record,
        features=job.model_features,
        bias=record is None and job.settings.bias,
        classes=() if job.form.task == "regression" else [str(name) for name in job.form.labels],
        label=None if isinstance(settings.stream, PushStream) else settings.stream.label,
        privacy=privacy_card(statement, _spent(settings, found).summary()),
        data=DataCard(description=f"samples of {name}, in the federation {job.settings.name!r}"),
        made=MadeCard(
            algorithm=job.algorithm.name,
            settings=plain(job.described["algorithm"]),
            rounds=int(facts["round"]),
            seed=job.settings.seed,
            command=command,
            created=now(),
            versions=versions(),
        ),
        figures={},
    )


def _look(settings: PeerSettings) -> _Read:
    """Read snapshot and ledger of one commit, both verified; the peer may be writing meanwhile."""
    path = settings.store
    mark = None if settings.witness is None else read_mark(settings.witness)

    def use(connection: sqlite3.Connection) -> _Read:
        replay = Replay(connection, mark)
        adjacency: Adjacency | None = None
        uses: Counter[str] = Counter()
        for _, event in replay:
            adjacency = event.adjacency
            uses.update(labels_in(event.records))
        if replay.jobs[-1] != settings.part:
            raise LedgerError("it is the store of another job, member or set of links; name the peer's own file")
        store = PeerStore(cast(Ledger, _OpenForReading(path, connection)))
        most = uses.pop(EVERY_RECORD, 0) + max(uses.values(), default=0)
        return _Read(store.snapshot(), replay.account.spent(), adjacency, max(1, most))

    return reading(path, use, (FORMAT,))


def _parameters(plan: Plan, snapshot: bytes) -> tuple[dict[str, Any], Params]:
    """Return the facts of a snapshot and the parameters to predict with: its state comes first, then memories."""
    facts, leaves = unpack(snapshot)
    algorithm = runtime.self_contained(plan.algorithm)
    with plan.precision():
        form = jax.eval_shape(algorithm.init[plan.role], plan.key, plan.params, plan.views(0))
        wanted = jax.tree.leaves(form)
        found = leaves[: len(wanted)]
        if [(leaf.shape, leaf.dtype) for leaf in found] != [(leaf.shape, leaf.dtype) for leaf in wanted]:
            raise ModelError("the snapshot does not fit this job; was the store of another peer or version put here?")
        state = jax.tree.unflatten(jax.tree.structure(form), [jnp.asarray(leaf) for leaf in found])
        params = jax.tree.map(np.asarray, algorithm.model(state))
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params)):
        raise ModelError(f"the model of round {facts['round']} is not finite: it diverged; choose a smaller step")
    return facts, params


def _spent(settings: PeerSettings, found: _Read) -> RunPrivacy:
    statement, budget = settings.job.algorithm.privacy, settings.budget
    if not settings.booked:
        return RunPrivacy(statement._replace(private=False))
    delta = DELTA if budget.delta is None else budget.delta - budget.reserve
    return RunPrivacy(statement, guarantee(found.spent, found.adjacency or "record", delta, found.uses))


def _preprocessing(settings: PeerSettings) -> Preprocessing | None:
    """Return how columns of the peer's file become rows; None where samples have no names."""
    job, stream = settings.job, settings.stream
    if isinstance(stream, PushStream):
        return None
    names = stream.columns
    if names is None and isinstance(stream, FileStream) and stream.kind == "csv":
        path = settings.beside(stream.path)
        names = _header(CsvRows(str(path), job.form, stream.label, None, stream.keys), path)
    if names is None:
        return None
    form = job.form
    inputs = tuple(Input(name, "number") for name in names)
    return Preprocessing(inputs, stream.label, form.task, tuple(map(str, form.labels)), bias=job.settings.bias)


def _header(rows: CsvRows, path: Path) -> list[str] | None:
    """Return the names of the features by a file's header; None where there is none yet."""
    with contextlib.closing(FollowedFile.opened(path)) as file:
        header = None if file is NO_FILE else rows.header(file.read)
    return None if header is None or header.form.names is None else list(header.form.names)
