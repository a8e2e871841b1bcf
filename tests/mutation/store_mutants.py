"""A peer's store: commits, the outbox, the queue of samples, and draws before the commit."""

from __future__ import annotations

from tests.mutation.mutant import of

AGAIN = "test_a_commit_is_there_after_reopening"
STAGED = "test_what_is_drawn_is_booked_by_the_next_commit"
DAMAGE = "tests/peer/test_store_damage.py"
OUTSIDE = f"{DAMAGE}::test_a_change_from_outside_is_noticed"
SHARED = "test_content_goes_with_the_last_parcel_that_needs_it"
ENDING = "test_a_snapshot_shares_its_end_with_the_parcels_that_hold_it"
QUEUE = "test_samples_are_a_queue"
GIVEN_UP = "test_a_commit_gives_up_keys_of_rounds_that_are_over_and_they_are_gone_from_the_file"
CHAIN = "test_keys_are_given_up_when_their_rounds_are_over"
HAND = "test_keys_are_those_of_an_independent_computation"
MODEL = "test_random_commits_are_those_of_a_model"

STORE = of(
    "peer/node/store.py",
    "tests/peer/test_store.py",
    [
        ("what was staged is not booked", "[*staged, *charges], write", "charges, write", STAGED),
        ("what was staged is booked again", "        self.staged.booked(len(staged))\n", "", STAGED),
        (
            "the seal does not cover the ledger",
            'b"tacit peer store 2\\n" + last',
            'b"tacit peer store 2\\n"',
            f"{DAMAGE}::test_a_charge_behind_the_store_s_back_is_noticed",
            f"{DAMAGE}::test_a_state_put_back_by_itself_is_noticed",
        ),
        ("the seal does not cover the keys", " + self.keys.digest", "", OUTSIDE),
        ("keys are never given up", "aged = before.keys.aged(oldest)", "aged = {}", GIVEN_UP),
        (
            "the seal does not cover the outbox",
            "            digest.update(fingerprint)\n",
            "            pass\n",
            OUTSIDE,
        ),
        ("the seal does not cover the snapshot", "_text(snapshot, self.used,", "_text(self.used,", OUTSIDE),
        (
            "the seal does not cover what is used",
            "snapshot, self.used, self.appended,",
            "snapshot, self.appended,",
            OUTSIDE,
        ),
        (
            "the seal does not cover the records that were used",
            "self.appended, self.records, len(self.outbox)",
            "self.appended, len(self.outbox)",
            OUTSIDE,
        ),
        (
            "records that were used are not written",
            "record_table.add(connection, before.records, seen)",
            "before.records",
            "test_records_are_kept_with_the_commit_that_uses_them",
        ),
        ("the seal is not looked at", "state.seal(last) != seal", "False", OUTSIDE),
        ("a parcel twice in the file passes", "len(state.outbox) != len(waiting)", "False", OUTSIDE),
        ("a damaged content passes", "if hashlib.sha256(data).digest() != content.digest:", "if False:", OUTSIDE),
        ("a damaged sample passes", "            if not known:\n", "            if False:\n", OUTSIDE),
        ("a missing sample passes", "if samples != expected:", "if False:", OUTSIDE),
        ("a lost state is a new one", "if len(rows) != 1:", "if False:", OUTSIDE),
        ("a sample may lie elsewhere", "_text(number, first, pieces) + content", "_text(number) + content", OUTSIDE),
        (
            "a broken store keeps its lock",
            "            ledger.close()\n            raise\n",
            "            raise\n",
            f"{DAMAGE}::test_a_ledger_without_a_peer_s_tables_is_no_store",
        ),
        (
            "a bare ledger passes for a store",
            "if not self.ledger.read(_is_store):",
            "if False:",
            f"{DAMAGE}::test_a_ledger_without_a_peer_s_tables_is_no_store",
        ),
        (
            "a broadcast is stored for each receiver",
            "put[id(p.content)])",
            "self._pieces.put(connection, p.content))",
            AGAIN,
        ),
        (
            "dropped parcels stay in the file",
            '            connection.executemany("DELETE FROM parcel WHERE id = ?", gone)\n',
            "",
            SHARED,
        ),
        (
            "old snapshots stay in the file",
            "                unneeded.append(content)\n",
            "                pass\n",
            MODEL,
        ),
        (
            "a snapshot that stays loses its end",
            "                kept.add(content)\n",
            "                pass\n",
            ENDING,
        ),
        ("used samples stay in the file", "                unneeded += [Content(*row) for row in rows]\n", "", QUEUE),
        (
            "a message may come twice",
            "        self._refuse_repeated(parcels, drop)\n",
            "",
            "test_one_message_per_receiver_and_phase",
        ),
        ("any sample may be used up", "        self._refuse_unknown(used)\n", "", QUEUE),
        ("parcels are numbered from one", "itertools.count(1 + max(", "itertools.count(1 + 0 * max(", SHARED, MODEL),
        (
            "samples are numbered from one",
            "last = self._state.appended  # as it is now",
            "last = 0  # as it is now",
            QUEUE,
        ),
        (
            "a commit does not say how much it wrote",
            "return written + BYTES_PER_ROW * (len(gone) + len(staged) + len(charges) + len(aged) + len(seen))",
            "return 0",
            "test_space_is_used_again",
        ),
    ],
)
PIECES = of(
    "peer/node/pieces.py",
    "tests/peer/test_store.py",
    [
        ("shared content goes with the first that is dropped", "    numbers -= {", "    _ = {", SHARED, ENDING),
        ("dropped contents stay in the file", "for number in sorted(numbers)", "for number in ()", SHARED),
        ("numbers of pieces are used again", "self._next += len(parts)", "self._next += 0", AGAIN),
        ("a content is known by its beginning", "        digest.update(end)\n", "", ENDING),
        ("a content lacks its end", "pieces + last.pieces", "pieces", ENDING),
    ],
)
STAGING = of(
    "peer/node/staging.py",
    "tests/peer/test_store.py",
    [
        (
            "a draw is not checked against the budget",
            "        self._ledger.refuse([*self._staged, (release, event)])\n",
            "",
            "test_nothing_is_drawn_that_will_not_fit_the_budget",
        ),
        (
            "a draw is checked by itself alone",
            "refuse([*self._staged, (release, event)])",
            "refuse([(release, event)])",
            "test_nothing_is_drawn_that_will_not_fit_the_budget",
        ),
        ("a draw is not staged", "        self._staged.append((release, event))\n", "", STAGED),
        (
            "what failed is staged",
            "        drawn = draw()\n        self._staged.append((release, event))\n",
            "        self._staged.append((release, event))\n        drawn = draw()\n",
            "test_a_draw_that_fails_is_not_booked",
        ),
    ],
)
PAIRS = "tests/peer/test_pairwise.py"
FAULTS = "tests/peer/test_pairwise_faults.py"
KEYS = (
    *of(
        "peer/masking/key_store.py",
        PAIRS,
        [
            ("keys of rounds that are over come back", " or span < self.span:", ":", CHAIN),
            ("a chain stands still", "        for _ in range(span - self.span):\n", "        for _ in ():\n", HAND),
            ("a private key is given up too early", "self.remote is None or oldest //", "oldest //", CHAIN),
        ],
    ),
    *of(
        "peer/masking/agreement.py",
        PAIRS,
        [
            (
                "another key takes the place of one that is known",
                "offer.key != (pair.remote or offer.key) or ",
                "",
                "test_a_partner_with_a_new_store_is_refused_and_told_what_to_do",
            ),
            (
                "what answers another key is taken",
                " or offer.answered not in (wire.NO_KEY, pair.own)",
                "",
                f"{FAULTS}::test_messages_from_other_stores_complete_nothing",
            ),
            (
                "a hello proves who is there",
                "if kind != wire.HELLO:  #",
                "if True:  #",
                "test_three_messages_make_one_secret",
                f"{FAULTS}::test_messages_from_other_stores_complete_nothing",
            ),
            (
                "a position may be asked for again",
                "if position <= self._last.get(with_, (-1, -1)):",
                "if False:",
                "test_a_position_is_given_out_once",
            ),
        ],
    ),
)
MUTANTS = (*STORE, *PIECES, *STAGING, *KEYS)
