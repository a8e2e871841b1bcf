"""Regret so far of a simulation that goes on: against the best of a few stated models, on a sample of its data.

The comparator of true regret is solved for on all data, in tens of passes over them: many times what the run itself
took. So while a run goes on it is held against models that cost nothing to find,

    the mean of the learners' models, as it is now and as it was at the three looks before,

by their losses on a sample of the batches so far: rounds by strata over all of them, some learners of each. With
l_r(x) the mean loss of model x on the sample of round r, of R, and L the learners' own average loss, which is known,

    regret so far = L - min over x of  1/R sum_r l_r(x),    with standard error  std_r l_r(x) / sqrt(R).

No fixed model of these is better than the one that is solved for, so that true regret is not below this, but for the
sample's error (and for choosing the best of four by the sample that judges it).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Array, Batch, Objective, Params, Tree
from tacit.streams import Stream

SIZES = (1024, 4096, 16384)
"""Batches of a sample, each four times as good as the one before is twice."""
AT_ONCE, MOST_ROUNDS, MODELS = 64, 512, 4
"""Learners of a round at most, rounds of a sample, and models that are compared."""
COMPILING, READING = 0.2, 1e-3
"""Seconds that are set aside for a program of another size, and for reading a round until that is known."""
WIDTH = 1.96
"""Standard errors on either side: 95 %."""


class Compared:
    """Losses of stated models on samples of a stream, in the time that there is."""

    def __init__(self, objective: Objective, stream: Stream, honest: NDArray[np.bool_], dtype: Any) -> None:
        """Take what stays the same.

        Args:
          objective: The loss.
          stream: Of the first repeat.
          honest: Learners whose losses count.
          dtype: Of the run's numbers.
        """
        self._objective, self._stream, self._dtype = objective, stream, dtype
        self._learners = np.flatnonzero(honest)
        self._random = np.random.default_rng(0)
        self._models: list[Params] = []
        self._size, self._taken = 0, math.inf

    def after(
        self, done: int, own: Callable[[], float], models: Callable[[], Params], seconds: float, speed: float
    ) -> tuple[float, float, float] | None:
        """Return regret so far per agent and round, and the ends of its band; None: there is no time for it.

        Args:
          done: Rounds so far.
          own: Gives the learners' average loss over them.
          models: Gives the learners' models, (learners, ...).
          seconds: That it may take.
          speed: Rounds per second of the run.
        """
        size = self._affordable(seconds, speed)
        if size is None:
            return None
        begun, again = time.perf_counter(), size == self._size
        now = jax.tree.map(lambda leaf: np.asarray(leaf).mean(axis=0), models())
        known = [*self._models, now]
        self._models = known[1 - MODELS :]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *known, *[now] * (MODELS - len(known)))
        losses = np.asarray(self._losses(stacked, self._sample(done, size)), np.float64)
        means = losses.mean(axis=1)
        best = int(np.argmin(np.where(np.isfinite(means), means, np.inf)))
        error = WIDTH * losses[best].std(ddof=1) / math.sqrt(losses.shape[1])
        found = own() - float(means[best])
        taken = time.perf_counter() - begun
        self._taken = max(self._taken, taken) if again and math.isfinite(self._taken) else taken
        self._size = size
        return found, found - error, found + error

    def _affordable(self, seconds: float, speed: float) -> int | None:
        """Return the largest sample for which there is time; None: for none."""
        learners = max(1, self._learners.size)
        for size in reversed(SIZES):
            if size == self._size:
                cost = self._taken
            elif math.isfinite(self._taken):
                cost = COMPILING + self._taken * size / self._size
            else:  # a round takes each learner a loss at least, and a batch
                rounds, each = self._shape(size)
                cost = COMPILING + rounds * READING + (MODELS * rounds * each / learners + rounds) / speed
            if cost <= seconds and size >= self._size:
                return size
        return None

    def _shape(self, size: int) -> tuple[int, int]:
        """Return the rounds of a sample, and the learners of each."""
        each = min(self._learners.size, AT_ONCE)
        return max(2, min(MOST_ROUNDS, size // each)), each

    def _sample(self, done: int, size: int) -> Batch:
        """Return batches (rounds, learners, ...), a round of each stratum; of few rounds some come several times."""
        rounds, each = self._shape(size)
        chosen = np.minimum(((np.arange(rounds) + self._random.random(rounds)) * done / rounds).astype(int), done - 1)
        parts = [
            self._rows(int(at), np.sort(self._random.choice(self._learners, each, replace=False))) for at in chosen
        ]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)

    def _rows(self, at: int, learners: NDArray[Any]) -> Tree:
        def ready(leaf: Any) -> NDArray[Any]:
            array = np.asarray(leaf)[0]
            floating = np.issubdtype(array.dtype, np.floating)
            found: NDArray[Any] = array.astype(self._dtype) if floating else array
            return found

        return jax.tree.map(ready, self._stream.rows(at, at + 1, learners))

    @cached_property
    def _losses(self) -> Callable[[Params, Batch], Array]:
        def of_round(model: Params, batch: Batch) -> Array:
            return jnp.mean(jax.vmap(self._objective.loss, (None, 0))(model, batch))

        return jax.jit(jax.vmap(jax.vmap(of_round, (None, 0)), (0, None)))
