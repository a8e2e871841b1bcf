"""Compiled programs on disk: whose they are, which of them are used, and that a peer's log stays a log."""

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import jax
import numpy as np
import pytest

from tacit.core.errors import ConfigError
from tacit.runtime import program_cache
from tacit.runtime.program_cache import keep_programs
from tests.deploy.peers import alone

WHOLE = zlib.compress(b"a program" * 100)
FRAME = bytes.fromhex("28b52ffd60840285000048612070726f6772616d010078599523")
CHECKED_FRAME = bytes.fromhex("28b52ffd040085000048612070726f6772616d0100785995237e2962df")
"""The same by Zstandard, without and with its sum."""


def set_in_jax() -> str | None:
    return jax.config.values["jax_compilation_cache_dir"]


@pytest.fixture(autouse=True)
def users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The folder of a user who has set nothing, and settings of JAX that come back."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = ("jax_enable_compilation_cache", "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: jax.config.values[name] for name in names}
    jax.config.update("jax_enable_compilation_cache", True)
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()


def test_programs_are_kept_in_the_users_folder(users):
    folder = keep_programs()
    assert folder is not None
    assert folder.is_relative_to(users / "tacit")
    assert set_in_jax() == str(folder)
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o700, 0o700]
    assert keep_programs() is None, "it is settled"
    jax.jit(lambda x: x * 3 + 1)(np.ones(7))
    assert len(list(folder.iterdir())) > 1


def test_what_was_set_for_jax_stays(users):
    jax.config.update("jax_compilation_cache_dir", str(users / "own"))
    assert keep_programs() is None
    assert set_in_jax() == str(users / "own")
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", False)
    assert keep_programs(users / "programs") is None
    assert not list(users.iterdir())


@pytest.mark.parametrize("fault", ["open", "link", "file", "another user's"])
def test_a_folder_that_others_reach_is_not_used(users, monkeypatch, fault):
    """It is an error where it was asked for, and the default does without."""
    folder = users / "tacit" / "programs"
    folder.parent.mkdir()
    if fault == "link":
        (users / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(users / "elsewhere")
    elif fault == "file":
        folder.write_bytes(b"")
    else:
        folder.mkdir(mode=0o700)
    if fault == "open":
        folder.chmod(0o770)
    elif fault == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match=str(folder)):
        keep_programs(folder)
    assert keep_programs() is None
    assert set_in_jax() is None


def test_what_is_torn_goes_and_the_rest_is_looked_at_once(users):
    own = keep_programs(users)
    contents = {"whole": WHOLE, "torn": WHOLE[:-5], "zeros": bytes(50), "empty": b""}
    contents |= {"zstd": FRAME, "zstd checked": CHECKED_FRAME, "no end": FRAME[:-10], "no sum": CHECKED_FRAME[:-1]}
    for name, content in contents.items():
        (own / name).write_bytes(content)
    jax.config.update("jax_compilation_cache_dir", None)
    assert keep_programs(users) == own
    assert {path.name for path in own.iterdir()} == {"whole", "zstd", "zstd checked", program_cache.CHECKED}
    (own / "looked at").write_bytes(WHOLE[:-5])
    os.utime(own / "looked at", (1_000, 1_000))
    jax.config.update("jax_compilation_cache_dir", None)
    keep_programs(users)
    assert (own / "looked at").exists()


def test_the_oldest_programs_make_room(users, monkeypatch):
    own = keep_programs(users)
    for age in range(4):
        (own / f"{age}").write_bytes(WHOLE)
        os.utime(own / f"{age}", (1_000 - age, 1_000 - age))
    monkeypatch.setattr(program_cache, "LIMIT", 2 * len(WHOLE))
    jax.config.update("jax_compilation_cache_dir", None)
    keep_programs(users)
    assert {file.name for file in own.iterdir()} == {"0", "1", program_cache.CHECKED}


def test_what_xla_keeps_for_a_gpu_is_no_obstacle(users, monkeypatch):
    """XLA makes a folder beside the programs, whose files are no programs, but take room."""
    own = keep_programs(users)
    tuned = own / jax.config.values["jax_persistent_cache_enable_xla_caches"] / "results"
    tuned.mkdir(parents=True)
    (tuned / "fusion").write_bytes(b"x: no program")
    (own / "jit_f").write_bytes(WHOLE)
    os.utime(tuned / "fusion", (1_000, 1_000))
    for limit, kept in ((program_cache.LIMIT, {"fusion", "jit_f"}), (len(WHOLE), {"jit_f"})):
        monkeypatch.setattr(program_cache, "LIMIT", limit)
        (own / program_cache.CHECKED).unlink()
        jax.config.update("jax_compilation_cache_dir", None)
        assert keep_programs(users) == own
        assert set_in_jax() == str(own)
        assert {file.name for file in own.rglob("*") if file.is_file()} == kept | {program_cache.CHECKED}


def test_files_that_another_process_removes_meanwhile_are_no_obstacle(users, monkeypatch):
    (keep_programs() / "gone-cache").write_bytes(WHOLE)
    jax.config.update("jax_compilation_cache_dir", None)
    look, seen = Path.stat, []

    def stat(file, **settings):
        if file.name == "gone-cache" and seen:
            raise FileNotFoundError(file)
        seen.extend([file] * (file.name == "gone-cache"))
        return look(file, **settings)

    monkeypatch.setattr(Path, "stat", stat)
    assert keep_programs() is not None
    assert seen


def test_a_second_start_compiles_nothing_and_its_log_has_events_alone(tmp_path):
    """Both starts end after their last round; the second finds each program of the first, and the log stays JSON."""
    file = alone(tmp_path, rounds="patience = 0.05\nlast = 1")
    kept = []
    for _ in range(2):
        command = [sys.executable, "-m", "tacit", "peer", "run", str(file)]
        unset = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE", "TF_CPP_MIN_LOG_LEVEL")
        plain = {name: value for name, value in os.environ.items() if name not in unset}
        done = subprocess.run(command, env=plain, check=True, capture_output=True, text=True, timeout=300)
        assert "peer started" in [json.loads(line)["event"] for line in done.stderr.splitlines()]
        found = file.parent.glob("state/store.db.programs/*/jit_*")
        kept.append({path.name: path.stat().st_mtime_ns for path in found})
    assert kept[0]
    assert kept[0].items() <= kept[1].items()
    assert not {name for name in kept[1].keys() - kept[0].keys() if name.startswith(("jit_compute", "jit_absorb"))}
