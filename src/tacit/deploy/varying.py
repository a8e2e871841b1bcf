"""Links of one peer that come and go by the job's schedule: which are up in a round, and with which weights.

Whether a link is up follows from its two ends, the round and the job's seed (`tacit.graphs.dynamics`), whether a member
is there from its own table (`tacit.graphs.roles`): both ends find the same, by the simulator's own functions, and
nobody needs to know the links of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import graphs, runtime
from tacit.core.contract import Links
from tacit.core.errors import ConfigError, GraphError

if TYPE_CHECKING:
    from tacit.config.peer import PeerSettings
    from tacit.config.schedule import JobSchedule


class VaryingLinks:
    """One side or both of a link set, of one agent, in any round."""

    def __init__(
        self,
        settings: PeerSettings,
        schedule: JobSchedule,
        name: str,
        role: str,
        agent: int,
        ends: tuple[str, str],
        out: Links,
        into: Links,
        index: int,
        given: bool,
    ) -> None:
        """Take all links that there will ever be, with their weights where every link is up.

        `index` is the number of the link set, `given` whether the weights are given: then that of a link that is down
        goes to the agent's own. Otherwise they follow from the number of links that are up.
        """
        job = settings.job
        self._schedule, self._ends, self._index = schedule, ends, index
        self._root, self._role, self._agent = jax.random.key(job.settings.seed), role, agent
        self._out, self._into = out, into
        source, target = ends
        self._sizes = len(job.members[target]), None if source == target else len(job.members[source])
        to, frm = (np.asarray(side.agent)[1:] for side in (out, into))
        self._split = len(to)
        self._senders = np.concatenate([np.full(len(to), agent), frm]).astype(np.int32)
        self._receivers = np.concatenate([to, np.full(len(frm), agent)]).astype(np.int32)
        self._dynamics = self._settled(settings, name)
        self._weights = self._rule(job.algorithm.weights, given)
        self.now = jax.jit(self._now)
        """Round -> whether the agent is there, links out, links in."""

    def at_first(self) -> tuple[bool, Links, Links]:
        """Return round 0, for which first states are made: every link, without weights, which change."""
        out, into = (side._replace(weight=jnp.zeros_like(side.weight)) for side in (self._out, self._into))
        return True, out, into

    def _settled(self, settings: PeerSettings, name: str) -> Any:
        """Return the dynamics of these links; refuse those that do not fit them, or of which the method needs more."""
        source, target = self._ends
        algorithm, size = settings.job.algorithm, self._sizes[0]
        chosen: Any = self._schedule.on(source, target)
        if isinstance(chosen, graphs.Schedule):
            try:
                chosen.check(self._senders, self._receivers, size, {self._agent})
            except GraphError as error:
                raise ConfigError(
                    f"{settings.file}: [links.{name}] and {self._schedule.place.section} of the job: {error} (members "
                    "are counted from 0, in the order of [members])"
                ) from error
            chosen = graphs.Periodic(chosen.table(self._senders, self._receivers, size))
        if chosen is None or source != target or not {"symmetric", "doubly_stochastic"} & algorithm.requires:
            return chosen
        if self._leaves_one_way(chosen):
            raise ConfigError(
                f"{self._schedule.place}: {algorithm.name!r} needs links that are up both ways or not at all; add "
                "symmetric = true, or list both directions in the same rounds"
            )
        return chosen

    def _leaves_one_way(self, dynamics: Any) -> bool:
        if isinstance(dynamics, graphs.LinkDrop):
            return not dynamics.symmetric and dynamics.probability > 0
        ends = list(zip(self._senders.tolist(), self._receivers.tolist(), strict=True))
        columns = {end: dynamics.table[:, k] for k, end in enumerate(ends)}
        return any(not np.array_equal(column, columns[b, a]) for (a, b), column in columns.items() if (b, a) in columns)

    def _rule(self, rule: str, given: bool) -> Any:
        if not given:
            return graphs.Weights(rule)  # type: ignore[arg-type]
        full = np.concatenate([np.asarray(self._out.weight)[1:], np.asarray(self._into.weight)[1:]])
        own = np.zeros(self._sizes[0])
        if self._sizes[1] is None:
            own[self._agent] = np.asarray(self._out.weight)[0]
        absorbs = "neither" if self._sizes[1] is not None else "sender" if rule == "sender" else "receiver"
        return graphs.Weights("given", np.nan_to_num(full, nan=0.0), own, absorbs)  # type: ignore[arg-type]

    def _now(self, t: jax.Array) -> tuple[jax.Array, Links, Links]:
        there = {role: self._there(role, t) for role in self._ends}
        size, sources = self._sizes
        live = jnp.ones(len(self._senders), bool)
        if self._dynamics is not None:
            key = runtime.links_key(self._root, self._index, t)
            live, _ = self._dynamics.live(t, key, self._senders, self._receivers, size)
        for role, agents in zip(self._ends, (self._senders, self._receivers), strict=True):
            if there[role] is not None:
                live = live & there[role][jnp.asarray(agents)]
        dtype = self._out.weight.dtype
        weight, own = graphs.evaluate(
            self._weights, self._senders, self._receivers, size, live, sources=sources, dtype=dtype
        )
        ones = jnp.ones(1, bool) if sources is None else jnp.zeros(1, bool)
        mine = own[self._agent][None] if sources is None else jnp.zeros(1, dtype)

        def side(links: Links, which: slice, role: str) -> Links:
            if role != self._role:
                return links
            known = ~jnp.isnan(links.weight[1:])
            parts = jnp.where(known, weight[which], 0)
            return Links(links.agent, jnp.concatenate([ones, live[which]]), jnp.concatenate([mine, parts]))

        out = side(self._out, slice(0, self._split), self._ends[0])
        into = side(self._into, slice(self._split, None), self._ends[1])
        mine_there = there[self._role]
        return jnp.ones((), bool) if mine_there is None else mine_there[self._agent], out, into

    def _there(self, role: str, t: jax.Array) -> Any:
        availability = self._schedule.availability.get(role)
        return None if availability is None else availability.present(t, runtime.presence_key(self._root, role, t))
