"""001 ch. 4: clients that are mostly away, late and poorly connected, and share 2 % of a model."""

from tacit_reproduction.asynchronous.baselines import BASELINES
from tacit_reproduction.asynchronous.environments import ENVIRONMENTS
from tacit_reproduction.asynchronous.ocean import CALCOFI
from tacit_reproduction.asynchronous.theory import THEORY
from tacit_reproduction.asynchronous.variants import VARIANTS_OF_PAO_FED

__all__ = ["BASELINES", "CALCOFI", "ENVIRONMENTS", "THEORY", "VARIANTS_OF_PAO_FED"]
