"""A peer's store: what a commit makes durable, draws before it, samples, and that space is used again."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.core.errors import BudgetExceeded, LedgerError, StoreError
from tacit.peer.machine.releases import BookedReleaser
from tacit.peer.masking.key_store import ROUNDS_PER_KEY, PairKey
from tacit.peer.node import pieces as pieces_module
from tacit.peer.node.exchange import Parcel
from tacit.peer.node.pieces import LONGEST_PIECE
from tacit.peer.node.store import PeerStore
from tacit.peer.sources.queue import Seen
from tacit.privacy.charges import Held
from tacit.privacy.ledger import inspect
from tacit.privacy.ledger import ledger as ledger_module
from tacit.privacy.noise import NoiseSource
from tacit.runtime import Declared, ReleaseSpec
from tests.peer.stores import MEMORY, count, created, parcel
from tests.privacy.ledgers import BUDGET, EVENT, MANY
from tests.privacy.test_ledger import Failing

# Commits.


def test_a_new_store_is_empty_and_bound_to_its_job_and_budget(tmp_path):
    with created(tmp_path) as store:
        assert (store.snapshot(), store.outbox(), store.samples(9)) == (None, [], [])
        assert store.ledger.genesis.job == "job"
    with pytest.raises(LedgerError, match="not of 'other'"):
        PeerStore.open(tmp_path / "s.db", job="other")
    with pytest.raises(LedgerError, match="budget"):
        PeerStore.open(tmp_path / "s.db", BUDGET)
    with pytest.raises(LedgerError, match="exists"):
        created(tmp_path)
    PeerStore.open(tmp_path / "s.db", MANY, "job").close()


def test_a_commit_is_there_after_reopening(tmp_path):
    both = os.urandom(3 * LONGEST_PIECE + 5)
    parcels = [parcel(1, "b", both), parcel(1, "a", both), parcel(1, "c", b"", phase=1, links="other")]
    with created(tmp_path) as store:
        store.commit(charges=[("r1", EVENT)], snapshot=b"old")
        store.commit(charges=[("r2", EVENT), ("r3", EVENT)], snapshot=both[::-1], parcels=parcels)
        assert store.outbox() == parcels
    with PeerStore.open(tmp_path / "s.db") as store:
        assert store.snapshot() == both[::-1]
        assert store.outbox() == parcels
        first, second, _ = store.outbox()
        assert first.content is second.content
        assert store.ledger.releases == 3
        assert count(store, "piece") == 4 + 4


def test_what_is_left_out_of_a_commit_stays(tmp_path):
    with created(tmp_path) as store:
        store.commit(snapshot=b"one", parcels=[parcel(1, "a", b"x")])
        store.commit(charges=[("r1", EVENT)])
        store.commit(parcels=[parcel(2, "a", b"y")])
        store.commit(snapshot=b"")
    with PeerStore.open(tmp_path / "s.db") as store:
        assert store.snapshot() == b""
        assert [p.content for p in store.outbox()] == [b"x", b"y"]
        assert store.ledger.releases == 1


def test_records_are_kept_with_the_commit_that_uses_them(tmp_path):
    one, other = Seen(1, b"one"), Seen(2, b"other")
    with created(tmp_path) as store:
        assert (store.records.uses(b"one"), store.records.used_of_files()) == ([], {})
        store.commit(charges=[("r1", EVENT)], seen=[one, other, one])
        store.commit(snapshot=b"nothing used")
        store.commit(seen=[one, Seen(3, b"one")])
        with pytest.raises(LedgerError, match="booked already"):
            store.commit(charges=[("r1", EVENT)], seen=[other])
    with PeerStore.open(tmp_path / "s.db") as store:
        assert store.records.uses(b"one") == [(3, 1), (1, 3)]
        assert store.records.uses(b"other") == [(2, 1)]
        assert store.records.uses(b"on") == []
        assert store.records.used_of_files() == {1: 3, 2: 1, 3: 1}


def test_content_goes_with_the_last_parcel_that_needs_it(tmp_path):
    shared = b"to all"
    with created(tmp_path) as store:
        store.commit(parcels=[parcel(1, name, shared) for name in "abc"])
        store.commit(parcels=[parcel(2, "a", b"to one")], drop=[("b", "trust", 1, 0), ("c", "trust", 1, 0)])
        assert count(store, "piece") == 2
        assert [(p.receiver, p.content) for p in store.outbox()] == [("a", shared), ("a", b"to one")]
        store.commit(drop=[("a", "trust", 1, 0), ("b", "trust", 1, 0), ("a", "other", 2, 0), ("a", "trust", 2, 1)])
        assert count(store, "piece") == count(store, "parcel") == 1
    with PeerStore.open(tmp_path / "s.db") as store:
        assert store.outbox() == [parcel(2, "a", b"to one")]
        store.commit(drop=[("a", "trust", 2, 0)])
        assert (store.outbox(), count(store, "piece")) == ([], 0)


def test_a_snapshot_shares_its_end_with_the_parcels_that_hold_it(tmp_path):
    own, there = b"own message", ("a", "trust", 1, 0)
    with created(tmp_path) as store:
        store.commit(snapshot=b"state, ", own=own, parcels=[parcel(1, name, own) for name in "ab"])
        assert (store.snapshot(), count(store, "piece")) == (b"state, own message", 2)
        store.commit(drop=[("b", "trust", 1, 0)])
        store.commit(drop=[there])  # the snapshot still needs what the parcel held
        assert (store.snapshot(), store.outbox(), count(store, "piece")) == (b"state, own message", [], 2)
        store.commit(snapshot=b"state, ", own=own, parcels=[parcel(2, "a", own)])
        store.commit(snapshot=b"next")  # and the parcel what the snapshot held
        assert (store.outbox()[0].content, count(store, "piece")) == (own, 2)
    with PeerStore.open(tmp_path / "s.db") as store:
        assert (store.snapshot(), store.outbox()[0].content) == (b"next", own)
        store.commit(drop=[("a", "trust", 2, 0)])
        assert count(store, "piece") == 1


def test_one_message_per_receiver_and_phase(tmp_path):
    with created(tmp_path) as store:
        store.commit(parcels=[parcel(1, "a", b"x")])
        for again in ([parcel(1, "a", b"y")], [parcel(2, "a", b"x"), parcel(2, "a", b"y")]):
            with pytest.raises(StoreError, match=r"phase 0 to 'a' over 'trust'"):
                store.commit(charges=[("r1", EVENT)], snapshot=b"s", parcels=again)
        assert (store.ledger.releases, store.snapshot()) == (0, None)
        store.commit(parcels=[parcel(1, "a", b"z")], drop=[("a", "trust", 1, 0)])
        assert store.outbox() == [parcel(1, "a", b"z")]


def test_a_commit_that_is_refused_changes_nothing(tmp_path):
    with created(tmp_path, BUDGET) as store:
        store.commit(charges=[("r1", EVENT)], snapshot=b"one")
        many = [(f"s{number}", EVENT) for number in range(10)]
        for charges, error in ((many, BudgetExceeded), ([("r1", EVENT)], LedgerError)):
            with pytest.raises(error):
                store.commit(charges=charges, snapshot=b"two", parcels=[parcel(1, "a", b"x")])
        assert (store.snapshot(), store.outbox(), store.ledger.releases) == (b"one", [], 1)
        store.commit(snapshot=b"two")
    with PeerStore.open(tmp_path / "s.db") as store:
        assert store.snapshot() == b"two"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("word", ["BEGIN", "DELETE FROM parcel", "INSERT INTO piece", "INSERT OR REPLACE", "COMMIT"])
def test_after_a_failed_commit_the_store_is_closed_and_reopens_as_before_or_after(tmp_path, word, after):
    store = created(tmp_path)
    store.commit(charges=[("r1", EVENT)], snapshot=b"one", parcels=[parcel(1, "a", b"x")])
    store.ledger._connection = Failing(store.ledger._connection, word, sqlite3.OperationalError("I/O error"), after)
    with pytest.raises(LedgerError, match="could not be made durable"):
        store.commit(
            charges=[("r2", EVENT)], snapshot=b"two", parcels=[parcel(2, "a", b"y")], drop=[("a", "trust", 1, 0)]
        )
    for attempt in (store.snapshot, lambda: store.commit(snapshot=b"three"), lambda: store.append_samples([b"s"])):
        with pytest.raises(LedgerError, match="is closed"):
            attempt()
    with PeerStore.open(tmp_path / "s.db") as store:
        found = store.snapshot(), [p.content for p in store.outbox()], store.ledger.releases
        assert found == ((b"two", [b"y"], 2) if word == "COMMIT" and after else (b"one", [b"x"], 1))


# Draws before the commit.


def test_what_is_drawn_is_booked_by_the_next_commit(tmp_path):
    with created(tmp_path) as store:
        assert store.staged.release("r1", EVENT, lambda: "noisy") == "noisy"
        assert store.staged.release("r2", EVENT, lambda: store.ledger.releases) == 0
        with pytest.raises(LedgerError, match="same release twice"):
            store.staged.release("r1", EVENT, lambda: pytest.fail("drawn twice"))
        assert store.staged.charges == (("r1", EVENT), ("r2", EVENT))
        store.commit(charges=[("r3", EVENT)], snapshot=b"after")
        assert store.staged.charges == ()
        with pytest.raises(LedgerError, match="'r1' is booked"):
            store.staged.release("r1", EVENT, lambda: pytest.fail("drawn twice"))
        store.staged.release("lost", EVENT, lambda: None)
    names = inspect(tmp_path / "s.db", lambda replay: [entry.release for entry, _ in replay])
    assert names == ["r1", "r2", "r3"]
    with PeerStore.open(tmp_path / "s.db") as store:
        store.staged.release("lost", EVENT, lambda: None)  # drawn anew, under its own name
        store.commit()
        assert store.ledger.releases == 4


def test_nothing_is_drawn_that_will_not_fit_the_budget(tmp_path):
    with created(tmp_path, BUDGET) as store:
        for number in range(10):
            store.staged.release(f"r{number}", EVENT, lambda: None)
        with pytest.raises(BudgetExceeded):
            store.staged.release("r10", EVENT, lambda: pytest.fail("drawn"))
        store.commit()
        assert store.ledger.releases == 10


def test_a_draw_that_fails_is_not_booked(tmp_path):
    def fail():
        raise ValueError("no entropy")

    with created(tmp_path) as store:
        with pytest.raises(ValueError, match="no entropy"):
            store.staged.release("r1", EVENT, fail)
        store.commit(snapshot=b"s")
        assert store.ledger.releases == 0


def test_staged_charges_stay_staged_when_a_commit_is_refused(tmp_path):
    with created(tmp_path, BUDGET) as store:
        store.staged.release("r1", EVENT, lambda: None)
        with pytest.raises(BudgetExceeded):
            store.commit(charges=[(f"s{number}", EVENT) for number in range(10)])
        assert store.staged.charges == (("r1", EVENT),)


def test_a_releaser_books_through_the_store(tmp_path):
    spec = ReleaseSpec(tacit.privacy.laplace(epsilon=0.5, clip=1.0, norm="l1"), 3, from_data=True)
    declared = Declared(np.float32(2.0), np.float32(4.0), np.float32(np.inf))
    with created(tmp_path, BUDGET) as store:
        release = BookedReleaser(store.staged, NoiseSource())
        noisy, _ = release("round 1 phase 0", spec, 1, declared, np.zeros(3), Held(""))
        release("round 2 phase 0", spec, 2, declared, np.zeros(3), Held(""))
        assert store.ledger.releases == 0
        store.commit(snapshot=noisy.tobytes())
        assert store.ledger.spent().epsilon == pytest.approx(1.0, rel=1e-12)
        with pytest.raises(BudgetExceeded):
            release("round 3 phase 0", spec, 3, declared, np.zeros(3), Held(""))


# Samples.


def test_samples_are_a_queue(tmp_path):
    large = os.urandom(LONGEST_PIECE + 1)
    with created(tmp_path) as store:
        assert store.append_samples([]) == 0
        assert store.append_samples([b"one", b"", large]) == 3
        assert store.samples(2) == [(1, b"one"), (2, b"")]
        store.commit(used=2)
    with PeerStore.open(tmp_path / "s.db") as store:
        assert store.append_samples([b"four"]) == 4
        assert store.samples(9) == [(3, large), (4, b"four")]
        for number in (1, 5):
            with pytest.raises(StoreError, match=f"number {number}: 2 are used up and 4"):
                store.commit(used=number)
        store.commit(snapshot=b"s", used=4)
        store.commit(used=4)
        assert (store.samples(9), count(store, "piece")) == ([], 1)
    with PeerStore.open(tmp_path / "s.db") as store:
        assert store.append_samples([b"five"]) == 5


def test_threads_may_append_while_one_commits(tmp_path):
    with created(tmp_path) as store, ThreadPoolExecutor(4) as pool:
        numbers = pool.map(lambda k: [store.append_samples([b"%d %d" % (k, j)]) for j in range(25)], range(4))
        for round_ in range(20):
            store.commit(snapshot=b"%d" % round_)
        found = sorted(number for part in numbers for number in part)
        assert found == list(range(1, 101))
        assert sorted(content for _, content in store.samples(200)) == sorted(
            b"%d %d" % (k, j) for k in range(4) for j in range(25)
        )


# Space.


def test_space_is_used_again(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "BYTES_PER_CHECKPOINT", 200_000)
    sizes = []
    with created(tmp_path) as store:
        for number in range(1, 301):
            content = os.urandom(10_000)
            store.commit(
                snapshot=os.urandom(10_000),
                parcels=[parcel(number, name, content) for name in "abc"],
                drop=[(name, "trust", number - 2, 0) for name in "abc"],
            )
            pages = store.ledger.read(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
            sizes.append(pages)
        assert sizes[-1] <= sizes[10] + 2
        assert (tmp_path / "s.db-wal").stat().st_size < 1_000_000


# A model.


@pytest.mark.parametrize("seed", range(3))
def test_random_commits_are_those_of_a_model(seed, monkeypatch):
    """200 commits of random parts, reopened now and then: the store holds what two lists and a dictionary hold."""
    monkeypatch.setattr(pieces_module, "LONGEST_PIECE", 50)
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        store = created(Path(name))
        snapshot, own, outbox, samples, used, booked, records = None, b"", {}, [], 0, 0, Counter()
        for number in range(1, 201):
            receivers = chance.sample("abcdef", chance.randint(0, 4))
            content = chance.randbytes(chance.choice([0, 3, 50, 130]))
            new = {(r, "l", number, 0): content if chance.random() < 0.8 else chance.randbytes(9) for r in receivers}
            gone = [key for key in outbox if chance.random() < 0.3]
            given = None
            if chance.random() < 0.7:
                given, own = chance.randbytes(chance.choice([0, 20, 120])), chance.choice([b"", b"own" * 30, content])
                snapshot = given + own
            if chance.random() < 0.5:
                more = [chance.randbytes(chance.choice([0, 7, 101])) for _ in range(chance.randint(0, 3))]
                samples += more
                assert store.append_samples(more) == len(samples)
            used = chance.randint(used, len(samples))
            charges = [(f"{number} {k}", EVENT) for k in range(chance.randint(0, 2))]
            seen = [Seen(chance.randint(1, 3), chance.choice([b"a", b"b", b"c"])) for _ in range(chance.randint(0, 3))]
            records.update(seen)
            booked += len(charges)
            store.commit(
                charges=charges,
                snapshot=given,
                own=own,
                parcels=[Parcel("l", 0, number, key[0], content) for key, content in new.items()],
                drop=gone,
                used=used if chance.random() < 0.9 else (used := store._state.used) or None,
                seen=seen,
            )
            outbox = {key: content for key, content in outbox.items() if key not in gone} | new
            if chance.random() < 0.1:
                store.close()
                store = PeerStore.open(Path(name) / "s.db")
            assert store.snapshot() == snapshot
            assert [((p.receiver, p.links, p.round, p.phase), p.content) for p in store.outbox()] == list(
                outbox.items()
            )
            assert store.samples(5) == list(enumerate(samples[used : used + 5], used + 1))
            assert store.ledger.releases == booked
            assert {Seen(file, d): n for d in (b"a", b"b", b"c") for file, n in store.records.uses(d)} == records
        total = sum(-(-len(c) // 50) for c in {id(c): c for c in (*outbox.values(), own)}.values())
        total += -(-(len(snapshot) - len(own)) // 50) + sum(-(-len(c) // 50) for c in samples[used:])
        assert count(store, "piece") == total
        store.close()


# Keys.


def test_keys_are_there_after_reopening_and_replace_those_of_their_pairs(tmp_path):
    one, two = PairKey(b"o" * 32, b"k" * 32), PairKey(b"p" * 32, b"l" * 32, b"r" * 32, 3)
    with created(tmp_path) as store:
        store.keep_keys({("a", "b"): one, ("a", "c"): one})
        store.commit(charges=[("r1", EVENT)], snapshot=b"s")
        store.keep_keys({("a", "c"): two})
        assert store.keys == {("a", "b"): one, ("a", "c"): two}
    with PeerStore.open(tmp_path / "s.db") as store:
        assert store.keys == {("a", "b"): one, ("a", "c"): two}
        store.append_samples([b"sample"])
        assert store.keys == {("a", "b"): one, ("a", "c"): two}
    PeerStore.open(tmp_path / "s.db").close()


def test_a_commit_gives_up_keys_of_rounds_that_are_over_and_they_are_gone_from_the_file(tmp_path):
    rng = random.Random(0)
    unknown = PairKey(rng.randbytes(32), rng.randbytes(32))
    key = PairKey(rng.randbytes(32), rng.randbytes(32), rng.randbytes(32))
    with created(tmp_path) as store:
        store.keep_keys({("a", "b"): key, ("a", "c"): unknown})
        store.commit(snapshot=b"s", oldest=ROUNDS_PER_KEY - 1)
        assert store.keys["a", "b"] == key
        store.commit(snapshot=b"s", oldest=ROUNDS_PER_KEY)
        assert store.keys == {("a", "b"): key.aged(ROUNDS_PER_KEY), ("a", "c"): unknown}
        store.commit(snapshot=b"s", oldest=5)  # what is gone stays gone
        later = store.keys["a", "b"].key
    for _ in range(2):  # the second opening finds an empty log
        PeerStore.open(tmp_path / "s.db").close()
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert later in left
    assert unknown.key in left
    assert key.key not in left


def test_keys_and_commits_come_from_different_threads(tmp_path):
    with created(tmp_path) as store, ThreadPoolExecutor(2) as pool:
        made = [{("a", str(k)): PairKey(bytes([k] * 32), b"k" * 32)} for k in range(20)]
        keeping = pool.submit(lambda: [store.keep_keys(pairs) for pairs in made])
        committing = pool.submit(lambda: [store.commit(snapshot=bytes([k])) for k in range(20)])
        keeping.result()
        committing.result()
        assert len(store.keys) == 20
    with PeerStore.open(tmp_path / "s.db") as store:
        assert len(store.keys) == 20
        assert store.snapshot() == bytes([19])
