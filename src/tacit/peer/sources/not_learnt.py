"""Records that a source did not hand out: unusable ones, and ones that were used before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tacit.core.errors import DataError
from tacit.peer.operations.logs import Log


class NotLearnt:
    """Counts since the start, which the log and the counters are told of.

    `on_bad` gets the fault of each record that cannot be used, `on_known` how many were passed over.
    """

    def __init__(
        self,
        source: str,
        on_bad: Callable[[DataError], None] = lambda fault: None,
        on_known: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.source, self._on_bad, self._on_known = source, on_bad, on_known
        self.bad = self.known = 0
        self._log = Log()

    def report(self, faults: Sequence[DataError], known: int) -> None:
        """Count some more."""
        for fault in faults:
            self.bad += 1
            self._log.seldom(f"row of {self.source}", "row not used", fault=str(fault), bad=self.bad)
            self._on_bad(fault)
        if known:
            self.known += known
            self._log.seldom(f"known in {self.source}", "rows were used before", known=self.known)
            self._on_known(known)
