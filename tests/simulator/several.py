"""Processes of a test that have several devices, or that meet at a coordinator."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def started(*arguments: str, devices: int = 1, folder: Path = ROOT, **told: str) -> subprocess.Popen[str]:
    """Start Python with so many devices; what it prints can be read."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, **told}
    command = [sys.executable, *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def free_port(first: int = 0) -> int:
    """Return a port of loopback that nobody has."""
    for port in range(first, 65536):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return int(free.getsockname()[1])
    raise OSError("no port is free")
