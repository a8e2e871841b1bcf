"""The flow of data through a method: what its traces show, and what is refused."""

from __future__ import annotations

from tests.mutation.mutant import of

FLOW = "tests/test_data_flow.py::"
PROGRAMS = FLOW + "test_dependence_is_found_in_calls_branches_and_loops"
REACH_OUT = "test_what_reaches_out_of_compute_is_refused"
KEPT = FLOW + "test_a_method_that_keeps_data_in_its_state_may_not_claim_parallel_composition"
PUBLIC = "test_data_in_a_public_part_are_refused"
HOMOMORPHIC = "test_homomorphic_noise_does_not_compose_in_parallel"
ROUNDS = "test_what_is_hidden_and_handed_on_within_the_state_is_followed_over_the_rounds"

MUTANTS = of(
    "runtime/data_flow.py",
    "tests/test_leaks.py",
    [
        ("an operation passes nothing on", "return [reduce(or_, given, 0)]", "return [0]", PROGRAMS),
        ("who chooses a branch does not count", "reduce(or_, found, given[0])", "reduce(or_, found, 0)", PROGRAMS),
        ("what ends a loop does not count", "[goes_on | found for", "[found for", PROGRAMS),
        ("a loop goes round once", "        carry = after\n", "        return after\n", PROGRAMS),
        ("what a scan leaves is passed over", "carry + results(carry)[second", "carry + results([0] * len(carry))[second", PROGRAMS),
        ("calls are not looked into", "if name in _CALLS:", "if False:", PROGRAMS),
        ("effects are passed over", "if operation.effects or not (", "if not (", "test_a_reference_that_outlives_the_functions_is_refused"),
        ("every operation is known", "primitive in _public_operations()", "True", REACH_OUT),
        ("only names are looked at", "primitive in _public_operations()", "primitive.name in {p.name for p in _public_operations()}", "test_an_operation_that_jax_does_not_know_is_refused"),
        ("inner programs are passed over", "            if inside is not None:\n", "            if False:\n", REACH_OUT),
        ("values left in Python are passed over", "isinstance(value, jax.core.Tracer)", "False", "test_data_that_leave_by_way_of_python_are_refused"),
        ("what is not followed is free", "self.foreign is not None or bool(", "bool(", "test_what_a_reference_hides_is_charged_where_nothing_is_promised"),
        ("data are free", "batch=learns)", "batch=False)", KEPT),
        ("everything depends on data", "init.follow()", "init.follow(params=True)", FLOW + "test_what_does_not_depend_on_data_is_free"),
        ("what emit keeps is forgotten", "held[phase.source] = _either(held[phase.source], flow.emitted)", "pass", "test_what_absorb_clears_stays_with_whoever_leaves_the_phase_out"),
        ("what absorb keeps is forgotten", "held[phase.target] = _either(held[phase.target], flow.absorbed)", "pass", ROUNDS),
        ("one round is looked at", "        if jax.tree.leaves(held) == jax.tree.leaves(before):\n", "        if True:\n", ROUNDS),
        ("the copy that stays has its noise", 'if phase.mechanism.spread == "homomorphic":', "if False:", HOMOMORPHIC),
        ("that copy may leave", 'if mechanism.spread == "homomorphic" and', "if False and", "test_a_neighbour_may_not_get_the_copy_that_is_the_agents_own"),
        ("parallel composition is believed", 'if method.algorithm.privacy.composition == "parallel":', "if False:", KEPT),
        ("messages are not looked at", "    _check_outbox(method, index, flow)\n", "", "test_emit_may_not_send_what_compute_hid_under_an_empty_value"),
        ("addresses are not looked at", "        if marked:\n            origins = emit.origins(first + k, state=flow.computed)\n", '        if marked and path != ".to":\n            origins = emit.origins(first + k, state=flow.computed)\n', "test_whom_data_address_is_refused"),
        ("public parts are not looked at", "    _flows(method, through_releases=True, check=_check_public)\n", "", PUBLIC),
        ("public parts may be made of releases", "_flows(method, through_releases=True, check=_check_public)", "_flows(method, check=_check_public)", PUBLIC),
        ("a preparation may reach out", "if algorithm.prepare is not None and algorithm.privacy.private:", "if False:", "test_the_simulator_refuses_a_preparation_that_reaches_out"),
        ("nothing is refused", "if not method.algorithm.privacy.private:", "if True:", REACH_OUT),
        ("everything is refused", "if not method.algorithm.privacy.private:", "if False:", "test_nothing_is_refused_where_nothing_is_promised"),
    ],
)  # fmt: skip
