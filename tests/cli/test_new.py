"""Files of `tacit new` and `tacit init`: each is loaded, and run or checked; nothing is overwritten."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import tacit
from tacit.algorithms import REGISTRY
from tacit.audit import check_contract
from tacit.cli import main
from tacit.config import own_code
from tacit.config.fleet import load_fleet
from tacit.config.own_code import import_file
from tacit.config.peer import load_peer
from tacit.core.errors import TacitError
from tacit.deploy.check import check_peers
from tacit.experiments import build, load
from tacit.experiments.execute import execute


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give an empty folder, and forget the methods that a test registers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(own_code, "_LOADED", {})
    known = set(REGISTRY)
    yield
    for name in set(REGISTRY) - known:
        del REGISTRY[name]


def give(command: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(shlex.split(command))
    return int(left.value.code or 0)


def rows(file: str, header: str, *lines: str, times: int = 1) -> None:
    Path(file).write_text("\n".join([header, *lines * times]) + "\n", encoding="utf-8")


def test_init_in_an_empty_folder_runs_and_says_what_comes_next(capsys: pytest.CaptureFixture[str]) -> None:
    assert give("init") == 0
    said = capsys.readouterr().out
    assert Path("runs/experiment/report.html").exists()
    command = "predict runs/experiment/together experiment.csv --out predictions.csv"
    assert f"tacit {command}" in said
    assert give(command) == 0
    predicted = Path("predictions.csv").read_text().splitlines()
    assert len(predicted) == len(Path("experiment.csv").read_text().splitlines())
    before = Path("experiment.toml").read_bytes(), Path("experiment.csv").read_bytes()
    assert give("init") == 2
    assert (Path("experiment.toml").read_bytes(), Path("experiment.csv").read_bytes()) == before


def test_an_experiment_on_a_table_has_the_keys_that_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    rows(
        "visits.csv",
        "visit_id,site,day,weight,colour,note,target",
        *(
            f"{k},s{k % 3},2024-01-{k + 1:02d},{'' if k == 4 else k / 7},{'ab'[k % 2]},{'same'},{k % 3}"
            for k in range(24)
        ),
    )
    assert give("new experiment first --data visits.csv") == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == "next: tacit run first.toml"
    config = load("first.toml")
    stream, objective = config.stream.settings(), config.objective.settings()
    assert (stream["label"], stream["owner"]) == ("target", "site")
    assert stream["features"] == ["weight", "colour"]
    assert stream["missing"] == "indicate"
    assert (objective["kind"], objective["classes"]) == ("softmax", 3)
    assert 5 <= config.run.rounds <= 8  # of the largest owner's eight rows some are held out
    assert config.evaluate is not None
    for name in ("visit_id", "day", "note"):
        assert f"'{name}'" in said
    assert len(execute(build(config), None, progress=False).comparison.records) == 2


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([f"{k},{k % 2}" for k in range(30)], "logistic"),
        ([f"{k},{'no' if k % 3 else 'yes'}" for k in range(30)], "logistic"),
        ([f"{k},{1 + k % 4}" for k in range(30)], "softmax"),
        ([f"{k},{k * 1.5}" for k in range(30)], "squared"),
        ([f"{k},{k * 7}" for k in range(30)], "squared"),
    ],
)
def test_the_objective_follows_from_the_label(lines: list[str], kind: str) -> None:
    rows("t.csv", "x,what", *lines)
    assert give("new experiment --data t.csv --label what") == 0
    config = load("experiment.toml")
    assert config.objective.kind == kind
    assert config.partition is not None  # nobody owns a row: they are dealt
    build(config)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("new experiment --data t.csv --label nothing", "nothing"),
        ("new experiment --data missing.csv", "missing.csv"),
        ("new experiment --label y", "--data"),
        ("new experiment --data t.csv --label same", "same"),
        ("new algorithm online_push_sum", "online_push_sum"),
        ("new algorithm 3rd", "3rd"),
        ("new peer Hospital", "Hospital"),
        ("peer init --stream carrier-pigeon", "carrier-pigeon"),
        ("peer init --stream kafka --data t.csv", "--data"),
        ("new peer --data t.csv --label odd", "odd"),
        ("new federation here --data t.csv --label y", "--owner"),
        ("init", "t.csv"),
    ],
)
def test_what_cannot_be_begun_is_refused_and_nothing_is_left(
    command: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows("t.csv", "x,same,word,odd,y", *(f"{k / 3},1,{'ab'[k % 2]},{3 + k % 2},{k % 2}" for k in range(20)))
    rows("u.csv", "x,y", "1,2")
    assert give(command) == 2
    assert named in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["t.csv", "u.csv"]


@pytest.mark.covered_by("docs/own-algorithm.md, whose method does the same")
def test_a_method_keeps_the_contract_and_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert give("new algorithm my-way") == 0
    assert "tacit --with my_way.py run my_way.toml" in capsys.readouterr().out
    method = runpy.run_path("my_way.py")["my_way"](tacit.objectives.logistic(l2=1e-4))
    stream = tacit.streams.logistic_drift(agents=6, dim=3, rounds=20)
    assert check_contract(method, tacit.graphs.ring(6), stream, rounds=4)
    noisy = runpy.run_path("my_way.py")["my_way"](
        tacit.objectives.logistic(), mechanism=tacit.privacy.laplace(1.0, clip=1.0)
    )
    assert tacit.simulate(noisy, tacit.graphs.ring(6), stream, rounds=2).privacy.private
    import_file(Path("my_way.py"))
    made = build(load("my_way.toml", rounds=3))
    assert [run.label for run in made.runs(progress=False)] == ["my_way", "online_push_sum"]
    assert give("new algorithm my_way") == 2  # it is there already


def test_a_method_on_a_table() -> None:
    rows("t.csv", "owner,x,y", *(f"o{k % 9},{k / 3},{k % 2}" for k in range(45)))
    assert give("new algorithm other_way --data t.csv --label y --owner owner") == 0
    import_file(Path("other_way.py"))
    assert build(load("other_way.toml")).config.labels == ("other_way", "online_push_sum")


def test_a_peer_passes_its_check_after_the_commands_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert give("peer init ward-7") == 0
    printed = re.findall(r"^  tacit (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert printed[-1] == "peer run ward-7/peer.toml"
    for command in printed[:-1]:
        assert give(command) == 0, command
    assert check_peers([Path("ward-7/peer.toml")]).faults == []
    assert give("new peer ward-7") == 2  # the same command


def test_a_peer_that_follows_a_table() -> None:
    rows("t.csv", "age,word,back", *(f"{k / 3},{'ab'[k % 2]},{k % 2}" for k in range(20)))
    assert give("new peer ward-7 --data t.csv") == 0
    text = Path("ward-7/peer.toml").read_text()
    assert 'columns = ["age"]' in text
    assert 'label = "back"' in text


@pytest.mark.parametrize("kind", ["push", "csv", "jsonl", "kafka", "mqtt", "sql"])
def test_a_peer_of_every_kind_of_stream_can_be_loaded(kind: str) -> None:
    assert give(f"peer init ward-7 --stream {kind} --out here") == 0
    assert load_peer(Path("here/peer.toml")).stream.kind == kind
    assert Path("here/identity/ward-7.csr").exists()


def test_a_peer_of_a_job_that_is_there() -> None:
    assert give("new federation wards") == 0
    assert give("peer init hospital-c --job wards/job.toml --stream mqtt") == 0
    made = load_peer(Path("hospital-c/peer.toml"))
    assert (made.links["peers"].sends_to, made.links["peers"].hears) == (["hospital-a"], ["hospital-b"])
    assert give("peer init ward-7 --job wards/job.toml") == 2  # no member
    assert not Path("ward-7").exists()


@pytest.mark.parametrize("data", [False, True])
def test_the_members_of_a_federation_agree(data: bool) -> None:
    rows("t.csv", "ward,x,y", *(f"Ward {k % 3},{k / 30},{k % 2}" for k in range(30)))
    assert give("new federation wards" + (" --data t.csv --label y --owner ward" if data else "")) == 0
    files = sorted(Path("wards").glob("*/peer.toml"))
    assert len(files) == 3
    report = check_peers(files)
    assert report.faults == []
    if data:
        assert [file.parent.name for file in files] == ["ward-0", "ward-1", "ward-2"]
        assert len(Path("wards/ward-1/rows.csv").read_text().splitlines()) == 11
    fleet = load_fleet(Path("wards/fleet.toml"))
    assert [f"{name}/peer.toml" for name in fleet.peers] == [str(file.relative_to("wards")) for file in files]
    doors = [load_peer(file).operations.status for file in files]
    assert doors == [peer.address for peer in fleet.peers.values()]
    assert fleet.operator is not None
    assert give("new federation wards") == 2


def test_labels_of_a_federation_may_be_words_and_its_owners_have_accents() -> None:
    rows(
        "t.csv",
        "town,x,back",
        *(f"{('Köln', 'Málaga')[k % 2]},{k / 30},{('yes', 'no')[k % 3 == 0]}" for k in range(30)),
    )
    assert give("new federation towns --data t.csv --label back --owner town") == 0
    files = sorted(Path("towns").glob("*/peer.toml"))
    assert [file.parent.name for file in files] == ["koln", "malaga"]
    assert check_peers(files).faults == []
    assert tomllib.loads(Path("towns/job.toml").read_text())["job"]["class_names"] == ["no", "yes"]
    assert [line.split(",")[1] for line in Path("towns/koln/rows.csv").read_text().splitlines()][:3] == [
        "back", "no", "yes",
    ]  # fmt: skip


def test_the_rows_of_a_federation_keep_their_digits_and_the_authority_its_folder() -> None:
    rows("t.csv", "state,x,y", *(f"{('CA', 'NY')[k % 2]},{k / 7!r},{1234567.25 + k!r}" for k in range(30)))
    assert give("new federation states --data t.csv --label y --owner state") == 0
    assert sorted(path.parent.name for path in Path("states").glob("*/peer.toml")) == ["ny", "owner-ca"]
    assert sorted(path.name for path in Path("states/ca").iterdir()) == ["ca.crt", "ca.key", "issued"]
    header, *lines = Path("states/ny/rows.csv").read_text().splitlines()
    assert header == "x,y"
    assert [[float(n) for n in line.split(",")] for line in lines] == [[k / 7, 1234567.25 + k] for k in range(1, 30, 2)]


@pytest.mark.slow
def test_the_members_of_a_federation_run() -> None:
    assert give("new federation") == 0
    done = subprocess.run(
        ["federation/start.sh"], env=_with_tacit(), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for member in "abc":
        assert '"round": 40' in Path(f"federation/hospital-{member}/log.jsonl").read_text()


def _with_tacit() -> dict[str, str]:
    return {**os.environ, "TACIT": f"{sys.executable} -m tacit"}


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    from tacit.cli.scaffolds.files import write_new

    kept = tmp_path / "b.toml"
    kept.write_text("mine")
    with pytest.raises(TacitError, match=r"b\.toml"):
        write_new({tmp_path / "a.toml": "new", kept: "new"})
    assert kept.read_text() == "mine"
    assert not (tmp_path / "a.toml").exists()


@pytest.mark.parametrize(("command", "kept"), [("experiment", "experiment.csv"), ("federation", "federation/mine")])
def test_what_others_make_meanwhile_stays(monkeypatch: pytest.MonkeyPatch, command: str, kept: str) -> None:
    """A file of the same name comes after the first look, and before the work is done."""

    def late(*paths: Path) -> None:
        Path(kept).parent.mkdir(exist_ok=True)
        Path(kept).write_text("mine")

    monkeypatch.setattr("tacit.cli.scaffolds.files.refuse_existing", late)
    assert give(f"new {command}") == 2
    assert Path(kept).read_text() == "mine"


def test_keys_of_a_file_that_is_not_plain(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        f"{'Arlès' if k % 2 else 'Köln'};{k + 1:02d}.01.2024;{k},5;{'?' if k == 3 else k};{'ja' if k % 3 else 'nein'}"
        for k in range(20)
    ]
    Path("t.csv").write_text("\n".join(["clinic;day;weight;age;back", *lines]) + "\n", encoding="cp1252")
    assert give("new experiment --data t.csv") == 0
    stream = load("experiment.toml").stream.settings()
    assert (stream["encoding"], stream["separator"], stream["decimal"]) == ("cp1252", ";", ",")
    assert (stream["missing_marks"], stream["time_format"]) == (["?"], "%d.%m.%Y")
    assert stream["features"] == ["weight", "age"]
    assert "cp1252" in capsys.readouterr().out
    assert give("new peer --data t.csv") == 2  # a peer follows plain files


def test_several_files_are_of_an_owner_each() -> None:
    for owner in ("north", "south"):
        rows(f"{owner}.csv", "x,y", *(f"{k / 3},{k % 2}" for k in range(12)))
    assert give('new experiment --data "*.csv" --label y') == 0
    assert build(load("experiment.toml")).stream(0).agents == 2


def test_a_table_of_tabs() -> None:
    rows("t.tsv", "x\ty", *(f"{k / 3}\t{k % 2}" for k in range(12)))
    assert give("new experiment --data t.tsv") == 0
    assert load("experiment.toml").stream.settings()["features"] == ["x"]
