"""The constant as a run, to be compared with others; `tacit.metrics.constant` computes it."""

from __future__ import annotations

import numpy as np

from tacit.core.contract import PrivacyStatement
from tacit.metrics.constant import constant_figures
from tacit.privacy.spending import RunPrivacy
from tacit.results import Run

LABEL = "a constant"
HOLDS = "not private: a constant of each agent's own labels; nothing is sent"


def constant_run(like: Run) -> Run | None:
    """Return the constant on the data of a run, as a run; None where the objective has no constant to predict.

    Args:
      like: A finished run, of which data, rounds and repeats are taken.
    """
    figures = [constant_figures(like.objective, stream, like.rounds) for stream in like.streams]
    known = [found for found in figures if found is not None]
    if len(known) < len(figures):
        return None
    each = known * (like.repeats if len(known) == 1 else 1)
    nothing = np.zeros((like.repeats, like.rounds), np.int64)
    per_round = {name: np.stack([found[name] for found in each]) for name in each[0] if name in like.per_round}
    return Run(
        algorithm="constant",
        objective=like.objective,
        agents=like.agents,
        rounds=like.rounds,
        repeats=like.repeats,
        seed=like.seed,
        dtype=like.dtype,
        per_round={**per_round, "messages": nothing, "bits": nothing},
        recorded_rounds=like.recorded_rounds,
        recorded={"consensus": np.full((like.repeats, len(like.recorded_rounds)), np.nan)},
        models=(),
        privacy=RunPrivacy(PrivacyStatement.none()._replace(holds=HOLDS)),
        streams=like.streams,
        graph="no links",
        stream=like.stream,
        seconds=0.0,
        compile_seconds=0.0,
        partial=like.partial,
        label=LABEL,
    )
