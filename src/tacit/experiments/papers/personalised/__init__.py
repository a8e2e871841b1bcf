"""001 ch. 5: personalised models for clusters of clients across several servers."""

from tacit.experiments.papers.personalised.discovery import DISCOVERY
from tacit.experiments.papers.personalised.mnist import MNIST
from tacit.experiments.papers.personalised.organ import ORGAN
from tacit.experiments.papers.personalised.regression import REGRESSION

__all__ = ["DISCOVERY", "MNIST", "ORGAN", "REGRESSION"]
