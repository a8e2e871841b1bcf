"""Every error that tacit raises on purpose.

The tree::

    TacitError
    ├── ConfigError          a setting (file, key, value) that cannot be used
    ├── DataError            a data set with a fault: where it is and how to mend it
    ├── GraphError           a graph that is malformed
    ├── RequirementError     a run refused before round 0: what the algorithm requires and the remedy
    ├── ContractError        an algorithm that breaks the contract (a fault of its author)
    ├── ResultError          a run directory that cannot be read or written
    ├── IdentityError        a key, certificate or name of a peer that cannot be used
    ├── ModelError           a model that cannot predict any more, or a file of one that cannot be used
    ├── StoreError           a peer's durable state that is damaged, or a commit that does not fit it
    ├── PrivacyError         a release that must not happen
    │   ├── BudgetExceeded   it would cost more than is left
    │   └── LedgerError      it cannot be booked: the disk failed, or the ledger is damaged or was rolled back
    └── RemoteError          a fault of another peer, never of this one
        └── MessageRefused   a message that was not accepted; `reason` is one of a fixed set of words

A message names the value, what was expected, and the remedy. What can be run but is hardly what was meant is told by a
`TacitWarning`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...? " with the known name that is most like an unknown one; "" where none is."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}? " if near else ""


def said(error: BaseException) -> str:
    """Return an error of Python, or of a library, as an operator can read it: its text, with its kind behind it.

    Args:
      error: Any error; of one of tacit's own, and of the system, the text is enough.

    Example:
      >>> said(FileNotFoundError(2, "No such file or directory", "data.csv"))
      'No such file or directory: data.csv'
      >>> said(ZeroDivisionError("division by zero"))
      'division by zero (ZeroDivisionError)'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    if isinstance(error, TacitError):
        return str(error)
    kind = type(error).__name__
    return f"{error} ({kind})" if str(error) else kind


class TacitError(Exception):
    """Base of every error that tacit raises on purpose."""


class TacitWarning(UserWarning):
    """A run goes ahead, but a setting hardly does what was meant by it."""


class ConfigError(TacitError):
    """A setting cannot be used."""


class DataError(TacitError):
    """A data set has a fault."""


class GraphError(TacitError):
    """A graph is malformed."""


class RequirementError(TacitError):
    """A run is refused before round 0 because a requirement of the algorithm does not hold."""


class ContractError(TacitError):
    """An algorithm breaks the contract."""


class ResultError(TacitError):
    """A run directory cannot be read or written."""


class StoreError(TacitError):
    """A peer's durable state cannot be used, or a commit does not fit it."""


class ModelError(TacitError):
    """A model cannot predict any more, or its file cannot be used."""


class IdentityError(TacitError):
    """A key, certificate or name of a peer cannot be used."""


class PrivacyError(TacitError):
    """A release must not happen."""


class BudgetExceeded(PrivacyError):  # noqa: N818 - it is what happened to the budget
    """A release would cost more than is left."""


class LedgerError(PrivacyError):
    """A release cannot be booked."""


class RemoteError(TacitError):
    """A fault of another peer."""


class MessageRefused(RemoteError):  # noqa: N818 - it is what happened to the message
    """A message was not accepted."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"message refused ({reason}): {detail}")
        self.reason, self.detail = reason, detail
