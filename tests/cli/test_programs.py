"""Compiled programs that a peer keeps: whose they are, which of them are used, and that a log stays a log."""

import json
import os
import subprocess
import sys
import zlib

import jax
import pytest

from tacit.cli.peers import programs
from tacit.core.errors import ConfigError
from tests.deploy.peers import alone

WHOLE = zlib.compress(b"a program" * 100)


@pytest.fixture
def cache():
    """What JAX has for its own folder, which is put back."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: jax.config.values[name] for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield lambda: jax.config.jax_compilation_cache_dir
    for name, value in before.items():
        jax.config.update(name, value)


def test_the_folder_is_the_users_alone(tmp_path, cache):
    folder = tmp_path / "state" / "store.db.programs"
    programs.keep_programs(folder)
    (own,) = folder.iterdir()
    assert cache() == str(own)
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0
    assert [path.stat().st_mode & 0o777 for path in (folder, own)] == [0o700, 0o700]


@pytest.mark.parametrize("fault", ["open", "link", "file", "another user's"])
def test_a_folder_that_others_reach_is_not_used(tmp_path, cache, monkeypatch, fault):
    folder = tmp_path / "programs"
    if fault == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif fault == "file":
        folder.write_bytes(b"")
    else:
        folder.mkdir(mode=0o700)
    if fault == "open":
        folder.chmod(0o770)
    elif fault == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match=str(folder)):
        programs.keep_programs(folder)
    assert cache() is None


def test_what_is_torn_old_or_too_much_goes(tmp_path, cache, monkeypatch):
    programs.keep_programs(tmp_path)
    (own,) = tmp_path.iterdir()
    (tmp_path / "of-another-version").mkdir()
    contents = {"whole": WHOLE, "torn": WHOLE[:-5], "zeros": bytes(50), "empty": b"", "zstd": b"\x28\xb5\x2f\xfd..."}
    for name, content in contents.items():
        (own / name).write_bytes(content)
    jax.config.update("jax_compilation_cache_dir", None)
    programs.keep_programs(tmp_path)
    assert list(tmp_path.iterdir()) == [own]
    assert {path.name for path in own.iterdir()} == {"whole", "zstd"}
    monkeypatch.setattr(programs, "MOST_BYTES", 10)
    jax.config.update("jax_compilation_cache_dir", None)
    programs.keep_programs(tmp_path)
    assert list(own.iterdir()) == []


def test_a_setting_of_jax_stays(tmp_path, cache):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    programs.keep_programs(tmp_path / "programs")
    assert cache() == str(tmp_path / "mine")
    assert not (tmp_path / "programs").exists()


def test_a_second_start_compiles_nothing_and_its_log_has_events_alone(tmp_path):
    """Both starts end after their last round; the second finds each program of the first, and the log stays JSON."""
    file = alone(tmp_path, rounds="patience = 0.05\nlast = 1")
    kept = []
    for _ in range(2):
        command = [sys.executable, "-m", "tacit", "peer", "run", str(file)]
        plain = {k: v for k, v in os.environ.items() if k not in ("JAX_COMPILATION_CACHE_DIR", "TF_CPP_MIN_LOG_LEVEL")}
        done = subprocess.run(command, env=plain, check=True, capture_output=True, text=True, timeout=300)
        assert "peer started" in [json.loads(line)["event"] for line in done.stderr.splitlines()]
        kept.append({path.name: path.stat().st_mtime_ns for path in file.parent.glob("state/store.db.programs/*/*")})
    assert kept[0]
    assert kept[0].items() <= kept[1].items()
    assert not {name for name in kept[1].keys() - kept[0].keys() if name.startswith(("jit_compute", "jit_absorb"))}
