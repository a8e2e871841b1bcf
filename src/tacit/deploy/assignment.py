"""Assignment of a peer, from its job and settings: its own part of the graph, and nothing more."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.config.peer import LinksTable, PeerSettings
from tacit.config.sections import toml_text
from tacit.core.contract import Algorithm, Array, Links, View
from tacit.core.errors import ConfigError, IdentityError, MessageRefused
from tacit.peer.identity.identity import identity_files
from tacit.peer.identity.pem_files import load_certificates, read_file
from tacit.peer.machine.rounds import Views
from tacit.peer.node.assignment import Plan
from tacit.privacy.noise import hides

if TYPE_CHECKING:
    from tacit.deploy.varying import VaryingLinks


if TYPE_CHECKING:
    from tacit.peer.membership.terms import OpenLinks

Settle = Callable[..., tuple[runtime.MessageSpec, ...]]
"""As `runtime.settle`."""


def plan_of(settings: PeerSettings, settle: Settle = runtime.settle) -> Plan:
    """Return the assignment of a peer; refuse links that the algorithm cannot use, as far as one peer can see.

    Peers of one process may share what `settle` has found.
    """
    job = settings.job
    algorithm, dtype = job.algorithm, job.settings.dtype
    role, agent = job.role_of(settings.peer.name)
    ends = runtime.link_ends(algorithm)
    with jax.enable_x64(dtype == "float64"):
        precision = jnp.dtype(dtype)
        sides = {
            name: _sides(settings, name, table, role, agent, ends[name], precision)
            for name, table in settings.links.items()
        }

        cluster = int(job.clusters[role][agent]) if role in job.clusters else 0

        varying = _varying(settings, role, agent, ends, sides)

        fixed = {name: _view(agent, 0, *both, cluster) for name, both in sides.items() if name not in varying}

        def views(t: int) -> Views:
            at = cast("Array", np.int32(t))  # not put on the device before it is used
            found = {name: view._replace(round=at) for name, view in fixed.items()}
            for name, links in varying.items():
                present, out, into = links.now(jnp.int32(t)) if t else links.at_first()
                found[name] = runtime.make_view(
                    agent=agent, round=t, present=present, out=out, into=into, cluster=cluster
                )
            return {name: found[name] for name in sides}

        role_views = {
            other: {name: _view(0, 0, *_stand_in(precision), 0) for name, pair in ends.items() if other in pair}
            for other in algorithm.init
        }
        role_views[role] = dict(views(0))
        params = runtime.first_params(algorithm, job.empty_batch, precision, None)
        specs = settle(algorithm, params, job.empty_batch, role_views)
        for name, (out, into) in sides.items():
            _check_weights(settings, name, specs, algorithm, out, into)
        root = jax.random.key(job.settings.seed)
        there = {} if job.schedule is None else job.schedule.availability
        key = runtime.agent_key(root, list(algorithm.init).index(role), 0, agent)
    return Plan(
        job=job.hash,
        algorithm=algorithm,
        role=role,
        agent=agent,
        members={**job.members, role: _with_own(job.members[role], agent, settings.peer.name)},
        key=key,
        params=params,
        batch=job.empty_batch if role == algorithm.learner else (),
        views=views,
        role_views=role_views,
        longest_delay=job.settings.longest_delay,
        dtype=dtype,
        booked=settings.booked,
        co_senders=_co_senders(settings, role, ends),
        settings=job.settings_hash,
        following=runtime.rounds_of(there.get(role), root, role, agent),
        joins=settings.peer.joins,
        open_links=_open_links(settings, role) if settings.links_change else None,
        settled=specs,
    )


def _with_own(names: tuple[str, ...], agent: int, own: str) -> tuple[str, ...]:
    """Return the members of a role, with a peer that was invited at its own number."""
    return names if agent < len(names) else (*names, *[""] * (agent - len(names)), own)


def _open_links(settings: PeerSettings, role: str) -> OpenLinks:
    """Return the terms on which a peer's links may change."""
    from tacit.peer.membership.book import InLink, OutLink
    from tacit.peer.membership.terms import OpenLinks

    ((links, table),) = settings.links.items()
    order = settings.job.members[role]

    def agent_of(name: str, invitation: bytes) -> int:
        return order.index(name) if name in order else _invited_number(settings, name, invitation)

    def expects(name: str) -> bool:
        return name in table.hears or table.accepts == "members" or name in table.accepts

    return OpenLinks(
        links,
        {name: OutLink(order.index(name), settings.addresses[name], first=1) for name in table.sends_to},
        {name: InLink(order.index(name), 1) for name in table.hears},
        settings.peer.joins or settings.invitation is not None,
        agent_of,
        expects,
        b"" if settings.peer.invitation is None else read_file(settings.beside(settings.peer.invitation)),
    )


def _invited_number(settings: PeerSettings, name: str, invitation: bytes) -> int:
    """Return the id of a peer that is not among the job's members, by the invitation that it shows."""
    if not invitation:
        raise MessageRefused("sender", f"{name!r} is no member of the job, and shows no invitation")
    from tacit.peer.identity.invitation import read_invitation

    try:
        authorities = load_certificates(identity_files(settings.identity).ca)
        found = read_invitation(invitation, authorities, settings.job.settings_hash, datetime.now(UTC))
    except IdentityError as error:
        raise MessageRefused("sender", str(error)) from error
    if found.name != name:
        raise MessageRefused("sender", f"{name!r} shows the invitation of {found.name!r}")
    return found.number


def _varying(
    settings: PeerSettings,
    role: str,
    agent: int,
    ends: Mapping[str, tuple[str, str]],
    sides: Mapping[str, tuple[Links, Links]],
) -> dict[str, VaryingLinks]:
    """Return the link sets that come and go by the job's schedule."""
    rule, schedule = settings.job.algorithm.weights, settings.job.schedule
    if schedule is None:
        return {}
    from tacit.deploy.varying import VaryingLinks

    found = {}
    for index, (name, pair) in enumerate(ends.items()):
        if name in sides and schedule.varies(*pair):
            table = settings.links[name]
            given = rule == "metropolis" or bool(table.weight_to if rule == "sender" else table.weight_from)
            found[name] = VaryingLinks(settings, schedule, name, role, agent, pair, *sides[name], index, given)
    return found


def _co_senders(
    settings: PeerSettings, role: str, ends: Mapping[str, tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    """Return all senders that each receiver of masked messages hears, by id."""
    algorithm, members = settings.job.algorithm, settings.job.members
    found = {}
    for links in {phase.links for phase in algorithm.phases if hides(phase.mechanism) and phase.source == role}:
        table, order = settings.links[links], members[ends[links][0]]
        for receiver in table.sends_to:
            if receiver not in table.co_senders:
                raise ConfigError(
                    f"{settings.file}: [links.{links}] co_senders has no {receiver!r}: messages to it are masked, with "
                    "masks shared with the others whom it hears; `tacit peer check` with all peers' files prints the "
                    "line to add"
                )
            names = [settings.peer.name, *table.co_senders[receiver]]
            found[links, receiver] = sorted(names, key=order.index)
    return found


def _view(agent: int, t: int, out: Links, into: Links, cluster: int) -> View:
    known = (jnp.nan_to_num(side.weight, nan=0.0) for side in (out, into))
    out, into = (side._replace(weight=weight) for side, weight in zip((out, into), known, strict=True))
    return runtime.make_view(agent=agent, round=t, out=out, into=into, cluster=cluster)


def _stand_in(dtype: jnp.dtype) -> tuple[Links, Links]:
    """Links of some agent of another role, of which only the form matters here."""
    links = Links(jnp.array([-1, 0]), jnp.array([False, True]), jnp.array([0.0, 1.0], dtype))
    return links, links


def _sides(
    settings: PeerSettings,
    name: str,
    table: LinksTable,
    role: str,
    agent: int,
    ends: tuple[str, str],
    dtype: jnp.dtype,
) -> tuple[Links, Links]:
    """Return the links out and in, with the weights that the rule or the settings give; NaN where neither does."""
    algorithm, members = settings.job.algorithm, settings.job.members
    source, target = ends
    inside = source == target
    if {"symmetric", "doubly_stochastic"} & algorithm.requires and inside and set(table.sends_to) != set(table.hears):
        raise ConfigError(
            f"{settings.file}: [links.{name}]: {algorithm.name!r} needs links that lead both ways, but this peer sends "
            f"to {_listed(table.sends_to)} and hears {_listed(table.hears)}; make them the same, or use push-sum"
        )
    rule = algorithm.weights
    # In the order of ids, whatever the order in the file: slots are the simulator's, and those of the stored state.
    to = _weights(sorted(table.sends_to, key=members[target].index), table.weight_to, rule == "sender", inside)
    frm = _weights(sorted(table.hears, key=members[source].index), table.weight_from, rule == "receiver", inside)
    if rule == "metropolis" and inside:  # symmetric: either side of a link says it all
        to, frm = _completed(to, frm), _completed(frm, to)
    decisive = to if rule == "sender" else frm
    own = 1 - sum(decisive.values())
    if own < -1e-9:
        raise ConfigError(
            f"{settings.file}: [links.{name}]: the weights {toml_text(decisive)} sum to {1 - own:g}, but the peer's "
            "own is what they leave of 1; make them smaller"
        )
    return (
        _links(agent, to, members[target], own, inside, dtype) if role == source else runtime.empty_links((1,), dtype),
        _links(agent, frm, members[source], own, inside, dtype) if role == target else runtime.empty_links((1,), dtype),
    )


def _listed(names: list[str]) -> str:
    return ", ".join(sorted(names)) or "nobody"


def _weights(names: list[str], given: Mapping[str, float], equal: bool, inside: bool) -> dict[str, float]:
    share = 1 / (len(names) + inside) if equal and names else math.nan
    return {name: given.get(name, share) for name in names}


def _completed(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: other.get(name, math.nan) if math.isnan(weight) else weight for name, weight in one.items()}


def _links(
    agent: int, weights: Mapping[str, float], members: tuple[str, ...], own: float, inside: bool, dtype: jnp.dtype
) -> Links:
    ids = [agent if inside else -1, *(members.index(name) for name in weights)]
    live = [inside, *(True for _ in weights)]
    return Links(
        jnp.asarray(ids, jnp.int32),
        jnp.asarray(live),
        jnp.asarray([own if inside else 0.0, *weights.values()], dtype),
    )


def _check_weights(
    settings: PeerSettings,
    name: str,
    specs: tuple[runtime.MessageSpec, ...],
    algorithm: Algorithm,
    out: Links,
    into: Links,
) -> None:
    """Refuse links whose weights this peer has to know and does not."""
    own = [(spec, phase) for spec, phase in zip(specs, algorithm.phases, strict=True) if phase.links == name]
    masked = any(phase.mechanism.spread == "masked" for _, phase in own)  # weighed shares leave, on a grid
    deliveries = {spec.delivery for spec, _ in own}
    by_sender = masked or "push" in deliveries or ("per_slot" in deliveries and algorithm.weights == "sender")
    by_receiver = "share" in deliveries or ("per_slot" in deliveries and algorithm.weights != "sender")
    table = settings.links[name]
    for key, side, names, needed in (
        ("weight_to", out, "sends to", by_sender),
        ("weight_from", into, "hears", by_receiver),
    ):
        if getattr(table, key) and not needed and algorithm.weights != "metropolis":
            raise ConfigError(
                f"{settings.file}: [links.{name}] {key} = {toml_text(getattr(table, key))}: {algorithm.name!r} does "
                "not weigh at this end of a link, so that it would do nothing; remove it"
            )
        if needed and np.isnan(np.asarray(side.weight)).any():
            raise ConfigError(
                f"{settings.file}: [links.{name}] has no {key}: by the rule {algorithm.weights!r} the weight of a link "
                f"depends on the neighbour's degree too; `tacit peer check` with all peers' files prints the line "
                f"to add for those whom this peer {names}"
            )
