"""The ledgers of one identity: which one each job's epoch was begun with.

A ledger and its witness can both be replaced by new ones, and nothing in these would tell of what was spent before. So
the identity directory, which outlives both, keeps a register: one ledger per epoch of a job. A second one is begun only
by an explicit act (`tacit peer new-ledger`), which stays on record.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tacit.config.peer import PeerSettings
from tacit.core.errors import ConfigError, said
from tacit.peer.identity.pem_files import alone, replace_file
from tacit.peer.node.store import PeerStore
from tacit.privacy.ledger import inspect
from tacit.privacy.ledger.witness import read_mark


@dataclass(frozen=True)
class Registered:
    """The ledger of an epoch."""

    ledger: str
    """Its name; "" where it was given up and none was begun since."""
    store: str
    witness: str | None
    since: str
    before: list[str] = field(default_factory=list)
    """Ledgers that it was begun in the place of."""


class Register:
    """The register of one identity, by job."""

    def __init__(self, directory: Path) -> None:
        """Use the file in an identity directory."""
        self._path = directory / "ledgers.json"

    def get(self, account: str) -> Registered | None:
        """Return what is registered for a job."""
        return self._all().get(account)

    def put(self, account: str, entry: Registered, known: Registered | None) -> None:
        """Register in the place of what was known; when this returns it is on the disk."""
        with alone(self._path):  # one identity may have several jobs
            entries = self._all()
            if entries.get(account) != known:
                raise ConfigError(
                    f"{self._path}: another process has just begun a ledger for this job; run one peer of a name, and "
                    "start it again"
                )
            text = json.dumps({name: asdict(one) for name, one in {**entries, account: entry}.items()}, indent=1)
            replace_file(self._path, (text + "\n").encode(), 0o600)

    def _all(self) -> dict[str, Registered]:
        try:
            found = {name: Registered(**values) for name, values in json.loads(self._path.read_bytes()).items()}
            known = all(isinstance(x, str) for one in found.values() for x in (one.ledger, one.since, *one.before))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ConfigError(f"{self._path} cannot be read ({said(error)}): put it back from a copy") from error
        if not known:
            raise ConfigError(f"{self._path} is no register of ledgers: put it back from a copy")
        return found


def open_store(settings: PeerSettings) -> PeerStore:
    """Open a peer's store, or begin it where its identity has none for this epoch of the job."""
    path, witness = settings.store, settings.witness
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # samples that wait are in the store
    if not settings.protects:
        return (PeerStore.open if path.exists() else PeerStore.create)(path, settings.budget, settings.part, witness)
    register = Register(settings.identity)
    known = register.get(settings.account)
    if path.exists():
        store = _opened(settings, known)
    else:
        _refuse_second(settings, known)
        store = PeerStore.create(path, settings.budget, settings.part, witness)
    try:
        _note(register, settings, store.ledger.genesis.ledger, known)
    except BaseException:
        store.close()
        raise
    return store


def check_store(settings: PeerSettings) -> None:
    """Refuse what `open_store` would refuse, as far as it shows without opening the store; nothing is written."""
    path = settings.store
    if path.exists():
        replay = inspect(path, lambda replay: replay.run())
        genesis, part = replay.genesis, replay.jobs[-1]
        if genesis.budget != settings.budget:
            raise ConfigError(
                f"{settings.file}: [privacy] {settings.budget.words()}, but {path} was begun with "
                f"{genesis.budget.words()}: a budget is fixed when a store is begun; put it back, or count the job's "
                "epoch up and begin a new store with what is left"
            )
        if part != settings.part:
            later = " (it went on to a later epoch: use that epoch's file)" if settings.part in replay.jobs else ""
            raise ConfigError(
                f"{path} is the store of another job, member or set of links ({part}, not {settings.part}){later}: put "
                "the settings back; or count the job's epoch up, and have the peers go on to it while they run (`tacit "
                "peer epoch`) or name a new store"
            )
    elif settings.protects:
        _refuse_second(settings, Register(settings.identity).get(settings.account))


def register_epoch(settings: PeerSettings, ledger: str) -> None:
    """Register a ledger that is in use for the epoch to which it is about to go on; no second one is begun there.

    Args:
      settings: The peer's settings in that epoch.
      ledger: Name of the ledger.
    """
    if not settings.protects:
        return
    register = Register(settings.identity)
    known = register.get(settings.account)
    if known is not None and known.ledger not in ("", ledger):
        raise ConfigError(
            f"{settings.peer.name} has begun ledger {known.ledger} in epoch {settings.job.settings.epoch} of the job "
            f"already ({known.store}): count the epoch up once more"
        )
    _note(register, settings, ledger, known)


def _note(register: Register, settings: PeerSettings, ledger: str, known: Registered | None) -> None:
    witness = None if settings.witness is None else str(settings.witness)
    now = Registered(ledger, str(settings.store), witness, datetime.now(UTC).isoformat())
    if known is not None:
        now = replace(now, since=known.since if known.ledger else now.since, before=known.before)
    if now != known:
        register.put(settings.account, now, known)


def give_up(settings: PeerSettings, ledger: str) -> None:
    """Let the next start begin a new ledger in the place of one that is lost."""
    register = Register(settings.identity)
    known = register.get(settings.account)
    if known is None or known.ledger != ledger:
        expected = "there is none" if known is None or not known.ledger else f"it is {known.ledger}"
        raise ConfigError(f"{ledger!r} is not the ledger of {settings.peer.name} in this epoch of the job: {expected}")
    for path in (settings.store, Path(known.store)):
        if path.exists():
            raise ConfigError(f"{path} is there: open it, or move it away if it cannot be used")
    register.put(settings.account, replace(known, ledger="", before=[*known.before, ledger]), known)


def _opened(settings: PeerSettings, known: Registered | None) -> PeerStore:
    path = settings.store
    if known is not None and known.witness not in (None, str(settings.witness)):
        left = Path(str(known.witness))
        mark = read_mark(left)
        # It was not moved: what it has seen must be there, unless it is that of a ledger that was given up.
        if mark is not None and (known.ledger or mark.ledger == _ledger_in(path)):
            inspect(path, lambda replay: replay.run(), left)
    store = PeerStore.open(path, settings.budget, settings.part, settings.witness)
    ledger = store.ledger.genesis.ledger
    if known is None or known.ledger in ("", ledger):
        return store
    store.close()
    raise ConfigError(
        f"{path} is ledger {ledger}, but {settings.peer.name} has ledger {known.ledger} in this epoch of the job since "
        f"{known.since} ({known.store}): put that one back, or count the job's epoch up"
    )


def _refuse_second(settings: PeerSettings, known: Registered | None) -> None:
    path, witness = settings.store, settings.witness
    if known is not None and known.ledger:
        raise ConfigError(
            f"{path} is not there, but {settings.peer.name} has a ledger in this epoch of the job, {known.ledger} "
            f"since {known.since} ({known.store}): a new one would forget what was spent; put it back, or count the "
            f"job's epoch up; if it is lost, give [privacy] what was left and run `tacit peer new-ledger "
            f"{settings.file.name} --instead-of {known.ledger}`"
        )
    mark = None if witness is None else read_mark(witness)
    if mark is not None and mark.sequence > 0:
        raise ConfigError(
            f"{path} is gone, but its witness {witness} is there: a store that begins anew would forget what was "
            "spent; put the store back; if it is lost and was given up, keep its witness and name a new one: [privacy] "
            'witness = "..."'
        )


def _ledger_in(path: Path) -> str:
    return inspect(path, lambda replay: replay.run().genesis.ledger)
