"""Peers of one process: the way of the simulator, the bytes of single peers, and faults that stay with one of them."""

import asyncio
import contextlib
import functools
import hashlib
import io
import json
import logging
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tacit
from tacit.cli import peer as commands
from tacit.cli.peers.running import asked
from tacit.config.peer import load_peer
from tacit.core.errors import BudgetExceeded, ConfigError
from tacit.deploy import host as host_module
from tacit.deploy.host import Host, Lane, find_peers
from tacit.deploy.ledger_register import open_store
from tacit.deploy.peer import Peer
from tacit.peer import run_in_process
from tacit.peer.node.snapshot import unpack
from tacit.peer.node.store import PeerStore
from tacit.peer.operations import logs
from tests.deploy.homes import LAPLACE, found, job_text
from tests.deploy.peers import run, until
from tests.deploy.test_plan import graph_of

NAMES = tuple("abcdef")
LINKS = {"a": ["b", "c"], "b": ["c"], "c": ["d", "a"], "d": ["e", "f", "a"], "e": ["f"], "f": ["a"]}
"""Several shapes of views among peers of one job."""
ROUNDS, DIM = 4, 2
CSV = 'kind = "csv"\npath = "data.csv"'


@functools.cache
def stream(agents=len(NAMES)):
    return tacit.streams.logistic_drift(agents=agents, dim=DIM, seed=3)


def federation(folder, sends_to=LINKS, *, job=None, rounds=f"deadline = 300\nlast = {ROUNDS}", **peer):
    """A federation whose members read their samples of the stream from files of their own."""
    folder.mkdir(exist_ok=True)
    job = job or job_text(members=sends_to, features=DIM, bias="false")
    files = found(folder, job, sends_to, stream=CSV, rounds=rounds, **peer)
    chunk = stream().chunk(0, ROUNDS)
    for k, file in enumerate(files.values()):
        rows = [f"{float(a)!r},{float(b)!r},{int(y)}" for (a, b), y in zip(chunk.x[:, k], chunk.y[:, k], strict=True)]
        file.with_name("data.csv").write_text("\n".join(["x0,x1,y", *rows, ""]))
    return files


def hosted(folder, only=(), at_ready=None):
    """Host a folder to its end; returns the host, and each peer's models by round."""
    models = defaultdict(list)

    async def scenario():
        stop = asyncio.Event()

        def ready():
            for name, peer in host.running.items():
                peer._service._after_round = lambda t, model, name=name: models[name].append(np.asarray(model))

        working = asyncio.create_task(host.run(stop, ready))
        try:
            if at_ready is not None:
                await until(lambda: len(host.running) + len(host.faults) == len(find) and models)
                await at_ready(host, stop)
            await working
        finally:
            stop.set()
            await asyncio.gather(working, return_exceptions=True)

    find = find_peers(folder, only)
    host = Host(find)
    run(scenario())
    return host, models


@contextlib.contextmanager
def written():
    """What peers commit, each its own: messages by round and receiver, and the last snapshot."""
    known, plain = defaultdict(dict), PeerStore.commit

    def commit(self, **given):
        plain(self, **given)
        own = known[self.ledger.path.parent.parent.name]
        for one in given.get("parcels", ()):
            own[one.receiver, one.links, one.phase, one.round] = hashlib.sha256(bytes(one.content)).hexdigest()
        if given.get("snapshot") is not None:
            facts, leaves = unpack(given["snapshot"] + given.get("own", b""))
            apart = {key: value for key, value in facts.items() if key not in ("cursor", "links")}  # inodes and ports
            own["snapshot"] = apart, [leaf.tobytes() for leaf in leaves]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PeerStore, "commit", commit)
        yield known


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """A federation that was hosted: its folder, files, host, models, log and what was written."""
    folder = tmp_path_factory.mktemp("together") / "federation"
    files = federation(folder)
    text = io.StringIO()
    logs.configure("json", "info", text)
    try:
        with written() as known:
            host, models = hosted(folder)
    finally:
        logging.getLogger(logs.NAME).handlers.clear()
    return files, host, models, [json.loads(line) for line in text.getvalue().splitlines()], known


def test_the_way_of_the_simulator(together):
    files, host, models, _, _ = together
    assert host.faults == {}
    method = load_peer(files["a"]).job.algorithm
    expected = run_in_process(method, graph_of(LINKS), stream(), rounds=ROUNDS).models
    for agent, name in enumerate(NAMES):
        np.testing.assert_allclose(np.stack(models[name]), expected[:, agent], atol=1e-7)
    assert np.abs(expected).max() > 0.01


def test_functions_are_compiled_once_for_all(together):
    _, host, _, _, _ = together
    functions = {id(peer._service.node.machine.functions) for peer in host.running.values()}
    assert len(functions) == 1
    (shared,) = host._functions.values()
    assert shared._prepare[0]._cache_size() < len(NAMES)


def test_log_lines_carry_the_name(together):
    _, _, _, lines, _ = together
    assert {line["peer"] for line in lines} == {*NAMES}
    assert {line["peer"] for line in lines if line["event"] == "peer stopped"} == {*NAMES}


def test_the_bytes_of_single_peers(together, tmp_path):
    """Every message, and the last snapshot, byte by byte those of peers that were started one by one."""
    _, _, _, _, known = together
    files = federation(tmp_path / "federation")

    async def one(file):
        async with await Peer.start(file) as peer:
            await peer.finished()

    async def scenario():
        await asyncio.gather(*(one(file) for file in files.values()))

    with written() as alone:
        run(scenario())
    assert {name: len(each) for name, each in known.items()} == {
        name: ROUNDS * len(to) + 1 for name, to in LINKS.items()
    }
    assert alone == known


def test_nothing_is_left_behind(together):
    files, _, _, _, _ = together
    for file in files.values():
        settings = load_peer(file)
        assert not settings.control.exists()
        open_store(settings).close()  # its lock is free
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tacit-rounds")]


# -- faults and the operator ---------------------------------------------------------------------------------------------

TRIANGLE = {"a": ["b"], "b": ["c"], "c": ["a"]}
TO_THE_WELL = {"a": ["d"], "b": ["a"], "c": ["a"], "d": ["a"]}
"""Nobody waits for what b and c confirm."""
PRIVATE = job_text("loss_tolerant_push_sum", TO_THE_WELL, features=DIM, mechanism=LAPLACE + 'adjacency = "dataset"\n')
TOLERANT = job_text("loss_tolerant_push_sum", TRIANGLE, features=DIM)
ENOUGH, TOO_LITTLE = "epsilon = 100.0", "epsilon = 4.5"
"""Each release costs 2."""


def test_the_faults_of_some_are_their_own(tmp_path):
    """A damaged store, and a budget that is spent on the way: the others do all their rounds."""
    privacy = {"a": ENOUGH, "b": TOO_LITTLE, "c": ENOUGH, "d": ENOUGH}
    rounds = f"deadline = 0.05\npatience = 0.05\nlast = {ROUNDS}"
    files = federation(tmp_path / "federation", TO_THE_WELL, job=PRIVATE, privacy=privacy, rounds=rounds)
    damaged = load_peer(files["c"]).store
    damaged.parent.mkdir()
    damaged.write_bytes(b"no store")

    async def look(host, stop):
        peers = host.running
        await until(lambda: all(not load_peer(files[name]).control.exists() for name in "ad"))  # they are done
        await until(lambda: peers["b"]._service.fault is not None)
        status = await asyncio.to_thread(asked, load_peer(files["b"]))  # it goes on to answer
        assert status["fault"] is not None
        releases = {name: peer.status()["privacy"]["releases"] for name, peer in peers.items()}
        assert releases == {"a": ROUNDS, "b": 2, "d": ROUNDS}
        stop.set()

    host, _ = hosted(tmp_path / "federation", at_ready=look)
    assert set(host.faults) == {"b", "c"}
    assert isinstance(host.faults["b"], BudgetExceeded)
    assert str(damaged) in str(host.faults["c"])
    assert damaged.read_bytes() == b"no store"


def test_one_is_looked_at_and_stopped_and_the_others_go_on(tmp_path, capsys):
    rounds = "deadline = 0.05\npatience = 0.05\ninterval = 0.01"
    files = federation(tmp_path / "federation", TRIANGLE, job=TOLERANT, rounds=rounds)

    async def look(host, stop):
        status = await asyncio.to_thread(asked, load_peer(files["b"]))
        assert (status["name"], status["fault"]) == ("b", None)
        await asyncio.to_thread(commands.stop, files["b"])
        assert not load_peer(files["b"]).control.exists()
        with pytest.raises(ConfigError):
            asked(load_peer(files["b"]))
        assert host.running["b"].status()["stopping"]
        at = host.running["a"].round
        await until(lambda: host.running["a"].round > at + 2)
        with pytest.raises(ConfigError, match="b"):  # and its store is free for a process of its own
            find_peers(tmp_path / "federation")
        PeerStore.open(load_peer(files["b"]).store).close()
        stop.set()

    host, _ = hosted(tmp_path / "federation", at_ready=look)
    assert host.faults == {}
    assert "b stopped" in capsys.readouterr().out


# -- refusals ------------------------------------------------------------------------------------------------------------


def test_folders_that_cannot_be_hosted(tmp_path, monkeypatch):
    files = found(tmp_path, job_text(), identities=False)
    (tmp_path / "empty").mkdir()

    def refused(*words, only=()):
        with pytest.raises(ConfigError) as caught:
            Host(find_peers(tmp_path, only))
        assert all(str(word) in str(caught.value) for word in words), caught.value
        assert not list(tmp_path.rglob("store.db"))

    with pytest.raises(ConfigError, match="empty"):
        find_peers(tmp_path / "empty")
    refused("hospital-x", "hospital-a", only=["hospital-x"])
    first, second = files["hospital-a"], files["hospital-b"]
    text, port = second.read_text(), load_peer(first).peer.listen.rpartition(":")[2]
    for changed, *words in (
        (text.replace('name = "hospital-b"', 'name = "hospital-a"').replace("hospital-a = ", "x = "), "hospital-a"),
        (_at_port(text, "127.0.0.1", port), port),
        (_at_port(text, "0.0.0.0", port), port),
        (text + f"port = {port}\n", port),
        (text.replace("[links", 'store = "../hospital-a/state/store.db"\n[links', 1), "store.db", first),
        (text + '[identity]\ndirectory = "../hospital-a/identity"\n', "identity", first),
    ):
        second.write_text(changed)
        refused(*words)
    second.write_text(_at_port(text, "127.0.0.2", port))
    assert len(find_peers(tmp_path)) == 3
    second.write_text(text)
    monkeypatch.setattr(host_module, "descriptors_left", lambda: 69)
    refused("69", "70")
    monkeypatch.setattr(host_module, "descriptors_left", lambda: 70)
    Host(find_peers(tmp_path))


def _at_port(text, host, port):
    lines = [f'listen = "{host}:{port}"' if line.startswith("listen") else line for line in text.splitlines()]
    return "\n".join([*lines, ""])


def test_a_peer_that_runs_elsewhere_is_refused_before_any_starts(tmp_path):
    files = found(tmp_path, job_text())
    settings = load_peer(files["hospital-c"])
    with open_store(settings), pytest.raises(ConfigError, match="hospital-c"):
        find_peers(tmp_path)
    assert [one.peer.name for one in find_peers(tmp_path, ["hospital-c"])] == ["hospital-c"]
    assert not load_peer(files["hospital-a"]).store.exists()


# -- threads ---------------------------------------------------------------------------------------------------------------


def test_a_lane_keeps_its_order_and_one_thing_at_a_time():
    """Work of twenty lanes on four threads, some of which fails."""
    busy, done, clashes = set(), defaultdict(list), []

    def work(lane, k):
        if lane in busy:
            clashes.append(lane)
        busy.add(lane)
        done[lane].append(k)
        busy.remove(lane)
        if k % 7 == 0:
            raise ValueError(k)
        return k

    with ThreadPoolExecutor(4) as pool:
        lanes = [Lane(pool) for _ in range(20)]
        futures = [lane.submit(work, lane, k) for k in range(50) for lane in lanes]
        for lane in lanes:
            lane.shutdown()
        assert all(future.done() for future in futures)
        assert {type(future.exception()) for future in futures[:20]} == {ValueError}
        with pytest.raises(RuntimeError):
            lanes[0].submit(work, lanes[0], 0)
    assert clashes == []
    assert all(each == list(range(50)) for each in done.values())
