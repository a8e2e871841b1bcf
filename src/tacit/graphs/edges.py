"""Edge lists as sorted arrays: order, duplicates and reverses, without an n x n array.

An edge is one number, receiver * senders + sender. Sorted by it, an edge list is in canonical order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.core import limits
from tacit.core.errors import GraphError

LARGEST_COMPLETE = 20_000
LARGEST_DENSE = 500
AGENT_BYTES, LINK_BYTES = 40, 40
"""Memory of an agent and a link while a graph is made: two ends and a number in 64 bits, and as much to sort them."""

IntArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.floating[Any]]


def edge_keys(senders: IntArray, receivers: IntArray, sources: int) -> npt.NDArray[np.int64]:
    """Return one number per edge whose order is the canonical order."""
    return receivers.astype(np.int64) * sources + senders


def split_keys(keys: npt.NDArray[np.int64], sources: int) -> tuple[IntArray, IntArray]:
    """Return (senders, receivers) of edge numbers."""
    receivers, senders = np.divmod(keys, sources)
    return senders.astype(np.int32), receivers.astype(np.int32)


def stable_order(values: IntArray, size: int) -> IntArray:
    """Return the positions of numbers below `size` in ascending order, equal ones as they come: O(values + size)."""
    from scipy.sparse import csr_array

    # A matrix of one row, turned into columns, is a sort by counting.
    places = np.arange(len(values), dtype=np.int32)
    row = csr_array((places, values, np.array([0, len(values)], np.int32)), shape=(1, size))
    order: IntArray = row.tocsc().data
    return order


def order_by_sender(senders: IntArray) -> IntArray:
    """Return the positions of a canonical edge list sorted by (sender, receiver)."""
    return stable_order(senders, int(senders.max(initial=0)) + 1)


def reverse_positions(senders: IntArray, receivers: IntArray, agents: int) -> npt.NDArray[np.int64]:
    """Return, for each edge of a canonical list, where its reverse stands; -1 where there is none."""
    keys = edge_keys(senders, receivers, agents)
    position = np.full(len(keys), -1, dtype=np.int64)
    if len(keys) == 0:
        return position
    # Looked up in sorted order: ten times faster than random look-ups on ten million edges.
    order = order_by_sender(senders)
    wanted = edge_keys(receivers[order], senders[order], agents)
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    position[order] = np.where(keys[found] == wanted, found, -1)
    return position


def one_sided(senders: IntArray, receivers: IntArray, agents: int) -> tuple[int, int] | None:
    """Return the first edge (sender, receiver) of a canonical list that has no reverse, or None."""
    missing = reverse_positions(senders, receivers, agents) < 0
    if not np.any(missing):
        return None
    edge = int(np.argmax(missing))
    return int(senders[edge]), int(receivers[edge])


def refuse_large(agents: int, links: float, what: str = "a graph") -> None:
    """Raise where a graph of so many agents and links would take too much memory, or ids not fit in 32 bits."""
    if agents > np.iinfo(np.int32).max:
        raise GraphError(
            f"{what} of {agents:,} agents: ids are 32-bit, so at most {np.iinfo(np.int32).max:,} are possible"
        )
    asked = f"{what} of {agents:,} agents and about {links:,.0f} links"
    limits.refuse_beyond(agents * AGENT_BYTES + links * LINK_BYTES, asked, GraphError)


def complete_edges(agents: int) -> tuple[IntArray, IntArray]:
    """Return (senders, receivers) of the complete graph, in canonical order."""
    if agents > LARGEST_COMPLETE:
        raise GraphError(
            f"a complete graph of {agents} agents has {agents * (agents - 1):,} edges: at most {LARGEST_COMPLETE:,} "
            "agents are allowed; use a sparse graph, exponential(n) for one"
        )
    ids = np.arange(agents, dtype=np.int32)
    receivers = np.repeat(ids, agents - 1)
    senders = np.tile(ids[:-1], agents)
    senders += senders >= receivers  # skips the receiver itself
    return senders, receivers


def sorted_edges(
    agents: int, senders: npt.ArrayLike, receivers: npt.ArrayLike, sources: int | None, *, ordered: bool
) -> tuple[IntArray, IntArray, npt.NDArray[np.int64] | None]:
    """Return a checked edge list in canonical order, and with `ordered` the place of each edge in the list given."""
    columns = sources or agents
    send, receive = _ids(senders, "senders"), _ids(receivers, "receivers")
    if len(send) != len(receive):
        raise GraphError(f"{len(send)} senders but {len(receive)} receivers: expected one of each per edge")
    _refuse(send, receive, (send < 0) | (send >= columns), f"the sender is not in 0..{columns - 1}")
    _refuse(send, receive, (receive < 0) | (receive >= agents), f"the receiver is not in 0..{agents - 1}")
    if sources is None:
        _refuse(send, receive, send == receive, "it is a self loop: drop it, and give self_weight if need be")
    keys = edge_keys(send, receive, columns)
    order = np.argsort(keys, kind="stable") if ordered else None
    keys = np.sort(keys) if order is None else keys[order]
    send, receive = split_keys(keys, columns)
    _refuse(send[1:], receive[1:], keys[1:] == keys[:-1], "it is listed twice: list each edge once")
    return send, receive, order


def _ids(values: npt.ArrayLike, what: str) -> IntArray:
    array = np.asarray(values)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise GraphError(f"{what} have shape {array.shape} and type {array.dtype}: expected (E,) of integers")
    return array.astype(np.int64)


def _refuse(senders: IntArray, receivers: IntArray, fault: BoolArray, why: str) -> None:
    if fault.any():
        edge = int(np.argmax(fault))
        raise GraphError(f"edge {senders[edge]} -> {receivers[edge]}: {why}")


def matrix_weights(
    matrix: Any, senders: IntArray, receivers: IntArray, shape: tuple[int, int], two_roles: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the weights (E,) and self weights of a matrix W whose entries off the diagonal are all of these edges."""
    keys, values, own = matrix_entries(matrix, two_roles)
    if np.shape(matrix) != shape:
        raise GraphError(f"W has shape {np.shape(matrix)}: expected {shape} (row = receiver)")
    known = edge_keys(senders, receivers, shape[1])
    place = np.searchsorted(known, keys)
    strange = (place >= len(known)) | (np.append(known, -1)[np.minimum(place, len(known))] != keys)
    if strange.any():
        receiver, sender = divmod(int(keys[np.argmax(strange)]), shape[1])
        raise GraphError(
            f"W[{receiver}, {sender}] is not 0 but the graph has no edge {sender} -> {receiver}: add the edge, or "
            "build the graph from W with from_matrix"
        )
    weight = np.zeros(len(senders))
    weight[place] = values
    return weight, own


def matrix_entries(matrix: Any, two_roles: bool) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    """Return (edge numbers, their weights, self weights) of a matrix W with rows = receivers."""
    from scipy import sparse

    if not sparse.issparse(matrix):
        dense = np.asarray(matrix, dtype=np.float64)
        if dense.ndim != 2 or max(dense.shape) > LARGEST_DENSE:
            raise GraphError(
                f"W has shape {dense.shape}: expected a scipy.sparse matrix, or two axes of at most {LARGEST_DENSE}"
            )
        matrix = dense
    entries = sparse.csr_array(matrix)
    entries.sum_duplicates()
    entries.eliminate_zeros()
    entries = entries.tocoo()
    rows, columns = entries.coords[0].astype(np.int64), entries.coords[1].astype(np.int64)
    own = np.zeros(entries.shape[0])
    off = np.ones(len(rows), dtype=bool)
    if not two_roles:
        off = rows != columns
        own[rows[~off]] = entries.data[~off]
    return rows[off] * entries.shape[1] + columns[off], entries.data[off], own
