"""Wheels of both distributions: what they hold, and that they work in an environment of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = {"tacit": ROOT, "tacit_reproduction": ROOT / "reproduction"}
NOT_SHIPPED = {".proto"}
"""Endings of files from which others are generated."""
BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"
LONGEST = 900
"""Seconds for an index to bring some hundred MB."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheels built of copies, so that nothing is left beside the source."""
    made, folder = {}, tmp_path_factory.mktemp("wheels")
    for name, home in DISTRIBUTIONS.items():
        copy = folder / name
        shutil.copytree(home / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            if (home / file).exists():
                shutil.copy(home / file, copy / file)
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(folder)],
            cwd=copy,
            env=_clean(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        made[name] = folder / done.stdout.split()[-1]
    return made


def _clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_wheel_holds_the_package_and_nothing_else(name: str, wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels[name]) as archive:
        held = {path for path in archive.namelist() if ".dist-info/" not in path}
        about = {path.partition(".dist-info/")[2]: path for path in archive.namelist() if ".dist-info/" in path}
        metadata = archive.read(about["METADATA"]).decode()
        entry_points = archive.read(about["entry_points.txt"]).decode()
    source = DISTRIBUTIONS[name] / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in NOT_SHIPPED
    }
    assert held == expected
    assert f"{name}/py.typed" in held
    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: Apache-2.0" in metadata
    assert ("tacit = tacit.cli:main" if name == "tacit" else "reproduce = ") in entry_points


def test_both_are_of_one_version(wheels: dict[str, Path]) -> None:
    versions = {wheel.name.split("-")[1] for wheel in wheels.values()}
    assert len(versions) == 1
    with zipfile.ZipFile(wheels["tacit_reproduction"]) as archive:
        (metadata,) = (archive.read(path).decode() for path in archive.namelist() if path.endswith("METADATA"))
    assert f"Requires-Dist: tacit[all]=={versions.pop()}" in metadata


@pytest.mark.slow
@pytest.mark.timeout(2 * LONGEST)
def test_the_wheels_work_in_an_environment_of_their_own(wheels: dict[str, Path], tmp_path: Path) -> None:
    home, folder = tmp_path / "venv", tmp_path / "empty"
    folder.mkdir()

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=folder, env=_clean(), capture_output=True, text=True, timeout=LONGEST, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    run(sys.executable, "-m", "venv", home)
    python, tacit = home / "bin" / "python", home / "bin" / "tacit"
    try:
        run(python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", tmp_path / "probe", "h11")
    except (AssertionError, subprocess.TimeoutExpired):
        pytest.skip("no index of packages can be reached from here")
    run(python, "-m", "pip", "install", "--quiet", wheels["tacit"])
    assert run(tacit, "--version").startswith("tacit ")
    # What only an extra brings is named by its extra.
    refused = subprocess.run([tacit, "init"], cwd=folder, env=_clean(), capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "tacit[data]" in refused.stderr
    assert list(folder.iterdir()) == []
    run(python, "-m", "pip", "install", "--quiet", f"{wheels['tacit']}[all]", wheels["tacit_reproduction"])
    where = run(python, "-c", "import tacit, tacit_reproduction; print(tacit.__file__, tacit_reproduction.__file__)")
    assert all(path.startswith(str(home)) for path in where.split())
    assert "runs/experiment/report.html" in run(tacit, "init")
    assert "push_sum" in run(tacit, "reproduce", "--list") or "push-sum" in run(tacit, "reproduce", "--list")
