"""The command `tacit`.

Libraries are imported inside the commands, so that help comes at once. A TacitError is one message on stderr
and exit code 2; Ctrl-C leaves a valid directory behind and is exit code 130.
"""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from tacit.cli import graph, ledger, model, new, peer, privacy, swarm
from tacit.cli.added import add_extensions
from tacit.cli.algorithms import algorithms
from tacit.cli.audit import audit
from tacit.cli.board import board, watching
from tacit.cli.common import INTERRUPTED, check_directory, counted, explained, print_table, reported, say, watchers
from tacit.cli.sweep import sweep
from tacit.core.errors import TacitError

if TYPE_CHECKING:
    from tacit.experiments.build import Problem
    from tacit.experiments.execute import Outcome
    from tacit.interop.trackers import Tracker
    from tacit.results import Comparison

app = typer.Typer(
    name="tacit",
    help="Peers learn together without telling: private decentralised online learning.",
    epilog="Example: tacit demo --out runs/demo",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(new.app, name="new")
app.add_typer(model.app, name="model")
app.add_typer(graph.app, name="graph")
app.add_typer(privacy.app, name="privacy")
app.add_typer(ledger.app, name="ledger")
app.add_typer(peer.app, name="peer")
app.add_typer(swarm.app, name="swarm")

SMALL, LIGHT = 4096, 2**18
"""Agents in all repeats, and parameters times records of a batch, up to which JAX is started with one thread, unless
the user says otherwise: their rounds are faster so (`benchmarks.agent_loops`), and the process of a command runs
nothing else."""

Out = Annotated[Path | None, typer.Option(help="Directory to write; made if it is not there.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of the first repeat.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code."""
    command = typer.main.get_command(app)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            code = command.main(
                None if arguments is None else list(arguments), prog_name="tacit", standalone_mode=False
            )
        except typer.TyperException as error:
            say(f"error: {explained(error)}", err=True)
            code = 2
    raise SystemExit(code or 0)


def _show_warning(message: Warning | str, *about: Any, **further: Any) -> None:
    from tacit.config.wording import in_toml

    say(f"warning: {in_toml(str(message))}", err=True)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    own_code: Annotated[
        list[Path] | None, typer.Option("--with", help="A Python file that registers algorithms of your own.")
    ] = None,
) -> None:
    if own_code:
        from tacit.config.own_code import import_file

        for file in own_code:
            reported(import_file)(file)
    if version:
        from tacit import __version__

        say(f"tacit {__version__}")
    elif context.invoked_subcommand is None:
        say(context.get_help())


@app.command(epilog="Example: mkdir first && cd first && tacit init")
@reported
def init() -> None:
    """Begin: an experiment on this folder's one table, or on a made-up one, is written and run; nothing is asked."""
    file = new.begin()
    say(f"running: tacit run {file}")
    _run_file(file)


@app.command(epilog="Example: tacit demo --out runs/demo")
@reported
def demo(
    out: Annotated[Path | None, typer.Option(help="Directory to write; by default runs/demo.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds, instead of 1,000.")] = None,
    seed: Seed = None,
    tune: Annotated[bool, typer.Option("--tune", help="Find the step sizes anew first (a minute more).")] = False,
) -> None:
    """Compare online push-sum with its baselines on made-up data: a table and a report, in about a minute."""
    from tacit.experiments.demo import STEPS
    from tacit.experiments.demo import demo as experiment
    from tacit.experiments.demo import tune as tuned

    def tried(name: str, step: float, loss: float) -> None:
        say(f"  tuning {name}: step {step:g} gives average loss {loss:.4f}")

    steps = tuned(rounds=rounds, tried=tried) if tune else STEPS
    _leave(_execute(experiment(steps, rounds, seed), out, Path("runs/demo")))


@app.command(epilog="Example: tacit run examples/synthetic.toml --out runs/synthetic --rounds 500")
@reported
def run(
    file: Annotated[Path, typer.Argument(help="An experiment, see examples/.", show_default=False)],
    out: Out = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds, instead of the file's.")] = None,
    seed: Seed = None,
    log: Annotated[
        list[str] | None, typer.Option(help="tensorboard=DIRECTORY or mlflow=TRACKING-URI: write curves there too.")
    ] = None,
    coordinator: Annotated[
        str | None, typer.Option(help="HOST:PORT of process 0, where several run the experiment together.")
    ] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Number of these processes.")] = None,
    process: Annotated[int | None, typer.Option(min=0, help="Which of them this one is; 0 writes the results.")] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Find the other processes by SLURM, Open MPI or Kubernetes.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it in a browser while it learns: `tacit board`.")
    ] = False,
) -> None:
    """Run an experiment from a TOML file and write its directory (by default runs/NAME-OF-THE-FILE)."""
    if cluster or (coordinator, processes, process) != (None, None, None):
        from tacit.simulator.shards.hosts import join

        if not join(coordinator, processes, process):
            _follow(file, rounds, seed)
    with watching(out or Path("runs") / file.stem, watch):
        _run_file(file, out, rounds, seed, [_tracker(asked) for asked in log or ()])


@app.command(epilog="Example: tacit compare runs/a runs/b --out runs/a-and-b")
@reported
def compare(
    directories: Annotated[list[Path], typer.Argument(help="Directories of runs.", show_default=False)],
    out: Out = None,
) -> None:
    """Put runs that were made earlier side by side; with --out also write a common report."""
    from tacit.results import Comparison
    from tacit.results.locks import writing

    name = "Comparison of " + ", ".join(d.name for d in directories)
    if out is None:
        _print_comparison(Comparison.load(directories, name))
        return
    check_directory(out)
    with writing(out):
        comparison = Comparison.load(directories, name)
        _print_comparison(comparison)
        comparison.save(out, command=_command())
    _say_where(out)


# In the order in which help lists them: what a newcomer wants first.
app.command(epilog="Example: tacit algorithms --json")(reported(algorithms))
app.command(epilog="Example: tacit sweep examples/sweep.toml --out runs/sweep")(sweep)
app.command(epilog="Example: tacit predict runs/iris new.csv --out predictions.csv")(model.predict)
app.command(epilog="Example: tacit board runs")(board)
app.command(epilog="Example: tacit audit online_push_sum --mechanism laplace --epsilon 1")(audit)
add_extensions(app)


def _run_file(
    file: Path,
    out: Path | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    trackers: Sequence[Tracker] = (),
) -> None:
    from tacit.experiments import load

    config = load(file, rounds=rounds, seed=seed)
    outcome = _execute(config, out, Path("runs") / file.stem, trackers)
    command = new.predict_command(config, outcome)
    if command is not None:
        say(f"next: look at the report in a browser, then {command}")
    _leave(outcome)


def _follow(file: Path, rounds: int | None, seed: int | None) -> NoReturn:
    """Take part in a run whose results another process writes."""
    from tacit.experiments import build, load
    from tacit.experiments.execute import execute

    execute(build(load(file, rounds=rounds, seed=seed), strict=False), None, progress=False)
    raise typer.Exit


def _execute(config: Any, out: Path | None, default: Path, trackers: Sequence[Tracker] = ()) -> Outcome:
    from tacit.experiments import build
    from tacit.experiments.execute import execute
    from tacit.experiments.private import steps_kept

    out = _writable(out, default)
    problem = build(config, strict=False)
    settings = config.run
    agents = problem.stream(settings.seed).agents
    if _fits_one_thread(problem) and "NPROC" not in os.environ and settings.devices in (None, 1):
        os.environ.setdefault("PJRT_NPROC", "1")
    planned = problem.references
    beside = f" and {counted(len(planned.runs), 'reference')}" if planned.runs else ""
    say(
        f"{settings.name}: {counted(len(problem.algorithms), 'algorithm')}{beside}, {agents:,} agents, "
        f"{settings.rounds:,} rounds, {counted(settings.repeats, 'repeat')}, seed {settings.seed}"
    )
    if problem.plan is not None:
        say(problem.plan.words())
        kept = [f"{label} (step = {step:g})" for label, step in steps_kept(config).items()]
        if kept:
            say(f"note: the file's own step is taken, and not the planned one, by {', '.join(kept)}")

    def finished(run: Any) -> None:
        _print_finished(run)
        for track in trackers:
            try:
                track.finished(run)
            except TacitError as error:  # what was computed is not lost for that
                say(f"not logged: {error}", err=True)

    watch, bar = watchers(trackers)
    outcome = execute(problem, out, command=_command(), finished=finished, watch=watch, bar=bar)
    for words in planned.left_out:
        say(f"note: {words}", err=True)
    say("")
    _print_comparison(outcome.comparison)
    for record in outcome.comparison.records if out is not None else ():
        if isinstance(record.model, str) and record.label in config.labels:
            say(f"note: there is no model of {record.label}: {record.model}", err=True)
    _say_where(out)
    return outcome


def _fits_one_thread(problem: Problem) -> bool:
    """Return whether rounds are so light that a second thread would only get in their way."""
    from tacit.runtime import foretold, model_size
    from tacit.streams.stream import places_in

    settings, stream = problem.config.run, problem.stream(problem.config.run.seed)
    spec = stream.batch_spec()
    work = model_size(foretold(problem.objective, spec)) * places_in(spec)[0]
    return stream.agents * settings.repeats <= SMALL and work <= LIGHT


def _writable(asked: Path | None, default: Path) -> Path | None:
    """Return the directory to write; None where none was asked for and the libraries that write it are missing."""
    from tacit.core.errors import ConfigError
    from tacit.results.store import check_libraries

    try:
        check_libraries()
    except ConfigError as error:
        if asked is not None:
            raise
        say(f"note: the table is printed and nothing is written: {error}", err=True)
        return None
    check_directory(asked or default)
    return asked or default


def _say_where(out: Path | None) -> None:
    if out is None:
        return
    from tacit.models.files import MODEL

    say(f"report: {out / 'report.html'}")
    if (out / MODEL).exists():
        say(f"model: {out / MODEL}; `tacit predict {out} data.csv` uses it, {out / 'model.html'} is its card")
    elif any(out.glob(f"*/{MODEL}")):
        say(f"models: in the folders of {out}; `tacit predict {out}/NAME data.csv` uses one")


def _tracker(asked: str) -> Tracker:
    from tacit.interop.trackers import tracker

    return tracker(asked)


def _leave(outcome: Outcome) -> None:
    if outcome.interrupted:
        say("interrupted: the figures are those of the rounds that were finished", err=True)
        raise typer.Exit(INTERRUPTED)


def _print_finished(run: Any) -> None:
    from tacit.simulator.progress import LONG

    seconds = run.seconds + run.compile_seconds
    say(f"  {run.label}: {run.rounds:,} rounds in {seconds:.1f} s{' (interrupted)' if run.partial else ''}")
    if run.regret_seconds > LONG:
        say(f"    its regret took {run.regret_seconds:.0f} s; regret_points = 0 in [run] leaves it out")


def _print_comparison(comparison: Comparison) -> None:
    for difference in comparison.differences():
        say(f"note: these runs are not of one problem: {difference}", err=True)
    rows = [*comparison.rows(), *comparison.further_rows()]
    print_table([textwrap.fill(title, 16) for title in comparison.columns()], rows)
    if comparison.held_out is not None:
        say(comparison.held_out.title)
        print_table([textwrap.fill(title, 16) for title in comparison.held_out.columns()], comparison.held_out.rows())
    for sentence in (comparison.headline(), *comparison.readings(), *comparison.sentences()):
        say(sentence)
    for caution in (*comparison.cautions(), *comparison.refusals()):
        say(f"warning: {caution}")


def _command() -> str:
    return shlex.join(["tacit", *sys.argv[1:]])
