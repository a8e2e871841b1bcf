"""Bytes that went through this process's TCP sockets, as the kernel counted them."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

_DESCRIPTORS = Path("/proc/self/fd")
_INFO_BYTES = 232
_RECEIVED = 128  # tcpi_bytes_received; offsets are those of struct tcp_info in linux/tcp.h, to which fields are added
_SENT = 200  # tcpi_bytes_sent and tcpi_bytes_retrans, Linux 4.19


class SocketBytes(NamedTuple):
    """Bytes of TCP streams, without the headers of TCP and IP and without what had to be sent again."""

    sent: int
    received: int

    def since(self, before: SocketBytes) -> SocketBytes:
        """Return what came after `before`."""
        return SocketBytes(self.sent - before.sent, self.received - before.received)


def tcp_bytes(ports: Collection[int] = ()) -> SocketBytes | None:
    """Return what this process's open TCP connections have carried so far, all together; None if that is unknown.

    With `ports` only those that have one of their ends there. They are found among the process's open files. That needs
    Linux.
    """
    if sys.platform != "linux" or not _DESCRIPTORS.is_dir():
        return None
    sent = received = 0
    for entry in list(_DESCRIPTORS.iterdir()):
        info = _tcp_info(int(entry.name), ports)
        if info is not None:
            whole, again = struct.unpack_from("=QQ", info, _SENT)
            sent += whole - again
            received += struct.unpack_from("=Q", info, _RECEIVED)[0]
    return SocketBytes(sent, received)


def _tcp_info(descriptor: int, ports: Collection[int]) -> bytes | None:
    try:
        copy = os.dup(descriptor)
    except OSError:  # closed since it was listed
        return None
    try:
        found = socket.socket(fileno=copy)
    except OSError:  # no socket
        os.close(copy)
        return None
    with found:
        if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM:
            return None
        try:
            ends = {found.getsockname()[1], found.getpeername()[1]}
        except OSError:  # not connected
            return None
        if ports and ends.isdisjoint(ports):
            return None
        info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    return info if len(info) == _INFO_BYTES else None
