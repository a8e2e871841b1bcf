from __future__ import annotations

import numpy as np
import pytest

from tacit_reproduction.push_sum.design import ON_OCCUPANCY, Design, Samples

MICRO = Design(
    nodes=5,
    neighbours=2,
    sizes=(4, 5),
    size_neighbours=2,
    density_nodes=5,
    densities=(1, 2),
    seeds=2,
    tuning_seeds=1,
    step_ratio=4.0,
    shared_steps=True,
    starts={"COL": 1.0, "OPS": 0.5, "DOL-Symm": 0.5, "DOL-Asymm": 0.5, "Local OGD": 0.5},
    in_text=ON_OCCUPANCY,
)


@pytest.fixture(scope="session")
def micro() -> Design:
    """The smallest experiment of this shape."""
    return MICRO


@pytest.fixture(scope="session")
def samples() -> Samples:
    """Two blobs."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.5, 1, -1).astype(np.float32)
    x = (rng.normal(size=(60, 3)) + 0.8 * y[:, None]).astype(np.float32)
    x[:, -1] = 1
    return Samples("blobs", "two blobs, 60 rows made up", True, x, y)
