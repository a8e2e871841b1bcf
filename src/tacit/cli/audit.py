"""The command `tacit audit`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.common import print_table, reported
from tacit.errors import ConfigError

if TYPE_CHECKING:
    from tacit.audit import Audit
    from tacit.contract import Algorithm, Mechanism

MOST_MASKED = 4_000
"""Trials of masks: their messages are all kept."""
BROKEN = 1
"""Exit code for a claim that was shown to be false."""


@reported
def audit(
    algorithm: Annotated[str, typer.Argument(help="Name of the algorithm, as in `tacit algorithms`.")],
    mechanism: Annotated[
        str,
        typer.Option(
            help="laplace, gaussian or none; for diffusion methods also per_edge, graph_homomorphic and "
            "local_graph_homomorphic (the masks)."
        ),
    ] = "laplace",
    epsilon: Annotated[float | None, typer.Option(help="Laplace: loss of each release. Default: 1.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Gaussian: noise / sensitivity. Default: 1.")] = None,
    noise_std: Annotated[float | None, typer.Option(help="Noise that knows the graph: its size. Default: 1.")] = None,
    one_link: Annotated[bool, typer.Option("--one-link", help="See one of the victim's links, not all.")] = False,
    trials: Annotated[int, typer.Option(help="Number of runs that are attacked.")] = 40_000,
    rounds: Annotated[int, typer.Option(help="Rounds of each run.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Attack an algorithm's privacy claim, and say how much its messages give away at least.

    Exit code 1: the claim is broken.
    """
    from tacit.algorithms import find
    from tacit.audit import audit as attack

    entry = find(algorithm)
    noise = _mechanism(mechanism, epsilon, noise_multiplier, noise_std)
    takes_noise = "mechanism" in inspect.signature(entry.constructor).parameters
    if not takes_noise and noise.distribution is not None:
        raise ConfigError(f"{algorithm} takes no mechanism, since nothing leaves it; audit it with --mechanism none")
    constructor = entry.example if takes_noise else lambda objective, mechanism: entry.example(objective)
    if noise.spread == "masked":
        _audit_masks(constructor, noise, trials, rounds, seed, as_json)
        return
    found = attack(constructor, noise, trials=trials, rounds=rounds, one_link=one_link, seed=seed)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        _print(found)
    if not found.holds:
        raise typer.Exit(BROKEN)


def _audit_masks(
    constructor: Callable[..., Algorithm], noise: Mechanism, trials: int, rounds: int, seed: int, as_json: bool
) -> None:
    """Attack masks, which are not noise of one agent's own."""
    from tacit.audit import audit_masks

    found = audit_masks(noise, trials=min(trials, MOST_MASKED), rounds=rounds, constructor=constructor, seed=seed)
    if as_json:
        facts = {"holds": found.holds, "lower_bound": found.lower_bound, "claim": found.claim, "exact": found.exact}
        typer.echo(json.dumps({**facts, "hidden": found.hidden, "words": found.words()}, indent=2))
    else:
        typer.echo(found.words())
    if not found.holds:
        raise typer.Exit(BROKEN)


def _mechanism(name: str, epsilon: float | None, noise_multiplier: float | None, noise_std: float | None) -> Mechanism:
    from tacit.privacy import gaussian, graph_homomorphic, laplace, local_graph_homomorphic, per_edge, unprotected

    on_graphs = ("per_edge", "graph_homomorphic", "local_graph_homomorphic")
    known = {
        "laplace": "epsilon",
        "gaussian": "noise_multiplier",
        "none": None,
        **dict.fromkeys(on_graphs, "noise_std"),
    }
    if name not in known:
        raise ConfigError(f"--mechanism {name!r}: expected one of {', '.join(known)}")
    options = (("epsilon", epsilon), ("noise_multiplier", noise_multiplier), ("noise_std", noise_std))
    for option, value in options:
        if value is not None and known[name] != option:
            raise ConfigError(
                f"--{option.replace('_', '-')} {value:g} says nothing of --mechanism {name}; leave it out"
            )
    if name == "none":
        return unprotected
    size = 1.0 if noise_std is None else noise_std
    if name == "local_graph_homomorphic":
        return local_graph_homomorphic(size)
    if name in on_graphs:
        return (per_edge if name == "per_edge" else graph_homomorphic)(size, clip=1.0)
    if name == "gaussian":
        return gaussian(1.0 if noise_multiplier is None else noise_multiplier, clip=1.0)
    return laplace(1.0 if epsilon is None else epsilon, clip=1.0)


def _print(found: Audit) -> None:
    test, claim = found.finding.test, found.claim
    claimed = "none" if claim is None or not claim.private else f"{claim.epsilon:.4g} (delta {claim.delta:g})"
    verdict = "broken" if not found.holds else "consistent" if found.private else "not private"
    columns = ["algorithm", "mechanism", "epsilon claimed", "epsilon at least", "test", "data differ in", "verdict"]
    row = [
        found.algorithm,
        found.mechanism,
        claimed,
        f"{found.lower_bound:.4g}",
        test.statistic,
        test.group,
        verdict,
    ]
    print_table(columns, [row])
    typer.echo(found.words())
