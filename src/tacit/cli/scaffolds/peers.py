"""Peers: a job and a peer's own settings as commented files, and a federation whose members run on one machine."""

from __future__ import annotations

import csv
import io
import socket
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit.cli.scaffolds.files import toml, toml_key
from tacit.cli.scaffolds.streams import PORT
from tacit.core.errors import ConfigError
from tacit.peer.identity.identity import Role, validate_peer_name

JOB = """# What all members agree on: everybody has this same file, and every link begins with its hash.

[job]
name = {job}
epoch = 1                  # of the graph: counted up with each change of members or links (`tacit peer epoch`)
features = {features}               # numbers of a sample
batch = {batch}                  # samples of a round; the noise on their mean shrinks with their number
{names}
[members]
peer = {members}

[objective]                # classes 0 and 1 (or -1 and 1); "squared" for numbers
kind = "{objective}"
{classes}l2 = 1e-3

[algorithm]                # push-sum by running totals: links may be one-sided, and members may come and go
name = "loss_tolerant_push_sum"
step = 0.5

[algorithm.mechanism]      # each record's gradient is clipped to norm 1 and hidden by Laplace noise
kind = "laplace"
epsilon = 4.0
clip = 1.0
"""

PEER = """# What {name} decides for itself; nobody else has this file. Can it be used? tacit peer check peer.toml
job = {job}

[peer]
name = "{name}"
listen = "{listen}"

{links}
[addresses]                # of those to whom it sends
{addresses}

[privacy]                  # what may be spent on a record of this peer: one release, since each is used in one round
{budget}
witness = "witness.json"   # against a ledger that was rolled back; on another disk, where there is one

{stream}

[rounds]
{rounds}

[operations]               # on 127.0.0.1: /health, /metrics, /status, /predict and /learn
port = {port}
{status}"""

FLEET = """# Whom an observer looks at, and an operator stops and starts: tacit board --peers {folder}/fleet.toml
identity = "{watch}/observer"   # may read status, and nothing else
operator = "{watch}/operator"   # may stop and start, too; each act is noted in actions.jsonl

{peers}"""

START = """#!/bin/sh
# All members on this machine, each a process of its own; they end after the last round of [rounds].
cd "$(dirname "$0")" || exit 2
tacit=${TACIT:-tacit}
$tacit peer check */peer.toml || exit 2
pids=""
trap 'kill $pids 2> /dev/null' INT TERM
for home in */peer.toml; do
  $tacit peer run "$home" 2> "$(dirname "$home")/log.jsonl" &
  pids="$pids $!"
done
echo "members run; their logs are */log.jsonl"
failed=0
for pid in $pids; do
  wait "$pid" || failed=1
done
[ "$failed" = 0 ] || echo "a member failed: see the end of its log.jsonl" >&2
[ "$failed" = 1 ] || echo "all members have ended; next: tacit peer model MEMBER/peer.toml writes a member's model"
exit "$failed"
"""


STATUS = """status = "{address}"    # for observers and operators, by certificate: see fleet.toml
progress = 5                    # rounds; observers may see loss and accuracy, which are made of raw data
"""
AUTHORITY, WATCH = "ca", "watch"
"""Folders of a federation that hold its authority, and its observer and operator; no members."""
WATCHERS: tuple[Role, ...] = ("observer", "operator")


class Samples(NamedTuple):
    """Samples that a member learns from."""

    label: str
    columns: tuple[str, ...]
    objective: str = "logistic"
    classes: int = 0
    names: tuple[str, ...] = ()
    """Of the classes, where the labels are words."""


class Link(NamedTuple):
    """Neighbours of a member, and where it listens."""

    listen: str
    sends_to: dict[str, str]
    """Name -> address."""
    hears: list[str]


def job_text(name: str, members: Sequence[str], samples: Samples, batch: int = 4) -> str:
    """Return a job of members that learn from such samples."""
    for member in members:
        validate_peer_name(member)
    classes = f"classes = {samples.classes}\n" if samples.classes else ""
    return JOB.format(
        job=toml(name), features=len(samples.columns), batch=batch, members=toml(list(members)),
        objective=samples.objective, classes=classes,
        names=f"class_names = {toml(list(samples.names))}\n" if samples.names else "",
    )  # fmt: skip


def peer_text(
    name: str,
    job: str,
    links: Mapping[str, Link],
    stream: str,
    last: int | None = None,
    budget: str = "epsilon = 4.0",
    status: str | None = None,
) -> str:
    """Return a peer's settings: its neighbours by link set, and its [stream] as `stream_text` writes it."""
    addresses = {other: address for link in links.values() for other, address in link.sends_to.items()}
    tables = [
        f"[links.{links_name}]\nsends_to = {toml(list(link.sends_to))}\nhears = {toml(link.hears)}\n"
        for links_name, link in links.items()
    ]
    return PEER.format(
        name=name,
        job=toml(job),
        listen=next((link.listen for link in links.values()), "0.0.0.0:7443"),
        links="# A link is there when the sender names the receiver and the receiver the sender.\n" + "\n".join(tables),
        addresses="\n".join(f'{toml_key(other)} = "{address}"' for other, address in addresses.items()),
        budget=budget,
        stream=stream.rstrip(),
        rounds="# last = 100             # end after so many rounds"
        if last is None
        else f"deadline = 2.0\nlast = {last}",
        port=0 if last is not None else PORT,
        status="" if status is None else STATUS.format(address=status),
    )


def fleet_text(folder: str, doors: Mapping[str, str]) -> str:
    """Return the fleet of a federation of this machine: each member with the address of its door for observers."""
    tables = [
        f'[peers.{toml_key(name)}]\naddress = "{door}"\nstart = ["tacit", "peer", "run", "{name}/peer.toml"]\n'
        for name, door in doors.items()
    ]
    return FLEET.format(folder=folder, watch=WATCH, peers="\n".join(tables))


def ring(names: Sequence[str], ports: Sequence[int]) -> dict[str, Link]:
    """Return one-sided links on this machine: each member sends to the next."""
    where = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
    count = len(names)
    return {
        name: Link(where[name], {names[(k + 1) % count]: where[names[(k + 1) % count]]}, [names[k - 1]])
        for k, name in enumerate(names)
    }


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that are free just now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def enrol(folder: Path, names: Sequence[str]) -> None:
    """Make an authority, and an identity for every member, an observer and an operator, as on hosts of their own."""
    from tacit.peer.identity.authority import init_ca, issue
    from tacit.peer.identity.enrolment import install, request

    init_ca(folder / AUTHORITY, folder.name[:64])
    for name in names:
        home = folder / name
        asked = request(name, home / "identity")
        certificate = issue(asked.csr, name, folder / AUTHORITY, home / f"{name}.crt")
        install(certificate, folder / AUTHORITY / "ca.crt", home / "identity")
        certificate.unlink()
    for role in WATCHERS:
        home = folder / WATCH / role
        certificate = issue(request(role, home).csr, role, folder / AUTHORITY, home / f"{role}.crt", role=role)
        install(certificate, folder / AUTHORITY / "ca.crt", home)
        certificate.unlink()


def rows_text(columns: Sequence[str], label: str, x: Any, y: Any) -> str:
    """Return rows as a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, label])
    writer.writerows([*map(_digits, row), _digits(each)] for row, each in zip(x, y, strict=True))
    return text.getvalue()


def _digits(value: float | str) -> str:
    """Return a number as short as it can be read back; the name of a class as it is."""
    return value if isinstance(value, str) else repr(float(value)).removesuffix(".0")


def made_up_rows(seed: int, count: int) -> tuple[Any, Any]:
    """Return samples of three numbers around 0, and classes that follow from them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3))
    chance = 1 / (1 + np.exp(-2 * x @ np.array([1.5, -2.0, 1.0])))
    return x, (rng.random(count) < chance).astype(int)


def member_names(owners: Sequence[str]) -> list[str]:
    """Return the owners' names as peers may be called, or say which cannot be made one."""
    plain = ["".join(c for c in unicodedata.normalize("NFKD", each) if not unicodedata.combining(c)) for each in owners]
    names = ["".join(c if c.isascii() and (c.isalnum() or c == "-") else "-" for c in each.lower()) for each in plain]
    names = [name.strip("-") or "member" for name in names]
    names = [name if name[0].isalpha() and name not in (AUTHORITY, WATCH) else f"owner-{name}" for name in names]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise ConfigError(f"two owners would both be called {doubled!r}; give them names that differ in letters")
    return [validate_peer_name(name) for name in names]
