"""Metrics of a running peer, for Prometheus.

One table declares them all, with their labels. No message from outside can add a series: the names of neighbours come
from the peer's own configuration, reasons and outcomes from fixed sets, and any other value is counted as "other".
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable, Iterator
from itertools import product
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tacit.core.errors import ContractError

OTHER = "other"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge"]
Family = CounterMetricFamily | GaugeMetricFamily
_FAMILIES: dict[Kind, type[Family]] = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}


class Metric(NamedTuple):
    """One series, or one per combination of its labels."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


METRICS = (
    Metric("tacit_round", "gauge", "Round in which this peer is."),
    Metric("tacit_lag_rounds", "gauge", "Rounds by which the furthest neighbour is ahead of this peer."),
    Metric("tacit_refusals_total", "counter", "Messages and connections that were refused.", ("reason",)),
    Metric("tacit_messages_sent_total", "counter", "Messages sent, repetitions included.", ("to",)),
    Metric("tacit_messages_received_total", "counter", "Messages accepted.", ("from",)),
    Metric("tacit_sent_bytes_total", "counter", "Bytes of messages sent, repetitions included.", ("to",)),
    Metric(
        "tacit_received_bytes_total", "counter", "Bytes of messages that arrived, refused ones included.", ("from",)
    ),
    Metric("tacit_connected", "gauge", "1 while the link is up.", ("neighbour", "direction")),
    Metric("tacit_links", "gauge", "Links by state; a quarantined neighbour's count as that.", ("direction", "state")),
    Metric("tacit_failed", "gauge", "1 where rounds have ended with a fault, as by a spent budget."),
    Metric("tacit_model_finite", "gauge", "0 where the model has diverged; 1 without a model too."),
    Metric("tacit_disk_free_bytes", "gauge", "Free bytes on the disk of the store."),
    Metric("tacit_ledger_releases", "gauge", "Releases in the ledger."),
    *(
        Metric(f"tacit_{unit}_{name}", "gauge", f"{text} In {measure}.")
        for unit, measure in (("epsilon", "epsilon"), ("rho", "rho of zCDP"))
        for name, text in (
            ("limit", "Budget: the privacy loss that one record may suffer."),
            ("spent", "Privacy loss of the record that lost most; no sum over records that are released once."),
            (
                "left",
                "Privacy loss still allowed to the records of the next release: the whole budget where each record is "
                "released once. At 0 nothing more is released.",
            ),
        )
    ),
    Metric(
        "tacit_budget_runs_out",
        "gauge",
        "1 where releases are charged to every record, or records come again, so that the budget is used up; else 0.",
    ),
    Metric("tacit_releases_cut", "gauge", "Releases since the start that were cut down to what was declared."),
    Metric(
        "tacit_consensus_distance",
        "gauge",
        "By how much neighbours moved the model in the last round: root mean square over its coordinates.",
    ),
    *(
        Metric(
            f"tacit_prequential_{name}",
            "gauge",
            f"{text}, of each sample before it was learnt, over the last rounds ([operations] progress); the owner's "
            "own figure, made of its raw data and sent to no peer. NaN where these rounds brought no sample.",
        )
        for name, text in (
            ("loss", "Mean loss with the regulariser"),
            ("accuracy", "Share of right predictions"),
            ("mse", "Mean squared error"),
        )
    ),
    Metric(
        "tacit_neighbour_score",
        "gauge",
        "Share of a neighbour's latest messages that lay far from the others'; only of jobs with a robust rule.",
        ("neighbour",),
    ),
    Metric("tacit_samples_total", "counter", "Samples by what became of them.", ("outcome",)),
    Metric("tacit_certificate_expiry_seconds", "gauge", "Seconds until this peer's certificate expires."),
)

FIXED_LABELS = {
    "outcome": ("used", "queued", "bad", "known", "turned_away"),
    "direction": ("in", "out"),
    "state": ("open", "late", "dead", "refused", "quarantined"),
}
"""Labels whose values are the same for every peer."""
NEIGHBOUR_LABELS = ("to", "from", "neighbour")


class Counters:
    """The metrics of one peer; may be used from any thread.

    A label that is a Python keyword is written with an underscore: `add("tacit_received_bytes_total", 9, from_="b")`.
    """

    def __init__(self, neighbours: Iterable[str] = (), reasons: Iterable[str] = ()) -> None:
        """Declare the neighbours and the reasons of refusals that have a series of their own."""
        names, words = tuple(neighbours), tuple(reasons)
        self._allowed = {**FIXED_LABELS, **dict.fromkeys(NEIGHBOUR_LABELS, names), "reason": words}
        self._lock = threading.Lock()
        self._metrics = {metric.name: metric for metric in METRICS}
        self._values: dict[str, dict[tuple[str, ...], float]] = {}
        for metric in METRICS:
            # A counter begins at 0 rather than with its first event, or a rate would miss that event.
            known = product(*(self._allowed[label] for label in metric.labels)) if metric.kind == "counter" else ()
            self._values[metric.name] = dict.fromkeys(known, 0.0)
        self._found: dict[tuple[object, ...], tuple[Metric, tuple[str, ...]]] = {}
        """Calls -> the series that they are about."""

    def allow(self, neighbours: Iterable[str]) -> None:
        """Give more neighbours series of their own."""
        with self._lock:
            known = tuple(dict.fromkeys((*self._allowed[NEIGHBOUR_LABELS[0]], *neighbours)))
            self._allowed |= dict.fromkeys(NEIGHBOUR_LABELS, known)

    def add(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Add to a counter."""
        metric, key = self._found.get((name, "counter", *labels.items())) or self._find(name, labels, "counter")
        if not 0 <= amount < math.inf:
            raise ContractError(f"{name}: {amount} cannot be counted; a counter takes finite amounts of at least 0")
        with self._lock:
            values = self._values[metric.name]
            values[key] = values.get(key, 0.0) + amount

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge."""
        metric, key = self._find(name, labels, "gauge")
        with self._lock:
            self._values[metric.name][key] = float(value)

    def value(self, name: str, /, **labels: str) -> float | None:
        """Return the value of a series; None for a gauge that was never set."""
        metric, key = self._find(name, labels, None)
        with self._lock:
            return self._values[metric.name].get(key, 0.0 if metric.kind == "counter" else None)

    def total(self, name: str, /) -> float:
        """Return the sum of a metric over all its labels."""
        if name not in self._metrics:
            raise ContractError(f"figure {name!r} is not declared; add it to METRICS")
        with self._lock:
            return sum(self._values[name].values())

    def render(self, left_out: Collection[str] = ()) -> str:
        """Return all metrics but some in the text format, in the order of the table."""
        registry = CollectorRegistry()
        registry.register(_Part(self, left_out))
        return generate_latest(registry).decode()

    def collect(self, left_out: Collection[str] = ()) -> Iterator[Family]:
        """Return the values as prometheus_client has them."""
        with self._lock:
            values = {name: sorted(found.items()) for name, found in self._values.items()}
        for metric in METRICS:
            if metric.name in left_out:
                continue
            family = _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels)
            for labels, value in values[metric.name]:
                family.add_metric(labels, value)
            if family.samples:
                yield family

    def _find(self, name: str, labels: dict[str, str], kind: Kind | None) -> tuple[Metric, tuple[str, ...]]:
        called = (name, kind, *labels.items())
        found = self._found.get(called)
        if found is None:
            found = self._looked_up(name, labels, kind)
            if OTHER not in found[1]:  # else there might be any number of them
                self._found[called] = found
        return found

    def _looked_up(self, name: str, labels: dict[str, str], kind: Kind | None) -> tuple[Metric, tuple[str, ...]]:
        metric = self._metrics.get(name)
        if metric is None:
            raise ContractError(f"figure {name!r} is not declared; add it to METRICS")
        if kind is not None and metric.kind != kind:
            raise ContractError(f"{name} is a {metric.kind}, not a {kind}; a counter is added to, a gauge is set")
        given = {label.removesuffix("_"): value for label, value in labels.items()}
        if set(given) != set(metric.labels):
            raise ContractError(
                f"{name}: labels {', '.join(sorted(given)) or '(none)'} were given; "
                f"expected {', '.join(metric.labels) or '(none)'}"
            )
        return metric, tuple(given[x] if given[x] in self._allowed[x] else OTHER for x in metric.labels)


class _Part(NamedTuple):
    """What prometheus_client collects from."""

    counters: Counters
    left_out: Collection[str]

    def collect(self) -> Iterator[Family]:
        """Return the values."""
        return self.counters.collect(self.left_out)
