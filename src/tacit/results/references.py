"""Runs beside each other, in words: who won, by how much, and at what cost in privacy and in bits.

A private run is compared with its references one by one (`findings`); `headline` is about all runs. Differences are
paired: by repeat, or in a single run by the blocks between its recorded rounds (batch means). One whose 95 % interval
holds 0 is none: "about the same".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.metrics import mean_interval
from tacit.results.record import Record, Trace

WITHOUT_NOISE, ALONE = "without noise", "alone, same noise"
ALONE_WITHOUT_NOISE, CONSTANT = "alone, without noise", "constant"
IN_WORDS = {
    WITHOUT_NOISE: "the same without noise",
    ALONE: "alone with the same noise",
    ALONE_WITHOUT_NOISE: "alone without noise",
    CONSTANT: "a constant",
}
"""What a private run is compared with."""
CAUTIONS = {
    CONSTANT: "the noise hides what there is to learn",
    ALONE: "who takes part learns less than alone at the same price",
    ALONE_WITHOUT_NOISE: "who takes part learns less than alone and without telling",
}
"""References that a private run should not be worse than -> what it means if it is."""
REMEDY = "larger batches, fewer rounds or a larger epsilon may help; `tacit privacy plan` says which"
HIGHER_IS_BETTER = {"accuracy": True, "mse": False, "held-out accuracy": True, "held-out RMSE": False}
"""Scores of which it is known; of others the loss decides."""
HELD_OUT = tuple(name for name in HIGHER_IS_BETTER if name.startswith("held-out"))
"""Those of rows that no model learnt from: they decide where losses are of training."""
NONE: Mapping[str, float | None] = {"mean": None}
MOST_NAMED = 3
"""Runs of a kind that the headline names."""
Outcome = Literal["better", "worse", "about the same"]


class Match(NamedTuple):
    """A private run against one reference."""

    kind: str
    outcome: Outcome
    theirs: float
    margin: float
    """By how much the means differ, 0 or more."""
    half: float
    """Half of the difference's 95 % interval; infinite where it is not known."""
    cost: str = ""
    """Privacy that the reference spent, where it has the same noise but not the same cost."""

    def words(self) -> str:
        """Return the reference, its figure and the margin."""
        cost = f" at {self.cost}" if self.cost else ""
        return f"{IN_WORDS[self.kind]}{cost} ({_number(self.theirs)}, by {_margin(self.margin, self.half)})"


class Finding(NamedTuple):
    """A private run against all of its references."""

    record: Record
    metric: str
    matches: tuple[Match, ...]

    def sentence(self) -> str:
        """Say who won."""
        own = self.record.metrics[_key(self.metric)]["mean"]
        figure = "diverged" if own is None else f"has {self._judge} {_number(own)}"
        parts = []
        for outcome, word in (
            ("better", "better than"),
            ("about the same", "about the same as"),
            ("worse", "worse than"),
        ):
            those = [match.words() for match in self.matches if match.outcome == outcome]
            if those:
                parts.append(f"{word} {_listed(those)}")
        return f"{self.record.label}, with {self.record.privacy}, {figure}: {'; '.join(parts)}."

    def cautions(self) -> list[str]:
        """Say what the run is worse than though it should not be."""
        worse = {match.kind: match for match in self.matches if match.outcome == "worse"}
        by = f", by {self._judge}," if self.record.training else ""
        return [
            f"{self.record.label}{by} is worse than {worse[kind].words()}: {meaning}; {REMEDY}"
            for kind, meaning in CAUTIONS.items()
            if kind in worse
        ]

    @property
    def _judge(self) -> str:
        """Name of the figure; held-out ones, which may say otherwise, stand beside it in the table."""
        return f"training {self.metric}" if self.record.training else self.metric


def findings(records: Sequence[Record], same: Sequence[str]) -> list[Finding]:
    """Compare every private run with those of its references that are there.

    Args:
      records: Runs.
      same: Facts that a run must share with its references, besides the label that it knows them by.
    """
    found = []
    for record in records:
        known: Mapping[str, str] = record.summary.get("references", {})
        there = [
            r for r in records if r.beside == record.beside and all(r.summary[k] == record.summary[k] for k in same)
        ]
        called = {kind: [other for other in there if other.label == known.get(kind)] for kind in IN_WORDS}
        # Of two that are called so nobody knows which is meant.
        others = {kind: found[0] for kind, found in called.items() if len(found) == 1}
        if others and not record.summary["partial"]:
            metric = _metric([record, *others.values()])
            matches = (_match(kind, metric, record, other) for kind, other in others.items())
            found.append(Finding(record, metric, tuple(match for match in matches if match is not None)))
    return [finding for finding in found if finding.matches]


def uncompared(records: Sequence[Record]) -> list[Record]:
    """Return the private runs that know of no reference, and are none."""
    serving = {label for record in records for label in record.summary.get("references", {}).values()}
    known = [record for record in records if record.summary.get("references") or record.label in serving]
    return [record for record in records if record.summary["privacy"]["private"] and record not in known]


def headline(records: Sequence[Record], differences: Sequence[str] = ()) -> str:
    """Say in one sentence which run has the lowest loss, if it can be told, and what it costs in privacy and bits.

    Where records were read more than once and rows were held out, the score on these decides in place of the loss.
    References that were added to compare private runs with do not compete: they say what noise costs.

    Args:
      records: Runs.
      differences: In what they differ besides the method; where this is not empty, nobody has won.
    """
    lost = [record for record in records if record.diverged or record.metrics["average_loss"]["mean"] is None]
    there = [record for record in records if record not in lost]
    if not there:
        return f"{_listed([record.label for record in lost])} diverged: there is no model to compare."
    if differences:
        return f"Nobody has won: these runs are not of one problem ({'; '.join(differences)})."
    added = _added(records)
    racing = [record for record in there if record.label not in added] or there
    metric = _judged_by(racing)
    best = _first(racing, metric)
    constant, own = _constant(best, metric), float(best.metrics[_key(metric)]["mean"])
    better = constant is None or (own > constant if HIGHER_IS_BETTER.get(metric, False) else own < constant)
    who, against = _who(best, [record for record in racing if record is not best], metric, better)
    if constant is not None:
        value = _number(constant)
        who = f"{who}; a constant has {value}" if better else f"Nothing beats a constant, which has {value}: {who}"
    prices = [*_prices(racing, there, metric), _sent([best, *against])]
    parts = [who, *_by_score(best, racing), *prices]
    if lost:
        parts.append(f"{_listed([record.label for record in lost])} diverged")
    partial = any(record.summary["partial"] for record in records)
    began = f"After {best.summary['rounds']:,} rounds, interrupted: " if partial else ""
    return f"{began}{'; '.join(parts)}."


def _added(records: Sequence[Record]) -> set[str]:
    """Return the labels of references that nobody asked for by name: those that are called what they are for."""
    added = set()
    for record in records:
        for kind, label in record.summary.get("references", {}).items():
            if kind == CONSTANT or label.removeprefix(f"{record.label}: ").startswith(kind):
                added.add(label)
    return added


def _judged_by(racing: Sequence[Record]) -> str:
    if any(record.training for record in racing):
        for name in HELD_OUT:
            if all(record.metrics.get(name, NONE)["mean"] is not None for record in racing):
                return name
    return "loss"


def _first(racing: Sequence[Record], metric: str) -> Record:
    best = max if HIGHER_IS_BETTER.get(metric, False) else min
    return best(racing, key=lambda record: float(record.metrics[_key(metric)]["mean"]))


def _who(best: Record, others: Sequence[Record], metric: str, wins: bool) -> tuple[str, list[Record]]:
    """Say who is first, and return whom it is measured against: those level with it, or else the next."""
    name, figures = _figures(best, metric)
    most, beyond = ("highest", "above") if HIGHER_IS_BETTER.get(metric, False) else ("lowest", "below")
    pairs = ((other, _match(WITHOUT_NOISE, metric, best, other)) for other in others)
    margins = [(other, match) for other, match in pairs if match is not None]
    if not margins:
        return f"{best.label} has {name} {figures}", []
    level = [(other, match) for other, match in margins if match.outcome == "about the same"]
    if level:
        more = [f"{len(level) - MOST_NAMED} more"] if len(level) > MOST_NAMED else []
        named = _listed([*(other.label for other, _ in level[:MOST_NAMED]), *more])
        known = any(math.isfinite(match.half) for _, match in level)
        why = "the 95 % interval of the paired difference holds 0" if known else "one repeat has no interval"
        words = (
            f"No clear winner: {best.label} has the {most} {name}, {figures}, but {named} cannot be told from it: {why}"
        )
        return words, [other for other, _ in level[:MOST_NAMED]]
    nearest, match = min(margins, key=lambda pair: pair[1].margin)
    margin = _margin(match.margin, match.half)
    first = f"{best.label} wins: it" if wins else best.label
    words = f"{first} has the {most} {name}, {figures}, {margin} {beyond} the next, {nearest.label}"
    return words, [nearest]


def _constant(best: Record, metric: str) -> float | None:
    """Return what a constant has, without which no figure says whether anything was learnt."""
    held_out = metric in HELD_OUT
    table = (best.summary.get("evaluation") or {}).get("constant") if held_out else best.summary.get("constant")
    value: float | None = (table or {}).get(_key(metric).removeprefix("held-out "), NONE)["mean"]
    return value


def _by_score(best: Record, racing: Sequence[Record]) -> list[str]:
    """Name the run that has a better score than the first, where there is one."""
    metric = _metric(racing)
    if metric == "loss" or any(record.metrics[metric]["mean"] is None for record in racing):
        return []
    top = _first(racing, metric)
    match = _match(WITHOUT_NOISE, metric, top, best)
    ahead = match is not None and match.outcome == "better"
    return [f"by {metric} {top.label} is ahead, with {_interval(top.metrics[metric])}"] if ahead else []


def _figures(record: Record, metric: str) -> tuple[str, str]:
    """Return the name of the figure that decides, and the figure with the others in brackets."""
    training = "training " if record.training else ""
    score = str(record.summary["score_name"])
    names = {f"average {training}loss": "average_loss", f"{training}{score}": score}
    names |= {name: name for name in HELD_OUT}
    known = {
        words: _interval(record.metrics[key])
        for words, key in names.items()
        if record.metrics.get(key, NONE)["mean"] is not None
    }
    first = next(words for words in known if names[words] == _key(metric))
    others = [f"{words} {figure}" for words, figure in known.items() if words != first]
    return first, known[first] + (f" ({', '.join(others)})" if others else "")


def _interval(found: Mapping[str, float]) -> str:
    return _margin(found["mean"], math.inf if found["high"] is None else found["high"] - found["mean"])


def _prices(racing: Sequence[Record], there: Sequence[Record], metric: str) -> list[str]:
    """Say what noise costs each private run; the rest is not private."""
    private = [record for record in racing if record.summary["privacy"]["private"]]
    if not private:
        return ["none of them is private"] if len(racing) > 1 else ["it is not private"]
    parts = []
    for record in private[:MOST_NAMED]:
        label = record.summary.get("references", {}).get(WITHOUT_NOISE)
        quiet = [other for other in there if other.label == label and other.beside == record.beside]
        match = _match(WITHOUT_NOISE, metric, record, quiet[0]) if len(quiet) == 1 else None
        if match is None:
            cost = "what its noise costs was not measured"
        elif match.outcome == "about the same":
            cost = f"its noise costs nothing that can be told ({_margin(match.margin, match.half)} in {metric})"
        else:
            word = "costs" if match.outcome == "worse" else "saves"
            cost = f"its noise {word} {_margin(match.margin, match.half)} in {metric}"
        parts.append(f"{record.label} spends {record.privacy.replace('eps', 'epsilon', 1)}, and {cost}")
    return parts


def _sent(records: Sequence[Record]) -> str:
    amounts = [record.metrics["bits_per_agent"]["mean"] / record.summary["rounds"] for record in records]
    parts = [
        f"{record.label} sends {f'{bits:,.0f} bits' if bits else 'nothing'}"
        for record, bits in zip(records, amounts, strict=True)
    ]
    return _listed(parts) + (" per agent and round" if any(amounts) else "")


def _metric(records: Sequence[Record]) -> str:
    name = records[0].summary["score_name"]
    return name if name in HIGHER_IS_BETTER and all(name in record.metrics for record in records) else "loss"


def _key(metric: str) -> str:
    return "average_loss" if metric == "loss" else metric


def _match(kind: str, metric: str, record: Record, other: Record) -> Match | None:
    ours, theirs = (each.metrics.get(_key(metric), NONE)["mean"] for each in (record, other))
    if theirs is None:
        return None
    cost = other.privacy if kind == ALONE and other.privacy != record.privacy else ""
    if ours is None:
        return Match(kind, "worse", theirs, math.inf, math.inf, cost)
    sign = 1 if HIGHER_IS_BETTER.get(metric, False) else -1
    with np.errstate(over="ignore", invalid="ignore"):  # losses near the largest number
        interval = mean_interval(sign * _differences(record, other, metric))
    half = interval.high - interval.mean
    ahead = sign * (ours - theirs)
    # A difference without spread is one, as that of a run from itself is none.
    known = math.isfinite(half) and abs(ahead) > half
    outcome: Outcome = "about the same" if not known else "better" if ahead > 0 else "worse"
    return Match(kind, outcome, theirs, abs(ahead), half, cost)


def _differences(record: Record, other: Record, metric: str) -> NDArray[np.float64]:
    """Return independent differences of two runs: by repeat, or of single ones by the blocks that both recorded."""
    if record.summary["repeats"] > 1 or metric in HELD_OUT:
        ours, theirs = record.values(_key(metric)), other.values(_key(metric))
        assert ours is not None
        assert theirs is not None
        return ours - theirs
    at = np.intersect1d(record.trace.rounds, other.trace.rounds)
    (ours, count), (theirs, others) = (_blocks(each.trace, metric, at) for each in (record, other))
    there = (count > 0) & (others > 0)
    return ours[there] / count[there] - theirs[there] / others[there] if there.any() else np.array([np.nan])


def _blocks(trace: Trace, metric: str, at: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sums of a figure, and the predictions that they are of, between some recorded rounds of a single run."""
    averages = trace.average_loss if metric == "loss" else trace.score
    assert averages is not None
    judged = trace.rounds.astype(np.float64) if trace.judged is None else trace.judged[0]
    there = np.isin(trace.rounds, at)
    return np.diff((averages[0] * judged)[there], prepend=0), np.diff(judged[there], prepend=0)


def _number(value: float) -> str:
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def _margin(margin: float, half: float) -> str:
    return _number(margin) if not math.isfinite(half) else f"{_number(margin)} ± {half:.1g}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
