"""Graphs far larger than any memory, and links that would be lost: refused before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from tacit import graphs
from tacit.core.errors import GraphError
from tests.hostile.refusals import refusal

MANY = 10**9


@pytest.mark.parametrize(
    "text", ["0 1000000000\n", "0 1000000000 1\n", f"0 {10**30}\n", f"0 {'9' * 5000}\n", "0,99999999999\n"]
)
def test_an_edge_list_of_a_few_bytes_for_a_billion_agents(tmp_path: Path, text: str) -> None:
    path = tmp_path / "edges.txt"
    path.write_text(text)
    assert "edges.txt" in refusal(graphs.from_edge_list, path)


def test_the_refusal_says_what_was_asked_for_and_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("0 1000000000\n")
    assert path.stat().st_size == 13
    words = refusal(graphs.from_edge_list, path)
    assert "1,000,000,001 agents" in words
    assert "line 1" in words
    assert "4.0 GiB" in words


def test_an_edge_list_of_many_agents_that_are_said(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n")
    assert "GiB" in refusal(graphs.from_edge_list, path, agents=MANY)


def test_an_edge_list_without_end(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    with path.open("wb") as file:
        file.write(b"0 1\n")
        file.truncate(50 * 2**30)
    assert "edges.txt" in refusal(graphs.from_edge_list, path)


GENERATORS: dict[str, tuple[Any, ...]] = {
    "ring": (MANY,),
    "directed_ring": (MANY,),
    "complete": (MANY,),
    "star": (MANY,),
    "exponential": (MANY,),
    "one_peer_exponential": (MANY,),
    "random_digraph": (MANY, 5, 0),
    "erdos_renyi": (MANY, 0.5, 0),
    "geometric": (MANY, 0.1, 0),
    "small_world": (MANY, 4, 0.1, 0),
    "k_regular": (MANY, 4),
    "star_roles": (MANY,),
}
DENSE: dict[str, tuple[Any, ...]] = {
    "random_digraph": (10**5, 10**5 - 1, 0),
    "erdos_renyi": (10**6, 0.9, 0),
    "geometric": (10**6, 2.0, 0),
    "small_world": (10**6, 10**5, 0.1, 0),
    "k_regular": (10**6, 10**5),
}


@pytest.mark.parametrize("size", [MANY, 10**12, 10**30])
@pytest.mark.parametrize("name", GENERATORS)
def test_a_billion_agents(name: str, size: int) -> None:
    words = refusal(getattr(graphs, name), size, *GENERATORS[name][1:])
    assert any(limit in words for limit in ("GiB", "32-bit", "20,000"))


@pytest.mark.parametrize("name", DENSE)
def test_more_links_than_memory(name: str) -> None:
    assert "GiB" in refusal(getattr(graphs, name), *DENSE[name])


def test_clients_of_many_servers() -> None:
    assert "GiB" in refusal(graphs.federation, graphs.ring(10), 10**8)


def test_repeats_of_a_graph_are_counted_together() -> None:
    graph = graphs.ring(1000)
    assert "GiB" in refusal(graphs.Graph.union, [graph] * 300_000)


@pytest.mark.parametrize("kind", [networkx.MultiGraph, networkx.MultiDiGraph])
def test_weights_of_parallel_links_are_not_overwritten(kind: Any) -> None:
    given = kind()
    given.add_edge("a", "b", weight=0.25)
    given.add_edge("a", "b", weight=0.5)
    words = refusal(graphs.from_networkx, given, weight="weight")
    assert "'a'" in words
    assert "0.25" in words
    assert "0.5" in words
    assert graphs.from_networkx(given).edges == (1 if given.is_directed() else 2)  # one link, whose weight nobody reads


def test_one_weight_per_link_of_a_multigraph_is_taken() -> None:
    given = networkx.MultiDiGraph()
    given.add_weighted_edges_from([(0, 1, 0.5), (1, 0, 0.5)])
    np.testing.assert_array_equal(graphs.from_networkx(given, weight="weight").matrix().toarray(), [[0, 0.5], [0.5, 0]])


@pytest.mark.parametrize("weight", ["much", [1], float("nan"), float("inf"), 10**400, -1.0])
def test_weights_that_are_no_numbers(weight: Any) -> None:
    given = networkx.DiGraph()
    given.add_edge("a", "b", weight=weight)
    with pytest.raises(GraphError, match="'a'"):
        graphs.from_networkx(given, weight="weight")


def test_numbers_of_clusters_are_no_sizes() -> None:
    assert "10000000000" in refusal(graphs.ring(3).with_clusters, [0, 1, 10**10])
