"""Spans of a peer's work: rounds, phases, commits and sent messages. Nothing of them unless they are asked for.

A span holds a name, times, and the figures of `ATTRIBUTES`: never a sample, a model, a message or the text of an error.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import AbstractContextManager
from typing import Literal

Work = Literal["round", "phase", "commit", "send"]
ATTRIBUTES = frozenset({"round", "phase", "missing", "waited", "messages", "to", "bytes"})
"""Round and phase; neighbours that were missing, seconds waited for them; messages committed; receiver and size."""
VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_NOTHING = contextlib.nullcontext()


class Traces:
    """No traces: what a peer has unless it is told where to send them."""

    def span(self, work: Work, /, **attributes: float | str) -> AbstractContextManager[None]:
        """Return what surrounds a piece of work."""
        return _NOTHING

    def close(self) -> None:
        """Send what waits."""


NO_TRACES = Traces()


def traces_of(endpoint: str | None, name: str) -> Traces:
    """Return traces to an OTLP endpoint over HTTP, or to that of the environment; none if there is none.

    Args:
      endpoint: URL such as ``"http://127.0.0.1:4318/v1/traces"``; None: as the variables of OpenTelemetry say.
      name: The peer's.
    """
    if endpoint is None and not any(os.environ.get(variable) for variable in VARIABLES):
        return NO_TRACES
    from tacit.peer.operations.sent_traces import traces_to

    return traces_to(endpoint, name)
