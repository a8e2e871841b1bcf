"""Who gets in, how many, and with which ledger."""

from __future__ import annotations

from tests.mutation.mutant import of

SUBORDINATES = "tests/peer/test_subordinate_authorities.py"
SECOND = "tests/deploy/test_second_ledgers.py"
ADMISSION = "tests/peer/test_admission.py"

MUTANTS = (
    *of(
        "peer/transport/listener.py",
        SUBORDINATES,
        [
            (
                "a caller of a subordinate authority is heard",
                "            require_direct_issue(caller_certificate(context.auth_context()), self._watch.current())\n",
                "",
                "test_a_dialler_of_a_subordinate_authority_is_not_heard",
            ),
        ],
    ),
    *of(
        "peer/transport/dialer.py",
        SUBORDINATES,
        [
            (
                "a server of a subordinate authority is sent to",
                "            self._check_server(identity)\n",
                "",
                "test_nothing_is_sent_to_a_listener_of_a_subordinate_authority",
            ),
            (
                "the word of a server counts before its certificate",
                "            self._check_server(identity)\n            self._dispatch.confirmed(self._name, position)\n",
                "            self._dispatch.confirmed(self._name, position)\n            self._check_server(identity)\n",
                "test_nothing_is_sent_to_a_listener_of_a_subordinate_authority",
            ),
        ],
    ),
    *of(
        "peer/identity/credentials.py",
        SUBORDINATES,
        [
            ("any certificate is direct", "    if not direct:\n", "    if False:\n"),
            (
                "no server has a certificate to look at",
                "                found.append(base64",
                "                str(base64",
            ),
        ],
    ),
    *of(
        "peer/transport/admission.py",
        ADMISSION,
        [
            (
                "an address has no limit",
                "        if counts[source] <= self.limits.per_address:\n",
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
                "            source = max(counts, key=lambda other: counts[other])\n",
                "            source = min(counts, key=lambda other: counts[other])\n",
                "test_a_full_door_takes_from_the_address_that_has_most",
            ),
            (
                "who spoke goes like who did not",
                "        return one.spoke, one.since, ticket\n",
                "        return False, one.since, ticket\n",
                "test_who_said_nothing_goes_before_who_did",
            ),
            (
                "the newest goes",
                " and t != newest]",
                "]",
                "test_who_said_nothing_goes_before_who_did",
            ),
            (
                "who has proved itself stays a stranger",
                "        stranger = self._strangers.pop(ticket, None)\n",
                "        stranger = self._strangers.get(ticket)\n",
                "test_who_has_proved_itself_is_never_put_out",
            ),
            (
                "a neighbour has any number of connections",
                "        self._strangers[older[0]] = _Stranger(older[1], now, spoke=True)\n"
                "        return self._crowded_out(older[0])\n",
                "        return []\n",
                "test_a_neighbour_has_one_proven_connection",
            ),
            (
                "nobody's time is ever up",
                "now - one.since >= self.limits.proof_time]",
                "False]",
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
                "        loop.call_later(PAUSE, self._resume)\n",
                "",
                "test_a_door_without_descriptors_lets_one_go_and_goes_on",
            ),
            (
                "a ticket is nobody's",
                "        return int(name) if folder == str(self._folder) and name.isdecimal() else None\n",
                "        return None\n",
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
