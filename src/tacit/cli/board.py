"""The command `tacit board`, and the board that `tacit run --watch` opens."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.common import reported, say

if TYPE_CHECKING:
    from tacit.board.serve import Address


@reported
def board(
    directory: Annotated[Path, typer.Argument(help="Directory below which runs are.")] = Path("runs"),
    peers: Annotated[
        Path | None, typer.Option(help="fleet.toml of a federation: show its peers too.", show_default=False)
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0: any.", show_default="8765 if free")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(help="Secret that a browser has to bring.", show_default="a random one")
    ] = None,
) -> None:
    """Show runs in a browser as they learn, and peers as they work: prints the address to open; Ctrl-C ends it."""
    from tacit.board.serve import serve

    serve(directory, peers=peers, host=host, port=port, token=token, ready=_print_address)


def _print_address(address: Address) -> None:
    say(f"board: {address.link}")
    if address.beyond:
        say(
            "warning: this address is open to other machines, and what is sent is not encrypted: whoever listens on "
            "the way learns the token. Leave out --host, and reach the board through ssh -L",
            err=True,
        )
    say("Ctrl-C ends it")


@contextlib.contextmanager
def watching(directory: Path, asked: bool) -> Iterator[None]:
    """Have a board beside a run, opened in a browser; on a terminal it stays until Ctrl-C.

    Args:
      directory: That the run writes.
      asked: Whether there is to be one.
    """
    if not asked:
        yield
        return
    from tacit.board.beside import beside
    from tacit.results.store import check_libraries

    check_libraries()  # without them a run writes no directory
    with beside(directory) as link:
        say(f"board: {link}")
        _open(link)
        yield
        if sys.stdin.isatty():
            say("the board stays open; Ctrl-C ends it")
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()


def _open(link: str) -> None:
    """Open an address in a browser that has a window; where there is none, the address was printed."""
    if sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))):
        import webbrowser

        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(link)
