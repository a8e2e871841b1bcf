"""What a peer answers: score, probability and class by their names, and classes by theirs."""

import asyncio
import json

import numpy as np
import pytest

from tacit import objectives
from tacit.config.job import load_job
from tacit.core.errors import ConfigError, DataError
from tacit.deploy.model import peer_model
from tacit.deploy.peer import Peer
from tacit.peer.operations.predictions import named_prediction
from tacit.peer.sources.queue import SampleForm
from tacit.peer.sources.rows import CsvRows
from tests.deploy.homes import job_text
from tests.deploy.peers import ALONE, alone, ask, until, used

BINARY = SampleForm.of(2, "binary")
NAMED = SampleForm.of(2, "binary", class_names=["stays", "readmitted"])
THREE = SampleForm.of(2, "multiclass", 3)


def test_logistic_has_a_probability_for_each_class_and_hinge_has_none():
    found = named_prediction(BINARY, objectives.logistic(), np.float32(0.0))
    assert found == {"class": -1, "probability": {"-1": 0.5, "1": 0.5}, "score": 0.0}
    found = named_prediction(NAMED, objectives.logistic(), np.float32(np.log(3)))
    assert (found["class"], found["score"]) == ("readmitted", pytest.approx(np.log(3)))
    assert found["probability"] == {"stays": pytest.approx(0.25), "readmitted": pytest.approx(0.75)}
    assert named_prediction(NAMED, objectives.hinge(), np.float32(-2.5)) == {"class": "stays", "score": -2.5}


def test_softmax_says_all_by_class():
    found = named_prediction(THREE, objectives.softmax(3), np.log(np.array([1.0, 2.0, 5.0])))
    assert found["class"] == 2
    assert found["probability"] == {"0": pytest.approx(1 / 8), "1": pytest.approx(2 / 8), "2": pytest.approx(5 / 8)}
    assert found["score"] == {"0": 0.0, "1": pytest.approx(np.log(2)), "2": pytest.approx(np.log(5))}
    json.dumps(found)
    named = THREE._replace(class_names=("a", "b", "c"))
    assert named_prediction(named, objectives.softmax(3), np.array([0.0, 3.0, 1.0]))["class"] == "b"


def test_a_regression_says_its_value():
    assert named_prediction(SampleForm.of(2), objectives.squared(), np.float64(3.25)) == {"value": 3.25}


@pytest.mark.parametrize(
    ("task", "classes", "names"),
    [
        ("binary", None, ["one"]),
        ("binary", None, ["a", "b", "c"]),
        ("binary", None, ["a", "a "]),
        ("binary", None, ["a", ""]),
        ("binary", None, ["1", "0"]),
        ("multiclass", 3, ["a", "b"]),
        ("regression", None, ["a", "b"]),
        ("binary", None, []),
    ],
)
def test_names_of_classes_that_cannot_be_used(task, classes, names):
    with pytest.raises(ConfigError, match="class_names"):
        SampleForm.of(2, task, classes, class_names=names)


def test_a_job_names_its_classes_and_without_names_its_hash_stays(tmp_path):
    path, hashes = tmp_path / "job.toml", []
    for more in ({}, {"class_names": '["no", "yes"]'}):
        path.write_text(job_text(**more))
        hashes.append(load_job(path).settings_hash)
    assert load_job(path).form.labels == ("no", "yes")
    assert hashes[0] != hashes[1]
    assert "class_names" not in str(load_job_described(path, job_text()))
    path.write_text(job_text(class_names='["no"]'))
    with pytest.raises(ConfigError, match=r"job\.toml: \[job\]: class_names = no: expected 2 "):
        load_job(path)


def load_job_described(path, text):
    path.write_text(text)
    return load_job(path).described


def test_labels_may_be_given_by_name():
    assert NAMED.check([1.0, 2.0], "readmitted").y == 1.0
    assert NAMED.check([1.0, 2.0], " stays ").y == -1.0
    assert NAMED.check([1.0, 2.0], 1).y == 1.0
    assert THREE._replace(class_names=("a", "b", "c")).check([1.0, 2.0], "c").y == 2.0
    with pytest.raises(DataError, match="label: .*stays, readmitted"):
        NAMED.check([1.0, 2.0], "unknown")
    with pytest.raises(DataError, match="label: text"):
        BINARY.check([1.0, 2.0], "stays")
    content = b"a,b,y\n1,2,readmitted\n1,2,stays\n1,2,1\n1,2,who\n"
    rows = CsvRows("data.csv", NAMED, "y", None)
    header = rows.header(lambda offset, length: content[offset : offset + length])
    read = [rows.row(header, line, f"line {k}") for k, line in enumerate(content.splitlines()[1:])]
    assert [None if row.sample is None else row.sample.y for row in read] == [1.0, -1.0, 1.0, None]
    assert "stays, readmitted" in str(read[-1].fault)
    assert "who" not in str(read[-1].fault)  # values are nobody's business


def test_a_peer_learns_and_answers_by_name(tmp_path):
    job = job_text(members=ALONE, class_names='["stays", "readmitted"]')
    file = alone(tmp_path, job=job)

    async def scenario():
        async with await Peer.start(file) as peer:
            await ask(peer, "/learn", [{"x": [1.0, 1.0], "y": "readmitted"}] * 3)
            await until(lambda: used(peer) == 3)
            await until(lambda: peer.predict([1.0, 1.0]) > 0)
            found = json.loads(await ask(peer, "/predict", {"x": [1.0, 1.0]}))
            assert found["class"] == "readmitted"
            assert list(found["probability"]) == ["stays", "readmitted"]
            assert "stays, readmitted" in await ask(peer, "/learn", {"x": [1.0, 1.0], "y": "gone"}, code=400)

    asyncio.run(scenario())


def test_a_file_with_names_for_labels_gives_a_model_with_names(tmp_path):
    job = job_text(members=ALONE, class_names='["stays", "readmitted"]')
    file = alone(tmp_path, job=job, stream='kind = "csv"\npath = "data.csv"', rounds="patience = 0.05\nlast = 2")
    file.with_name("data.csv").write_text("a,b,y\n1,2,readmitted\n-1,-2,stays\n")

    async def scenario():
        async with await Peer.start(file) as peer:
            await peer.finished()
            assert used(peer) == 2
            return [peer.prediction(x)["class"] for x in ([1.0, 2.0], [-1.0, -2.0])]

    said = asyncio.run(scenario())
    assert said == ["readmitted", "stays"]
    assert list(peer_model(file).predict(file.with_name("data.csv"))) == said
