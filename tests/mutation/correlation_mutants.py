"""Faults in noise that is correlated over an agent's releases: the noise, its norm, its memory, what is charged."""

from __future__ import annotations

from tests.mutation.mutant import of

PEER = "tests/audit/test_correlated.py::test_the_claim_of_a_peer_holds_and_is_nearly_reached"
MATRIX = "test_the_recursion_is_the_inverse_of_the_matrix"
NORM = "test_the_norm_is_the_largest_over_all_patterns"
WHITE = "test_what_a_peer_releases_is_white_when_multiplied_by_the_matrix"
REFUSED = "test_what_the_charge_does_not_cover_is_refused"
ONCE = "test_a_record_is_charged_once_for_a_block"
SIMULATED = "test_what_the_simulator_releases_is_white_when_multiplied_by_the_matrix"
AS_AN_ACCOUNT = "test_the_simulator_refuses_what_an_account_refuses"
SECRET = "tests/peer/test_noise_memory.py"
BOTH = "tests/contract/test_accounts.py::test_correlated_noise_is_charged_once_a_block_in_both"
NO_STEP = "test_a_step_of_size_0_has_no_place_in_the_noise"
METHODS = "tests/contract/test_correlated.py::test_a_method_whose_state_holds_data_says_so"
FILE = "tests/privacy/test_correlated.py"

MUTANTS = (
    *of(
        "core/correlation.py",
        FILE,
        [
            ("a block goes on for ever", "memory.releases % self.rounds == 0", "memory.releases == 0", MATRIX),
            ("a memory does not fade", "(decays * old + added)", "(old + added)", MATRIX),
            ("a memory forgets at once", "(decays * old + added)", "(0 * decays * old + added)", MATRIX),
            ("the last draws stay in place", "[added[None].astype(kept.dtype), old[:-1]]", "[old[1:], old[:1]]", MATRIX),
            ("releases are not counted", "Memory(memory.releases + 1,", "Memory(memory.releases,", MATRIX),
        ],
    ),
    *of(
        "core/mechanism.py",
        FILE,
        [
            ("the norm of C is left out", "1.0 if self.correlation is None else self.correlation.norm", "1.0", PEER),
            ("a memory shows its numbers", 'return "Memory(secret)"', "return str(tuple(self))", SECRET),
        ],
    ),
    *of(
        "privacy/strategies.py",
        FILE,
        [
            ("the second read is not counted", "min(reads, 1 +", "min(1, 1 +", NORM),
            ("reads are never taken back", "    sums[count:] -= sums[:-count].copy()\n", "", NORM),
            ("a column that rises is taken", "if count > 1 and (", "if False and (",
             "test_a_column_that_rises_has_a_norm_for_one_read_only"),
        ],
    ),
    *of(
        "privacy/draws.py",
        FILE,
        [("the simulator's memory stands still", "units, memory = _correlated", "units, _ = _correlated", SIMULATED)],
    ),
    *of(
        "peer/machine/releases.py",
        FILE,
        [
            ("past noise is added, not taken back", "leaf - scale * past", "leaf + scale * past", WHITE),
            ("past noise is forgotten", "leaf - scale * past", "leaf - 0 * past", WHITE),
            ("a peer's memory stands still", "return noisy, correlation.after(memory, added, np)",
             "return noisy, memory", WHITE),
            ("the norm of C is left out of a peer's noise", "    sensitivity *= mechanism.gain\n", "", PEER),
            ("what no record moves takes a place", "or sensitivity == 0 else series_of", "else series_of", NO_STEP),
            ("whatever a memory rounds is taken", "/ ratio\n    if share > LARGEST_ROUNDING:", "/ ratio\n    if False:",
             "test_a_memory_that_rounds_too_much_is_refused"),
        ],
    ),
    *of(
        "privacy/accounting.py",
        FILE,
        [
            ("noise may be drawn again", "if (series.block, series.place) <= (last", "if False and () <= (last", REFUSED),
            ("a record may come too soon", "and apart >= series.apart", "", REFUSED),
            ("a record may come too often", "self.reads < series.reads and", "", REFUSED),
            ("more copies are free the second time", "and apart >= series.apart and covered", "and apart >= series.apart",
             REFUSED),
            ("a record is charged once for all blocks", "if series.block > self.block:", "if self.block < 0:", ONCE),
            ("a record is charged for every release", "and record.reads > 1 else loss", "and False else loss", ONCE),
        ],
    ),
    *of(
        "privacy/spending.py",
        FILE,
        [
            ("the simulator lets records come too soon", "| (apart < correlation.apart)", "", AS_AN_ACCOUNT),
            ("the simulator lets records come too often", "(reads > correlation.reads) |", "", AS_AN_ACCOUNT),
            ("a block never ends", "np.divmod(np.cumsum(there) - 1, correlation.rounds)",
             "np.divmod(np.cumsum(there) - 1, 10**9)", BOTH),
        ],
    ),
    *of(
        "runtime/messages.py",
        FILE,
        [("data in a state are taken", "    if release.in_sequence:\n", "    if False:\n", METHODS)],
    ),
    *of(
        "privacy/versions.py",
        "tests/privacy/test_accounting.py",
        [
            ("an old account sees later labels",
             "                if entry is None:\n                    entries.pop(key, None)",
             "                if entry is None:\n                    pass", "test_an_account_never_changes"),
            ("an old account that was read changes the new one",
             "newer._differs = {key: entries.get(key) for key in older._differs}", "newer._differs = {}",
             "test_an_account_never_changes"),
        ],
    ),
)  # fmt: skip
