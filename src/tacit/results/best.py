"""The best models of a run by rows that nobody learns from, and a run that ends once they get no better.

Which round is best is read off these rows, so that models chosen by them say something of them. Where a method promises
privacy they must be nobody's secret: owners' own rows would leave by the choice, which no account charges.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from tacit.core.contract import Algorithm, Objective, Params
from tacit.core.errors import ConfigError
from tacit.streams.batch import Batch


class Best:
    """The best models of one run by their loss on rows of their own: a recorder of `tacit.simulate`.

    It looks at the models wherever the run records (``record_every``). Figures on these rows are better than they would
    be on others, since the models were chosen by them: judge by a third set.

    Args:
      objective: Loss of the method.
      x: Rows that nobody learns from, as the models see them.
      y: Their labels.
      patience: Looks without a lower loss after which the run ends, with ``partial=True``; None: it goes on.
      public: Says that these rows are nobody's secret; without it a method that promises privacy is refused.

    Attributes:
      models: The best models so far, leading axis over the learners; None before the first look.
      loss: Their mean loss; infinite before.
      look: Number of the look that found them, so that the round is ``run.recorded_rounds[best.look]``.

    Example:
      >>> import numpy as np, tacit
      >>> rng = np.random.default_rng(0)
      >>> x = rng.normal(size=(120, 3))
      >>> y = np.sign(x[:, 0] + rng.normal(size=120))
      >>> stream = tacit.streams.from_arrays(x[:100], y[:100], np.arange(100) % 4, batch=5, exhausted="cycle")
      >>> objective = tacit.objectives.logistic()
      >>> best = tacit.results.Best(objective, x[100:], y[100:], patience=3)
      >>> method = tacit.algorithms.distributed_online(objective, step=0.5)
      >>> run = tacit.simulate(
      ...     method, tacit.graphs.ring(4), stream, rounds=200, record={"held_out": best}, record_every=5
      ... )
      >>> run.rounds < 200 and bool(best.loss == run.recorded["held_out"].min())
      True
    """

    def __init__(self, objective: Objective, x: Any, y: Any, *, patience: int | None = None, public: bool = False):
        if patience is not None and (not isinstance(patience, int) or patience < 1):
            raise ConfigError(f"patience = {patience!r}: expected a number of looks from 1 on, or None")
        self.patience, self.public = patience, public
        batch = Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y))

        def judged(models: Params) -> Any:
            return jnp.mean(jax.lax.map(lambda model: objective.loss(model, batch), models))

        self._judged = jax.jit(judged)
        self._begin()

    def _begin(self) -> None:
        self.models: Params | None = None
        self.loss, self.look, self._looks = math.inf, -1, 0

    def begin(self, algorithm: Algorithm, repeats: int, goes_on: bool) -> None:
        """Forget what was before, and refuse a run of which it cannot tell the best.

        Args:
          algorithm: Method of the run.
          repeats: Of the run.
          goes_on: Whether the run may go on from a checkpoint.
        """
        if algorithm.privacy.private and not self.public:
            raise ConfigError(
                f"the best models of {algorithm.name!r} would be chosen by rows that its privacy says nothing of: "
                "leave Best out, or say public=True if these rows are nobody's secret"
            )
        if repeats != 1 or goes_on:
            raise ConfigError(
                f"Best looks at one run from its beginning, but repeats = {repeats} or a checkpoint is asked for: run "
                "the seeds one by one, without checkpoint="
            )
        self._begin()

    def __call__(self, models: Params) -> float:
        """Look at the models of all learners and return their mean loss.

        Args:
          models: Leading axis over the learners.
        """
        found = float(self._judged(models))
        if found < self.loss:
            self.models, self.loss, self.look = models, found, self._looks
        self._looks += 1
        return found

    @property
    def satisfied(self) -> bool:
        """Whether the run may end: it got no better for as many looks as `patience` says."""
        return self.patience is not None and self._looks > max(self.look, 0) + self.patience
