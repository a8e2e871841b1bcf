"""Claims and verdicts: rules, intervals against scipy, how often chance decides, the table of verdicts; and a step's search."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.core.errors import DataError
from tacit_reproduction import verdict as rules
from tacit_reproduction.tuning import LARGEST_STEP, LEAST_STEP, bracket
from tacit_reproduction.verdict import Claim, Pair, Rule, above, below, fact, headline, judged, ordered, verdict, within

SEEDS = 10
JITTER = 0.01 * np.random.default_rng(0).normal(size=(4, SEEDS))
QUIET = settings(derandomize=True, deadline=None, max_examples=200)


def sample(mean: float, k: int = 0) -> np.ndarray:
    return mean + JITTER[k]


@pytest.mark.parametrize("n", [2, 5, 20])
def test_intervals_are_those_of_a_paired_t_test(n: int) -> None:
    rng = np.random.default_rng(n)
    first, second = rng.normal(size=(2, n))
    found, expected = Pair("", first, second).interval, stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose((found.low, found.high), (expected.low, expected.high), rtol=1e-9)
    strict, expected = Pair("", first, 0.5).at(0.99), stats.ttest_1samp(first, 0).confidence_interval(0.99)
    np.testing.assert_allclose((strict.low, strict.high), (expected.low - 0.5, expected.high - 0.5), rtol=1e-9)


@pytest.mark.parametrize(
    ("rule", "difference", "outcome"),
    [
        (below(), -0.1, "holds"), (below(), 0.0, "open"), (below(), 0.1, "fails"),
        (below(-0.2), -0.1, "fails"), (above(0.05), 0.1, "holds"), (above(0.2), 0.1, "fails"),
        (within(0.05), 0.0, "holds"), (within(0.05), 0.05, "open"), (within(0.05), -0.1, "fails"),
    ],
)  # fmt: skip
def test_a_claim_holds_is_open_or_fails_by_its_interval(rule: Rule, difference: float, outcome: str) -> None:
    claim = judged("", Pair("", sample(1 + difference), sample(1.0, 1)), rule)
    assert (claim.outcome, claim.holds) == (outcome, outcome == "holds")


@pytest.mark.parametrize("rule", [below(), above(), within(0.0)])
def test_no_difference_at_all_is_neither_lower_nor_higher(rule: Rule) -> None:
    same = sample(0.5)
    assert judged("", Pair("", same, same), rule).holds == rule.closed


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_or_of_one_seed_or_of_other_seeds_supports_nothing(bad: float) -> None:
    diverged = np.where(np.arange(SEEDS) == 3, bad, sample(0.5))
    for pair in (Pair("", diverged, sample(9.0)), Pair("", sample(0.1), diverged), Pair("", diverged, diverged)):
        assert judged("", [pair, Pair("", sample(0.1), sample(0.9))], below()).outcome == "fails"
    assert judged("", Pair("", np.array([0.1]), np.array([0.9])), below()).outcome == "open"
    with pytest.raises(DataError):
        judged("", Pair("", sample(0.1), np.array([0.9])), below())


def test_all_pairs_have_to_hold_and_any_may_fail() -> None:
    low, high = Pair("l", sample(0.1), sample(0.9)), Pair("h", sample(0.9), sample(0.1))
    even = Pair("e", sample(0.5), sample(0.5, 1))
    assert [judged("", pairs, below()).outcome for pairs in ([low, low], [low, even], [even, high])] == [
        "holds", "open", "fails",
    ]  # fmt: skip
    assert ordered("", [("a", sample(0.1)), ("b", sample(0.2)), ("c", sample(0.3))]).holds
    assert ordered("", [("a", sample(0.1)), ("b", sample(0.3)), ("c", sample(0.2))]).outcome == "fails"


def test_figures_have_means_difference_interval_and_seeds() -> None:
    figure = judged("", Pair("SUSY", np.full(SEEDS, 0.5), np.full(SEEDS, 0.75)), below(), unit=" dB", note="So.").figure
    for part in ("SUSY", "0.5", "0.75 dB", "-0.25 [-0.25, -0.25]", "10 seeds", "So."):
        assert part in figure
    assert rules.shown([1.0, np.nan]) == "diverged for 1 of 2 seeds"


def test_not_worse_tolerates_one_per_cent_and_needs_evidence() -> None:
    second = sample(0.5)
    assert rules.not_worse("", Pair("", second + 0.004, second)).holds
    assert rules.not_worse("", Pair("", second + 0.006, second)).outcome == "fails"
    assert rules.not_worse("", Pair("", second + np.where(np.arange(SEEDS) % 2, 0.1, -0.1), second)).outcome == "open"


def test_slopes_are_those_of_least_squares() -> None:
    values = np.random.default_rng(1).normal(size=(3, 4))
    expected = [np.polyfit([1, 2, 4, 8], row, 1)[0] for row in values]
    np.testing.assert_allclose(rules.slopes((1, 2, 4, 8), values), expected)


@pytest.mark.parametrize("pairs", [1, 4])
@pytest.mark.parametrize(("rule", "edge"), [(below(), 0.0), (above(0.3), 0.3), (within(0.3), 0.3)])
def test_at_the_edge_of_its_range_a_claim_is_decided_by_chance_once_in_forty_at_most(
    rule: Rule, edge: float, pairs: int
) -> None:
    """The stated rates: 2.5 % hold and 2.5 % fail, for any number of pairs; 3,000 sets of seeds."""
    sets = 3000 if pairs == 1 else 1500
    drawn = np.random.default_rng([pairs, round(10 * edge)]).normal(edge, 0.05 if edge else 1.0, (sets, pairs, SEEDS))
    outcomes = [judged("", [Pair("", row) for row in values], rule).outcome for values in drawn]
    most = 0.025 + 3 * np.sqrt(0.025 * 0.975 / sets)
    assert outcomes.count("holds") / sets <= most
    assert outcomes.count("fails") / sets <= most
    # Neither is rare because nothing is ever decided: where one pair is asked both occur as often as is said.
    assert pairs > 1 or min(outcomes.count(one) / sets for one in ("holds", "fails")) >= 0.025 - 3 * np.sqrt(
        0.025 / sets
    )


# -- verdicts ----------------------------------------------------------------------------------------------------------

STATES = {
    "holds": fact("h", True, ""), "likely": Claim("l", False, "", outcome="open", leans=True),
    "unlikely": Claim("u", False, "", outcome="open", leans=False), "fails": fact("f", False, ""),
}  # fmt: skip
RANK = list(STATES)
state = st.sampled_from(RANK)
setting = st.lists(state, min_size=1, max_size=3)


def expected(claims: list[str], sizes: list[list[str]], sweep: list[list[str]]) -> str:
    """The rule once more: the worst claim of a setting is the setting's state, and of these the verdict is read."""
    main, *swept = [max(there, key=RANK.index, default="none") for there in (claims, *sweep)]
    large = {max(there, key=RANK.index) for there in sizes if there}
    states = {main, *swept} - {"none"}
    if states and states <= {"holds", "likely"}:
        if states == {"holds"} >= large:
            return "reproduced"
        return "depends on an open setting" if "holds" in large and len(large) > 1 else "direction only"
    if "holds" in swept:
        return "depends on an open setting"
    return "refuted" if states and (set(swept) or {main}) == {"fails"} else "not tested"


@QUIET
@given(st.lists(state, max_size=3), st.lists(setting, max_size=2), st.lists(setting, max_size=4))
def test_the_verdict_is_that_of_the_rule(claims: list[str], sizes: list[list[str]], sweep: list[list[str]]) -> None:
    large, swept = ({str(k): [STATES[n] for n in there] for k, there in enumerate(of)} for of in (sizes, sweep))
    assert verdict([STATES[one] for one in claims], large, swept) == expected(claims, sizes, sweep)


@QUIET
@given(st.lists(state, min_size=1, max_size=3), st.lists(setting, max_size=3), st.data())
def test_one_claim_that_comes_out_worse_never_betters_the_verdict(claims, sweep, data) -> None:
    """Along "reproduced", "direction only", ..., for the claims themselves and with the sweep as it was."""

    def of(names: list[str]) -> str:
        return verdict(
            [STATES[one] for one in names], {}, {str(k): [STATES[n] for n in s] for k, s in enumerate(sweep)}
        )

    place = data.draw(st.integers(0, len(claims) - 1))
    worse = data.draw(st.sampled_from(RANK[RANK.index(claims[place]) :]))
    order = ["reproduced", "direction only", "depends on an open setting", "not tested", "refuted"]
    assert order.index(of(claims)) <= order.index(of([*claims[:place], worse, *claims[place + 1 :]]))


def test_a_headline_names_what_it_rests_on_and_the_outcome_of_every_setting() -> None:
    found = headline(
        "It is so", place="figure 1", text="", ours="", why="", claims=[STATES["holds"]], size=[STATES["fails"]],
        sweep={"R = 1": [STATES["holds"], STATES["likely"]], "R = 2": [STATES["fails"], STATES["likely"]], "R = 3": []},
    )  # fmt: skip
    assert (found.settings, found.claims) == ({"R = 1": "open", "R = 2": "fails"}, ("h", "f"))
    assert (found.verdict, found.detail) == ("not tested", "fails at 1 of 2, too wide at 1")


@pytest.mark.parametrize(("asked", "verdict", "detail"), [
    ({"sweep": {"R = 1": [STATES["holds"]], "R = 2": [STATES["fails"]]}}, "depends on an open setting", "1 of 2"),
    ({"claims": [STATES["holds"]], "sweep": {"R = 1": [STATES["fails"]]}}, "refuted", ""),
    ({"claims": [STATES["holds"]], "size": {"R = 1": [STATES["holds"]], "R = 2": [STATES["fails"]]}},
     "depends on an open setting", "1 of 2"),
    ({"claims": [STATES["unlikely"]]}, "not tested", "wide"),
    ({}, "not tested", "no data"),
])  # fmt: skip
def test_what_is_said_beside_a_verdict(asked: dict[str, Any], verdict: str, detail: str) -> None:
    found = headline("It is so", place="", text="", ours="", why="", **asked)
    assert found.verdict == verdict
    assert bool(found.detail) == bool(detail)
    assert detail in found.detail


@settings(max_examples=50, deadline=None, derandomize=True)
@given(best=st.floats(-6, 5), start=st.integers(-8, 6))
def test_finds_the_best_step_of_the_grid_from_anywhere_and_tries_none_twice(best: float, start: int) -> None:
    tried = []

    def loss(step: float) -> float:
        tried.append(step)
        return abs(math.log2(step) - best)

    found = bracket(loss, 2.0**start, 2.0)
    assert len(set(tried)) == len(tried) <= 3 + abs(math.log2(found) - start)
    assert loss(found) == min(loss(2.0**k) for k in range(-12, 9))


@pytest.mark.parametrize(("sign", "end"), [(1, LEAST_STEP), (-1, LARGEST_STEP)])
def test_ends_at_an_edge(sign: int, end: float) -> None:
    assert bracket(lambda step: sign * step, 1.0, 2.0) == end


def test_divergence_counts_as_infinitely_bad() -> None:
    assert bracket(lambda step: math.nan if step > 1 else -step, 0.25, 2.0) == 1.0
