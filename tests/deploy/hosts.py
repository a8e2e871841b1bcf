"""Hosts on one machine: a network namespace each, cabled to a bridge in a namespace of its own.

with Hosts(directory, {"a": "10.77.0.1", "b": "10.77.0.2"}) as hosts:
    subprocess.run([*hosts.inside("a"), "ping", "-c1", "10.77.0.2"], cwd=hosts.directory / "a")
    hosts.cut("a")
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

LISTENING = "0A"
"""State of a socket in /proc/net/tcp."""


def why_not() -> str | None:
    """Return why namespaces cannot be made here, or None."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "network namespaces need Linux and iproute2's `ip`"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = _unique()
    tried = _ip("netns", "add", name, check=False)
    if tried.returncode != 0:
        return f"network namespaces cannot be made here: {tried.stderr.strip()}"
    tried = _ip("-n", name, "link", "add", "name", "bridge0", "type", "bridge", check=False)
    _ip("netns", "del", name)
    return None if tried.returncode == 0 else f"a bridge cannot be made here: {tried.stderr.strip()}"


class Hosts:
    """Hosts by name, each with an address on the common network and a directory; gone at the end, whatever happens."""

    def __init__(self, directory: Path, addresses: Mapping[str, str]) -> None:
        self.directory, self.addresses = directory, dict(addresses)
        unique = _unique()
        self._hub = f"{unique}-hub"
        self._spaces = {name: f"{unique}-{k}" for k, name in enumerate(self.addresses)}
        self._cables = {name: f"cable{k}" for k, name in enumerate(self.addresses)}

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def inside(self, name: str) -> list[str]:
        """What has to stand before a command to run it on a host."""
        return ["ip", "netns", "exec", self._spaces[name]]

    def cut(self, name: str) -> None:
        """Pull the cable of a host: packets are lost both ways, and nobody is told."""
        _ip("-n", self._hub, "link", "set", self._cables[name], "down")

    def heal(self, name: str) -> None:
        """Put the cable back."""
        _ip("-n", self._hub, "link", "set", self._cables[name], "up")

    def listening(self, name: str) -> set[tuple[str, int]]:
        """Return (address, port) of all that takes TCP connections on a host."""
        command = [*self.inside(name), "cat", "/proc/net/tcp", "/proc/net/tcp6"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()
        fields = [line.split() for line in lines]
        return {_address(field[1]) for field in fields if len(field) > 3 and field[3] == LISTENING}

    def processes(self, name: str) -> list[int]:
        """Return what runs on a host; nothing else does, its namespace being made for it."""
        found = _ip("netns", "pids", self._spaces[name], check=False)
        return [int(pid) for pid in found.stdout.split()]

    def close(self) -> None:
        """End whatever runs on the hosts, and remove them."""
        for name in self._spaces:
            for pid in self.processes(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for space in (*self._spaces.values(), self._hub):
            _ip("netns", "del", space, check=False)

    def _make(self) -> None:
        _ip("netns", "add", self._hub)
        _ip("-n", self._hub, "link", "add", "name", "bridge0", "type", "bridge")
        _ip("-n", self._hub, "link", "set", "bridge0", "up")
        for name, space in self._spaces.items():
            (self.directory / name).mkdir(parents=True, exist_ok=True)
            cable = self._cables[name]
            _ip("netns", "add", space)
            _ip("-n", self._hub, "link", "add", "name", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("-n", self._hub, "link", "set", cable, "master", "bridge0", "up")
            _ip("-n", space, "address", "add", f"{self.addresses[name]}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")


def _unique() -> str:
    return f"tacit-{os.getpid()}-{secrets.token_hex(2)}"


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True, timeout=120)


def _address(field: str) -> tuple[str, int]:
    """Read an address as /proc/net/tcp has it: words of four bytes in the order of this machine."""
    host, port = field.split(":")
    words = (bytes.fromhex(host[at : at + 8]) for at in range(0, len(host), 8))
    raw = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    address = ipaddress.ip_address(raw)
    return str(getattr(address, "ipv4_mapped", None) or address), int(port, 16)
