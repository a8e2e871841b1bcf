"""Who gets in, how many, and with which ledger."""

from __future__ import annotations

from tests.mutation.mutant import of

SUBORDINATES = "tests/peer/test_subordinate_authorities.py"
SECOND = "tests/deploy/test_second_ledgers.py"

MUTANTS = (
    *of(
        "peer/listener.py",
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
        "peer/dialer.py",
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
        "peer/credentials.py",
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
                "        if read_mark(left) is not None:",
                "        if False:",
                "test_old_copies_of_both_are_known_by_the_witness_that_was_left",
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
