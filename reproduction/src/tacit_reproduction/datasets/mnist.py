"""MNIST (LeCun, Cortes and Burges 1998): handwritten digits as 28 x 28 grey values, classes 0 to 9.

The publisher's four idx files are read as they are: a header of 16 bytes before images, of 8 before labels, then one
byte per value.
"""

import gzip

import numpy as np

from tacit.streams.dataset import Dataset
from tacit_reproduction.datasets import fetch as datasets

HEADERS = {"images": 16, "labels": 8}


def mnist() -> Dataset:
    """MNIST: all 70,000 handwritten digits, 28 x 28 grey values.

    Returns:
      The data set: rows of 784 grey values from 0 to 1, y the digit (int32). `parts` has "train" (60,000 rows) and
      "test" (10,000), in this order.

    References: LeCun, Cortes and Burges (1998).
    """
    files = datasets.files_of("mnist")
    images, labels = (
        [
            np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)
            for path in files
            if kind in path.name
        ]
        for kind, header in HEADERS.items()
    )
    shaped = [values.reshape(-1, 28, 28) for values in images]
    return datasets.grey_images("mnist", "MNIST", shaped, labels, ("train", "test"))
