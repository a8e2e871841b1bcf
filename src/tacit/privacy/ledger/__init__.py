"""The durable ledger: every release is booked before it leaves."""

from __future__ import annotations

from tacit.privacy.accounting import Budget
from tacit.privacy.ledger.ledger import Ledger, renew_witness
from tacit.privacy.ledger.replay import Receipt, Replay, inspect

__all__ = ["Budget", "Ledger", "Receipt", "Replay", "inspect", "renew_witness"]
