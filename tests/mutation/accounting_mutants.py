"""How losses add up and are converted, budgets, plans and the command that prints them."""

from __future__ import annotations

from tests.mutation.mutant import of

FRESH = "test_fresh_labels_cost_what_any_others_would"
DEFINITION = "test_an_account_says_what_the_definition_says"
EXAMPLE = "test_the_worked_example"

MUTANTS = (
    *of(
        "privacy/conversions.py",
        "tests/privacy/test_accounting.py",
        [
            ("the loose rule forgets a factor of 2", "rho + 2 * math.sqrt(rho)", "rho + math.sqrt(rho)", EXAMPLE),
            ("the tight rule lacks a term", " - math.log1p(1 / high)", "", EXAMPLE),
            ("the tight rule lacks half a term", "(log_delta + math.log1p(high)) / high", "log_delta / high", EXAMPLE),
            (
                "the tight rule takes another order",
                "if rho * u * u + log_delta + math.log1p(u) < 0",
                "if rho * u * u + log_delta < 0",
                EXAMPLE,
            ),
            (
                "the tight rule may fall below 0",
                "return max(0.0, min(upper,",
                "return (min(upper,",
                "test_exact_is_below_tight_and_tight_below_loose",
            ),
            (
                "the inverse is rounded up",
                "    return low\n",
                "    return high\n",
                "test_the_inverse_keeps_the_target_and_wastes_nothing",
            ),
            (
                "a delta that covers everything is not seen",
                "            return high\n",
                "            return low\n",
                "test_the_inverse_at_the_ends",
            ),
            (
                "the Gaussian epsilon is rounded down",
                "            high = middle\n    return high\n",
                "            high = middle\n    return low\n",
                "test_the_gaussian_epsilon_inverts_the_curve",
                "test_exact_is_below_tight_and_tight_below_loose",
            ),
            ("the Gaussian curve is shifted", "epsilon / mu - mu / 2", "epsilon / mu - mu", EXAMPLE),
            (
                "the Gaussian curve lacks a term",
                "float(erfcx(near / math.sqrt(2)) -",
                "float(erfcx(near / math.sqrt(2)) - 0 *",
                EXAMPLE,
            ),
        ],
    ),
    *of(
        "privacy/accounting.py",
        "tests/privacy/test_accounting.py",
        [
            (
                "of events on one record the dearest counts",
                "functools.reduce(Total.plus, (Total.of(event.loss)",
                "functools.reduce(Total.worst, (Total.of(event.loss)",
                "test_labels_in_parallel_same_label_in_sequence_all_records_on_top",
            ),
            (
                "an account books twice what everyone and one observer sees",
                "{EVERYONE} if EVERYONE in event.observers else set(event.observers)",
                "set(event.observers)",
                DEFINITION,
            ),
            (
                "a labelled event counts for all records",
                'changes.get((None, ""), self._of_all)',
                'changes.get((None, labels[0] if labels else ""), self._of_all)',
                DEFINITION,
            ),
            (
                "an event of all records counts as one of a label",
                "(changes[None, label] for label in labels if label)",
                "(changes[None, label] for label in labels)",
                DEFINITION,
            ),
            (
                "an account adds labels up",
                "functools.reduce(Total.worst, (changes[None",
                "functools.reduce(Total.plus, (changes[None",
                DEFINITION,
            ),
            (
                "in an account events of all records do not come on top",
                "self._of_all.plus(self._worst).loss",
                "self._of_all.worst(self._worst).loss",
                DEFINITION,
            ),
            (
                "for one observer events of all records do not come on top",
                "return of_all.plus(functools.reduce(Total.worst, [*by_label",
                "return of_all.worst(functools.reduce(Total.worst, [*by_label",
                DEFINITION,
            ),
            (
                "of a batch the first record alone is charged",
                "            for label in labels\n            for name in names | {None}",
                "            for label in labels[:1]\n            for name in names | {None}",
                "test_every_record_of_a_batch_is_charged_by_itself",
            ),
            (
                "of fresh labels the newest counts",
                "past[name] = past.get(name, Total()).worst(together)",
                "past[name] = together",
                FRESH,
            ),
            (
                "fresh labels add up",
                "past[name] = past.get(name, Total()).worst(together)",
                "past[name] = past.get(name, Total()).plus(together)",
                FRESH,
            ),
            (
                "an earlier fresh label comes back",
                "if number < newest:",
                "if False:",
                "test_an_account_forgets_fresh_labels_and_takes_none_back",
            ),
            (
                "an observer forgets fresh labels",
                "[*by_label.values(), *past]",
                "[*by_label.values()]",
                FRESH,
            ),
            (
                "an observer's account lacks what everyone sees",
                "if name in (observer, EVERYONE)",
                "if name == observer",
                DEFINITION,
                "test_an_observer_knows_what_it_sees_and_all_together_know_everything",
            ),
            (
                "n charges of an n-th of a budget do not fit",
                "most * (1 + TOLERANCE)",
                "most",
                "test_n_equal_charges_reach_a_budget_and_no_more",
            ),
            (
                "a budget may be exceeded by a thousandth",
                "TOLERANCE = 1e-9",
                "TOLERANCE = 1e-3",
                "test_a_budget_with_delta_takes_either_sum",
                "test_n_equal_charges_reach_a_budget_and_no_more",
            ),
            (
                "the reserve is spent twice",
                "self.delta - self.reserve)",
                "self.delta)",
                "test_bounded_noise_is_paid_from_the_reserve",
            ),
            (
                "a budget with delta takes rho only",
                "if pure or zcdp",
                "if zcdp",
                "test_a_budget_with_delta_takes_either_sum",
            ),
            (
                "a pure budget takes any epsilon",
                "if pure and zcdp",
                "if pure or zcdp",
                "test_a_pure_budget_counts_epsilon_only",
            ),
            (
                "bounded noise needs no reserve",
                "if not beyond:",
                "if False:",
                "test_a_pure_budget_counts_epsilon_only",
                "test_bounded_noise_is_paid_from_the_reserve",
            ),
            (
                "what is left may be negative",
                "max(0.0, most - gone)",
                "most - gone",
                "test_a_budget_with_delta_takes_either_sum",
            ),
            (
                "a guarantee loses the delta of bounded noise",
                "total = loss.delta + delta",
                "total = delta",
                "test_a_bounded_guarantee_carries_its_delta",
            ),
            ("once is said of many", "if uses == 1 else", "if uses != 1 else", "test_a_pure_guarantee_in_words"),
            (
                "adjacencies are mixed",
                "if self._adjacency not in (None, event.adjacency):",
                "if False:",
                "test_adjacencies_do_not_mix",
            ),
        ],
    ),
    *of(
        "privacy/planning/schedules.py",
        "tests/privacy/test_planning.py",
        [
            ("the privacy loss distribution is coarse", "span / (100 * CELLS))", "span / 0.1)", EXAMPLE),
            (
                "small releases are lost in the grid",
                "smallest / 4)",
                "smallest * 400)",
                "test_small_releases_are_not_lost_in_the_grid",
            ),
            (
                "RDP counts equal releases once",
                "LaplaceDpEvent(1 / self.ratio), self.releases",
                "LaplaceDpEvent(1 / self.ratio), 1",
                "test_dp_accountings_own_accountants_say_the_same",
            ),
            (
                "PLD counts equal releases once",
                "one.self_compose(self.releases)",
                "one",
                "test_dp_accountings_own_accountants_say_the_same",
            ),
            (
                "decay makes rounds cheaper",
                "growth = -math.log(decay)",
                "growth = math.log(decay)",
                "test_decay_is_the_sum_over_its_rounds",
            ),
            (
                "a plan's rho is twice as large",
                "rho = squares / noise / noise / 2",
                "rho = squares / noise / noise",
                EXAMPLE,
            ),
            (
                "Laplace noise is planned for zCDP",
                '"pure" if distribution == "laplace" else "tight"',
                '"tight"',
                "test_planned_laplace_noise_keeps_its_target",
            ),
            (
                "the verbosity of the user's log stays changed",
                "logging.set_verbosity(before)",
                "pass",
                "test_dp_accounting_says_nothing",
            ),
            (
                "dp-accounting is heard",
                "logging.set_verbosity(logging.ERROR)",
                "pass",
                "test_dp_accounting_says_nothing",
            ),
            (
                "the search goes the wrong way",
                "if epsilon_at(middle) > target",
                "if epsilon_at(middle) <= target",
                "test_every_rules_noise_reaches_the_target_by_that_rule",
            ),
        ],
    ),
    *of(
        "cli/privacy.py",
        "tests/privacy/test_planning.py",
        [
            (
                "the first rounds are taken for the dearest",
                "if 0 < decay < 1 else 1.0",
                "if False else 1.0",
                "test_with_decay_the_worst_rounds_count",
            ),
            (
                "the variance's decay is taken for the noise's",
                "(rounds - uses) / 2",
                "(rounds - uses)",
                "test_with_decay_the_worst_rounds_count",
            ),
            (
                "a rule's noise is that of the last rounds",
                "value / first for rule",
                "value * first for rule",
                "test_with_decay_the_worst_rounds_count",
            ),
            (
                "a record is used once unless one says otherwise",
                "rounds if uses is None else uses",
                "1 if uses is None else uses",
                "test_the_command_tells_the_epsilon_of_a_noise",
                "test_the_command_tells_the_noise_for_a_target",
            ),
        ],
    ),
)
