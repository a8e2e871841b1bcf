"""Ctrl-C ends a run in good order: what was done is valid, and a checkpoint goes on from there."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tacit import algorithms, graphs, objectives, streams
from tacit.simulator import data as round_data
from tacit.simulator import simulate
from tacit.simulator.progress import Interrupts
from tests.simulator import specimens
from tests.simulator.test_driver import same_figures

AGENTS, ROUNDS = 5, 12


def local():
    return algorithms.local_online(objectives.from_loss(specimens.loss, np.zeros(specimens.DIM + 3)))


def stream_with(happens, at):
    """A stream during whose reading of round `at` something happens, once."""
    data = specimens.targets(AGENTS, ROUNDS).chunk(0, ROUNDS)
    left = [at]

    def read(start, stop):
        if left and start <= left[0] < stop and start > 0:
            left.clear()
            happens()
        return data[start:stop]

    return streams.from_function(read, agents=AGENTS, rounds=ROUNDS, data_size=3)


def test_the_first_one_is_noted_and_the_second_one_raised():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        assert not interrupts.asked
        signal.raise_signal(signal.SIGINT)
        assert interrupts.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_comes_back_after_an_error():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError, match="within"), Interrupts():
        raise RuntimeError("within")
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_run_without_a_handler():
    before = signal.getsignal(signal.SIGINT)
    found = []

    def run():
        with Interrupts() as interrupts:
            found.append((interrupts.asked, signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [(False, True)]


def test_an_interrupted_run_is_valid_and_goes_on(monkeypatch, tmp_path):
    monkeypatch.setattr(round_data, "RESIDENT_BYTES", 1)
    monkeypatch.setattr(round_data, "CHUNK_BYTES", 2 * AGENTS * specimens.DIM * 4)
    path, at, before = tmp_path / "state.npz", 7, signal.getsignal(signal.SIGINT)
    settings = {"rounds": ROUNDS, "record_every": 5}
    stopped = simulate(
        local(),
        graphs.ring(AGENTS),
        stream_with(lambda: signal.raise_signal(signal.SIGINT), at),
        checkpoint=path,
        **settings,
    )
    whole = simulate(local(), graphs.ring(AGENTS), specimens.targets(AGENTS, ROUNDS), **settings)
    assert stopped.partial
    assert 0 < stopped.rounds <= at + 4
    for name, values in stopped.per_round.items():
        np.testing.assert_array_equal(values, whole.per_round[name][:, : stopped.rounds], err_msg=name)
    assert stopped.recorded["consensus"].shape == (1, len(stopped.recorded_rounds))
    assert stopped.metrics()["messages"]["mean"] == 0
    # Not a round is lost: the checkpoint is of the last one, recorded or not.
    resumed = simulate(local(), graphs.ring(AGENTS), specimens.targets(AGENTS, ROUNDS), checkpoint=path, **settings)
    assert not resumed.partial
    same_figures(resumed, whole)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_stream_that_fails_is_not_hidden(monkeypatch):
    monkeypatch.setattr(round_data, "RESIDENT_BYTES", 1)
    monkeypatch.setattr(round_data, "CHUNK_BYTES", 2 * AGENTS * specimens.DIM * 4)

    def fail():
        raise ZeroDivisionError("of the stream")

    with pytest.raises(ZeroDivisionError, match="of the stream"):
        simulate(local(), graphs.ring(AGENTS), stream_with(fail, 6), rounds=ROUNDS)


CHILD = """
import json, sys
import numpy as np
from tacit import graphs
from tacit.simulator import data as round_data
from tacit.simulator import simulate
from tests.simulator import specimens
from tests.simulator.test_interrupts import local
from tacit import streams

round_data.RESIDENT_BYTES, round_data.CHUNK_BYTES = 1, 10 * 5 * specimens.DIM * 4

def read(start, stop):
    if start == 10:
        print("running", flush=True)
    return np.sin(np.arange(start, stop)[:, None, None] + np.arange(5)[:, None] + np.zeros(specimens.DIM, np.float32))

def stream():
    return streams.from_function(lambda a, b: read(a, b).astype(np.float32), agents=5, rounds=10**6)

run = simulate(local(), graphs.ring(5), stream(), rounds=10**6)
again = simulate(local(), graphs.ring(5), stream(), rounds=run.rounds)
print(json.dumps({
    "partial": run.partial, "rounds": run.rounds, "figures": run.per_round["loss"].shape[1],
    "same": bool(np.array_equal(run.per_round["loss"], again.per_round["loss"])),
    "models": bool(np.array_equal(run.models, again.models)),
}))
"""


def test_ctrl_c_from_outside_at_any_moment():
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "JAX_PLATFORMS": "cpu"}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=root,
    )
    try:
        assert child.stdout.readline() == "running\n", child.stderr.read()
        time.sleep(0.2)  # any moment will do
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0, err
    said = json.loads(out.splitlines()[-1])
    assert said["partial"]
    assert said["same"]
    assert said["models"]
    assert 0 < said["rounds"] == said["figures"] < 10**6
