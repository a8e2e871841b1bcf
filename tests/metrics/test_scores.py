"""Scores against values that were computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.metrics import calibration_error, classification_scores, regression_scores

# Four rows of class 0, two of class 1. Scores above 0 say 1: rows 2 (wrong) and 4 (right); row 5 is missed.
TRUTH = np.array([0, 0, 0, 0, 1, 1])
SAID = np.array([-2.0, -1.0, 0.5, -3.0, 1.0, -0.5])
SURE = np.array([0.1, 0.2, 0.7, 0.05, 0.8, 0.4])


def test_scores_of_two_classes() -> None:
    found = classification_scores(TRUTH, SAID, np.stack([1 - SURE, SURE], axis=1))
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["balanced accuracy"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert found["F1"] == pytest.approx(0.5)  # precision 1/2, recall 1/2
    assert found["ROC AUC"] == pytest.approx(7 / 8)  # of 2 x 4 pairs one is the wrong way round
    given = [0.9, 0.8, 0.3, 0.95, 0.8, 0.4]
    assert found["log loss"] == pytest.approx(-sum(map(math.log, given)) / 6)
    # Each in a bin of its own, but for none: distances 0.1, 0.2, 0.7, 0.05, 0.2, 0.6 over 6 rows.
    assert found["calibration error"] == pytest.approx((0.1 + 0.2 + 0.7 + 0.05 + 0.2 + 0.6) / 6)


def test_scores_of_three_classes_are_means_over_them() -> None:
    truth = np.array([0, 0, 1, 2])
    said = np.log(np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]]))
    found = classification_scores(truth, said, np.exp(said))
    assert found["accuracy"] == 0.75
    assert found["balanced accuracy"] == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert found["F1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)  # precisions 1, 1/2, 1; recalls 1/2, 1, 1
    # Class 0: scores .5 .2 of its own against .1 .3: 3 of 4 pairs. Class 1: .8 is above all. Class 2: .6 as well.
    assert found["ROC AUC"] == pytest.approx((3 / 4 + 1 + 1) / 3)
    assert found["log loss"] == pytest.approx(-math.log(0.5 * 0.2 * 0.8 * 0.6) / 4)
    # Sure by .5, .5 (one bin: 1.0 against one right), .8 and .6.
    assert found["calibration error"] == pytest.approx((0.0 + 0.2 + 0.4) / 4)


def test_rows_are_ranked_by_probabilities_where_there_are_some() -> None:
    """Adding a number to all scores of a row changes no probability, and no area."""
    truth, said = np.array([0, 1, 2, 0]), np.array([[2.0, 0, 0], [0, 2, 0], [0, 0, 2], [1, 0, 0]])
    sure = np.exp(said) / np.exp(said).sum(axis=1, keepdims=True)
    shifted = said + np.array([[0.0], [5.0], [-5.0], [9.0]])
    assert classification_scores(truth, shifted, sure)["ROC AUC"] == 1.0


def test_classes_that_do_not_occur_are_no_failure() -> None:
    truth = np.array([0, 2, 2, 0])
    assert classification_scores(truth, np.eye(5)[truth])["F1"] == 1
    # Class 3 is said of a row of class 2, and nothing else is of it: 1, 2/3 and 0.
    assert classification_scores(truth, np.eye(5)[[0, 2, 3, 0]])["F1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_scores_of_numbers() -> None:
    found = regression_scores(np.array([1.0, 2.0, 6.0]), np.array([2.0, 2.0, 4.0]))
    assert found["RMSE"] == pytest.approx(math.sqrt(5 / 3))
    assert found["MAE"] == pytest.approx(1.0)
    assert found["R2"] == pytest.approx(1 - 5 / 14)


def test_what_has_no_value_is_nan_and_no_warning() -> None:
    ones = classification_scores(np.ones(3, int), np.array([1.0, -1.0, 2.0]))
    assert ones["accuracy"] == pytest.approx(2 / 3)
    assert math.isnan(ones["ROC AUC"])
    assert math.isnan(ones["log loss"])
    assert math.isnan(regression_scores(np.ones(1), np.ones(1))["R2"])
    diverged = classification_scores(np.array([0, 1]), np.array([np.nan, 1.0]))
    assert all(map(math.isnan, diverged.values()))
    assert all(map(math.isnan, regression_scores(np.zeros(0), np.zeros(0)).values()))


def test_a_certain_and_wrong_prediction_is_not_infinite() -> None:
    found = classification_scores(np.array([0, 1]), np.array([9.0, 9.0]), np.array([[0.0, 1.0], [0.0, 1.0]]))
    assert 10 < found["log loss"] < 40


def test_calibration_counts_bins_by_their_rows() -> None:
    happened = np.array([True, False, False, False, True])
    assert calibration_error(happened, np.array([0.25, 0.25, 0.25, 0.25, 0.5])) == pytest.approx(0.5 / 5)
    assert calibration_error(happened[:1], np.ones(1)) == 0
