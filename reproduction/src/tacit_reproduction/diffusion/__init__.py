"""Decentralised learning under graph-homomorphic noise, on regression data and on ijcnn1 (Rizk 2023, ch. 4)."""

from tacit_reproduction.diffusion.ijcnn1 import IJCNN1
from tacit_reproduction.diffusion.regression import REGRESSION

__all__ = ["IJCNN1", "REGRESSION"]
