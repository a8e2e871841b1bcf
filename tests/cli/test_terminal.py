"""The view of a run on a terminal: what it shows, at any width, and that it is nowhere else."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios

import numpy as np
import pytest
from rich.console import Console

from tacit.cli.terminal import BLOCKS, LETTERS, MOST_VALUES, Curve, TerminalView, sparkline
from tacit.results.live import About, Drawing, LinksSeen, Part
from tacit.results.live.parts import NoSights

ABOUT = About("online_push_sum", 8, 2, 1000, 0, "float32", "a ring", "drift", "accuracy", True, "epsilon 2")
STEERING = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")
CLEARS = re.compile(r"\x1b\[[23]?J")
"""Sequences that empty the screen or what is below: they flicker."""


class Sights(NoSights):
    asked = 0

    def spent(self):
        self.asked += 1
        return 1.25, None


def parts(sights=None, about=ABOUT):
    sights = sights or Sights()
    yield Part(about, 0, {})
    for done in (100, 200, 300):
        losses = np.linspace(1.0, 0.5, 1000)[done - 100 : done, None] * np.ones((1, 2))
        figures = {"loss": losses, "accuracy": 1 - losses}
        yield Part(about, done, figures, rate=50.0, seconds=done / 50, sights=sights)
    yield Part(about, 300, {}, ended="interrupted", sights=sights)


def drawn(width, label="a label", encoding="utf-8", about=ABOUT, sights=None):
    """Each state of the view, as lines of text."""
    buffer = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=buffer, force_terminal=True, width=width, highlight=False, legacy_windows=False)
    watch, seen = TerminalView(console)(label, {}), []
    for part in parts(sights, about):
        watch(part)
        if not part.ended:
            seen.append(watch.lines(part).plain.split("\n"))
    buffer.flush()
    return seen, buffer.buffer.getvalue().decode(encoding)


class Delayed(Sights):
    def drawing(self):
        ends = np.arange(8)
        return Drawing(8, ("",) * 8, None, ends, (ends + 1) % 8, ("late", "lost"))

    def links(self):
        return LinksSeen({"late": np.array([2, 5]), "lost": np.array([1])}, (5, 3))


def test_late_links_are_told_where_a_channel_delays():
    (*_, last), _ = drawn(100, sights=Delayed())
    assert len(last) == 3
    assert "2 late, 1 lost" in last[2]
    assert "5 to 6, 3 rounds" in last[2]
    assert all(len(line) <= 30 for lines in drawn(30, sights=Delayed())[0] for line in lines)


def test_what_it_shows():
    seen, raw = drawn(100)
    assert "compiling" in seen[0][0]
    first, second = seen[-1]
    assert "a label" in first
    assert "300/1,000" in first
    assert "50 rounds/s" in first
    assert "0:14 left" in first
    curve, loss, accuracy, epsilon = second.split("  ")[1:]
    assert curve[0] == BLOCKS[-1]
    assert curve[-1] == BLOCKS[0]
    assert loss.startswith("loss 0.85")
    assert accuracy.startswith("accuracy 0.1")
    assert epsilon == "epsilon 1.25"
    assert not CLEARS.search(raw)


@pytest.mark.parametrize("width", [1, 10, 20, 30, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    seen, raw = drawn(width, label="a method with a long name, private, second of several")
    assert all(len(line) <= width for lines in seen for line in lines)
    assert not any(len(line) > width for line in re.split(r"[\r\n]+", STEERING.sub("", raw)))
    if width >= 40:
        assert "loss" in seen[-1][1]


def test_a_terminal_without_blocks_gets_letters():
    seen, raw = drawn(100, encoding="ascii")
    assert raw.isascii()
    assert set(seen[-1][1].split("  ")[1]) <= set(LETTERS)


def test_text_in_a_name_steers_nothing():
    _, raw = drawn(100, label="\x1b[2Jgone [bold]x[/bold]")
    assert "[bold]x[/bold]" in raw
    assert not CLEARS.search(raw)


def test_a_run_without_a_promise_shows_no_epsilon():
    sights = Sights()
    seen, _ = drawn(100, about=ABOUT._replace(private=False), sights=sights)
    assert "epsilon" not in seen[-1][1]
    assert sights.asked == 0


def test_a_curve_of_any_length_is_a_few_hundred_values():
    curve = Curve()
    for _ in range(300):
        curve.add(np.ones(50))
        assert len(curve._means) <= MOST_VALUES
    curve.add(np.full(15_000, 3.0))
    columns = curve.columns(10)
    assert len(columns) == 10
    assert columns[0] == 1
    assert columns[-1] == 3
    assert np.isclose(np.mean(columns), 2, atol=0.1), "each column is of about as many rounds"


def test_sparklines_of_odd_figures():
    assert sparkline([]) == ""
    assert sparkline([2.0, 2.0]) == BLOCKS[0] * 2
    assert sparkline([1.0, float("nan"), 2.0, float("inf")]) == f"{BLOCKS[0]} {BLOCKS[-1]} "


FILE = """
[run]
name = "small"
rounds = 3000
regret_points = 0

[objective]
kind = "logistic"

[stream]
kind = "logistic_drift"
dim = 3

[graph]
kind = "directed_ring"
agents = 4

[[algorithm]]
name = "online_push_sum"
"""


def in_terminal(command, width, cwd):
    """Run a command at the end of a pseudo-terminal; returns its exit code and all that it wrote there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env={**environment, "TERM": "xterm-256color"}
    )
    os.close(theirs)
    seen = bytearray()
    while True:
        select.select([ours], [], [], 300)
        try:
            more = os.read(ours, 2**16)
        except OSError:  # its other end is closed
            break
        if not more:
            break
        seen += more
    os.close(ours)
    return process.wait(timeout=300), seen.decode()


@pytest.mark.covered_by("tests/cli/test_terminal.py::test_what_it_shows")
@pytest.mark.parametrize("width", [40, 110])
def test_a_run_at_a_real_terminal(tmp_path, width):
    (tmp_path / "small.toml").write_text(FILE)
    code, seen = in_terminal([sys.executable, "-m", "tacit", "run", "small.toml"], width, tmp_path)
    assert code == 0, seen
    assert "compiling" in seen
    assert not CLEARS.search(seen)
    assert "\x1b[?25h" in seen, "the cursor is there again"
    assert re.search(r"3,000 rounds in", STEERING.sub("", seen))


@pytest.mark.covered_by("tests/cli/test_terminal.py::test_what_it_shows")
def test_elsewhere_there_is_nothing_of_it(tmp_path):
    (tmp_path / "small.toml").write_text(FILE)
    done = subprocess.run(
        [sys.executable, "-m", "tacit", "run", "small.toml"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "compiling" not in done.stdout + done.stderr
