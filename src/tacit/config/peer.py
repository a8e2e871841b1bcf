"""A peer's own settings, as one TOML file that only it has.

    job = "job.toml"        the job's file, beside this one unless the path is absolute

    [peer]       name, listen, store; invitation: file of the authority, of a peer that is not among [members]
    [identity]   directory: where `tacit peer install` put certificate and key
    [links.X]    per link set: sends_to, hears; weight_to, weight_from where the weight rule needs more than it knows;
                 co_senders where messages are masked
    [addresses]  NAME = "host:port" of every peer to which it sends
    [privacy]    epsilon, or rho, or epsilon and delta; witness. Or unprotected = true, said aloud
    [stream]     kind = "push", "csv", "jsonl", "kafka", "mqtt" or "sql", and its parameters (`stream.py`)
    [rounds]     deadline, patience, interval, last
    [operations] port (loopback), status (for observers elsewhere), log, level, progress, traces
    [limits]     connections, per_address, proof_time: of connections that have not proved an identity

Every path is taken to start beside the file. Every fault is a ConfigError that names file, key, value and remedy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from tacit.config.budget import PrivacyTable, budget_of
from tacit.config.job import Job, load_job, read_toml, refuse_unknown, table_of
from tacit.config.sections import Place, Section, beside, check, check_path, located, toml_text
from tacit.config.stream import Stream, stream_of
from tacit.core import limits
from tacit.core.errors import ConfigError, IdentityError
from tacit.peer.transport.admission import DoorLimits
from tacit.privacy.accounting import Budget
from tacit.privacy.noise import hides
from tacit.runtime import link_ends

if TYPE_CHECKING:
    from tacit.peer.identity.invitation import Invitation

TABLES = ("job", "peer", "identity", "links", "addresses", "privacy", "stream", "rounds", "operations", "limits")
Weights = dict[str, float]
ADDRESS = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+(%\w+)?\]):(?P<port>[0-9]{1,5})")
COLLECTOR = re.compile(r"https?://([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9_./-]*)?")
LONGEST_WAIT = 7 * 24 * 3600.0
"""Seconds."""


class PeerTable(Section):
    """[peer]."""

    name: str
    listen: str = "0.0.0.0:7443"
    """Port 0 takes a free one, which the log names."""
    store: str = "state/store.db"
    joins: bool = False
    """Whether it joins peers that run already: it begins with nothing, when the first of them sends to it."""
    invitation: str | None = None
    """The authority's file, of a peer that joins and is not among the job's members."""


class IdentityTable(Section):
    """[identity]."""

    directory: str = "identity"


class LinksTable(Section):
    """[links.X]: one side's view of a link set; the other side of each link has to agree."""

    sends_to: list[str] = Field(default_factory=list)
    hears: list[str] = Field(default_factory=list)
    accepts: list[str] | Literal["members"] = Field(default_factory=list)
    """Who besides `hears` may open a link to this peer while it runs; "members": whoever the authority has named."""
    weight_to: Weights = Field(default_factory=dict)
    """W[receiver, this peer], where the rule does not give it."""
    weight_from: Weights = Field(default_factory=dict)
    """W[this peer, sender], where the rule does not give it."""
    co_senders: dict[str, list[str]] = Field(default_factory=dict)
    """Receiver -> whom else it hears, where messages are masked: those with whom this peer shares masks are there."""


class RoundsTable(Section):
    """[rounds]: times in seconds."""

    deadline: float = Field(default=5.0, gt=0, le=LONGEST_WAIT)
    patience: float = Field(default=1.0, ge=0, le=LONGEST_WAIT)
    """How long a round waits for a full batch before it takes what there is."""
    interval: float = Field(default=0.0, ge=0, le=LONGEST_WAIT)
    last: int | None = Field(default=None, ge=1, le=limits.MOST_ROUNDS)


class OperationsTable(Section):
    """[operations]."""

    port: int = Field(default=0, ge=0, le=65535)
    """On 127.0.0.1; 0 takes a free one, which the log and `tacit peer status` name."""
    status: str | None = None
    """"host:port" at which observers and operators read the status over mutual TLS; none: there is no such door."""
    log: Literal["json", "text"] = "json"
    level: Literal["debug", "info", "warning", "error"] = "info"
    progress: int = Field(default=100, ge=0, le=1_000_000)
    """Rounds over which loss and accuracy are taken, and after which a line of the log has them; 0: neither.

    They are made of raw data: observers see them only where the file itself names this key."""
    traces: str | None = None
    """URL of an OTLP collector over HTTP; none: no traces, unless a variable of OpenTelemetry names one."""


class LimitsTable(Section):
    """[limits]: connections that have not proved an identity; as many more as this peer hears neighbours."""

    connections: int = Field(default=DoorLimits().connections, ge=1, le=100_000)
    per_address: int = Field(default=DoorLimits().per_address, ge=1, le=100_000)
    proof_time: float = Field(default=DoorLimits().proof_time, ge=1, le=3600)
    """Seconds."""


@dataclass(frozen=True, eq=False)
class PeerSettings:
    """A checked peer.toml with its job."""

    file: Path
    job: Job
    peer: PeerTable
    identity: Path
    links: Mapping[str, LinksTable]
    addresses: Mapping[str, str]
    budget: Budget
    booked: bool
    witness: Path | None
    stream: Stream
    rounds: RoundsTable
    operations: OperationsTable
    limits: DoorLimits

    @property
    def invitation(self) -> Invitation | None:
        """Invitation of a peer that is not among the job's members, verified."""
        return self.job.invited

    @property
    def store(self) -> Path:
        """Path of the store."""
        return self.beside(self.peer.store)

    @property
    def protects(self) -> bool:
        """Whether what leaves is charged, or leaves under masks: then a store must not be forgotten."""
        return self.booked or any(hides(phase.mechanism) for phase in self.job.algorithm.phases)

    @property
    def links_change(self) -> bool:
        """Whether links may change while the peer runs; a schedule, weights by hand and masks forbid it."""
        algorithm = self.job.algorithm
        masked = any(hides(phase.mechanism) for phase in algorithm.phases)
        weighed = any(one.weight_to for one in self.links.values())
        return algorithm.membership is not None and self.job.schedule is None and not masked and not weighed

    @property
    def account(self) -> str:
        """Name under which an identity has one ledger: job and member."""
        return f"{self.job.settings_hash} as {self.peer.name}"

    @property
    def part(self) -> str:
        """Identity of a store: the job's settings, the member, and its links, whose slots the stored state has.

        It goes on under a new version and new code: a new store would forget what was spent.
        """
        if self.links_change:
            return f"{self.account} with links that change"
        links = {name: (sorted(table.sends_to), sorted(table.hears)) for name, table in self.links.items()}
        digest = hashlib.sha256(json.dumps(links, sort_keys=True).encode()).hexdigest()[:16]
        return f"{self.account} with links {digest}"

    @property
    def doors(self) -> list[tuple[str, str, int]]:
        """Key, host and port of every door at which the peer listens; port 0: the system chooses one."""
        named = [("[peer] listen", self.peer.listen), ("[operations] port", f"127.0.0.1:{self.operations.port}")]
        if self.operations.status is not None:
            named.append(("[operations] status", self.operations.status))
        parts = [(key, *address.rpartition(":")[::2]) for key, address in named]
        return [(key, host, int(port)) for key, host, port in parts]

    @property
    def shows_loss(self) -> bool:
        """Whether observers see loss and accuracy: where the file itself asks for them."""
        return bool(self.operations.progress) and "progress" in self.operations.model_fields_set

    @property
    def control(self) -> Path:
        """Path of the file in which a running peer says how it can be reached on this host."""
        return self.store.with_name(self.store.name + ".control")

    @property
    def programs(self) -> Path:
        """Path of the folder in which `tacit peer run` keeps compiled programs."""
        return self.store.with_name(self.store.name + ".programs")

    def beside(self, path: str) -> Path:
        """Return a path that is taken to start beside the file."""
        return (self.file.parent / path).resolve()


def load_peer(path: Path, load_job: Callable[[Path], Job] = load_job) -> PeerSettings:
    """Read a peer's settings and, by `load_job`, its job."""
    data = read_toml(path)
    refuse_unknown(data, TABLES, path)
    job_file = data.get("job")
    if not isinstance(job_file, str):
        problem = "there is no job" if job_file is None else f"job = {toml_text(job_file)} is no path"
        raise ConfigError(f'{path}: {problem}; name the job\'s file: add job = "job.toml" as the first line')
    job = load_job(beside(path, job_file, Place(str(path), "job")))

    def section(name: str, model: type[Any], required: bool = False) -> Any:
        return check(model, table_of(data, name, path, required), Place(str(path), f"[{name}]"))

    peer = section("peer", PeerTable, required=True)
    identity = section("identity", IdentityTable)
    for key, value in (
        ("[peer] store", peer.store),
        ("[peer] invitation", peer.invitation),
        ("[identity] directory", identity.directory),
    ):
        check_path(value, Place(str(path), key))
    if peer.invitation is not None:
        with located(Place(str(path), "[peer] invitation")):
            job = _invited(job, peer.name, path.parent / peer.invitation, path.parent / identity.directory)
    with located(Place(str(path), "[peer] name")):
        job.role_of(peer.name)
    validate_address(peer.listen, Place(str(path), "[peer] listen"), lowest_port=0)
    links = _links(table_of(data, "links", path, required=False), job, peer.name, path)
    addresses = _addresses(table_of(data, "addresses", path, required=False), links, path)
    privacy = section("privacy", PrivacyTable)
    with located(Place(str(path), "[privacy]")):
        booked, budget = budget_of(privacy, job.algorithm)
    check_path(privacy.witness, Place(str(path), "[privacy] witness"))
    operations = section("operations", OperationsTable)
    if operations.status is not None:
        validate_address(operations.status, Place(str(path), "[operations] status"), lowest_port=0)
    if operations.traces is not None and not COLLECTOR.fullmatch(operations.traces):
        raise ConfigError(
            f"{path}: [operations] traces: expected the URL of a collector without user or password, as "
            '"http://127.0.0.1:4318/v1/traces"'
        )
    home = path.parent.resolve()
    return PeerSettings(
        file=path.resolve(),
        job=job,
        peer=peer,
        identity=home / identity.directory,
        links=links,
        addresses=addresses,
        budget=budget,
        booked=booked,
        witness=None if privacy.witness is None else home / privacy.witness,
        stream=stream_of(table_of(data, "stream", path, required=False), job, path),
        rounds=section("rounds", RoundsTable),
        operations=operations,
        limits=DoorLimits(**section("limits", LimitsTable).model_dump()),
    )


def _invited(job: Job, name: str, invitation: Path, identity: Path) -> Job:
    """Return the job with its invited peer; the end of an invitation is looked at by those whom it joins."""
    from tacit.peer.identity.identity import identity_files
    from tacit.peer.identity.invitation import read_invitation
    from tacit.peer.identity.pem_files import load_certificates, read_file

    job.refuse_invited(name)
    try:
        authorities = load_certificates(identity_files(identity).ca)
        found = read_invitation(read_file(invitation), authorities, job.settings_hash, None)
    except IdentityError as error:
        raise ConfigError(str(error)) from error
    if found.name != name or found.role not in job.members:
        raise ConfigError(f"{invitation} invites {found.name!r} as {found.role!r}, not {name!r}: use its own")
    return replace(job, invited=found)


def _links(table: Mapping[str, Any], job: Job, name: str, path: Path) -> dict[str, LinksTable]:
    role, _ = job.role_of(name)
    ends = {links: pair for links, pair in link_ends(job.algorithm).items() if role in pair}
    wanted = ", ".join(f"[links.{links}]" for links in ends) or "no links"
    for links in ends.keys() - table.keys():
        raise ConfigError(f"{path}: there is no [links.{links}]; a {role!r} of this job has {wanted}: add it")
    for links in table.keys() - ends.keys():
        raise ConfigError(f"{path}: [links] {links}: unknown links; a {role!r} of this job has {wanted}: remove it")
    found = {}
    for links, (source, target) in ends.items():
        place = Place(str(path), f"[links.{links}]")
        if not isinstance(table[links], dict):
            raise ConfigError(f"{path}: [links] {links} = {toml_text(table[links])} is no table; write [links.{links}]")
        one = check(LinksTable, table[links], place)
        sides = (("sends_to", one.sends_to, source, target), ("hears", one.hears, target, source))
        for key, names, own_role, other_role in sides:
            _check_neighbours(place, key, names, name, job.members[other_role] if own_role == role else ())
        for key, weights, names in (
            ("weight_to", one.weight_to, one.sends_to),
            ("weight_from", one.weight_from, one.hears),
        ):
            for other, weight in weights.items():
                if other not in names:
                    side = "sends_to" if key == "weight_to" else "hears"
                    raise ConfigError(
                        f"{place} {key}.{other} = {weight!r}: {other!r} is not in {side}; remove one or add the other"
                    )
                if not 0 < weight <= 1:
                    raise ConfigError(f"{place} {key}.{other} = {weight!r}: expected a weight above 0 and at most 1")
        _check_co_senders(place, one, name, job, links, source)
        if one.accepts and (job.algorithm.membership is None or one.weight_to):
            raise ConfigError(
                f"{place} accepts = {toml_text(one.accepts)}: links of {job.algorithm.name!r} with these settings are "
                "fixed within an epoch, so that it would do nothing; remove it"
            )
        found[links] = one
    return found


def _check_co_senders(place: Place, table: LinksTable, own: str, job: Job, links: str, source: str) -> None:
    """Check what is there; whether something is missing `plan_of` says, so that `tacit peer check` can help."""
    masked = any(phase.links == links and hides(phase.mechanism) for phase in job.algorithm.phases)
    for receiver, names in table.co_senders.items():
        what = f"{place} co_senders.{receiver} = {toml_text(names)}"
        if not masked:
            raise ConfigError(f"{what}: messages over {links!r} are not masked, so that it would do nothing; remove it")
        if receiver not in table.sends_to:
            raise ConfigError(f"{what}: this peer does not send to {receiver!r}; remove it, or add it to sends_to")
        possible = [name for name in job.members[source] if name not in (own, receiver)]
        if not names or len(set(names)) < len(names) or not set(names) <= set(possible):
            raise ConfigError(
                f"{what}: expected the others whom {receiver!r} hears, each once: at least one of {', '.join(possible)}"
            )


def _check_neighbours(place: Place, key: str, names: list[str], own: str, possible: tuple[str, ...]) -> None:
    for name in names:
        if name == own:
            raise ConfigError(f"{place} {key}: {name!r} is this peer itself, which it hears anyway; remove it")
        if name not in possible:
            others = ", ".join(other for other in possible if other != own)
            expected = (
                f"expected some of {others}" if others else f"leave {key} out: no peer is at that end for this one"
            )
            raise ConfigError(f"{place} {key}: {name!r} cannot be a neighbour there; {expected}")
        if names.count(name) > 1:
            raise ConfigError(f"{place} {key}: {name!r} is there twice; remove one")


def _addresses(table: Mapping[str, Any], links: Mapping[str, LinksTable], path: Path) -> dict[str, str]:
    wanted = {name for one in links.values() for name in one.sends_to}
    for name in sorted(wanted - table.keys()):
        raise ConfigError(f'{path}: [addresses] has no {name!r}, to whom this peer sends; add {name} = "host:port"')
    for name in sorted(table.keys() - wanted):
        raise ConfigError(
            f"{path}: [addresses] {name}: this peer does not send to it; remove it, or add it to sends_to"
        )
    for name, address in table.items():
        validate_address(address, Place(str(path), f"[addresses] {name}"))
    return dict(table)


def validate_address(address: Any, place: Place | str, lowest_port: int = 1) -> str:
    """Return "host:port", or refuse what is none."""
    found = ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or not lowest_port <= int(found["port"]) <= 65535:
        raise ConfigError(
            f'{place} = {toml_text(address)}: expected "host:port" with a port from {lowest_port} to 65535, '
            'e.g. "10.0.0.2:7443" or "[fd00::2]:7443"'
        )
    return str(address)
