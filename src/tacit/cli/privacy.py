"""The commands `tacit privacy ...`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import print_table, reported, say
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.core.contract import Distribution

app = typer.Typer(help="Costs of privacy, before anything is released.")

_RULES = {
    "pure": "delta = 0: the sum; budgets enforce it",
    "loose": "zCDP, Bun and Steinke 2016",
    "tight": "zCDP at its best order, Canonne et al. 2020; budgets enforce it",
    "rdp": "Rényi, dp-accounting; fixed schedules only",
    "pld": "privacy loss distribution, dp-accounting; fixed schedules only",
    "exact": "Gaussian closed form, Balle and Wang 2018; fixed schedules only",
}


@app.command(epilog="Example: tacit privacy plan --records 3000 --features 100 --owners 10 --epsilon 1")
@reported
def plan(
    epsilon: Annotated[float | None, typer.Option(help="Target: which noise does it need?")] = None,
    records: Annotated[int | None, typer.Option(min=1, help="Of each owner: plan a whole run.")] = None,
    features: Annotated[int, typer.Option(min=1, help="Columns of a row, with --records.")] = 20,
    owners: Annotated[int, typer.Option(min=1, help="That learn together, with --records.")] = 10,
    task: Annotated[str, typer.Option(help="binary, multiclass or regression, with --records.")] = "binary",
    passes: Annotated[int | None, typer.Option(min=1, help="Reads of a record, with --records. Default: ten.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Number of rounds T, without --records.")] = None,
    noise: Annotated[float | None, typer.Option(help="Noise multiplier: which epsilon does it give?")] = None,
    delta: Annotated[float, typer.Option(help="Probability with which epsilon may fail.")] = 1e-5,
    mechanism: Annotated[str, typer.Option(help="laplace or gaussian.")] = "laplace",
    decay: Annotated[float, typer.Option(help="Gaussian: variance of a round / variance of the one before.")] = 1.0,
    uses: Annotated[int | None, typer.Option(help="In how many rounds a record is used. Default: in all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Plan a private run: batch, rounds, clip, step and noise from what is public, and what to expect.

    With --rounds instead of --records: which noise a target needs, or which epsilon a noise gives, by every rule. The
    noise multiplier is the noise's scale divided by the sensitivity: in l1 for Laplace, in l2 for Gaussian noise.
    """
    if (records is None) == (rounds is None):
        raise ConfigError("privacy plan takes one of: --records N (a whole run), --rounds T (noise by every rule)")
    if records is not None:
        _whole_run(records, features, owners, task, passes, epsilon, delta, as_json)
        return
    assert rounds is not None
    found = _planned(rounds, epsilon, noise, delta, mechanism, decay, rounds if uses is None else uses)
    if as_json:
        say(json.dumps(found, indent=2))
        return
    say(f"{found['mechanism']} noise, {found['unit']}")
    say(f"neighbours: {found['neighbours']}; delta = {delta:g} (pure: 0)")
    say(f"noise multiplier ({found['multiplier']}): {found['noise']:.6g}")
    titles = ["rule", f"epsilon at {found['noise']:.6g}"]
    titles += [f"noise for epsilon {epsilon:g}"] if epsilon is not None else []
    rows = [
        [
            rule,
            _figure(found["epsilon"][rule]),
            *([_figure(found["needed"][rule])] if epsilon is not None else []),
            text,
        ]
        for rule, text in _RULES.items()
        if not (rule == "exact" and mechanism == "laplace")
    ]
    print_table([*titles, "what it is"], rows)


@app.command(epilog="Example: tacit privacy explain online_push_sum --mechanism laplace --epsilon 1 --clip 1 --norm l1")
@reported
def explain(
    algorithm: Annotated[str, typer.Argument(help="Its name, as in `tacit algorithms`.", show_default=False)],
    mechanism: Annotated[str, typer.Option(help="Kind of noise, as in \\[algorithm.mechanism].")] = "laplace",
    epsilon: Annotated[float | None, typer.Option(help="Of Laplace noise, per release. Default: 1.")] = None,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="Of Gaussian noise: its deviation / sensitivity.")
    ] = None,
    decay: Annotated[float | None, typer.Option(help="Of decaying_gaussian: variance / the round before's.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Of bounded_laplace: rounds of the run.")] = None,
    clip: Annotated[float | None, typer.Option(help="Bound of a record's gradient. Default with laplace: 1.")] = None,
    norm: Annotated[str | None, typer.Option(help="In which it is clipped: l2, l1 or linf.")] = None,
    perturbs: Annotated[str | None, typer.Option(help="Value that gets the noise: gradient, update or model.")] = None,
    adjacency: Annotated[
        str | None, typer.Option(help="Unit that is hidden: record, component, dataset or agent.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what an algorithm promises with a mechanism, on what that stands, and what its text claims."""
    given = {
        "epsilon": epsilon,
        "noise_multiplier": noise_multiplier,
        "decay": decay,
        "rounds": rounds,
        "clip": clip,
        "norm": norm,
        "perturbs": perturbs,
        "adjacency": adjacency,
    }
    usual = {"epsilon": 1.0, "clip": 1.0} if mechanism == "laplace" else {}
    settings = {"kind": mechanism, **usual, **{key: value for key, value in given.items() if value is not None}}
    facts = _explained(algorithm, settings)
    if as_json:
        say(json.dumps(facts, indent=2))
        return
    for key, value in facts.items():
        words = "; ".join(value) if isinstance(value, list) else value
        if isinstance(value, dict):
            words = ", ".join([value["kind"], *(f"{k} {v}" for k, v in value.items() if k != "kind")])
        say(f"{key.replace('_', ' ') + ':':<20}{words or 'none'}")


@app.command(epilog="Example: tacit privacy network examples/private.toml --rounds 50 --out runs/network")
@reported
def network(
    file: Annotated[Path, typer.Argument(help="The experiment's TOML file.", show_default=False)],
    rounds: Annotated[int | None, typer.Option(help="Look at the first so many rounds. Default: at all.")] = None,
    delta: Annotated[float, typer.Option(help="Probability with which epsilon may fail.")] = 1e-5,
    out: Annotated[Path | None, typer.Option(help="Directory for the matrices (CSV) and heat maps (SVG).")] = None,
) -> None:
    """Say what each single observer learns about a record of each agent, by its distance in the graph.

    For methods whose messages are linear in what is released, with Gaussian noise, on a fixed graph. It is information:
    budgets and ledgers keep the strong figure, against an observer of everything.
    """
    from tacit.cli.network import show

    show(file, rounds, delta, out)


def _explained(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    from tacit.algorithms import find
    from tacit.config.choices import MECHANISMS, choose, parameters
    from tacit.config.sections import Place
    from tacit.objectives import logistic
    from tacit.privacy.spending import composition_in_words

    entry = find(name)
    bare = entry.example(logistic()).privacy
    facts: dict[str, Any] = {"algorithm": name, "source": entry.source, "text_claims": bare.text_claims}
    if "mechanism" not in parameters(entry.constructor):
        return {**facts, "mechanism": "it takes none", "holds": bare.holds}
    choice = choose(MECHANISMS, settings, Place("privacy explain", "options"))
    mechanism = choice.function(**choice.arguments())
    statement = entry.example(logistic(), mechanism=mechanism).privacy
    return {
        **facts,
        "text_claims": statement.text_claims,
        "without_mechanism": bare.holds,
        "mechanism": choice.settings(),
        "unit": statement.unit,
        "adjacency": f"two data sets are neighbours if {statement.adjacency}",
        "composition": composition_in_words(statement, mechanism.adjacency),
        "assumptions": list(statement.assumptions),
        "holds": statement.holds,
    }


def _whole_run(
    records: int,
    features: int,
    owners: int,
    task: Any,
    passes: int | None,
    epsilon: float | None,
    delta: float,
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from tacit.privacy import planning

    if epsilon is None:
        raise ConfigError("privacy plan --records takes --epsilon, the loss of a record in the whole run")
    chosen = planning.plan(records, features, epsilon, delta, owners, task, passes=passes)
    if as_json:
        say(json.dumps(asdict(chosen), indent=2))
        return
    say(
        f"epsilon {epsilon:g} per record at delta = {delta:g} (rho {chosen.rho:.4g}), {owners} owner(s) of {records:,}:"
    )
    say(chosen.words())
    reads, apart = chosen.participation
    say(
        f"""
In an experiment's file, with rows of norm 1 (unit = true in [stream]):

[privacy]
epsilon = {epsilon:g}
delta = {delta:g}

or, spelt out, in [run] rounds = {chosen.rounds}, in [stream] batch = {chosen.batch}, and below [[algorithm]]:

step = {chosen.step:.3g}
average = {{kind = "tail", share = {chosen.tail:g}}}
[algorithm.mechanism]
kind = "correlated"
rounds = {chosen.rounds}
epsilon = {epsilon:g}
delta = {delta:g}
clip = {chosen.clip:g}
participation = [{reads}, {apart}]"""
    )


def _planned(
    rounds: int, epsilon: float | None, noise: float | None, delta: float, mechanism: str, decay: float, uses: int
) -> dict[str, Any]:
    from tacit.privacy.accounting import NEIGHBOURS
    from tacit.privacy.planning import epsilon_of, noise_for, noises_for

    if (epsilon is None) == (noise is None):
        raise ConfigError("privacy plan takes one of: --epsilon TARGET, --noise MULTIPLIER")
    if rounds < 1:
        raise ConfigError(f"--rounds {rounds}: expected a whole number from 1 on")
    if not 1 <= uses <= rounds:
        raise ConfigError(f"--uses {uses}: a record is used in 1 to {rounds} of {rounds} rounds")
    distribution = _distribution(mechanism)
    # A record that is used in some rounds may be used in those with the least noise: with decay below 1, the last.
    first = math.exp((rounds - uses) / 2 * math.log(decay)) if 0 < decay < 1 else 1.0
    needed: dict[str, float | None] = {}
    if epsilon is not None:
        noise = noise_for(distribution, epsilon, delta, uses, decay) / first
        by_rule = noises_for(distribution, epsilon, delta, uses, decay)
        needed = {rule: None if value is None else value / first for rule, value in by_rule.items()}
    assert noise is not None  # one of the two was given
    figures = epsilon_of(distribution, noise * first, delta, uses, decay)._asdict()
    return {
        "mechanism": "Laplace" if distribution == "laplace" else "Gaussian",
        "rounds": rounds,
        "uses": uses,
        "unit": f"per record, used in {uses:,} of {rounds:,} rounds"
        + (" (parallel composition)" if uses == 1 else " (sequential composition)"),
        "neighbours": f"two data sets of which {NEIGHBOURS['record'][1]}",
        "delta": delta,
        "decay": decay,
        "noise": noise,
        "multiplier": ("scale / l1" if distribution == "laplace" else "standard deviation / l2")
        + " sensitivity"
        + ("" if decay == 1 else ", of round 1"),
        "epsilon": {
            rule: value if value is not None and math.isfinite(value) else None for rule, value in figures.items()
        },
        **({"needed": needed} if epsilon is not None else {}),
    }


def _distribution(mechanism: str) -> Distribution:
    if mechanism == "laplace":
        return "laplace"
    if mechanism == "gaussian":
        return "gaussian"
    raise ConfigError(f"--mechanism {mechanism!r}: expected laplace or gaussian")


def _figure(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
