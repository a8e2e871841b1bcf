"""The dashboard against the types of @grafana/schema, where npm and its registry are there."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

PACKAGES = ("@grafana/schema@13.2.3", "typescript@5")
TYPES = "./node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen"
PLAIN = "type Plain<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;"
"""JSON has the values of enumerations, not their names."""


def check(folder: Path, dashboard: dict[str, object]) -> str:
    """Return what the compiler says of a dashboard."""
    rest = {key: value for key, value in dashboard.items() if key != "panels"}
    lines = [
        f'import type {{ Dashboard, Panel }} from "{TYPES}";',
        PLAIN,
        f"export const panels: Plain<Panel>[] = {json.dumps(dashboard['panels'], indent=1)};",
        f"export const dashboard: Plain<Dashboard> = {json.dumps(rest, indent=1)};",
    ]
    (folder / "check.ts").write_text("\n".join(lines))
    options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler"]
    command = ["node", "node_modules/typescript/bin/tsc", *options, "check.ts"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_the_dashboard_has_the_types_of_grafana(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: apt-get install npm")
    (tmp_path / "package.json").write_text("{}")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    if found.returncode:
        pytest.skip(f"npm cannot install {' and '.join(PACKAGES)}: {found.stderr[-300:]}")
    dashboard = json.loads((resources.files("tacit.deploy") / "monitoring" / "dashboard.json").read_text())
    assert check(tmp_path, dashboard) == ""
    dashboard["panels"][0]["id"] = "one"
    dashboard["timezone"] = 3
    assert check(tmp_path, dashboard).count("error TS2322") == 2
