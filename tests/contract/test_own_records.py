"""Under a clip that binds nobody and noise of size zero a method learns what it learns without a mechanism.

On whole data sets of unequal sizes, whose batches have places for the largest, and on batches that an owner of few rows
fills with the same ones again: a mean is over an agent's own records (Gauthier (2023), (3.5): over D_k) in both.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.contract import Clip, Mechanism
from tests.contract.cases import CASES, FORMS, WITHOUT_NOISE, build
from tests.contract.test_accounts import rows, whole

SILENT = Mechanism("silent", "laplace", lambda view, extent: jnp.float32(0), lambda view, s: s, clip=Clip(20.0))
METHODS = [name for name in tacit.algorithms.REGISTRY if name not in WITHOUT_NOISE]
DAILY = {"zcdp_admm": "whole data sets", "lagrangian_descent": "the same rows again"}
ALIKE = pytest.mark.covered_by("a clip of a local problem, and one of gradients (DAILY)")
ONE_STEP = ("fedprox", "scaffold")
"""Of several local steps a clip leaves the regulariser's part to the first (`_parts/local_steps.py`)."""
STREAMS = {"whole data sets": whole, "the same rows again": lambda: rows(4)}


@pytest.mark.parametrize(
    ("name", "data"),
    [pytest.param(name, data, marks=() if DAILY.get(name) == data else ALIKE) for name in METHODS for data in STREAMS],
)
def test_a_clip_that_binds_nobody_leaves_the_objective_as_it_is(name: str, data: str) -> None:
    silent = SILENT._replace(perturbs="gradient") if name in FORMS else SILENT
    form = FORMS.get(name, ({}, {}))[0] | ({"local_steps": 1} if name in ONE_STEP else {})
    graph = next(case.graph for case in CASES if case.name == name)
    one, other = (
        tacit.simulate(build(name, m, **form), graph, STREAMS[data](), rounds=3).models
        for m in (silent, tacit.privacy.unprotected)
    )
    # A local problem under a clip is solved to the precision that is booked.
    solved = build(name, **form).prepare is not None
    apart = np.max(np.abs(one - other)) / np.max(np.abs(other))
    assert apart < (1e-2 if solved else 1e-6)
