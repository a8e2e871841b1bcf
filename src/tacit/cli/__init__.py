"""The command `tacit`.

What a command needs is imported inside it, so that help comes at once. A TacitError is one message on stderr
and exit code 2; Ctrl-C leaves a valid directory behind and is exit code 130.
"""

from __future__ import annotations

import inspect
import json
import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from tacit.cli import ledger, peer, privacy, swarm
from tacit.cli.audit import audit
from tacit.cli.common import INTERRUPTED, print_table, reported
from tacit.errors import ConfigError, TacitError

if TYPE_CHECKING:
    from tacit.algorithms import Entry
    from tacit.experiments.execute import Outcome
    from tacit.graphs import Graph
    from tacit.results import Comparison

app = typer.Typer(
    name="tacit",
    help="Peers learn together without telling: private decentralised online learning.",
    epilog="Example: tacit demo --out runs/demo",
    add_completion=False,
    pretty_exceptions_enable=False,
)
graph_app = typer.Typer(help="Look at graphs before running on them.")
app.add_typer(graph_app, name="graph")
app.add_typer(privacy.app, name="privacy")
app.add_typer(ledger.app, name="ledger")
app.add_typer(peer.app, name="peer")
app.add_typer(swarm.app, name="swarm")
app.command(epilog="Example: tacit audit online_push_sum --mechanism laplace --epsilon 1")(audit)

Out = Annotated[Path | None, typer.Option(help="Directory to write; made if it is not there.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of the first repeat.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code."""
    app(args=None if arguments is None else list(arguments), prog_name="tacit")
    raise SystemExit(0)  # not reached: the line above leaves


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        from tacit import __version__

        typer.echo(f"tacit {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog="Example: tacit demo --out runs/demo")
@reported
def demo(
    out: Out = Path("runs/demo"),
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds, instead of 1,000.")] = None,
    seed: Seed = None,
    tune: Annotated[bool, typer.Option("--tune", help="Find the step sizes anew first (a minute more).")] = False,
) -> None:
    """Compare online push-sum with its baselines on made-up data: a table and a report, in half a minute."""
    from tacit.experiments.demo import STEPS
    from tacit.experiments.demo import demo as experiment
    from tacit.experiments.demo import tune as tuned

    steps = tuned(rounds=rounds, tried=_print_trial) if tune else STEPS
    _leave(_execute(experiment(steps, rounds, seed), out or Path("runs/demo")))


@app.command(epilog="Example: tacit run examples/synthetic.toml --out runs/synthetic --rounds 500")
@reported
def run(
    file: Annotated[Path, typer.Argument(help="An experiment, see examples/.", show_default=False)],
    out: Out = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds, instead of the file's.")] = None,
    seed: Seed = None,
) -> None:
    """Run an experiment from a TOML file and write its directory (by default runs/NAME-OF-THE-FILE)."""
    from tacit.experiments import load

    _leave(_execute(load(file, rounds=rounds, seed=seed), out or Path("runs") / file.stem))


@app.command(epilog="Example: tacit algorithms --json")
@reported
def algorithms(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the algorithms: where each comes from, what it requires and which parameters it has."""
    from tacit.algorithms import REGISTRY

    facts = [_facts(entry) for entry in REGISTRY.values()]
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    rows = [
        (
            fact["name"],
            f"{fact['summary']} ({fact['source']})",
            ", ".join(fact["requires"]) or "nothing",
            ", ".join(p["name"] if "kinds" in p else f"{p['name']}={p['default']}" for p in fact["parameters"]),
        )
        for fact in facts
    ]
    print_table(("name", "what it does (source)", "requires", "parameters"), rows)
    kinds = {p["name"]: ", ".join(p["kinds"]) for fact in facts for p in fact["parameters"] if "kinds" in p}
    typer.echo(
        f"mechanism: the noise ({kinds['mechanism']}), set in a table [algorithm.mechanism]; without one a run "
        "is not private. `tacit privacy explain NAME` says what holds with it."
    )
    typer.echo(
        f"mirror: the geometry ({kinds['mirror']}), in [algorithm.mirror]. constraints: what is kept in the long run "
        f"({kinds['constraints']}), in [[algorithm.constraints]]."
    )


@graph_app.command("check", epilog="Example: tacit graph check --kind random_digraph --agents 20 --out-degree 5")
@reported
def graph_check(
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
    typer.echo(describe(graph if graph.weights is not None else graph.with_weights("sender")))
    if graph.weights is None:
        typer.echo("note: no weights chosen; W is shown by the rule 'sender', and each algorithm will use its own rule")
    typer.echo()
    rows = [(entry.name, *_fitness(entry, graph)) for entry in REGISTRY.values()]
    print_table(("algorithm", "may run", "why not, and what to do"), rows)


@app.command(epilog="Example: tacit reproduce ops-occupancy --quick --out runs/ops-occupancy")
@reported
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which experiment.", show_default=False)] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and repeats: a smoke test.")] = False,
    out: Out = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first repeat.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if a claim does not hold.")] = False,
) -> None:
    """Run an experiment of the texts and say which of its claims hold; one that does not is a result, not an error."""
    from tacit.experiments.papers import EXPERIMENTS

    if listed or name is None:
        rows = [(e.name, e.title, e.source) for e in EXPERIMENTS.values()]
        print_table(("name", "what it shows", "source"), rows)
        return
    if name not in EXPERIMENTS:
        raise ConfigError(f"there is no experiment {name!r}; expected one of: {', '.join(EXPERIMENTS)}")
    directory = out or Path("runs") / name
    summary = EXPERIMENTS[name].run(quick, directory, seed)
    claims = summary["claims"]
    rows = [(str(c["claim"]), "holds" if c["holds"] else "DOES NOT HOLD", str(c["figure"])) for c in claims]
    print_table(("claim", "verdict", "figures"), rows)
    typer.echo(f"written to {directory}")
    if strict and not all(claim["holds"] for claim in claims):
        raise typer.Exit(1)


@app.command(epilog="Example: tacit compare runs/a runs/b --out runs/a-and-b")
@reported
def compare(
    directories: Annotated[list[Path], typer.Argument(help="Directories of runs.", show_default=False)],
    out: Out = None,
) -> None:
    """Put runs that were made earlier side by side; with --out also write a common report."""
    from tacit.results import Comparison

    comparison = Comparison.load(directories, "Comparison of " + ", ".join(d.name for d in directories))
    _print_comparison(comparison)
    if out is not None:
        comparison.save(out, command=_command())
        typer.echo(f"report: {out / 'report.html'}")


def _execute(config: Any, out: Path) -> Outcome:
    from tacit.experiments import build
    from tacit.experiments.execute import execute

    problem = build(config)
    settings = config.run
    agents = problem.stream(settings.seed).agents
    typer.echo(
        f"{settings.name}: {len(config.algorithms)} algorithm(s), {agents:,} agents, "
        f"{settings.rounds:,} rounds, {settings.repeats} repeat(s), seed {settings.seed}"
    )
    outcome = execute(problem, out, command=_command(), finished=_print_finished)
    typer.echo("")
    _print_comparison(outcome.comparison)
    typer.echo(f"report: {out / 'report.html'}")
    return outcome


def _leave(outcome: Outcome) -> None:
    if outcome.interrupted:
        typer.echo("interrupted: the figures are those of the rounds that were finished", err=True)
        raise typer.Exit(INTERRUPTED)


def _print_finished(run: Any) -> None:
    seconds = run.seconds + run.compile_seconds
    typer.echo(f"  {run.label}: {run.rounds:,} rounds in {seconds:.1f} s{' (interrupted)' if run.partial else ''}")


def _print_trial(name: str, step: float, loss: float) -> None:
    typer.echo(f"  tuning {name}: step {step:g} gives average loss {loss:.4f}")


def _print_comparison(comparison: Comparison) -> None:
    for difference in comparison.differences():
        typer.echo(f"note: these runs are not of one problem: {difference}", err=True)
    print_table([textwrap.fill(title, 16) for title in comparison.columns()], comparison.rows())


def _command() -> str:
    return shlex.join(["tacit", *sys.argv[1:]])


def _facts(entry: Entry) -> dict[str, Any]:
    from tacit.experiments.sections import parameters, table_kinds
    from tacit.objectives import logistic

    kinds = table_kinds(entry.constructor)
    return {
        "name": entry.name,
        "summary": entry.summary,
        "source": entry.source,
        "requires": sorted(entry.example(logistic()).requires),
        "parameters": [_parameter(key, p, kinds.get(key)) for key, p in parameters(entry.constructor).items()],
    }


def _parameter(key: str, parameter: inspect.Parameter, kinds: list[str] | None) -> dict[str, Any]:
    """Describe a parameter so that JSON can hold it: what has a table by its kinds, a schedule by its name."""
    default = None if parameter.default is parameter.empty else parameter.default
    if kinds is not None:
        name = None if default is None else getattr(default, "name", str(default))
        return {"name": key, "default": name, "kinds": kinds}
    # A schedule is called by the function that made it.
    return {"name": key, "default": default.__qualname__.partition(".")[0] if callable(default) else default}


def _fitness(entry: Entry, graph: Graph) -> tuple[str, str]:
    from tacit.objectives import logistic
    from tacit.runtime import prepared_topology

    try:
        prepared_topology(entry.example(logistic()), graph)
    except TacitError as error:
        return "no", str(error)
    return "yes", ""


def _chosen_graph(
    file: Path | None, edges: Path | None, kind: str | None, parameters: dict[str, Any], seed: int
) -> Graph:
    from tacit.experiments.build import graph_maker
    from tacit.experiments.config import choose_graph, load_graph
    from tacit.experiments.sections import Place
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
