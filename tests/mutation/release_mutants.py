"""Mechanisms, the draw in simulation and in a peer, and what a run has spent."""

from __future__ import annotations

from tests.mutation.mutant import of

SEARCHED = "test_no_replacement_moves_the_mean_further_than_said_and_one_gets_there"
NEIGHBOURS = "test_other_neighbours_change_other_amounts"
DRAWN = "test_noise_is_drawn_as_declared"
LEAVES = "test_all_leaves_are_declared_together_and_drawn_apart"
BOUNDED = "test_bounded_noise_stays_in_bounds_and_is_squeezed_as_printed"
STATED = "test_statements_say_who_is_protected"
COSTS = "test_what_a_round_costs_is_what_its_noise_says"
AMPLIFIED = "test_amplification_scales_sensitivity_and_noise_but_not_the_loss"
MEAN = "test_a_mean_over_other_records_than_those_of_a_batch"
REFUSED = "test_nothing_is_drawn_that_the_books_refuse"
DECAYS = "test_noise_that_decays_is_drawn_as_its_round_says"
TOO_SMALL = "test_a_sensitivity_that_is_too_small_is_made_true"
ROUNDED = "test_rounding_is_paid_for_with_noise_and_too_much_of_it_is_refused"
ON_MODEL = "test_a_model_and_what_lies_on_links_are_refused_by_the_releaser"

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
                '_mechanism("laplace", clip, norm, perturbs, adjacency, target)',
                '_mechanism("laplace", clip, norm, perturbs, adjacency, 1 / target)',
                COSTS,
            ),
            (
                "a larger multiplier means less noise",
                "adjacency, 1 / multiplier)",
                "adjacency, multiplier)",
                COSTS,
            ),
            ("decaying noise does not decay", "._replace(decay=ratio)", "", DRAWN),
            (
                "the bound of bounded noise lacks its square",
                "width = math.log(rounds) ** 2",
                "width = math.log(rounds)",
                BOUNDED,
            ),
            ("the squeezed gradient is not normalised", "(leaf / safe).astype(leaf.dtype)", "leaf", BOUNDED),
            ("the statement's adjacency is not the caller's", "        adjacency=relation,\n", "", STATED),
        ],
    ),
    *of(
        "core/checks.py",
        "tests/privacy/test_mechanisms.py",
        [
            (
                "a clip of infinity is taken",
                "0 < found < math.inf and found <= most",
                "0 < found <= most",
                "test_nonsense_is_refused",
            )
        ],
    ),
    *of(
        "core/mechanism.py",
        "tests/privacy/test_mechanisms.py",
        [
            (
                "what a method makes of a gradient does not count",
                "sensitivity=lambda view, extent: jnp.abs(gain(view)) * sensitivity(view, extent)",
                "sensitivity=sensitivity",
                AMPLIFIED,
            ),
            ("a step backwards costs nothing", "jnp.abs(gain(view))", "gain(view)", AMPLIFIED),
            (
                "a larger ratio means more noise",
                "scale = sensitivity * (self.gain / self.ratio)",
                "scale = sensitivity * (self.gain * self.ratio)",
                COSTS,
            ),
            (
                "noise grows over the rounds",
                "jnp.exp(math.log(self.decay) / 2 * (view",
                "jnp.exp(-math.log(self.decay) / 2 * (view",
                COSTS,
            ),
            (
                "the variance's decay is taken for the noise's",
                "jnp.exp(math.log(self.decay) / 2 * (view",
                "jnp.exp(math.log(self.decay) * (view",
                COSTS,
            ),
            ("decay begins in the first round", "(view.round - 1).astype", "(view.round - 0).astype", COSTS),
            ("what decays is booked a round late", "/ 2 * (round_ - 1))", "/ 2 * (round_ - 2))", COSTS),
            (
                "what decays is booked as if it grew",
                "math.exp(-math.log(self.decay)",
                "math.exp(math.log(self.decay)",
                COSTS,
            ),
            (
                "what decays is booked as if it stayed",
                " * math.exp(-math.log(self.decay) / 2 * (round_ - 1))",
                "",
                COSTS,
            ),
            (
                "the variance's decay is booked",
                "-math.log(self.decay) / 2 * (round_ - 1)",
                "-math.log(self.decay) * (round_ - 1)",
                COSTS,
            ),
            (
                "a mean over other records is divided by the batch too",
                "sensitivity(view, extent._replace(records=1)) / records",
                "sensitivity(view, extent) / records",
                MEAN,
            ),
            (
                "a mean over other records is divided by none",
                "extent._replace(records=1)) / records(view, extent)",
                "extent._replace(records=1))",
                MEAN,
            ),
            (
                "a mean over other records is taken for one over a batch",
                "_replace(sensitivity=of_mean, mean_over=records, apart=apart)",
                "_replace(sensitivity=of_mean)",
                MEAN,
            ),
            (
                "records help a whole data set",
                'if sensitivity is None or self.adjacency == "dataset":',
                "if sensitivity is None:",
                MEAN,
            ),
        ],
    ),
    *of(
        "privacy/draws.py",
        "tests/privacy/test_mechanisms.py",
        [
            ("no noise is added", "return leaf + drawn", "return leaf", DRAWN),
            (
                "a link that is down gets a copy of its own",
                "if slots:  #",
                "if False:  #",
                "tests/test_leaks.py::test_a_link_that_is_down_brings_no_copy_beyond_those_that_are_charged",
            ),
            ("every leaf gets the noise of the first", "(words, k, slots", "(words, 0, slots", LEAVES),
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
        "runtime/calls.py",
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
        "peer/machine/releases.py",
        "tests/peer/test_releases.py",
        [
            ("a seeded source is taken", "if source.predictable:", "if False:", "test_a_seeded_source_is_refused"),
            (
                "what has no data is charged",
                "        if not spec.from_data:\n            return value, memory\n",
                "",
                "test_what_does_not_depend_on_data_leaves_as_it_is_and_is_not_booked",
            ),
            ("whatever has data leaves as it is", "if not spec.from_data:", "if spec.from_data:", REFUSED),
            (
                "a whole model leaves",
                '(mechanism.perturbs == "model" or mechanism.per_slot)',
                "mechanism.per_slot",
                ON_MODEL,
            ),
            (
                "what lies on links leaves",
                '(mechanism.perturbs == "model" or mechanism.per_slot)',
                'mechanism.perturbs == "model"',
                ON_MODEL,
            ),
            (
                "noise is drawn before the charge",
                "        return self.ledger.release(name, event, lambda: self._noisy(event, scale * (1 + share), value))",
                "        noisy = self._noisy(event, scale * (1 + share), value)\n"
                "        return self.ledger.release(name, event, lambda: noisy)",
                REFUSED,
            ),
            (
                "nothing is charged",
                "return self.ledger.release(name, event, lambda: self._noisy(event, scale * (1 + share), value))",
                "return self._noisy(event, scale * (1 + share), value)",
                REFUSED,
            ),
            (
                "what has no noise is not charged",
                "if not spec.from_data:",
                "if not spec.from_data or declared is None:",
                REFUSED,
            ),
            ("what was cut is not counted", "        self.cut += cut\n", "", "test_what_was_cut_is_counted"),
            (
                "noise is half as wide as booked",
                "distribution, scale, self.source",
                "distribution, scale / 2, self.source",
                "test_released_values_lie_on_the_grid_and_have_the_declared_spread",
            ),
            (
                "the bound is not in units of the scale",
                "event.bound * scale",
                "event.bound",
                "test_bounded_noise_has_its_bound_in_units_of_its_scale",
            ),
            (
                "rounding is not paid for",
                "self._noisy(event, scale * (1 + share), value)",
                "self._noisy(event, scale, value)",
                ROUNDED,
            ),
            ("a batch rounds as one record does", "rounding(spec.records, value)", "rounding(1, value)", ROUNDED),
            (
                "rounding grows with the batch, not with its square",
                "records * (records + 2) + 8",
                "(records + 2) + 8",
                ROUNDED,
            ),
            (
                "whatever rounds is taken",
                'if share > LARGEST_ROUNDING:\n        raise PrivacyError(\n            f"a mean',
                'if False:\n        raise PrivacyError(\n            f"a mean',
                ROUNDED,
            ),
            (
                "calibrated noise is drawn at a rounded scale",
                "return sensitivity, sensitivity / ratio",
                "return sensitivity, float(declared.scale)",
                DECAYS,
            ),
            (
                "calibrated noise is that of the first round",
                "float(declared.sensitivity), mechanism.ratio_in(round_)",
                "float(declared.sensitivity), mechanism.ratio_in(1)",
                DECAYS,
            ),
        ],
    ),
    *of(
        "peer/machine/functions.py",
        "tests/peer/test_enforcement.py",
        [
            (
                "a peer lets out what it computed",
                "if declared is None:",
                "if True:",
                TOO_SMALL,
            ),
            (
                "a peer does not tell what was cut",
                "value, held, bool(cut), memory)",
                "value, held, False, memory)",
                TOO_SMALL,
            ),
            (
                "a peer computes one record with the batch",
                "key, state, record, view)[1]",
                "key, state, batch, view)[1]",
                TOO_SMALL,
            ),
            (
                "every round is the first to a peer",
                "self.specs[index].release, int(view.round)",
                "self.specs[index].release, 1",
                "tests/contract/test_accounts.py::test_who_is_called_and_who_is_there_is_charged",
            ),
        ],
    ),
    *of(
        "algorithms/schedules.py",
        "tests/algorithms/test_diffusion.py",
        [
            (
                "steps backwards undo what steps forwards cost",
                "jnp.abs(schedule(k))",
                "schedule(k)",
                "test_a_step_backwards_is_charged_like_one_forwards",
            ),
        ],
    ),
    *of(
        "algorithms/mirror/_duals.py",
        "tests/test_data_flow.py",
        [
            (
                "a dual made of data composes in parallel",
                'dual == "private" and kinds.reading is not None',
                "False",
                "test_a_private_dual_may_not_be_said_to_compose_in_parallel",
            ),
            (
                "a batch hides what a dual made of data does",
                "noise.for_whole_batch() if data_in_dual else",
                "",
                "test_a_dual_moves_all_records_of_a_batch_by_no_more_than_is_declared",
            ),
            (
                "constraints that read data are taken for free ones",
                "for reads in (True, False)",
                "for reads in (False, True)",
                "test_a_private_dual_may_not_be_said_to_compose_in_parallel",
            ),
        ],
    ),
    *of(
        "algorithms/mirror/_observations.py",
        "tests/algorithms/test_mirror_references.py",
        [
            (
                "the loss is not clipped where no constraint reads data",
                "gradient = _mean(jax.grad(data), clip)",
                "gradient = _mean(jax.grad(data), None)",
                "test_a_queue_of_what_reads_no_data_pulls_as_it_is",
            ),
        ],
    ),
)
