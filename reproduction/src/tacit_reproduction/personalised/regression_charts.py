"""Figures and tables of `pgfl-regression`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from tacit_reproduction import promises
from tacit_reproduction.charts import Curve, log_curves, mean_points, points
from tacit_reproduction.drawing import IN_WORDS, means_of
from tacit_reproduction.experiment import Figure, Table
from tacit_reproduction.personalised.means import in_words
from tacit_reproduction.personalised.regression_claims import (
    AFTER,
    BY_DECAY,
    BY_FIRST,
    BY_TAU,
    ENDS,
    FADING,
    GFL,
    LEARNING,
    LOW_SIMILARITY,
    MIXED,
    NAMES,
    PLAIN,
    PUBLISHED,
    USUAL,
    WIDE,
    Sweeps,
    best,
    called,
)
from tacit_reproduction.personalised.regression_optimum import Arrival
from tacit_reproduction.personalised.regression_runs import (
    COHORT,
    EARLY,
    PENALTIES,
    ROUNDS,
    Evidence,
    Noise,
    Outcome,
    Problem,
    Setting,
)

NMSD, ROUND = "NMSD: ||w_k - w*||^2 / ||w*||^2", "round t"
TAU = "tau, weight of the other clusters' models"


def figures(evidence: Evidence, sweeps: Sweeps) -> list[Figure]:
    """Return all pictures."""
    return [
        _learning(evidence, sweeps),
        *([_over_tau(evidence, sweeps)] if len(sweeps.taus) > ENDS else []),
        _low_similarity(evidence),
        _over_first(evidence, sweeps),
        *([_over_decay(evidence, sweeps)] if sweeps.decays else []),
        _units(evidence, sweeps),
        _over_noise(evidence, sweeps),
        _over_penalty(evidence),
    ]


def _curve(outcome: Outcome) -> Curve:
    return Curve(outcome.rounds, outcome.deviation)


def _learning(evidence: Evidence, sweeps: Sweeps) -> Figure:
    private = {s: best(evidence, called(s, PUBLISHED), sweeps)[1] for s in sweeps.private}
    panels = {
        "(a) everybody called": {NAMES[s]: _curve(evidence[s, USUAL]) for s in sweeps.lineup},
        f"(b) {COHORT} clients called": {NAMES[s]: _curve(evidence[called(s), USUAL]) for s in sweeps.lineup},
        "(c) and with the published noise": {NAMES[s]: _curve(private[s]) for s in sweeps.private},
    }
    said = means_of(curve.values for panel in panels.values() for curve in panel.values())
    caption = f"As figure 5.1. In (c) every method has the best clip and penalty of the grid. {said} {IN_WORDS}"
    return log_curves(LEARNING, "NMSD round by round", caption, panels, ROUND, NMSD)


def _over_tau(evidence: Evidence, sweeps: Sweeps) -> Figure:
    taus = sorted(sweeps.taus)
    samples = {
        f"gamma up to {problem.spread:g}": [
            evidence[called(Setting("PGFL", tau)), problem].after(AFTER) for tau in taus
        ]
        for problem in (USUAL, WIDE)
    }
    series = {name: mean_points(values) for name, values in samples.items()}
    said = means_of(chain.from_iterable(samples.values()))
    caption = f"As figure 5.2, after {AFTER} rounds with a few called, without noise. {said} {IN_WORDS}"
    return points(BY_TAU, "NMSD by tau", caption, {"": series}, [f"{tau:g}" for tau in taus], TAU, NMSD, True)


def _low_similarity(evidence: Evidence) -> Figure:
    curves = {NAMES[s]: _curve(evidence[called(s), WIDE]) for s in (PLAIN, MIXED, FADING)}
    said = means_of(curve.values for curve in curves.values())
    caption = f"As figure 5.3, gamma up to {WIDE.spread:g}, a few called, without noise. {said} {IN_WORDS}"
    return log_curves(LOW_SIMILARITY, "Clusters that are less alike", caption, {"": curves}, ROUND, NMSD)


def _over_first(evidence: Evidence, sweeps: Sweeps) -> Figure:
    noises = {f"{first:.2g}": Noise(first) for first in sorted(sweeps.firsts)}
    note = f"At {max(sweeps.firsts):g} there is next to no noise."
    return _tradeoff(
        evidence,
        sweeps,
        BY_FIRST,
        "phi_0",
        "phi_0, zCDP rho of the first round",
        f"zeta = {PUBLISHED.decay:g}",
        noises,
        note,
    )


def _over_decay(evidence: Evidence, sweeps: Sweeps) -> Figure:
    noises = {f"{decay:g}": Noise(decay=decay) for decay in sorted({PUBLISHED.decay, *sweeps.decays})}
    return _tradeoff(
        evidence,
        sweeps,
        BY_DECAY,
        "zeta",
        "zeta, factor on the variance of the noise per round",
        f"phi_0 = {PUBLISHED.first:g}",
        noises,
        "",
    )


def _tradeoff(
    evidence: Evidence,
    sweeps: Sweeps,
    name: str,
    what: str,
    x_label: str,
    kept: str,
    noises: Mapping[str, Noise],
    note: str,
) -> Figure:
    found = [best(evidence, called(MIXED, noise), sweeps, AFTER)[1].after(AFTER) for noise in noises.values()]
    caption = f"As figure 5.4, PGFL tau = 0.4 after {AFTER} rounds, best clip and penalty of the grid. "
    caption += " ".join(filter(None, (means_of(found), note, IN_WORDS)))
    panels = {kept: {NAMES[MIXED]: mean_points(found)}}
    return points(name, f"NMSD by {what}", caption, panels, list(noises), x_label, NMSD, logarithmic=True)


def _units(evidence: Evidence, sweeps: Sweeps) -> Figure:
    quiet = Noise(max(sweeps.firsts))
    kinds = {f"noise of phi_0 = {PUBLISHED.first:g}": PUBLISHED, "clip, next to no noise": quiet}
    samples = {name: [evidence[called(MIXED, noise), p].last for p in sweeps.units] for name, noise in kinds.items()}
    series = {name: mean_points(values) for name, values in samples.items()}
    said = means_of(chain.from_iterable(samples.values()))
    caption = f"PGFL tau = 0.4 after {ROUNDS} rounds: a small C / rho makes noise and steps small alike. {said}"
    places = [f"C = {p.clip:g}\nrho = {p.penalty:g}" for p in sweeps.units]
    return points("units", "Clip and noise", caption, {"": series}, places, "clip C and penalty rho", NMSD, True)


def _over_noise(evidence: Evidence, sweeps: Sweeps) -> Figure:
    panels = {
        title: {
            NAMES[s]: mean_points([evidence[of(s), Problem(snr=n)].last for n in sweeps.noises]) for s in sweeps.lineup
        }
        for title, of in (("everybody called", lambda s: s), (f"{COHORT} clients called", called))
    }
    places = [f"{n:g}" for n in sweeps.noises]
    caption = "What the order of methods hangs on: the data's own noise, which the text does not give. "
    caption += means_of([evidence[MIXED, USUAL].last])
    return points(
        "data_noise", "NMSD by noise in the data", caption, panels, places, "SNR of the data (dB)", NMSD, True
    )


def _over_penalty(evidence: Evidence) -> Figure:
    rhos = [p for p in PENALTIES if (PLAIN, Problem(penalty=p)) in evidence]
    series = {
        f"{NAMES[s]}, after {n} rounds": mean_points([evidence[s, Problem(penalty=p)].after(n) for p in rhos])
        for s in (MIXED, PLAIN, GFL)
        for n in (EARLY, ROUNDS)
    }
    caption = "Everybody called. The penalty of all other figures is the fastest of these for tau = 0. "
    caption += means_of([evidence[PLAIN, USUAL].last])
    return points(
        "penalty", "NMSD by penalty", caption, {"": series}, [f"{p:g}" for p in rhos], "penalty rho", NMSD, True
    )


def tables(evidence: Evidence, sweeps: Sweeps, arrivals: Sequence[Arrival]) -> list[Table]:
    """Return all tables."""
    rows = [
        (stage, NAMES[setting], *_figures_of(evidence[of(setting), USUAL]), "none", "-", "-")
        for stage, of in (("everybody called", lambda s: s), (f"{COHORT} clients called", called))
        for setting in sweeps.lineup
    ]
    for setting in sweeps.private:
        _, outcome = best(evidence, called(setting, PUBLISHED), sweeps)
        rows.append(
            ("and published noise", NAMES[setting], *_figures_of(outcome), *promises.in_columns(outcome.privacy))
        )
    note = promises.note(best(evidence, called(s, PUBLISHED), sweeps)[1].privacy for s in sweeps.private)
    ends = [
        (
            "exact" if a.exact else "plain",
            a.problem.servers,
            f"{a.problem.penalty:g}",
            *(f"{float(np.max(d)):.2g}" for d in (a.distance, a.weighted)),
        )
        for a in arrivals
    ]
    return [
        Table(
            f"Mean NMSD after {ROUNDS} rounds, in dB",
            f"Of all clients, of the cluster and of the client that are worst off. {note}",
            ("setting", "method", "all clients", "worst cluster", "worst client", *promises.COLUMNS),
            rows,
        ),
        Table(
            "Distance to the cluster's optimum without mixing and noise",
            "Of the farthest client over all seeds, as a share of the optimum's size.",
            ("averaging", "servers", "rho", "to the optimum", "servers weighed by who hears them"),
            ends,
        ),
    ]


def _figures_of(outcome: Outcome) -> tuple[str, str, str]:
    return in_words(outcome.last), in_words(outcome.clusters.max(axis=1)), in_words(outcome.worst)
