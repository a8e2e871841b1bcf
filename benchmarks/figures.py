"""Where figures are written, with what they were measured on."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write(name: str, found: Mapping[str, Any], *libraries: str) -> None:
    """Write what was found to results/<name>.json, with the machine, Python and the versions of these libraries."""
    about = {
        "machine": platform.machine(),
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
