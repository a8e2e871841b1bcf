"""Where figures are written, with what they were measured on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write(name: str, found: Mapping[str, Any], *libraries: str) -> None:
    """Write what was found to results/<name>.json, with the machine, Python and the versions of these libraries."""
    about = {
        "date": date.today().isoformat(),
        "commit": commit(),
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        **{library: version(library) for library in libraries},
    }
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{name}.json"
    target.write_text(json.dumps({"about": about, **found}, indent=1) + "\n")
    print(f"written to {target.relative_to(Path.cwd()) if target.is_relative_to(Path.cwd()) else target}")


def environment(agents: int) -> dict[str, str]:
    """Return the environment of a process that measures so many agents: small rounds are faster on one thread."""
    plain = {k: v for k, v in os.environ.items() if k not in ("PJRT_NPROC", "NPROC", "XLA_FLAGS")}
    return {**plain, "PJRT_NPROC": "1"} if agents <= 4096 else plain


def commit() -> str:
    """Return the commit that is measured, with a + where files differ from it; "" outside of a repository."""
    told = ["git", "-C", str(RESULTS.parent), "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=12"]
    try:
        return subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def processor() -> str:
    """Return the name of the processor, as the system tells it; "" where it does not."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
