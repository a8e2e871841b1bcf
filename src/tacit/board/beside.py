"""A board beside a run: a process of its own, so that browsers take no time from the run's.

The board learns its token by standard input, and ends when that does: with the process that began it, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tacit.board.serve import Address, check_libraries, serve
from tacit.core.errors import TacitError


@contextlib.contextmanager
def beside(directory: Path) -> Iterator[str]:
    """Serve a directory, which may be there later, and give the address to open.

    Args:
      directory: Runs are those in it.
    """
    check_libraries()
    process = subprocess.Popen(
        [sys.executable, "-m", "tacit.board.beside", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is the run's
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            process.stdin.write(secrets.token_urlsafe(24).replace("-", "a").replace("_", "b") + "\n")
            process.stdin.flush()
            link = process.stdout.readline().strip()
            if not link:
                raise TacitError("the board did not start; `tacit board` on the run's directory says why")
            yield link
        finally:
            process.stdin.close()


def main() -> None:
    """Be the board beside a run: the directory is the only argument."""
    token = sys.stdin.readline().strip()
    threading.Thread(target=_end_with_input, daemon=True).start()
    serve(Path(sys.argv[1]), token=token, port=0, ready=_tell, later=True)


def _end_with_input() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _tell(address: Address) -> None:
    print(address.link, flush=True)


if __name__ == "__main__":
    main()
