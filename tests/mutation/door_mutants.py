"""Who gets in, how many, and with which ledger."""

from __future__ import annotations

from tests.mutation.mutant import of

SUBORDINATES = "tests/peer/test_subordinate_authorities.py"
SECOND = "tests/deploy/test_second_ledgers.py"
ADMISSION = "tests/peer/test_admission.py"

MUTANTS = (
    *of(
        "peer/identity/credentials.py",
        SUBORDINATES,
        [("any certificate is direct", "    if not direct:\n", "    if False:\n")],
    ),
    *of(
        "peer/identity/credentials.py",
        "tests/peer/test_credentials.py",
        [
            (
                "older TLS is taken",
                "    context.minimum_version = ssl.TLSVersion.TLSv1_3\n",
                "    context.minimum_version = ssl.TLSVersion.TLSv1_2\n",
                "test_refused_counted_and_never_served",
            ),
            (
                "nobody has to show a certificate",
                "    context.verify_mode = ssl.CERT_REQUIRED\n",
                "    context.verify_mode = ssl.CERT_OPTIONAL if server else ssl.CERT_REQUIRED\n",
                "test_refused_counted_and_never_served",
            ),
            (
                "sessions may be resumed",
                "        context.num_tickets = 0\n",
                "        context.num_tickets = 2\n",
                "test_no_session_can_be_resumed",
            ),
        ],
    ),
    *of(
        "peer/transport/dialer.py",
        "tests/peer/test_credentials.py",
        [
            (
                "any peer may answer at an address",
                "            if name != self._name:\n",
                "            if False:\n",
                "test_another_peer_at_the_address_is_not_taken_for_the_one_expected",
            ),
        ],
    ),
    *of(
        "peer/transport/listener.py",
        "tests/peer/test_refusals.py",
        [
            (
                "any member is heard",
                "            self._reception.admit(name)\n",
                "",
                "test_a_member_that_is_no_neighbour_gets_no_word_in",
            ),
        ],
    ),
    *of(
        "peer/transport/incoming.py",
        "tests/peer/test_transport.py",
        [
            (
                "what an older link brought comes in late",
                "            self._waiting.drop()\n",
                "            pass\n",
                "test_what_an_older_link_brought_is_left_out_when_a_newer_one_is_welcomed",
            ),
            (
                "nobody is held back",
                "        if self._waiting is not None or self.stream.pending > FULL or self.over.done():\n",
                "        if False:\n",
                "test_a_message_that_is_held_back_holds_back_the_sender",
            ),
        ],
    ),
    *of(
        "peer/transport/incoming.py",
        "tests/peer/test_refusals.py",
        [
            (
                "who does not read is read",
                "self.stream.pending > FULL or self.over.done()",
                "self.over.done()",
                "test_who_does_not_read_its_answers_is_not_read_either",
            ),
        ],
    ),
    *of(
        "peer/transport/admission.py",
        ADMISSION,
        [
            (
                "an address has no limit",
                "        if len(there) <= self.limits.per_address:\n",
                "        if True:\n",
                "test_the_oldest_of_a_full_address_makes_room",
            ),
            (
                "a door has no limit in all",
                "            if len(self._strangers) <= self.limits.connections:\n",
                "            if True:\n",
                "test_a_full_door_takes_from_the_address_that_has_most",
            ),
            (
                "any address makes room",
                "            there = max(self._of.values(), key=len)\n",
                "            there = min(self._of.values(), key=len)\n",
                "test_a_full_door_takes_from_the_address_that_has_most",
            ),
            (
                "who spoke goes like who did not",
                "        if first is None or not there[first].spoke:\n",
                "        if True:\n",
                "test_who_said_nothing_goes_before_who_did",
            ),
            (
                "the newest goes",
                "(t for t in there if t != newest)",
                "(t for t in there)",
                "test_who_said_nothing_goes_before_who_did",
            ),
            (
                "who has proved itself stays a stranger",
                "        stranger = self._remove(ticket)\n        if stranger is None:\n",
                "        stranger = self._strangers.get(ticket)\n        if stranger is None:\n",
                "test_who_has_proved_itself_is_never_put_out",
            ),
            (
                "a neighbour has any number of connections",
                "        self._add(older[0], _Stranger(older[1], now, spoke=True))\n"
                "        return self._crowded_out(older[0])\n",
                "        return []\n",
                "test_a_neighbour_has_one_proven_connection",
            ),
            (
                "nobody's time is ever up",
                "            if now - one.since < self.limits.proof_time:\n",
                "            if True:\n",
                "test_time_is_up_in_the_order_of_arrival",
            ),
            (
                "no descriptors are left for files",
                "(descriptors - RESERVED - local_limit(descriptors))",
                "descriptors",
                "test_limits_leave_descriptors_for_files_and_neighbours",
            ),
            (
                "IPv6 addresses of one network count one by one",
                "        if not found.is_loopback:\n",
                "        if False:\n",
                "test_what_counts_as_one_address",
            ),
        ],
    ),
    *of(
        "peer/transport/turns.py",
        "tests/peer/test_turns.py",
        [
            ("a crowd has all the time", "began) / SHARE", "began)"),
            ("neighbours wait like a crowd", " if self._crowded() else 0.0", ""),
        ],
    ),
    *of(
        "peer/transport/doors.py",
        "tests/peer/test_doors.py",
        [
            (
                "whoever is crowded out stays",
                "        for gone in crowded_out:\n            self._end(gone, CROWDED)\n",
                "",
                "test_a_neighbour_gets_in_through_a_crowd_of_its_own_address",
            ),
            (
                "whose time is up stays",
                "            self._end(ticket, UNPROVEN)\n",
                "            pass\n",
                "test_who_does_not_prove_itself_in_time_is_closed_and_a_neighbour_is_not",
            ),
            (
                "a door without descriptors stays shut",
                "            loop.call_later(seconds, self._resume)\n",
                "            pass\n",
                "test_a_door_without_descriptors_lets_one_go_and_goes_on",
            ),
        ],
    ),
    *of(
        "peer/transport/listener.py",
        "tests/peer/test_doors.py",
        [
            (
                "a ticket is nobody's",
                "            self._door.prove(ticket, name)\n",
                "            pass\n",
                "test_who_does_not_prove_itself_in_time_is_closed_and_a_neighbour_is_not",
            ),
        ],
    ),
    *of(
        "privacy/ledger/open_files.py",
        "tests/privacy/test_open_files.py",
        [
            (
                "nobody waits for a descriptor",
                "                if error.errno not in SHORT:\n",
                "                if True:\n",
            ),
        ],
    ),
    *of(
        "privacy/ledger/witness.py",
        "tests/privacy/test_open_files.py",
        [
            (
                "a witness without descriptors fails",
                'when_free(lambda: tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent))',
                'tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)',
                "test_a_charge_waits_for_its_witness",
            ),
        ],
    ),
    *of(
        "peer/sources/file_follower.py",
        "tests/peer/test_file_tail.py",
        [
            (
                "a folder that cannot be looked through is empty",
                "            if fault.errno in SHORT:",
                "            if False:",
                "test_a_rotated_file_is_not_passed_over_without_descriptors",
            ),
        ],
    ),
    *of(
        "peer/operations/status.py",
        "tests/deploy/test_peer_refusals.py",
        [
            (
                "every model is finite",
                "    if not node.predicts or all(np.isfinite(leaf).all()",
                "    if True or all(np.isfinite(leaf).all()",
                "test_a_model_that_is_not_finite_is_told_and_not_used",
            ),
        ],
    ),
    *of(
        "deploy/ledger_register.py",
        SECOND,
        [
            ("a second ledger begins by itself", "    if known is not None and known.ledger:\n", "    if False:\n"),
            (
                "another ledger is taken",
                '    if known is None or known.ledger in ("", ledger):\n',
                "    if True:\n",
                "test_another_ledger_of_the_same_job_is_refused",
            ),
            (
                "the witness that was left is not asked",
                "        if mark is not None and (known.ledger or",
                "        if False and (known.ledger or",
                "test_old_copies_of_both_are_known_by_the_witness_that_was_left",
            ),
            (
                "a given-up ledger's witness locks its successor out",
                "        if mark is not None and (known.ledger or mark.ledger == _ledger_in(path)):",
                "        if mark is not None:",
                "test_a_crash_before_the_register_after_a_ledger_was_given_up_locks_nobody_out",
            ),
            (
                "registers are written side by side",
                "        with alone(self._path):  # one identity may have several jobs\n",
                "        if True:\n",
                "test_two_jobs_that_register_at_once_are_both_on_record",
            ),
            (
                "who comes second writes over the first",
                "            if entries.get(account) != known:\n",
                "            if False:\n",
                "test_who_comes_second_does_not_write_over_the_first",
            ),
            (
                "what was begun is not registered",
                "    if now != known:\n",
                "    if False:\n",
                "test_a_store_that_was_deleted_with_its_witness_is_not_begun_anew",
            ),
            (
                "any ledger may be given up",
                "    if known is None or known.ledger != ledger:\n",
                "    if known is None:\n",
                "test_a_second_ledger_is_an_explicit_act_that_stays_on_record",
            ),
            (
                "a ledger that was given up is forgotten",
                "before=[*known.before, ledger]",
                "before=known.before",
                "test_a_second_ledger_is_an_explicit_act_that_stays_on_record",
            ),
        ],
    ),
)
