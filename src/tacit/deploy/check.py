"""Checks over the settings of all peers: whether they make one graph that the algorithm can use."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from tacit import runtime
from tacit.config.brokers import (
    KafkaStream,
    SqlStream,
    data_base,
    kafka_access,
    mqtt_access,
    readable,
)
from tacit.config.job import Job
from tacit.config.peer import PeerSettings, load_peer
from tacit.config.sections import located
from tacit.config.stream import FileStream, PushStream
from tacit.core.errors import ConfigError, DataError, TacitError
from tacit.deploy.assignment import plan_of
from tacit.deploy.ledger_register import check_store
from tacit.deploy.readiness import check_budget, check_data, running
from tacit.graphs import Graph, Topology
from tacit.peer.identity.identity import Identity, IdentityFiles, expiry_warning, identity_files, load_identity
from tacit.peer.identity.pem_files import load_certificates
from tacit.peer.identity.revocation import load_list
from tacit.peer.node.assignment import Plan
from tacit.peer.transport.doors import listening
from tacit.privacy.noise import hides

LOOKED_AT = 1000
"""Rounds of a schedule that are looked at, or as many as the peers do."""
REACHED = 3.0
"""Seconds for a broker or data base to answer."""


class CheckReport(NamedTuple):
    """Findings about the peers of a federation."""

    lines: list[str]
    faults: list[str]


def check_peers(files: Sequence[Path]) -> CheckReport:
    """Check peers one by one, and together if these are all of a job's members."""
    report = CheckReport([], [])
    peers = [load_peer(file) for file in files]
    jobs = {peer.job.hash for peer in peers}
    if len(jobs) > 1:
        found = "\n".join(f"{peer.file}: job {peer.job.hash}\n{_made_of(peer.job)}" for peer in peers)
        raise ConfigError(f"the files belong to different jobs, whose peers do not talk:\n{found}")
    job = peers[0].job
    names = [peer.peer.name for peer in peers]
    for peer in peers:
        if names.count(peer.peer.name) > 1:
            raise ConfigError(f"{peer.file}: another file is of {peer.peer.name!r} too; name each peer's file once")
    members = [name for names in job.members.values() for name in names]
    report.lines.append(f"job {job.settings.name!r}, epoch {job.settings.epoch}: {job.hash}\n{_made_of(job)}")
    if any(hides(phase.mechanism) for phase in job.algorithm.phases):
        report.lines.append(f"messages are masked: {job.algorithm.privacy.holds}")
    complete = set(names) == set(members)
    if complete:
        _check_links(peers, report)
        _compare_addresses(peers, report)
    else:
        report.lines.append(f"{len(peers)} of {len(members)} members: whether links agree is not checked")
    for peer in peers:
        _check_alone(peer, report, here=len(peers) == 1 or peer.identity.exists())
    return report


def _made_of(job: Job) -> str:
    return "\n".join(f"  {part}: {value}" for part, value in job.ingredients.items())


def _check_alone(peer: PeerSettings, report: CheckReport, here: bool) -> None:
    """Check one peer; what only its own host has, data, store and ports, where this seems to be `here`."""
    name, before = peer.peer.name, len(report.faults)
    warning = None
    try:
        files = identity_files(peer.identity)
        identity = load_identity(files)
        if identity.name != name:
            raise ConfigError(f"the certificate in {peer.identity} names {identity.name!r}, not {name!r}")
        warning = expiry_warning(identity, datetime.now(UTC))
        report.lines.extend(_revocations(name, identity, files))
    except TacitError as error:
        report.faults.append(f"{name}: {error}")
    if peer.invitation is not None:
        one = peer.invitation
        ended = ", which is over" if one.until < datetime.now(UTC) else ""
        report.lines.append(
            f"{name}: invited as {one.role} {one.number}, to join until {one.until:%Y-%m-%d %H:%M} UTC{ended}"
        )
    try:
        plan = plan_of(peer)
    except TacitError as error:
        report.faults.append(f"{name}: {error}")
        return
    if here:
        lines, faults = readiness(peer, plan)
        report.lines.extend(lines)
        report.faults.extend(faults)
    if len(report.faults) == before:
        report.lines.append(f"{name}: {warning or 'ok'}")


def _revocations(name: str, identity: Identity, files: IdentityFiles) -> Iterator[str]:
    """Say which revocation list a peer has; refuse a peer that is on it."""
    assert files.revoked is not None
    listed = load_list(files.revoked, load_certificates(files.ca))
    if listed is None:
        return
    taken_back = replace(identity, revoked=listed).revocation
    if taken_back is not None:
        raise ConfigError(taken_back)
    yield f"{name}: revocation list {listed.number} names {', '.join(listed.names)}"


def _check_links(peers: Sequence[PeerSettings], report: CheckReport) -> None:
    job = peers[0].job
    fixed = {}
    for links, (source, target) in runtime.link_ends(job.algorithm).items():
        said = {(p.peer.name, to) for p in peers if links in p.links for to in p.links[links].sends_to}
        heard = {(frm, p.peer.name) for p in peers if links in p.links for frm in p.links[links].hears}
        for sender, receiver in sorted(said - heard):
            report.faults.append(f"{sender} sends to {receiver} over {links!r}, but {receiver} does not hear {sender}")
        for sender, receiver in sorted(heard - said):
            report.faults.append(f"{receiver} hears {sender} over {links!r}, but {sender} does not send to {receiver}")
        ids = {name: k for role in (source, target) for k, name in enumerate(job.members[role])}
        edges = sorted((ids[a], ids[b]) for a, b in said & heard)
        fixed[links] = Graph.from_edges(
            len(job.members[target]),
            [a for a, _ in edges],
            [b for _, b in edges],
            sources=None if source == target else len(job.members[source]),
        )
        if not (said ^ heard):
            report.lines.append(f"links {links!r}: {len(edges)}, and both ends of each agree")
    if report.faults:
        return
    roles = {role: len(names) for role, names in job.members.items()}
    try:
        topology = runtime.prepared_topology(job.algorithm, Topology(roles, fixed, job.clusters))
        _check_schedule(peers, topology, report)
    except TacitError as error:
        report.faults.append(str(error))
        return
    report.lines.append(f"{job.algorithm.name!r} may run on this graph")
    _suggest_weights(peers, topology, report)
    _suggest_co_senders(peers, topology, report)


def _check_schedule(peers: Sequence[PeerSettings], fixed: Topology, report: CheckReport) -> None:
    """Check the links of every round, where they come and go: requirements, and the window of the method."""
    job = peers[0].job
    schedule = job.schedule
    if schedule is None:
        return
    varying = {}
    for links, (source, target) in runtime.link_ends(job.algorithm).items():
        graph = fixed.links[links]
        if job.algorithm.weights == "metropolis" and source == target and schedule.varies(source, target):
            graph = graph.with_weights(graph.matrix())  # as the peers have them: that of a link that is down stays here
        with located(schedule.place):
            varying[links] = graph.with_dynamics(schedule.on(source, target))
    topology = replace(fixed, links=varying, availability=schedule.availability)
    ready = runtime.prepared_topology(job.algorithm, topology)
    rounds = min([LOOKED_AT, *(peer.rounds.last for peer in peers if peer.rounds.last is not None)])
    root = jax.random.key(job.settings.seed)
    runtime.check_window(job.algorithm, ready, root, rounds)
    if job.algorithm.window is not None:
        report.lines.append(f"the links of every {job.algorithm.window} of the first {rounds} rounds connect everybody")
    for role, there in schedule.availability.items():
        present = np.asarray(runtime.presence(there, root, role, 1, rounds)).mean(axis=0)
        shares = ", ".join(f"{name} {share:.0%}" for name, share in zip(job.members[role], present, strict=True))
        report.lines.append(f"there in the first {rounds} rounds: {shares}")


def _compare_addresses(peers: Sequence[PeerSettings], report: CheckReport) -> None:
    """Point out ports that differ, which is right only where something forwards one to the other."""
    listens = {peer.peer.name: peer.peer.listen for peer in peers}
    for peer in peers:
        for name, address in peer.addresses.items():
            port = listens[name].rpartition(":")[2]
            if int(port) not in (0, int(address.rpartition(":")[2])):
                report.lines.append(
                    f"{peer.peer.name} dials {name} at {address}, but {name} listens at {listens[name]}: does "
                    "something forward the one to the other?"
                )


def _suggest_co_senders(peers: Sequence[PeerSettings], topology: Topology, report: CheckReport) -> None:
    """Print who shares a receiver with whom where messages are masked and a peer does not say, or says otherwise."""
    job = peers[0].job
    for links in sorted({phase.links for phase in job.algorithm.phases if hides(phase.mechanism)}):
        source, target = runtime.link_ends(job.algorithm)[links]
        graph = topology.links[links]
        for peer in peers:
            role, agent = job.role_of(peer.peer.name)
            receivers = graph.neighbours_out(agent) if role == source else ()
            wanted = {
                job.members[target][k]: [job.members[source][s] for s in graph.neighbours_in(int(k)) if s != agent]
                for k in receivers
            }
            given = {receiver: sorted(names) for receiver, names in peer.links[links].co_senders.items()}
            if given == {receiver: sorted(names) for receiver, names in wanted.items()}:
                continue
            inner = ", ".join(f'"{receiver}" = {json.dumps(names)}' for receiver, names in wanted.items())
            _suggest(report, peer, links, f"co_senders = {{ {inner} }}", given, "by the graph of all links")


def _suggest_weights(peers: Sequence[PeerSettings], topology: Topology, report: CheckReport) -> None:
    """Print the weights of the algorithm's rule where a peer cannot work them out, or has others."""
    job = peers[0].job
    if job.algorithm.weights != "metropolis":
        return
    for links, graph in topology.links.items():
        matrix = graph.matrix()
        for peer in peers:
            role, agent = job.role_of(peer.peer.name)
            hears = peer.links[links].hears
            wanted = {name: float(matrix[agent, job.members[role].index(name)]) for name in hears}
            table = peer.links[links]
            given = {**table.weight_to, **table.weight_from}  # a link weighs the same both ways
            if given.keys() == wanted.keys() and all(abs(given[name] - w) <= 1e-6 for name, w in wanted.items()):
                continue
            inner = ", ".join(f'"{name}" = {weight!r}' for name, weight in wanted.items())
            why = f"by the rule {job.algorithm.weights!r} on the graph of all links"
            _suggest(report, peer, links, f"weight_from = {{ {inner} }}", given, why)


def _suggest(
    report: CheckReport, peer: PeerSettings, links: str, setting: str, given: Mapping[str, Any], why: str
) -> None:
    """Print what a peer's links should have: a fault where others are given, else a line to be filled in."""
    line = f"{peer.file}: [links.{links}] should have: {setting}"
    if given:
        report.faults.append(f"{line}, {why}")
    else:
        report.lines.append(line)


# -- this host ---------------------------------------------------------------------------------------------------------


def readiness(settings: PeerSettings, plan: Plan) -> tuple[list[str], list[str]]:
    """Look at everything on this host that a start needs.

    Args:
      settings: The peer's checked settings.
      plan: Its assignment.

    Returns:
      What is to be known, and what keeps the peer from starting or from learning.
    """
    lines: list[str] = []
    faults: list[str] = []
    for look in (check_budget, check_data, _check_reach, _check_folders, _check_ports):
        try:
            lines += [f"{settings.peer.name}: {line}" for line in look(settings, plan)]
        except TacitError as error:
            faults.append(f"{settings.peer.name}: {error}")
    return lines, faults


def _check_reach(settings: PeerSettings, plan: Plan) -> Iterator[str]:
    """Refuse files and libraries that are missing; say whether broker or data base can be reached from here."""
    stream = settings.stream
    if isinstance(stream, PushStream | FileStream) or plan.role != plan.algorithm.learner:
        return
    for key in ("password_file", "private_key", "url_file"):
        path = getattr(stream, key, None)
        if path is not None and readable(settings, key, path).stat().st_mode & 0o077:
            yield f"warning: [stream] {key} = {path!r}: others on this host can read it; chmod 600 it"
    try:
        if isinstance(stream, SqlStream):
            engine = data_base(settings, stream).engine()
            try:
                data_base(settings, stream).probe(engine)
            finally:
                engine.dispose()
            return
        if isinstance(stream, KafkaStream):
            from tacit.peer.sources.kafka import kafka_library

            kafka_library()
            kafka_access(settings, stream)
        else:
            mqtt_access(settings, stream).client()
        _knock(stream.addresses)
    except DataError as error:
        yield f"warning: {error}; the peer starts all the same, and learns when it answers"


def _knock(addresses: list[str]) -> None:
    """Open a connection to one of several addresses, and close it."""
    reasons = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACHED).close()
            return
        except (OSError, UnicodeError) as error:
            reasons.append(f"{address} ({getattr(error, 'strerror', None) or error})")
    raise DataError(f"[stream]: no broker can be reached: {', '.join(reasons)}")


def _check_folders(settings: PeerSettings, plan: Plan) -> Iterator[str]:
    """Refuse a store that is not this peer's, or a place where nothing can be written."""
    check_store(settings)
    places = [settings.store] if settings.witness is None else [settings.store, settings.witness]
    for place in places:
        folder = next(above for above in place.parents if above.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(
                f"{place} cannot be written: {folder} is no folder of this user; let the peer write there"
            )
    yield from ()


def _check_ports(settings: PeerSettings, plan: Plan) -> Iterator[str]:
    """Refuse ports that others listen at."""
    pid = running(settings)
    if pid is not None:
        yield f"it runs already, as process {pid}; its ports were not tried"
        return
    for key, where, number in settings.doors:
        if number:
            try:
                listening(where, number).close()
            except OSError as error:
                raise ConfigError(
                    f"{settings.file}: {key}: cannot listen at {where}:{number} ({error.strerror}); choose a free port "
                    "of this host"
                ) from error
