from __future__ import annotations

import numpy as np
import pytest

from tacit.core.errors import DataError
from tacit.streams import from_arrays
from tacit.streams.validate import Origin, check_assignment, check_features, check_labels

GOOD = np.ones((6, 3))
LABELS = np.array([0, 1, 0, 1, 0, 1])


def broken(row: int, column: int, value: float) -> np.ndarray:
    x = GOOD.copy()
    x[row, column] = value
    return x


@pytest.mark.parametrize(
    ("value", "fault"),
    [(np.nan, r"is missing \(NaN\)"), (np.inf, "is inf"), (-np.inf, "is -inf"), (1e300, r"is 1e\+300")],
)
def test_a_bad_feature_is_named_with_row_and_column(value, fault) -> None:
    with pytest.raises(DataError, match=rf"row 4 .*from 0.*column 2: the value {fault}"):
        from_arrays(broken(4, 2, value), LABELS, [np.arange(6)])


def test_a_named_column_is_named() -> None:
    origin = Origin("table", ("a", "b", "c"), "label", "line {}".format)
    with pytest.raises(DataError, match="table, line 4, column 'c': .*missing"):
        check_features(broken(4, 2, np.nan), origin)


def test_a_bad_pixel_is_named_by_its_position() -> None:
    images = np.zeros((2, 4, 5))
    images[1, 3, 2] = np.nan
    with pytest.raises(DataError, match=r"row 1 .*column \(3, 2\): .*missing"):
        check_features(images)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(4), r"shape \(4,\); expected \(rows, columns\), so reshape one column by x\[:, None\]"),
        (np.array([["a"], ["b"]]), r"features of type <U1 are not numbers; encode text"),
        (np.zeros((0, 3)), r"shape \(0, 3\) hold nothing"),
        (np.zeros((3, 0)), r"shape \(3, 0\) hold nothing"),
    ],
)
def test_features_of_the_wrong_kind_are_refused(x, message) -> None:
    with pytest.raises(DataError, match=message):
        check_features(x)


@pytest.mark.parametrize("given", [[0, 1, 1, 0], [-1, 1, 1, -1], [False, True, True, False], [0.0, 1.0, 1, 0]])
def test_binary_labels_become_signs(given) -> None:
    labels = check_labels(np.array(given), 4)
    assert labels.dtype == np.float32
    np.testing.assert_array_equal(labels, [-1, 1, 1, -1])


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        (
            [0, 1, 2],
            "binary",
            r"row 2 .*, column y: label 2; expected -1/\+1 or 0/1: map .* task='multiclass'",
        ),
        ([0.5, 1, 0], "binary", r"row 0 .*, column y: label 0.5; expected"),
        ([1, -1, 0], "binary", r"row 2 .*: label 0, but labels before it are of the other kind"),
        ([0, 1, -1], "binary", r"row 2 .*: label -1, but labels before it are of the other kind"),
        ([0, np.nan, 1], "binary", r"row 1 .*, column y: the value is missing"),
        ([0, 1, -1], "multiclass", r"row 2 .*, column y: label -1; expected a class 0, 1, 2"),
        ([0, 1.5, 1], "multiclass", r"row 1 .*, column y: label 1.5; expected a class"),
        ([0, 1.5, np.inf], "regression", r"row 2 .*, column y: the value is inf"),
        ([0, 1e39, 1], "regression", r"row 1 .*, column y: the value is 1e\+39"),
        (["yes", "no", "no"], "binary", r"row 0 .*, column y: label .*yes.* is not a number; map the labels"),
        ([[0], [1], [1]], "binary", r"shape \(3, 1\) for 3 rows; expected \(3,\)"),
        ([0, 1], "binary", r"shape \(2,\) for 3 rows"),
    ],
)
def test_bad_labels_are_named_with_their_row(y, task, message) -> None:
    with pytest.raises(DataError, match=message):
        from_arrays(np.zeros((3, 2)), y, [[0], [1], [2]], task=task)


def test_other_tasks_keep_their_labels() -> None:
    classes = check_labels([0, 3, 2], 3, "multiclass")
    assert classes.dtype == np.int32
    np.testing.assert_array_equal(classes, [0, 3, 2])
    targets = check_labels([0.5, -3, 2], 3, "regression")
    assert targets.dtype == np.float32
    np.testing.assert_array_equal(targets, [0.5, -3, 2])


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ([], "the assignment is empty"),
        ([[0], [], [1]], "agent 1 has no samples; .* each of the 3 agents: use fewer agents"),
        ([[0], [1], [2], [3], [4]], "4 samples for 5 agents; .*: use fewer agents"),
        ([[0, 1], [2, 4]], "assignment of agent 1: row 4; expected rows 0 to 3"),
        ([[0, -1], [2]], "assignment of agent 0: row -1; expected rows 0 to 3"),
        ([[0, 1], [1, 2]], r"row 1 is assigned 2 times \(agents 0, 1\); expected one holder"),
        ([[0.5], [1]], "assignment of agent 0: float64 of shape"),
        ([0, 1, 1], r"shape \(3,\) for 4 rows; expected one whole agent id per row"),
        ([0.0, 1, 1, 0], "float64 of shape"),
        ([0, 1, -1, 0], "assignment of row 2: agent -1; expected ids"),
        ([0, 2, 2, 0], "agent 1 has no samples"),
        ([0, 9, 1, 1], r"4 samples for 10 agents \(the largest id is 9\).*without gaps"),
    ],
)
def test_a_bad_assignment_is_refused(assignment, message) -> None:
    with pytest.raises(DataError, match=message):
        check_assignment(assignment, 4)


def test_an_assignment_is_laid_out_agent_after_agent() -> None:
    rows, starts = check_assignment([1, 0, 1, 2], 4)
    assert (rows.tolist(), starts.tolist()) == ([1, 0, 2, 3], [0, 1, 3, 4])
