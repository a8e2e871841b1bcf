"""The privacy claim of Rizk (2023): whole data sets, epsilon(i) growing with the rounds, a stated probability.

The text assumes no bound on gradients. It says instead that two runs, with and without an agent's own data, end near
their optima w^o and w'^o, hence near each other (2.63), (3.56), (4.28):

    Delta(i) = ||w_i - w'_i|| <= B + B' + sqrt(P) ||w^o - w'^o||
    with a probability of at least (1 - E||w~_i||^2 / B^2) (1 - E||w~'_i||^2 / B'^2)         (2.64), (3.57), (4.29)

for any B and B', by Markov's inequality, w~ being what a run lacks to its optimum (of P agents stacked). It concludes
that Laplace noise of standard deviation sigma_g on every message makes the first i messages epsilon(i)-private,

    epsilon(i) = sqrt(2) / sigma_g (B + B' + sqrt(P) ||w^o - w'^o||) i                       (2.69) with P = 1, (3.58)

times the number of links that carry a message, for which (4.34) puts P. (3.58) counts messages from 0 on: i + 1.

Errata. This is what the text claims, not a guarantee to rely on:

- The bound is on the l2 norm, while the density of Laplace noise drawn coordinate by coordinate changes with the l1
  norm: of M coordinates that is up to sqrt(M) times as much (`in_l1`).
- All i bounds are used together, so that they must hold at once: by the union bound with a probability of at least
  1 - i (E||w~||^2 / B^2 + E||w~'||^2 / B'^2) (`failure`). (2.64) is for one round, and multiplies as if the two runs
  were independent.
- What holds with a probability below 1 is differential privacy only with the rest added to delta.
- (2.67) compares densities at one and the same sequence of messages, while Delta(i) is the distance of two runs that
  saw different ones.

A guarantee per record that needs none of this comes from a clip (`tacit.privacy.laplace`, `gaussian`).
"""

from __future__ import annotations

import math
from typing import NamedTuple


class TrajectoryClaim(NamedTuple):
    """Claim of Rizk (2023) for a run; the module says what is wrong with it."""

    noise_std: float
    """Standard deviation of the Laplace noise, above 0."""
    rounds: int
    bounds: tuple[float, float]
    """B and B', above 0."""
    gap: float
    """||w^o - w'^o||, how far the optimum moves when one agent's data are replaced."""
    mean_square_errors: tuple[float, float]
    """E||w~||^2 and E||w~'||^2, the largest over the rounds, measured or taken from a theorem."""
    agents: int = 1
    """P, whose models are stacked: 1 around a server (2.69)."""
    links: int = 1
    """Noisy copies of a message that are counted: 1 in (2.69) and (3.58), P in (4.34)."""
    coordinates: int = 1
    """Of a model."""

    @property
    def sensitivity(self) -> float:
        """The bound on Delta(i), in the l2 norm."""
        return sum(self.bounds) + math.sqrt(self.agents) * self.gap

    def epsilon(self, i: int | None = None) -> float:
        """Return the text's epsilon of the first i messages, of all rounds by default."""
        return math.sqrt(2) / self.noise_std * self.links * self.sensitivity * (self.rounds if i is None else i)

    def in_l1(self) -> float:
        """Return epsilon with the bound turned into the l1 norm that Laplace noise needs."""
        return math.sqrt(self.coordinates) * self.epsilon()

    @property
    def probability(self) -> float:
        """With which the text's bound holds in one round; 0 where it says nothing."""
        first, second = (max(0.0, 1 - part) for part in self._exceeded())
        return first * second

    @property
    def failure(self) -> float:
        """With what probability some of the bounds fails, at most: the union over rounds and both runs."""
        return min(1.0, self.rounds * sum(self._exceeded()))

    def words(self) -> str:
        """Say what is claimed, of what, and what is wrong with it."""
        counted = f", summed over {self.links} links" if self.links > 1 else ""
        return (
            f"The text claims epsilon({self.rounds}) = {self.epsilon():.4g} for an agent's whole data set, growing by "
            f"{self.epsilon(1):.4g} with every round{counted}, with a probability of {self.probability:.4g} per round. "
            f"Noise of standard deviation {self.noise_std:g} is drawn for each of {self.coordinates} coordinates, so "
            f"that the l1 norm counts: epsilon is {self.in_l1():.4g}. Some of the {self.rounds} bounds fails with "
            f"a probability of up to {self.failure:.4g}, which belongs to delta"
            f"{': nothing is promised' if self.failure >= 1 else ''}."
        )

    def _exceeded(self) -> tuple[float, float]:
        """Markov's bounds on the probabilities that an error is beyond B and beyond B'."""
        (error, other), (bound, second) = self.mean_square_errors, self.bounds
        return error / bound**2, other / second**2


trajectory_claim = TrajectoryClaim


def bounds_for(mean_square_errors: tuple[float, float], probability: float) -> tuple[float, float]:
    """Return the smallest B and B' for which (2.64) has a given probability, either bound holding alike.

    Args:
      mean_square_errors: E||w~||^2 and E||w~'||^2, above 0.
      probability: Between 0 and 1.

    Example:
      >>> bounds_for((0.25, 1.0), 0.25)
      (0.7071067811865476, 1.4142135623730951)
    """
    first, second = (math.sqrt(error / (1 - math.sqrt(probability))) for error in mean_square_errors)
    return first, second
