"""Whole peers in one process: real mutual TLS on loopback, real stores, one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np

from tacit.deploy import rehearsal
from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.enrolment import install, request
from tacit.peer.identity.identity import identity_files
from tacit.peer.node.assignment import NOTHING_BOOKED, Pace
from tacit.peer.node.service import PeerService
from tacit.peer.node.store import PeerStore
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.link_events import REFUSALS
from tacit.peer.sources.batches import StreamFeed


def identity_of(name, directory, authority):
    """Have a certificate issued for `name`, in the way that a peer does."""
    if not (authority / "ca.crt").exists():
        init_ca(authority, "test federation")
    asked = request(name, directory)
    certificate = issue(asked.csr, name, authority, directory / f"{name}.crt")
    install(certificate, authority / "ca.crt", directory)
    return identity_files(directory)


def plans(algorithm, graph, stream, *, job="ab" * 32, **settings):
    """What each agent has to do, from one seed, as in `run_in_process`."""
    return rehearsal.plans(algorithm, graph, stream, job=job, **settings)


class Federation:
    """Peers by name, each with its own directory."""

    def __init__(self, directory: Path, plans_, stream, *, rounds, deadline=5.0, budget=NOTHING_BOOKED):
        self.directory, self.stream, self.rounds, self.deadline = directory, stream, rounds, deadline
        self.budget = budget
        self.plans = {plan.name: plan for plan in plans_}
        self.files = {name: identity_of(name, directory / name, directory / "ca") for name in self.plans}
        self.services: dict[str, PeerService] = {}
        self.ports: dict[str, int] = {}
        self.models: dict[str, dict[int, np.ndarray]] = {name: {} for name in self.plans}

    async def launch(self, name):
        """Start one peer, from its store if it has one; addresses are given out with `connect`."""
        plan, store_path = self.plans[name], self.directory / name / "store"
        opened = PeerStore.open if store_path.exists() else PeerStore.create
        store = opened(store_path, self.budget, plan.job)
        learner = plan.role == plan.algorithm.learner
        service = PeerService(
            plan, store, IdentityWatch(self.files[name], lambda fault: None),
            StreamFeed(self.stream if learner else None, plan.agent, plan.dtype),
            Pace(deadline=self.deadline, last_round=self.rounds, grace=2.0),
            worker=ThreadPoolExecutor(1), counters=Counters(self.plans, REFUSALS),
            after_round=lambda t, model: self.models[name].__setitem__(t, jax.tree.map(np.asarray, model)),
        )  # fmt: skip
        self.services[name] = service
        self.ports[name] = await service.listen(f"127.0.0.1:{self.ports.get(name, 0)}")
        return service

    def connect(self, *names):
        addresses = {name: f"127.0.0.1:{port}" for name, port in self.ports.items()}
        for name in names or self.services:
            self.services[name].start(addresses)

    async def run(self, seconds=600.0):
        """Start everybody and wait until all have finished."""
        async with asyncio.timeout(seconds):
            for name in self.plans:
                await self.launch(name)
            self.connect()
            for service in self.services.values():
                await service.finished.wait()

    async def stop(self):
        await asyncio.gather(*(service.stop() for service in self.services.values()))

    @contextlib.asynccontextmanager
    async def running(self, seconds=600.0):
        try:
            await self.run(seconds)
            yield self
        finally:
            await self.stop()
