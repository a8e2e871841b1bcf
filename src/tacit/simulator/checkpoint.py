"""A run's state on disk, so that it can go on to the same figures it would have reached."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Batch, Params, Tree
from tacit.core.errors import ResultError
from tacit.privacy.ledger.store import sync
from tacit.simulator.data_identity import DataIdentity
from tacit.simulator.engine import Engine
from tacit.simulator.loop_state import LoopState, Network
from tacit.simulator.shards.hosts import of_all

FORMAT = 6
RECORDED, TOOK_PART = "recorded/", "took_part/"


class Log:
    """Figures collected so far."""

    def __init__(
        self,
        fingerprint: dict[str, Any],
        recorded: Sequence[str],
        answering: int = 0,
        data: DataIdentity | None = None,
    ) -> None:
        self.fingerprint, self.data = fingerprint, data
        self.rounds = 0
        self.recorded_rounds: list[int] = []
        self.recorded: dict[str, list[np.ndarray]] = {name: [] for name in recorded}
        self._figures: list[np.ndarray] = []
        self._messages: list[np.ndarray] = []
        self._ratios: list[np.ndarray] = []
        self._took_part: list[list[np.ndarray]] = [[] for _ in range(answering)]

    def add(
        self,
        rounds: int,
        figures: np.ndarray,
        messages: np.ndarray,
        ratios: np.ndarray,
        took_part: Sequence[np.ndarray] = (),
    ) -> None:
        """Add some more rounds: arrays (rounds, ...), of messages (rounds or 1, ...) if the same in all."""
        self.rounds += rounds
        self._figures.append(figures)
        self._ratios.append(ratios)
        for kept, more in zip(self._took_part, took_part, strict=True):
            kept.append(more)
        self._messages.append(np.broadcast_to(messages[:rounds], (rounds, *messages.shape[1:])))

    def figures(self) -> np.ndarray:
        """(rounds, figures, repeats)."""
        return np.concatenate(self._figures)

    def messages(self) -> np.ndarray:
        """(rounds, phases, repeats)."""
        return np.concatenate(self._messages)

    def ratios(self) -> np.ndarray:
        """(rounds, phases), as in `Tally`."""
        return np.concatenate(self._ratios)

    def took_part(self) -> list[np.ndarray]:
        """Per phase that answers and is booked, (rounds, ...) as in `Tally`."""
        return [np.concatenate(rounds) for rounds in self._took_part]

    def record(self, rounds: int, figures: Mapping[str, np.ndarray]) -> None:
        """Add figures of the state after some round."""
        self.recorded_rounds.append(int(rounds))
        for name, values in self.recorded.items():
            values.append(figures[name])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as named arrays."""
        return {
            "figures": self.figures(),
            "messages": self.messages(),
            "ratios": self.ratios(),
            **{TOOK_PART + str(k): rounds for k, rounds in enumerate(self.took_part())},
            "recorded_rounds": np.array(self.recorded_rounds),
            **{RECORDED + name: np.array(values) for name, values in self.recorded.items()},
        }

    def names(self) -> list[str]:
        """Return the names of the arrays that `arrays` gives."""
        answers = (TOOK_PART + str(k) for k in range(len(self._took_part)))
        recorded = (RECORDED + name for name in self.recorded)
        return ["figures", "messages", "ratios", "recorded_rounds", *answers, *recorded]

    def restore(self, rounds: int, arrays: dict[str, np.ndarray]) -> None:
        """Take back what `arrays` gave."""
        self.rounds = rounds
        self.recorded_rounds = [int(r) for r in arrays["recorded_rounds"]]
        self.recorded = {name: list(arrays[RECORDED + name]) for name in self.recorded}
        self._figures, self._messages, self._ratios = [arrays["figures"]], [arrays["messages"]], [arrays["ratios"]]
        self._took_part = [[arrays[TOOK_PART + str(k)]] for k in range(len(self._took_part))]


def is_there(path: Path) -> bool:
    """Whether there is a checkpoint; refused where only some of several processes see it."""
    seen = of_all(path.exists())
    if any(seen) and not all(seen):
        blind = [number for number, sees in enumerate(seen) if not sees]
        raise ResultError(f"{path} is there, but not for processes {blind}; put it where all processes see it")
    return all(seen)


def identity(
    engine: Engine, network: Network, params: Params, own: Params | None, batch: Batch
) -> tuple[dict[str, str], LoopState]:
    """Return by what a checkpoint knows the programs, links and first parameters of one device, and its state's form.

    Nothing is run: the network may be on the host, and what one device would hold need not fit into one.
    """
    start = jax.jit(engine.start)
    form: LoopState = jax.eval_shape(start, network, params, own)
    turn = jax.jit(engine.round).lower(network, form, batch, jax.eval_shape(engine.send_buffers))
    programs = [turn.as_text(), start.lower(network, params, own).as_text()]
    return {"program": digest(programs), "links": digest(network), "start": digest((params, own))}, form


def digest(tree: Tree) -> str:
    """Return a short hash of every array, or text, of a pytree; an array on the host has that of one on a device."""
    total = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        if array.dtype.kind in "iuf":
            array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
        total.update(f"{array.dtype}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def save(path: Path, log: Log, loop: LoopState) -> None:
    """Write a checkpoint: a new file beside the old one, then renamed over it."""
    leaves = {f"carry/{k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(loop))}
    data = None if log.data is None else log.data.at(log.rounds)
    about = json.dumps({"format": FORMAT, "rounds": log.rounds, "data": data, **log.fingerprint}, sort_keys=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        np.savez(file, about=np.array(about), **leaves, **log.arrays())  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync(path.parent)


def load(path: Path, log: Log, like: LoopState) -> LoopState:
    """Read a checkpoint into the log and return the state, on the host; refuse one of another run."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive.items())
        about = json.loads(str(arrays["about"]))
        found = {key: about.get(key) for key in ("format", "rounds", "data", *log.fingerprint)}
        rounds = int(found["rounds"])
        figures = {key: arrays[key] for key in log.names() if key in arrays}
    except Exception as error:  # a broken file makes its readers raise anything
        raise ResultError(f"{path} is not a checkpoint that can be read ({error}); delete it to start over") from error
    data = None if log.data is None else log.data.as_in(found["data"], rounds)
    expected = {"format": FORMAT, "rounds": found["rounds"], "data": data, **log.fingerprint}
    if found != expected:
        other = [f"{key} {found[key]!r} there, {expected[key]!r} here" for key in found if found[key] != expected[key]]
        raise ResultError(f"{path} is the checkpoint of another run: {', '.join(other)}; name another file")
    leaves, structure = jax.tree_util.tree_flatten(like)
    saved = [arrays.get(f"carry/{k}") for k in range(len(leaves))]
    for old, new in zip(leaves, saved, strict=True):
        if new is None or new.shape != old.shape or new.dtype != old.dtype:
            raise ResultError(f"{path} holds a state of another shape; delete it to start over")
    if len(figures) < len(log.names()):
        raise ResultError(f"{path} lacks {sorted(set(log.names()) - figures.keys())}; delete it to start over")
    log.restore(rounds, figures)
    loop: LoopState = jax.tree_util.tree_unflatten(structure, saved)
    return loop
