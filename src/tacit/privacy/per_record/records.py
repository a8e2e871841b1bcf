"""Places for records in a batch, and which of them hold one."""

from __future__ import annotations

import jax.numpy as jnp

from tacit.core.contract import Array, Batch
from tacit.core.errors import DataError


def records_in(batch: Batch) -> int:
    """Count the places for records in a batch, absent records included: a shape, so it tells nothing of the data.

    Args:
      batch: `y` of shape () is one record and (b,) is b of them; a batch without `y` is one record.

    Returns:
      A Python int, also under `jax.jit`.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import Batch
      >>> records_in(Batch(np.ones((3, 2)), np.ones(3)))
      3
    """
    y = getattr(batch, "y", None)
    if y is None or jnp.ndim(y) == 0:
        return 1
    places = int(jnp.shape(y)[0])
    if places == 0:
        raise DataError("a batch has no place for a record (y has shape (0,)); pad it and give the padding weight 0")
    return places


def present_in(batch: Batch) -> Array | int:
    """Count the records that are there in a batch: places of a weight above 0.

    Args:
      batch: As for `records_in`; without a `weight` all records are there.

    Returns:
      An int, or an array under a weight.

    Example:
      >>> import numpy as np
      >>> from tacit.streams import Batch
      >>> int(present_in(Batch(np.ones((3, 2)), np.ones(3), np.array([1.0, 0.0, 2.0]))))
      2
    """
    places, weight = records_in(batch), getattr(batch, "weight", None)
    return places if weight is None else jnp.sum(jnp.broadcast_to(jnp.asarray(weight) > 0, (places,)))
