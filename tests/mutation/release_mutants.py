"""Mechanisms, the draw in simulation and in a peer, and what a run has spent."""

from __future__ import annotations

from tests.mutation.mutant import of

SEARCHED = "test_no_replacement_moves_the_mean_further_than_said_and_one_gets_there"
NEIGHBOURS = "test_other_neighbours_change_other_amounts"
DRAWN = "test_noise_is_drawn_as_declared"
LEAVES = "test_all_leaves_are_declared_together_and_drawn_apart"
BOUNDED = "test_bounded_noise_stays_in_bounds_and_is_squeezed_as_printed"
STATED = "test_statements_say_who_is_protected"
SPENDING = "tests/privacy/test_spending.py"
BOOKED = "test_every_send_is_booked_before_it_leaves"
EVENT = "test_the_event_is_what_was_declared"

MUTANTS = (
    *of(
        "privacy/mechanisms.py",
        "tests/privacy/test_mechanisms.py",
        [
            (
                "a replaced record counts as a removed one",
                "return 2 * clip.bound * spread / records",
                "return clip.bound * spread / records",
                SEARCHED,
            ),
            (
                "the batch is not divided by",
                "return 2 * clip.bound * spread / records",
                "return 2 * clip.bound * spread",
                SEARCHED,
            ),
            (
                "linf in l1 takes the square root",
                'spread = root if norm == "l2" else extent.coordinates',
                "spread = root",
                SEARCHED,
            ),
            ("l2 in l1 takes no square root", 'elif clip.norm == "l2" and norm == "l1":', "elif False:", SEARCHED),
            (
                "a large batch helps a whole data set",
                '1 if adjacency == "dataset" else extent.records',
                "extent.records",
                NEIGHBOURS,
            ),
            ("a component counts as a record", 'if adjacency != "component":', "if True:", NEIGHBOURS),
            ("Gaussian noise is scaled to l1", '"l2" if distribution == "gaussian" else "l1"', '"l1"', DRAWN),
            (
                "Laplace noise is scaled to l2",
                '"l2" if distribution == "gaussian" else "l1"',
                '"l2"',
                "test_each_distribution_counts_the_change_in_its_own_norm",
            ),
            (
                "a larger epsilon means more noise",
                "scale=lambda view, sensitivity: sensitivity / target)",
                "scale=lambda view, sensitivity: sensitivity * target)",
                DRAWN,
            ),
            ("noise grows over the rounds", "jnp.exp(half_log * rounds)", "jnp.exp(-half_log * rounds)", DRAWN),
            (
                "the variance's decay is taken for the noise's",
                "half_log = math.log(ratio) / 2",
                "half_log = math.log(ratio)",
                DRAWN,
            ),
            ("decay begins in the first round", "(view.round - 1).astype", "(view.round - 0).astype", DRAWN),
            ("the bound of 000 lacks its square", "width = math.log(rounds) ** 2", "width = math.log(rounds)", BOUNDED),
            ("the squeezed gradient is not normalised", "(leaf / safe).astype(leaf.dtype)", "leaf", BOUNDED),
            ("the statement's adjacency is not the caller's", "        adjacency=adjacency,\n", "", STATED),
            ("a clip of infinity is taken", "not 0 < value < math.inf", "not 0 < value", "test_nonsense_is_refused"),
        ],
    ),
    *of(
        "contract.py",
        "tests/privacy/test_mechanisms.py",
        [
            (
                "what a method makes of a gradient does not count",
                "sensitivity=lambda view, extent: gain(view) * sensitivity(view, extent)",
                "sensitivity=sensitivity",
                "test_amplification_scales_sensitivity_and_noise_but_not_the_loss",
            ),
        ],
    ),
    *of(
        "privacy/release.py",
        "tests/privacy/test_mechanisms.py",
        [
            ("no noise is added", "return leaf + drawn", "return leaf", DRAWN),
            (
                "a link that is down gets a copy of its own",
                "if slots:  #",
                "if False:  #",
                "tests/test_leaks.py::test_a_link_that_is_down_brings_no_copy_beyond_those_that_are_charged",
            ),
            ("every leaf gets the noise of the first", "(words, index, slots", "(words, 0, slots", LEAVES),
            ("what is outside the bound becomes the bound", "drawn, bound / 2)", "drawn, bound)", BOUNDED),
            (
                "each leaf is declared by itself",
                "Extent(sum(leaf.size for leaf in leaves), records)",
                "Extent(leaves[0].size, records)",
                LEAVES,
            ),
            (
                "a value of records counts as one of one",
                "Extent(sum(leaf.size for leaf in leaves), records)",
                "Extent(sum(leaf.size for leaf in leaves), 1)",
                LEAVES,
            ),
            (
                "the post-processing is left out",
                "noisy if mechanism.finish is None else",
                "noisy if True else",
                BOUNDED,
            ),
        ],
    ),
    *of(
        "privacy/statements.py",
        "tests/privacy/test_mechanisms.py",
        [
            ("dataset is said to compose in parallel", ' and mechanism.adjacency != "dataset"', "", STATED),
            ("nothing is private, noise or not", "private=True", "private=False", STATED),
            ("a method without noise is private", "if mechanism.distribution is None:", "if False:", STATED),
        ],
    ),
    *of(
        "privacy/spending.py",
        SPENDING,
        [
            ("the cheapest rounds are charged", "[rounds - uses :]", "[:uses]", "test_the_dearest_rounds_are_charged"),
            (
                "one round is charged in sequence",
                "uses = rounds if charges_all(statement, adjacency) else",
                "uses =",
                "test_in_sequence_every_round_is_charged",
            ),
            (
                "dataset is charged in parallel",
                ' or adjacency == "dataset"',
                "",
                "test_under_dataset_adjacency_every_round_is_charged_whatever_the_statement_says",
            ),
            (
                "a record twice in a batch counts once",
                "max(1, -(-reads // max(1, rounds)))",
                "1",
                "test_a_record_twice_in_one_batch_moves_the_mean_twice_as_far",
            ),
            (
                "a record twice in some batch counts once",
                "-(-reads // max(1, rounds))",
                "reads // max(1, rounds)",
                "test_a_record_twice_in_one_batch_moves_the_mean_twice_as_far",
            ),
            (
                "what has no data is charged",
                "if spec.from_data]",
                "]",
                "test_phases_of_a_round_add_up_and_what_has_no_data_is_free",
            ),
            (
                "an open phase is passed over",
                "if spec.mechanism.distribution is None:",
                "if False:",
                "test_one_open_phase_makes_the_run_not_private_and_is_named",
            ),
            (
                "a round without noise is passed over",
                "if unprotected.size:",
                "if False:",
                "test_a_round_without_noise_is_named",
            ),
            (
                "a ratio that is no number is free",
                "scale=1.0 if known else 0.0",
                "scale=1.0",
                "test_a_round_without_noise_is_named",
            ),
            ("adjacencies are mixed", "if len(found) > 1:", "if False:", "test_adjacencies_are_not_mixed"),
            (
                "phases are not added up",
                "losses += _losses",
                "losses = _losses",
                "test_phases_of_a_round_add_up_and_what_has_no_data_is_free",
            ),
        ],
    ),
    *of(
        "runtime.py",
        "tests/peer/test_releases.py",
        [
            (
                "a peer leaves out the post-processing",
                "if mechanism.finish is None or mechanism.distribution is None or declared is None:",
                "if True:",
                "test_a_peer_squeezes_what_has_bounded_noise",
            ),
            (
                "a peer's declaration is of one coordinate",
                "phase.mechanism.noise(view, Extent(sum(leaf.size for leaf in leaves), records)) if leaves",
                "phase.mechanism.noise(view, Extent(1, records)) if leaves",
                "test_a_peer_declares_what_a_simulation_draws_from",
            ),
        ],
    ),
    *of(
        "peer/releases.py",
        "tests/peer/test_releases.py",
        [
            ("a seeded source is taken", "if source.predictable:", "if False:", "test_a_seeded_source_is_refused"),
            (
                "what has no data is charged",
                "        if not spec.from_data:\n            return value\n",
                "",
                "test_what_does_not_depend_on_data_leaves_as_it_is_and_is_not_booked",
            ),
            ("whatever has data leaves as it is", "if not spec.from_data:", "if spec.from_data:", BOOKED),
            (
                "a whole model leaves",
                'spec.mechanism.perturbs == "model"',
                "False",
                "test_a_whole_model_is_not_released",
            ),
            (
                "noise is drawn before the charge",
                "        return self.ledger.release(name, event, lambda: self._noisy(event, value))",
                "        noisy = self._noisy(event, value)\n        return self.ledger.release(name, event, lambda: noisy)",
                BOOKED,
            ),
            (
                "nothing is charged",
                "return self.ledger.release(name, event, lambda: self._noisy(event, value))",
                "return self._noisy(event, value)",
                BOOKED,
            ),
            (
                "noise is half as wide as booked",
                "distribution, event.scale, self.source",
                "distribution, event.scale / 2, self.source",
                "test_released_values_lie_on_the_grid_and_have_the_declared_spread",
            ),
            (
                "every charge is to all records",
                "        mechanism.adjacency,\n        records,\n",
                '        mechanism.adjacency,\n        "",\n',
                BOOKED,
            ),
            (
                "what has no declaration is booked as free",
                "Event(mechanism.name, None, 0.0, 0.0, spec.coordinates,",
                'Event(mechanism.name, "laplace", 0.0, 1.0, spec.coordinates,',
                "test_an_unprotected_method_cannot_be_booked_within_a_budget",
            ),
            (
                "the adjacency is forgotten",
                "        mechanism.adjacency,\n        records,\n",
                '        "record",\n        records,\n',
                EVENT,
            ),
            ("the bound is forgotten", "bound if np.isfinite(bound) else None", "None", EVENT),
        ],
    ),
)
