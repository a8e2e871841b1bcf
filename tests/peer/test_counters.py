"""Figures: what Prometheus reads is what was counted, and nobody outside can make them grow."""

from __future__ import annotations

import math
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tacit.core.errors import ContractError
from tacit.peer.operations.counters import METRICS, Counters


def read(counters):
    families = list(text_string_to_metric_families(counters.render()))
    samples = {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}
    assert len(samples) == sum(len(f.samples) for f in families)
    return {f.name: f for f in families}, samples


def test_prometheus_reads_what_was_counted():
    counters = Counters(["b", "c"], ["stale", "shape"])
    counters.set("tacit_round", 12)
    counters.set("tacit_epsilon_left", math.inf)
    counters.set("tacit_epsilon_spent", 0.1)
    counters.set("tacit_consensus_distance", math.nan)
    counters.set("tacit_connected", 1, neighbour="b", direction="out")
    counters.add("tacit_refusals_total", reason="stale")
    counters.add("tacit_refusals_total", 2, reason="stale")
    counters.add("tacit_received_bytes_total", 2**60, from_="c")
    families, samples = read(counters)
    assert samples["tacit_round", ()] == 12
    assert samples["tacit_epsilon_left", ()] == math.inf
    assert samples["tacit_epsilon_spent", ()] == 0.1
    assert math.isnan(samples["tacit_consensus_distance", ()])
    assert samples["tacit_connected", (("direction", "out"), ("neighbour", "b"))] == 1
    assert samples["tacit_refusals_total", (("reason", "stale"),)] == 3
    assert samples["tacit_refusals_total", (("reason", "shape"),)] == 0
    assert samples["tacit_received_bytes_total", (("from", "c"),)] == 2**60
    assert samples["tacit_received_bytes_total", (("from", "b"),)] == 0
    assert ("tacit_lag_rounds", ()) not in samples  # a gauge that was never set has no value
    for metric in METRICS:
        family = families.get(metric.name.removesuffix("_total"))
        if family is not None:
            assert (family.type, family.documentation) == (metric.kind, metric.help)
    assert counters.value("tacit_refusals_total", reason="stale") == 3
    assert counters.value("tacit_lag_rounds") is None
    assert counters.total("tacit_refusals_total") == 3


def test_names_are_escaped():
    name = 'a"b\\n\nc\\'
    counters = Counters([name])
    counters.add("tacit_sent_bytes_total", 7, to=name)
    _, samples = read(counters)
    assert samples["tacit_sent_bytes_total", (("to", name),)] == 7


def test_what_is_not_declared_raises():
    counters = Counters(["b"])
    with pytest.raises(ContractError, match="'tacit_unknown' is not declared"):
        counters.add("tacit_unknown")
    with pytest.raises(ContractError, match="not declared"):
        counters.total("tacit_unknown")
    with pytest.raises(ContractError, match="labels to .*expected reason"):
        counters.add("tacit_refusals_total", to="b")
    with pytest.raises(ContractError, match=r"labels \(none\) .*neighbour, direction"):
        counters.set("tacit_connected", 1)
    with pytest.raises(ContractError, match="is a gauge, not a counter"):
        counters.add("tacit_round")
    with pytest.raises(ContractError, match="is a counter, not a gauge"):
        counters.set("tacit_refusals_total", 3, reason="other")
    for amount in (-1, math.nan, math.inf):
        with pytest.raises(ContractError, match="cannot be counted"):
            counters.add("tacit_refusals_total", amount, reason="other")


def test_strangers_cannot_make_it_grow():
    counters = Counters(["b"], ["stale"])
    before = counters.render().count("\n")
    for number in range(1000):
        counters.add("tacit_refusals_total", reason=f"made up {number}")
        counters.add("tacit_received_bytes_total", from_=f"stranger-{number}")
        counters.set("tacit_connected", 1, neighbour=f"stranger-{number}", direction=f"d{number}")
    assert counters.value("tacit_refusals_total", reason="other") == 1000
    assert counters.value("tacit_refusals_total", reason="stale") == 0
    assert counters.render().count("\n") == before + 3 + 2  # three times "other"; HELP and TYPE of the gauge


def test_threads_lose_nothing():
    counters = Counters(["b"])

    def count():
        for _ in range(20_000):
            counters.add("tacit_messages_sent_total", to="b")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        counters.render()
    for thread in threads:
        thread.join()
    assert counters.value("tacit_messages_sent_total", to="b") == 80_000
