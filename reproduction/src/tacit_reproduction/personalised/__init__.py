"""Personalised models for clusters of clients across several servers (Gauthier 2023, ch. 5)."""

from tacit_reproduction.personalised.discovery import DISCOVERY
from tacit_reproduction.personalised.mnist import MNIST
from tacit_reproduction.personalised.organ import ORGAN
from tacit_reproduction.personalised.regression import REGRESSION

__all__ = ["DISCOVERY", "MNIST", "ORGAN", "REGRESSION"]
