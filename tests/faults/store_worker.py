"""A peer that commits rounds to its store and sends them, until it is killed or refused, and what must hold after it."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.core.errors import LedgerError, StoreError
from tacit.peer.node.exchange import Parcel
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.queue import Seen
from tacit.privacy.accounting import Account, Budget
from tacit.privacy.ledger import inspect
from tests.faults.worker import DONE, EVENT, REFUSED, WENT_ON, Place

RECEIVERS = ("a", "b", "c")
KEPT_ROUNDS = 2
"""A parcel is confirmed, and dropped, so many rounds after it was sent."""
SIZES = (20, 2_000, 20_000)
LARGE, LARGE_EVERY = 600_000, 17
"""Now and then a content has more than one piece."""
NOTHING = {"round": 0, "used": 0, "outbox": []}


@dataclass(frozen=True)
class StorePlace(Place):
    """Where a store, its witness and what was sent are kept."""

    spread: ClassVar[int] = 3

    def create(self) -> None:
        PeerStore.create(self.ledger, Budget(epsilon=1e6), "job", self.witness).close()

    def work(self, releases: int, shim: ctypes.CDLL | None) -> int:
        """Commit rounds and send what they hold, until refused; return how it ended."""
        output = os.open(self.released, os.O_WRONLY | os.O_APPEND)

        def say(*words: object) -> None:
            os.write(output, (" ".join(map(str, words)) + "\n").encode())

        def send(parcels: list[Parcel]) -> None:
            for parcel in parcels:
                say("sent", *_facts(parcel))

        try:
            store = PeerStore.open(self.ledger, job="job", witness=self.witness)
        except LedgerError:
            return REFUSED
        try:
            send(store.outbox())
            for _ in range(releases):
                say("queued", store.append_samples([_sample(store._state.appended + 1)]))
                parcels = _commit(store)
                if shim is not None and shim.shim_fired():
                    return WENT_ON
                send(parcels)
        except LedgerError:
            try:
                send(_commit(store))
            except LedgerError:
                return REFUSED
            return WENT_ON
        store.close()
        return DONE

    def violations(self) -> list[str]:
        """Open the store as after any crash and say what does not hold."""
        said = [line.split() for line in self.released.read_text().splitlines()]
        try:
            with PeerStore.open(self.ledger, job="job", witness=self.witness) as store:
                state, outbox = _state(store), [_facts(parcel) for parcel in store.outbox()]
                samples, spent = store.samples(10**6), store.ledger.spent()
                used = Counter(
                    {record: dict(store.records.uses(record.digest)).get(record.file, 0) for record in _records(state)}
                )
                total = sum(store.records.used_of_files().values())
            booked = inspect(self.ledger, lambda replay: [entry.release for entry, _ in replay], self.witness)
        except (LedgerError, StoreError) as error:
            return [f"does not open: {error}"]
        last, found = state["round"], []
        if booked != [f"round {number}" for number in range(1, last + 1)]:
            found.append(f"the snapshot is of round {last}, the ledger ends with {booked[-3:]}")
        if used != _records(state) or total != used.total():
            found.append(f"{total} records were used, expected {2 * last}, and those of these rounds")
        account = Account()
        for _ in booked:
            account = account.charged(EVENT)
        if account.spent() != spent:
            found.append(f"spent {spent}, of {len(booked)} events {account.spent()}")
        if outbox != [tuple(facts) for facts in state["outbox"]]:
            found.append(f"the outbox {outbox} is not that of the snapshot {state['outbox']}")
        queued = max((int(words[1]) for words in said if words[0] == "queued"), default=0)
        numbers = list(range(state["used"] + 1, max(state["used"] + len(samples), queued) + 1))
        if samples != [(number, _sample(number)) for number in numbers]:
            found.append(f"samples {[number for number, _ in samples]}, expected {numbers}")
        return found + _wrongly_sent(said, outbox, last)


def _wrongly_sent(said: list[list[str]], outbox: list[tuple[str, int, str]], last: int) -> list[str]:
    waiting = {(receiver, number): digest for receiver, number, digest in outbox}
    sent: dict[tuple[str, int], str] = {}
    found = []
    for receiver, number, digest in (words[1:] for words in said if words[0] == "sent"):
        place = receiver, int(number)
        if place[1] > last:
            found.append(f"sent and not charged: {place}")
        if sent.setdefault(place, digest) != digest or waiting.get(place, digest) != digest:
            found.append(f"released twice: {place}")
        if place not in waiting and place[1] > last - KEPT_ROUNDS:
            found.append(f"sent, not confirmed and forgotten: {place}")
    every = {(receiver, number) for receiver in RECEIVERS for number in range(1, last + 1)}
    return found + [f"never sent: {place}" for place in every - sent.keys() - waiting.keys()]


def _commit(store: PeerStore) -> list[Parcel]:
    """Do the next round: draw, and commit the charge with the snapshot and the messages; return what may be sent."""
    before = _state(store)
    number = before["round"] + 1
    size = LARGE if number % LARGE_EVERY == 0 else SIZES[number % len(SIZES)]
    shared = store.staged.release(f"round {number}", EVENT, lambda: os.urandom(size))
    own = shared[::-1]
    parcels = [Parcel("trust", 0, number, name, own if name == "c" else shared) for name in RECEIVERS]
    old = [parcel for parcel in store.outbox() if parcel.round <= number - KEPT_ROUNDS]
    outbox = [facts for facts in before["outbox"] if facts[1] > number - KEPT_ROUNDS] + [_facts(p) for p in parcels]
    used = max(before["used"], store._state.appended - 2)
    state = {"round": number, "used": used, "outbox": outbox, "padding": "x" * size}
    drop = [(parcel.receiver, parcel.links, parcel.round, parcel.phase) for parcel in old]
    store.commit(snapshot=json.dumps(state).encode(), parcels=parcels, drop=drop, used=used, seen=[_record(number)] * 2)
    return parcels


def _record(number: int) -> Seen:
    """What the records of a round leave behind: they come from two files, and each is like one before it."""
    return Seen(number % 2, hashlib.sha256(str(number // 4).encode()).digest()[:16])


def _records(state: dict[str, Any]) -> Counter[Seen]:
    return Counter(2 * [_record(number) for number in range(1, state["round"] + 1)])


def _state(store: PeerStore) -> dict[str, Any]:
    snapshot = store.snapshot()
    state: dict[str, Any] = NOTHING if snapshot is None else json.loads(snapshot)
    return state


def _facts(parcel: Parcel) -> tuple[str, int, str]:
    return parcel.receiver, parcel.round, hashlib.sha256(parcel.content).hexdigest()


def _sample(number: int) -> bytes:
    return f"sample {number} ".encode() * (number % 50)
