"""The best models of a file's runs: rows that choose them, apart from those by which they are judged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.config.experiment_sections import Evaluate
from tacit.core.contract import Objective
from tacit.core.errors import ConfigError
from tacit.metrics.held_out import HeldOut
from tacit.results.best import Best


class Choosing(NamedTuple):
    """What [evaluate] says of the best models."""

    rows: HeldOut
    patience: int | None
    public: bool

    def best(self, objective: Objective) -> Best:
        """Return what looks at one run.

        Args:
          objective: Loss of the run's method.
        """
        return Best(objective, self.rows.x, self.rows.y, patience=self.patience, public=self.public)


def apart(asked: Evaluate | None, held: HeldOut | None, seed: int) -> tuple[HeldOut | None, Choosing | None]:
    """Return the held-out rows that judge, and those that choose, if a file asks for the best models.

    Args:
      asked: The section [evaluate].
      held: All held-out rows.
      seed: Of [run].
    """
    if asked is None or held is None or asked.settings.choose is None:
        return held, None
    settings = asked.settings
    assert settings.choose is not None
    count = round(settings.choose * len(held.y))
    if not 0 < count < len(held.y):
        raise ConfigError(
            f"{asked.place} choose = {settings.choose:g} of {len(held.y):,} held-out rows leaves none to choose by, or "
            "none to judge by; hold out more, or take another share"
        )
    order = np.random.default_rng(seed if settings.seed is None else settings.seed).permutation(len(held.y))
    parts = []
    for rows in (np.sort(order[count:]), np.sort(order[:count])):
        owner = None if held.owner is None else held.owner[rows]
        parts.append(held._replace(x=held.x[rows], y=held.y[rows], owner=owner))
    judging = parts[0]._replace(how=f"{held.how}, without {count:,} that chose the models")
    return judging, Choosing(parts[1], settings.patience, settings.public)
