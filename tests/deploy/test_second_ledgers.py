"""One identity has one ledger in an epoch of a job: no old copy and no new file gives it a second budget."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tacit.cli import app
from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError, LedgerError
from tacit.deploy import ledger_register
from tacit.deploy.peer import Peer
from tests.deploy.homes import LAPLACE, job_text
from tests.deploy.peers import ALONE, alone, run, start_refused, until

PRIVACY = 'epsilon = 100.0\nwitness = "witness.json"'


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A home with a store at its beginning, a copy of it, and what became of it."""
    root = tmp_path_factory.mktemp("begun")
    file = alone(root, job=job_text(members=ALONE, mechanism=LAPLACE), privacy=PRIVACY)

    async def scenario():
        async with await Peer.start(file) as peer:
            before = peer.status()["privacy"]["releases"]
            await peer.learn([1.0, 1.0], 1)
            await until(lambda: peer.status()["privacy"]["releases"] > before)

    run(scenario())
    shutil.copytree(file.parent, root / "early")
    run(scenario())
    return root


@pytest.fixture
def home(begun, tmp_path):
    """A home of its own for each test."""
    shutil.copytree(begun, tmp_path / "a")
    register = tmp_path / "a" / "hospital-a" / "identity" / "ledgers.json"
    register.write_text(register.read_text().replace(str(begun), str(tmp_path / "a")))
    return tmp_path / "a" / "hospital-a"


def moved(home, store="state/other.db", witness="other.json"):
    """Point the settings at other files."""
    file = home / "peer.toml"
    text = file.read_text().replace('"witness.json"', f'"{witness}"')
    file.write_text(text.replace("[peer]\n", f'[peer]\nstore = "{store}"\n'))
    return file


def test_a_new_store_with_a_new_witness_is_refused(home):
    file = moved(home)
    start_refused(file, ConfigError, "has a ledger")
    assert not (home / "state" / "other.db").exists()
    assert not (home / "other.json").exists()


def test_a_store_that_was_deleted_with_its_witness_is_not_begun_anew(home):
    (home / "state" / "store.db").unlink()
    (home / "witness.json").unlink()
    start_refused(home / "peer.toml", ConfigError, "has a ledger")


def test_old_copies_of_both_are_known_by_the_witness_that_was_left(home):
    early = home.parent / "early"
    shutil.copy(early / "state" / "store.db", home / "state" / "other.db")
    shutil.copy(early / "witness.json", home / "other.json")
    start_refused(moved(home), LedgerError, "rolled back")


def test_another_ledger_of_the_same_job_is_refused(home):
    known = json.loads((home / "identity" / "ledgers.json").read_text())
    (account,) = known
    known[account]["ledger"] = "0" * 32
    (home / "identity" / "ledgers.json").write_text(json.dumps(known))
    start_refused(home / "peer.toml", ConfigError, "0" * 32)


def test_a_witness_that_was_moved_goes_on(home):
    (home / "witness.json").rename(home / "other.json")
    file = moved(home, store="state/store.db")

    async def scenario():
        async with await Peer.start(file) as peer:
            assert peer.status()["privacy"]["releases"] >= 2

    run(scenario())
    (entry,) = json.loads((home / "identity" / "ledgers.json").read_text()).values()
    assert entry["witness"] == str(load_peer(file).witness)


def test_a_second_ledger_is_an_explicit_act_that_stays_on_record(home):
    file = home / "peer.toml"
    (entry,) = json.loads((home / "identity" / "ledgers.json").read_text()).values()

    def asked(*ledger):
        return CliRunner().invoke(app, ["peer", "new-ledger", str(file), "--instead-of", *ledger])

    assert asked(entry["ledger"]).exit_code == 2  # the old one is there
    (home / "state" / "store.db").unlink()
    (home / "witness.json").unlink()
    assert asked("0" * 32).exit_code == 2
    start_refused(file, ConfigError, "has a ledger")
    done = asked(entry["ledger"])
    assert done.exit_code == 0, done.output

    async def scenario():
        async with await Peer.start(file) as peer:
            await until(lambda: peer.round > 1)

    run(scenario())
    (later,) = json.loads((home / "identity" / "ledgers.json").read_text()).values()
    assert later["ledger"] != entry["ledger"]
    assert later["before"] == [entry["ledger"]]
    (home / "state" / "store.db").unlink()
    (home / "witness.json").unlink()
    start_refused(file, ConfigError, later["ledger"])


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"ledger": 1}}', "\xff"])
def test_a_damaged_register_is_refused(home, text):
    (home / "identity" / "ledgers.json").write_text(text, encoding="latin-1")
    start_refused(home / "peer.toml", ConfigError, "ledgers.json")


def given_up(home):
    """Lose a store whose witness stays, and give its ledger up."""
    (home / "state" / "store.db").unlink()
    (entry,) = json.loads((home / "identity" / "ledgers.json").read_text()).values()
    done = CliRunner().invoke(app, ["peer", "new-ledger", str(home / "peer.toml"), "--instead-of", entry["ledger"]])
    assert done.exit_code == 0, done.output


def test_who_has_lost_a_store_and_not_its_witness_is_told_what_to_do(home):
    (home / "state" / "store.db").unlink()
    (entry,) = json.loads((home / "identity" / "ledgers.json").read_text()).values()
    start_refused(home / "peer.toml", ConfigError, f"new-ledger peer.toml --instead-of {entry['ledger']}")
    home.joinpath("state", "store.db").touch()
    given_up(home)
    start_refused(home / "peer.toml", ConfigError, "witness = ")


def test_a_crash_before_the_register_after_a_ledger_was_given_up_locks_nobody_out(home, monkeypatch):
    given_up(home)
    file = moved(home, store="state/store.db")  # a new witness; the old one stays where it is

    def crash(*_):
        raise OSError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_register, "_note", crash)
        start_refused(file, OSError, "power")
    assert (home / "state" / "store.db").exists()

    async def scenario():
        async with await Peer.start(file) as peer:
            await until(lambda: peer.round > 1)

    run(scenario())


BEGUN = ledger_register.Registered("a" * 32, "store.db", None, "now")


def test_who_comes_second_does_not_write_over_the_first(tmp_path):
    register = ledger_register.Register(tmp_path)
    register.put("job", BEGUN, None)
    with pytest.raises(ConfigError, match="another process"):
        register.put("job", replace(BEGUN, ledger="b" * 32), None)  # as who looked before the first was there
    assert register.get("job") == BEGUN


def test_two_jobs_that_register_at_once_are_both_on_record(tmp_path):
    def begin(job):
        for epoch in range(20):
            ledger_register.Register(tmp_path).put(f"{job} {epoch}", BEGUN, None)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(begin, "ab"))
    assert len(json.loads((tmp_path / "ledgers.json").read_text())) == 40
