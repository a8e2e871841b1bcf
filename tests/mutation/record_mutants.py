"""Which records stand in which batch: by these numbers accounts know a record again."""

from __future__ import annotations

from tests.mutation.mutant import of

AGAIN = "test_batches_are_records_that_come_again_after_the_period"
TOLD = "test_a_function_may_tell_which_records_it_reads"
ONE_NUMBER = "test_a_record_has_one_number_whenever_it_is_read"
APART = "test_no_record_is_taken_for_another"

MUTANTS = (
    *of(
        "streams/stream.py",
        "tests/streams/test_stream.py",
        [
            (
                "no batch comes again",
                "np.arange(start, stop)[:, None] % self.period",
                "np.arange(start, stop)[:, None]",
                AGAIN,
            ),
            (
                "every slice begins with the first record",
                "np.arange(start, stop)[:, None] % self.period",
                "np.arange(stop - start)[:, None] % self.period",
                AGAIN,
            ),
            (
                "what ends does not come again",
                "self.rounds is not None and self.period >= self.rounds",
                "self.rounds is not None",
                AGAIN,
            ),
            (
                "rounds count from 0 to a peer",
                "self.numbered(agent, round_ - 1, round_)",
                "self.numbered(agent, round_, round_ + 1)",
                AGAIN,
            ),
            (
                "what a function tells is not heard",
                "        if self._records is not None:\n            return self._records(agent, start, stop)\n",
                "",
                TOLD,
            ),
            (
                "who tells by itself reads like the first",
                "if self._records is None else np.arange(self.agents)",
                "if True else None",
                TOLD,
            ),
            (
                "an empty place is a record",
                "int(np.unique(numbers[numbers >= 0], return_counts",
                "int(np.unique(numbers, return_counts",
                "test_an_empty_place_is_read_by_nobody",
            ),
        ],
    ),
    *of(
        "streams/arrays.py",
        "tests/streams/test_arrays.py",
        [
            ("rows that come again are new", "return read % ", "return read + 0 * ", ONE_NUMBER),
            (
                "agents are alike however many rows they have",
                "return self.data_size.astype(np.int64)\n",
                "return np.zeros(self.agents, np.int64)\n",
                "test_agents_are_alike_who_have_equally_many_rows",
            ),
        ],
    ),
    *of(
        "streams/held_out.py",
        "tests/streams/test_held_out.py",
        [
            ("what judges is taken for what is fitted", "2 * judged + 1)", "2 * judged)", APART),
            ("numbers meet now and then", "-1, 2 * fitted)", "-1, fitted)", APART),
            (
                "an empty place is a record",
                "np.where(fitted < 0, -1, 2 * fitted)",
                "2 * np.abs(fitted)",
                "test_a_place_without_a_record_stays_one",
            ),
            (
                "agents are alike that are so in one",
                "[self._fitted.alike(), self._validation.alike()]",
                "[self._fitted.alike(), self._fitted.alike()]",
                APART,
            ),
            (
                "of what never repeats every round has the same",
                "np.arange(start, stop)[:, None] if found is None",
                "np.zeros((stop - start, 1), np.int64) if found is None",
                "test_of_streams_that_never_repeat_every_round_has_records_of_its_own",
            ),
        ],
    ),
)
