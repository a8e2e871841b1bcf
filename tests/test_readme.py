"""The README's code runs as it stands."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import numpy as np

import tacit
from tacit.algorithms import registry
from tests.docs.pages import ROOT, blocks

BLOCKS = [block.text for block in blocks(ROOT / "README.md", "python")]


def test_the_first_steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = BLOCKS[0].replace("rounds=1000", "rounds=60").replace("repeats=10", "repeats=2")
    assert code != BLOCKS[0]
    exec(code, {})
    assert (tmp_path / "regret.png").stat().st_size > 10_000
    assert (tmp_path / "runs" / "ops" / "report.html").exists()


def test_a_private_run_says_so(capsys):
    exec(BLOCKS[1], {})
    assert capsys.readouterr().out.startswith("Epsilon = 1 per record (pure;")


def test_an_epsilon_is_enough():
    names: dict = {}
    exec(BLOCKS[2], names)
    assert abs(names["model"].privacy_.guarantee.epsilon - 1) < 1e-3
    assert names["model"].score(names["X"][4000:], names["y"][4000:]) > 0.9


def test_a_peer_in_an_application(monkeypatch):
    class Standing:
        learnt: ClassVar[list] = []

        @classmethod
        async def start(cls, path):
            assert path == "peer.toml"
            return cls()

        async def __aenter__(self):
            return self

        async def __aexit__(self, *fault):
            pass

        def prediction(self, x):
            return 2 * x

        async def learn(self, x, y):
            self.learnt.append((x, y))

    async def samples():
        yield 1, 2

    assert {"start", "prediction", "learn", "__aenter__", "__aexit__"} <= set(dir(tacit.Peer))
    monkeypatch.setattr(tacit, "Peer", Standing, raising=False)
    names: dict = {}
    exec(BLOCKS[3], names)
    asyncio.run(names["serve"](samples()))
    assert Standing.learnt == [(1, 2)]


def test_an_own_algorithm_runs_in_both_runtimes(monkeypatch):
    monkeypatch.setattr(registry, "REGISTRY", dict(registry.REGISTRY))
    names: dict = {}
    exec(BLOCKS[4], names)
    algorithm = names["gossip"](tacit.objectives.logistic(l2=1e-4))
    graph, stream = tacit.graphs.ring(6), tacit.streams.logistic_drift(agents=6, dim=4, rounds=20)
    run = tacit.simulate(algorithm, graph, stream, rounds=20)
    peers = tacit.peer.run_in_process(algorithm, graph, stream, rounds=20)
    np.testing.assert_allclose(run.models[0], peers.models[-1], rtol=1e-5, atol=1e-6)
