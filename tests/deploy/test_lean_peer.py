"""A running peer loads what it needs: no simulator, no figures, no library of an extra."""

import json
from pathlib import Path

import pytest

from tests.bare import LIBRARIES, run_bare
from tests.deploy.homes import LAPLACE, found, job_text

ALONE = {"hospital-a": []}
ROUNDS = 3
MOST_LINES = {"drawn": 20_000, "laplace": 21_400}
"""Of this package's source in the memory of a peer; more with noise, which is clipped for, enforced and drawn."""
FORBIDDEN = ("simulator", "metrics", "models", "results", "audit", "experiments", "interop", "cli", "attacks",
             "config.experiment", "peer.observing")  # fmt: skip
NOT_LOADED = {*LIBRARIES, "scipy", "typer", "rich"}
"""Gaussian noise under a budget of (epsilon, delta) is the one thing in a peer that takes scipy, which jax brings."""
PEER = """
import asyncio, json, tacit

async def main(file, rounds):
    async with await tacit.Peer.start(file) as peer:
        for _ in range(rounds):
            await peer.learn([0.5, -1.0], 1.0)
        await peer.finished()
        peer.predict([0.5, -1.0])
        assert peer.round >= rounds, peer.status()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}))
"""
PRIVACY = {"drawn": ("", "unprotected = true"), "laplace": (LAPLACE, "epsilon = 100.0")}


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [("drawn", "online_push_sum"), ("laplace", "online_push_sum"), ("drawn", "distributed_online")],
)
def test_a_running_peer_is_lean(tmp_path, kind, algorithm):
    mechanism, privacy = PRIVACY[kind]
    job = job_text(algorithm, members=ALONE, mechanism=mechanism)
    rounds = f"patience = 0.05\nlast = {ROUNDS}"
    file = found(tmp_path, job, ALONE, privacy=privacy, rounds=rounds)["hospital-a"]
    modules = json.loads(run_bare(PEER, file, ROUNDS).splitlines()[-1])
    own = {name: where for name, where in modules.items() if name.partition(".")[0] == "tacit"}
    assert [name for name in own if name.removeprefix("tacit.").startswith(FORBIDDEN)] == []
    assert {name.partition(".")[0] for name in modules} & {*NOT_LOADED, "tacit_reproduction"} == set()
    lines = sum(len(Path(where).read_text().splitlines()) for where in own.values() if where)
    assert lines <= MOST_LINES[kind], lines
