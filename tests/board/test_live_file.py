"""Live files: what a run writes of itself, and what is read of files that are torn, damaged or hostile."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.board.app import finite
from tacit.board.curves import of_live
from tacit.board.graph_view import agent, frames, graph
from tacit.board.live_reader import LiveRecord, glance
from tacit.board.runs import Runs
from tacit.cli.swarm import _live_log
from tacit.core.errors import ConfigError, ResultError, TacitWarning
from tacit.deploy.comparison import Seen
from tacit.experiments import build, parse
from tacit.results.live import LiveFolder, LiveLog
from tacit.results.live.drawn import line_of
from tacit.results.live.file import MOST_ROWS, Thinned
from tacit.results.live.parts import Drawing

OBJECTIVE = tacit.objectives.logistic()


def watched(tmp_path: Path, method=None, graph=None, rounds: int = 30, **settings):  # type: ignore[no-untyped-def]
    method = method or tacit.algorithms.online_push_sum(OBJECTIVE, step=0.3)
    graph = graph or tacit.graphs.directed_ring(6)

    def data(seed: int):  # type: ignore[no-untyped-def]
        return tacit.streams.logistic_drift(graph.agents, 3, seed=seed)

    return tacit.simulate(method, graph, data, rounds=rounds, watch=tmp_path, **settings)


def record_in(tmp_path: Path) -> LiveRecord:
    (path,) = (tmp_path / ".tacit-live").iterdir()
    found = LiveRecord(path)
    found.refresh()
    return found


def test_a_live_file_has_the_figures_of_the_run(tmp_path: Path) -> None:
    run = watched(tmp_path, rounds=30, repeats=3)
    found = record_in(tmp_path)
    curves = of_live(found)
    trace = run.record().trace
    shown = {name: curve["mean"] for name, curve in curves["curves"].items()}
    for name, values in (("loss", trace.loss), ("average_loss", trace.average_loss), ("score", trace.score)):
        assert shown[name] == pytest.approx(values.mean(axis=0).tolist(), rel=1e-5)
    assert shown["bits"] == trace.bits.mean(axis=0).tolist()
    assert [value for value in shown["consensus"] if value is not None] == pytest.approx(
        trace.consensus.mean(axis=0).tolist(), rel=1e-5
    )
    low, high = (np.array(curves["curves"]["loss"][end], float)[1:] for end in ("low", "high"))
    assert (low < np.array(shown["loss"][1:])).all()
    assert (high > np.array(shown["loss"][1:])).all()
    assert curves["curves"]["bits"]["low"] is None
    seen = glance(found.path)
    assert (seen.ended, seen.done, seen.held) == ("done", 30, False)
    assert seen.figures["loss"] == pytest.approx(float(run.average_loss().mean()), rel=1e-5)


def test_frames_are_of_single_agents(tmp_path: Path) -> None:
    run = watched(tmp_path)
    found = record_in(tmp_path)
    (at, measures) = found.frames[-1]
    assert at == 30
    models = np.asarray(run.models)[0]
    assert measures["disagreement"] == pytest.approx(((models - models.mean(axis=0)) ** 2).sum(axis=1), rel=1e-3)
    assert measures["mass"] == pytest.approx(np.ones(6), rel=1e-4)
    batch = tacit.streams.logistic_drift(6, 3, seed=0).chunk(29, 30)
    own = [type(batch)(*(None if leaf is None else leaf[0, k] for leaf in batch)) for k in range(6)]
    losses = [float(OBJECTIVE.loss(model, part)) for model, part in zip(models, own, strict=True)]
    assert measures["loss"] == pytest.approx(losses, rel=1e-3)
    assert "presence" not in measures


def test_regret_so_far_has_a_band_and_keeps_to_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.simulator.watching.told.EVERY", 0.0)
    watched(tmp_path / "without", rounds=4)
    assert "regret_so_far" not in of_live(record_in(tmp_path / "without"))["curves"]
    monkeypatch.setattr("tacit.results.live.file.REGRET_SHARE", 1e9)
    watched(tmp_path / "with", rounds=4)
    found = record_in(tmp_path / "with").curves["regret_so_far"]
    assert list(found) == sorted(found)
    assert all(low <= mean <= high for mean, low, high in found.values())
    assert any(low < high for _, low, high in found.values())


def test_liars_have_no_figures_and_are_named(tmp_path: Path) -> None:
    method = tacit.algorithms.adapt_then_combine(OBJECTIVE, step=0.1)
    watched(tmp_path, method, tacit.graphs.ring(6), liars={2: tacit.attacks.sign_flip()})
    found = record_in(tmp_path)
    assert np.flatnonzero(np.isnan(found.frames[-1][1]["loss"])).tolist() == [2]
    assert "lies" in graph(found)["nodes"][2]["label"]


def test_agents_that_are_away_and_servers(tmp_path: Path) -> None:
    topology = tacit.graphs.star_roles(5).available("client", 0.5)
    method = tacit.algorithms.fedavg(OBJECTIVE, step=0.1)
    stream = tacit.streams.logistic_drift(5, 3)
    tacit.simulate(method, topology, stream, rounds=8, watch=tmp_path)
    found = record_in(tmp_path)
    shape = graph(found)
    assert (shape["agents"], len(shape["nodes"]), shape["nodes"][5]["label"]) == (5, 6, "server 0")
    assert set(frames(found, "presence", 0, None)["values"][0][:5]) <= {0.0, 1.0}
    assert math.isnan(frames(found, "loss", 0, None)["values"][0][5])


def test_many_agents_are_groups() -> None:
    agents = 50_000
    ids = np.arange(agents)
    line = line_of(Drawing(agents, ("",) * agents, None, ids, (ids + 1) % agents))
    assert line["aggregated"]
    assert sum(line["sizes"]) == agents
    assert sorted(map(tuple, line["links"])) == sorted((k, (k + 1) % line["count"]) for k in range(line["count"]))
    clusters = ids % 7
    line = line_of(Drawing(agents, ("",) * agents, clusters, ids, (ids + 1) % agents))
    assert (line["count"], line["clusters"]) == (7, list(range(7)))


def test_links_beyond_number_are_counted_and_left_out() -> None:
    pairs = np.indices((400, 400)).reshape(2, -1)
    line = line_of(Drawing(400, ("",) * 400, None, *pairs))
    assert (line["links"], line["left_out"], line["count"]) == ([], 160_000, 400)


def test_what_grows_is_thinned() -> None:
    thinned, taken = Thinned(100), 0
    for done in range(1, 1_000_001):
        if thinned.wants(done):
            thinned.take(done)
            taken += 1
    assert 100 < taken < 1000


def test_rounds_are_thinned(tmp_path: Path) -> None:
    watched(tmp_path, rounds=3 * MOST_ROWS + 1)
    rounds = of_live(record_in(tmp_path))["rounds"]
    assert len(rounds) < MOST_ROWS
    assert (rounds[0], rounds[-1]) == (1, 3 * MOST_ROWS + 1)


def test_a_new_run_takes_the_place_of_the_files_of_an_old_one(tmp_path: Path) -> None:
    for folder in (LiveFolder(tmp_path), LiveFolder(tmp_path)):
        for label in ("a", "b/../c"):
            method = tacit.algorithms.online_push_sum(OBJECTIVE)
            stream = tacit.streams.logistic_drift(3, 2)
            tacit.simulate(method, tacit.graphs.directed_ring(3), stream, rounds=2, watch=folder(label))
    assert sorted(path.name for path in (tmp_path / ".tacit-live").iterdir()) == ["01-a.jsonl", "02-b-c.jsonl"]
    assert {run.label for run in Runs(tmp_path).all()} == {"a", "b/../c"}


def test_sealing_and_reading_take_no_notice(tmp_path: Path) -> None:
    run = watched(tmp_path)
    run.save(tmp_path)
    (path,) = (tmp_path / ".tacit-live").iterdir()
    before = path.read_bytes()
    assert tacit.results.load(tmp_path).label == "online_push_sum"
    run.save(tmp_path)
    assert path.read_bytes() == before
    assert [found.state for found in Runs(tmp_path).all()] == ["done"]


def test_a_disk_that_is_full_ends_the_file_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*about: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tacit.results.live.log.os.write", full)
    with pytest.warns(TacitWarning, match="No space"):
        run = watched(tmp_path)
    assert run.rounds == 30


def test_a_folder_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / ".tacit-live").symlink_to(elsewhere)
    with pytest.warns(TacitWarning, match="link"):
        watched(tmp_path)
    assert list(elsewhere.iterdir()) == []


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    def broken(models):  # type: ignore[no-untyped-def]
        raise ZeroDivisionError("the user's own")

    with pytest.raises(ZeroDivisionError):
        watched(tmp_path, record={"mine": broken})
    (found,) = Runs(tmp_path).all()
    assert (found.state, "the user's own" in str(found.fault)) == ("failed", True)


def test_what_cannot_watch_is_refused() -> None:
    method, stream = tacit.algorithms.online_push_sum(OBJECTIVE), tacit.streams.logistic_drift(3, 2)
    with pytest.raises(ConfigError, match="watch"):
        tacit.simulate(method, tacit.graphs.directed_ring(3), stream, rounds=2, watch=(3,))  # type: ignore[arg-type]


WRITER = """
import sys
from tacit.results.live import LiveLog
log = LiveLog(sys.argv[1])
log.begin("killed", "run", {"rounds": 100}, {})
for k in range(1, 51):
    log.rows(k, [{"rounds": [k], "curves": {"loss": [[1.0]]}}], {"loss": 1.0})
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_swarm_has_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.cli.swarm.LOOKS", 0.0)
    file = """
        run = {rounds = 9}
        graph = {kind = "directed_ring", agents = 3}
        stream = {kind = "logistic_drift", dim = 2}
        objective = {kind = "logistic"}
        algorithm = [{name = "online_push_sum", label = "peers"}]
    """
    with _live_log(tmp_path, build(parse(file, tmp_path / "x.toml")), 0) as told:
        told(1, lambda: None)  # no round before it: there is no loss
        for done in (4, 4, 9):
            curves = {"loss": 1 / done, "consensus": 0.5, "bits": 8.0 * done, "epsilon": 0.1 * done}
            links = {"late": [("peer-0", "peer-1")]} if done == 9 else {}
            told(done, partial(Seen, curves, {"loss": np.full(3, 1 / done), "privacy": np.full(3, 0.1)}, links))
    (run,) = Runs(tmp_path).all()
    assert (run.label, run.kind, run.state, run.done, run.figures["loss"]) == ("peers", "swarm", "done", 9, 0.1111111)
    curves = of_live(record_in(tmp_path))
    assert (curves["rounds"], curves["curves"]["loss"]["mean"]) == ([4, 9], [0.25, 0.1111111])
    assert curves["curves"]["bits"]["mean"] == [32, 72]
    assert curves["curves"]["epsilon"]["mean"] == [0.4, 0.9]
    live = record_in(tmp_path)
    shape = graph(live)
    assert (shape["measures"], len(shape["nodes"])) == (["loss", "privacy"], 3)
    (late,) = live.links[9]["late"]
    assert shape["links"][late] == [0, 1]
    assert live.links[4] == {}


def test_a_killed_writer_leaves_a_file_that_can_be_read(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (run,) = Runs(tmp_path).all()
        assert (run.state, run.done) == ("live", 50)
        assert run.live is not None
        run.live.rename(run.live.with_name("02-killed.jsonl"))
        with pytest.raises(ResultError, match="another run"):
            LiveLog(tmp_path, 2).begin("killed", "run", {}, {})
        process.send_signal(signal.SIGKILL)
        process.wait()
    (path,) = (tmp_path / ".tacit-live").iterdir()
    with path.open("ab") as file:
        file.write(b'{"rows":[{"rounds":[51],"curves":{"loss":[[1')
    (run,) = Runs(tmp_path).all()
    assert (run.state, run.done) == ("stopped", 50)
    assert of_live(record_in(tmp_path))["rounds"] == list(range(1, 51))


def test_a_file_is_read_on_where_it_was_left(tmp_path: Path) -> None:
    with LiveLog(tmp_path) as log:
        log.begin("grows", "run", {"rounds": 10}, {})
        found = record_in(tmp_path)
        for k in range(1, 4):
            log.rows(k, [{"rounds": [k], "curves": {"loss": [[float(k)]]}}], {})
            found.refresh()
            assert of_live(found)["rounds"] == list(range(1, k + 1))
    with LiveLog(tmp_path) as log:  # another run in the same directory
        log.begin("grows", "run", {"rounds": 10}, {})
        found.refresh()
    assert of_live(found)["rounds"] == []


HEADER = b'{"tacit_live":1,"label":"x","rounds":9}\n'
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
keys = st.sampled_from(
    ["rows", "graph", "frame", "end", "done", "figures", "measures", "curves", "rounds", "at", "rate"]
)
line = st.dictionaries(keys, anything, max_size=5).map(lambda found: json.dumps(found).encode())
odd = st.sampled_from(
    [
        b'{"rows":[{"rounds":[1e999,1],"curves":{"loss":[[1e999,-1e999]]}}],"done":1e999,"figures":{"loss":NaN}}',
        b'{"rows":[],"done":' + b"9" * 5000 + b"}",
        b'{"rows":' + b"[" * 100_000,
        b'{"graph":{"count":3,"agents":3,"links":[[0,1],[9,0],["a",2],[0,1,2]],"labels":[1,"<b>",null]}}',
        b'{"graph":{"count":99999999999,"agents":3,"links":[]}}',
        b'{"frame":2,"measures":{"loss":[1,null,"x",4,5],"mass":7}}',
        b'{"end":"done","done":-3,"error":{"a":1}}',
        b"\xff\xfe\x00",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(line | odd | st.binary(max_size=30), max_size=8), st.integers(0, 60))
def test_whatever_a_file_holds_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / ".tacit-live").mkdir()
    whole = HEADER + b"\n".join(lines) + b"\n"
    (folder / ".tacit-live" / "01-x.jsonl").write_bytes(whole[: len(whole) - cut] if cut else whole)
    (run,) = Runs(folder).all()
    json.dumps(run.as_json(), allow_nan=False)
    if run.live is None:
        assert run.fault
        return
    found = LiveRecord(run.live)
    found.refresh()
    json.dumps(of_live(found), allow_nan=False)
    if found.network is not None:
        for told in (graph(found), frames(found, "loss", 0, None), agent(found, 0, True, None)):
            json.dumps(finite(told), allow_nan=False)


def test_a_run_that_diverges_has_gaps(tmp_path: Path) -> None:
    squared = tacit.algorithms.online_push_sum(tacit.objectives.squared(), step=1e30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "repeats = .* are all the same")
        watched(tmp_path, squared, repeats=2)
    (run,) = Runs(tmp_path).all()
    assert (run.state, run.figures["loss"]) == ("done", None)
    assert None in of_live(record_in(tmp_path))["curves"]["loss"]["mean"]


def test_no_warning_comes_of_a_run_that_is_watched(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watched(tmp_path)
