"""A report on a graph, as `tacit graph check` prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tacit.core.errors import GraphError
from tacit.graphs import checks
from tacit.graphs.edges import IntArray
from tacit.graphs.graph import Graph
from tacit.graphs.windows import Window, connection_window

LARGEST_SPECTRAL = 20_000
"""Agents above which eigenvalues are not computed."""
LARGEST_SAMPLED = 200_000
"""Edges above which rounds of a time-varying graph are not sampled."""


class Degrees(NamedTuple):
    """Least, mean and greatest number of links per agent."""

    least: int
    mean: float
    greatest: int

    @classmethod
    def of(cls, degree: IntArray) -> Degrees:
        """Summarise degrees."""
        return cls(int(degree.min()), float(degree.mean()), int(degree.max()))

    def __str__(self) -> str:
        return f"{self.least} / {self.mean:.3g} / {self.greatest}"


@dataclass(frozen=True)
class GraphReport:
    """Figures of a graph; None where a figure does not apply or was left out (see `notes`). Make it with `describe`."""

    name: str
    """Name of the graph."""
    agents: int
    """Number of receivers."""
    edges: int
    """Number of links, selves not counted."""
    in_degree: Degrees
    """Least, mean and greatest number of neighbours that are heard."""
    out_degree: Degrees
    """The same of neighbours that are sent to."""
    one_sided_share: float
    """Share of the edges without a reverse."""
    weights: str | None
    """Name of the weights' rule."""
    dynamics: str | None
    """How links come and go, in words."""
    strongly_connected: bool
    """Whether there is a path between any two agents."""
    symmetric: bool
    """Whether every link has a reverse."""
    sender_normalised: bool | None
    """Whether columns of W sum to 1."""
    receiver_normalised: bool | None
    """Whether rows of W sum to 1."""
    window: Window | None
    """Over how many rounds it is connected."""
    spectral_gap: float | None
    """1 - the second largest eigenvalue of W in size: how fast it mixes."""
    perron_ratio: float | None
    """Greatest over least entry of the left Perron vector: 1 where mixing agrees on the plain mean."""
    notes: tuple[str, ...]

    @property
    def doubly_stochastic(self) -> bool | None:
        """Whether W is normalised on both sides in every round."""
        if self.sender_normalised is None or self.receiver_normalised is None:
            return None
        return self.sender_normalised and self.receiver_normalised

    def __str__(self) -> str:
        """Return the report as lines of text."""
        rows = {
            "graph": self.name,
            "agents, edges": f"{self.agents:,}, {self.edges:,}",
            "in-degree (least / mean / greatest)": self.in_degree,
            "out-degree (least / mean / greatest)": self.out_degree,
            "one-sided edges": f"{self.one_sided_share:.1%}",
            "strongly connected": _word(self.strongly_connected),
            "symmetric": _word(self.symmetric),
            "weights": self.weights or "not chosen",
            "sender-normalised": _word(self.sender_normalised),
            "receiver-normalised": _word(self.receiver_normalised),
            "doubly stochastic": _word(self.doubly_stochastic),
            "dynamics": self.dynamics or "fixed",
            "connected": "-" if self.window is None else self.window.statement,
            "spectral gap": "-" if self.spectral_gap is None else f"{self.spectral_gap:.4g}",
            "Perron ratio": "-" if self.perron_ratio is None else f"{self.perron_ratio:.4g}",
        }
        lines = [f"{label:<38}{value}" for label, value in rows.items()]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def describe(graph: Graph) -> GraphReport:
    """Report on a graph of one role, as `tacit graph check` prints it.

    Costly figures are left out of large graphs, with a note.

    Args:
      graph: The graph; figures of W need weights.

    Example:
      >>> import tacit
      >>> report = tacit.graphs.describe(tacit.graphs.ring(5).with_weights("metropolis"))
      >>> report.strongly_connected, report.doubly_stochastic, round(report.spectral_gap, 3)
      (True, True, 0.461)
    """
    notes: list[str] = []
    connected = checks.is_strongly_connected(graph)
    weighted = graph.weights is not None
    if not weighted:
        notes.append("no weights chosen: figures of W are left out; the algorithm's rule will be used")
    gap, ratio = _spectrum(graph, connected, notes) if weighted else (None, None)
    return GraphReport(
        name=graph.name,
        agents=graph.agents,
        edges=graph.edges,
        in_degree=Degrees.of(graph.in_degree),
        out_degree=Degrees.of(graph.out_degree),
        one_sided_share=checks.one_sided_share(graph),
        weights=None if graph.weights is None else graph.weights.rule,
        dynamics=None if graph.dynamics is None else type(graph.dynamics).__name__,
        strongly_connected=connected,
        symmetric=checks.is_symmetric(graph),
        sender_normalised=checks.sender_normalised(graph) if weighted else None,
        receiver_normalised=checks.receiver_normalised(graph) if weighted else None,
        window=_window(graph, notes),
        spectral_gap=gap,
        perron_ratio=ratio,
        notes=tuple(notes),
    )


def _window(graph: Graph, notes: list[str]) -> Window | None:
    if graph.dynamics is not None and graph.edges > LARGEST_SAMPLED:
        notes.append(f"rounds are not sampled above {LARGEST_SAMPLED:,} edges: window of connection left out")
        return None
    return connection_window(graph)


def _spectrum(graph: Graph, connected: bool, notes: list[str]) -> tuple[float | None, float | None]:
    if graph.dynamics is not None:
        notes.append("W changes from round to round: spectral gap and Perron ratio left out")
        return None, None
    if graph.agents > LARGEST_SPECTRAL:
        notes.append(f"above {LARGEST_SPECTRAL:,} agents: spectral gap and Perron ratio left out")
        return None, None
    gap = ratio = None
    try:
        gap = checks.spectral_gap(graph)
        if connected:
            left = checks.perron(graph, tolerance=1e-10).left
            ratio = float(left.max() / left.min())
    except GraphError as error:
        notes.append(str(error))
    return gap, ratio


def _word(answer: bool | None) -> str:
    return "-" if answer is None else "yes" if answer else "no"
