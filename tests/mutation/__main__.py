"""Put each fault into a copy of the tree and see whether the tests notice: `python -m tests.mutation`.

Needs neither the network nor the repository's history. The exit code is 1 where less than 80 % of a group is killed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.mutation.groups import GROUPS
from tests.mutation.mutant import ROOT, Mutant

REQUIRED = 0.8
FAILED_TESTS, BROKEN_IMPORT = 1, 2
"""Exit codes of pytest for a mutant that was noticed."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--module", help="only this group or module, such as ledger or ledger_store")
    parser.add_argument("--only", action="append", help="only mutants whose name has this in it; may be repeated")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for the tests of one mutant (120)")
    options = parser.parse_args()
    chosen = [
        (group, mutant)
        for group, mutants in GROUPS.items()
        for mutant in mutants
        if options.module in (None, group, mutant.stem) and any(part in mutant.name for part in options.only or [""])
    ]
    if not chosen:
        parser.error(f"no mutant has --module {options.module!r} and --only {options.only!r}")
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        tree = copied(Path(directory))
        if not baseline(tree, [mutant for _, mutant in chosen], options.limit):
            return 1
        found = Counter()
        for group, mutant in chosen:
            verdict, seconds = tried(tree, mutant, options.limit)
            killed = verdict.startswith("killed")
            found.update((key, killed) for key in {f"group {group}", f"module {mutant.stem}"})
            print(f"{verdict:<9} {mutant.name} ({seconds:.0f} s)", flush=True)
    return report(found)


def copied(directory: Path) -> Path:
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", directory)
    return directory


def baseline(tree: Path, mutants: list[Mutant], limit: float) -> bool:
    """Run all tests of the mutants on code without a fault: they must pass, or they would kill everything."""
    place = run(tree, ["-c", "import tacit; print(tacit.__file__)"], limit).stdout.strip()
    if not place.startswith(str(tree)):
        print(f"tacit is imported from {place}, not from the copy in {tree}")
        return False
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    begin = time.perf_counter()
    result = run(tree, ["-m", "pytest", "-x", *without_repeats(tests)], None)
    print(f"baseline: {len(tests)} files and tests, {time.perf_counter() - begin:.0f} s", flush=True)
    if result.returncode:
        print(result.stdout, result.stderr, sep="\n")
    return result.returncode == 0


def without_repeats(tests: list[str]) -> list[str]:
    """Leave out single tests of files that are there as a whole."""
    whole = {test for test in tests if "::" not in test}
    return [test for test in tests if test in whole or test.partition("::")[0] not in whole]


def tried(tree: Path, mutant: Mutant, limit: float) -> tuple[str, float]:
    path = mutant.path(tree)
    source = path.read_text("utf-8")
    begin = time.perf_counter()
    path.write_text(mutant.applied(source), "utf-8")
    try:
        code = run(tree, ["-m", "pytest", "-x", "--tb=no", *mutant.tests], limit).returncode
        verdicts = {0: "survived", FAILED_TESTS: "killed", BROKEN_IMPORT: "killed (import)"}
        verdict = "killed (crash)" if code < 0 else verdicts.get(code)
    except subprocess.TimeoutExpired:
        verdict = f"killed (hang, {limit:.0f} s)"
    finally:
        path.write_text(source, "utf-8")
    if verdict is None:
        raise RuntimeError(f"{mutant.name}: pytest ended with {code}: it did not run {', '.join(mutant.tests)}")
    return verdict, time.perf_counter() - begin


def run(tree: Path, arguments: list[str], limit: float | None) -> subprocess.CompletedProcess[str]:
    # No bytecode: a mutant of the same length, made within the same second, would be taken for the one before.
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        timeout=limit,
        capture_output=True,
        text=True,
        check=False,
    )


def report(found: Counter[tuple[str, bool]]) -> int:
    enough = True
    for key in sorted({key for key, _ in found}):
        killed, total = found[key, True], found[key, True] + found[key, False]
        print(f"{key}: {killed} of {total} killed, {killed / total:.0%}")
        enough &= not key.startswith("group ") or killed >= REQUIRED * total
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
