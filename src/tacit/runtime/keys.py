"""Keys of a run: one stream of randomness per agent, link set, channel and role."""

from __future__ import annotations

import zlib

import jax

from tacit.core.contract import Array, Key

_AGENT, _LINKS, _CHANNEL, _MASKS, _PRESENCE = 0, 1, 2, 3, 4
_INIT, _COMPUTE, _ABSORB = 0, 1, 3


def agent_key(root: Key, role: int, repeat: Array | int, agent: Array | int) -> Key:
    """Key of one agent for a whole run."""
    fold = jax.random.fold_in
    return fold(fold(fold(fold(root, _AGENT), role), repeat), agent)


def links_key(root: Key, links: int, t: Array | int) -> Key:
    """Key of the dynamics of one link set in round t."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(root, _LINKS), links), t)


def channel_key(root: Key, phase: int, t: Array | int) -> Key:
    """Key of what the network does to the messages of one phase in round t."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(root, _CHANNEL), phase), t)


def presence_key(root: Key, role: str, t: Array | int) -> Key:
    """Key of who of a role is there in round t: the same for every method that has this role."""
    number = zlib.crc32(role.encode()) & 0x7FFFFFFF
    return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(root, _PRESENCE), number), t)


def masks_key(root: Key) -> Key:
    """Key of the masks that pairs of senders agree on (simulation only)."""
    return jax.random.fold_in(root, _MASKS)


def init_key(key: Key) -> Key:
    """Key of an agent's first state."""
    return _stage(key, 0, 0, _INIT)


def compute_key(key: Key, t: Array | int, phase: int) -> Key:
    """Key of an agent's compute function in a phase of round t."""
    return _stage(key, t, phase, _COMPUTE)


def absorb_key(key: Key, t: Array | int, phase: int) -> Key:
    """Key of an agent's absorb function in a phase of round t."""
    return _stage(key, t, phase, _ABSORB)


def _stage(key: Key, t: Array | int, phase: int, stage: int) -> Key:
    return jax.random.fold_in(jax.random.fold_in(key, t), phase * 4 + stage)
