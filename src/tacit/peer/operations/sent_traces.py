"""Spans of a peer's work on their way to a collector, by OpenTelemetry."""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator
from typing import Any

from tacit.core.errors import ConfigError
from tacit.core.extras import require
from tacit.peer.operations.logs import Log
from tacit.peer.operations.traces import ATTRIBUTES, NO_TRACES, Traces, Work

EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
SECONDS = 3
"""For a collector to answer."""


class SentTraces(Traces):
    """Spans that go to a processor of OpenTelemetry; those of a round are its children."""

    def __init__(self, name: str, processor: Any) -> None:
        """Take the peer's name and the processor, which is closed with the traces."""
        self._api = require("opentelemetry.trace", extra="otel", purpose="[operations] traces")
        sdk = require("opentelemetry.sdk.trace", extra="otel")
        resources = require("opentelemetry.sdk.resources", extra="otel")
        resource = resources.Resource.create({"service.name": "tacit-peer", "service.instance.id": name})
        self._provider = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("tacit")
        self._round: Any = None
        """Context of the round under way: its work is done in several threads."""

    @contextlib.contextmanager
    def span(self, work: Work, /, **attributes: float | str) -> Iterator[None]:
        """Record a piece of work; its error, if any, by its kind alone."""
        unknown = attributes.keys() - ATTRIBUTES
        if unknown:
            raise ConfigError(f"a span has no attribute {', '.join(sorted(unknown))}; expected some of ATTRIBUTES")
        span = self._tracer.start_span(f"tacit.{work}", context=self._round)
        span.set_attributes({f"tacit.{key}": value for key, value in attributes.items()})
        if work == "round":
            self._round = self._api.set_span_in_context(span)
        try:
            yield
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            if work == "round":
                self._round = None
            span.end()

    def close(self) -> None:
        """Send what waits, for a short while."""
        self._provider.shutdown()


def traces_to(endpoint: str | None, name: str) -> Traces:
    """Return traces to an OTLP endpoint over HTTP, or to that of the environment; see `traces_of`."""
    try:
        library = require(EXPORTER, extra="otel", purpose="[operations] traces")
    except ConfigError as error:
        if endpoint is not None:
            raise
        Log().warning("no traces", reason=str(error))  # the variable may be meant for others on this host
        return NO_TRACES
    exporter = library.OTLPSpanExporter(endpoint=endpoint, timeout=SECONDS)
    export = require("opentelemetry.sdk.trace.export", extra="otel")
    logger = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _Told) for handler in logger.handlers):
        logger.addHandler(_Told())
        logger.propagate = False
    return SentTraces(name, export.BatchSpanProcessor(exporter, export_timeout_millis=1000 * SECONDS))


class _Told(logging.Handler):
    """The library's warnings as events of the peer's log, so that every line of that is one event."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._log = contextvars.Context().run(Log)  # of the process, whichever peer came first

    def emit(self, record: logging.LogRecord) -> None:
        self._log.seldom("traces", "traces cannot be sent", reason=record.getMessage())
