"""What a peer counts of its links, and what it says of its budget."""

import logging
import math
import re
from pathlib import Path

import pytest

import tacit.peer
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.link_events import REFUSALS, LinkEventLog
from tacit.peer.operations.logs import NAME, Log
from tacit.privacy.accounting import Budget
from tacit.privacy.conversions import tight
from tacit.privacy.events import Loss
from tacit.privacy.ledger.budget_use import spending


@pytest.fixture
def counted():
    counters = Counters(["a", "b"], REFUSALS)
    return counters, LinkEventLog(counters, Log())


def test_refusals_are_counted_by_reason_and_named_in_the_log(counted, caplog):
    counters, events = counted
    with caplog.at_level(logging.INFO, NAME):
        events.refused("job", "a", "job x, not y")
        events.refused("job", "a", "job x, not y")
        events.refused("no such reason", None, "?")
    assert counters.value("tacit_refusals_total", reason="job") == 2
    assert counters.value("tacit_refusals_total", reason="other") == 1
    fields = [record.tacit_fields for record in caplog.records]
    assert fields == [
        {"reason": "job", "neighbour": "a", "detail": "job x, not y"},
        {"reason": "no such reason", "neighbour": None, "detail": "?"},
    ]


def test_every_reason_of_the_codec_and_of_handshakes_is_counted_by_itself(counted):
    counters, events = counted
    for reason in REFUSALS:
        events.refused(reason, "a", "")
    assert {counters.value("tacit_refusals_total", reason=reason) for reason in REFUSALS} == {1}
    assert {"job", "sender", "repeated", "expired", "plaintext", "server name", "position"} <= set(REFUSALS)
    assert counters.total("tacit_refusals_total") == len(REFUSALS)


def test_every_refusal_in_the_package_has_a_reason_that_is_counted_by_itself():
    text = "".join(file.read_text() for file in Path(tacit.peer.__file__).parent.rglob("*.py"))
    given = set(re.findall(r'MessageRefused\(\s*"([^"]*)"', text))
    assert len(given) > 10
    assert given <= set(REFUSALS)


def test_traffic(counted):
    counters, events = counted
    events.sent("a", 10)
    events.sent("a", 5)
    events.received("b", 7)
    events.accepted("b")
    events.linked("a", "out", True)
    events.linked("b", "in", True)
    events.linked("b", "in", False)
    events.lost("a", "silent", "no ping")
    assert counters.value("tacit_messages_sent_total", to="a") == 2
    assert counters.value("tacit_sent_bytes_total", to="a") == 15
    assert counters.value("tacit_received_bytes_total", from_="b") == 7
    assert counters.value("tacit_messages_received_total", from_="b") == 1
    assert counters.value("tacit_connected", neighbour="a", direction="out") == 1
    assert counters.value("tacit_connected", neighbour="b", direction="in") == 0


@pytest.mark.parametrize(
    ("budget", "loss", "unit", "spent", "left"),
    [
        (Budget(2.0), Loss(), "epsilon", 0.0, 2.0),
        (Budget(2.0), Loss(0.5, 0.1, 0.0), "epsilon", 0.5, 1.5),
        (Budget(2.0), Loss(2.0 + 1e-12, 0.1, 0.0), "epsilon", 2.0 + 1e-12, 0.0),
        (Budget(rho=1.0), Loss(math.inf, 0.25, 0.0), "rho", 0.25, 0.75),
        (Budget(2.0, delta=1e-5), Loss(), "epsilon", 0.0, 2.0),
        (Budget(2.0, delta=1e-5), Loss(math.inf, 0.01, 0.0), "epsilon", tight(0.01, 1e-5), 2 - tight(0.01, 1e-5)),
        (Budget(2.0, delta=1e-5), Loss(0.3, 0.045, 0.0), "epsilon", 0.3, 1.7),
        (Budget(2.0, delta=1e-5, reserve=4e-6), Loss(math.inf, 0.01, 1e-6), "epsilon", tight(0.01, 6e-6), 2 - tight(0.01, 6e-6)),
        (Budget(2.0, delta=1e-5, reserve=1e-5), Loss(0.3, 0.045, 1e-6), "epsilon", 0.3, 1.7),
    ],
)  # fmt: skip
def test_a_budget_in_its_own_unit(budget, loss, unit, spent, left):
    found = spending(budget, loss)
    assert (found.unit, found.delta) == (unit, budget.delta)
    assert found.spent == pytest.approx(spent)
    assert found.left == pytest.approx(left)
    assert math.isfinite(found.spent + found.left)


@pytest.mark.parametrize("budget", [Budget(2.0), Budget(rho=0.1), Budget(2.0, delta=1e-6)])
@pytest.mark.parametrize("share", [0.2, 0.9, 1.1])
def test_something_is_left_exactly_while_the_budget_admits_it(budget, share):
    """At the sum of many releases: pure for epsilon, Gaussian for the others."""
    limit = budget.limit
    pure = budget.rho is None and budget.delta is None
    loss = Loss(share * limit.epsilon, 0.0, 0.0) if pure else Loss(math.inf, share * limit.rho, 0.0)
    assert (spending(budget, loss).left > 0) == (budget.refusal(loss) is None)
