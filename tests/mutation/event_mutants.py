"""What events cost, what they are booked under, and exact sums of losses."""

from __future__ import annotations

from tests.mutation.mutant import of

SUM = "test_a_sum_is_never_below_the_exact_one_and_within_two_units"
EXACT = "test_totals_are_exact_in_whatever_order"
KEEPS = "test_totals_keep_what_is_infinite"
ROWS = "test_numbered_records_are_told_in_spans_and_taken_apart_again"
LABELS = "test_labels_of_records"
NONSENSE = "test_what_makes_no_sense_is_refused_by_name"
DEFINITION = "tests/privacy/test_accounting.py::test_an_account_says_what_the_definition_says"

MUTANTS = of(
    "privacy/events.py",
    "tests/privacy/test_events.py",
    [
        ("a sum is rounded down", "top = -(-units >> shift)", "top = units >> shift", SUM),
        ("a sum is rounded up where it need not be", "-(-units >> shift)", "(units >> shift) + 1", EXACT),
        (
            "a sum is rounded to nearest",
            "return math.ldexp(top, shift - _UNIT)",
            "return units / (1 << _UNIT)",
            SUM,
        ),
        ("a sum loses its last bit", "units.bit_length() - 53", "units.bit_length() - 52", EXACT),
        (
            "what overflows is free",
            "    except OverflowError:\n        return math.inf",
            "    except OverflowError:\n        return 0.0",
            "test_what_overflows_is_infinite",
        ),
        (
            "what is infinite is free",
            "is no number promises nothing, as what is infinite\n        return None",
            "is no number promises nothing, as what is infinite\n        return 0",
            "test_infinite_losses_add",
        ),
        (
            "what is no number is free",
            "if not number < math.inf:",
            "if number == math.inf:",
            "test_what_is_no_number_is_not_free",
        ),
        (
            "tiny losses are dropped",
            "return (numerator << _UNIT) // denominator",
            "return (numerator << 900) // denominator << 174",
            EXACT,
        ),
        ("of two losses one counts", "else a + b for a, b", "else max(a, b) for a, b", SUM),
        ("the worst of two losses is their sum", "else max(a, b) for a, b", "else a + b for a, b", EXACT),
        ("the worst of two totals is the better", "else max(a, b) for a, b", "else min(a, b) for a, b", EXACT),
        (
            "what is infinite does not add",
            "None if a is None or b is None else a + b",
            "(b if a is None else a) if a is None or b is None else a + b",
            KEEPS,
        ),
        (
            "the worst is never infinite",
            "None if a is None or b is None else max(a, b)",
            "(b if a is None else a) if a is None or b is None else max(a, b)",
            KEEPS,
        ),
        ("many alike cost what one does", "else number * count", "else number", EXACT),
        ("a span of rows begins anew at each", "== spans[-1][1] + 1", "== spans[-1][1] + 2", ROWS),
        ("a span of rows ends early", 'f"{first}-{last}"', 'f"{first}-{last - 1}"', ROWS),
        ("a span of rows lacks its first", "range(span[0], ", "range(span[0] + (len(span) - 1), ", ROWS),
        ("a span of rows lacks its last", "span[-1] + 1)", "span[-1] + (len(span) == 1))", ROWS),
        ("only the first span counts", "records.split()[1:]", "records.split()[1:2]", ROWS),
        ("rows are charged together", "if not _ROWS.fullmatch(records):", "if True:", LABELS),
        (
            "what begins like rows is taken for them",
            "_ROWS.fullmatch(records)",
            "_ROWS.match(records)",
            LABELS,
        ),
        (
            "no records are a record",
            "    if records == NO_RECORDS:\n        return ()\n",
            "",
            LABELS,
        ),
        ("a batch without rows has a label", "    if not spans:\n        return NO_RECORDS\n", "", LABELS),
        (
            "labels count under dataset and not elsewhere",
            '("",) if self.adjacency == "dataset" else',
            '("",) if self.adjacency == "record" else',
            LABELS,
        ),
        (
            "labels count under dataset too",
            '("",) if self.adjacency == "dataset" else labels_in',
            "labels_in",
            DEFINITION,
        ),
        ("any calibration is believed", "and not self._is_calibrated:", "and False:", NONSENSE),
        ("a calibration need not be close", "<= 1e-9 * self.sensitivity", "<= 1e-2 * self.sensitivity", NONSENSE),
        (
            "calibrated noise costs what was rounded",
            "        if self.calibration is not None:\n            return self.calibration\n",
            "",
            "test_calibrated_noise_costs_what_it_was_calibrated_to",
        ),
        (
            "calibrated noise costs also where no record can move it",
            "        if self.sensitivity == 0:\n            return 0.0\n        if self.calibration",
            "        if self.calibration",
            "test_calibrated_noise_costs_what_it_was_calibrated_to",
        ),
        ("a tiny ratio is free", "max(self.sensitivity / self.scale, _SMALLEST)", "self.sensitivity / self.scale"),
        ("a tiny rho is free", "max(ratio * ratio / 2, _SMALLEST)", "ratio * ratio / 2"),
        ("rho is twice as large", "max(ratio * ratio / 2,", "max(ratio * ratio,"),
        ("rho is half as large", "max(ratio * ratio / 2,", "max(ratio * ratio / 4,"),
        ("only one coordinate can leave the bound", "atoms * outside + strip", "outside + strip"),
        ("a component counts as all of them", 'self.adjacency == "component" else', 'self.adjacency == "none" else'),
        ("noise of bounded support shows a rho", "math.inf if self.delta > 0 else self.rho", "self.rho"),
        ("the strip counts twice", "* -math.expm1(-self.ratio) / 2", "* -math.expm1(-self.ratio)"),
        ("a bound as wide as the change protects", "self.ratio >= self.bound", "self.ratio > self.bound"),
        ("the worst of two losses is the better", "Loss(*map(max, self, other))", "Loss(*map(min, self, other))"),
        ("a bound of 0 is taken", "not self.bound > 0", "not self.bound >= 0"),
        ("Gaussian noise is pure", "Loss(math.inf if ratio else 0.0, rho)", "Loss(ratio, rho)"),
        ("what leaves as it is costs nothing", "return Loss(math.inf, math.inf)", "return Loss()"),
    ],
)
