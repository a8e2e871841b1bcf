"""Jobs: the settings on which all peers of a federation have to agree, as one TOML file that each of them has.

    [job]        name, epoch, features, bias, class_names, batch, dtype, longest_delay, seed
    [members]    role = names in order, e.g. peer = ["hospital-a", "hospital-b"]
    [clusters]   name = number, of every member of a role that is in clusters; optional
    [dynamics]   kind and its parameters, of links that come and go; optional
    [[availability]]  members, and the rounds in which they are there; optional
    [objective]  kind and its parameters
    [algorithm]  name and its parameters; [algorithm.mechanism] for its noise; average = "mean", ... of its models

Its hash covers every setting, defaults spelt out, the package's version and the files of the user's own code, and
begins every link: peers of different jobs do not talk.
Members and links belong to the graph's epoch: a change of them counts it up in every copy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from tacit import graphs, runtime  # graphs are lazy
from tacit.config import sections
from tacit.config.choices import choose, task_of
from tacit.config.methods import choose_method, make_method
from tacit.config.own_code import Program, program
from tacit.config.sections import Place, Section, check, located, toml_text
from tacit.core import limits
from tacit.core.contract import Algorithm
from tacit.core.errors import ConfigError, GraphError, IdentityError
from tacit.objectives import OBJECTIVES
from tacit.peer.identity.identity import validate_peer_name
from tacit.peer.node.exchange import VERSION
from tacit.peer.sources.queue import SampleForm
from tacit.streams import Batch

if TYPE_CHECKING:
    from tacit.config.schedule import JobSchedule
    from tacit.peer.identity.invitation import Invitation

TABLES = ("job", "members", "clusters", "dynamics", "availability", "objective", "algorithm")


LARGEST = 2**31 - 1
"""Numbers that are sent, or are sizes of arrays."""


class JobSettings(Section):
    """[job]."""

    name: str = Field(min_length=1, max_length=100)
    epoch: int = Field(default=1, ge=1, le=LARGEST)
    """Of the graph: counted up with every change of members or links."""
    features: int = Field(ge=1, le=LARGEST)
    """Numbers that a sample has."""
    bias: bool = True
    """Whether a one is added to them, so that a linear model has an intercept."""
    batch: int = Field(default=1, ge=1, le=LARGEST)
    """Places for samples in a round; the noise of a private method shrinks with it."""
    dtype: Literal["float32", "float64"] = "float32"
    class_names: list[str] | None = None
    """Names of the classes, in their order: of two, that of -1 and that of 1. Labels may be given by them."""
    longest_delay: int = Field(default=0, ge=0, le=1000)
    """Rounds by which a message may be late and still count."""
    seed: sections.Seeding = 0
    """Of the choices that a method makes at random; never of its noise."""


@dataclass(frozen=True, eq=False)
class Job:
    """A checked job."""

    settings: JobSettings
    members: Mapping[str, tuple[str, ...]]
    form: SampleForm
    algorithm: Algorithm
    described: Mapping[str, Any]
    """All of it as plain data, defaults spelt out."""
    clusters: Mapping[str, np.ndarray]
    """Role -> which cluster each member belongs to; a role without clusters is not there."""

    program: Program
    """The code that runs it."""
    schedule: JobSchedule | None = None
    """Which links are up and which members are there; None: all, in every round."""
    invited: Invitation | None = None
    """Of a peer that is not among the members, in its own copy; no part of the hash."""

    @property
    def hash(self) -> str:
        """Hash that peers compare, in hexadecimal: settings and program."""
        draws = {"draws": self.schedule.draws} if self.schedule is not None and self.schedule.draws else {}
        return _hashed({"settings": self.settings_hash, **draws, **self.program.facts()})

    @property
    def settings_hash(self) -> str:
        """The part of the hash that is made of the file, and of what is said on a link."""
        return _hashed({"tacit": VERSION, **self.described})

    @property
    def ingredients(self) -> dict[str, str]:
        """Ingredients of the hash, so that two operators can compare them."""
        code = ", ".join(f"{name} {digest}" for name, digest in self.program.code)
        return {"job.toml": self.settings_hash, "version": self.program.version, "--with": code or "no file"}

    @property
    def empty_batch(self) -> Batch:
        """A batch of the job's shape with no sample in it."""
        size, features, dtype = self.settings.batch, self.model_features, self.settings.dtype
        rows = () if size == 1 else (size,)
        return Batch(np.zeros((*rows, features), dtype), np.zeros(rows, dtype), np.zeros(rows, dtype))

    @property
    def model_features(self) -> int:
        """Numbers that the model sees of a sample."""
        return self.settings.features + self.settings.bias

    def role_of(self, name: str) -> tuple[str, int]:
        """Return a member's role and its number there."""
        for role, names in self.members.items():
            if name in names:
                return role, names.index(name)
        if self.invited is not None and self.invited.name == name:
            return self.invited.role, self.invited.number
        everyone = ", ".join(name for names in self.members.values() for name in names)
        raise ConfigError(f"{name!r} is not a member of the job; its members are {everyone}")

    def refuse_invited(self, name: str) -> None:
        """Refuse to let a name join by an invitation where it needs none, or where members are fixed."""
        if self.algorithm.membership is None:
            raise ConfigError(
                f"members of {self.algorithm.name!r} are fixed within an epoch, so that nobody joins by an invitation: "
                f"add {name!r} to [members] of the job, and count the epoch up"
            )
        if any(name in names for names in self.members.values()):
            raise ConfigError(f"{name!r} is a member of the job, and needs no invitation")


def _hashed(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def load_job(path: Path) -> Job:
    """Read a job."""
    return _job(read_toml(path), path)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, or say why it cannot be read."""
    return sections.read_toml(sections.read_text(path, "a TOML file"), path)


def table_of(data: Mapping[str, Any], name: str, path: Path, required: bool = True) -> Mapping[str, Any]:
    """Return a table of a file."""
    found = data.get(name, None if required else {})
    if not isinstance(found, dict):
        problem = f"there is no [{name}]" if found is None else f"{name} = {toml_text(found)} is no table"
        raise ConfigError(f"{path}: {problem}; write [{name}] on a line of its own")
    return found


def refuse_unknown(data: Mapping[str, Any], known: tuple[str, ...], path: Path) -> None:
    """Refuse a table that would not be read."""
    for name in data:
        if name not in known:
            raise ConfigError(f"{path}: [{name}] is unknown; expected {', '.join(known)}")


def _job(data: Mapping[str, Any], path: Path) -> Job:
    refuse_unknown(data, TABLES, path)
    settings = check(JobSettings, table_of(data, "job", path), Place(str(path), "[job]"))
    objective = choose(OBJECTIVES, table_of(data, "objective", path), Place(str(path), "[objective]"))
    method = choose_method(table_of(data, "algorithm", path), Place(str(path), "[algorithm]"))
    wanted = 24 * settings.features * settings.batch
    sizes = f"{path}: [job] features = {settings.features}, batch = {settings.batch}"
    limits.refuse_beyond(wanted, sizes)
    with located(objective.place):
        made = objective.function(**objective.arguments())
    algorithm = make_method(method, made)
    # A method with servers makes them of a graph that has none; here the members say who is what.
    if algorithm.topology is not None and set(algorithm.init) == {"peer"}:
        raise ConfigError(
            f"{method.place} name = {algorithm.name!r}: it makes its own graph of the given one, which takes somebody "
            "who sees all of it; use a method that takes the graph as it is"
        )
    if settings.longest_delay and algorithm.missing == "wait":
        raise ConfigError(
            f"{path}: [job] longest_delay = {settings.longest_delay}: {algorithm.name!r} waits for every message of a "
            "round, so that none comes late; remove it, or use a method that goes on without a neighbour"
        )
    members = _members(table_of(data, "members", path), algorithm, Place(str(path), "[members]"))
    clusters = _clusters(table_of(data, "clusters", path, required=False), members, Place(str(path), "[clusters]"))
    schedule = _schedule(data, members, algorithm, settings.seed, path)
    described = {
        "job": settings.model_dump(
            exclude_none=True
        ),  # a key that nobody gave leaves old hashes, and stores, as they are
        "members": {role: list(names) for role, names in members.items()},
        **({"clusters": {role: labels.tolist() for role, labels in clusters.items()}} if clusters else {}),
        **({} if schedule is None else schedule.described),
        "objective": objective.settings(),
        "algorithm": method.settings("name"),
    }
    labels = task_of(objective)
    with located(Place(str(path), "[job]")):
        form = SampleForm.of(settings.features, *labels, class_names=settings.class_names)
    job = Job(
        settings,
        members,
        form,
        algorithm,
        described,
        clusters,
        program([method.function, objective.function]),
        schedule,
    )
    with located(objective.place):
        _check_start(job)
    return job


def _schedule(
    data: Mapping[str, Any], members: Mapping[str, tuple[str, ...]], algorithm: Algorithm, seed: int, path: Path
) -> JobSchedule | None:
    if not {"dynamics", "availability"} & data.keys():
        return None
    from tacit.config.schedule import job_schedule  # graphs, which other peers do without

    return job_schedule(data, members, algorithm, seed, path)


def _members(table: Mapping[str, Any], algorithm: Algorithm, place: Place) -> dict[str, tuple[str, ...]]:
    if set(table) != set(algorithm.init):
        wanted = " and ".join(f'{role} = ["...", ...]' for role in algorithm.init)
        found = f"has {', '.join(sorted(table))}" if table else "is empty"
        raise ConfigError(f"{place} {found}; {algorithm.name!r} needs {wanted}, and nothing else")
    members = {}
    for role in algorithm.init:
        names = table[role]
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ConfigError(
                f"{place} {role} = {toml_text(names)}: expected a list of at least one name in quotes, "
                'e.g. ["hospital-a", "hospital-b"]'
            )
        try:
            members[role] = tuple(map(validate_peer_name, names))
        except IdentityError as error:
            raise ConfigError(f"{place} {role}: {error}") from error
    everyone = [name for names in members.values() for name in names]
    doubled = next((name for name in everyone if everyone.count(name) > 1), None)
    if doubled is not None:
        raise ConfigError(f"{place}: {doubled!r} is there twice; a name is one peer: remove one of them, or rename it")
    return members


def _clusters(table: Mapping[str, Any], members: Mapping[str, tuple[str, ...]], place: Place) -> dict[str, np.ndarray]:
    """Return the clusters of every role of which a member is in one."""
    known = {name for names in members.values() for name in names}
    for name, number in table.items():
        if name not in known:
            raise ConfigError(f"{place} {name} = {toml_text(number)}: {name!r} is not a member; remove the line")
        if isinstance(number, bool) or not isinstance(number, int):
            raise ConfigError(f"{place} {name} = {toml_text(number)}: expected the number of a cluster, counted from 0")
    found = {}
    for role, names in members.items():
        missing = [name for name in names if name not in table]
        if len(missing) == len(names):
            continue
        if missing:
            raise ConfigError(
                f"{place} has no {missing[0]!r}, but other members of role {role!r}; say of each which cluster it is in"
            )
        try:
            found[role] = graphs.validate_clusters(
                [table[name] for name in names], len(names), f"members of role {role!r}"
            )
        except GraphError as error:
            raise ConfigError(f"{place}: {error}") from error
    return found


def _check_start(job: Job) -> None:
    """Find out at once whether the objective can start from a batch of this shape."""
    dtype = job.settings.dtype
    try:
        with jax.enable_x64(dtype == "float64"):
            runtime.first_params(job.algorithm, job.empty_batch, jnp.dtype(dtype), None)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"it cannot start from samples of features = {job.settings.features}: {error}; use another objective"
        ) from error
