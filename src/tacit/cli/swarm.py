"""The command `tacit swarm run`: an experiment as processes on this machine, beside the simulator."""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import check_directory, counted, print_table, reported, say
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.deploy.comparison import Figures, Outcome
    from tacit.experiments import Problem

FIGURES = "swarm.json"
"""Written last: a directory without it holds a swarm that was not finished."""
LOOKS = 1.0
"""Seconds from one look at the models to the next, at least."""

app = typer.Typer(help="Run an experiment's whole graph as real peers on this machine.")


@app.callback()
def _swarm() -> None:
    """Run an experiment's whole graph as real peers on this machine."""


@app.command(epilog="Example: tacit swarm run examples/swarm-ops.toml --out runs/swarm-ops")
@reported
def run(
    file: Annotated[Path, typer.Argument(help="An experiment, see examples/.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(help="New directory for swarm.json, and every member's store, log and models. Default: none."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds, instead of the file's.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed, instead of the file's.")] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="Largest difference from the simulator.")] = 1e-6,
    booked: Annotated[
        bool, typer.Option("--booked", help="Draw noise from entropy and charge it; needs --epsilon.")
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="With --booked: budget of every member.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --booked: delta of the budget, for Gaussian noise.")] = None,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that each algorithm may take.")] = 300.0,
) -> None:
    """Run one process per agent with mutual TLS, and compare every model of every round with the simulator's.

    Agents of [liars] are processes that lie, by what they hear; so do they in the simulation beside it.

    Exit code 1 if they differ by more than the tolerance.
    """
    from tacit.deploy.comparison import compare
    from tacit.deploy.rehearsal import refuse_channel
    from tacit.deploy.swarm import Privacy
    from tacit.experiments import build, load
    from tacit.results.sealed import json_bytes, put

    if booked != (epsilon is not None) or (delta is not None and not booked):
        raise ConfigError("--booked needs --epsilon (the budget), and --epsilon and --delta go with --booked")
    if out is not None:
        check_directory(out)
    config = load(file, rounds=rounds, seed=seed)
    refuse_channel(config)
    problem = build(config)
    privacy = Privacy(epsilon, delta) if epsilon is not None else None
    outcomes = []
    with _directory(out) as directory:
        _announce(problem, booked)
        for index, label in enumerate(config.labels):
            folder = directory / f"{index + 1}-{re.sub(r'[^a-z0-9]+', '-', label.lower()).strip('-')}"
            with _live_log(out, problem, index, booked) as told:
                outcomes.append(compare(problem, index, folder, privacy=privacy, limit=limit, told=told))
            say(f"  {label}: {outcomes[-1].rounds:,} rounds in {outcomes[-1].seconds:.1f} s")
        _print(outcomes, tolerance)
        if out is not None:
            put(out, {FIGURES: json_bytes(_figures(config.settings(), outcomes, tolerance))}, last=FIGURES)
            say(f"figures: {out / FIGURES}")
    if not all(outcome.within(tolerance) for outcome in outcomes):
        raise typer.Exit(1)


def _announce(problem: Problem, booked: bool) -> None:
    settings = problem.config.run
    agents = problem.stream(settings.seed).agents
    algorithms = counted(len(problem.algorithms), "algorithm")
    say(
        f"{settings.name}: {algorithms}, one after the other, {agents:,} agents as processes "
        f"on loopback with mutual TLS, {settings.rounds:,} rounds, seed {settings.seed}, {settings.dtype}"
    )
    if settings.repeats > 1:
        say(f"note: repeats = {settings.repeats} in the file; only the first one is run here")
    liars = problem.liars_of(settings.seed)
    if liars:
        names, kinds = ", ".join(map(str, liars)), ", ".join({attack.name for attack in liars.values()})
        say(f"{len(liars)} of {agents} agents lie ({names}: {kinds}); losses are those of the honest ones")
    if booked:
        bare = [
            label
            for label, algorithm in zip(problem.config.labels, problem.algorithms, strict=True)
            if not algorithm.privacy.private
        ]
        say("booked: noise is drawn from the operating system's entropy and charged to every member's ledger")
        if bare:
            say(f"note: {', '.join(bare)}: no mechanism, so that nothing is drawn or charged: not private")
    elif any(algorithm.privacy.private for algorithm in problem.algorithms):
        say("REHEARSAL: noise is computed from the seed and hides nothing. Use --booked for real noise.")


@contextlib.contextmanager
def _live_log(
    out: Path | None, problem: Problem, index: int, booked: bool = False
) -> Iterator[Callable[[int, Figures], object]]:
    """Give what hears of the rounds of one algorithm, and writes them to a live file for the board.

    Args:
      out: Directory to write; None: nothing is written.
      problem: The experiment.
      index: Number of the algorithm.
      booked: Whether members have ledgers.
    """
    if out is None:
        yield lambda done, figures: None
        return
    import numpy as np

    from tacit import runtime
    from tacit.peer.observing.link_states import STATES
    from tacit.results.live.drawn import line_of
    from tacit.results.live.log import LiveLog, block, number
    from tacit.simulator.watching.links import numbered
    from tacit.simulator.watching.sights import drawn

    settings, algorithm = problem.config.run, problem.algorithms[index]
    facts = {
        "algorithm": algorithm.name,
        "agents": problem.stream(settings.seed).agents,
        "rounds": settings.rounds,
        "repeats": 1,
        "private": algorithm.privacy.private,
        "booked": booked and algorithm.privacy.private,
    }
    with LiveLog(out, index + 1) as log:
        log.begin(
            problem.config.labels[index], "swarm", facts, problem.config.settings(only=index), settings.name or ""
        )
        graph = runtime.prepared_topology(algorithm, problem.graph(settings.seed))
        drawing = drawn(graph, algorithm, problem.liars_of(settings.seed))
        drawing = drawing._replace(states=tuple(state for state in STATES if state != "open"))
        line = line_of(drawing)
        whole = bool(line.pop("groups") is None and line["links"])
        if whole:
            log.line({"graph": line})
        names = [
            f"{role}-{k}" for role in numbered(graph.roles, algorithm.learner)[0] for k in range(graph.roles[role])
        ]
        ends = zip(drawing.senders.tolist(), drawing.receivers.tolist(), strict=True)
        places = {(names[a], names[b]): k for k, (a, b) in enumerate(ends)}
        begun, last, looked = 0.0, 0, -math.inf
        known: Mapping[str, float] = {}

        def told(done: int, figures: Figures) -> None:
            nonlocal begun, last, looked, known
            if done <= last:
                return
            curves, now = [], time.monotonic()
            begun = begun or now  # of the first round, in which all compile
            if done > 1 and now - looked >= LOOKS:  # the loss in a round is that of the models before it
                seen, looked = figures(), now
                known = seen.curves
                if whole:
                    links = {s: [places[p] for p in pairs if p in places] for s, pairs in seen.links.items()}
                    each = {name: [number(value) for value in row.tolist()] for name, row in seen.agents.items()}
                    log.line({"frame": done, "measures": each, "links": links})
                curves = [block(np.array([done]), {name: np.array([[value]]) for name, value in known.items()})]
            log.rows(done, curves, known, (done - 1) / (now - begun) if now > begun else None)
            last = done

        yield told
        log.end("done", last)


@contextlib.contextmanager
def _directory(out: Path | None) -> Iterator[Path]:
    """Yield the directory to write, locked against other writers."""
    from tacit.results.locks import LOCK, writing

    if out is not None:
        with writing(out):
            if any(path.name != LOCK for path in out.iterdir()):
                raise ConfigError(f"--out {out}: the directory is not empty; name a new one")
            yield out
        return
    with tempfile.TemporaryDirectory(prefix="tacit-swarm-") as folder:
        yield Path(folder)


def _print(outcomes: list[Outcome], tolerance: float) -> None:
    rows = [
        (
            outcome.label,
            f"{outcome.processes}",
            f"{outcome.rounds:,}",
            "-" if outcome.difference is None else f"{outcome.difference:.1e}",
            "-" if outcome.difference is None else f"{outcome.difference_at}",
            f"{outcome.loss:.4f}",
            f"{outcome.simulated_loss:.4f}",
            "-" if outcome.rounds_per_second is None else f"{outcome.rounds_per_second:.1f}",
            f"{outcome.seconds:.1f}",
            _verdict(outcome, tolerance),
        )
        for outcome in outcomes
    ]
    titles = ("algorithm", "processes", "rounds", "largest difference", "in round", "loss", "simulated loss")
    print_table((*titles, "rounds/s", "seconds", "verdict"), rows)
    for outcome in outcomes:
        _print_traffic(outcome)
        budgets = {name: facts["budget"] for name, facts in outcome.spending.items()}
        if budgets:
            worst = max(budgets, key=lambda name: float(budgets[name]["spent"]))
            releases = sum(facts["releases"] for facts in outcome.spending.values())
            say(f"{outcome.label}: {releases:,} releases booked; {worst} spent most: {budgets[worst]['words']}")


def _print_traffic(outcome: Outcome) -> None:
    expected = outcome.forecast
    if expected is None:
        return
    counted = "unknown here" if outcome.socket_bytes is None else f"{outcome.socket_bytes:,}"
    say(
        f"{outcome.label}: {expected.messages:,} messages with {expected.content:,} bytes of content; at the sockets "
        f"{counted}, predicted {expected.total:,}: {expected.setup:,} to connect and {expected.bytes:,} in the rounds, "
        "pings on idle links apart"
    )


def _verdict(outcome: Outcome, tolerance: float) -> str:
    if outcome.booked:
        return "not compared: real noise"
    return "same" if outcome.within(tolerance) else f"DIFFERENT: more than {tolerance:g}"


def _figures(settings: dict[str, Any], outcomes: list[Outcome], tolerance: float) -> dict[str, Any]:
    rows = [
        {
            **outcome._asdict(),
            "forecast": None if outcome.forecast is None else outcome.forecast._asdict(),
            "verdict": _verdict(outcome, tolerance),
        }
        for outcome in outcomes
    ]
    finite = [
        {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
        for row in rows
    ]  # JSON has no other numbers
    return {"experiment": settings, "tolerance": tolerance, "algorithms": finite}
