"""`tacit algorithms`: the methods with their sources, requirements and parameters."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import print_table, say

if TYPE_CHECKING:
    from tacit.algorithms import Entry


def algorithms(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the algorithms: where each comes from, what it requires and which parameters it has."""
    from tacit.algorithms import REGISTRY
    from tacit.algorithms._compressors import COMPRESSORS
    from tacit.algorithms.model_average import AVERAGES
    from tacit.core.robust_rules import RULES

    facts = [_facts(entry) for entry in REGISTRY.values()]
    if as_json:
        say(json.dumps(facts, indent=2))
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
    notes = (
        f"mechanism: the noise ({kinds['mechanism']}), set in a table [algorithm.mechanism]; without one a run "
        "is not private. `tacit privacy explain NAME` says what holds with it.",
        f"mirror: the geometry ({kinds['mirror']}), in [algorithm.mirror]. constraints: what is kept in the long run "
        f"({kinds['constraints']}), in [[algorithm.constraints]].",
        f"average: every method can predict with an average of its models ({', '.join(AVERAGES)}), by "
        'average = "tail" or a table [algorithm.average]; help(tacit.algorithms.averaged) explains it.',
        f"robust: methods that share can combine by a rule that liars do not lead astray ({', '.join(RULES)}), by "
        'robust = {rule = "clipped", liars = 1}; help(tacit.algorithms.robust) explains it.',
        f"compress: models of methods that share or push can travel in fewer bytes ({', '.join(COMPRESSORS)}), by "
        'compress = "int8" or a table [algorithm.compress]; help(tacit.algorithms.compressed) explains it.',
        "help(tacit.algorithms.NAME) in Python explains a method and all its parameters.",
    )
    for note in notes:
        say(note)


def _facts(entry: Entry) -> dict[str, Any]:
    from tacit.config.choices import parameters, table_kinds
    from tacit.objectives import logistic

    kinds = table_kinds(entry.constructor)
    return {
        "name": entry.name,
        "title": entry.title,
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
    if not callable(default):
        return {"name": key, "default": default}
    # A schedule is called by the function that made it.
    return {"name": key, "default": getattr(default, "__qualname__", repr(default)).partition("(")[0].partition(".")[0]}
