"""What a run leaves behind: figures per round and repeat, the models, and where they came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.contract import Objective, Params, PrivacyStatement
from tacit.streams import Stream

Series = np.ndarray
"""(repeats, rounds) or (repeats, recorded rounds)."""


@dataclass(eq=False)
class Run:
    """The outcome of one algorithm on one graph and stream.

    `per_round` holds (repeats, rounds) arrays: "loss" (mean over agents of f_it(x_it), before the update), the
    objective's score, "messages" sent, "bits" sent, and what else was asked for. `recorded` holds figures of the state
    after the rounds in `recorded_rounds`: "consensus", the mean squared distance of the models from their mean.
    """

    algorithm: str
    objective: Objective
    agents: int
    rounds: int
    repeats: int
    seed: int
    dtype: str
    per_round: Mapping[str, Series]
    recorded_rounds: np.ndarray
    recorded: Mapping[str, Series]
    models: Params
    """Final models, leading axes (repeats, agents)."""
    privacy: PrivacyStatement
    streams: Sequence[Stream]
    """One, or one per repeat."""
    graph: str
    stream: str
    seconds: float
    compile_seconds: float
    partial: bool = False
    """Whether the run was interrupted; all figures are those of the rounds that were finished."""
    settings: dict[str, Any] = field(default_factory=dict)

    def average_loss(self) -> np.ndarray:
        """(repeats,) average over rounds and agents of the loss at prediction time."""
        return np.asarray(self.per_round["loss"].mean(axis=1))

    def running_average(self, name: str = "loss") -> Series:
        """(repeats, rounds) average of a per-round figure up to each round."""
        values = np.asarray(self.per_round[name], np.float64)
        return np.asarray(np.cumsum(values, axis=1) / np.arange(1, values.shape[1] + 1))

    def stream_of(self, repeat: int) -> Stream:
        """Return the stream that a repeat saw."""
        return self.streams[repeat if len(self.streams) > 1 else 0]


Interrupted = Callable[[], bool]
