"""The durable ledger, its file and its witness."""

from __future__ import annotations

from tests.mutation.mutant import of

OPENING, CHAIN, WITNESS = (f"tests/privacy/test_ledger_{name}.py" for name in ("opening", "chain", "witness"))
ORDER = "test_a_release_is_durable_and_witnessed_before_it_is_drawn"
CLOSED = "test_a_failed_charge_closes_the_ledger_for_good"
FIXED = f"{OPENING}::test_budget_job_and_witness_are_fixed_at_the_beginning"
FORKED = f"{OPENING}::test_a_forked_child_cannot_use_the_ledger_nor_harm_it"
NO_LEDGER = f"{OPENING}::test_what_is_not_a_ledger_is_refused_and_left_as_it_is"
EDITED = "test_an_edited_ledger_is_refused"

MUTANTS = (
    *of(
        "privacy/ledger/ledger.py",
        "tests/privacy/test_ledger.py",
        [
            (
                "a budget may be exceeded",
                "            self._refuse_overspending(account, charges)\n",
                "            pass\n",
                "test_the_budget_is_reached_and_never_exceeded",
            ),
            (
                "a name may be booked twice",
                "        self._refuse_booked([release for release, _ in charges])\n",
                "",
                "test_a_draw_that_fails_stays_charged_and_the_ledger_open",
            ),
            (
                "a name may be twice in one charge",
                "if len(set(names)) < len(names):",
                "if False:",
                "test_several_charges_are_booked_all_or_none",
            ),
            ("nothing is written", "self._written += append(self._connection, entries, also)", "pass", ORDER),
            (
                "it is drawn before it is charged",
                "        self.charge(release, event)\n        return draw()\n",
                "        result = draw()\n        self.charge(release, event)\n        return result\n",
                ORDER,
            ),
            (
                "the sums are not kept",
                "                self._account, self._last = account, last\n",
                "                self._last = last\n",
                ORDER,
            ),
            (
                "the ledger stays open after a failure",
                '            self._shut(f"a charge failed',
                '            str(f"a charge failed',
                CLOSED,
            ),
            (
                "a failed write is passed over",
                "            if isinstance(error, (*SQLITE_FAILURES, OSError)):\n",
                "            if isinstance(error, (*SQLITE_FAILURES, OSError)):\n                return\n            if False:\n",
                CLOSED,
            ),
            ("the witness may be left out", "if witness is None and genesis.witnessed", "if False", FIXED),
            (
                "a lost witness is made anew by itself",
                "                mark, last = read_mark(witness), replay.last\n",
                '                mark, last = read_mark(witness) or Mark("", -1, b""), replay.last\n',
                f"{WITNESS}::test_a_lost_witness_is_made_anew_only_on_request",
                f"{WITNESS}::test_a_copy_of_the_beginning_does_not_open_with_a_new_witness",
            ),
            (
                "a witness is missing without harm at the beginning",
                "                mark, last = read_mark(witness), replay.last\n                if mark is None:\n",
                "                mark, last = read_mark(witness), replay.last\n"
                '                mark = Mark("", -1, b"") if mark is None and last.sequence == 0 else mark\n'
                "                if mark is None:\n",
                f"{WITNESS}::test_a_copy_of_the_beginning_does_not_open_with_a_new_witness",
            ),
            (
                "a ledger is there before its witness",
                "                write_mark(witness, Mark(genesis.ledger, first.sequence, first.hash))\n\n",
                "                pass\n\n",
                f"{WITNESS}::test_a_crash_between_making_the_witness_and_its_ledger_is_mended",
            ),
            (
                "the place of a witness is taken",
                "            refuse_taken(witness)\n",
                "            pass\n",
                f"{WITNESS}::test_making_a_ledger_leaves_the_witness_of_another_alone",
            ),
            ("another budget is taken", "budget is not None and budget != genesis.budget", "False", FIXED),
            ("another job is taken", "if job and job != replay.jobs[-1]:", "if False:", FIXED),
            ("a child may use the ledger", "os.register_at_fork(after_in_child=_leave_all_to_parent)\n", "", FORKED),
            (
                "a child waits for a thread that it does not have",
                "        self._lock = threading.Lock()  # the parent",
                "        pass  # the parent",
                FORKED,
            ),
            (
                "the witness is not written",
                "                    write_mark(self._witness, Mark(",
                "                    str(Mark(",
                ORDER,
            ),
            (
                "the witness stays behind what is about to be sent",
                "if mark.sequence < last.sequence:",
                "if False:",
                "tests/peer/test_store_damage.py::test_what_is_sent_after_a_crash_before_the_witness_cannot_be_taken_back",
            ),
            (
                "a refusal in advance looks at nothing",
                "        _texts(charges)\n        with self._lock:\n            self._account_after(charges)\n",
                "        _texts(charges)\n",
                "test_a_refusal_in_advance_is_that_of_the_charge_and_books_nothing",
            ),
            (
                "a refusal in advance is remembered",
                "        _texts(charges)\n        with self._lock:\n            self._account_after(charges)\n",
                "        self.charge_all(charges)\n",
                "test_a_refusal_in_advance_is_that_of_the_charge_and_books_nothing",
            ),
            (
                "the witness is written for nothing",
                "if self._witness is not None and entries:",
                "if self._witness is not None:",
                "test_charges_and_what_a_peer_writes_are_durable_together",
            ),
            (
                "what a peer writes is not counted",
                " or self._written >= BYTES_PER_CHECKPOINT",
                "",
                "test_much_that_is_written_is_moved_out_of_the_log_sooner",
            ),
            (
                "a failed reading leaves it open",
                "            with self._closed_on_failure():\n                return use(self._connection)\n",
                "            return use(self._connection)\n",
                "test_a_failed_reading_closes_the_ledger",
            ),
            (
                "the log grows for ever",
                "if self._commits >= COMMITS_PER_CHECKPOINT or self._written >= BYTES_PER_CHECKPOINT",
                "if False",
                CLOSED,
                "test_the_log_is_emptied_at_opening_and_stays_small",
            ),
            (
                "a closed ledger keeps its lock",
                "                self._connection.close()\n            self._held.free()\n",
                "                self._connection.close()\n",
                "test_the_budget_is_reached_and_never_exceeded",
            ),
        ],
    ),
    *of(
        "privacy/ledger/opening.py",
        "tests/privacy/test_ledger.py",
        [
            (
                "a reader in the way is not seen",
                'if not checkpoint(connection, "TRUNCATE")',
                "if False",
                "test_a_reader_in_the_way_of_opening_is_named",
                "test_the_log_is_emptied_at_opening_and_stays_small",
            ),
            (
                "the log's name is not synced",
                "            sync(path.parent)  # the log's name",
                "            pass  # the log's name",
                "test_the_name_of_the_log_is_synced_before_the_first_charge",
            ),
        ],
    ),
    *of(
        "privacy/ledger/replay.py",
        WITNESS,
        [
            (
                "another history with the same end passes",
                "mark.hash != self.last.hash",
                "False",
                "test_an_old_copy_that_went_on_by_itself_is_detected",
            ),
            (
                "an old copy passes",
                "self._mark.sequence > self.last.sequence",
                "False",
                "test_an_old_copy_is_detected",
            ),
            (
                "another ledger passes",
                "if mark.ledger != self.genesis.ledger",
                "if False",
                "test_another_ledger_in_its_place_is_detected",
            ),
            (
                "entry 0 may have any name",
                "if self.last.release != GENESIS:",
                "if False:",
                f"{CHAIN}::test_a_chain_that_does_not_begin_with_a_genesis_is_refused",
            ),
        ],
    ),
    *of(
        "privacy/ledger/entries.py",
        CHAIN,
        [
            (
                "texts run into each other in the hash",
                '        digest.update(len(data).to_bytes(8, "big"))\n',
                "",
                "test_the_hash_is_that_of_the_documented_bytes",
            ),
            (
                "events of other shapes pass",
                'if not known:\n        raise LedgerError(f"not the canonical',
                'if False:\n        raise LedgerError(f"not the canonical',
                "test_an_unknown_event_is_refused",
            ),
            (
                "a name of several lines is taken",
                "name.isprintable()",
                "True",
                "tests/privacy/test_ledger.py::test_a_release_without_a_proper_name_is_refused",
            ),
        ],
    ),
    *of(
        "privacy/ledger/store.py",
        CHAIN,
        [
            ("a changed entry passes", "entry.hash != sealed(*entry[:4]).hash", "False", EDITED),
            ("a replaced entry passes", "entry.previous != previous", "False", EDITED),
            ("a missing entry passes", "entry.sequence != position", "False", EDITED),
            (
                "other tables and triggers pass",
                "if found not in (list(_SCHEMA), [*_SCHEMA, *peer])",
                "if False",
                EDITED,
                "test_a_removed_trigger_is_noticed",
            ),
            (
                "a peer writes outside the transaction",
                '    written = 0 if also is None else also(connection)\n    connection.execute("COMMIT")\n',
                '    connection.execute("COMMIT")\n    written = 0 if also is None else also(connection)\n',
                "tests/privacy/test_ledger.py::test_a_peer_that_fails_while_it_writes_closes_the_ledger_and_leaves_nothing",
            ),
            (
                "a damaged index passes",
                'if verdict != "ok"',
                "if False",
                "test_damage_in_the_index_which_finds_repeated_names_is_noticed",
            ),
            (
                "a name may come twice by force",
                "\n  OR EXISTS (SELECT 1 FROM entry WHERE release = NEW.release)",
                "",
                "test_the_table_itself_is_append_only",
            ),
            (
                "commits are not synced",
                "synchronous = FULL",
                "synchronous = NORMAL",
                "tests/privacy/test_ledger.py::test_every_commit_is_synced",
            ),
            (
                "SQLite moves the log and hides its errors",
                "wal_autocheckpoint = 0",
                "wal_autocheckpoint = 1000",
                "tests/privacy/test_ledger.py::test_every_commit_is_synced",
            ),
            (
                "two processes may write",
                "fcntl.LOCK_EX | fcntl.LOCK_NB",
                "fcntl.LOCK_SH | fcntl.LOCK_NB",
                f"{OPENING}::test_one_process_at_a_time",
            ),
            (
                "a writer during a reading is not seen",
                "if log.exists() or _stamp(path) != before",
                "if False",
                f"{OPENING}::test_a_writer_that_comes_while_it_is_read_makes_it_be_read_again",
            ),
            (
                "a deleted ledger's log is taken over",
                '("-wal", "-shm", "-journal"))',
                "())",
                f"{OPENING}::test_a_new_ledger_is_made_only_where_there_is_none",
            ),
            ("another program's file is taken", "if owner != APPLICATION_ID", "if False", NO_LEDGER),
            ("a later format is taken", "if version not in formats:", "if False:", NO_LEDGER),
            (
                "reading leaves files behind",
                '"ro&immutable=1"',
                '"ro"',
                NO_LEDGER,
                f"{OPENING}::test_reading_leaves_nothing_behind",
            ),
        ],
    ),
    *of(
        "privacy/ledger/witness.py",
        WITNESS,
        [
            ("a mark with more in it is taken", "len(values) == 3", "True", "test_what_is_not_a_witness_is_refused"),
            ("a negative entry is taken", "mark.sequence >= 0", "True", "test_what_is_not_a_witness_is_refused"),
            (
                "a failed mark leaves its draft",
                "        draft.unlink(missing_ok=True)\n",
                "        pass\n",
                "test_a_witness_that_cannot_be_replaced_leaves_nothing_behind",
            ),
            (
                "a mark is not synced",
                "            os.fsync(descriptor)\n",
                "",
                "test_a_mark_is_synced_and_then_its_name",
            ),
            (
                "the mark's name is not synced",
                "        raise\n    sync(path.parent)\n",
                "        raise\n",
                "test_a_mark_is_synced_and_then_its_name",
            ),
        ],
    ),
)
