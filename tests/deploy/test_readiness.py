"""`tacit peer check` on the peer's own host: what would keep it from starting or from learning is named beforehand."""

import asyncio
import json
import os
import shutil
import socket

import pytest

from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError
from tacit.deploy.assignment import plan_of
from tacit.deploy.check import check_peers
from tacit.deploy.peer import Peer
from tacit.deploy.readiness import round_costs
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.rows import LONGEST_LINE
from tacit.privacy import Event
from tests.deploy.homes import LAPLACE, RING, found, job_text
from tests.deploy.peers import ALONE, alone, start_refused
from tests.deploy.test_check import edit

GAUSSIAN = '\n[algorithm.mechanism]\nkind = "gaussian"\nnoise_multiplier = 2.0\nclip = 1.0\n'
CORRELATED = '\n[algorithm.mechanism]\nkind = "correlated"\nrounds = 8\nepsilon = 2.0\ndelta = 1e-5\nclip = 1.0\n'
BY_DATASET = LAPLACE + 'adjacency = "dataset"\n'


def private(tmp_path, privacy="epsilon = 2.0", mechanism=LAPLACE, **peer):
    return alone(tmp_path, job=job_text(members=ALONE, mechanism=mechanism), privacy=privacy, **peer)


def faults(file):
    return check_peers([file]).faults


# -- the budget ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "privacy", "figures"),
    [
        (LAPLACE, "epsilon = 1.5", ["epsilon = 1.5", "costs epsilon 2 ", "[algorithm.mechanism]", "epsilon = 2.0"]),
        (BY_DATASET, "epsilon = 1.5", ["epsilon = 1.5", "costs epsilon 2 "]),
        (GAUSSIAN, "rho = 0.1", ["rho = 0.1", "costs rho 0.125 ", "noise_multiplier = 2.0"]),
        (GAUSSIAN, "epsilon = 1.0\ndelta = 1e-5", ["delta = 1e-05", "costs epsilon 2.1"]),
    ],
)
def test_a_budget_below_one_round_is_refused_with_both_figures_and_keys(tmp_path, mechanism, privacy, figures):
    file = private(tmp_path, privacy, mechanism)
    (fault,) = faults(file)
    assert all(figure in fault for figure in ("hospital-a: ", "[privacy]", *figures)), fault
    start_refused(file, ConfigError, r"\[privacy\]")
    assert not load_peer(file).store.exists()  # whose budget would be fixed for good


def test_a_budget_that_is_enough_says_for_how_long(tmp_path):
    lines = check_peers([private(tmp_path)]).lines
    assert any("epsilon 2 of 2 per record" in line and "nothing is used up" in line for line in lines)
    assert lines[-1] == "hospital-a: ok"


def test_a_budget_that_runs_out_says_after_how_many_rounds(tmp_path):
    report = check_peers([private(tmp_path, "epsilon = 11.0", BY_DATASET)])
    assert report.faults == []
    assert any("enough for 5 round(s)" in line for line in report.lines)


def test_a_budget_that_was_spent_is_a_fault(tmp_path):
    file = private(tmp_path, "epsilon = 7.0", BY_DATASET)
    settings = load_peer(file)
    settings.store.parent.mkdir()
    with PeerStore.create(settings.store, settings.budget, settings.part) as store:
        for round_ in (1, 2):
            store.ledger.charge(f"round {round_}", Event("laplace", "laplace", 2.0, 1.0, adjacency="dataset"))
        assert any("epsilon 4 of 7" in line and "1 more round(s)" in line for line in check_peers([file]).lines)
        store.ledger.charge("round 3", Event("laplace", "laplace", 2.0, 1.0, adjacency="dataset"))
    (fault,) = faults(file)
    assert all(words in fault for words in ("[privacy]", "epsilon 6 of 7", "costs epsilon 2"))


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN, CORRELATED], ids=["laplace", "gaussian", "correlated"])
def test_what_a_round_costs_is_what_the_ledger_books(tmp_path, mechanism):
    """By the same code: the figure of the check is that of the first entry."""
    file = private(tmp_path, "epsilon = 8.0\ndelta = 1e-5", mechanism, rounds="patience = 0.02\nlast = 1")
    settings = load_peer(file)
    expected = round_costs(plan_of(settings)).spent()

    async def one_round():
        async with await Peer.start(file) as peer:
            await peer.learn([1.0, 1.0], 1)
            await peer.finished()

    asyncio.run(one_round())
    with PeerStore.open(settings.store, settings.budget, settings.part) as store:
        assert store.ledger.spent() == expected


# -- data ------------------------------------------------------------------------------------------------------------------


def following(tmp_path, content, stream='path = "data.csv"', kind="csv"):
    file = alone(tmp_path, stream=f'kind = "{kind}"\n{stream}')
    if content is not None:
        file.with_name("data.csv").write_text(content)
    return file


@pytest.mark.parametrize(
    ("content", "stream", "words"),
    [
        (None, 'path = "data.csv"', ["'data.csv'", "No such file"]),
        ("", 'path = "data.csv"', ["header"]),
        ("a,b,c\n1,2,1\n", 'path = "data.csv"', ["'y'", "line 1"]),
        ("a,b,c,y\n1,2,3,1\n", 'path = "data.csv"', ["3 columns", "expected 2"]),
        ("a,b,y\n1,2,1\n", 'path = "data.csv"\ncolumns = ["a", "pulse"]', ["'pulse'"]),
        ("a,b,y\n1,2,1\n", 'path = "data.csv"\nkey = "id"', ["'id'"]),
        ("a,b,y\n1,2,yes\n1,,1\n", 'path = "data.csv"', ["first 2 row", "line 2", "'y'"]),
        ("a;b;y\n1;2;1\n", 'path = "data.csv"', ["line 1"]),
    ],
)
def test_a_data_file_that_cannot_be_used_is_a_fault(tmp_path, content, stream, words):
    (fault,) = faults(following(tmp_path, content, stream))
    assert all(word in fault for word in ("[stream] path", *words)), fault


def test_some_bad_rows_are_a_line_and_none_at_all_another(tmp_path):
    file = following(tmp_path, "a,b,y\n1,2,1\n1,,1\n\n3,4,0\nhalf a li")
    report = check_peers([file])
    assert report.faults == []
    assert any("1 of the first 3 rows" in line and "line 3" in line for line in report.lines)
    file.with_name("data.csv").write_text("a,b,y\n")
    assert any("no rows yet" in line for line in check_peers([file]).lines)


def test_json_lines(tmp_path):
    file = following(tmp_path, '{"x": [1, 2], "y": 1}\n', kind="jsonl")
    assert faults(file) == []
    file.with_name("data.csv").write_text('{"x": [1, 2]}\n')
    (fault,) = faults(file)
    assert "'y'" in fault


def test_a_folder_is_no_data_file(tmp_path):
    file = following(tmp_path, None)
    file.with_name("data.csv").mkdir()
    (fault,) = faults(file)
    assert "folder" in fault


def test_a_pipe_keeps_nobody_waiting(tmp_path):
    file = following(tmp_path, None)
    os.mkfifo(file.with_name("data.csv"))
    (fault,) = faults(file)
    assert "pipe" in fault


def test_a_row_without_an_end_is_not_read_as_a_whole(tmp_path):
    file = following(tmp_path, "a,b,y\n" + "1" * (LONGEST_LINE + 2))
    (fault,) = faults(file)
    assert f"{LONGEST_LINE} bytes" in fault


# -- identity, store and ports ---------------------------------------------------------------------------------------------


def test_an_identity_that_cannot_be_read(tmp_path):
    file = alone(tmp_path)
    identity = file.parent / "identity" / "identity.pem"
    identity.write_bytes(identity.read_bytes()[:300])
    (fault,) = faults(file)
    assert "identity.pem" in fault
    shutil.rmtree(identity.parent)
    (fault,) = faults(file)
    assert "identity.pem" in fault


@pytest.mark.parametrize("where", ["listen", "port"])
def test_a_port_that_is_taken(tmp_path, where):
    file = alone(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        if where == "port":
            edit(file, "[operations]\n", f"[operations]\nport = {port}\n")
        else:
            lines = file.read_text().splitlines()
            file.write_text("\n".join(f'listen = "127.0.0.1:{port}"' if x.startswith("listen") else x for x in lines))
        (fault,) = faults(file)
        assert where in fault
        assert str(port) in fault
        control = load_peer(file).control
        control.parent.mkdir()
        control.write_text(json.dumps({"pid": os.getpid(), "port": port, "name": "hospital-a"}))
        report = check_peers([file])  # it is the peer itself that listens there
        assert report.faults == []
        assert any(f"process {os.getpid()}" in line for line in report.lines)
    control.write_text("{")
    assert faults(file) == []


def test_an_address_of_no_host(tmp_path):
    file = alone(tmp_path)
    lines = file.read_text().splitlines()
    file.write_text("\n".join('listen = "203.0.113.7:7443"' if x.startswith("listen") else x for x in lines))
    (fault,) = faults(file)
    assert "203.0.113.7" in fault


def test_a_store_of_another_budget_or_of_other_links(tmp_path):
    file = private(tmp_path, "epsilon = 8.0")
    settings = load_peer(file)
    settings.store.parent.mkdir()
    PeerStore.create(settings.store, settings.budget, settings.part).close()
    assert faults(file) == []
    edit(file, "epsilon = 8.0", "epsilon = 9.0")
    (fault,) = faults(file)
    assert "epsilon = 9" in fault
    assert "epsilon = 8" in fault
    settings.store.unlink()
    PeerStore.create(settings.store, load_peer(file).budget, "another").close()
    (fault,) = faults(file)
    assert "another" in fault


def test_a_place_where_nothing_can_be_written(tmp_path):
    file = alone(tmp_path)
    (file.parent / "state").write_text("a file")
    (fault,) = faults(file)
    assert "state" in fault


def test_what_only_its_own_host_has_is_not_looked_for_elsewhere(tmp_path):
    files = found(tmp_path, job_text(), RING, stream='kind = "csv"\npath = "data.csv"')
    for name in ("hospital-b", "hospital-c"):
        shutil.rmtree(tmp_path / name / "identity")
    report = check_peers(list(files.values()))
    assert len(report.faults) == 3  # data of the one that is here, identities of the others
    assert "data.csv" in report.faults[0]
