from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.cli.ledger import app
from tacit.privacy.accounting import NEIGHBOURS, Budget
from tacit.privacy.events import Event
from tacit.privacy.ledger import Ledger


def tacit_ledger(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with Ledger.create(path, Budget(epsilon=1.0, delta=1e-6), tmp_path / "witness", job="occupancy") as ledger:
        for number in range(1, 8):
            observers = ("alice",) if number % 2 else ("bob",)
            ledger.charge(f"round {number}", Event("laplace", "laplace", 1.0, 100.0, observers=observers))
    return path


def damage(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b"round 3", b"round 9", 1))


def test_show_says_what_is_spent_and_left_and_of_what(path: Path) -> None:
    text = tacit_ledger("show", path).output
    assert "job occupancy, 7 release(s)" in text
    assert "epsilon = 1, delta = 1e-06" in text
    assert "unit: {}; neighbours: {}".format(*NEIGHBOURS["record"]) in text
    assert "0.07" in text
    assert "0.93" in text
    assert "round 7" in text
    assert "round 2" not in text


def test_show_as_json_for_one_observer(path: Path) -> None:
    facts = json.loads(tacit_ledger("show", path, "--observer", "alice", "--json").output)
    assert facts["spent"]["epsilon"] == pytest.approx(0.04)
    assert facts["left"]["epsilon"] == pytest.approx(0.96)
    assert facts["adjacency"] == "record"
    assert facts["releases"] == 7
    assert [entry["release"] for entry in facts["last"]] == [f"round {number}" for number in range(3, 8)]
    assert facts["budget"]["delta"] == 1e-6


def test_gaussian_noise_has_no_pure_epsilon_and_the_json_stays_json(tmp_path: Path) -> None:
    path = tmp_path / "g.db"
    with Ledger.create(path, Budget(rho=1.0)) as ledger:
        assert json.loads(tacit_ledger("show", path, "--json").output)["adjacency"] is None
        assert "nothing was released" in tacit_ledger("show", path).output
        ledger.charge("x", Event("gaussian", "gaussian", 1.0, 10.0))
    facts = json.loads(tacit_ledger("show", path, "--json").output)
    assert facts["spent"]["epsilon"] is None
    assert facts["spent"]["rho"] == pytest.approx(0.005)
    assert "infinite" in tacit_ledger("show", path).output


def test_no_rho_is_shown_of_noise_for_which_no_zcdp_holds(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    with Ledger.create(path, Budget(epsilon=1.0, delta=1e-3, reserve=1e-4)) as ledger:
        ledger.charge("x", Event("bounded_laplace", "bounded_laplace", 0.1, 1.0, bound=20.0))
    facts = json.loads(tacit_ledger("show", path, "--json").output)
    assert (facts["spent"]["epsilon"], facts["spent"]["rho"]) == (0.1, None)
    assert facts["left"]["rho"] > 0  # what other noise may still cost
    (row,) = csv.DictReader(io.StringIO(tacit_ledger("export", path).output))
    assert (row["epsilon"], row["rho"]) == ("0.1", "")
    assert float(row["delta"]) > 0


def test_verify(path: Path) -> None:
    good = tacit_ledger("verify", path, "--witness", path.with_name("witness"))
    assert good.exit_code == 0
    assert "7 release(s), whole and unchanged" in good.output
    assert "old copy" not in good.output
    assert "without --witness an old copy" in tacit_ledger("verify", path).output
    lost = tacit_ledger("verify", path, "--witness", path.with_name("nowhere"))
    assert lost.exit_code == 2
    damage(path)
    bad = tacit_ledger("verify", path)
    assert bad.exit_code == 2
    assert "damaged" in bad.output or "entry 3" in bad.output


@pytest.mark.parametrize("command", ["show", "verify", "export"])
def test_a_mistyped_path_is_an_error_and_makes_no_file(tmp_path: Path, command: str) -> None:
    result = tacit_ledger(command, tmp_path / "legder.db")
    assert result.exit_code == 2
    assert "does not exist" in result.output
    assert list(tmp_path.iterdir()) == []


def test_every_command_works_while_a_peer_appends(path: Path) -> None:
    with Ledger.open(path, witness=path.with_name("witness")) as ledger:
        ledger.charge("round 8", Event("laplace", "laplace", 1.0, 100.0))
        assert "8 release(s)" in tacit_ledger("verify", path, "--witness", path.with_name("witness")).output
        assert "round 8" in tacit_ledger("show", path).output
        assert "round 8" in tacit_ledger("export", path).output
        ledger.charge("round 9", Event("laplace", "laplace", 1.0, 100.0))


def test_export_as_csv_and_json(path: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(tacit_ledger("export", path).output)))
    assert [row["release"] for row in rows] == [f"round {number}" for number in range(1, 8)]
    assert float(rows[0]["epsilon"]) == pytest.approx(0.01)
    assert rows[1]["observers"] == "bob"
    out = tmp_path / "out.json"
    out.write_text("older")
    assert "7 release(s) written" in tacit_ledger("export", path, "--format", "json", "--out", out).output
    entries = json.loads(out.read_text())
    assert [entry["sequence"] for entry in entries] == list(range(1, 8))
    assert entries[1]["observers"] == ["bob"]
    assert set(entries[0]) == set(rows[0])


def test_export_of_a_damaged_ledger_writes_nothing(path: Path, tmp_path: Path) -> None:
    damage(path)
    out = tmp_path / "out.csv"
    out.write_text("older")
    before = sorted(tmp_path.iterdir())
    assert tacit_ledger("export", path, "--out", out).exit_code == 2
    assert "round 1" not in tacit_ledger("export", path).output
    assert out.read_text() == "older"
    assert sorted(tmp_path.iterdir()) == before


def test_export_refuses_a_place_that_cannot_be_written(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    for out in (path, tmp_path, tmp_path / "nowhere" / "x.csv"):
        assert tacit_ledger("export", path, "--out", out).exit_code == 2
    assert path.read_bytes() == before
