"""`tacit graph`: look at a graph before anything runs on it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import print_table, reported, say
from tacit.core.errors import ConfigError, TacitError, TacitWarning

if TYPE_CHECKING:
    from tacit.algorithms import Entry
    from tacit.graphs import Graph

app = typer.Typer(help="Look at graphs before running on them.")


@app.callback()
def _graph() -> None:
    """Look at graphs before running on them."""


@app.command("check", epilog="Example: tacit graph check --kind random_digraph --agents 20 --out-degree 5")
@reported
def check(
    file: Annotated[Path | None, typer.Argument(help="A TOML file with a table \\[graph].", show_default=False)] = None,
    edges: Annotated[
        Path | None, typer.Option(help="A text file with a line 'sender receiver \\[weight]' per link.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="A generator, with its parameters below.")] = None,
    agents: Annotated[int | None, typer.Option(help="Number of agents.")] = None,
    out_degree: Annotated[int | None, typer.Option(help="Of random_digraph: the largest one.")] = None,
    exact: Annotated[bool | None, typer.Option("--exact", help="Of random_digraph: all the same.")] = None,
    p: Annotated[float | None, typer.Option("--p", help="Of erdos_renyi: probability of a link.")] = None,
    directed: Annotated[bool | None, typer.Option("--directed", help="Of erdos_renyi.")] = None,
    radius: Annotated[float | None, typer.Option(help="Of geometric.")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Of small_world and k_regular: neighbours.")] = None,
    rewire: Annotated[float | None, typer.Option(help="Of small_world: share of links.")] = None,
    weights: Annotated[
        str | None, typer.Option(help="Weight rule: sender, receiver or metropolis. Default: each algorithm's own.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a random graph.")] = 0,
) -> None:
    """Print the figures of a graph, and which algorithms may run on it; for the others why not."""
    from tacit.algorithms import REGISTRY
    from tacit.graphs import describe

    given = {
        "agents": agents,
        "out_degree": out_degree,
        "exact": exact,
        "p": p,
        "directed": directed,
        "radius": radius,
        "k": k,
        "rewire": rewire,
    }
    parameters = {name: value for name, value in given.items() if value is not None}
    graph = _chosen_graph(file, edges, kind, parameters, seed)
    if weights is not None:
        graph = graph.with_weights(weights)
    say(describe(graph if graph.weights is not None else graph.with_weights("sender")))
    if graph.weights is None:
        say("note: no weights chosen; W is shown by the rule 'sender', and each algorithm will use its own rule")
    say()
    rows = [(entry.name, *_fitness(entry, graph)) for entry in REGISTRY.values()]
    print_table(("algorithm", "may run", "why not, or what to know"), rows)


def _fitness(entry: Entry, graph: Graph) -> tuple[str, str]:
    from tacit.objectives import logistic
    from tacit.runtime import prepared_topology

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", TacitWarning)
        try:
            prepared_topology(entry.example(logistic()), graph)
        except TacitError as error:
            return "no", str(error)
    return "yes", "; ".join(str(warning.message) for warning in told)


def _chosen_graph(
    file: Path | None, edges: Path | None, kind: str | None, parameters: dict[str, Any], seed: int
) -> Graph:
    from tacit.config.experiment import choose_graph, load_graph
    from tacit.config.sections import Place
    from tacit.experiments.build import graph_maker
    from tacit.graphs import from_edge_list

    if (file is not None) + (edges is not None) + (kind is not None) != 1:
        raise ConfigError("graph check takes one of: FILE.toml, --edges FILE, --kind NAME with its parameters")
    if kind is not None:
        place = Place("graph check", "options")
        return graph_maker(choose_graph({"kind": kind, **parameters}, place), None)(seed)
    if edges is not None:
        agents = parameters.pop("agents", None)
    if parameters:
        raise ConfigError(f"graph check: {', '.join(parameters)} go with --kind; remove them, or name a kind")
    return from_edge_list(edges, agents=agents) if edges is not None else graph_maker(*load_graph(str(file)))(seed)
