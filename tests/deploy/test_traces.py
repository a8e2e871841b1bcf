"""Traces: rounds, phases, commits and messages as spans, nothing of the data in them, and nothing at all unless asked."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError
from tacit.deploy.peer import Peer
from tacit.peer.operations import traces
from tacit.peer.operations.sent_traces import SentTraces
from tests.deploy.homes import found, job_text
from tests.deploy.peers import alone, run, until, used

pytest.importorskip("opentelemetry.sdk")
PAIR = {"hospital-a": ["hospital-b"], "hospital-b": ["hospital-a"]}
SECRET = 0.7136124789


@pytest.fixture
def spans(monkeypatch):
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    processor = SimpleSpanProcessor(kept)
    monkeypatch.setattr("tacit.deploy.peer.traces_of", lambda endpoint, name: SentTraces(name, processor))
    return kept


def test_a_round_is_a_span_with_its_phases_commits_and_messages_and_no_value(tmp_path, spans):
    files = found(tmp_path, job_text(members=PAIR), PAIR, rounds="patience = 0.05\ndeadline = 2.0\nlast = 3")

    async def scenario():
        peers = [await Peer.start(file) for file in files.values()]
        try:
            for peer in peers:
                for _ in range(3):
                    await peer.learn([SECRET, -SECRET], 1)
            for peer in peers:
                await peer.finished()
            values = [repr(float(each)) for peer in peers for each in peer._service.node.model().ravel()]
        finally:
            for peer in peers:
                await peer.stop()
        return values

    values = []

    async def noted():
        values.extend(await scenario())

    run(noted())
    finished = spans.get_finished_spans()
    rounds = {span.context.span_id: span for span in finished if span.name == "tacit.round"}
    assert {span.name for span in finished} == {"tacit.round", "tacit.phase", "tacit.commit", "tacit.send"}
    assert sorted(span.attributes["tacit.round"] for span in rounds.values()) == [1, 1, 2, 2, 3, 3]
    for span in finished:
        if span.name == "tacit.phase":
            assert {"tacit.missing", "tacit.waited", "tacit.phase"} <= span.attributes.keys()
            assert span.parent.span_id in rounds
    text = "".join(span.to_json() for span in finished)
    for value in (str(SECRET), *values):
        assert value[:8] not in text
        assert value.lstrip("-")[:7] not in text


def test_an_error_is_told_by_its_kind_alone(spans):
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    made = SentTraces("a", SimpleSpanProcessor(spans))
    with pytest.raises(ValueError, match="secret"), made.span("commit", messages=1):
        raise ValueError(f"secret {SECRET}")
    with pytest.raises(ConfigError, match="loss"), made.span("round", loss=SECRET):
        pass
    (span,) = spans.get_finished_spans()
    assert span.attributes["error.type"] == "ValueError"
    assert str(SECRET) not in span.to_json()
    assert not span.events


def test_without_a_collector_nothing_is_loaded_and_nothing_made(tmp_path, monkeypatch):
    for variable in traces.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert traces.traces_of(None, "a") is traces.NO_TRACES
    assert traces.NO_TRACES.span("round", round=1) is traces.NO_TRACES.span("send")


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize("by", ["file", "variable"])
def test_spans_reach_a_collector(tmp_path, monkeypatch, by):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.bodies = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        if by == "variable":
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        file = alone(tmp_path, operations=f'traces = "{url}/v1/traces"' if by == "file" else "")

        async def scenario():
            async with await Peer.start(file) as peer:
                await peer.learn([SECRET, SECRET], 1)
                await until(lambda: used(peer) == 1)

        run(scenario())
        server.shutdown()
    body = b"".join(server.bodies)
    assert b"tacit.round" in body
    assert b"hospital-a" in body
    assert json.dumps(SECRET).encode() not in body


@pytest.mark.parametrize("url", ["collector:4318", "ftp://c/", "http://u:geheim@c/v1", "http://c/?token=1", ""])
def test_what_is_no_plain_url_is_refused_without_being_repeated(tmp_path, url):
    file = alone(tmp_path, operations=f'traces = "{url}"')
    with pytest.raises(ConfigError, match=r"\[operations\] traces") as fault:
        load_peer(file)
    assert "geheim" not in str(fault.value)
