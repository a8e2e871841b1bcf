"""Epochs: whose word counts, when nobody goes further, and what goes on to the next one."""

from __future__ import annotations

from tests.mutation.mutant import of

VIRTUAL = "tests/peer/test_epochs.py"
REAL = "tests/deploy/test_epochs.py"
FORGED = "test_nobody_proposes_for_another"
OTHER_EPOCH = "test_proposals_of_another_epoch_say_nothing"
TWO_JOBS = "test_a_member_that_proposes_two_jobs_changes_nothing_for_the_others"
TWO_ROUNDS = "test_a_member_with_two_last_rounds_is_found_out"
LIMITS = "test_nobody_goes_past_its_own_proposal_or_the_agreed_round"
EQUAL = "test_a_run_over_two_epochs_is_that_of_states_carried_over"
KILLS = "test_a_peer_may_be_killed_at_each_commit_of_the_change"
UNKNOWING = "test_nobody_goes_on_before_its_neighbours_know_all"
SAME = "test_all_but_the_graph_has_to_be_the_same"

MUTANTS = (
    *of(
        "peer/membership/proposals.py",
        VIRTUAL,
        [
            (
                "a signature is not looked at",
                "            public.verify(signature, _SIGNED + proposal.body, ec.ECDSA(SHA256()))\n",
                "            pass\n",
                FORGED,
            ),
            (
                "anybody's certificate will do",
                "certified_key(certificate, proposal.member,",
                "certified_key(certificate, 'peer-1',",
                FORGED,
            ),
        ],
    ),
    *of(
        "peer/membership/epochs.py",
        VIRTUAL,
        [
            ("proposals of other epochs count", "if proposal.job != self.job:", "if False:", OTHER_EPOCH),
            ("strangers propose", "if proposal.member not in self.members:", "if False:", FORGED),
            ("absurd rounds are proposed", "if not 1 <= proposal.last <= FURTHEST:", "if False:", FORGED),
            ("a second last round counts", "                self.disputed.add(proposal.member)\n", "", TWO_ROUNDS),
            ("most are enough", "self.proposed.keys() == self.members", "len(self.proposed) > 1", TWO_JOBS),
            ("proposals for any job count", "return self.coming is not None and job ==", "return job != ", TWO_JOBS),
            (
                "nobody stops at its own proposal",
                "if self.agreed else self.coming.last",
                "if self.agreed else LAST_ROUND",
                LIMITS,
            ),
            ("the smallest proposal counts", "return max((p.last for p", "return min((p.last for p", TWO_JOBS),
            (
                "who knows too little is left behind",
                "return at_end and not self._unknowing()",
                "return at_end",
                UNKNOWING,
            ),
            (
                "a proposal is told before it is kept",
                "        self.node.flush()\n        self.agreed",
                "        self.agreed",
                "test_a_restart_says_the_same",
            ),
            (
                "a new member begins by itself",
                ' or "joining" in given',
                "",
                "test_a_new_member_that_was_stopped_waits_still",
            ),
            (
                "a proposal is taken back",
                "            if same:\n",
                "            if True:\n",
                "test_a_proposal_is_not_taken_back",
            ),
        ],
    ),
    *of(
        "peer/membership/carry.py",
        VIRTUAL,
        [
            ("rounds are counted anew", "round=epochs.last_round, phase=None", "round=0, phase=None", EQUAL),
            ("a state stays as its links were", "found = continuation(moved, views)", "found = moved", EQUAL),
            (
                "the ledger stays with its old job",
                "        charges=[node.store.ledger.bound_to(coming.part, adjacency)],\n",
                "",
                KILLS,
            ),
        ],
    ),
    *of(
        "peer/membership/fixed.py",
        VIRTUAL,
        [("the end of the last round is not kept", "self._node.round >= self.epochs.limit", "False", EQUAL)],
    ),
    *of(
        "deploy/epochs.py",
        REAL,
        [
            ("other settings are taken", "if before.get(key) != then.get(key):", "if False:", SAME),
            ("the same epoch follows", "if after.settings.epoch <= now.settings.epoch:", "if False:", SAME),
            ("another budget is taken", "        if before != then:\n", "        if False:\n", SAME),
            (
                "a changed file is taken",
                "if after is None or (found.next, found.part) != (coming.next, coming.part):",
                "if after is None:",
                "test_a_file_that_changed_since_stops_the_change_and_names_the_remedy",
            ),
            (
                "the register does not know the next epoch",
                "        register_epoch(after, service.node.store.ledger.genesis.ledger)\n",
                "",
                "test_no_second_ledger_is_begun_for_an_epoch_that_was_proposed",
            ),
        ],
    ),
)
