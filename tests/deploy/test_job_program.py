"""A job's hash covers the code that runs it: the files of `--with`, what lies beside them, and the package's version."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

import tacit
from tacit import version
from tacit.algorithms import REGISTRY
from tacit.config import own_code
from tacit.config.job import load_job
from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError, MessageRefused
from tacit.deploy.assignment import plan_of
from tacit.deploy.check import check_peers
from tacit.deploy.rehearsal import job_hash
from tacit.experiments import load
from tacit.peer.transport.codec import Codec
from tests.deploy.homes import found, job_text
from tests.docs.pages import ROOT

OWN = (ROOT / "examples" / "own_algorithm.py").read_text(encoding="utf-8")
NAME = "gossip_with_momentum"
EXPERIMENT = f"""
[run]
rounds = 2
[graph]
kind = "ring"
agents = 3
[stream]
kind = "logistic_drift"
dim = 2
[objective]
kind = "logistic"
[[algorithm]]
name = "{NAME}"
"""


@pytest.fixture(autouse=True)
def _as_a_new_process(monkeypatch):
    """Each test starts with no file given, and leaves none behind."""
    monkeypatch.setattr(own_code, "_LOADED", {}, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    monkeypatch.delitem(REGISTRY, NAME, raising=False)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def hashed(tmp_path, monkeypatch):
    """Return the hash of one job in a process that was given these files, name -> text, with the first by `--with`."""

    def hash_of(files, folder="here", made=load_job, text=None):
        home = tmp_path / folder
        home.mkdir(exist_ok=True)
        for name, content in files.items():
            (home / name).write_text(content)
        with monkeypatch.context() as own:
            own.setattr(own_code, "_LOADED", {}, raising=False)
            own.setattr(sys, "path", list(sys.path))
            own.delitem(REGISTRY, NAME, raising=False)
            own_code.import_file(home / next(iter(files)))
            (home / "job.toml").write_text(text or job_text(NAME))
            found = made(home / "job.toml")
            for module in ("helper", f"with_{Path(next(iter(files))).stem}"):
                sys.modules.pop(module, None)
            return found.hash if hasattr(found, "hash") else found

    return hash_of


def rehearsed(file):
    return job_hash(load(file), 0)


@pytest.mark.parametrize(("made", "text"), [(load_job, None), (rehearsed, EXPERIMENT)], ids=["job", "swarm"])
def test_one_byte_of_own_code_is_another_job(hashed, made, text):
    base = hashed({"own.py": OWN}, made=made, text=text)
    assert hashed({"own.py": OWN + "\n"}, made=made, text=text) != base
    assert (
        hashed({"own.py": OWN.replace("momentum: float = 0.9", "momentum: float = 0.8")}, made=made, text=text) != base
    )
    assert hashed({"own.py": OWN}, made=made, text=text) == base


def test_what_it_imports_from_beside_it_counts(hashed):
    given = {"own.py": f"{OWN}\nimport helper\n", "helper.py": "factor = 2\n"}
    base = hashed(given, "one")
    assert hashed({**given, "helper.py": "factor = 3\n"}, "two") != base
    assert hashed(given, "three") == base
    assert hashed({**given, "unused.py": "x = 1\n"}, "four") == base


def test_neither_path_nor_name_nor_time_counts(hashed, tmp_path):
    base = hashed({"own.py": OWN})
    assert hashed({"mine.py": OWN}, "elsewhere") == base
    os.utime(tmp_path / "here" / "own.py", (1, 1))
    assert hashed({"own.py": OWN}) == base


def test_a_method_of_an_application_counts_as_one_given_by_with_does(hashed, tmp_path, monkeypatch):
    base = hashed({"own.py": OWN})
    (tmp_path / "application.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    __import__("application")
    (tmp_path / "job.toml").write_text(job_text(NAME))
    assert load_job(tmp_path / "job.toml").hash == base


def test_a_method_without_a_source_is_refused(tmp_path, monkeypatch):
    code = compile(OWN, "<stdin>", "exec")
    exec(code, {"__name__": "__main__"})
    (tmp_path / "job.toml").write_text(job_text(NAME))
    with pytest.raises(ConfigError, match=r"gossip_with_momentum.*--with"):
        load_job(tmp_path / "job.toml")


def test_the_version_counts_and_a_store_outlives_it(tmp_path, monkeypatch):
    file = found(tmp_path, job_text(), {"hospital-a": []}, identities=False)["hospital-a"]
    before = load_peer(file)
    monkeypatch.setattr(version, "__version__", "99.1")
    after = load_peer(file)
    assert after.job.hash != before.job.hash
    assert after.job.settings_hash == before.job.settings_hash
    assert after.part == before.part  # otherwise whoever upgrades begins a new ledger, which forgets what was spent


def test_what_masks_are_made_from_outlives_a_version(tmp_path, monkeypatch):
    """Both ends of a pair derive pads and their tags from it; a store is kept over an upgrade, and so are its keys."""
    file = found(tmp_path, job_text(), {"hospital-a": []}, identities=False)["hospital-a"]
    before = plan_of(load_peer(file))
    monkeypatch.setattr(version, "__version__", "99.1")
    after = plan_of(load_peer(file))
    assert before.job != after.job
    assert before.settings == after.settings != ""


def test_there_is_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == tacit.__version__


def test_the_swarm_s_hash_covers_the_version(tmp_path, monkeypatch):
    (tmp_path / "experiment.toml").write_text(EXPERIMENT.replace(NAME, "online_push_sum"))
    before = rehearsed(tmp_path / "experiment.toml")
    monkeypatch.setattr(version, "__version__", "99.1")
    assert rehearsed(tmp_path / "experiment.toml") != before


def test_check_says_what_the_hash_is_made_of(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    own_code.import_file(tmp_path / "own.py")
    file = found(tmp_path, job_text(), {"hospital-a": []}, identities=False)["hospital-a"]
    job = load_peer(file).job
    said = "\n".join(check_peers([file]).lines)
    (digest,) = [digest for name, digest in job.program.code if name == "own.py"]
    for part in (job.hash, job.settings_hash, tacit.__version__, "own.py", digest):
        assert part in said


def test_whoever_is_turned_away_is_told_what_to_compare():
    hello = Codec("a" * 64, ()).hello(0)
    with pytest.raises(MessageRefused) as caught:
        Codec("b" * 64, ()).check_hello(hello)
    assert caught.value.reason == "job"
    for word in ("a" * 64, "b" * 64, "job.toml", "version", "--with", "tacit peer check"):
        assert word in str(caught.value)
