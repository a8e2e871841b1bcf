"""A masked job for tests: its settings, what its peers would send without masks, and pads by hand."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import struct
from unittest import mock

import jax
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from tacit import graphs, objectives, privacy, streams
from tacit.algorithms import adapt_then_combine
from tacit.peer import in_memory as memory
from tacit.peer import run_in_process
from tests.peer.settings import Setting

AGENTS, NOISE_STD = 4, 0.5
STEP = 2.0**-20
SCALE = NOISE_STD / math.sqrt(2) / STEP
"""Of one pair's mask, in steps of the grid."""


def algorithm(mechanism=None, **settings):
    mechanism = mechanism or privacy.local_graph_homomorphic(NOISE_STD)
    return adapt_then_combine(objectives.squared(), step=0.1, mechanism=mechanism, **settings)


def stream(dim, agents=AGENTS):
    return streams.linear_drift(agents, dim, drift=0.0, seed=1, batch=2)


@functools.cache
def setting(rounds=10, dim=3):
    """Everybody hears everybody: three senders to each receiver, of whom the middle one has two partners."""
    return _with_co_senders(Setting("masked", algorithm(), graphs.complete(AGENTS), stream(dim), rounds))


@functools.cache
def one_way(rounds=10, agents=8):
    """Links lead to the next two around a ring, so that one may get several rounds ahead of those it sends to."""
    ahead = [(k, (k + jump) % agents) for k in range(agents) for jump in (1, 2)]
    graph = graphs.from_edges(agents, *zip(*ahead, strict=True)).with_weights("receiver")
    return _with_co_senders(Setting("masked, one way", algorithm(), graph, stream(3, agents), rounds))


def _with_co_senders(found):
    for name, plan in found.plans.items():
        senders = found.world.co_senders(plan.role, plan.agent, found.members)
        found.plans[name] = dataclasses.replace(plan, co_senders=senders)
    return found


def true_shares(rounds, dim, **settings):
    """(Sender, receiver, round) -> what would be sent without masks; and all models (rounds, agents, ...)."""
    shares, send = {}, memory._Network.send

    def listening(network, index, t, envelopes):
        for e in envelopes:
            (leaf,) = jax.tree.leaves(e.message)
            shares[f"peer-{e.sender}", f"peer-{e.receiver}", t] = leaf
        send(network, index, t, envelopes)

    with mock.patch.object(memory._Network, "send", listening):
        run = run_in_process(
            algorithm(privacy.on_grid()), graphs.complete(AGENTS), stream(dim), rounds=rounds, **settings
        )
    return shares, run.models


def partners_at(sender, receiver):
    """Of everybody with everybody: by hand, not by what is tested."""
    first, middle, last = sorted({f"peer-{k}" for k in range(AGENTS)} - {receiver})
    return {first: [middle], middle: [first, last], last: [middle]}[sender]


def noise_on(content, share):
    """What was added to a share, as whole steps modulo 2^32."""
    return (np.frombuffer(content, "<u4") - share.astype("<i4").view("<u4")).view("<i4").astype(np.int64)


def sum_of_two(x):
    """Distribution function of the sum of two Laplace numbers of scale 1."""
    tail = (2 + np.abs(x)) / 4 * np.exp(-np.abs(x))
    return np.where(x < 0, tail, 1 - tail)


class HandPads:
    """Pads of one end; secrets are set by hand, and a position is given out once, as real ones are."""

    def __init__(self):
        self.sessions, self.last, self.asked = {}, {}, []

    def session(self, partner):
        return self.sessions.get(partner)

    def pad(self, partner, round_, phase, words):
        session, position = self.sessions[partner], (round_, phase)
        assert position > self.last.get(session, (-1, -1)), f"{position} with {partner} again, or out of order"
        self.last[session] = position
        self.asked.append((partner, round_, phase))
        nonce = struct.pack("<LLQ", 0, phase, round_)
        return np.frombuffer(Cipher(ChaCha20(session, nonce), mode=None).encryptor().update(bytes(8 * words)), "<u8")


def session_name(*facts):
    return hashlib.sha256(repr(facts).encode()).digest()
