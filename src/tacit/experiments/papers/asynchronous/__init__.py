"""001 ch. 4: clients that are mostly away, late and poorly connected, and share 2 % of a model."""

from tacit.experiments.papers.asynchronous.baselines import BASELINES
from tacit.experiments.papers.asynchronous.environments import ENVIRONMENTS
from tacit.experiments.papers.asynchronous.ocean import CALCOFI
from tacit.experiments.papers.asynchronous.theory import THEORY
from tacit.experiments.papers.asynchronous.variants import VARIANTS_OF_PAO_FED

__all__ = ["BASELINES", "CALCOFI", "ENVIRONMENTS", "THEORY", "VARIANTS_OF_PAO_FED"]
