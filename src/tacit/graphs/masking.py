"""Pairs of senders that share masks: local graph-homomorphic noise (Rizk 2023, sec. 4.3.4).

The senders of each receiver, in ascending order, go alternately to two sides, N+ and N-; every agent of one side shares
a mask with every agent of the other, adds it (N+) or subtracts it (N-), and the receiver's sum is free of it. The rule
is public and needs no message: the list of a receiver's senders settles the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:  # a peer takes the sides from here, and loads no graphs
    from tacit.graphs.edges import IntArray
    from tacit.graphs.graph import Graph

Sender = TypeVar("Sender")


class MaskingPairs(NamedTuple):
    """One entry per pair: positions in the graph's list of edges. Both edges lead to the same receiver."""

    adds: IntArray
    """Edges whose sender adds the mask."""
    subtracts: IntArray
    """Edges whose sender subtracts it."""


def masking_sides(senders: Sequence[Sender]) -> tuple[list[Sender], list[Sender]]:
    """Sides N+ and N- of one receiver's senders.

    Args:
      senders: The receiver's senders in ascending order.

    Example:
      >>> import tacit
      >>> tacit.graphs.masking_sides([1, 3, 4])
      ([1, 4], [3])
    """
    return list(senders[0::2]), list(senders[1::2])


def masking_pairs(graph: Graph) -> MaskingPairs:
    """Pairs of links that share a mask, receiver by receiver.

    Args:
      graph: The graph.

    Returns:
      Positions in the graph's list of links, one entry per pair.

    Example:
      >>> import tacit
      >>> pairs = tacit.graphs.masking_pairs(tacit.graphs.ring(3))
      >>> pairs.adds.tolist(), pairs.subtracts.tolist()
      ([0, 2, 4], [1, 3, 5])
    """
    adds, subtracts = [], []
    first = np.concatenate([[0], np.cumsum(graph.in_degree)])  # edges are sorted by receiver, then sender
    for start, stop in pairwise(first):
        plus, minus = masking_sides(range(int(start), int(stop)))
        adds.append(np.repeat(np.asarray(plus, np.int32), len(minus)))
        subtracts.append(np.tile(np.asarray(minus, np.int32), len(plus)))
    none = np.zeros(0, np.int32)
    return MaskingPairs(np.concatenate([none, *adds]), np.concatenate([none, *subtracts]))
