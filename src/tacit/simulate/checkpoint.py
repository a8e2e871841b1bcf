"""A run's state on disk, so that it can go on to the same figures it would have reached."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.errors import ResultError
from tacit.simulate.engine import Carry

FORMAT = 1


class Log:
    """Figures collected so far."""

    def __init__(self, fingerprint: dict[str, Any]) -> None:
        self.fingerprint = fingerprint
        self.rounds = 0
        self.recorded_rounds: list[int] = []
        self.consensus: list[np.ndarray] = []
        self._pieces: dict[str, list[np.ndarray]] = {}

    def add(self, rounds: int, trace: dict[str, Any]) -> None:
        """Add the figures of some more rounds."""
        self.rounds += int(rounds)
        for name, values in trace.items():
            if not isinstance(values, tuple):
                self._pieces.setdefault(name, []).append(values)

    def record(self, rounds: int, consensus: np.ndarray) -> None:
        """Add figures of the state after some round."""
        self.recorded_rounds.append(int(rounds))
        self.consensus.append(consensus)

    def per_round(self) -> dict[str, np.ndarray]:
        """Return the figures with the rounds as the last axis."""
        return {name: np.moveaxis(np.concatenate(p), 0, -1) for name, p in self._pieces.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as named arrays."""
        pieces = {f"trace/{name}": np.concatenate(p) for name, p in self._pieces.items()}
        return {**pieces, "recorded_rounds": np.array(self.recorded_rounds), "consensus": np.array(self.consensus)}

    def restore(self, rounds: int, arrays: dict[str, np.ndarray]) -> None:
        """Take back what `arrays` gave."""
        self.rounds = rounds
        self.recorded_rounds = [int(r) for r in arrays["recorded_rounds"]]
        self.consensus = list(arrays["consensus"])
        self._pieces = {k.removeprefix("trace/"): [v] for k, v in arrays.items() if k.startswith("trace/")}


def save(path: Path, log: Log, carry: Carry) -> None:
    """Write a checkpoint: a new file beside the old one, then renamed over it."""
    leaves = {f"carry/{k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(carry))}
    about = json.dumps({"format": FORMAT, "rounds": log.rounds, **log.fingerprint}, sort_keys=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        np.savez(file, about=np.array(about), **leaves, **log.arrays())  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def load(path: Path, log: Log, like: Carry) -> Carry:
    """Read a checkpoint into the log and return the state; refuse one of another run."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file.items())
        about = json.loads(str(arrays.pop("about")))
    except (OSError, ValueError, KeyError) as error:
        raise ResultError(f"{path} is not a checkpoint that can be read ({error}); delete it to start over") from error
    found = {key: about.get(key) for key in log.fingerprint}
    if about.get("format") != FORMAT or found != log.fingerprint:
        raise ResultError(
            f"{path} is the checkpoint of another run: it has {found}, this run {log.fingerprint}; name another file"
        )
    leaves, structure = jax.tree.flatten(like)
    saved = [arrays.pop(f"carry/{k}", None) for k in range(len(leaves))]
    for old, new in zip(leaves, saved, strict=True):
        if new is None or new.shape != old.shape or new.dtype != old.dtype:
            raise ResultError(f"{path} holds a state of another shape; delete it to start over")
    log.restore(int(about["rounds"]), arrays)
    carry: Carry = structure.unflatten([jnp.asarray(leaf) for leaf in saved])
    return carry
