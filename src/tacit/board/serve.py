"""The board as a process: a socket, a token, and the address to open."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tacit.core.errors import ConfigError
from tacit.core.extras import require

HOST, PORT = "127.0.0.1", 8765
"""Where it listens, where that is free and nothing else was asked for."""
SHORTEST = 16
"""Letters of a token that somebody chose."""


class Address(NamedTuple):
    """Where a board can be opened."""

    host: str
    port: int
    token: str
    beyond: bool
    """Whether others than this machine reach it."""

    @property
    def link(self) -> str:
        """The address for a browser, with the token."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/?token={self.token}"


def check_libraries() -> None:
    """Refuse to begin without the libraries that serve the board."""
    for module in ("starlette", "uvicorn"):
        require(module, "board", "the board")


def serve(
    directory: Path,
    *,
    peers: Path | None = None,
    host: str = HOST,
    port: int | None = None,
    token: str | None = None,
    ready: Callable[[Address], object] = lambda address: None,
    later: bool = False,
) -> None:
    """Serve the board until Ctrl-C.

    Args:
      directory: Runs are those below it.
      peers: fleet.toml of a federation that it shows too; None: none.
      host: Address or name to listen on.
      port: Number; None: 8765, or another one where that is taken.
      token: Secret of whoever asks; None: a random one.
      ready: Hears the address once the socket is open.
      later: Whether the directory may be made later.
    """
    check_libraries()
    import uvicorn

    from tacit.board.app import application
    from tacit.board.federation import Federation
    from tacit.config.fleet import load_fleet

    if not (directory.is_dir() or later):
        raise ConfigError(f"{directory} is no directory; give one that holds runs, such as runs")
    if token is not None and (len(token) < SHORTEST or not (token.isascii() and token.isalnum())):
        raise ConfigError(f"--token of {len(token)} letters; expected {SHORTEST} or more letters and digits, or none")
    federation = None if peers is None else Federation(load_fleet(peers))
    with listening(host, port) as listener:
        bound = listener.getsockname()
        beyond = not ipaddress.ip_address(bound[0]).is_loopback
        address = Address(host, bound[1], token or secrets.token_urlsafe(24), beyond)
        app = application(directory.resolve(), address.token, address.port, [host], beyond, federation)
        settings = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=1
        )
        ready(address)

        class Server(uvicorn.Server):
            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                app.state.broadcast.close()  # who listens to events would hold it up
                await super().shutdown(sockets)

        Server(settings).run(sockets=[listener])


def listening(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens.

    Args:
      host: Address or name.
      port: Number, 0 for any; None: 8765, or any where that is taken.
    """
    asked = (PORT, 0) if port is None else (port,)
    for number in asked:
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, protocol)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(128)
        except OSError as error:
            fault = error
            continue
        return listener
    raise ConfigError(f"cannot listen on {host}, port {port} ({fault}); give another --port or --host") from fault
