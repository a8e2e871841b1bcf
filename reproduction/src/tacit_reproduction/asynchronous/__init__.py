"""Online learning by clients that are mostly away and share 2 % of a model (Gauthier 2023, ch. 4)."""

from tacit_reproduction.asynchronous.baselines import BASELINES
from tacit_reproduction.asynchronous.environments import ENVIRONMENTS
from tacit_reproduction.asynchronous.ocean import CALCOFI
from tacit_reproduction.asynchronous.theory import THEORY
from tacit_reproduction.asynchronous.variants import VARIANTS_OF_PAO_FED

__all__ = ["BASELINES", "CALCOFI", "ENVIRONMENTS", "THEORY", "VARIANTS_OF_PAO_FED"]
