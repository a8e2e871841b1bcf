"""Rounds of others: what a peer believes of them, how far it follows, and how a store comes back from where it was led."""

from __future__ import annotations

from tests.mutation.mutant import of

LIES = "tests/peer/test_hostile_rounds.py"
BACK = "tests/peer/test_set_round.py"
LAST = "tests/peer/test_lying_peers.py::test_a_peer_whose_round_is_the_last_does_not_start_and_says_what_to_do"
LIVE = "tests/peer/test_lying_peers.py::test_nobody_is_ended_by_a_liar_that_is_heard_and_hears"
FLOOD = "tests/faults/test_frame_campaign.py"
STEPS = "tests/peer/test_node.py"
USED = "test_a_round_that_was_used_is_never_done_again"
PUT_BACK = "test_a_poisoned_store_is_put_back_and_every_charge_stays"

CLAIMS = of(
    "peer/machine/claims.py",
    LIES,
    [
        ("one alone is believed", "if len(said) > 1 else 0", "if said else 0"),
        ("half are believed", "said[(len(said) - 1) // 2]", "said[len(said) // 2]"),
        ("a leap has no longest", "min(ahead, LONGEST_LEAP)", "ahead"),
        ("no rest after a leap", "            self._rest = REST\n", ""),
        ("a rest has no end", "max(0, self._rest - 1)", "self._rest"),
        (
            "a short leap needs no rest",
            "            self._rest = REST\n",
            "            self._rest = REST * (ahead > REST)\n",
        ),
        ("two are not followed", "if self._agreed > goal + FURTHEST_AHEAD:", "if False:"),
        ("one alone is never followed", "if ahead > FURTHEST_AHEAD and", "if False and"),
        (
            "a lie is never taken back",
            "        self._said[name] = at_round\n",
            "        self.raise_to(name, at_round)\n",
        ),
        ("everybody is beyond", "> round_ + FURTHEST_AHEAD or", "> round_ or"),
        (
            "what a link has sent holds for the next",
            "        self._sent.pop(name, None)\n\n    def raise_to",
            "\n    def raise_to",
            STEPS,
        ),
        ("who has left a round out is waited for", " or self._sent.get(name, 0) > round_", "", STEPS),
        ("nobody is doubted", "if said > believed}", "if False}"),
    ],
)
NODE = of(
    "peer/node/node.py",
    LIES,
    [
        ("a round after the last is begun", "if self.round >= LAST_ROUND:", "if False:"),
        ("impossible rounds are noted", "if not 0 <= at_round <= LAST_ROUND:", "if False:"),
        ("strangers are believed", "        self.admit(name)\n        if name not", "        if name not"),
        ("who is too far ahead is waited for", " or self.claims.is_beyond(name, beyond) for", " for"),
        (
            "what was said in absurd rounds stays in the outbox",
            "        self.outbox.drop_from(next_round)\n",
            "",
            f"{BACK}::{PUT_BACK}",
        ),
        (
            "rounds that were done are done again",
            "while following <= LAST_ROUND and self._was_done(following):",
            "while False:",
            f"{BACK}::test_who_comes_again_to_rounds_that_were_done_leaves_them_out",
        ),
    ],
)
OUTBOX = of(
    "peer/node/outbox.py",
    LIES,
    [
        (
            "a receiver's position is believed whatever it is",
            "if furthest is not None and position.round > furthest:",
            "if False:",
        ),
        (
            "a position is taken before it is looked at",
            "        before = self.positions.get(name, position)\n",
            "        before = max(position, self.positions.get(name, position))\n        self.positions[name] = before\n",
            LIES,
            FLOOD,
        ),
    ],
)
CHURN = "tests/peer/test_churn.py"
UNLUCKY = "tests/peer/test_member_attacks.py"
MEMBERSHIP = (
    *of(
        "peer/membership/members.py",
        CHURN,
        [
            (
                "a link is dropped before its last total is absorbed",
                "        return name in self._absorbed\n",
                "        return True\n",
            ),
            ("the last total is lost", "            self._finals[name] = envelope\n", "            pass\n"),
            (
                "a sender forgets a link before its receiver has all",
                '            if link.stage == "closing" and link.last == notice.round:\n',
                "            if True:\n",
            ),
            (
                "a joiner begins with mass",
                "            node.machine.state = membership_of(node).vacant(node.machine.state)\n",
                "            pass\n",
            ),
            (
                "a joiner leaves rounds out that it has promised",
                "not self.book.has_promised and",
                "not self.book.leaving and",
                UNLUCKY,
            ),
            (
                "a leaver that dies at its last step never leaves",
                "node.between_rounds and book.advance() if book.leaving else",
                "False if book.leaving else",
                UNLUCKY,
            ),
        ],
    ),
    *of(
        "peer/membership/states.py",
        CHURN,
        [("a newcomer learns with next to nothing", "(terms.ample if new else terms.settled)", "terms.settled")],
    ),
    *of(
        "peer/membership/book.py",
        CHURN,
        [
            ("a leaver keeps its share", "keeps = not (self.leaving and", "keeps = not (False and"),
            ("a used slot is not emptied", "slot if slot == 0 or slot in taken else NO_SLOT", "slot"),
            (
                "a leaver goes while others send to it",
                "if not self.leaving or self.gone or self.into:",
                "if not self.leaving or self.gone:",
            ),
            ("a newcomer is one for good", "self.new = self.new and lean", "self.new = self.new"),
            ("a newcomer pushes on what it gets", "not fed or self.new or", "not fed or"),
            ("the last word of a leaver is waited for", "if link.last is not None and not self.waits)", "if False)"),
            ("who is not fed gives on", "not self.leaving and (not fed or", "not self.leaving and (False or"),
            ("who holds little gives on", "lean and 0 < self.changed", "False and 0 < self.changed"),
            ("who holds little gives nothing for good", "0 < self.changed >= t - SETTLING", "0 < self.changed"),
            ("founders that hold little give nothing", "lean and 0 < self.changed >= t", "lean and self.changed >= t"),
        ],
    ),
)
SERVICE = of(
    "peer/node/service.py",
    LIES,
    [
        ("a peer starts at the last round", "        self.node.refuse_exhausted()\n", "", LAST),
    ],
)
LINKS = of("peer/node/links.py", LIES, [("a liar is not counted", "        self._note_doubts()\n", "", LIVE)])
RECOVERY = (
    *of(
        "peer/node/set_round.py",
        BACK,
        [
            ("a used round is done again", "    if near is not None:\n", "    if False:\n", USED),
            ("rounds before a used one do not matter", "goal <= t < goal + LONGEST_LEAP", "t == goal", USED),
            ("the ledger is not asked", "{*_booked(store), before}", "{before}", USED),
            (
                "any leap is that of a liar",
                "    if leap <= LONGEST_LEAP:\n",
                "    if leap < 0:\n",
                "test_a_store_that_was_not_carried_off_stays_as_it_is",
            ),
            (
                "a method that waits is put back",
                'if plan.algorithm.missing == "wait":',
                "if False:",
                "test_methods_that_wait_need_a_new_epoch",
            ),
            ("rounds need not be possible", "if not 1 <= goal <= LAST_ROUND:", "if False:", USED),
        ],
    ),
    *of(
        "peer/machine/rounds.py",
        BACK,
        [
            (
                "fresh records are counted by the round",
                "numbered = max(self.round, self._numbered + 1)",
                "numbered = self.round",
                PUT_BACK,
            ),
            ("the count of fresh records is lost", "            self._numbered,\n", "            0,\n", PUT_BACK),
        ],
    ),
    *of(
        "algorithms/push_sum/loss_tolerant_push_sum.py",
        BACK,
        [
            (
                "who was put back is deaf",
                " | (state.heard_round > view.round)",
                "",
                "test_a_graph_that_was_carried_off_whole_comes_back_together",
            )
        ],
    ),
)
MUTANTS = (*CLAIMS, *NODE, *OUTBOX, *MEMBERSHIP, *SERVICE, *LINKS, *RECOVERY)
