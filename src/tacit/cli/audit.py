"""The command `tacit audit`."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tacit.cli.common import print_table, reported, say
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.core.contract import Algorithm, Mechanism

MOST_MASKED = 20_000
"""Trials of masks: their messages are all kept."""
BROKEN, INCONCLUSIVE = 1, 3
"""Exit codes."""
CODES = {"broken": BROKEN, "refused": BROKEN, "not conclusive": INCONCLUSIVE}
OWN_LIMIT = 0.7
"""Share of the time after which no further problem is begun, so that what was found is still told."""
OPTIONS = {
    "laplace": ("epsilon",),
    "gaussian": ("noise_multiplier",),
    "decaying_gaussian": ("noise_multiplier", "decay"),
    "correlated": ("rho", "strategy", "reads", "apart"),
    "laplace_of_size": ("noise_std",),
    "per_edge": ("noise_std",),
    "graph_homomorphic": ("noise_std",),
    "local_graph_homomorphic": ("noise_std",),
    "none": (),
}
"""Mechanism -> options that speak of it."""
DEFAULTS: dict[str, Any] = {
    "epsilon": 1.0,
    "noise_multiplier": 1.0,
    "noise_std": 1.0,
    "decay": 0.9,
    "rho": 0.5,
    "strategy": "blt",
    "reads": 1,
    "apart": 1,
}
BLOCK = 9
"""Rounds of a block of correlated noise where --rounds says none: those of the longest problems."""


@reported
def audit(
    context: typer.Context,
    algorithm: Annotated[str | None, typer.Argument(help="Name of the algorithm, as in `tacit algorithms`.")] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            help="laplace, gaussian, decaying_gaussian, correlated, laplace_of_size or none; for diffusion methods "
            "also per_edge, graph_homomorphic and local_graph_homomorphic (the masks)."
        ),
    ] = "laplace",
    epsilon: Annotated[float | None, typer.Option(help="Laplace: loss of each release. Default: 1.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Gaussian: noise / sensitivity. Default: 1.")] = None,
    decay: Annotated[float | None, typer.Option(help="Decaying: of the variance, per round. Default: 0.9.")] = None,
    noise_std: Annotated[float | None, typer.Option(help="Noise of a given size: that size. Default: 1.")] = None,
    rho: Annotated[float | None, typer.Option(help="Correlated: loss of a record in a block. Default: 0.5.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Correlated: blt, banded, toeplitz or independent. Default: blt.")
    ] = None,
    reads: Annotated[int | None, typer.Option(help="Correlated: reads of a record in a block. Default: 1.")] = None,
    apart: Annotated[int | None, typer.Option(help="Correlated: rounds between two reads. Default: 1.")] = None,
    norm: Annotated[str, typer.Option(help="Norm of the clip: l2, l1 or linf.")] = "l2",
    one_link: Annotated[bool, typer.Option("--one-link", help="See one of the victim's links, not all.")] = False,
    trials: Annotated[int | None, typer.Option(help="Runs that are attacked, per problem.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of each run, in every problem.")] = None,
    coordinates: Annotated[int | None, typer.Option(help="Parameters of the model, in every problem.")] = None,
    records: Annotated[int | None, typer.Option(help="Records per agent and round, in every problem.")] = None,
    problem: Annotated[list[str] | None, typer.Option(help="A problem to attack on, instead of all that fit.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Audit every method with every mechanism it takes.")] = False,
    seconds: Annotated[float, typer.Option(min=0, help="Longest time of an audit; 0: no limit.")] = 600.0,
    seed: Annotated[int, typer.Option(help="Seed of the runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    told: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Attack an algorithm's privacy claim, and say how much its messages give away at least.

    Exit codes: 0 the claim holds against an attack that has power, 1 it is broken or the method is refused, 3 not
    conclusive (the attack has little power, or did not finish).
    """
    if every == (algorithm is not None):
        raise ConfigError("name one algorithm to audit, or say --all")
    if every:
        _sweep(context, as_json)
    assert algorithm is not None
    given = {name: value for name, value in context.params.items() if name in DEFAULTS}
    noise = _mechanism(mechanism, norm, given, rounds or BLOCK)
    entry = _entry(algorithm, noise)
    if seconds > 0 and told is None:
        child = _in_child(context, algorithm, mechanism)
        if child.unfinished is not None:
            say(json.dumps(child.unfinished, indent=2) if as_json else child.unfinished["words"])
        raise typer.Exit(child.code)
    if noise.spread == "masked":
        _audit_masks(entry.example, noise, trials, rounds or 2, seed, as_json)
        return
    from tacit.audit import audit as attack

    found = attack(
        entry,
        noise,
        trials=trials,
        rounds=rounds,
        coordinates=coordinates,
        records=records,
        one_link=one_link,
        seed=seed,
        problems=problem or None,
        seconds=OWN_LIMIT * seconds or None,
        progress=lambda name: _tell(told, name),
    )
    facts = found.to_json()
    if as_json:
        say(json.dumps(facts, indent=2))
    else:
        _print([facts])
        say(found.words())
    _leave(facts["verdict"])


def _tell(told: Path | None, problem: str) -> None:
    """Leave the name of the problem under way for who waits, and may have to give up."""
    if told is not None:
        told.write_text(problem, encoding="utf-8")


def _leave(verdict: str) -> None:
    if verdict in CODES:
        raise typer.Exit(CODES[verdict])


def _entry(algorithm: str, noise: Mechanism) -> Any:
    """Return the method; one that takes no noise is made without."""
    from tacit.algorithms import find

    entry = find(algorithm)
    if "mechanism" in inspect.signature(entry.constructor).parameters:
        return entry
    if noise.distribution is not None:
        raise ConfigError(f"{algorithm} takes no mechanism, since nothing leaves it; audit it with --mechanism none")
    return entry._replace(constructor=lambda objective, mechanism, **settings: entry.constructor(objective, **settings))


def _audit_masks(
    constructor: Callable[..., Algorithm], noise: Mechanism, trials: int | None, rounds: int, seed: int, as_json: bool
) -> None:
    """Attack masks, which are not noise of one agent's own; the step is as large as they are, so that a link tells."""
    from tacit.audit import audit_masks

    made, most = partial(audit_masks, noise, constructor=constructor, seed=seed), trials or MOST_MASKED
    found = made(trials=min(most, MOST_MASKED), rounds=rounds, step=math.sqrt(2) * noise.mask_scale)
    if as_json:
        judged = {"verdict": found.verdict, "power": found.power, "problem": "one link's view"}
        facts = {"holds": found.holds, "lower_bound": found.lower_bound, "claim": found.claim, "exact": found.exact}
        say(json.dumps({**judged, **facts, "hidden": found.hidden, "words": found.words()}, indent=2))
    else:
        say(found.words())
    _leave(found.verdict)


def _mechanism(name: str, norm: str, given: dict[str, Any], rounds: int) -> Mechanism:
    from tacit import privacy

    if name not in OPTIONS:
        raise ConfigError(f"--mechanism {name!r}: expected one of {', '.join(OPTIONS)}")
    for option, value in given.items():
        if value is not None and option not in OPTIONS[name]:
            shown = value if isinstance(value, str) else f"{value:g}"
            raise ConfigError(f"--{option.replace('_', '-')} {shown} says nothing of --mechanism {name}; leave it out")
    if name == "none":
        return privacy.unprotected
    values = {k: DEFAULTS[k] if given[k] is None else given[k] for k in OPTIONS[name]}
    if name == "correlated":
        values |= {"rounds": rounds, "participation": (values.pop("reads"), values.pop("apart"))}
    clip = {} if name == "local_graph_homomorphic" else {"clip": 1.0, "norm": norm}
    made: Mechanism = getattr(privacy, name)(**values, **clip)
    return made


class _Child(NamedTuple):
    """Outcome of an audit in a process of its own."""

    code: int
    output: str
    unfinished: dict[str, Any] | None
    """Known facts about an audit that was killed."""


def _in_child(context: typer.Context, algorithm: str, mechanism: str, *further: str, capture: bool = False) -> _Child:
    """Audit in a process of its own, which is killed when its time is up: a method may stall, compiled or not."""
    seconds = float(context.params["seconds"])
    with tempfile.TemporaryDirectory() as directory:
        told = Path(directory) / "problem"
        command = [*_command(context, algorithm), *further, "--told", str(told)]
        pipe = subprocess.PIPE if capture else None
        try:
            done = subprocess.run(command, timeout=seconds or None, check=False, stdout=pipe, stderr=pipe, text=True)
        except subprocess.TimeoutExpired:
            at = told.read_text(encoding="utf-8") if told.exists() else None
            return _Child(INCONCLUSIVE, "", _unfinished(algorithm, mechanism, seconds, at))
        return _Child(done.returncode, done.stdout or "", None)


def _unfinished(algorithm: str, mechanism: str, seconds: float, problem: str | None) -> dict[str, Any]:
    limit = f"it did not finish within {seconds:g} s"
    busy = "" if problem is None else f"; it was busy with problem {problem!r}"
    words = f"Not conclusive: {limit}{busy}. Give it more time with --seconds, or look for what stalls."
    facts = {"algorithm": algorithm, "mechanism": mechanism, "verdict": "not conclusive", "power": None}
    return {**facts, "problem": problem, "limit": limit, "claim": None, "lower_bound": 0.0, "words": words}


def _command(context: typer.Context, algorithm: str) -> list[str]:
    """Return the command line of an audit with the same options."""
    parent = context.parent.params if context.parent is not None else {}
    own_code = [word for file in parent.get("own_code") or () for word in ("--with", str(file))]
    words: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.param_type_name != "option" or parameter.name in ("told", "every", "help") or value is None:
            continue
        name = parameter.opts[0]
        if isinstance(value, bool):
            words += [name] if value else []
        else:
            for each in value if isinstance(value, list | tuple) else [value]:
                words += [name, str(each)]
    return [sys.executable, "-m", "tacit", *own_code, "audit", algorithm, *words]


def _sweep(context: typer.Context, as_json: bool) -> None:
    """Audit every method with every mechanism that it takes, one process after the other."""
    from tacit.algorithms import REGISTRY

    rows: list[dict[str, Any]] = []
    takers = [n for n, e in REGISTRY.items() if "mechanism" in inspect.signature(e.constructor).parameters]
    for name, mechanism in itertools.product(takers, OPTIONS):
        if mechanism == "none":
            continue
        child = _in_child(context, name, mechanism, "--mechanism", mechanism, "--json", capture=True)
        if child.unfinished is None and child.code not in (0, *CODES.values()):
            continue  # it does not take this mechanism
        facts = child.unfinished or {"algorithm": name, "mechanism": mechanism, **json.loads(child.output)}
        say(f"{name}, {mechanism}: {facts['verdict']}", err=True)
        rows.append(facts)
    if as_json:
        say(json.dumps(rows, indent=2))
    else:
        _print(rows)
    verdicts = {row["verdict"] for row in rows}
    raise typer.Exit(next((code for verdict, code in CODES.items() if verdict in verdicts), 0))


def _print(found: Sequence[dict[str, Any]]) -> None:
    columns = ["algorithm", "mechanism", "epsilon claimed", "epsilon at least", "power", "problem", "verdict"]
    print_table(columns, [_row(facts) for facts in found])


def _row(facts: dict[str, Any]) -> list[str]:
    claim, power = facts["claim"], facts["power"]
    if isinstance(claim, dict):
        claimed = f"{claim['epsilon']:.4g} (delta {claim['delta']:g})"
    else:
        claimed = "none" if claim is None else f"{claim:.4g}"
    return [
        facts["algorithm"],
        facts["mechanism"],
        claimed,
        f"{facts['lower_bound']:.4g}",
        "" if power is None else f"{power:.2f}",
        facts["problem"] or "",
        facts["verdict"],
    ]
