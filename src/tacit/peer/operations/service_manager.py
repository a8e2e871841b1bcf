"""Messages to the service manager that started a peer, by the protocol of systemd's `Type=notify`."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Tell the service manager, if there is one, e.g. READY=1; one that does not listen is no reason to fail.

    Args:
      state: Lines of NAME=VALUE, as in sd_notify(3).
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link:
        link.connect("\0" + address[1:] if address[0] == "@" else address)
        link.sendall(state.encode())
