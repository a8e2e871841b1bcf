"""Federations as files: a job, an authority, and a home with a peer.toml for each member."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from tacit.peer.identity.authority import init_ca
from tests.peer.enrolment import enrol

NAMES = ("hospital-a", "hospital-b", "hospital-c")
RING = {"hospital-a": ["hospital-b"], "hospital-b": ["hospital-c"], "hospital-c": ["hospital-a"]}
BOTH_WAYS = {a: [b for b in NAMES if b != a] for a in NAMES}
LAPLACE = '\n[algorithm.mechanism]\nkind = "laplace"\nepsilon = 2.0\nclip = 1.0\n'
DRAWN = "unprotected = true"


def job_text(
    algorithm="online_push_sum", members=NAMES, *, features=2, mechanism="", objective='kind = "logistic"', **job
):
    """The text of a job; further settings go into [job]."""
    settings = {"name": '"ward study"', "features": features, **job}
    lines = "\n".join(f"{key} = {value}" for key, value in settings.items())
    names = ", ".join(f'"{name}"' for name in members)
    return (
        f"[job]\n{lines}\n\n[members]\npeer = [{names}]\n\n[objective]\n{objective}\n\n"
        f'[algorithm]\nname = "{algorithm}"\nstep = 0.5\n{mechanism}'
    )


def quoted(names):
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def peer_text(name, sends_to, hears, ports, *, privacy=DRAWN, links="", stream="", rounds="", operations="", store=""):
    """The text of a peer.toml; each further argument is the lines of its table."""
    addresses = "\n".join(f'{other} = "127.0.0.1:{ports[other]}"' for other in sends_to)
    tables = {
        "peer": f'name = "{name}"\nlisten = "127.0.0.1:{ports[name]}"\n{store}',
        "links.peers": f"sends_to = {quoted(sends_to)}\nhears = {quoted(hears)}\n{links}",
        "addresses": addresses,
        "privacy": privacy,
        "stream": stream,
        "rounds": rounds,
        "operations": operations,
    }
    return 'job = "../job.toml"\n' + "".join(f"\n[{table}]\n{lines}\n" for table, lines in tables.items())


def free_ports(count):
    """Ports that were free just now, and that no system hands out by itself: connections of others do not take them."""
    chance, free = random.SystemRandom(), []
    while len(free) < count:
        port = chance.randrange(20_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            free += [port] * (port not in free)
    return free


def found(directory: Path, job, sends_to=None, *, identities=True, **peer) -> dict[str, Path]:
    """Write a whole federation; returns the peers' files by name."""
    sends_to = sends_to or RING
    ports = dict(zip(sends_to, free_ports(len(sends_to)), strict=True))
    (directory / "job.toml").write_text(job)
    files = {}
    for name, targets in sends_to.items():
        home = directory / name
        home.mkdir()
        hears = [other for other, others in sends_to.items() if name in others]
        own = {key: value[name] if isinstance(value, dict) else value for key, value in peer.items()}
        files[name] = home / "peer.toml"
        files[name].write_text(peer_text(name, targets, hears, ports, **own))
    if identities:
        certify(directory, sends_to)
    return files


def certify(directory: Path, names):
    """Have every member's certificate issued and installed."""
    authority = directory / "ca"
    if not authority.exists():
        init_ca(authority, "test federation")
    for name in names:
        enrol(directory / name / "identity", authority, name)
