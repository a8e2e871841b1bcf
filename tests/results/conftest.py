from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.core.contract import PrivacyStatement
from tacit.objectives import logistic
from tacit.privacy import Loss
from tacit.privacy.accounting import guarantee
from tacit.privacy.spending import RunPrivacy
from tacit.results import Run
from tacit.streams import logistic_drift

AGENTS, ROUNDS, REPEATS = 3, 40, 3

STREAMS = [logistic_drift(AGENTS, 2, noise=0.3, seed=repeat) for repeat in range(REPEATS)]
"""Shared by all tests, so that their comparators are found once."""

PRIVATE = RunPrivacy(
    PrivacyStatement(
        private=True,
        unit="record",
        adjacency="one record is replaced",
        composition="parallel",
        assumptions=("gradients are clipped",),
        text_claims="epsilon 1 in total",
        holds="noise on the model",
    ),
    guarantee(Loss(1.5, 1.125), "record", uses=3),
    reads=3,
)
GAUSSIAN = RunPrivacy(PRIVATE.statement, guarantee(Loss(math.inf, 0.1), "dataset", delta=1e-6, uses=40), reads=1)


@pytest.fixture
def make_run() -> Callable[..., Run]:
    """A run with figures drawn from a seed: nothing is simulated, so a test of results is quick."""

    def make(seed: int = 0, **changes: Any) -> Run:
        rng = np.random.default_rng(seed)
        repeats = changes.pop("repeats", REPEATS)
        steps = np.arange(1, ROUNDS + 1)
        loss = 0.4 + 0.5 / steps + 0.02 * rng.random((repeats, ROUNDS))
        messages = np.full((repeats, ROUNDS), 5, np.int64)
        recorded = np.arange(4, ROUNDS + 1, 4)
        facts: dict[str, Any] = {
            "algorithm": "online_push_sum",
            "objective": logistic(l2=1e-2),
            "agents": AGENTS,
            "rounds": ROUNDS,
            "repeats": repeats,
            "seed": 0,
            "dtype": "float32",
            "per_round": {
                "loss": loss.astype(np.float32),
                "accuracy": (1 - loss).astype(np.float32),
                "messages": messages,
                "bits": 96 * messages,
            },
            "recorded_rounds": recorded,
            "recorded": {"consensus": 0.1 / recorded * rng.random((repeats, len(recorded)))},
            "models": np.zeros((repeats, AGENTS, 2)),
            "privacy": RunPrivacy(PrivacyStatement.none()),
            "streams": [STREAMS[r] for r in range(repeats)],
            "graph": "ring(3)",
            "stream": "synthetic <data>",
            "seconds": 1.0,
            "compile_seconds": 0.5,
        }
        return Run(**{**facts, **changes})

    return make
