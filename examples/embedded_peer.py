"""A peer inside an application: it learns from what the application sees, and answers its questions.

    python examples/embedded_peer.py         # some ten seconds

Three shops want to know which orders will be sent back. Each runs one `tacit.Peer` inside its own program, hands it
every order, and asks it about new ones; no order leaves a shop. For the example all three are tasks of this one script,
on loopback, with keys and certificates in a temporary directory; in earnest each is a program on a host of its own
(docs/deploy.md). Trust goes one way around: north sends to south, south to west, west to north.

It prints how well each shop predicts before and after, where its peer stands, and what its ledger booked.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import tempfile
from pathlib import Path

import numpy as np

import tacit
from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.enrolment import install, request

SHOPS = ("north", "south", "west")
ROUNDS, BATCH = 60, 16

JOB = f"""
[job]
name = "orders that are sent back"
epoch = 1
features = 4
batch = {BATCH}

[members]
peer = {list(SHOPS)}

[objective]
kind = "logistic"
l2 = 1e-3

[algorithm]            # one-sided links, and members that may come and go
name = "loss_tolerant_push_sum"
step = 0.5

[algorithm.mechanism]  # every order's gradient is clipped and hidden by noise
kind = "laplace"
epsilon = 4.0
clip = 1.0
"""

PEER = """
job = "../job.toml"

[peer]
name = "{name}"
listen = "127.0.0.1:{port}"

[links.peers]
sends_to = ["{to}"]
hears = ["{hears}"]

[addresses]
{to} = "127.0.0.1:{to_port}"

[privacy]              # what may be spent on an order: nothing leaves that is not booked
epsilon = 4.0

[stream]
kind = "push"          # samples come from the application

[rounds]
deadline = 1.0
last = {rounds}
"""


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


def prepare(root: Path) -> dict[str, Path]:
    """Write the job, and an identity and a peer.toml for each shop; return the latter."""
    (root / "job.toml").write_text(JOB)
    authority = init_ca(root / "ca", "shops")
    ports = dict(zip(SHOPS, free_ports(len(SHOPS)), strict=True))
    files = {}
    for k, name in enumerate(SHOPS):
        home = root / name
        asked = request(name, home / "identity")  # the key stays here, the request goes to the authority
        certificate = issue(asked.csr, name, root / "ca", root / f"{name}.crt")
        install(certificate, authority, home / "identity")
        to, hears = SHOPS[(k + 1) % len(SHOPS)], SHOPS[k - 1]
        files[name] = home / "peer.toml"
        files[name].write_text(
            PEER.format(name=name, port=ports[name], to=to, to_port=ports[to], hears=hears, rounds=ROUNDS)
        )
    return files


def orders(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return four figures of each order, and whether it was sent back: -1 or 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-3 * x @ (1.0, -1.0, 0.5, 0.0))), 1, -1)
    return x, y


def share_right(peer: tacit.Peer) -> float:
    """Return how often the peer's model is right about orders that nobody learnt from."""
    x, y = orders(200, seed=99)
    return float(np.mean([(peer.predict(row) >= 0) == (label > 0) for row, label in zip(x, y, strict=True)]))


async def shop(file: Path, seed: int) -> str:
    """Live a shop's life: start the peer, hand it orders, ask it, read its accounts."""
    async with await tacit.Peer.start(file) as peer:
        before = share_right(peer)
        for x, y in zip(*orders(ROUNDS * BATCH, seed), strict=True):
            await peer.learn(x, y)  # returns when the order is on the disk
        await peer.finished()
        status, after = peer.status(), share_right(peer)
    budget = status["privacy"]["budget"]
    return (
        f"{status['name']}: right about {before:.0%} of new orders at first and {after:.0%} after round "
        f"{status['round']}; {status['privacy']['releases']} releases booked; {budget['words']}"
    )


async def main() -> None:
    # Peers log through the standard library. Here they look for each other before all are up, which they would tell.
    logging.getLogger("tacit.peer").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="tacit-shops-") as folder:
        files = prepare(Path(folder))
        for line in await asyncio.gather(*(shop(file, k) for k, file in enumerate(files.values()))):
            print(line)


if __name__ == "__main__":
    asyncio.run(main())
