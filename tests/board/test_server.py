"""The board's server: who is let in, what is told of runs, and directories that are damaged or hostile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tacit
from tacit.board.serve import serve
from tacit.core.errors import ConfigError
from tacit.results.live import LiveFolder, LiveLog

from .boards import TOKEN, Client, served

pytest.importorskip("uvicorn")
MARKUP = '<img src=x onerror=alert(1)> & "quotes" \'; é'


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended, one that was stopped, one of a name with markup, and damaged ones."""
    root = tmp_path_factory.mktemp("runs")
    objective = tacit.objectives.logistic()
    noise = tacit.privacy.laplace(2.0, clip=1.0)
    method = tacit.algorithms.online_push_sum(objective, step=0.3, mechanism=noise)
    stream = tacit.streams.logistic_drift(6, 3, rounds=12)
    run = tacit.simulate(
        method, tacit.graphs.directed_ring(6), stream, rounds=12, watch=LiveFolder(root / "ended")(MARKUP)
    )
    run.label = MARKUP
    run.save(root / "ended")
    with LiveLog(root / "killed") as log:
        log.begin("killed", "run", {"algorithm": "online_push_sum", "rounds": 100, "agents": 4}, {"run": {"seed": 7}})
        log.rows(30, [{"rounds": [10, 30], "curves": {"loss": [[0.5, None]]}}], {"loss": 0.5, "bits": float("nan")})
    (root / "bad" / "deep").mkdir(parents=True)
    (root / "bad" / "summary.json").write_text("{" * 1000)
    (root / "bad" / "deep" / "summary.json").write_text('{"files": {}, "metrics": 3}')
    (root / "bad" / ".tacit-live").mkdir()
    (root / "bad" / ".tacit-live" / "01-x.jsonl").write_bytes(b"\xff\xfe\x00")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("secret")
    (outside / "summary.json").write_bytes((root / "ended" / "summary.json").read_bytes())
    (root / "linked").symlink_to(outside)
    (root / "also").mkdir()
    (root / "also" / ".tacit-live").symlink_to(root / "killed" / ".tacit-live")
    return root


@pytest.fixture(scope="module")
def board(directory: Path):  # type: ignore[no-untyped-def]
    with served(directory) as client:
        yield client


def test_runs_that_ended_that_were_stopped_and_that_are_damaged(board: Client, directory: Path) -> None:
    runs = board.json("/api/runs")["runs"]
    found = {run["path"]: run for run in runs}
    assert set(found) == {"ended", "killed", "bad", "bad/deep"}
    ended, killed = found["ended"], found["killed"]
    assert (ended["state"], ended["label"], ended["done"], ended["private"]) == ("done", MARKUP, 12, True)
    assert ended["figures"]["epsilon"] == pytest.approx(2.0)
    assert (killed["state"], killed["done"], killed["rounds"], killed["figures"]["bits"]) == ("stopped", 30, 100, None)
    for path in ("bad", "bad/deep"):
        assert (found[path]["state"], bool(found[path]["fault"])) == ("failed", True)
        assert board.json(f"/api/runs/{found[path]['id']}")["warnings"]


def test_a_run_in_full(board: Client, directory: Path) -> None:
    run = board.runs()[MARKUP]
    at = f"/api/runs/{run['id']}"
    whole = board.json(at)
    assert whole["summary"]["algorithm"] == "online_push_sum"
    assert "epsilon" in whole["curves"]
    assert whole["has_graph"]
    assert whole["has_ledger"]
    record = tacit.results.load(directory / "ended")
    curves = board.json(f"{at}/curves?after=3")
    assert curves["rounds"] == record.trace.rounds.tolist()[3:]
    assert curves["curves"]["loss"]["mean"] == pytest.approx(record.trace.loss[0, 3:].tolist())
    assert curves["curves"]["loss"]["low"] is None
    shape = board.json(f"{at}/graph")
    assert sorted(map(tuple, shape["links"])) == sorted((k, (k + 1) % 6) for k in range(6))
    assert shape["rounds"][-1] == 12
    frames = board.json(f"{at}/frames?measure=loss&from=12&to=12")
    assert [len(values) for values in frames["values"]] == [6]
    assert frames["low"] <= min(frames["values"][0])
    agent = board.json(f"{at}/agents/2")
    assert (agent["out"], agent["into"], agent["released"]["times"]) == ([3], [1], 12)
    assert agent["released"]["epsilon"] == pytest.approx(2.0)
    book = board.json(f"{at}/ledger")
    assert sum(each["cost"] for each in book["releases"]) == pytest.approx(book["classes"][0]["spent"])
    rows = board.ask(f"{at}/data.csv")
    assert "attachment" in rows.headers["content-disposition"]
    assert rows.body.decode().splitlines()[0] == "round,curve,mean,low,high"
    assert board.json(f"{at}/data.json")["rounds"] == record.trace.rounds.tolist()
    for wrong in ("/frames?measure=secret", "/frames?from=-1", "/agents/6", "/agents/x"):
        assert 400 <= board.ask(at + wrong).status < 500


def test_runs_side_by_side_differ_in_what_differs(board: Client) -> None:
    runs = board.runs()
    found = board.json(f"/api/compare?ids={runs[MARKUP]['id']},{runs['killed']['id']}")
    differing = {row["key"]: row["values"] for row in found["settings"]}
    assert differing["run.seed"] == [0, 7]
    assert "algorithm" not in differing
    assert found["figures"][0]["name"] == "loss"
    assert board.ask("/api/compare?ids=no").status == 404


def test_without_the_token_nothing_is_told(board: Client) -> None:
    some = board.runs()["killed"]["id"]
    for path in ("/", "/main.js", "/api/runs", "/api/events", f"/api/runs/{some}/curves", "/api/peers", "/no/such"):
        for token in (None, "", "b" * 24, TOKEN[:-1], TOKEN + "a", "é" * 24):
            answer = board.ask(path, token=None if token is None else token.encode().decode("latin-1"))
            assert (answer.status, b"killed" in answer.body) == (401, False)
    assert board.ask("/api/runs", token=None, cookie=f"tacit_board_{board.port}={'b' * 24}").status == 401
    assert board.ask(f"/api/runs?token={TOKEN}", token=None).status == 401


def test_the_printed_address_leaves_a_cookie_that_scripts_cannot_read(board: Client) -> None:
    answer = board.ask(f"/?token={TOKEN}&view=1", token=None)
    assert (answer.status, answer.headers["location"]) == (303, "/?view=1")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert board.ask("/api/runs", token=None, cookie=cookie.partition(";")[0]).status == 200
    assert board.ask(f"//evil.example/?token={TOKEN}", token=None).headers["location"] == "/evil.example/"


def test_other_hosts_methods_and_sites_are_refused(board: Client) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "", "[::1].evil"):
        assert board.ask("/api/runs", host=host).status == 400
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:80"):
        assert board.ask("/api/runs", host=host).status == 200
    assert board.ask("/api/runs", host="10.0.0.7:80").status == 400
    assert board.ask("/api/runs", method="POST").status == 403
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert board.ask("/api/runs", method=method, x_tacit_board="1").status == 405


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/runs/no", "/nothing", "/api/events?x"])
def test_headers_of_every_answer(board: Client, path: str) -> None:
    for token in (TOKEN, None):
        if path.startswith("/api/events") and token:
            continue
        headers = board.ask(path, token=token).headers
        policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


def test_no_path_leads_out(board: Client, directory: Path) -> None:
    ended = board.runs()[MARKUP]["id"]
    ups = (
        "..",
        "%2e%2e",
        "%2E%2e",
        "..%2f..",
        "..%5c..",
        "%252e%252e",
        ".%00./",
        "....//",
        "/etc/passwd",
        "%2fetc%2fpasswd",
    )
    tails = ("secret.txt", "ended/config.toml", "linked/secret.txt", "app.py", "etc/passwd")
    for up in ups:
        for tail in tails:
            for before in ("/", "/static/", "/api/runs/", f"/api/runs/{ended}/"):
                answer = board.ask(f"{before}{up}/{tail}")
                assert 400 <= answer.status < 500, (before, up, tail)
                assert b"secret" not in answer.body.replace(b"secret.txt", b"")
                assert b"root:" not in answer.body
    for id_ in ("ended", "linked", ended[:-1], ended.upper() + "x", "*", "0" * 16):
        assert board.ask(f"/api/runs/{id_}/curves").status == 404


def test_files_of_the_page_and_nothing_else(board: Client) -> None:
    page, script = board.ask("/"), board.ask("/main.js")
    assert page.headers["content-type"].startswith("text/html")
    assert script.headers["content-type"].startswith("text/javascript")
    assert board.ask("/__init__.py").status == board.ask("/guard.py").status == 404


def test_events_tell_of_a_run_that_begins_and_goes_on(tmp_path: Path) -> None:
    with served(tmp_path) as board, board.events() as events:
        assert next(events)[0] == "beat"
        assert board.json("/api/peers") == {"peers": []}
        with LiveLog(tmp_path / "new") as log:
            log.begin("new", "run", {"rounds": 10}, {})
            log.rows(1, [], {"loss": 2.0})
            name, told = next(events)
            assert name == "runs"
            (run,) = board.runs().values()
            assert (told["changed"], run["state"]) == ([run["id"]], "live")
            log.rows(4, [], {"loss": float("inf")}, 2.5)
            progress = next(told for name, told in events if name == "progress" and told["done"] == 4)
            assert (progress["figures"]["loss"], progress["rate"]) == (None, 2.5)
        changed = next(told for name, told in events if name == "runs")
        assert changed == {"changed": [run["id"]]}
        assert board.runs()["new"]["state"] == "stopped"


def test_a_directory_that_comes_later_and_one_that_goes(tmp_path: Path, directory: Path) -> None:
    with served(tmp_path / "later") as board:
        assert board.json("/api/runs") == {"runs": []}
        made = tmp_path / "later" / "one"
        with LiveLog(made) as log:
            log.begin("one", "run", {"rounds": 10}, {})
            log.rows(2, [], {})
        id_ = _until(lambda: board.runs().get("one"))["id"]
        made.rename(tmp_path / "gone")
        _until(lambda: not board.runs())
        assert board.ask(f"/api/runs/{id_}").status == 404


def _until(found, tries: int = 2000):  # type: ignore[no-untyped-def]
    """Ask until there is an answer: what was found is kept for less than a second."""
    return next(filter(None, (found() for _ in range(tries))))


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        serve(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="--token"):
        serve(tmp_path, token="short")
    with pytest.raises(ConfigError, match="256\\.1\\.1\\.1"):
        serve(tmp_path, host="256.1.1.1", port=1)


def test_beyond_loopback_addresses_are_hosts_and_foreign_names_are_not(tmp_path: Path) -> None:
    with served(tmp_path, hosts=["board.lan"], beyond=True) as board:
        for host, status in (("10.0.0.7:80", 200), ("board.lan", 200), ("evil.example", 400)):
            assert board.ask("/api/runs", host=host).status == status


def test_the_answer_is_json_that_every_browser_reads(board: Client) -> None:
    for run in board.json("/api/runs")["runs"]:
        for path in ("", "/curves"):
            answer = board.ask(f"/api/runs/{run['id']}{path}")
            json.loads(answer.body, parse_constant=pytest.fail)
