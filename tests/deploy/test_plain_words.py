"""Operators read TOML and plain words: no message shows an object of Python, whatever is wrong."""

import asyncio
import io
import itertools
import json
import logging
import re

import pytest

from tacit.cli import main
from tacit.config.peer import load_peer
from tacit.core.errors import LedgerError, TacitError, said
from tacit.deploy.peer import Peer
from tacit.peer.operations import logs
from tests.deploy.homes import LAPLACE, RING, found, job_text
from tests.deploy.peers import ALONE, alone, ask
from tests.deploy.test_check import edit

PYTHON = re.compile(
    r"\bNone\b|\bTrue\b|\bFalse\b|\bNoneType\b|\b(dict|str|tuple|ndarray)\b|(?<![\w'])b'|\{'|\[\(|<class|<[\w.]+ object"
    r"|[A-Z]\w+\([a-z_]+=|\w+Error\(|dtype\(|array\(|datetime\.|PosixPath|ShapeDtypeStruct|Traceback|\[Errno"
)
"""What a representation of an object leaves in a text."""
VALUES = ("true", "1979-05-27", '["a", "b"]', "{a = 1}", "[{a = true}]", '""', "nan", "-1")


def plain(text):
    assert not PYTHON.search(text), f"{PYTHON.search(text)[0]!r} in {text}"
    return text


def test_the_pattern_finds_what_it_should():
    for value in (None, {"a": 1}, [(1, 2)], b"x", OSError(2, "no"), object(), ValueError("no")):
        with pytest.raises(AssertionError):
            plain(repr(value))
    with pytest.raises(AssertionError):
        plain(str(OSError(2, "No such file", "data.csv")))
    plain(said(OSError(2, "No such file", "data.csv")))


def test_every_key_with_values_that_nobody_meant(tmp_path):
    privacy = "epsilon = 4.0\ndelta = 1e-5\nreserve = 0.0"
    stream = 'kind = "csv"\npath = "data.csv"\nlabel = "y"\ncolumns = ["a", "b"]\nkey = "id"'
    job = job_text(mechanism=LAPLACE, epoch=1, batch=2, longest_delay=0, class_names='["no", "yes"]')
    rounds, operations = "deadline = 1.0\npatience = 1.0", "port = 0\nprogress = 5"
    files = found(
        tmp_path, job, RING, identities=False, privacy=privacy, stream=stream, rounds=rounds, operations=operations
    )
    file, refused = files["hospital-a"], 0
    load_peer(file)
    for path in (file, tmp_path / "job.toml"):
        text = path.read_text()
        lines = text.splitlines()
        keys = [k for k, line in enumerate(lines) if "=" in line]
        for k, value in itertools.product(keys, VALUES):
            key = lines[k].partition("=")[0].strip()
            path.write_text("\n".join([*lines[:k], f"{key} = {value}", *lines[k + 1 :]]))
            try:
                load_peer(file)
            except TacitError as error:
                plain(str(error))
                refused += 1
        path.write_text(text)
    assert refused > 100


@pytest.mark.parametrize(
    "body",
    [None, 3, "text", [], {}, {"x": None}, {"x": "ab"}, {"x": [1]}, {"x": [True, None]}, {"x": [1, "a"]}, {"x": {}}],
)
def test_what_the_loopback_port_answers_to_bad_requests(shared, body):
    loop, peer = shared
    plain(loop.run_until_complete(ask(peer, "/predict", body, code=400 if body is not None else 405)))
    if isinstance(body, dict) and "x" in body:
        for y in (None, "a", True, [], 7):
            plain(loop.run_until_complete(ask(peer, "/learn", {**body, "y": y}, code=400)))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One running peer for all requests."""
    file = alone(tmp_path_factory.mktemp("peer"), rounds="patience = 5.0")
    loop = asyncio.new_event_loop()
    peer = loop.run_until_complete(Peer.start(file))
    yield loop, peer
    loop.run_until_complete(peer.stop())
    loop.close()


def test_a_spent_budget_is_told_in_words_everywhere(tmp_path, capsys):
    job = job_text(members=ALONE, mechanism=LAPLACE + 'adjacency = "dataset"\n')
    file = alone(tmp_path, job=job, privacy="epsilon = 3.0")
    text, logger = io.StringIO(), logging.getLogger(logs.NAME)
    handler = logging.StreamHandler(text)
    handler.setFormatter(logs._JsonLines())

    async def scenario():
        async with await Peer.start(file) as peer:
            for _ in range(2):
                await peer.learn([1.0, 1.0], 1)
            with pytest.raises(TacitError) as caught:
                await peer.finished()
            assert "spent is epsilon 2" in plain(str(caught.value))
            assert "spent is epsilon 2" in plain(await ask(peer, "/health", code=503))
            status = json.loads(await ask(peer, "/status"))
            assert "epsilon 2 of 3 per agent" in plain(status["privacy"]["budget"]["words"])
            with pytest.raises(SystemExit):
                await asyncio.to_thread(main, ["peer", "status", str(file)])
            await ask(peer, "/metrics")

    logger.addHandler(handler)
    before, logger.level = logger.level, logging.INFO
    try:
        asyncio.run(scenario())
    finally:
        logger.removeHandler(handler)
        logger.level = before
    plain(text.getvalue())
    assert "budget" in text.getvalue()
    assert "epsilon 2 of 3 per agent" in plain(capsys.readouterr().out)
    settings = load_peer(file)
    edit(file, "epsilon = 3.0", "epsilon = 4.0")

    async def again():
        with pytest.raises(LedgerError) as caught:
            await Peer.start(file)
        assert "epsilon = 3" in plain(str(caught.value))

    asyncio.run(again())
    with pytest.raises(SystemExit):
        main(["ledger", "show", str(settings.store)])
    plain(capsys.readouterr().out)


def test_an_error_of_the_program_is_told_by_its_text(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("no such thing")

    monkeypatch.setattr("tacit.peer.node.node.Node.begin", fail)
    file = alone(tmp_path)

    async def scenario():
        async with await Peer.start(file) as peer:
            await peer.learn([1.0, 1.0], 1)
            with pytest.raises(TacitError, match="no such thing"):
                await peer.finished()
            plain(str(peer.status()["fault"]))

    asyncio.run(scenario())
