"""Remedies in the words of a TOML file: the library speaks Python, and whoever wrote a file reads TOML."""

from __future__ import annotations

import re

_END = r"(?=$|[\s,;:)]|\.(?:\s|$))"
"""End of a setting in a sentence: not that of a part of a path, as in year=2020/data.csv."""
_QUOTED = r"'[^'\n]*'|\"[^\"\n]*\""
_PHRASES: tuple[tuple[str, str], ...] = (
    (r"\s*\(in Python [^)]*\)", ""),
    (r", tacit\.limits\.memory\(\.\.\.\) in Python,", ""),
    (r"(tacit\.(?:graphs|streams)\.\w+(?:\([^)]*\))?)", r"\1, which takes Python: a file cannot say it"),
    (r"(?:graph\.)?with_weights\((['\"])(\w+)\1\)", r'weights = "\2" in [graph]'),
    (r"graph\.with_dynamics\(None\)", "a [graph] without dynamics"),
    (r"graph\.with_clusters\((\[[^\]]*\])\)", r"clusters = \1 in [graph]"),
    (r"LinkDrop\(\.\.\., symmetric=True\)", 'dynamics = {kind = "link_drop", symmetric = true, ...} in [graph]'),
    (r"\bLinkDrop\b", "link_drop"),
    (r"\bOptOut\b", "opt_out"),
    (r"\bRandomMatching\b", "random_matching"),
    (r" \(graph\.mutual\(\) makes one\)", ' (kind = "ring" or "complete", say)'),
    (
        r"keep mutual links only with graph\.mutual\(\)",
        'take links that go both ways (kind = "ring" or "complete", say)',
    ),
)
"""Calls in Python -> how a file says the same."""
_ARGUMENT = re.compile(
    rf"(?<![\w./\\-])([a-z]\w*)=({_QUOTED}|True|False|None|\.\.\.|\[[^\]\n]*\]|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?){_END}"
)
_CONSTANTS = {"True": "true", "False": "false"}


def in_toml(words: str) -> str:
    """Return a message for the author of a TOML file: arguments of Python become keys.

    Args:
      words: A message, e.g. of an error that the library raised.

    Example:
      >>> in_toml("the value is missing; say missing='indicate' or take fewer rounds (rounds=...)")
      'the value is missing; say missing = "indicate" or take fewer rounds (rounds = ...)'
    """
    for python, toml in _PHRASES:
        words = re.sub(python, toml, words)
    return _ARGUMENT.sub(_setting, words)


def _setting(found: re.Match[str]) -> str:
    key, value = found.groups()
    if value == "None":
        return f"no {key}"
    if value[0] in "'[":
        value = value.replace("'", '"')
    return f"{key} = {_CONSTANTS.get(value, value)}"
