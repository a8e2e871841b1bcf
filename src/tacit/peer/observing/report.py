"""Report of a peer to observers: where it stands, and nothing of its data, its model or its keys.

Every value is a number, a name of the job or of a member, or a word of a fixed set. Errors are told by the name of
their event: the text of one may hold a path or a value of a row, and stays in the peer's own log.
"""

from __future__ import annotations

import logging
import shutil
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.observing.ledger_summary import NO_LEDGER, LedgerWatch
from tacit.peer.observing.link_states import link_states
from tacit.peer.operations.link_events import REFUSALS
from tacit.peer.operations.logs import Log
from tacit.peer.operations.status import model_fault
from tacit.peer.transport.dialer import LOSSES

if TYPE_CHECKING:
    from tacit.peer.node.service import PeerService

LAST_ERRORS = 8
MADE_OF_DATA = frozenset(
    {
        *(f"tacit_prequential_{name}" for name in ("loss", "accuracy", "mse")),
        "tacit_consensus_distance",
        "tacit_samples_total",
    }
)
"""Metrics that are computed of raw data, or of what was not released."""
_WORDS = frozenset({*REFUSALS, *LOSSES})
_OF_ROWS = frozenset({"row not used", "rows were used before"})
"""Events that tell what is in the data."""


class Report:
    """What observers of one peer read.

    Args:
      service: Returns the running service, another one with each epoch.
      store: Path of the peer's store, which holds its ledger.
      witness: Its witness, if it has one.
      watch: Its identity.
      shows_loss: Whether figures that are made of raw data are shown: the owner has asked for them in the file.
      log: The peer's own log; its warnings are told by name.
    """

    def __init__(
        self,
        service: Callable[[], PeerService],
        store: Path,
        witness: Path | None,
        watch: IdentityWatch,
        shows_loss: bool,
        log: Log,
    ) -> None:
        self._service, self._store, self._watch, self._shows_loss = service, store, watch, shows_loss
        self._ledger, self._errors = LedgerWatch(store, witness, log), _Errors(shows_loss)
        self._logger = log.logger
        self._logger.addHandler(self._errors)

    def close(self) -> None:
        """Listen to the log no more."""
        self._logger.removeHandler(self._errors)
        self._ledger.close()

    def status(self) -> dict[str, Any]:
        """Return the status, as plain data."""
        service = self._service()
        node, plan = service.node, service.node.plan
        use = node.store.ledger.use()._asdict() if plan.booked else None
        figures = (service.prequential.status() or {}).get("recent", {}) if self._shows_loss else {}
        return {
            "name": plan.name,
            "role": plan.role,
            "job": plan.job,
            "algorithm": plan.algorithm.name,
            "state": "failed" if service.fault is not None else "stopping" if service.stopping else "running",
            "round": node.round,
            "lag": node.lag(),
            "links": link_states(service),
            "refusals": _refusals(service),
            "disk_free": shutil.disk_usage(self._store.parent).free,
            "certificate_expires": self._watch.current().not_after.isoformat(),
            "budget": [] if use is None else self._budget(use),
            "releases": node.store.ledger.releases,
            "model_finite": model_fault(node) is None,
            "loss": figures.get("loss"),
            "accuracy": figures.get("accuracy"),
            "errors": list(self._errors.words),
        }

    async def ledger(self) -> dict[str, Any]:
        """Return the summary of the ledger, verified not long ago."""
        return await self._ledger.look() if self._service().node.plan.booked else NO_LEDGER

    async def metrics(self) -> str:
        """Return the figures for Prometheus."""
        service = self._service()
        await service.publish()
        return service.counters.render(frozenset() if self._shows_loss else MADE_OF_DATA)

    def _budget(self, use: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the budget of all records together as it is now, and by class as the ledger was read last.

        It is read again in the background: the next status has what this one lacks.
        """
        self._ledger.freshen(self._service().node.store.ledger.releases)
        now = {"class": "all", **{key: use[key] for key in ("unit", "limit", "spent", "left", "runs_out", "words")}}
        of = [{"class": one["name"], **one} for one in self._ledger.latest["classes"]]
        return [now, *({key: value for key, value in one.items() if key != "name"} for one in of)]


def _refusals(service: PeerService) -> dict[str, int]:
    counted = {reason: service.counters.value("tacit_refusals_total", reason=reason) for reason in REFUSALS}
    return {reason: int(count) for reason, count in counted.items() if count}


class _Errors(logging.Handler):
    """The last warnings and errors of a log, each as its event's name, with a neighbour and a reason of a fixed set."""

    def __init__(self, of_rows: bool) -> None:
        super().__init__(logging.WARNING)
        self._of_rows = of_rows
        self.words: deque[str] = deque(maxlen=LAST_ERRORS)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        if record.getMessage() in _OF_ROWS and not self._of_rows:
            return
        fields: dict[str, Any] = getattr(record, "tacit_fields", {})
        about = [fields.get("neighbour"), reason if (reason := fields.get("reason")) in _WORDS else None]
        more = ", ".join(str(one) for one in about if one is not None)
        time = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        self.words.append(f"{time} {record.levelname.lower()}: {record.getMessage()}{f' ({more})' if more else ''}")
