"""Curves for TensorBoard and MLflow."""

from __future__ import annotations

import struct
import sys
import types

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import tacit
from tacit.core.errors import ConfigError, ResultError
from tacit.interop import log_to_mlflow, log_to_tensorboard
from tacit.interop.event_files import Point, write_events
from tacit.interop.trackers import tracker
from tacit.results import load
from tacit.results.store import save_data
from tacit.simulator.watching import told


@pytest.fixture(scope="module")
def run():
    algorithm = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), mechanism=tacit.privacy.laplace(2.0, 1.0))
    stream = tacit.streams.logistic_drift(agents=3, dim=2, rounds=6, seed=0)
    made = tacit.simulate(algorithm, tacit.graphs.ring(3), stream, rounds=6, repeats=2, record_every=2)
    made.label = "alone, private"
    return made


def crc32c(content: bytes) -> int:
    """The checksum bit by bit, as its definition has it: a division of polynomials, reflected."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def event_class():
    """Event as TensorBoard defines it, as far as curves go, for protobuf's own decoder."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="t", syntax="proto3")
    fields = {
        "Value": [("tag", 1, 9, ""), ("simple_value", 2, 2, "")],
        "Summary": [("value", 1, 11, ".t.Value")],
        "Event": [
            ("wall_time", 1, 1, ""),
            ("step", 2, 3, ""),
            ("file_version", 3, 9, ""),
            ("summary", 5, 11, ".t.Summary"),
        ],
    }
    for name, members in fields.items():
        message = file.message_type.add(name=name)
        for member, number, kind, of in members:
            label = 3 if of == ".t.Value" else 1
            message.field.add(name=member, number=number, type=kind, type_name=of or None, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Event"))


def decoded(path):
    content, events, kind = path.read_bytes(), [], event_class()

    def masked(part: bytes) -> int:
        crc = crc32c(part)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    while content:
        (length,) = struct.unpack("<Q", content[:8])
        assert struct.unpack("<I", content[8:12]) == (masked(content[:8]),)
        event = content[12 : 12 + length]
        assert struct.unpack("<I", content[12 + length : 16 + length]) == (masked(event),)
        events.append(kind.FromString(event))
        content = content[16 + length :]
    return events


def test_the_checksum_is_the_known_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720 and every catalogue of checksums


def test_event_files_hold_the_trace(run, tmp_path) -> None:
    folder = log_to_tensorboard(run, tmp_path / "tb")
    assert folder == tmp_path / "tb" / "alone-private"
    first, *events = decoded(folder / "repeat-1" / "events.out.tfevents.0.tacit")
    assert first.file_version == "brain.Event:2"
    curves: dict = {}
    for event in events:
        (value,) = event.summary.value
        curves.setdefault(value.tag, {})[event.step] = value.simple_value
    trace = run.record().trace
    assert list(curves["loss"]) == [2, 4, 6]
    np.testing.assert_allclose(list(curves["loss"].values()), trace.loss[1], rtol=1e-6)
    np.testing.assert_allclose(list(curves["average_accuracy"].values()), trace.score[1], rtol=1e-6)
    assert curves["privacy/epsilon"] == {6: pytest.approx(2.0)}
    assert curves.keys() == {
        "loss",
        "average_loss",
        "consensus",
        "cumulative_bits",
        "average_accuracy",
        "privacy/epsilon",
    }
    log_to_tensorboard(run, tmp_path / "tb")  # again: it replaces, and adds no second curve
    assert len(decoded(folder / "repeat-1" / "events.out.tfevents.0.tacit")) == 1 + len(events)


def test_long_names_and_late_rounds_fit(tmp_path) -> None:
    points = [Point("t" * 200, 300, 0.5), Point("é", 2**40, -1.0)]
    write_events(tmp_path / "events", points, 12.5)
    _, *events = decoded(tmp_path / "events")
    found = [(value.tag, event.step, value.simple_value) for event in events for value in event.summary.value]
    assert found == [tuple(point) for point in points]
    assert {event.wall_time for event in events} == {12.5}


def test_a_saved_run_can_be_logged_later(run, tmp_path) -> None:
    save_data(run.record(), tmp_path / "run")
    folder = log_to_tensorboard(load(tmp_path / "run"), tmp_path / "tb")
    assert sorted(place.name for place in folder.iterdir()) == ["repeat-0", "repeat-1"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="cannot be written"):
        log_to_tensorboard(run, tmp_path / "file")


class FakeMlflow:
    """Notes what a client is told, in the words of MLflow's client."""

    def __init__(self) -> None:
        self.told: list = []

    def modules(self):
        outer = self

        class Client:
            def __init__(self, tracking_uri=None):
                if tracking_uri == "nowhere":
                    raise exceptions.MlflowException("no such place")
                outer.uri = tracking_uri

            def get_experiment_by_name(self, name):
                return None

            def create_experiment(self, name):
                return f"id of {name}"

            def create_run(self, experiment_id, run_name):
                outer.told.append((experiment_id, run_name))
                return types.SimpleNamespace(info=types.SimpleNamespace(run_id=f"run {len(outer.told)}"))

            def log_batch(self, run_id, metrics=(), params=(), tags=()):
                outer.told.append((run_id, list(metrics), list(params), list(tags)))

            def set_terminated(self, run_id, status=""):
                outer.told.append(f"end of {run_id}{status and ': '}{status}")

        entities = types.ModuleType("mlflow.entities")
        entities.Metric = entities.Param = entities.RunTag = lambda *values: values
        exceptions = types.ModuleType("mlflow.exceptions")
        exceptions.MlflowException = type("MlflowException", (Exception,), {})
        mlflow = types.ModuleType("mlflow")
        mlflow.MlflowClient, mlflow.entities = Client, entities
        return {"mlflow": mlflow, "mlflow.entities": entities, "mlflow.exceptions": exceptions}


def test_mlflow_is_told_settings_curves_and_privacy(run, monkeypatch) -> None:
    fake = FakeMlflow()
    for name, module in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    tracker("mlflow=http://127.0.0.1:5000").finished(run)
    assert fake.uri == "http://127.0.0.1:5000"
    created, described, *_ = fake.told
    assert created == ("id of tacit", "alone, private repeat 0")
    ((run_id, *_), (_, *curves)) = [entry for entry in fake.told if entry[0] == described[0]]
    ended = f"end of {run_id}"
    assert ended in fake.told
    assert ("run.rounds", "6") in described[2]
    assert described[3][0][1].startswith("Epsilon = 2 per record")
    assert [(step, value) for tag, value, _, step in curves[0] if tag == "loss"] == [
        (step, pytest.approx(value)) for step, value in zip((2, 4, 6), run.record().trace.loss[0], strict=True)
    ]
    assert run_id == "run 1"
    with pytest.raises(ResultError, match="MLflow at nowhere: no such place"):
        tracker("mlflow=nowhere")


# --- while a run goes on


@pytest.fixture
def every_piece(monkeypatch):
    """Watchers hear of every piece, however short it is."""
    monkeypatch.setattr(told, "EVERY", 0.0)


def watched(*watchers, rounds=6):
    algorithm = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), mechanism=tacit.privacy.laplace(2.0, 1.0))
    stream = tacit.streams.logistic_drift(agents=3, dim=2, rounds=rounds, seed=0)
    made = tacit.simulate(
        algorithm, tacit.graphs.ring(3), stream, rounds=rounds, repeats=2, record_every=2, watch=list(watchers)
    )
    made.label = "alone, private"
    return made


def test_curves_grow_while_a_run_goes_on_and_are_the_same_in_the_end(every_piece, tmp_path) -> None:
    live, lengths = tracker(f"tensorboard={tmp_path / 'live'}"), []
    file = tmp_path / "live" / "alone-private" / "repeat-1" / "events.out.tfevents.0.tacit"
    hear = live("alone, private", {})

    def watch(part):
        hear(part)
        live._under_way["alone, private"]._due = 0.0
        lengths.append((part.done, len(decoded(file)) - 1))

    made = watched(watch)
    steps = [2, 4, 6]
    grown = {done: max(n for at, n in lengths if at == done) for done, _ in lengths}
    assert [grown.get(done) for done in (0, *steps)] == [0, 5, 10, 15], "five curves each"
    live.finished(made)
    afterwards = log_to_tensorboard(made, tmp_path / "afterwards")

    def points(path):
        return {(e.summary.value[0].tag, e.step): e.summary.value[0].simple_value for e in decoded(path)[1:]}

    for repeat in ("repeat-0", "repeat-1"):
        each = [points(folder / repeat / file.name) for folder in (file.parent.parent, afterwards)]
        assert each[0] == pytest.approx(each[1], rel=1e-5)
        assert len(each[0]) == len(decoded(file.parent.parent / repeat / file.name)) - 1, "no point twice"


def test_mlflow_hears_before_the_end_and_of_a_failure(every_piece, monkeypatch) -> None:
    fake = FakeMlflow()
    for name, module in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    live = tracker("mlflow=http://127.0.0.1:5000")
    hear, heard = live("a label", {"run": {"rounds": 6}}), []

    def watch(part):
        hear(part)
        live._under_way["a label"]._due = 0.0
        heard.append((part.done, len(fake.told)))
        if part.done == 4:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        watched(watch)
    assert ("id of tacit", "a label repeat 1") in fake.told[: heard[0][1]]
    assert [entry[1] for entry in fake.told if entry[0] == "run 1" and len(entry) == 4][1]
    assert fake.told[-2:] == ["end of run 1: FAILED", "end of run 3: FAILED"]


def test_what_cannot_be_sent_ends_no_run_and_is_told(every_piece, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    live = tracker(f"tensorboard={tmp_path / 'file'}")
    made = watched(live("alone, private"))
    assert made.rounds == 6
    with pytest.raises(ResultError, match="cannot be written"):
        live.finished(made)


def test_words_that_name_no_tracker(run, monkeypatch) -> None:
    for asked in ("tensorboard", "tensorboard=", "wandb=here"):
        with pytest.raises(ConfigError, match="tensorboard=DIRECTORY .*mlflow=TRACKING-URI"):
            tracker(asked)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigError, match=r"tacit\[mlflow\]"):
        log_to_mlflow(run)
