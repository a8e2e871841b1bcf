"""Noise with a memory: the recursion, the norm of C, what is charged and what a peer keeps."""

from __future__ import annotations

from tests.mutation.mutant import of

INVERSE = "test_the_recursion_is_the_inverse_of_the_matrix"
NORM = "test_the_norm_is_the_largest_over_all_patterns"
REFUSED = "test_what_the_charge_does_not_cover_is_refused"
ONCE = "test_a_record_is_charged_once_for_a_block"
WHITE = "test_what_a_peer_releases_is_white_when_multiplied_by_the_matrix"

MUTANTS = (
    *of(
        "core/correlation.py",
        "tests/privacy/test_correlated.py",
        [
            (
                "a block goes on with the last one's memory",
                "xp.where(begins, 0, kept)",
                "xp.where(False, 0, kept)",
                INVERSE,
            ),
            ("nothing fades", "decay * old[j] + added", "old[j] + added", INVERSE),
            ("the oldest draw is kept twice", "old[:-1]])", "old[1:]])", INVERSE),
        ],
    ),
    *of(
        "core/mechanism.py",
        "tests/privacy/test_correlated.py",
        [("the norm of C is left out", "else self.correlation.norm", "else 1.0", WHITE)],
    ),
    *of(
        "privacy/strategies.py",
        "tests/privacy/test_correlated.py",
        [
            ("a record counts once, however often it is read", "for k in range(count):", "for k in range(1):", NORM),
            ("reads lie further apart than they may", "total[k * apart :] +=", "total[k * apart :] += 0 *", NORM),
        ],
    ),
    *of(
        "privacy/accounting.py",
        "tests/privacy/test_correlated.py",
        [
            ("reads are not counted", "self.reads < series.reads and", "", REFUSED),
            ("reads may follow at once", " and apart >= series.apart", "", REFUSED),
            ("more copies are free", " and covered:", ":", REFUSED),
            ("noise may go back", "if (series.block, series.place) <= (last.block, last.place):", "if False:", REFUSED),
            ("a later block is free", "if series.block > self.block:", "if self.block < 0:", ONCE),
        ],
    ),
    *of(
        "peer/machine/releases.py",
        "tests/privacy/test_correlated.py",
        [
            (
                "a peer forgets its noise",
                "return noisy, correlation.after(memory, added, np)",
                "return noisy, memory",
                WHITE,
            )
        ],
    ),
    *of(
        "privacy/spending.py",
        "tests/contract/test_accounts.py",
        [
            (
                "the simulator lets records come as often as they like",
                "    if np.any(wrong):",
                "    if False:",
                "test_records_that_come_more_often_than_the_noise_is_fitted_to_are_refused_before_they_do",
            ),
        ],
    ),
)
