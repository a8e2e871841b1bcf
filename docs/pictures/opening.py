"""Draws docs/pictures/opening.svg from three runs: `python docs/pictures/opening.py` (a minute)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from draw import BLUE, GREY, INK, ORANGE, PALE_BLUE, SOFT, Picture

import tacit

AGENTS, ROUNDS, EPSILON = 100, 500, 3.0
STEPS = {"alone": 3.0, "together": 3.0, "private": 1.0}
"""For each line the best of 0.03, 0.1, 0.3, 1 and 3 by its average loss."""
SMOOTHED = 25


def runs() -> dict[str, tacit.Run]:
    """Return one run for each line: alone, together, and together under noise."""
    objective = tacit.objectives.logistic(l2=1e-4)
    graph = tacit.graphs.random_digraph(AGENTS, out_degree=6, seed=1)
    stream = tacit.streams.logistic_drift(AGENTS, dim=20, batch=4, noise=0.5, heterogeneity=0.2, rounds=ROUNDS, seed=0)
    noise = tacit.privacy.laplace(EPSILON, clip=1.0, norm="l1")
    methods = {
        "alone": tacit.algorithms.local_online(objective, step=STEPS["alone"]),
        "together": tacit.algorithms.online_push_sum(objective, step=STEPS["together"]),
        "private": tacit.algorithms.online_push_sum(objective, step=STEPS["private"], mechanism=noise),
    }
    return {name: tacit.simulate(each, graph, stream, rounds=ROUNDS, progress=False) for name, each in methods.items()}


def smoothed(run: tacit.Run) -> np.ndarray:
    """Return the loss of each round, averaged over agents and over the rounds around it."""
    loss = np.asarray(run.per_round["loss"], np.float64).reshape(-1, ROUNDS).mean(axis=0)
    return np.convolve(loss, np.ones(SMOOTHED) / SMOOTHED, "valid")


def peers(picture: Picture) -> None:
    """Draw some peers with one-way links."""
    picture.text(155, 36, "Peers on a graph", 16, weight="600")
    count, centre, radius = 9, (155, 172), 96
    spots = [
        (centre[0] + radius * math.sin(2 * math.pi * k / count), centre[1] - radius * math.cos(2 * math.pi * k / count))
        for k in range(count)
    ]
    for k in range(count):
        for step in (1, 4):
            (x1, y1), (x2, y2) = spots[k], spots[(k + step) % count]
            length = math.dist(spots[k], spots[(k + step) % count])
            ux, uy = (x2 - x1) / length, (y2 - y1) / length
            picture.arrow(x1 + 18 * ux, y1 + 18 * uy, x2 - 18 * ux, y2 - 18 * uy, GREY if step == 4 else SOFT)
    for x, y in spots:
        picture.circle(x, y, 16, PALE_BLUE)
    picture.text(155, 306, "no server; data stay where they are", 13, SOFT)


def curves(picture: Picture, lines: dict[str, np.ndarray]) -> None:
    """Draw the loss of each line."""
    left, right, top, base = 350, 690, 62, 262
    low, high = 0.46, 0.70
    picture.text((left + right) / 2, 36, "Loss, together and alone", 16, weight="600")
    for value in (0.5, 0.6, 0.7):
        y = base - (value - low) / (high - low) * (base - top)
        picture.curve([(left, y), (right, y)], GREY)
        picture.text(left - 8, y + 5, f"{value:.1f}", 12, SOFT, anchor="end")
    styles = {"alone": (INK, "2 5"), "private": (ORANGE, "8 4"), "together": (BLUE, "")}
    for name, values in lines.items():
        x = np.linspace(left, right, len(values))
        y = base - (np.clip(values, low, high) - low) / (high - low) * (base - top)
        picture.curve(list(zip(x[::4].tolist(), y[::4].tolist(), strict=True)), styles[name][0], dash=styles[name][1])
    words = {"alone": "alone", "private": f"together, epsilon = {EPSILON:g}", "together": "together, open"}
    for k, name in enumerate(words):
        picture.curve([(500, 76 + 22 * k), (532, 76 + 22 * k)], styles[name][0], dash=styles[name][1])
        picture.text(540, 81 + 22 * k, f"{words[name]}: {lines[name][-1]:.3f}", 13, styles[name][0], anchor="start")
    picture.text((left + right) / 2, 306, f"{AGENTS} peers, {ROUNDS} rounds", 13, SOFT)


def account(picture: Picture, spent: float) -> None:
    """Draw one record's account."""
    picture.text(830, 36, "Privacy spent", 16, weight="600")
    x, top, height = 790, 70, 170
    filled = height * min(spent / EPSILON, 1)
    picture.box(x, top, 80, height, "#ffffff")
    picture.box(x, top + height - filled, 80, filled, PALE_BLUE, BLUE)
    picture.text(x + 40, top + height / 2 + 6, f"{spent:.2f}", 20, BLUE, weight="600")
    picture.text(830, 264, f"epsilon per record, of {EPSILON:.2f}", 13)
    picture.text(830, 306, "booked before anything leaves", 13, SOFT)


def opening() -> Picture:
    """Return the picture."""
    made = runs()
    title = "Peers on a graph learn together: their loss beside learning alone, and the privacy spent"
    picture = Picture(960, 330, title)
    peers(picture)
    curves(picture, {name: smoothed(run) for name, run in made.items()})
    account(picture, float(made["private"].privacy.summary()["epsilon"]))
    return picture


if __name__ == "__main__":
    (Path(__file__).parent / "opening.svg").write_text(opening().svg(), encoding="utf-8")
