"""The scripts of examples/ run as a user runs them, and say what their first lines promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name: str, folder: Path, *settings: str) -> str:
    """Run a script from an empty folder and return what it printed; it must not complain of anything."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *settings],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    """Return what the pattern's groups hold, in order."""
    found = re.search(pattern, text)
    assert found, f"{pattern!r} is not in:\n{text}"
    return [float(group.replace(",", "")) for group in found.groups()]


def test_simulation(tmp_path: Path) -> None:
    text = printed("simulation.py", tmp_path)
    mean, low, high = numbers(r"average loss (\S+), 95 % interval (\S+) to (\S+)", text)
    assert low < mean < high < 0.6931
    regret = [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith("after round")]
    assert len(regret) == 4
    assert regret == sorted(regret, reverse=True)
    assert 0 < regret[-1] < regret[0] / 5
    assert "Not private" in text
    assert (tmp_path / "runs" / "simulation" / "report.html").stat().st_size > 10_000


def test_private_simulation(tmp_path: Path) -> None:
    text = printed("private_simulation.py", tmp_path)
    (multiplier,) = numbers(r"noise of (\S+) times", text)
    rho = 4 / (2 * multiplier**2)  # four releases of zCDP
    (booked,) = numbers(r"rho = ([\d.]+)", text)
    assert abs(booked / rho - 1) < 0.01
    (epsilon,) = numbers(r"Epsilon = (\S+) per record", text)
    assert 0.99 < epsilon <= 1
    open_loss, private_loss = (float(loss) for loss in re.findall(r"average loss ([\d.]+)", text))
    assert open_loss < private_loss < 0.6931
    least, claimed = numbers(r"epsilon >= (\S+) with.*claimed (\S+) at", text)
    assert 1 < least <= claimed


def test_custom_loss(tmp_path: Path) -> None:
    text = printed("custom_loss.py", tmp_path)
    alone, together = ([float(n) for n in re.findall(r"\d\.\d+", line)] for line in text.splitlines())
    assert max(alone) < 0.8
    assert min(together) > 0.95


@pytest.mark.covered_by("deploy/test_rehearsal.py and the embedded peer")
def test_swarm(tmp_path: Path) -> None:
    text = printed("swarm.py", tmp_path)
    assert text.startswith("3 processes, 10 rounds\n")
    assert numbers(r"any round: (\S+)", text)[0] < 1e-6
    loss, simulated = numbers(r"last rounds: (\S+), simulated (\S+)", text)
    assert loss == simulated
    assert list(tmp_path.iterdir()) == []


def test_embedded_peer(tmp_path: Path) -> None:
    lines = printed("embedded_peer.py", tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["north", "south", "west"]
    for line in lines:
        before, after = numbers(r"about (\d+)% of new orders at first and (\d+)% after round 60;", line)
        assert before < 60
        assert after > 80
        (releases,) = numbers(r"(\d+) releases booked", line)
        assert 30 <= releases <= 60  # who is late goes on where the others are
        assert "epsilon 4 of 4 per record" in line
    assert list(tmp_path.iterdir()) == []


def test_the_index_names_every_example() -> None:
    index = (EXAMPLES / "README.md").read_text()
    names = {path.name for path in EXAMPLES.iterdir()} - {"README.md", "__pycache__"}
    missing = {name for name in names if f"[{name}](" not in index}
    assert not missing
    linked = {target.rstrip("/") for target in re.findall(r"\]\(([^)]+)\)", index) if not target.startswith("..")}
    assert linked <= names | {"own_algorithm.py"}


@pytest.mark.covered_by("objectives/test_own_models.py, and docs/networks.md, of which every block runs")
def test_a_network_learns_more_together(tmp_path: Path) -> None:
    text = printed("network.py", tmp_path)
    alone, together, momentum = (float(each) for each in re.findall(r"learnt from (\S+);", text))
    assert min(together, momentum) > alone + 0.05


@pytest.mark.covered_by("algorithms/test_tracking.py and test_momentum.py, of the methods that it compares")
def test_unlike_agents_are_compared_in_pairs(tmp_path: Path) -> None:
    text = printed("unlike_agents.py", tmp_path, "--rounds", "3", "--seeds", "2", "--tune", "1")
    plain, *others = (float(each) for each in re.findall(r"accuracy (\S+)", text))
    gaps = [float(each) for each in re.findall(r"plain steps: (\S+),", text)]
    assert len(others) == len(gaps) == 3
    assert all(abs(other - plain - gap) < 2e-3 for other, gap in zip(others, gaps, strict=True))
