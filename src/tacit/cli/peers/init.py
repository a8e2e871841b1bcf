"""`tacit peer init`, also `tacit new peer`: a folder with all that a peer needs but a certificate."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.common import reported, say
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.cli.scaffolds.peers import Link, Samples
    from tacit.config.job import Job

FEATURES = ("x0", "x1", "x2")
"""Columns of a peer's samples, where there is no table."""
BATCH = 4
"""Samples that a peer takes in a round."""


@reported
def init_peer(
    name: Annotated[str, typer.Argument(help="The peer's name in the federation.")] = "hospital-a",
    stream: Annotated[str | None, typer.Option(help="push, csv, jsonl, kafka, mqtt or sql.")] = None,
    job: Annotated[Path | None, typer.Option(help="The federation's job.toml; without it one is written.")] = None,
    data: Annotated[Path | None, typer.Option(help="A CSV file of your own, which the peer follows.")] = None,
    label: Annotated[str | None, typer.Option(help="Its column to predict; by default the last one.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to make; by default the name.")] = None,
) -> None:
    """Make a peer's folder: job.toml, a commented peer.toml, a key, and a request for its certificate."""
    from tacit.cli.scaffolds import peers
    from tacit.cli.scaffolds.files import refuse_existing, write_new
    from tacit.cli.scaffolds.streams import STREAMS, stream_text
    from tacit.config.job import load_job
    from tacit.config.sections import read_text, unknown_name
    from tacit.peer.identity.enrolment import request

    kind = stream or ("push" if data is None else "csv")
    if kind not in STREAMS:
        raise ConfigError(f"--stream {kind}: {unknown_name(kind, list(STREAMS), 'kind')}")
    if data is not None and kind != "csv":
        raise ConfigError(f"--data names a CSV file, which --stream {kind} does not follow; leave one of them out")
    folder = out or Path(name)
    refuse_existing(folder)
    samples = _samples(data, label)
    path = None if data is None else str(data.resolve())
    if job is None:
        other = "hospital-b" if name != "hospital-b" else "hospital-a"
        text = peers.job_text("a study", [name, other], samples, BATCH)
        links = {"peers": peers.Link("0.0.0.0:7443", {other: f"{other}.example.org:7443"}, [other])}
        budget = "epsilon = 4.0"
    else:
        made = load_job(job)
        text, links = read_text(job, "the job's file"), _links(made, name)
        if len(samples.columns) != made.settings.features and data is not None:
            raise ConfigError(f"{data}: {len(samples.columns)} columns; the job has {made.settings.features} features")
        if data is None:
            samples = samples._replace(columns=tuple(f"x{k}" for k in range(made.settings.features)))
        private = any(phase.mechanism is not None for phase in made.algorithm.phases)
        budget = (
            "epsilon = 4.0              # `tacit peer check` says for how long" if private else "unprotected = true"
        )
    settings = peers.peer_text(
        name, "job.toml", links, stream_text(kind, samples.label, samples.columns, path), budget=budget
    )
    try:
        write_new({folder / "job.toml": text, folder / "peer.toml": settings})
        request(name, folder / "identity")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # it was not there before
        raise
    _say_next(name, folder, links)


def _samples(data: Path | None, label: str | None) -> Samples:
    from tacit.cli.new import look, refuse_columns_without_data, samples_of
    from tacit.cli.scaffolds.peers import Samples

    refuse_columns_without_data(data, label, None)
    return Samples("y", FEATURES) if data is None else samples_of(look(data, label, None, owned=False))


def _links(job: Job, name: str) -> dict[str, Link]:
    """Return links to begin with: one to the next member of the same role, or all to those of another."""
    from tacit.cli.scaffolds.peers import Link
    from tacit.runtime import link_ends

    role, _ = job.role_of(name)
    found = {}
    for links, (source, target) in link_ends(job.algorithm).items():
        if role not in (source, target):
            continue
        if source == target:
            names = job.members[role]
            at = names.index(name)
            to, of = {names[(at + 1) % len(names)]} - {name}, {names[at - 1]} - {name}
        else:
            to = set(job.members[target]) if role == source else set()
            of = set(job.members[source]) if role == target else set()
        found[links] = Link("0.0.0.0:7443", {each: f"{each}.example.org:7443" for each in sorted(to)}, sorted(of))
    return found


def _say_next(name: str, folder: Path, links: dict[str, Link]) -> None:
    others = sorted({other for link in links.values() for other in (*link.sends_to, *link.hears)})
    say(f"written: {folder}, with job.toml, peer.toml, and a key that stays there")
    if others:
        say(f"fill in: {', '.join(others)} at example.org stand for the neighbours; name yours in {folder}/peer.toml")
    identity, where = folder / "identity", shlex.quote(str(folder))
    say("next, for a certificate (an authority on this host, to try it out; else send the request there):")
    for command in (
        "peer init-ca ca",
        f"peer issue {name} --csr {shlex.quote(str(identity / f'{name}.csr'))}",
        f"peer install {name}.crt --ca ca/ca.crt --out {shlex.quote(str(identity))}",
        f"peer check {where}/peer.toml",
        f"peer run {where}/peer.toml",
    ):
        say(f"  tacit {command}")
