"""Design of the OPS paper's experiments: methods, settings, seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit import algorithms, objectives
from tacit.core.contract import Algorithm
from tacit.core.errors import DataError
from tacit.streams.dataset import with_bias
from tacit_reproduction.datasets.occupancy import occupancy
from tacit_reproduction.datasets.susy import susy

OBJECTIVE = objectives.logistic(l2=1e-4)
FRACTIONS = (1.0, 0.5)
"""Shares of the samples that are dealt out at random; the rest goes by clusters, one per node."""

METHODS: Mapping[str, Callable[..., Algorithm]] = {
    "COL": algorithms.centralised_online,
    "OPS": algorithms.online_push_sum,
    "DOL-Symm": partial(algorithms.decentralised_symmetric, apart=True),
    "DOL-Asymm": algorithms.decentralised_asymmetric,
    "Local OGD": algorithms.local_online,
}

COMPARISON, SIZES, DENSITIES, LOCAL = "comparison", "sizes", "densities", "local"
"""Our figures."""
ON_SUSY = {
    COMPARISON: "figure 2 (a) and (b)",
    SIZES: "figure 3 (a) and (b)",
    DENSITIES: "figure 3 (c) and (d)",
    LOCAL: "figure 6",
}
ON_OCCUPANCY = {
    COMPARISON: "figure 2 (c) and (d)",
    SIZES: "figure 4",
    DENSITIES: "figure 5",
    LOCAL: "figure 6 (which is of SUSY)",
}
"""Our figure -> the text's."""


class Samples(NamedTuple):
    """The data, ready to be dealt out."""

    name: str
    description: str
    """Says where it is a subset only."""
    complete: bool
    x: NDArray[np.float32]
    """(rows, columns), standardised, the last column 1."""
    y: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """Number of samples."""
        return len(self.x)


def load(name: str) -> Samples:
    """Load one of the texts' data sets; where it cannot be had the error says where it was looked for."""
    loaders = {"occupancy": occupancy, "susy": susy}
    if name not in loaders:
        raise DataError(f"there is no data set {name!r} for this experiment; expected one of {', '.join(loaders)}")
    data = loaders[name]().standardised()
    return Samples(name, data.description, data.complete, with_bias(data.x), data.y)


class Setting(NamedTuple):
    """A network and how the samples are dealt out over it."""

    nodes: int
    neighbours: int
    """Upper bound of the out-degree, which is uniform from 1 on."""
    fraction: float


class Cell(NamedTuple):
    """One method in one setting: what is tuned and then run over all seeds."""

    method: str
    setting: Setting


def cell_of(method: str, setting: Setting) -> Cell:
    """Return the cell of a method. COL hears every node whatever the bound: its cells of one size are one."""
    return Cell(method, setting._replace(neighbours=setting.nodes - 1) if method == "COL" else setting)


@dataclass(frozen=True)
class Design:
    """The extent of one experiment."""

    nodes: int
    neighbours: int
    sizes: tuple[int, ...]
    size_neighbours: int
    density_nodes: int
    densities: tuple[int, ...]
    """Upper bounds of the out-degree."""
    seeds: int
    """Evaluation seeds: each has its own graph, partition and order of samples."""
    tuning_seeds: int
    """Others, on which the steps are chosen."""
    step_ratio: float
    """Of neighbouring steps on the grid."""
    shared_steps: bool
    """Whether a step that was chosen at the first fraction serves at the others too, which saves time."""
    starts: Mapping[str, float]
    """Start of the search for a method's step; decides its length, not its result."""
    in_text: Mapping[str, str]
    """Our figure -> the text's."""

    def main(self, fraction: float) -> Setting:
        """Return the setting in which all methods are compared."""
        return Setting(self.nodes, self.neighbours, fraction)

    def by_size(self, fraction: float) -> list[Setting]:
        """Return the settings of the sweep over the number of nodes."""
        return [Setting(nodes, self.size_neighbours, fraction) for nodes in self.sizes]

    def by_density(self, fraction: float) -> list[Setting]:
        """Return the settings of the sweep over the number of neighbours."""
        return [Setting(self.density_nodes, neighbours, fraction) for neighbours in self.densities]

    def cells(self) -> list[Cell]:
        """Return every cell to be run, each once."""
        cells: dict[Cell, None] = {}
        for fraction in FRACTIONS:
            cells |= dict.fromkeys(cell_of(method, self.main(fraction)) for method in METHODS)
            swept = [*self.by_size(fraction), *self.by_density(fraction)]
            cells |= dict.fromkeys(cell_of("OPS", setting) for setting in swept)
        return list(cells)

    def controls(self, fraction: float) -> list[Cell]:
        """Return COL at the ends of the sweep over sizes.

        It mixes at once whatever the size, so it tells what more nodes are worth apart from how well a graph
        of that size mixes.
        """
        sizes = self.by_size(fraction)
        return [cell_of("COL", sizes[0]), cell_of("COL", sizes[-1])]

    def tuned_as(self, cell: Cell) -> Cell:
        """Return the cell whose step this one uses."""
        fraction = FRACTIONS[0] if self.shared_steps else cell.setting.fraction
        return Cell(cell.method, cell.setting._replace(fraction=fraction))
