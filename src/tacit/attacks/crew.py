"""The liars of a simulation: their links, and what is read over these instead of their messages.

Lies lie behind the honest messages, one row per link that leads from a liar to somebody else. So a liar can tell each
receiver something else, and what it hears of itself stays honest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.attacks.kinds import Attack, Scene
from tacit.core.contract import Array
from tacit.core.errors import ConfigError

Lies = Mapping[str, Array]
"""Element type -> (links, width)."""


class Places(NamedTuple):
    """Links of liars in one bucket of receivers."""

    number: np.ndarray
    """(slots, receivers) which of the liars' links it is, -1 where the sender is honest."""
    column: np.ndarray
    """(links of the bucket,) the receiver's place in the bucket."""


class Crew:
    """Liars of all repeats on one link set."""

    def __init__(self, liars: Mapping[int, Attack], tables: Sequence[Any], senders: int, one_role: bool) -> None:
        """Find the liars' links in the tables of the receivers, of which `senders` are in each repeat."""
        self._tables, self._one_role = tables, one_role
        self.attacks = tuple(dict.fromkeys(liars.values()))
        of_agent = np.full(senders + 1, -1)  # the last is padding's
        for agent, attack in liars.items():
            of_agent[agent] = self.attacks.index(attack)
        self.places: list[Places] = []
        found, links = [], 0
        for table in tables:
            kind = np.where(table.live, of_agent[table.agent], -1)
            kind[0] = -1
            slot, column = np.nonzero(kind >= 0)
            number = np.full(kind.shape, -1, np.int32)
            number[slot, column] = links + np.arange(slot.size)
            links += slot.size
            self.places.append(Places(number, column))
            found.append((kind[slot, column], table.row[slot, column], table.slot_row[slot, column]))
        self.links = links
        """How many there are."""
        self._kind, self._row, self._slot_row = (np.concatenate(column) for column in zip(*found, strict=True))
        self._honest = of_agent[:-1] < 0

    @property
    def keeps(self) -> bool:
        """Whether something is kept from round to round."""
        return any(attack.keeps for attack in self.attacks)

    def lies(
        self, t: Array, rows: Lies, kept: Lies | None, weights: Sequence[Array], per_slot: bool, order: np.ndarray
    ) -> tuple[Lies, Lies | None]:
        """Return what is read over the liars' links, and what they keep.

        `rows` are the messages, `weights` those of the links in this round, bucket by bucket, and `order` the senders'
        ids in the union of the repeats.
        """
        told, remembered = {}, {}
        for name, values in rows.items():
            sent = values[self._slot_row if per_slot else self._row]
            before = jnp.zeros_like(sent) if kept is None else kept[name]
            remembered[name] = self._remembered(t, sent, before)
            told[name] = sent
            if jnp.issubdtype(values.dtype, jnp.floating):
                told[name] = self._told(self._scene(t, values, sent, before, weights, per_slot, order))
        return told, None if kept is None else remembered

    def _remembered(self, t: Array, sent: Array, before: Array) -> Array:
        until = jnp.asarray(np.array([attack.keeps for attack in self.attacks])[self._kind])
        return jnp.where((t <= until)[:, None], sent, before)

    def _told(self, scene: Scene) -> Array:
        told = scene.sent
        for k, attack in enumerate(self.attacks):
            if attack.lie is not None:
                told = jnp.where((self._kind == k)[:, None], attack.lie(scene).astype(told.dtype), told)
        return told

    def _scene(
        self, t: Array, values: Array, sent: Array, before: Array, weights: Sequence[Array], per_slot: bool,
        order: np.ndarray,
    ) -> Scene:  # fmt: skip
        mean, deviation = self._moments(values, per_slot, order)
        owns, pulls = [], []
        for table, places, weight in zip(self._tables, self.places, weights, strict=True):
            own, pull = self._around(values, table, places, weight, per_slot, mean, order)
            owns.append(own)
            pulls.append(pull)
        repeat = order[self._row] // self._honest.size
        return Scene(t, sent, before, jnp.concatenate(owns), mean[repeat], deviation[repeat], jnp.concatenate(pulls))

    def _around(
        self, values: Array, table: Any, places: Places, weight: Array, per_slot: bool, mean: Array, order: np.ndarray
    ) -> tuple[Array, Array]:
        """Return the receivers' own messages, and how their honest neighbours draw them."""
        row = (table.slot_row if per_slot else table.row)[:, places.column]
        honest = (places.number < 0) & table.live
        honest[0] = False
        if self._one_role:
            own = values[row[0]]
        else:
            slot, column = np.nonzero(places.number >= 0)
            own = mean[order[table.row[slot, column]] // self._honest.size]
        w = weight[:, places.column]
        good = jnp.where(honest[:, places.column], w, 0).astype(values.dtype)
        bad = jnp.sum(jnp.where(places.number[:, places.column] >= 0, w, 0), axis=0).astype(values.dtype)
        drawn = jnp.einsum("sl,sld->ld", good, values[row] - own)
        return own, drawn / jnp.where(bad > 0, bad, 1)[:, None]

    def _moments(self, values: Array, per_slot: bool, order: np.ndarray) -> tuple[Array, Array]:
        """Return mean and deviation of the honest messages, repeat by repeat."""
        if per_slot:
            found = [
                (t.slot_row[1:], t.row[1:], t.live[1:] & (p.number[1:] < 0))
                for t, p in zip(self._tables, self.places, strict=True)
            ]
            row = np.concatenate([rows[honest] for rows, _, honest in found])
            sender = np.concatenate([senders[honest] for _, senders, honest in found])
        else:
            sender = row = np.flatnonzero(self._honest[order % self._honest.size])
        repeat, repeats = order[sender] // self._honest.size, order.size // self._honest.size
        count = jnp.asarray(np.maximum(np.bincount(repeat, minlength=repeats), 1), values.dtype)[:, None]
        mean = jax.ops.segment_sum(values[row], repeat, repeats) / count
        apart = jnp.square(values[row] - mean[repeat])
        return mean, jnp.sqrt(jax.ops.segment_sum(apart, repeat, repeats) / count)


def validate_liars(liars: Mapping[int, Attack], agents: int) -> dict[int, Attack]:
    """Return liars by number, or refuse what is none, or leaves nobody honest."""
    for agent, attack in liars.items():
        if isinstance(agent, bool) or not isinstance(agent, int | np.integer) or not 0 <= agent < agents:
            raise ConfigError(f"liars: {agent!r} is no agent; expected numbers from 0 to {agents - 1}")
        if not isinstance(attack, Attack):
            raise ConfigError(
                f"liars: agent {agent} has {attack!r}; expected an attack, e.g. tacit.attacks.sign_flip()"
            )
    if len(liars) >= agents:
        raise ConfigError(f"liars: all {agents} agents lie, so that there is nobody to judge; leave some honest")
    return {int(agent): attack for agent, attack in sorted(liars.items())}


def labels_of(liars: Mapping[int, Attack]) -> dict[int, Callable[[Any], Any]]:
    """Return what becomes of the labels of those who learn from false ones."""
    return {agent: attack.labels for agent, attack in liars.items() if attack.labels is not None}


def told_of(data: str, liars: Mapping[int, Attack], agents: int) -> str:
    """Say beside what the data are who lies, and that figures are of the others."""
    if not liars:
        return data
    kinds = ", ".join(dict.fromkeys(attack.name for attack in liars.values()))
    honest = agents - len(liars)
    return f"{data}; {len(liars)} of {agents} agents lie ({kinds}), and all figures are of the {honest} honest ones"
