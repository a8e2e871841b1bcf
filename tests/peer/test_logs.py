"""Logs: one event a line that a machine can read, nothing of the data in it, and no flood."""

from __future__ import annotations

import io
import json
import logging
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from tacit.core.errors import ConfigError
from tacit.peer.operations import logs
from tacit.peer.operations.logs import Log, configure


@pytest.fixture
def stream():
    logger = logging.getLogger(logs.NAME)
    before = logger.handlers[:], logger.level, logger.propagate
    yield io.StringIO()
    logger.handlers[:], logger.level, logger.propagate = before


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_object_with_its_fields(stream):
    configure("json", "info", stream)
    Log().info("round finished", round=7, heard=["a", "b"], ahead=None, share=0.5)
    Log().debug("not asked for")
    (entry,) = lines(stream)
    moment = datetime.fromisoformat(entry.pop("time"))
    assert moment.utcoffset().total_seconds() == 0
    assert abs(moment.timestamp() - datetime.now().timestamp()) < 60
    fields = {"round": 7, "heard": ["a", "b"], "ahead": None, "share": 0.5}
    assert entry == {"level": "info", "event": "round finished", **fields}


def test_values_without_json_become_text_and_data_never_gets_in(stream):
    configure("json", "info", stream)
    Log().info(
        "odd",
        path=Path("a") / "b",
        nan=float("nan"),
        model=np.array([12345.0, 2.0]),
        nested={"x": (np.array([12345]),)},
        key=b"12345",
        count=np.int64(3),
        loss=np.float32(0.5),
        time="mine",
    )
    (entry,) = lines(stream)
    assert "12345" not in stream.getvalue()
    assert entry["model"] == "<float64 of shape (2,)>"
    assert entry["nested"] == {"x": ["<int64 of shape (1,)>"]}
    assert (entry["path"], entry["nan"], entry["key"]) == (str(Path("a/b")), "nan", "<5 bytes>")
    assert (entry["count"], entry["loss"], entry["time_"]) == (3, 0.5, "mine")
    assert entry["time"] != "mine"


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_stays_a_line(stream, form):
    configure(form, "info", stream)
    Log().warning("said\nlevel=error", reason="two words\nand a line\u2028more", empty="", name="hospital-a", n=3)
    assert len(stream.getvalue().splitlines()) == 1 or form == "json"
    assert stream.getvalue().count("\n") == 1
    if form == "text":
        assert stream.getvalue().endswith(
            ' warning "said\\nlevel=error" reason="two words\\nand a line\\u2028more" empty="" name=hospital-a n=3\n'
        )


def test_a_fault_says_where_it_arose(stream):
    configure("json", "info", stream)
    try:
        raise ValueError("broken")
    except ValueError as fault:
        Log().error("failed", fault, path="/x")
    (entry,) = lines(stream)
    assert "test_a_fault_says_where_it_arose" in entry["fault"]
    assert entry["fault"].endswith("ValueError: broken")
    assert entry["path"] == "/x"


def test_repeated_warnings_are_counted_instead(stream):
    configure("json", "info", stream)
    now = 100.0
    log = Log(clock=lambda: now)
    for _ in range(5):
        log.seldom("a", "skipped", line=1)
    log.seldom("b", "skipped", line=2)
    now = 100.99
    log.seldom("a", "skipped", line=3)
    now = 101.0
    log.seldom("a", "skipped", line=4)
    now = 102.0
    log.seldom("a", "skipped", line=5)
    assert [(e["line"], e.get("suppressed")) for e in lines(stream)] == [(1, None), (2, None), (4, 5), (5, None)]
    assert all(e["level"] == "warning" for e in lines(stream))


def test_keys_of_rate_limits_are_bounded(stream):
    configure("json", "info", stream)
    log = Log(clock=lambda: 0.0)
    for key in range(3 * logs.MOST_KEYS):
        log.seldom(str(key), "x")
    assert len(log._last) == logs.MOST_KEYS


def test_configuring_again_replaces_and_wrong_settings_are_refused(stream, caplog):
    before = io.StringIO()
    configure("text", "info", before)
    configure("json", "error", stream)
    Log().warning("hidden")
    Log().error("seen")
    assert [entry["event"] for entry in lines(stream)] == ["seen"]
    assert before.getvalue() == ""
    assert caplog.records == []  # nor did the handlers above get it
    with pytest.raises(ConfigError, match="log format 'xml'.*json, text"):
        configure("xml", "info", stream)
    with pytest.raises(ConfigError, match="log level 'loud'"):
        configure("json", "loud", stream)
