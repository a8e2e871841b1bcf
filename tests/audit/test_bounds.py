"""The statistics of an audit, on draws of which everything is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.audit import attack
from tacit.audit.bounds import Trials, at_least, at_most, epsilon_at_least, strongest, tried
from tacit.privacy.conversions import gaussian_epsilon


@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (10, 10), (37, 100), (499, 100_000)])
def test_clopper_pearson_agrees_with_scipy(k, n):
    both = stats.binomtest(k, n).proportion_ci(confidence_level=0.99, method="exact")
    assert float(at_least(k, n, 0.005)) == pytest.approx(both.low, rel=1e-9, abs=1e-15)
    assert float(at_most(k, n, 0.005)) == pytest.approx(both.high, rel=1e-9)


def test_epsilon_from_counts():
    low, high = float(at_least(600, 1000, 0.0005)), float(at_most(200, 1000, 0.0005))
    right, wrong = (1000, 600), (1000, 200)
    assert epsilon_at_least(right, wrong, 0.0, 0.001, "epsilon-delta") == pytest.approx(math.log(low / high))
    assert epsilon_at_least(right, wrong, 0.1, 0.001, "epsilon-delta") == pytest.approx(math.log((low - 0.1) / high))
    mu = stats.norm.ppf(low) - stats.norm.ppf(high)
    assert epsilon_at_least(right, wrong, 1e-5, 0.001, "gaussian") == pytest.approx(gaussian_epsilon(mu, 1e-5))


@pytest.mark.parametrize("curve", ["epsilon-delta", "gaussian"])
@pytest.mark.parametrize(("right", "wrong"), [((100, 20), (100, 60)), ((100, 0), (100, 0)), ((100, 100), (100, 100))])
def test_a_test_that_is_no_better_than_chance_shows_nothing(right, wrong, curve):
    assert epsilon_at_least(right, wrong, 1e-5, 0.001, curve) == 0


def found(scores, other, **settings):
    n = len(other)
    defaults = {"delta": 0.0, "alpha": 0.001, "curves": ("epsilon-delta",)}
    groups = settings.pop("groups", {"all": np.ones(n, bool)})
    chosen_on = np.arange(n) % 2 == 0
    trials, given = Trials(scores, groups, other, chosen_on, ~chosen_on), {**defaults, **settings}
    test, _ = strongest(trials, **given)
    return tried(test, trials, delta=given["delta"], alpha=given["alpha"])


def randomised_response(rng, epsilon, n):
    """Tells the truth with probability e^eps / (1 + e^eps): exactly eps-private, and a score that says so."""
    other = rng.random(n) < 0.5
    honest = rng.random(n) < 1 / (1 + math.exp(-epsilon))
    return other, np.where(other == honest, -1.0, 1.0)


def test_the_bound_is_below_the_truth_as_often_as_it_says():
    """Coverage 90 %: of 400 audits, more than 60 wrong ones have probability below 1e-3 even at exactly 10 %."""
    rng = np.random.default_rng(0)
    assert stats.binom.sf(60, 400, 0.1) < 1e-3
    bounds = []
    for _ in range(400):
        other, score = randomised_response(rng, 1.0, 400)
        bounds.append(found({"answer": score}, other, alpha=0.1).epsilon)
    wrong = sum(b > 1.0 for b in bounds)
    assert wrong <= 60
    assert wrong >= 1  # it is a bound at 90 %, not one that never fails: P(0 wrong) < 1e-3 at a rate of 1.7 %
    assert np.mean(bounds) > 0.5


def test_gaussian_draws_are_bounded_better_by_their_own_curve():
    rng = np.random.default_rng(1)
    other = rng.random(20_000) < 0.5
    score = rng.normal(size=20_000) - other  # mu = 1
    plain = found({"score": score}, other, delta=1e-5)
    curve = found({"score": score}, other, delta=1e-5, curves=("epsilon-delta", "gaussian"))
    assert curve.test.curve == "gaussian"
    assert 1.2 * plain.epsilon < curve.epsilon < gaussian_epsilon(1.0, 1e-5)
    assert curve.epsilon > 0.8 * gaussian_epsilon(1.0, 1e-5)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_best_statistic_group_and_direction_are_found(sign):
    rng = np.random.default_rng(2)
    other, answer = randomised_response(rng, 2.0, 8000)
    late = np.arange(8000) % 4 < 2  # both halves of the trials have some
    scores = {"noise": rng.normal(size=8000), "answer": sign * np.where(late, answer, rng.normal(size=8000))}
    result = found(scores, other, groups={"all": np.ones(8000, bool), "late": late, "early": ~late})
    assert (result.test.statistic, result.test.group) == ("answer", "late")
    assert 1.5 < result.epsilon < 2.0
    assert result.right[0] + result.wrong[0] == 2000


def test_the_half_on_which_a_test_is_chosen_is_not_counted():
    """A score that is perfect on the first half and random on the other shows nothing."""
    rng = np.random.default_rng(3)
    other = rng.random(4000) < 0.5
    chosen_on = np.arange(4000) % 2 == 0
    score = np.where(chosen_on, np.where(other, -1.0, 1.0), rng.choice([-1.0, 1.0], 4000))
    assert found({"overfitted": score}, other).epsilon == 0


def test_likelihood_ratio_is_that_of_the_densities():
    rng = np.random.default_rng(4)
    residuals = rng.normal(size=(5, 2, 3, 2))
    scales = rng.uniform(0.5, 2, size=(5, 3))
    residuals[:, :, 2, 1] = np.nan
    ratio = attack.likelihood(residuals / scales[:, None, :, None], ["laplace", "gaussian", None])
    b, sigma = scales[:, None, 0, None], scales[:, None, 1, None]
    logs = stats.laplace.logpdf(residuals[:, :, 0], scale=b) + stats.norm.logpdf(residuals[:, :, 1], scale=sigma)
    total = logs.sum(axis=-1)
    np.testing.assert_allclose(ratio, total[:, 0] - total[:, 1], rtol=1e-10)


def test_noise_that_repeats_under_one_hypothesis_counts_for_it():
    fresh = np.array([[[0.3, -1.2, 0.7], [0.3, -0.2, 0.7]]])
    reused = np.array([[[0.3, 0.3, 0.3], [0.3, 1.3, 0.3]]])
    nothing = np.zeros((1, 0))
    assert abs(attack.repeated_noise(fresh, nothing)[0]) < 5
    assert attack.repeated_noise(reused, nothing)[0] > 25
    assert attack.repeated_noise(reused[:, ::-1], nothing)[0] < -25
    assert attack.repeated_noise(fresh, np.array([[1.2]]))[0] > 10  # a neighbour's, with its sign turned
    missing = np.where(np.arange(3) == 1, np.nan, reused)
    assert attack.repeated_noise(missing, nothing)[0] == 0


def learnt(make):
    """Noise of 4,000 trials with a change of 1 in the first of three draws; a half is learnt from."""
    rng = np.random.default_rng(6)
    other = rng.random(4000) < 0.5
    noise = make(rng)
    away = np.where(other, 1.0, -1.0)[:, None] * np.array([1.0, 0.0, 0.0])
    unit = np.where(other[:, None, None], np.stack([noise + away, noise], 1), np.stack([noise, noise - away], 1))
    return unit, other, np.arange(4000) % 2 == 0


def test_noise_that_follows_from_other_noise_is_learnt():
    def cancelling(rng):
        one, two = rng.normal(size=(2, 4000))
        return np.stack([one, two, -(one + two) / np.sqrt(2)], 1)

    unit, other, part = learnt(cancelling)
    score = attack.correlated_noise(unit, np.zeros((4000, 0)), other, part)
    assert np.all((score < 0) == other)
    unit, other, part = learnt(lambda rng: rng.normal(size=(4000, 3)))
    score = attack.correlated_noise(unit, np.zeros((4000, 0)), other, part)
    np.testing.assert_allclose(score, attack.likelihood(unit[..., None], ["gaussian"] * 3), atol=0.6)
    assert not attack.correlated_noise(unit, np.zeros((4000, 0)), other, part & False).any()


def test_noise_in_whole_steps_is_familiar():
    unit, other, part = learnt(lambda rng: np.round(3 * rng.normal(size=(4000, 3))) / 3 + 0.1)
    shifted = unit + np.where(np.stack([other, ~other], 1), 0.05, 0.0)[:, :, None]
    score = attack.familiar_noise(shifted, other, part)[~part]
    assert np.mean((score < 0) == other[~part]) > 0.99
    unit, other, part = learnt(lambda rng: rng.laplace(size=(4000, 3)))
    score = attack.familiar_noise(unit, other, part)[~part]
    assert np.mean((score < 0) == other[~part]) < 0.65  # no more than what is seen of their density


def test_the_odds_of_a_yes_bound_epsilon_as_often_as_they_say():
    """Coverage 90 % where a fair coin chose the data sets, as for the two probabilities above."""
    rng = np.random.default_rng(7)
    bounds = []
    for _ in range(400):
        other, score = randomised_response(rng, 1.0, 400)
        bounds.append(found({"answer": score}, other, alpha=0.1, curves=("odds",)).epsilon)
    wrong = sum(b > 1.0 for b in bounds)
    assert 1 <= wrong <= 60
    low = float(at_least(600, 800, 0.001))
    assert epsilon_at_least((1000, 600), (1000, 200), 0.0, 0.001, "odds") == pytest.approx(math.log(low / (1 - low)))


def test_an_impossible_message_counts_for_the_other_hypothesis():
    leaks = np.array([[False, True], [True, False], [False, False]])
    np.testing.assert_array_equal(attack.impossible_message(leaks), [1, -1, 0])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("world", [True, False])
def test_a_rare_event_on_either_side_of_either_data_set_is_found(sign, world):
    rng = np.random.default_rng(5)
    other = rng.random(8000) < 0.5
    event = (other == world) & (rng.random(8000) < 0.1)  # it never happens under the other hypothesis
    assert found({"score": np.where(event, 3.0 * sign, 0.0)}, other).epsilon > 2.5
