"""The durable ledger: every release is booked before it leaves.

`Ledger` is opened by one process and charges; `inspect` verifies and reads one, also while it is charged.
"""

from __future__ import annotations

from tacit.privacy.accounting import Budget
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.opening import renew_witness
from tacit.privacy.ledger.replay import Receipt, Replay, inspect

__all__ = ["Budget", "Ledger", "Receipt", "Replay", "inspect", "renew_witness"]
