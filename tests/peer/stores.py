"""Stores that the tests make and look into."""

from __future__ import annotations

from pathlib import Path

from tacit.peer.node.exchange import Parcel
from tacit.peer.node.store import PeerStore
from tests.privacy.ledgers import MANY

MEMORY = Path("/dev/shm")
"""Where syncs cost nothing, if there is such a place."""


def created(directory, budget=MANY):
    return PeerStore.create(directory / "s.db", budget, "job")


def parcel(round_, receiver, content, phase=0, links="trust"):
    return Parcel(links, phase, round_, receiver, content)


def count(store, table):
    return store.ledger.read(lambda connection: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
