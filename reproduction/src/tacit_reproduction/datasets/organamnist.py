"""OrganAMNIST (Yang et al. 2023, MedMNIST v2, from LiTS scans; CC BY 4.0): CT slices of 11 organs, 28 x 28 grey values.

The publisher's file is read as it is: for each part an array of images and one of labels, as bytes.
"""

from tacit.streams.dataset import Dataset
from tacit.streams.reading.npz import read_npz
from tacit_reproduction.datasets import fetch as datasets

ORGANS = (
    *("bladder", "left femur", "right femur", "heart", "left kidney", "right kidney"),
    *("liver", "left lung", "right lung", "pancreas", "spleen"),
)
"""Class -> organ."""
PARTS = {"train": "train", "validation": "val", "test": "test"}  # part -> how the file calls it


def organamnist() -> Dataset:
    """OrganAMNIST: all 58,830 CT slices of eleven organs, 28 x 28 grey values.

    Returns:
      The data set: rows of 784 grey values from 0 to 1, y the class (int32), an index into `ORGANS`. `parts` has
      "train" (34,561 rows), "validation" (6,491) and "test" (17,778), in this order.

    References: Yang et al. (2023), MedMNIST v2, CC BY 4.0.
    """
    (path,) = datasets.files_of("organamnist")
    archive = read_npz(path)
    images, labels = ([archive[f"{called}_{kind}"] for called in PARTS.values()] for kind in ("images", "labels"))
    return datasets.grey_images("organamnist", "OrganAMNIST", images, labels, tuple(PARTS))
