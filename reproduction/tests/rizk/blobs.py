"""Two blobs in place of ijcnn1."""

import numpy as np

from tacit_reproduction.rizk.ijcnn1 import Samples


def blobs() -> Samples:
    """Two blobs, of which one is rare."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(1500) % 10 == 0, 1, -1).astype(np.float32)
    x = np.concatenate([rng.normal(size=(1500, 3)) + 1.5 * y[:, None], np.ones((1500, 1))], axis=1).astype(np.float32)
    return Samples(x[:1000], y[:1000], x[1000:], y[1000:], "two blobs")
