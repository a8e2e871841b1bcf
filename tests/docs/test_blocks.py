"""The manual's code runs and its configurations load.

A page's blocks of Python run in order, in one program and an empty folder, in which the files are that the page
includes, and the configurations whose first line names them (`# first.toml`). What must not run has a comment above it
that readers do not see: `<!-- not run: why -->`.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tacit.cli import main
from tacit.config.experiment import OPTIONAL, SECTIONS
from tacit.config.job import load_job
from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError
from tacit.experiments import parse
from tacit.sweeps import load_sweep
from tests.docs.pages import PAGES, ROOT, WRITTEN, blocks

EXPERIMENT = (ROOT / "examples" / "synthetic.toml").read_text(encoding="utf-8")
HAVE_THEIR_OWN = ("tour.md",)
"""Pages whose blocks have tests of their own, which also look at what they print, as the README's have."""
WITH_CODE = [path for path in PAGES if path.name not in HAVE_THEIR_OWN and blocks(path, "python")]
WITH_TOML = [path for path in WRITTEN if blocks(path, "toml")]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def supply(page: Path, folder: Path) -> None:
    """Put the files into a folder that a page shows its readers."""
    for block in blocks(page):
        if block.language == "{literalinclude}" or block.language.startswith("{literalinclude} "):
            shutil.copy(page.parent / block.language.split()[1], folder)
        named = re.match(r"# ([\w-]+\.toml)\n", block.text)
        if named:
            (folder / named[1]).write_text(block.text, encoding="utf-8")


@pytest.mark.parametrize("page", WITH_CODE, ids=_name)
def test_code_runs(page: Path, folder: Path) -> None:
    supply(page, folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        if block.run:
            # Lines of a traceback are those of the page.
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)


def loaded(text: str, folder: Path) -> None:
    """Load a configuration as the commands do; what a part of an experiment leaves out is taken from an example."""
    data = tomllib.loads(text)
    if "job" in data and isinstance(data["job"], dict):
        (folder / "job.toml").write_text(text, encoding="utf-8")
        load_job(folder / "job.toml")
        return
    if "sweep" in data:
        (folder / "sweep.toml").write_text(text, encoding="utf-8")
        load_sweep(folder / "sweep.toml")
        return
    if not data.keys() <= {*SECTIONS, *OPTIONAL}:
        raise ConfigError(f"neither an experiment nor a job: {', '.join(data)}")
    parts = [text, *(part for name, part in _sections(EXPERIMENT).items() if name not in data)]
    parse("\n".join(parts), folder / "page.toml")


def _sections(text: str) -> dict[str, str]:
    """Return an experiment's sections by their names, with the tables inside them."""
    found: dict[str, str] = {}
    for part in re.split(r"^(?=\[)", text, flags=re.MULTILINE)[1:]:
        name = re.match(r"\[+(\w+)", part)
        assert name is not None
        found[name[1]] = found.get(name[1], "") + part
    return found


@pytest.mark.parametrize("page", WITH_TOML, ids=_name)
def test_configurations_load(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "toml"):
        if block.run:
            loaded(block.text, tmp_path)


def test_settings_of_peers_load(tmp_path: Path) -> None:
    written = [
        (name, text)
        for block in blocks(ROOT / "docs" / "deploy.md", "bash")
        for name, text in re.findall(r"^cat > (\w+\.toml) <<'END'\n(.*?)^END$", block.text, re.MULTILINE | re.DOTALL)
    ]
    assert [name for name, _ in written] == ["job.toml", "peer.toml", "peer.toml", "peer.toml"]
    for name, text in written:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        if name == "job.toml":
            load_job(file)
        else:
            load_peer(file)


def test_the_first_file_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    supply(ROOT / "docs" / "start.md", folder)
    for command in (["graph", "check", "first.toml"], ["run", "first.toml", "--rounds", "3"]):
        with pytest.raises(SystemExit) as left:
            main(command)
        assert not left.value.code
    printed = capsys.readouterr().out
    assert re.search(r"open .* not private", printed)
    assert re.search(r"private, with eps 1 per record", printed)  # the sentence: a cell of the table may be broken
    assert (folder / "runs" / "first" / "report.html").exists()


def test_a_configuration_that_does_not_load_is_noticed(tmp_path: Path) -> None:
    loaded('[graph]\nkind = "ring"\nagents = 5', tmp_path)
    with pytest.raises(ConfigError, match="rings"):
        loaded('[graph]\nkind = "rings"\nagents = 5', tmp_path)
    with pytest.raises(ConfigError, match="neither"):
        loaded("[nothing]\na = 1", tmp_path)
