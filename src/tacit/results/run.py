"""A finished run: figures per round and repeat, the models, and where they came from."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.core.contract import Objective, Params
from tacit.core.errors import ConfigError
from tacit.metrics.constant import quick_averages
from tacit.metrics.held_out import Evaluation, HeldOut, evaluate_models, given_rows, task_of
from tacit.objectives import ConvexSet
from tacit.privacy.spending import RunPrivacy
from tacit.results.record import Record, figure, judged_totals, privacy_in_short, short_number
from tacit.results.record import record as make_record
from tacit.results.regret import (
    Constraints,
    DynamicRegret,
    RegretCurve,
    Told,
    dynamic_regret,
    regret_curve,
)
from tacit.streams import Stream
from tacit.streams.batch import Task
from tacit.streams.stream import ReadCounts

if TYPE_CHECKING:
    from tacit.models import Model
    from tacit.results.best import Chosen

Series = np.ndarray
"""(repeats, rounds) or (repeats, recorded rounds)."""


OF_PRIVATE_RUNS = ("clipped", "noise_to_signal")
"""Figures that private runs have besides: share of clipped gradients, and noise over signal of the releases."""


class Traffic(NamedTuple):
    """Messages and bits sent on one link set."""

    messages: np.ndarray
    """(repeats, rounds)."""
    bits: np.ndarray
    """(repeats, rounds), of what messages hold, without what a network wraps around them."""


@dataclass(eq=False, repr=False)
class Run:
    """The outcome of one algorithm on one graph and stream; `tacit.simulate` makes it.

    `per_round` holds (repeats, rounds) arrays: "loss" (mean over agents of f_it(x_it), before
    the update), the objective's score, "messages" sent, "bits" sent, and what else was asked for; where agents may be
    without a sample, also "present" (the share of them that have one; whose rounds are over loses nothing in "loss")
    and "present_loss" (the losses of these, over all agents). `recorded`
    holds figures of the state after the rounds in `recorded_rounds`: "consensus", the mean squared distance
    of the models from their mean.

    Example:
      >>> import tacit
      >>> ops = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> run = tacit.simulate(ops, tacit.graphs.directed_ring(8), tacit.streams.logistic_drift(8, 5), rounds=20)
      >>> run
      Run(online_push_sum, 8 agents, 20 rounds, loss ..., not private)
      >>> run.per_round["loss"].shape, run.average_loss().shape
      ((1, 20), (1,))
    """

    algorithm: str
    """Name of the method."""
    objective: Objective
    """Loss and regulariser."""
    agents: int
    """Number of learners."""
    rounds: int
    """That were finished."""
    repeats: int
    """Runs side by side, each with a seed of its own."""
    seed: int
    """Of the first repeat."""
    dtype: str
    """Precision: float32 or float64."""
    per_round: Mapping[str, Series]
    recorded_rounds: np.ndarray
    recorded: Mapping[str, Series]
    models: Params
    """Final models, leading axes (repeats, agents)."""
    privacy: RunPrivacy
    """Privacy promised, and spent by the run."""
    streams: Sequence[Stream]
    """One, or one per repeat."""
    graph: str
    """The graph, in words."""
    stream: str
    """The data, in words."""
    seconds: float
    """That the rounds took."""
    compile_seconds: float
    """That compiling took."""
    partial: bool = False
    """Whether the run was interrupted; all figures are those of the rounds that were finished."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The experiment as configured, which config.toml holds; empty for a run made in Python."""
    within: ConvexSet | None = None
    """The set that the models were kept in; None: no bounds."""
    constraints: Constraints = field(default_factory=dict)
    """Name -> c(params, batch), which the algorithm keeps at 0 or below in the long run; `per_round` holds the means
    over agents."""
    evaluated: str = "everyone"
    """Over whom losses are means: everyone, or the "cohort" that a round called."""
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    """Link set -> what was sent on it."""
    label: str = ""
    """Name in tables and legends; the algorithm's name where empty."""
    references: Mapping[str, str] = field(default_factory=dict)
    """What a private run is to be compared with ("without noise", say) -> label of that run."""
    is_reference: bool = False
    """Whether it was run to be compared with alone: no model is kept of it, which may have learnt without noise."""
    evaluation: Evaluation | None = None
    """Scores of the final models on held-out rows, once `evaluate` was asked for; [evaluate] of a file does so."""
    chosen: Chosen | None = None
    """Which of its models these are, where they are the best and not the last (`tacit.results.Best.of`)."""
    regret_seconds: float = field(default=0.0, init=False)
    """That the solver of the regret took so far."""
    _regret: dict[tuple[int, int | None], RegretCurve] = field(default_factory=dict, init=False, repr=False)
    _dynamic_regret: DynamicRegret | None = field(default=None, init=False, repr=False)

    def __repr__(self) -> str:
        facts = [
            self.label or self.algorithm,
            f"{self.agents:,} agents",
            f"{self.rounds:,} rounds" + (" (interrupted)" if self.partial else ""),
            *([f"{self.repeats} repeats"] if self.repeats > 1 else []),
            f"loss {short_number(float(self.average_loss().mean()))}",
            privacy_in_short(self.privacy.summary()),
        ]
        return f"Run({', '.join(facts)})"

    def average_loss(self) -> np.ndarray:
        """(repeats,) average over rounds and agents of the loss at prediction time, where there was a sample."""
        return self.running_average("loss")[:, -1]

    def running_average(self, name: str = "loss") -> Series:
        """(repeats, rounds) average of a per-round figure up to each round.

        Loss and score are those of agents that had a sample: whose rows are used up counts neither way.

        Args:
          name: Key of `per_round`.
        """
        totals, counts = judged_totals(self.per_round, name, self.objective.score_name)
        judged = np.cumsum(counts, axis=1)
        return np.asarray(np.cumsum(totals, axis=1) / np.where(judged > 0, judged, 1))

    def judged(self) -> Series:
        """(repeats, rounds) predictions up to each round by which loss and score are judged, per agent."""
        loss = self.per_round["loss"]
        present = self.per_round.get("present")
        return np.cumsum(np.ones(loss.shape) if present is None else np.asarray(present, np.float64), axis=1)

    def evaluate(self, x: Any, y: Any, owner: Any = None, *, task: Task | None = None) -> Evaluation:
        """Judge the final models by rows that were not learnt from; afterwards `metrics`, tables and `save` have it.

        Of a private run, the scores are made of rows that no noise protects: whoever sees them learns a little of these
        rows, which no account covers.

        Args:
          x: Rows as the models see them: columns, scaling and the column of ones as those of the stream.
          y: Labels (rows,), as of the stream.
          owner: Number of the agent whose row it is (rows,), -1 for nobody's; None: rows are nobody's.
          task: "binary", "multiclass" or "regression"; None: that of the objective.

        Returns:
          Scores of each owner's model on its own rows, of every model on all, of the mean model, and of a constant.
        """
        task = task_of(self.objective, task)
        held = given_rows(x, y, owner, self.agents, task)
        return self.evaluate_on([held.beside(self.streams[0], self.rounds, self.objective, self.models, task)], task)

    def evaluate_on(self, held: Sequence[HeldOut], task: Task) -> Evaluation:
        """Judge the final models by rows that are ready.

        Args:
          held: One for all repeats, or one for each.
          task: Kind of their labels.
        """
        self.evaluation = evaluate_models(self.objective, self.models, held, task)
        return self.evaluation

    def constant(self) -> dict[str, np.ndarray]:
        """(repeats,) average loss and score of a constant of each agent's own labels so far; empty where not known."""
        if self.evaluated != "everyone":
            return {}
        found = quick_averages(self.objective, self.streams, self.rounds)
        return {name: np.resize(values, self.repeats) for name, values in found.items()}

    def reads(self) -> ReadCounts:
        """Return how often records were read; more than once, loss and score are figures of training."""
        counts = (stream.read_counts(self.rounds) for stream in self.streams)
        return functools.reduce(ReadCounts.joined, counts)

    def regret(self, points: int = 8, window: int | None = None, *, told: Told | None = None) -> RegretCurve:
        """Return the static regret at log-spaced rounds, the last one final.

        The comparator is the best fixed model of the run's set. With `window` = K it also keeps the run's constraints,
        at every agent and in sum over any K rounds in a row (before round K there are none): K = 1 is the benchmark of
        the Dissertation, ch. 3, a longer one that of ch. 4. Without it the comparator need not keep them, which no
        method can match.

        The comparator of each prefix is solved for on all the data of that prefix, so this takes a while on
        large data; it is done once. Afterwards `metrics`, `save` and `plot` include it.

        Args:
          points: Number of rounds at which it is computed, from 1 on; the first is about a hundredth of the last.
          window: K, the rounds over which the comparator keeps the constraints; None: it need not keep them.
          told: Function that hears how many comparators are solved for, and of how many; None: none.

        Returns:
          Regret in total and per agent and round, with the certified gap of the comparator.
        """
        self._refuse_cohort("regret")
        if window is not None and not self.constraints:
            raise ConfigError(
                f"window = {window} in a run of {self.algorithm!r}, which has no constraints; leave the window out"
            )
        if (points, window) not in self._regret:
            begin = time.perf_counter()
            self._regret[points, window] = regret_curve(
                self.objective,
                self.streams,
                self.per_round["loss"],
                self.per_round.get("node_loss"),
                points,
                within=self.within,
                constraints=self.constraints,
                window=window,
                told=told,
            )
            self.regret_seconds += time.perf_counter() - begin
        return self._regret[points, window]

    @property
    def known_regret(self) -> RegretCurve | None:
        """The regret curve with the most points among those computed so far; of several, the one with constraints."""
        known = self._regret
        return known[max(known, key=lambda asked: (asked[0], asked[1] or 0))] if known else None

    def dynamic_regret(self) -> DynamicRegret:
        """Return the regret against the best model of each single round, and that model's path length.

        One model per round is solved for, in the run's set; it is done once.
        """
        self._refuse_cohort("dynamic regret")
        if self._dynamic_regret is None:
            loss = self.per_round["loss"]
            self._dynamic_regret = dynamic_regret(self.objective, self.streams, loss, within=self.within)
        return self._dynamic_regret

    def _refuse_cohort(self, what: str) -> None:
        if self.evaluated != "everyone":
            raise ConfigError(
                f"{what} of a run whose losses are those of a {self.evaluated}, but it compares those of all "
                "agents; run it with evaluate='everyone'"
            )

    def violation(self) -> dict[str, Series]:
        """(repeats, rounds) per constraint: sum over all agents and rounds 1..t of c_is(x_is).

        It is signed: below 0 there is room left. The cumulative violation of the Dissertation is its
        positive part, max(0, .).
        """
        return {
            name: self.agents * np.cumsum(np.asarray(self.per_round[name], np.float64), axis=1)
            for name in self.constraints
        }

    def metrics(self) -> dict[str, Any]:
        """Return the final figures: mean, 95 % interval over repeats and the repeats' values of each.

        Bounds are None with one repeat, and so is whatever is not finite. "messages" and "bits_per_agent" are
        totals of the run; a private one also has "clipped", the mean share of records whose gradient was above the
        clip, and "noise_to_signal", the mean over rounds of the noise's norm over that of the values released. Regret
        is among the figures once `regret` was asked for. "violation: NAME" is the sum of a constraint over all agents
        and rounds, 0 where that is negative.
        """
        score = self.objective.score_name
        consensus = self.recorded["consensus"]
        figures = {
            "average_loss": self.average_loss(),
            **{name: self._mean(name) for name in (score, *OF_PRIVATE_RUNS) if name in self.per_round},
            **({"final_consensus": consensus[:, -1]} if consensus.shape[1] else {}),
            "messages": self.per_round["messages"].sum(axis=1, dtype=np.int64),
            "bits_per_agent": self.per_round["bits"].sum(axis=1, dtype=np.int64) / self.agents,
        }
        if self.evaluation is not None:
            shown = self.evaluation.scores[self.evaluation.shown]
            figures |= {f"held-out {name}": values for name, values in shown.items()}
        for name, sums in self.violation().items():
            figures[f"violation: {name}"] = np.maximum(sums[:, -1], 0)
        regret = self.known_regret
        if regret is not None:
            figures["regret_total"] = regret.total[:, -1]
            figures["regret_per_agent_round"] = regret.per_agent_round[:, -1]
            if regret.node_total is not None and regret.node_per_agent_round is not None:
                figures["one_node_regret_total"] = regret.node_total[:, -1]
                figures["one_node_regret_per_agent_round"] = regret.node_per_agent_round[:, -1]
        return {name: figure(values) for name, values in figures.items()}

    def _mean(self, name: str) -> np.ndarray:
        """Mean over all predictions where there may be none, else over the rounds in which there is a figure."""
        if "present" in self.per_round and name != "noise_to_signal":
            return np.asarray(self.running_average(name)[:, -1])
        values = np.asarray(self.per_round[name], np.float64)
        judged = np.isfinite(values)
        return np.asarray(np.where(judged, values, 0).sum(axis=1) / np.maximum(judged.sum(axis=1), 1))

    def model(self, owner: str | None = None, repeat: int = 0) -> Model:
        """Return the model that came out: it predicts, is saved with a card, and is exported.

        It is the mean of all owners' models, and holds these beside it.

        Args:
          owner: Whose model alone, by the name in the data, or an agent's number as text; None: the mean of all.
          repeat: Of which repeat, from 0 on.
        """
        from tacit.results.run_model import model_of_run

        return model_of_run(self, owner, repeat)

    def record(self) -> Record:
        """Return what is kept of the run on disk and shown in reports: figures and a model, without the data."""
        return make_record(self)

    def save(self, directory: str | os.PathLike[str], *, command: str | None = None) -> Path:
        """Write the run's directory: config.toml, summary.json, trace.parquet, model and card, plots and report.html.

        All files are made first and then put in place, summary.json last and with the digests of the others: a
        reader of the directory finds all of them, or an error. Needs the extra `data`; without the extra `plots` the
        report has the only plots.

        Args:
          directory: Where to write; made if it is not there.
          command: Command line to print in the report.

        Returns:
          The directory.
        """
        from tacit.results.store import save

        return save(self.record(), Path(directory), command)

    def to_pandas(self) -> Any:
        """Return every figure as a long DataFrame: algorithm, repeat, round, metric, agent, value.

        Needs the extra `data`.
        """
        from tacit.results.tidy import to_pandas

        return to_pandas(self)

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Write the table of `to_pandas` as a Parquet file; needs the extra `data`.

        Args:
          path: File to write; its folder is made if it is not there.

        Returns:
          The path.
        """
        from tacit.results.tidy import to_parquet

        return to_parquet(self, Path(path))

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Draw the run's figures into one image; needs the extra `plots`.

        Args:
          path: File to write; its ending (.png, .svg, .pdf) is the format.

        Returns:
          The path.
        """
        from tacit.results.plots import draw_overview

        return draw_overview([self.record()], Path(path))
