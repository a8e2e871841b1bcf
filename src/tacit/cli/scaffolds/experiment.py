"""An experiment on a table, as a commented TOML file, and a made-up table for whoever has none."""

from __future__ import annotations

import csv
import io
import math
import os
import random
from pathlib import Path

from tacit.cli.scaffolds.files import comment, toml
from tacit.cli.scaffolds.reading import settings_of
from tacit.cli.scaffolds.tables import Look
from tacit.config.experiment import ENDINGS, parse
from tacit.core.errors import TacitError
from tacit.experiments import build

MOST_ROUNDS = 500
"""Batches are as large as this asks for."""
LARGE = 2_000_000
"""Numbers in a table from which on regret is left out, since its solver would take minutes."""
CLINICS = {"Arles": 260, "Bremen": 200, "Cork": 160, "Delft": 120, "Espoo": 60}
"""Owner in the made-up table -> its rows."""

METHODS = """[[algorithm]]            # all owners together: models travel over the links, rows never do
name = "online_push_sum"
label = "together"
step = {step}

[[algorithm]]            # the same with every owner by itself: is it worth being together?
name = "online_push_sum"
label = "alone"
step = {step}
alone = true
"""

EVALUATE = """
[evaluate]               # rows that nobody learns from: final models are judged by them, also beside a constant
share = 0.2
seed = 0
"""

PRIVACY = """
# Nothing of this is private yet: models leave as they are computed. To say what a record may cost, take the # off here,
# and the lines `batch` and `step` out, which are then planned; with few rows, passes = 10 makes more of the budget.
# A private run learns nothing from all rows that is not declared, and refuses with the keys to set (bounds, categories,
# classes), or `public` for what everybody may know.
# [privacy]
# epsilon = 1.0
"""


def experiment_text(found: Look, file: Path, methods: str = METHODS, mutual: bool = False) -> str:
    """Return an experiment on a table, which was built; `mutual` asks for links that go both ways."""
    try:
        rounds, evaluate = _rounds(found, file, EVALUATE), EVALUATE
    except TacitError:  # too few rows to hold some out
        rounds, evaluate = _rounds(found, file, ""), ""
    return _text(found, file, methods, mutual, rounds, evaluate)


def _rounds(found: Look, file: Path, evaluate: str) -> int:
    """Return after how many rounds the largest owner has read its rows."""
    problem = build(parse(_text(found, file, METHODS, False, 1, evaluate), file))
    return problem.stream(problem.config.run.seed).rounds or 1


def _text(found: Look, file: Path, methods: str, mutual: bool, rounds: int, evaluate: str) -> str:
    batch = max(1, math.ceil(found.largest / MOST_ROUNDS))
    samples = "its next row" if batch == 1 else f"its next {batch} rows"
    return "\n".join(
        [
            comment(f"An experiment on {found.path.name}. Run it: tacit run {file.name}"),
            comment("Whatever is wrong in here is answered with its place, the value and what was expected."),
            "",
            "[run]",
            f"name = {toml(file.stem)}",
            f"rounds = {rounds}".ljust(24) + f" # an owner reads {samples} in a round, until the largest has read all",
            "seed = 0",
            *_regret(found),
            "",
            f"[graph]                  # who talks to whom: {found.agents} agents, {_whose(found)}",
            f'kind = "{"complete" if mutual or found.agents <= 8 else "exponential"}"',
            *([] if found.owned else [f"agents = {found.agents}"]),
            "",
            *_stream(found, file, batch),
            evaluate,
            *_objective(found),
            "",
            methods.replace("{step}", f"{_step(found):g}") + PRIVACY,
        ]
    )


def _regret(found: Look) -> list[str]:
    large = found.rows * found.width > LARGE
    why = "left out: on so large a table its solver takes minutes" if large else "0 leaves the regret out"
    return [f"regret_points = {0 if large else 8}".ljust(24) + f" # {why}"]


def _whose(found: Look) -> str:
    if found.source.several:
        return "one for each file"
    if found.owner is None:
        return "to whom rows are dealt (owner = ... in [stream] names a column instead)"
    return f"one for each owner in column {toml(found.owner)}"


def _stream(found: Look, file: Path, batch: int) -> list[str]:
    path = Path(os.path.relpath(found.path, file.parent)).as_posix()
    left_out = [comment(f"left out: {words}") for words in found.left_out]
    return [
        "[stream]                 # the table",
        f"kind = {toml(_kind(found.path))}",
        f"path = {toml(path)}",
        *(f"{key} = {toml(value)}" for key, value in settings_of(found.source.reading).items()),
        f"label = {toml(found.label)}",
        *([] if found.owner is None else [f"owner = {toml(found.owner)}"]),
        f"features = {toml(list(found.features))}",
        *left_out,
        *(['missing = "indicate"'.ljust(24) + " # a gap is 0, and a column says where"] if found.gaps else []),
        *_times(found),
        f"batch = {batch}",
        "passes = 1".ljust(24)
        + " # reads of every row: more help where rows are few, and figures of the rounds are then training ones",
    ]


def _times(found: Look) -> list[str]:
    if not found.times:
        return []
    name = toml(found.times[0])
    return [
        f"# time = {name}".ljust(24) + " # read the rows by time",
        f'# time_features = {{{name} = ["weekday", "month"]}}',
    ]


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return next((kind for kind, endings in ENDINGS.items() if name.endswith(endings)), "csv")


def _objective(found: Look) -> list[str]:
    kind, why = {
        "binary": ("logistic", "two classes"),
        "multiclass": ("softmax", f"{found.classes} classes"),
        "regression": ("squared", "numbers"),
    }[found.task]
    return [
        f"[objective]              # column {toml(found.label)} holds {why}",
        f'kind = "{kind}"',
        *([f"classes = {found.classes}"] if found.task == "multiclass" else []),
        "l2 = 1e-4",
    ]


def _step(found: Look) -> float:
    """Return a step that suits columns of deviation 1: a squared loss is as steep as there are columns."""
    return 0.3 if found.task != "regression" else float(f"{0.5 / (found.width + 1):.1g}")


def made_up_table(seed: int = 0) -> str:
    """Return a CSV file of made-up visits to five clinics."""
    chance = random.Random(seed)
    visits = []
    for clinic, count in CLINICS.items():
        for _ in range(count):
            age, days, smoker = chance.randint(20, 94), round(chance.gammavariate(2.0, 2.5), 1), chance.random() < 0.3
            ward = chance.choice(("general", "heart", "surgery"))
            risk = 0.06 * (age - 60) + 0.3 * (days - 5) + 1.2 * smoker + (1.0 if ward == "heart" else -0.3)
            back = "yes" if chance.random() < 1 / (1 + math.exp(-risk)) else "no"
            gap = chance.random() < 0.05
            visits.append([clinic, age, "" if gap else days, ward, "yes" if smoker else "no", back])
    chance.shuffle(visits)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["clinic", "age", "days", "ward", "smoker", "readmitted"])
    writer.writerows(visits)
    return text.getvalue()
