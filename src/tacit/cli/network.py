"""Network privacy of an experiment: what each single observer learns, as a table, a matrix and a picture."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.audit import LinearMethod, linear_network
from tacit.cli.common import check_directory, counted, print_table, say
from tacit.config.sections import located
from tacit.core import limits
from tacit.core.errors import ConfigError, TacitError
from tacit.experiments import build, load
from tacit.experiments.build import Problem
from tacit.privacy import NetworkLoss
from tacit.privacy.network import ASSUMPTIONS

Floats = NDArray[np.float64]
_SHADES = 24
_CELL, _EDGE, _LINE = 8, 60, 18
"""Pixels of a heat map: largest cell, margin, line of text."""


def show(file: Path, rounds: int | None, delta: float, out: Path | None) -> None:
    """Print the loss by distance of every algorithm of an experiment, and write matrices and heat maps."""
    if out is not None:
        check_directory(out)
    problem = build(load(file))
    asked = problem.config.run.rounds if rounds is None else rounds
    if not 1 <= asked <= problem.config.run.rounds:
        raise ConfigError(f"--rounds {asked}: expected 1 to {problem.config.run.rounds}, the rounds of {file}")
    if not 0 < delta < 1:
        raise ConfigError(f"--delta {delta:g}: expected a number above 0 and below 1")
    done = 0
    for k, label in enumerate(problem.config.labels):
        looked_at = f"first {counted(asked, 'round')} of {problem.config.run.rounds:,}"
        say(f"{label}: {looked_at}, graph of seed {problem.config.run.seed}, delta = {delta:g}")
        try:
            with limits.memory(problem.config.run.memory):
                method = _linear(problem, k, asked)
                loss = method.loss()
        except TacitError as error:
            say(f"  {error}\n")
            continue
        done += 1
        distance = method.network.distances()
        _print_loss(loss, distance, delta)
        if out is not None:
            _write(out, f"{k + 1}-{re.sub(r'[^a-z0-9]+', '-', label.lower()).strip('-')}", label, loss, distance, delta)
    if not done:
        raise ConfigError(f"{file}: network privacy is known of none of its algorithms, for the reasons above")
    say("What this stands on:")
    for sentence in ASSUMPTIONS:
        say(f"- {sentence}")


def _linear(problem: Problem, number: int, rounds: int) -> LinearMethod:
    choice, seed = problem.config.algorithms[number], problem.config.run.seed
    with located(choice.place):
        return linear_network(
            lambda objective: choice.function(objective, **choice.arguments()),
            problem.objective,
            problem.graph(seed),
            problem.stream(seed),
            rounds,
            problem.channel,
        )


def _print_loss(loss: NetworkLoss, distance: Floats, delta: float) -> None:
    epsilon, rho = loss.epsilon(delta), loss.rho
    rows = []
    for hops in np.unique(distance[~np.eye(len(distance), dtype=bool)]):
        at = distance == hops
        figures = [f"{of(epsilon[at]):.4g}" for of in (np.min, np.mean, np.max)]
        far = f"{hops:.0f}" if np.isfinite(hops) else "never reached"
        rows.append([far, f"{int(at.sum()):,}", *figures, f"{rho[at].max():.4g}"])
    everything = [f"{loss.strong_epsilon(delta):.4g}", f"{float((loss.strong**2 / 2).max()):.4g}"]
    rows.append(["sees everything", f"{len(distance):,}", "", "", *everything])
    titles = ["observer's distance", "pairs", "least epsilon", "mean epsilon", "largest epsilon", "largest rho"]
    print_table(titles, rows)


def _write(out: Path, name: str, label: str, loss: NetworkLoss, distance: Floats, delta: float) -> None:
    """Write the matrix of epsilon, agents by observers, and its picture."""
    out.mkdir(parents=True, exist_ok=True)
    epsilon = loss.epsilon(delta)
    lines = [",".join(["agent", *(f"observer {v}" for v in range(len(epsilon)))])]
    for agent, row in enumerate(epsilon):
        lines.append(",".join([str(agent), *("" if np.isnan(value) else f"{value:.9g}" for value in row)]))
    matrix, picture = out / f"{name}.csv", out / f"{name}.svg"
    matrix.write_text("\n".join(lines) + "\n", encoding="utf-8")
    picture.write_text(heat_maps(label, epsilon, distance, loss.strong_epsilon(delta)), encoding="utf-8")
    say(f"  {matrix}, {picture}\n")


def heat_maps(label: str, epsilon: Floats, distance: Floats, strong: float) -> str:
    """Return an SVG of two heat maps: epsilon by agent and observer, and its largest by agent and distance."""
    hops = [float(h) for h in np.unique(distance[~np.eye(len(distance), dtype=bool)]) if np.isfinite(h)]
    at = [np.where(distance == h, epsilon, np.nan) for h in hops]
    nearest = np.stack([np.max(np.nan_to_num(each, nan=-1.0), axis=1) for each in at], axis=1)
    by_distance = np.where(nearest < 0, np.nan, nearest)
    cell = max(2, min(3 * _CELL, 480 // len(epsilon)))
    step = max(1, len(epsilon) // 10)
    numbers = [str(k) if k % step == 0 else "" for k in range(len(epsilon))]
    right = _EDGE + cell * len(epsilon) + _EDGE
    wide, high = max(cell, 2 * _CELL), _EDGE + cell * len(epsilon) + 3 * _LINE
    parts = [
        _text(_EDGE, _LINE, f"{label}: epsilon from an agent (down) to one observer (across)", "start"),
        *_grid(epsilon, strong, _EDGE, _EDGE, cell, cell, numbers, numbers, "observer"),
        *_grid(by_distance, strong, right, _EDGE, wide, cell, numbers, [f"{h:.0f}" for h in hops], "distance"),
        _text(_EDGE, high, f"white: 0; darkest: {strong:.3g}, the strong figure; sand: none", "start"),
    ]
    width = max(right + wide * len(hops) + _EDGE, 620)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{high + _LINE}" '
        f'viewBox="0 0 {width} {high + _LINE}" font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )


def _grid(
    values: Floats, most: float, x: int, y: int, wide: int, high: int, rows: list[str], columns: list[str], across: str
) -> list[str]:
    """Return the shapes of one heat map, one path per shade."""
    share = np.nan_to_num(values / most if most > 0 else 0 * values, nan=-1.0)
    shade = np.where(share < 0, -1, np.ceil(np.clip(share, 0, 1) * _SHADES))
    size = (wide * values.shape[1], high * values.shape[0])
    parts = [f'<rect x="{x}" y="{y}" width="{size[0]}" height="{size[1]}" fill="white" stroke="#999"/>']
    for level in np.unique(shade[shade != 0]):
        where = zip(*np.nonzero(shade == level), strict=True)
        cells = "".join(f"M{x + wide * int(j)} {y + high * int(i)}h{wide}v{high}h-{wide}z" for i, j in where)
        parts.append(f'<path fill="{_colour(level / _SHADES)}" d="{cells}"/>')
    parts += [_text(x - 4, y + high * k + high / 2 + 4, word, "end") for k, word in enumerate(rows) if word]
    parts += [_text(x + wide * k + wide / 2, y - 4, word, "middle") for k, word in enumerate(columns) if word]
    return [*parts, _text(x + size[0] / 2, y - 4 - _LINE, across, "middle")]


def _colour(share: float) -> str:
    """Return white to dark blue for 0 to 1; sand for what is none (an agent and itself, no observer)."""
    if share < 0:
        return "#e8dcc0"
    return "#" + "".join(f"{round(255 + share * (dark - 255)):02x}" for dark in (8, 48, 107))


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="#222">{html.escape(words)}</text>'
