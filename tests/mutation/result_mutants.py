"""Results that are whole or not there, checkpoints that know their data, and text that is shown as text."""

from __future__ import annotations

from tests.mutation.mutant import of

SECOND = "test_a_second_writer_is_refused_by_name_and_changes_nothing"
OUTSIDE = "test_a_summary_from_outside_names_nothing_to_be_removed"

MUTANTS = (
    *of(
        "results/sealed.py",
        "tests/results/test_whole.py",
        [
            (
                "files of another summary are taken",
                "if hashlib.sha256(content).hexdigest() != self.digests[name]:",
                "if False:",
                "test_files_of_two_runs_are_not_taken_for_one",
            ),
            (
                "a file that was changed is removed with the old summary",
                "frozenset(Sealed.read(directory).intact())",
                "frozenset(Sealed.read(directory).digests)",
                OUTSIDE,
            ),
            ("nothing is locked while files are put in place", "with writing(directory):", "if True:", SECOND),
        ],
    ),
    *of(
        "results/locks.py",
        "tests/results/test_whole.py",
        [
            (
                "what a killed writer left stays",
                "clear(directory / STAGED)",
                "pass",
                "test_what_a_killed_writer_left_is_cleared_but_not_where_a_link_leads",
            ),
            (
                "a second writer is let in",
                "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
                "pass",
                SECOND,
            ),
        ],
    ),
    *of(
        "results/html.py",
        "tests/results/test_hostile.py",
        [
            (
                "what fills a page is markup",
                "escape(visible(format(value, format_spec)))",
                "format(value, format_spec)",
                "test_nothing_of_a_summary_is_markup_in_a_report",
            ),
            (
                "a page lets any script run",
                "script-src 'sha256-{digest}'",
                "script-src 'unsafe-inline'",
                "test_nothing_of_a_summary_is_markup_in_a_report",
            ),
        ],
    ),
    *of(
        "results/references.py",
        "tests/results/test_comparison.py",
        [
            (
                "who leads within the interval has won",
                "    if level:\n",
                "    if not level and level:\n",
                "test_the_headline_says_who_won_and_what_it_cost",
            ),
            (
                "references of a private run compete with it",
                "if record.label not in added] or there",
                "if record.label not in set()] or there",
                "test_references_that_were_added_do_not_compete",
            ),
        ],
    ),
    *of(
        "results/pages/panels.py",
        "tests/results/test_plots.py",
        [
            (
                "negative regret is dropped by a logarithmic axis",
                "log = all(bool((mean > 0).all()) for mean in means)",
                "log = True",
                "test_negative_regret_is_drawn_on_a_linear_axis",
            )
        ],
    ),
    *of(
        "simulator/data_identity.py",
        "tests/simulator/test_checkpoint.py",
        [
            (
                "only the first round is known",
                "covered = min([rounds, *",
                "covered = min([1, *",
                "test_one_number_in_a_round_that_was_read_is_noticed",
            ),
            (
                "arrays are not looked at",
                "yield stream.backing()",
                "yield ()",
                "test_of_rows_in_arrays_all_are_known_however_large",
            ),
            (
                "the round before the checkpoint is not known",
                "digest([stream.chunk(done - 1, done)] for stream in there)",
                '""',
                "test_of_data_too_large_to_be_read_through_the_ends_and_the_last_round_are_known",
            ),
        ],
    ),
)
