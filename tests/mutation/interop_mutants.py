"""Faults in the wrappers of other libraries: what waits, what is weighed, what is charged."""

from __future__ import annotations

from tests.mutation.mutant import of

MUTANTS = (
    *of(
        "interop/compiled_agent.py",
        "tests/interop/test_many.py",
        [
            (
                "private samples wait, with simulated noise",
                "return plain and not algorithm.privacy.private",
                "return True",
                "test_nothing_private_waits",
            ),
            (
                "the queue is learnt but for its last sample",
                "self._table[QUEUE, -1] = self._waiting",
                "self._table[QUEUE, -1] = self._waiting - 1",
                "test_waiting_cannot_be_seen",
            ),
            (
                "a full queue is forgotten",
                "if self._waiting == QUEUE:\n                self._learn_queue()",
                "if self._waiting == QUEUE:\n                self._new_table()",
                "test_waiting_cannot_be_seen",
            ),
        ],
    ),
    *of(
        "interop/online_learner.py",
        "tests/interop/test_many.py",
        [
            (
                "a private learner is copied without its account",
                "elif agent is not None:",
                "elif False:",
                "test_nothing_private_waits",
            ),
        ],
    ),
    *of(
        "interop/weights.py",
        "tests/interop/test_weights.py",
        [
            (
                "classes of all rows are counted in spite of noise",
                'COUNTED = Learnt("class_weight", "how often each class occurs",',
                'COUNTED = Learnt("class_weight", "how often each class occurs", public=True, remedy=',
                "test_weights_of_classes",
            ),
            (
                "a mean by weights, in which that of one record cancels",
                "jnp.sum(values) / jnp.maximum(jnp.sum(there), 1)",
                "jnp.sum(values) / jnp.maximum(jnp.sum(jnp.where(there, batch.importance, 0)), 1)",
                "test_weights_of_rows",
            ),
        ],
    ),
    *of(
        "interop/peer_estimator.py",
        "tests/interop/test_weights.py",
        [
            (
                "a row of weight 0 leaves its place in spite of noise",
                "if weight is not None and not self._noisy:",
                "if weight is not None:",
                "test_with_noise_a_weight_is_the_records_own_business",
            ),
            (
                "every call draws the same noise",
                "seed = self._prepared(x), int(self.random_state) + self._calls",
                "seed = self._prepared(x), int(self.random_state)",
                "test_what_later_rows_cost",
            ),
            (
                "the last call alone is charged",
                "self.privacy_ = added_up(spent, self.run_.privacy)",
                "self.privacy_ = self.run_.privacy",
                "test_what_later_rows_cost",
            ),
            (
                "costs add up over other noise",
                'if hasattr(self, "models_") and self._begun != (self.algorithm, self._noise_given):',
                "if False:",
                "test_what_later_rows_cost",
            ),
        ],
    ),
)
