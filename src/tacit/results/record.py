"""The part of a run that is kept: a summary, the settings, and a trace of the recorded rounds.

A finished run and one that was read back from disk give the same record, so tables, plots and reports are
made from records only.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.metrics import mean_interval
from tacit.metrics.divergence import divergence
from tacit.metrics.held_out import Evaluation
from tacit.results.regret import RegretCurve

if TYPE_CHECKING:
    from tacit.models import Model
    from tacit.results.run import Run


class Refusal(NamedTuple):
    """A method that could not be run."""

    label: str
    """Name in tables."""
    reason: str
    """Why, and the remedy."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Figures after each recorded round: (repeats, k) arrays."""

    rounds: NDArray[np.int64]
    """(k,)."""
    loss: NDArray[np.float64]
    """Mean over agents in that round, at prediction time."""
    average_loss: NDArray[np.float64]
    """Average of all rounds up to it."""
    score: NDArray[np.float64] | None
    """Average of the score over all rounds up to it."""
    consensus: NDArray[np.float64]
    """Mean squared distance of the models from their mean."""
    bits: NDArray[np.int64]
    """Sent by all agents together so far."""
    judged: NDArray[np.float64] | None = None
    """Predictions per agent that the averages are of; None: one in every round."""


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """One run as it stands on disk."""

    summary: dict[str, Any]
    """Content of summary.json."""
    settings: dict[str, Any]
    """Content of config.toml."""
    trace: Trace
    """Content of trace.parquet."""
    beside: str = ""
    """Directory that it was read from together with others: its references are among these."""
    make_model: Callable[[], Model | str] = lambda: "it was read from a directory"
    """Makes the model of a run that has just ended, or says why there is none."""

    @cached_property
    def model(self) -> Model | str:
        """The model of a run that has just ended, or why there is none."""
        return self.make_model()

    @property
    def label(self) -> str:
        """Name in tables and legends."""
        return str(self.summary["label"])

    @property
    def metrics(self) -> dict[str, Any]:
        """Final figures with intervals."""
        metrics: dict[str, Any] = self.summary["metrics"]
        return metrics

    @property
    def diverged(self) -> bool:
        """Whether its loss is not finite, or rose far beyond that of a model that has learnt nothing."""
        return bool(self.summary["diverged"]) or self.summary.get("divergence") is not None

    @property
    def divergence(self) -> str | None:
        """Where its loss rose beyond that of a model that has learnt nothing, and the remedy; None: nowhere."""
        found = self.summary.get("divergence")
        if found is None:
            return None
        repeats = self.summary["repeats"]
        where = "" if repeats == 1 else f" in {found['repeats']} of {repeats} repeats"
        loss = "is not finite" if found["loss"] is None else f"is {short_number(found['loss'])} at the end"
        without = "" if found["untrained"] is None else f", {short_number(found['untrained'])} without any learning"
        step = self.settings.get("algorithm", [{}])[0].get("step")
        smaller = f"a step below {step:g}" if isinstance(step, int | float) else "a smaller step"
        also = " or less noise" if self.summary["privacy"]["private"] else ""
        return (
            f"{self.label} diverged from round {found['round']:,} on{where}: its loss {loss}{without}; "
            f"{smaller}{also} may help"
        )

    @property
    def privacy(self) -> str:
        """The budget that was spent, in the words of a cell of a table."""
        return privacy_in_short(self.summary["privacy"])

    @property
    def training(self) -> bool:
        """Whether records were read more than once, so that figures of the rounds are those of training."""
        return bool((self.summary.get("reads") or {}).get("most", 1) > 1)

    def __repr__(self) -> str:
        facts = self.summary
        return f"Record({self.label}, {facts['agents']:,} agents, {facts['rounds']:,} rounds, {self.privacy})"

    def values(self, metric: str) -> NDArray[np.float64] | None:
        """Return the repeats' values of a metric, NaN where not finite; None where the run lacks it.

        Args:
          metric: Key of `metrics`, e.g. "average_loss".
        """
        found = self.metrics.get(metric)
        return None if found is None else np.array(found["values"], np.float64)


def privacy_in_short(found: dict[str, Any]) -> str:
    """Return a summary of privacy in as few words as a cell of a table holds."""
    if not found["private"]:
        return "not private"
    delta = f", delta {found['delta']:.2g}" if found["delta"] else ""
    return f"eps {found['epsilon']:.3g}{delta} per {found['unit']}"


def short_number(value: float) -> str:
    """Return a number with two decimals, or with two digits where those would say nothing."""
    return f"{value:.2f}" if 0.01 <= abs(value) < 1000 else f"{value:.2g}"


def record(run: Run) -> Record:
    """Return what is kept of a run."""
    from tacit.results.run_model import kept_model

    at = np.asarray(run.recorded_rounds, np.int64)
    score = run.objective.score_name
    trace = Trace(
        rounds=at,
        loss=np.asarray(run.per_round["loss"], np.float64)[:, at - 1],
        average_loss=run.running_average("loss")[:, at - 1],
        score=run.running_average(score)[:, at - 1] if score in run.per_round else None,
        consensus=np.asarray(run.recorded["consensus"], np.float64),
        bits=np.cumsum(run.per_round["bits"], axis=1, dtype=np.int64)[:, at - 1],
        judged=run.judged()[:, at - 1] if "present" in run.per_round else None,
    )
    return Record(_summary(run), run.settings or _settings(run), trace, make_model=partial(kept_model, run))


def judged_totals(
    per_round: Mapping[str, NDArray[Any]], name: str, score: str | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what a figure adds up to in each round, and the predictions per agent by which it is to be divided.

    Loss, score and the clipped share are those of agents that had a sample: whose rows are used up counts neither way.

    Args:
      per_round: Figures by name, as `run.per_round`.
      name: Of the figure.
      score: Name of the objective's score.
    """
    values = np.asarray(per_round[name], np.float64)
    if name == "loss" and "present_loss" in per_round:
        return np.asarray(per_round["present_loss"], np.float64), np.asarray(per_round["present"], np.float64)
    if name in (score, "clipped") and "present" in per_round:
        present = np.asarray(per_round["present"], np.float64)
        return np.where(present > 0, values, 0) * present, present  # where nobody has a sample there is no score
    return values, np.ones(values.shape)


def figure(values: ArrayLike) -> dict[str, Any]:
    """Return a metric of several repeats as it stands in summary.json; what is not finite becomes None."""
    numbers = np.asarray(values, np.float64)
    mean, low, high, _ = mean_interval(numbers) if np.isfinite(numbers).all() else (math.nan,) * 4
    return {
        "mean": _finite(mean),
        "low": _finite(low),
        "high": _finite(high),
        "values": [_finite(value) for value in numbers.tolist()],
    }


def with_interval(found: dict[str, Any] | None) -> str:
    """Write a metric as mean ± half its interval, to the digits that the interval leaves."""
    if found is None or found["mean"] is None:
        return "-"
    mean, high = found["mean"], found["high"]
    if high is None:
        return f"{mean:.4g}"
    half = high - mean
    digits = 4 if half == 0 else int(np.clip(1 - np.floor(np.log10(half)), 2, 8))
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    import jax

    return {
        "tacit": metadata.version("tacit"),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
    }


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def machine() -> str:
    """Return in words what this process computes on: processor, cores that it may use, accelerator."""
    import jax

    cores = len(usable_cores())
    device = jax.devices()[0]
    words = f"{_processor()}, {cores} {'core' if cores == 1 else 'cores'}"
    return words if device.platform == "cpu" else f"{words}, {device.device_kind}"


def _processor() -> str:
    try:
        facts = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in facts.splitlines() if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _summary(run: Run) -> dict[str, Any]:
    metrics = run.metrics()
    regret = run.known_regret
    found = divergence(run.objective, run.streams, run.per_round["loss"])
    return {
        "algorithm": run.algorithm,
        "label": run.label or run.algorithm,
        "metrics": metrics,
        "score_name": run.objective.score_name if run.objective.score_name in metrics else None,
        "regret": None if regret is None else _regret(regret),
        "privacy": run.privacy.summary(),
        "references": dict(run.references),
        "reads": run.reads()._asdict(),
        "constant": {name: figure(values) for name, values in run.constant().items()},
        **({} if run.evaluation is None else {"evaluation": _evaluation(run.evaluation)}),
        "timings": {"seconds": run.seconds, "compile_seconds": run.compile_seconds},
        "versions": versions(),
        "objective": run.objective.name,
        "seed": run.seed,
        "rounds": run.rounds,
        "repeats": run.repeats,
        "agents": run.agents,
        "dtype": run.dtype,
        "graph": run.graph,
        "stream": run.stream,
        "partial": run.partial,
        "diverged": not bool(np.isfinite(run.per_round["loss"]).all()),
        "divergence": None if found is None else found._asdict(),
    }


def _evaluation(found: Evaluation) -> dict[str, Any]:
    return {
        "task": found.task,
        "rows": found.rows,
        "how": found.how,
        "shown": found.shown,
        "scores": {
            whose: {name: figure(values) for name, values in scores.items()} for whose, scores in found.scores.items()
        },
        "constant": {name: figure(values) for name, values in found.constant.items()},
        "by_owner": [
            {
                "owner": each.owner,
                "rows": each.rows,
                "scores": {name: _finite(value) for name, value in each.scores.items()},
            }
            for each in found.by_owner
        ],
    }


def _regret(curve: RegretCurve) -> dict[str, Any]:
    def rows(values: NDArray[np.float64] | None) -> list[list[float | None]] | None:
        return None if values is None else [[_finite(value) for value in row] for row in values.tolist()]

    return {
        "rounds": curve.rounds.tolist(),
        "per_agent_round": rows(curve.per_agent_round),
        "one_node_per_agent_round": rows(curve.node_per_agent_round),
        "comparator_gap": curve.gap,
        "comparator_converged": curve.converged,
    }


def _settings(run: Run) -> dict[str, Any]:
    """Say what is known of a run that was made in Python, where there is no configuration to copy."""
    return {
        "run": {"rounds": run.rounds, "repeats": run.repeats, "seed": run.seed, "dtype": run.dtype},
        "described": {
            "note": "This run was made in Python: what it was made of is described here, not configured.",
            "algorithm": run.algorithm,
            "objective": run.objective.name,
            "agents": run.agents,
            "graph": run.graph,
            "stream": run.stream,
        },
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
