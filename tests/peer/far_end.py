"""The other end of a link in a process of its own, to be frozen: `python -m tests.peer.far_end ear | mouth ...`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.peer.linked import LIVELY, Federation, Hearing, Sending, ear, mouth


async def main(role: str, directory: str, address: str = "") -> None:
    federation = Federation.reopened(Path(directory), "a", "b")
    if role == "ear":
        async with ear(federation, "b", Hearing("a"), LIVELY) as b:
            print(b.port, flush=True)
            await asyncio.Event().wait()
    async with mouth(federation, "a", Sending(), "b", address):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
