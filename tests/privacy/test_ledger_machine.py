"""Ten thousand charges at random, with reopenings and crashes: the budget holds and the sums are those of a model."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tacit.core.errors import BudgetExceeded, LedgerError
from tacit.privacy.accounting import Budget
from tacit.privacy.events import EVERYONE, Event
from tacit.privacy.ledger import Ledger, inspect

MEMORY = Path("/dev/shm")
"""Where syncs cost nothing, if there is such a place: durability is not what is tested here."""
OBSERVERS = ("alice", "bob", EVERYONE)
BUDGETS = (Budget(epsilon=3.0), Budget(rho=0.5), Budget(epsilon=4.0, delta=1e-6), Budget(epsilon=1e4))


def events() -> st.SearchStrategy[Event]:
    return st.builds(
        lambda distribution, sensitivity, scale, records, observers: Event(
            distribution, distribution, sensitivity, scale, records=records, observers=tuple(sorted(observers))
        ),
        st.sampled_from(["laplace", "laplace", "gaussian"]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from([1.0, 30.0, 1000.0]),
        st.sampled_from(["", "round 1", "round 2"]),
        st.sets(st.sampled_from(OBSERVERS), min_size=1),
    )


class LedgerMachine(RuleBasedStateMachine):
    booked = 0
    refused = 0

    @initialize(budget=st.sampled_from(BUDGETS))
    def begin(self, budget: Budget) -> None:
        self.top = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.lives = 0
        self.directory.mkdir()
        self.budget = budget
        self.events: list[Event] = []
        self.names = 0
        self.ledger = Ledger.create(self.path, budget, self.witness)

    @property
    def directory(self) -> Path:
        return self.top / str(self.lives)

    @property
    def path(self) -> Path:
        return self.directory / "ledger.db"

    @property
    def witness(self) -> Path:
        return self.directory / "witness"

    def total(self, events: list[Event], observer: str) -> tuple[float, float]:
        """Pure and zCDP sums by the definition: of all records, and on top the worst of the labels."""
        by_label: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if observer == EVERYONE or {observer, EVERYONE} & set(event.observers):
                by_label[event.records].append(event)
        sums = {
            label: (math.fsum(e.loss.epsilon for e in group), math.fsum(e.loss.rho for e in group))
            for label, group in by_label.items()
        }
        common = sums.pop("", (0.0, 0.0))
        return tuple(common[i] + max((s[i] for s in sums.values()), default=0.0) for i in (0, 1))  # type: ignore[return-value]

    def within(self, events: list[Event], slack: float) -> bool:
        pure, rho = self.total(events, EVERYONE)
        limit = self.budget.limit
        fits = (pure <= limit.epsilon * (1 + slack), rho <= limit.rho * (1 + slack))
        return any(fits) if self.budget.delta is not None else all(fits)

    @rule(event=events(), copies=st.integers(1, 120), others=st.lists(events(), max_size=3))
    def charge(self, event: Event, copies: int, others: list[Event]) -> None:
        batch = [event] * copies + others
        charges = []
        for each in batch:
            self.names += 1
            charges.append((f"release {self.names}", each))
        try:
            self.ledger.charge_all(charges)
        except BudgetExceeded:
            LedgerMachine.refused += 1
            assert not self.within(self.events + batch, -1e-6)
        else:
            LedgerMachine.booked += len(batch)
            self.events += batch

    @rule(event=events())
    def repeat(self, event: Event) -> None:
        if self.events:
            name = inspect(self.path, lambda replay: [entry.release for entry, _ in replay])[-1]
            with pytest.raises(LedgerError, match="booked already"):
                self.ledger.charge(name, event)

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.path, self.budget, self.witness)

    @rule(witness_is_behind=st.booleans())
    def crash(self, witness_is_behind: bool) -> None:
        """Go on with what a process that is killed now, or right after its next commit, leaves behind."""
        before = self.witness.read_bytes()
        if witness_is_behind:
            event = Event("laplace", "laplace", 0.0, 1.0)
            self.names += 1
            self.ledger.charge(f"release {self.names}", event)
            self.events.append(event)
        old, ledger = self.directory, self.ledger
        self.lives += 1
        shutil.copytree(old, self.directory)
        ledger.close()
        if witness_is_behind:
            self.witness.write_bytes(before)
        self.ledger = Ledger.open(self.path, witness=self.witness)

    @invariant()
    def the_budget_holds(self) -> None:
        if hasattr(self, "events"):
            assert self.within(self.events, 1e-6)

    @invariant()
    def the_sums_are_those_of_the_model(self) -> None:
        if hasattr(self, "events"):
            assert self.ledger.releases == len(self.events)
            for observer in OBSERVERS:
                assert self.ledger.spent(observer)[:2] == pytest.approx(self.total(self.events, observer), rel=1e-9)

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            shutil.rmtree(self.top)


def test_ten_thousand_charges_at_random_never_overspend() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        LedgerMachine,
        settings=settings(
            derandomize=True,
            deadline=None,
            max_examples=40,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert LedgerMachine.booked >= 10_000
    assert LedgerMachine.refused >= 20
