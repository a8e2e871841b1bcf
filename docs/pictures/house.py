"""Draws docs/pictures/house.svg, the packages with their sizes and a round's path: `python docs/pictures/house.py`."""

from __future__ import annotations

from pathlib import Path

from draw import BLUE, INK, ORANGE, PALE_BLUE, PALE_ORANGE, SOFT, Picture

ROOT = Path(__file__).parents[2]
FLOORS = [
    [
        ("cli", "commands"),
        ("board", "in a browser"),
        ("interop", "other libraries"),
        ("deploy", "peers, swarms"),
        ("sweeps", "many settings"),
    ],
    [("experiments", "TOML to runs"), ("config", "TOML to objects"), ("audit", "attacks a claim")],
    [("simulator", "all agents at once"), ("peer", "one agent, for real")],
    [
        ("results", "runs, reports"),
        ("models", "handed on"),
        ("runtime", "common to both"),
        ("metrics", "regret, scores"),
    ],
    [("algorithms", "methods as pure functions")],
    [("graphs", "links, weights"), ("streams", "data"), ("objectives", "losses"), ("privacy", "noise, ledger")],
    [("core", "the contract, errors, limits")],
]
"""From the top: a floor stands on those below it."""
ROUND = [
    ("stream", "simulator/data", "peer/sources"),
    ("compute", "runtime/calls", "runtime/calls"),
    ("release", "privacy/draws", "peer/machine/releases"),
    ("book", "privacy/spending", "privacy/ledger"),
    ("emit", "runtime/calls", "runtime/calls"),
    ("exchange", "simulator/delivery", "peer/transport"),
    ("absorb", "runtime/calls", "runtime/calls"),
    ("measure", "simulator/round_metrics", "peer/operations"),
]
"""A step of a round, and its place in the simulator and in a peer."""


def lines_of(folder: Path) -> int:
    """Return the number of lines of a package, generated code aside."""
    files = [file for file in folder.rglob("*.py") if "wire" not in file.parts]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def house() -> Picture:
    """Return the picture."""
    total, beside = lines_of(ROOT / "src" / "tacit"), lines_of(ROOT / "reproduction" / "src")
    picture = Picture(960, 560, "The packages of tacit with their lines, and the path of a round in both runtimes")
    picture.text(30, 36, f"src/tacit: {total:,} lines", 16, weight="600", anchor="start")
    width = 520
    for k, floor in enumerate(FLOORS):
        each = (width - 10 * (len(floor) - 1)) / len(floor)
        for j, (name, words) in enumerate(floor):
            x, y = 30 + j * (each + 10), 54 + k * 60
            runtime = name in ("simulator", "peer")
            picture.box(x, y, each, 50, PALE_ORANGE if runtime else PALE_BLUE, ORANGE if runtime else BLUE)
            size = lines_of(ROOT / "src" / "tacit" / name)
            picture.text(x + each / 2, y + 21, f"{name} {size:,}", 13 if len(floor) < 5 else 12, weight="600")
            picture.text(x + each / 2, y + 39, words, 12 if len(floor) < 5 else 11, SOFT)
    picture.box(30, 486, width, 50, "#ffffff", SOFT, "6 5")
    picture.text(30 + width / 2, 507, f"reproduction/  {beside:,}", 14, weight="600")
    picture.text(30 + width / 2, 525, "the five texts' experiments: a distribution of its own", 12, SOFT)
    picture.text(590, 36, "A round", 16, weight="600", anchor="start")
    picture.text(740, 36, "simulator", 13, ORANGE, weight="600")
    picture.text(875, 36, "peer", 13, ORANGE, weight="600")
    for k, (step, simulated, real) in enumerate(ROUND):
        y = 74 + k * 56
        picture.text(590, y + 5, step, 14, INK, anchor="start", weight="600")
        if simulated == real:
            picture.text(807, y + 5, simulated, 12, BLUE, weight="600")
        else:
            picture.text(740, y + 5, simulated, 12)
            picture.text(880, y + 5, real, 12)
        if k + 1 < len(ROUND):
            picture.arrow(612, y + 14, 612, y + 38, SOFT)
    picture.text(590, 525, "blue: the same code in both", 12, BLUE, anchor="start")
    return picture


if __name__ == "__main__":
    (Path(__file__).parent / "house.svg").write_text(house().svg(), encoding="utf-8")
