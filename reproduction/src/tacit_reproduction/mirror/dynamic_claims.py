"""Verdicts of `omd-dynamic`: pure functions of the measurements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import loglog_slope, mean_interval, paired_difference
from tacit_reproduction.experiment import Claim, seen_in
from tacit_reproduction.judging import Chain, brief, rising, shown
from tacit_reproduction.mirror.dynamic_runs import (
    CLIENTS,
    COMPARED,
    MOST_AWAY,
    PRIVATE,
    SPEEDS,
    Cell,
    Evidence,
    GeometryName,
    Refusal,
)
from tacit_reproduction.mirror.slopes import slope_of_mean

Floats = NDArray[np.float64]
PLACES: dict[GeometryName, str] = {"ball": "Euclidean ball", "simplex": "simplex, negative entropy"}
SPARE = 0.1
"""By which share of it a ratio may be above another and still not be called larger."""
GRACEFUL = (1 - MOST_AWAY) ** -2
"""A client that steps in a share of the rounds has a lag that is longer by the inverse of that share, and a lag costs
its square."""


BY_PATH, IN_BOUNDS, BY_PRIVACY = "path-length", "order", "privacy"
"""Our figures."""
OF_PATH = "(5.25): the bound has the term M V A_T / eta, linear in the path length; nothing was run"
OF_ORDER = "(5.25): order sqrt(T) (1 + A_T) for eta = c / sqrt(T), as we read it; nothing was run"
OF_REFUSAL = "section 5.1 takes every B graphs in a row to be strongly connected together, and checks nothing"


def judge(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict."""
    claims = []
    for name in PLACES:
        company = [
            _by_absence(evidence, name),
            _gracefully(evidence, name),
            *_learns(evidence, name),
            *(_better_than_alone(evidence, name) if name == "ball" else []),
        ]
        claims += [
            *seen_in(BY_PATH, _grows_with_path(evidence, name), text=OF_PATH),
            *seen_in(IN_BOUNDS, _order(evidence, name), text=OF_ORDER),
            *seen_in(BY_PATH, _excess(evidence, name), text=OF_PATH),
            *seen_in(IN_BOUNDS, _horizon(evidence, name), text=OF_ORDER),
            *seen_in(BY_PATH, *company),
            *seen_in(BY_PRIVACY, *_by_privacy(evidence, name)),
        ]
    return [*claims, refusal(evidence.refusal)._replace(text=OF_REFUSAL)]


def horizons(evidence: Evidence) -> list[int]:
    """Return the horizons, rising."""
    return sorted({cell.rounds for cell in evidence.cells})


def turning(speed: float) -> str:
    """Return "0.01 rad per round" or "standing still"."""
    return f"{speed:g} rad per round" if speed else "standing still"


def away_in_words(away: float) -> str:
    """Return "40 % away" or "everybody present"."""
    return f"{away:.0%} away".replace("%", " %") if away else "everybody present"


def ratio(evidence: Evidence, name: GeometryName, rounds: int) -> Floats:
    """Return (speeds, seeds) the regret in units of sqrt(T) (1 + A_T)."""
    length = evidence.grounds[name, rounds].path_length
    return np.asarray(evidence.cells[Cell(name, rounds)].regret / (rounds**0.5 * (1 + length)))


# -- drift -------------------------------------------------------------------------------------------------------------


def _grows_with_path(evidence: Evidence, name: GeometryName) -> Claim:
    rounds = horizons(evidence)[-1]
    length = evidence.grounds[name, rounds].path_length.mean(axis=1)
    regret = evidence.cells[Cell(name, rounds)].regret
    links = [(f"A_T = {brief(a, 3)}", values) for a, values in zip(length, regret, strict=True)]
    claim = f"Dynamic regret grows with the path length: {PLACES[name]}, T = {rounds:,}"
    return rising(claim, [Chain("regret per client", links)])


def _order(evidence: Evidence, name: GeometryName) -> Claim:
    times = horizons(evidence)
    constant = ratio(evidence, name, times[0])[0]
    largest, parts = -np.inf, []
    for rounds in times:
        found = ratio(evidence, name, rounds)
        parts.append(f"T = {rounds:,}: " + ", ".join(brief(float(row.mean()), 2) for row in found))
        others = found if rounds != times[0] else found[1:]
        largest = max(largest, *(paired_difference(row, constant).high for row in others))
    allowed = SPARE * float(constant.mean())
    speeds = ", ".join(f"{speed:g}" for speed in SPEEDS)
    figure = (
        f"regret per client / (sqrt(T) (1 + A_T)) at {speeds} rad per round: {'; '.join(parts)}; it holds where no "
        f"value is above the first, that of the shortest run without drift, by more than {100 * SPARE:g} % of it, "
        f"{brief(allowed, 2)}: the largest end of an interval of a difference (95 %, paired over {len(constant)} "
        f"seeds) is {brief(largest, 2)}"
    )
    claim = f"Regret has the order of the bound (5.25) for eta = c / sqrt(T), sqrt(T) (1 + A_T): {PLACES[name]}"
    return Claim(claim, bool(largest <= allowed), figure)


def _excess(evidence: Evidence, name: GeometryName) -> Claim:
    rounds = horizons(evidence)[-1]
    regret, length = evidence.cells[Cell(name, rounds)].regret, evidence.grounds[name, rounds].path_length
    excess, path = (regret[1:] - regret[0]).mean(axis=1), length[1:].mean(axis=1)
    local = np.diff(np.log(np.maximum(excess, 1e-300))) / np.diff(np.log(path))
    found = slope_of_mean(path, (regret[1:] - regret[0]).T)
    holds = bool(found.high <= 1)
    figure = (
        f"fit over all speeds: A_T^({found.mean:.2f}) [{found.low:.2f}, {found.high:.2f}] (95 %, jackknife over "
        f"{found.n} seeds); from speed to speed: {', '.join(f'{slope:.2f}' for slope in local)}"
    )
    if not holds:
        figure += (
            ". Why: the loss is smooth, and a model that lags behind by v / eta costs the square of that, so that "
            "slow drifts cost less than the bound's A_T by far and rise towards it; once the target is lost, the cost "
            "levels off near that of never learning. In units of the bound nothing grows (see the claim on its order)"
        )
    claim = f"What drift adds to the regret grows no faster than the path length: {PLACES[name]}, T = {rounds:,}"
    return Claim(claim, holds, figure)


def _horizon(evidence: Evidence, name: GeometryName) -> Claim:
    times = horizons(evidence)
    still = np.stack([evidence.cells[Cell(name, rounds)].regret[0] for rounds in times])
    slopes = mean_interval([loglog_slope(times, row).slope for row in still.T])
    values = ", ".join(f"T = {t:,}: {shown(row)}" for t, row in zip(times, still, strict=True))
    return Claim(
        f"Without drift the dynamic regret grows like sqrt(T) at most: {PLACES[name]}",
        bool(slopes.low <= 0.5),
        f"{values}; T^({slopes.mean:.2f}) [{slopes.low:.2f}, {slopes.high:.2f}] (95 %, {slopes.n} seeds); it holds "
        "where the interval reaches down to 0.5",
    )


# -- staying away ------------------------------------------------------------------------------------------------------


def _absences(evidence: Evidence, name: GeometryName) -> list[Cell]:
    rounds = horizons(evidence)[-1]
    found = [c for c in evidence.cells if c.geometry == name and c.rounds == rounds and c.epsilon is None]
    return sorted(found, key=lambda cell: cell.away)


def _by_absence(evidence: Evidence, name: GeometryName) -> Claim:
    found = _absences(evidence, name)
    chains = [
        Chain(turning(speed), [(away_in_words(c.away), evidence.cells[c].regret[k]) for c in found])
        for k, speed in enumerate(SPEEDS)
    ]
    return rising(f"The more clients stay away, the higher the regret, step by step: {PLACES[name]}", chains)


def _gracefully(evidence: Evidence, name: GeometryName) -> Claim:
    found = _absences(evidence, name)
    ratios = evidence.cells[found[-1]].regret / evidence.cells[found[0]].regret
    holds = all(mean_interval(row).high <= GRACEFUL for row in ratios)
    parts = ", ".join(f"{turning(v)} {shown(row)}" for v, row in zip(SPEEDS, ratios, strict=True))
    return Claim(
        f"With {away_in_words(MOST_AWAY)} the regret is at most {GRACEFUL:g} times that with everybody present: "
        f"{PLACES[name]}",
        holds,
        f"ratios: {parts}. The limit is (1 - {MOST_AWAY:g})^-2: who steps in a share of the rounds lags behind by the "
        "inverse of it, and a lag costs its square",
    )


def _learns(evidence: Evidence, name: GeometryName) -> list[Claim]:
    cell = _absences(evidence, name)[-1]
    regret, idle = evidence.cells[cell].regret, evidence.grounds[name, cell.rounds].idle
    chains = [
        Chain(turning(speed), [(away_in_words(cell.away), regret[k]), ("never learning", idle[k])])
        for k, speed in enumerate(SPEEDS)
    ]
    claim = f"With {away_in_words(MOST_AWAY)} the regret stays below that of never learning: {PLACES[name]}"
    slow = rising(f"{claim}, up to {turning(SPEEDS[-2])}", chains[:-1])
    fast = rising(f"{claim}, {turning(SPEEDS[-1])}", chains[-1:])
    if not fast.holds:
        rounds = 2 * np.pi / SPEEDS[-1]
        why = f"Why: the target is around in {rounds:.0f} rounds, faster than steps of c / sqrt(T) can follow."
        fast = fast._replace(figure=f"{fast.figure}. {why}")
    return [slow, fast]


def _better_than_alone(evidence: Evidence, name: GeometryName) -> list[Claim]:
    absences = _absences(evidence, name)
    alone = evidence.grounds[name, absences[0].rounds].alone
    assert alone is not None  # it is run at the last horizon
    note = "A client alone is never away and has the best of three steps."
    claims = []
    for cell in (absences[0], absences[-1]):
        words, regret = away_in_words(cell.away), evidence.cells[cell].regret
        chains = [Chain(turning(v), [(words, regret[k]), ("alone", alone[k])]) for k, v in enumerate(SPEEDS)]
        found = rising(f"Regret stays below that of a client alone, {words}: {PLACES[name]}", chains, note=note)
        if not found.holds and cell.away:
            why = (
                "Why: where the target is fast, the lag of who steps in a share of the rounds costs more than the "
                "noise of a client's own readings, which is all that company takes away."
            )
            found = found._replace(figure=f"{found.figure} {why}")
        claims.append(found)
    return claims


# -- privacy -----------------------------------------------------------------------------------------------------------


def _by_privacy(evidence: Evidence, name: GeometryName) -> list[Claim]:
    rounds, k = horizons(evidence)[-1], SPEEDS.index(COMPARED)
    noisy = [c for c in evidence.cells if c.geometry == name and c.rounds == rounds and c.epsilon and not c.away]
    noisy.sort(key=lambda cell: -(cell.epsilon or 0))
    idle = evidence.grounds[name, rounds].idle[k]
    links = [("no noise", evidence.cells[Cell(name, rounds)].regret[k])]
    links += [(f"eps = {cell.epsilon:g}", evidence.cells[cell].regret[k]) for cell in noisy]
    where = f"{PLACES[name]}, {turning(COMPARED)}"
    claims = [rising(f"Regret rises as eps falls: {where}", [Chain("", links)])]
    both = Cell(name, rounds, MOST_AWAY, PRIVATE)
    for cell in (both, noisy[-1]):
        words = f"eps = {cell.epsilon:g} per record, {away_in_words(cell.away)}"
        regret = evidence.cells[cell].regret[k]
        found = rising(
            f"Private regret stays below that of never learning: {words}: {where}",
            [Chain("", [(words, regret), ("never learning", idle)])],
        )
        if not found.holds:
            why = (
                f"Why: the average over {CLIENTS} clients does not outweigh noise of this size, and a step that is "
                "large enough to follow the target lets it in."
            )
            found = found._replace(figure=f"{found.figure}. {why}")
        claims.append(found)
    return claims


def refusal(found: Refusal) -> Claim:
    """Whether clients that stay away for longer than the declared window have the run refused before round 1."""
    message = "the run went through" if found.message is None else f"refused before round 1: “{found.message}”"
    longer = "goes through" if found.longer_runs else "is refused as well"
    figure = (
        f"half of the clients stay away from rounds {found.first} to {found.last}, window = {found.window}: {message}. "
        f"The same run with window = {found.longer} {longer}"
    )
    holds = found.message is not None and found.longer_runs
    return Claim("A run whose links leave somebody unreached for more than B rounds is refused", holds, figure)
