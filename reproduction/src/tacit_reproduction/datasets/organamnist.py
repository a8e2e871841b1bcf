"""OrganAMNIST (Yang et al. 2023, MedMNIST v2, from LiTS scans; CC BY 4.0): CT slices of 11 organs, 28 x 28 grey values.

The publisher's file is read as it is: for each part an array of images and one of labels, as bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import DataError
from tacit.streams.dataset import Dataset
from tacit.streams.reading.npz import read_npz
from tacit_reproduction.datasets import fetch as datasets

SIDE = 28
ORGANS = (
    *("bladder", "left femur", "right femur", "heart", "left kidney", "right kidney"),
    *("liver", "left lung", "right lung", "pancreas", "spleen"),
)
"""Class -> organ."""
PARTS = {"train": ("train", 34_561), "validation": ("val", 6_491), "test": ("test", 17_778)}
"""Part -> how the file calls it, and how many images it has."""
REMEDY = "it is damaged or another edition, replace it by the original"


def organamnist() -> Dataset:
    """OrganAMNIST: all 58,830 CT slices of eleven organs, 28 x 28 grey values.

    Returns:
      The data set: rows of 784 grey values from 0 to 1, y the class (int32), an index into `ORGANS`. `parts` has
      "train" (34,561 rows), "validation" (6,491) and "test" (17,778), in this order.

    Raises:
      DataError: The file is not here and cannot be downloaded, or is not the published one.

    References: Yang et al. (2023), MedMNIST v2, CC BY 4.0.
    """
    path = datasets.find(datasets.ORGANAMNIST_FILE)
    if path is None:
        path = datasets.cache_folder() / datasets.ORGANAMNIST_FILE
        with datasets.explained("organamnist"):
            url = datasets.ORGANAMNIST_URL
            datasets.write(path, datasets.checked(datasets.fetched(url), datasets.ORGANAMNIST_SHA256, url))
    datasets.verify(path, datasets.ORGANAMNIST_SHA256)
    images, labels = _read(path)
    rows = {name: rows for name, (_, rows) in PARTS.items()}
    return datasets.grey_images("organamnist", "OrganAMNIST", images, labels, rows)


def organ(name: str) -> int:
    """Return the class of an organ.

    Example:
      >>> organ("liver")
      6
    """
    if name not in ORGANS:
        raise DataError(f"there is no organ {name!r} in OrganAMNIST; expected one of {', '.join(ORGANS)}")
    return ORGANS.index(name)


def _read(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    try:
        archive = read_npz(path)
        found = [(archive[f"{called}_images"], archive[f"{called}_labels"]) for called, _ in PARTS.values()]
    except (DataError, KeyError) as fault:
        raise DataError(f"{path}: cannot be read ({type(fault).__name__}: {fault}): {REMEDY}") from fault
    images, labels = [], []
    for (called, rows), (image, label) in zip(PARTS.values(), found, strict=True):
        images.append(_checked(path, f"{called}_images", image, (rows, SIDE, SIDE)))
        labels.append(_checked(path, f"{called}_labels", label, (rows, 1)))
    classes = np.concatenate(labels).ravel()
    if classes.max() >= len(ORGANS):
        raise DataError(f"{path}: label {classes.max()}, expected classes 0 to {len(ORGANS) - 1}: {REMEDY}")
    return np.concatenate(images), classes


def _checked(path: Path, name: str, found: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    if found.shape != shape or found.dtype != np.uint8:
        raise DataError(
            f"{path}: {name} is {found.dtype} of shape {found.shape}, expected uint8 of shape {shape}: {REMEDY}"
        )
    return found
