"""The best models of a run by rows that nobody learns from, and a run that ends once they get no better.

Which round is best is read off these rows, so that models chosen by them say something of them. Where a method promises
privacy they must be nobody's secret: owners' own rows would leave by the choice, which no account charges.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit.core.contract import Algorithm, Objective, Params
from tacit.core.errors import ConfigError
from tacit.streams.batch import Batch

if TYPE_CHECKING:
    from tacit.results.run import Run


class Chosen(NamedTuple):
    """Which models of a run its models are, where they are the best and not the last."""

    rounds: tuple[int, ...]
    """After how many rounds they were, repeat by repeat."""
    of: int
    """Rounds that the run had."""
    rows: int
    """By how many rows they were chosen."""


class Found(NamedTuple):
    """The best models of one repeat."""

    models: Params | None = None
    loss: float = math.inf
    look: int = -1


class Best:
    """The best models of a run by their loss on rows of their own: a recorder of `tacit.simulate`.

    It looks at the models wherever the run records (``record_every``). Figures on these rows are better than they would
    be on others, since the models were chosen by them: judge by a third set. Of several repeats each has its best; the
    run ends where all of them got no better.

    Args:
      objective: Loss of the method.
      x: Rows that nobody learns from, as the models see them.
      y: Their labels.
      patience: Looks without a lower loss after which the run ends, with ``partial=True``; None: it goes on.
      public: Says that these rows are nobody's secret; without it a method that promises privacy is refused.

    Attributes:
      each: For each repeat its best models so far (leading axis over the learners; None before the first look), their
        mean loss (infinite before), and the number of the look that found them.
      models, loss, look: Those of the first repeat. Their round is ``run.recorded_rounds[best.look]``.

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
      >>> bool(best.of(run).model().card.made.rounds == run.recorded_rounds[best.look])
      True
    """

    def __init__(self, objective: Objective, x: Any, y: Any, *, patience: int | None = None, public: bool = False):
        if patience is not None and (not isinstance(patience, int) or patience < 1):
            raise ConfigError(f"patience = {patience!r}: expected a number of looks from 1 on, or None")
        self.patience, self.public = patience, public
        batch = Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y))
        self.rows = len(batch.y)

        def judged(models: Params) -> Any:
            return jnp.mean(jax.lax.map(lambda model: objective.loss(model, batch), models))

        self._judged = jax.jit(judged)
        self._begin(1)

    def _begin(self, repeats: int) -> None:
        self.each, self._calls = [Found() for _ in range(repeats)], 0

    @property
    def models(self) -> Params | None:
        """The best models of the first repeat."""
        return self.each[0].models

    @property
    def loss(self) -> float:
        """Their mean loss."""
        return self.each[0].loss

    @property
    def look(self) -> int:
        """Number of the look that found them."""
        return self.each[0].look

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
                "leave Best out, or say public=True ([evaluate] public = true) if these rows are nobody's secret"
            )
        if goes_on:
            raise ConfigError(
                "Best looks at a run from its beginning, but a checkpoint is asked for: leave checkpoint= out"
            )
        self._begin(repeats)

    def __call__(self, models: Params) -> float:
        """Look at the models of all learners and return their mean loss.

        Args:
          models: Leading axis over the learners.
        """
        look, repeat = divmod(self._calls, len(self.each))  # repeat by repeat
        found = float(self._judged(models))
        if found < self.each[repeat].loss:
            self.each[repeat] = Found(models, found, look)
        self._calls += 1
        return found

    @property
    def satisfied(self) -> bool:
        """Whether the run may end: it got no better for as many looks as `patience` says."""
        looks = self._calls // len(self.each)
        return self.patience is not None and all(looks > max(best.look, 0) + self.patience for best in self.each)

    def of(self, run: Run) -> Run:
        """Return the run that it looked at with its best models in the place of the last.

        So `model` (of an owner, or their mean), `evaluate` and `save` are of these, and cards say which they are.

        Args:
          run: The run that recorded it.
        """
        found = [best.models for best in self.each]
        if len(found) != run.repeats or any(models is None for models in found):
            raise ConfigError(
                f"the best models are of {len(found)} repeats, and the run has {run.repeats}: another run?"
            )
        made = copy.copy(run)
        made.models = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *found)
        rounds = tuple(int(run.recorded_rounds[best.look]) for best in self.each)
        made.chosen, made.evaluation = Chosen(rounds, run.rounds, self.rows), None
        made.partial = run.partial and not self.satisfied
        return made
