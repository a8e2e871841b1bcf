"""A running peer's next epoch: its files are compared with those in use, it is proposed, and the peer goes on to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.config.job import Job, load_job, read_toml
from tacit.config.peer import PeerSettings, load_peer
from tacit.config.sections import toml_text
from tacit.core.errors import ConfigError
from tacit.deploy.assignment import plan_of
from tacit.deploy.ledger_register import register_epoch
from tacit.peer.membership.carry import carry_over, continued_state
from tacit.peer.membership.epochs import MARGIN, Coming, Epochs
from tacit.peer.node.assignment import Pace
from tacit.peer.node.service import PeerService
from tacit.privacy.noise import hides

FREE = {"job": ("epoch",)}
"""Table of a job -> its keys that may differ in the next epoch; [members] and [clusters] may differ as a whole."""
KEPT = ("job", "objective", "algorithm")
SIDES = ("sends_to", "hears")


async def propose(service: PeerService, settings: PeerSettings, file: Path) -> dict[str, Any]:
    """Propose the next epoch to the other members. Faults are ConfigErrors.

    Args:
      service: The running peer.
      settings: Its settings in this epoch.
      file: Its file of the next epoch, or the job's where it is no member of that.

    Returns:
      The next epoch as it is known here.
    """
    refuse_fixed(settings)
    if service.fault is not None:
        raise ConfigError(f"its rounds have ended ({service.fault}), so that it cannot come to an agreed last one")
    coming, after = await asyncio.to_thread(read_next, settings, file)
    if after is not None:
        plan = await asyncio.to_thread(plan_of, after)
        await asyncio.to_thread(continued_state, service.node.plan, service.node.machine.state, plan)
        service.node.store.ledger.bound_to(after.part, "record")  # a name that can be booked
        register_epoch(after, service.node.store.ledger.genesis.ledger)
    async with service.links.turn:
        service.links.speak_of_epochs()
        _epochs(service).propose(replace(coming, last=service.node.round + MARGIN))
    service.links.progressed()
    return _epochs(service).status() or {}


def read_next(settings: PeerSettings, file: Path) -> tuple[Coming, PeerSettings | None]:
    """Return the next epoch by its file, and the peer's settings in it; None where it is no member of it.

    All but members, links, clusters and the number of the epoch has to be as it is in this epoch.
    """
    own = settings.peer.name
    if isinstance(read_toml(file).get("job"), dict):
        job, after = load_job(file), None
        if any(own in names for names in job.members.values()):
            raise ConfigError(f"{file} is a job of which {own!r} is a member: name its own file of that epoch instead")
    else:
        after = load_peer(file)
        job = after.job
        _refuse_other_peer(settings, after)
    _refuse_other_job(settings.job, job, file)
    part = "" if after is None else after.part
    return Coming(job.settings_hash, job.settings.epoch, str(file.resolve()), part, 0), after


def refuse_fixed(settings: PeerSettings) -> None:
    """Refuse a method or a job that does not go on to another epoch while it runs."""
    algorithm = settings.job.algorithm
    if settings.links_change:
        raise ConfigError(
            f"members and links of {algorithm.name!r} change within an epoch: use `tacit peer links` and `tacit peer "
            "leave` instead"
        )
    if algorithm.continuation is None:
        raise ConfigError(
            f"{algorithm.name!r} does not say how states go on over other links (`Algorithm.continuation`): begin the "
            "next epoch with new stores"
        )
    if settings.job.schedule is not None:
        raise ConfigError(
            "the job has a schedule ([dynamics] or [[availability]]), by which members are not there in every round: "
            "it goes on to another epoch with new stores only"
        )
    if any(hides(phase.mechanism) for phase in algorithm.phases):
        raise ConfigError(
            f"messages of {algorithm.name!r} are masked here, with secrets that are agreed on for one epoch: begin the "
            "next one with new stores"
        )
    sends_to, hears = ({name for one in settings.links.values() for name in getattr(one, side)} for side in SIDES)
    if sends_to != hears:
        raise ConfigError(
            f"{settings.file}: [links]: the link with {', '.join(sorted(sends_to ^ hears))} leads one way, and peers "
            "agree on an epoch over links that lead both ways: begin the next one with new stores"
        )


def _refuse_other_job(now: Job, after: Job, file: Path) -> None:
    if after.settings.epoch <= now.settings.epoch:
        raise ConfigError(
            f"{file}: [job] epoch = {after.settings.epoch}, and the peer is in epoch {now.settings.epoch}: count it up"
        )
    for table in sorted((after.described.keys() | now.described.keys()) - {"members", "clusters", *KEPT}):
        raise ConfigError(f"{file}: [{table}] is a schedule, which goes on to another epoch with new stores only")
    for table in KEPT:
        before, then = (_flat(job.described[table], FREE.get(table, ())) for job in (now, after))
        for key in sorted(before.keys() | then.keys()):
            if before.get(key) != then.get(key):
                said = [toml_text(values[key]) if key in values else "not there" for values in (then, before)]
                raise ConfigError(
                    f"{file}: [{table}] {key} is {said[0]}, and {said[1]} in this epoch: only members, links, clusters "
                    "and `epoch` change while peers run; put it back, or begin new stores"
                )


def _flat(values: Mapping[str, Any], free: tuple[str, ...], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, (), f"{before}{key}.")
        elif key not in free:
            found[before + key] = value
    return found


def _refuse_other_peer(now: PeerSettings, after: PeerSettings) -> None:
    for key, before, then in (
        ("[peer] name", now.peer.name, after.peer.name),
        ("[peer] store", str(now.store), str(after.store)),
        ("[identity] directory", str(now.identity), str(after.identity)),
        ("[privacy] witness", str(now.witness), str(after.witness)),
        ("[privacy]", _budget(now), _budget(after)),
    ):
        if before != then:
            raise ConfigError(
                f"{after.file}: {key} is {then}, and {before} in this epoch: identity, store and budget go on as they "
                "are; put it back"
            )
    refuse_fixed(after)


def _budget(settings: PeerSettings) -> str:
    return settings.budget.words() if settings.booked else "unprotected"


async def go_on(service: PeerService, settings: PeerSettings) -> tuple[PeerService, PeerSettings]:
    """Take a peer whose epoch is over to the next one: its store goes on in one commit.

    Args:
      service: Its service, which ends.
      settings: Its settings in the epoch that is over.

    Returns:
      The service of the next epoch, which is to listen and to start, and its settings there.
    """
    coming = _epochs(service).coming
    assert coming is not None
    found, after = await asyncio.to_thread(read_next, settings, Path(coming.file))
    if after is None or (found.next, found.part) != (coming.next, coming.part):
        raise ConfigError(
            f"{coming.file} or its job was changed since epoch {coming.epoch} was proposed with it: put it back as it "
            "was, and start the peer again with the file of the epoch before"
        )
    plan = await asyncio.to_thread(plan_of, after)
    service.parting = True
    await service.stop()
    try:
        await asyncio.to_thread(carry_over, service.node, plan)
        service.counters.allow(name for names in after.job.members.values() for name in names)
        pace = Pace(after.rounds.deadline, after.rounds.interval, last_round=after.rounds.last)
        return service.successor(plan, pace, after.limits, after.operations.progress), after
    except BaseException:
        await service.close_parts()
        raise


def _epochs(service: PeerService) -> Epochs:
    found = service.node.links.epochs
    assert found is not None
    return found
