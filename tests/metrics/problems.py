from __future__ import annotations

from typing import Any

import jax


def spec_of(data: Any) -> Any:
    """Shapes and types of one agent's batch in one round."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[2:], leaf.dtype), data)
