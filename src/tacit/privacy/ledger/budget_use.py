"""Use of a budget: its figures in its own unit, whether it runs out, and the sentence that operators read.

A budget limits what one unit (a record, say) loses. Where each record is released once, the figure is that of the
dearest one: the next records have the whole budget, whatever was released before. Where releases are charged to every
record, or records come again, what is spent adds up and the budget runs out.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tacit.privacy.accounting import NEIGHBOURS, Account, Budget
from tacit.privacy.events import Loss

Charged = Literal["nothing", "each record once", "records that may come again", "every record"]


class Spending(NamedTuple):
    """A budget in its own unit."""

    unit: Literal["epsilon", "rho"]
    spent: float
    left: float
    delta: float | None


class BudgetUse(NamedTuple):
    """Figures of a budget, and what they mean."""

    unit: Literal["epsilon", "rho"]
    limit: float
    """Largest loss of one record that is allowed."""
    spent: float
    """Loss of the record that has lost most."""
    left: float
    """Loss still allowed to the records of the next release: all of the limit where none of them comes again."""
    delta: float | None
    per: str
    """Whose loss it is: a record's, a component's, an agent's."""
    charged: Charged
    runs_out: bool
    """Whether further releases use the budget up."""
    words: str


def spending(budget: Budget, spent: Loss) -> Spending:
    """Return the spent part of a budget; with a delta, by the smaller of the two bounds on epsilon that hold at it."""
    if budget.rho is not None:
        return Spending("rho", spent.rho, max(0.0, budget.rho - spent.rho), None)
    assert budget.epsilon is not None  # a budget has one of the two
    epsilon = spent.epsilon
    if budget.delta is not None:
        from tacit.privacy.conversions import tight

        epsilon = min(epsilon, tight(spent.rho, budget.delta - budget.reserve))
    return Spending("epsilon", epsilon, max(0.0, budget.epsilon - epsilon), budget.delta)


def budget_use(budget: Budget, account: Account) -> BudgetUse:
    """Return what an account has used of its budget, over all observers together.

    Args:
      budget: The limit.
      account: All that was charged.

    Example:
      >>> from tacit.privacy.events import Event, fresh
      >>> booked = Account()
      >>> for day in range(3):
      ...     booked = booked.charged(Event("laplace", "laplace", 1.0, 0.25, records=fresh(day)))
      >>> budget_use(Budget(epsilon=4.0), booked).words
      'epsilon 4 of 4 per record: each record is released once, nothing is used up'
    """
    unit, spent, left, delta = spending(budget, account.spent())
    limit = budget.epsilon if budget.rho is None else budget.rho
    assert limit is not None  # a budget has one of the two
    per = "record" if account.adjacency is None else NEIGHBOURS[account.adjacency][0]
    at = "" if delta is None else f" at delta {delta:g}"
    head = f"{unit} {spent:.4g} of {limit:.4g}{at} per {per}"
    if account.in_sequence:
        charged: Charged = "every record"
        whom = "the agent" if account.adjacency == "dataset" else "every record"
        rest = f"each release is charged to {whom}, {left:.4g} is left, and at 0 nothing more is released"
    elif account.repeated:
        charged = "records that may come again"
        rest = f"records may come again, {left:.4g} is left for the one that lost most, and at 0 it is released no more"
    elif account.releases_of_one:
        charged, left, times = "each record once", limit, account.releases_of_one
        often = "once" if times == 1 else f"{times} times, in one round"
        rest = f"each record is released {often}, nothing is used up"
    else:
        charged, left, rest = "nothing", limit, "nothing was released so far"
    runs_out = charged in ("records that may come again", "every record")
    return BudgetUse(unit, limit, spent, left, delta, per, charged, runs_out, f"{head}: {rest}")
