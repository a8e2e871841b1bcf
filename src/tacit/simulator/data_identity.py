"""What a checkpoint knows of its data, so that a run does not go on with others.

All rounds that a run was asked for are digested where they are few megabytes. Of more, pieces that lie evenly over the
run, the first and the last among them; and where a stream says that its batches are rows of arrays, all of these. Each
checkpoint adds the round just before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from tacit.core.contract import Tree
from tacit.streams import Stream
from tacit.streams.digests import digest

PIECE_BYTES, MOST_PIECES, FEWEST_PIECES = 2**22, 64, 4
"""How large a piece is, how many there are over all streams at most, and of one stream at least."""
MOST_ROUNDS = 2**31


class DataIdentity:
    """What the data of one run are known by."""

    def __init__(self, streams: Sequence[Stream], rounds: int) -> None:
        """Take the streams, and how many rounds are asked for."""
        self._streams, self._rounds = streams, rounds
        self._digest = self._of(rounds)

    def at(self, done: int) -> dict[str, Any]:
        """Return what a checkpoint after so many rounds keeps."""
        return {"rounds": self._rounds, "digest": self._digest, "last": self._last(done)}

    def as_in(self, kept: Any, done: int) -> dict[str, Any] | None:
        """Return what these data would have left in another run's checkpoint; None where that cannot be told."""
        rounds = kept.get("rounds") if isinstance(kept, dict) else None
        if not isinstance(rounds, int) or not 0 < done <= rounds < MOST_ROUNDS:
            return None
        digest = self._digest if rounds == self._rounds else self._of(rounds)
        return {"rounds": rounds, "digest": digest, "last": self._last(done)}

    def _of(self, rounds: int) -> str:
        pieces = max(FEWEST_PIECES, MOST_PIECES // len(self._streams))
        return digest(_read(stream, rounds, pieces) for stream in self._streams)

    def _last(self, done: int) -> str:
        there = (stream for stream in self._streams if stream.rounds is None or done <= stream.rounds)
        return digest([stream.chunk(done - 1, done)] for stream in there)


def _read(stream: Stream, rounds: int, most: int) -> Iterable[Tree]:
    covered = min([rounds, *(limit for limit in (stream.period, stream.rounds) if limit is not None)])
    length = max(1, PIECE_BYTES // _bytes_per_round(stream))
    count = -(-covered // length)
    if count > most:
        yield stream.backing()
    for piece in np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64)).tolist():
        yield stream.chunk(piece * length, min((piece + 1) * length, covered))


def _bytes_per_round(stream: Stream) -> int:
    sizes = (math.prod(s.shape) * np.dtype(s.dtype).itemsize for s in jax.tree.leaves(stream.batch_spec()))
    return max(1, stream.agents * int(sum(sizes)))
