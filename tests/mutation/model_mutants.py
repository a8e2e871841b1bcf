"""Faults in models that are handed on: what a file may claim, and what a card may tell."""

from __future__ import annotations

from tests.mutation.mutant import of

LIES = "test_headers_that_lie_are_refused"
CARDS = "test_cards_that_do_not_fit_are_refused"
PROMISE = "test_privacy_in_the_card_is_that_of_the_account"
FILES = "tests/models/test_files.py"

MUTANTS = (
    *of(
        "models/tensor_file.py",
        FILES,
        [
            ("arrays may overlap", "        if start != end:\n", "        if False:\n", LIES),
            (
                "a file may have bytes of nothing",
                "    if end != len(data):\n",
                "    if end > len(data):\n",
                "test_what_is_no_file_of_arrays_is_refused",
            ),
            (
                "numbers that are not finite pass",
                "        array = np.frombuffer(data[start:stop], dtype).reshape(shape)\n"
                "        if not np.isfinite(array).all():",
                "        array = np.frombuffer(data[start:stop], dtype).reshape(shape)\n        if False:",
                "test_numbers_that_are_not_finite_are_refused",
            ),
            (
                "a name may come twice",
                "if len(found) < len(pairs):",
                "if False:",
                "test_what_is_no_file_of_arrays_is_refused",
            ),
            ("truths pass for sizes", "type(number) is int and", "isinstance(number, int) and", LIES),
        ],
    ),
    *of(
        "models/files.py",
        FILES,
        [
            ("shapes are not compared", "    if there != wanted:\n", "    if False:\n", CARDS),
            ("an owner may be named twice", "if len(set(card.owners)) < len(card.owners):", "if False:", CARDS),
            (
                "files are overwritten",
                "            os.link(draft, path)",
                "            Path(draft).replace(path)",
                "test_files_are_not_overwritten",
            ),
        ],
    ),
    *of(
        "models/making.py",
        FILES,
        [
            (
                "a model that holds data passes for covered",
                'COVERED if statement.composition == "parallel" else NOT_COVERED',
                "COVERED",
                "test_models_that_hold_what_was_not_released_say_so",
            ),
            (
                "simulated noise passes for noise",
                "covered = SIMULATED if simulated else covered",
                "pass",
                "test_noise_that_follows_from_a_seed_hides_nothing_and_the_card_says_so",
            ),
            (
                "what promises nothing passes for covered",
                "model=covered if private else NOT_PRIVATE",
                "model=covered",
                "tests/deploy/test_peer_model.py::test_a_peer_that_follows_a_file_knows_its_columns",
            ),
        ],
    ),
    *of(
        "results/run_model.py",
        FILES,
        [
            (
                "a private run publishes a hash of its rows",
                "None if run.privacy.statement.private else fingerprint([stream])",
                "fingerprint([stream])",
                PROMISE,
            ),
            (
                "references without noise keep their models",
                "    if run.is_reference:\n",
                "    if False:\n",
                "tests/models/test_predict.py::test_of_references_without_noise_no_model_is_kept",
            ),
        ],
    ),
    *of(
        "deploy/model.py",
        "tests/deploy/test_peer_model.py",
        [
            (
                "the ledger's spending is not in the card",
                "guarantee(found.spent, ",
                "guarantee(Loss(), ",
                "test_the_model_of_a_peer_is_the_one_that_it_predicts_with",
            ),
        ],
    ),
)
