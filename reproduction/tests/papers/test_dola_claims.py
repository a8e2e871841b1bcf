from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing, verdicts
from tacit.privacy import laplace, statement
from tacit.privacy.accounting import guarantee
from tacit.privacy.events import Loss
from tacit.privacy.spending import RunPrivacy
from tacit_reproduction.dola import minibatch, rcv1, synthetic
from tacit_reproduction.dola.accuracies import Outcome as Accuracy
from tacit_reproduction.dola.minibatch import Noise, variance_ratio
from tacit_reproduction.dola.table import EPSILONS, NODES, PROTOCOLS, TABLE_1, Entry, Protocol
from tacit_reproduction.judging import Chain, breaks, brief, rising, shown

SEEDS = 12
JITTER = np.random.default_rng(0).normal(size=SEEDS)


def privacy(epsilon: float | None) -> RunPrivacy:
    """What a run with this much noise would have spent."""
    if epsilon is None:
        return RunPrivacy(statement(laplace(1.0, 1.0)), None)
    return RunPrivacy(statement(laplace(epsilon, 1.0)), guarantee(Loss(epsilon, epsilon**2 / 2), "record"), 1)


# -- orders ------------------------------------------------------------------------------------------------------------


def test_a_chain_rises_only_where_every_link_does() -> None:
    links = [("a", 1 + 0.01 * JITTER), ("b", 2 - 0.01 * JITTER), ("c", 3 + 0.02 * JITTER)]
    assert rising("", [Chain("", links)]).holds
    swapped = rising("", [Chain("x", links), Chain("y", [links[0], links[2], links[1]])])
    assert not swapped.holds
    assert "b minus c -1 [" in swapped.figure
    assert breaks([Chain("", links[::-1])])[0].words.startswith("b minus c -1")


def test_equal_or_unknown_or_infinite_samples_do_not_rise() -> None:
    same = 1 + 0.01 * JITTER
    assert not rising("", [Chain("", [("a", same), ("b", same)])]).holds
    assert not rising("", [Chain("", [("a", same), ("b", same[::-1] + 0.001)])]).holds
    assert not rising("", [Chain("", [("a", [1.0]), ("b", [2.0])])]).holds
    diverged = np.where(np.arange(SEEDS) == 3, np.nan, same + 5)
    assert not rising("", [Chain("", [("a", same), ("b", diverged)])]).holds


def test_figure_gives_means_unit_and_seeds() -> None:
    claim = rising("c", [Chain("here", [("a", np.full(5, 0.25)), ("b", np.full(5, 0.5))])], " %", "A note.")
    assert (claim.claim, claim.holds) == ("c", True)
    assert all(words in claim.figure for words in ("a 0.25 %", "b 0.5 %", "5 seeds", "A note."))


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.123456, "0.1235"), (999.96, "1000"), (12345.6, "12,346"), (-12345.6, "-12,346"), (2e7, "2e+07")],
)
def test_numbers_are_short(value: float, words: str) -> None:
    assert brief(value) == words


def test_shown_has_half_of_the_interval() -> None:
    values = np.array([1.0, 2.0, 3.0])
    assert shown(values) == "2 ± 2.5"  # t(2, 97.5 %) = 4.303, over sqrt 3
    assert shown([2.0]) == "2"


# -- dola-synthetic ----------------------------------------------------------------------------------------------------


def regrets(level: Callable[[synthetic.Cell], float], whole: bool = True, idle: float = 0.5) -> synthetic.Evidence:
    design = synthetic.FULL._replace(whole=whole)
    found = {}
    for nodes in synthetic.NODES:
        for cell in synthetic.cells(design, nodes):
            final = level(cell) * (1 + 0.001 * JITTER)
            curve = np.stack([2 * final, final], axis=1)
            found[cell] = synthetic.Outcome(
                np.array([nodes, 2 * nodes]), curve, idle + 0 * JITTER, 1e-6, privacy(cell.epsilon)
            )
    return found


def as_the_text_says(cell: synthetic.Cell) -> float:
    noisy = 0.0 if cell.epsilon is None else 0.02 / cell.epsilon**0.5
    return (0.01 + noisy) * (1 + cell.nodes / 100) * (0.9 if cell.order == "ours" else 1)


@pytest.mark.parametrize("whole", [True, False])
def test_synthetic_claims_hold_on_evidence_as_the_text_has_it(whole: bool) -> None:
    found = verdicts(synthetic.judge(regrets(as_the_text_says, whole)))
    assert len(found) == 2 * (2 * 3 + 3)
    assert all(found)


def test_synthetic_regret_out_of_order_by_privacy_is_reported() -> None:
    def level(cell: synthetic.Cell) -> float:
        better = cell.epsilon == 0.1 and cell.nodes == 4 and cell.order == "ours" and cell.step == "strong"
        return as_the_text_says(cell) * (0.1 if better else 1)

    assert failing(synthetic.judge(regrets(level))) == [3, 5]  # that one cell also breaks the order by nodes


def test_synthetic_regret_above_that_of_the_zero_model_is_reported_with_the_size_of_the_noise() -> None:
    claims = synthetic.judge(regrets(as_the_text_says, idle=0.1))
    low = [claims[position] for position in (1, 4, 10, 13)]
    assert not any(claim.holds for claim in low)
    # 2 a_1 sqrt(d) / eps with a_1 = 10 or 0.5
    assert "scale 6,325" in low[0].figure
    assert "scale 316" in low[-1].figure


def test_synthetic_noise_that_costs_more_before_the_projection_is_reported() -> None:
    def level(cell: synthetic.Cell) -> float:
        return as_the_text_says(cell) * (2 if cell.order == "ours" and cell.epsilon == 1.0 else 1)

    assert failing(synthetic.judge(regrets(level))) == [6, 15]


# -- dola-rcv1 ---------------------------------------------------------------------------------------------------------


def accuracies(level: Callable[[Protocol, Entry], float], own_loses: float = 0.0) -> rcv1.Evidence:
    return {
        (protocol, entry): Accuracy(
            level(protocol, entry) + 0.1 * JITTER,
            level(protocol, entry) - own_loses + 0.1 * JITTER,
            6,
            0.2,
            0.1,
            91.5,
            privacy(entry[0]),
        )
        for protocol in PROTOCOLS
        for entry in TABLE_1
    }


def above(protocol: Protocol, entry: Entry) -> float:
    # Table 1 prints the same figures without noise and at eps = 1: one more, to be in order by eps.
    return TABLE_1[entry] + 1 + (entry[0] is None)


ABOVE_TABLE_1 = [0, 1, 2, 3, 7, 8, 9, 10, 14, 15, 16, 17]
"""Positions of the claims on accuracies; the others are on orders."""


def test_rcv1_claims_hold_where_every_entry_is_passed_in_order() -> None:
    found = verdicts(rcv1.judge(accuracies(above)))
    assert len(found) == len(PROTOCOLS) * (len(EPSILONS) + 3)
    assert all(found)


def test_rcv1_claims_stand_beside_the_text_s_accuracies() -> None:
    claims = rcv1.judge(accuracies(above))
    assert "80.17, 70.86, 62.34" in claims[2].text
    assert {claim.seen_in for claim in claims} == {"table-1"}


def test_rcv1_an_entry_that_is_not_reached_fails_its_epsilon_and_is_named_with_signal_and_noise() -> None:
    def level(protocol: Protocol, entry: Entry) -> float:
        return above(protocol, entry) - 2 * (entry == (0.01, 4) and protocol == "public")

    claims = rcv1.judge(accuracies(level))
    assert failing(claims) == [10]
    assert all(number in claims[10].figure for number in ("4 nodes", "0.200", "0.100", "91.50 %", "64.81"))


def test_rcv1_nodes_whose_own_models_are_below_do_not_pass() -> None:
    assert failing(rcv1.judge(accuracies(above, own_loses=3.0))) == ABOVE_TABLE_1


def test_rcv1_equal_accuracies_are_not_called_ordered() -> None:
    found = verdicts(rcv1.judge(accuracies(lambda protocol, entry: 90.0)))
    assert [position for position, holds in enumerate(found) if holds] == ABOVE_TABLE_1


def test_rcv1_tables_have_a_row_per_entry_with_privacy() -> None:
    evidence = accuracies(above)
    beside, settings = rcv1._beside(evidence), rcv1._settings(evidence, rcv1.FULL)
    assert len(beside.rows) == len(EPSILONS) * len(NODES)
    assert all(len(row) == len(beside.columns) for row in beside.rows)
    assert all(len(row) == len(settings.columns) for row in settings.rows)
    assert beside.rows[-1][:5] == ("eps = 0.01, 64 nodes", "0.01", "0", "record", "50.36")
    assert beside.rows[0][1:4] == ("none", "-", "-")
    assert "310 settings" in beside.note


# -- dola-minibatch ----------------------------------------------------------------------------------------------------


def spreads(of: Callable[[minibatch.Cell], float]) -> minibatch.Evidence:
    cells = [
        minibatch.Cell(data, judged, batch, noise)
        for data, judged in (("unit ball", "models"), ("unit ball", "average"), ("RCV1", "models"))
        for batch in minibatch.BATCHES
        for noise in minibatch.NOISES
    ]
    draws = np.random.default_rng(1).normal(size=200)
    return {cell: minibatch.Outcome(1 + of(cell) * draws, 50, privacy(cell.noise.epsilon)) for cell in cells}


def test_minibatch_claims_hold_where_noise_matters_at_one_and_not_at_five() -> None:
    def spread(cell: minibatch.Cell) -> float:
        return 0.01 * (10 if cell.batch == 1 and cell.noise.epsilon else 1)

    claims = minibatch.judge(spreads(spread))
    found = verdicts(claims)
    assert len(found) == 3 * 2 * 2
    assert all(found)
    figures = [claim.text.split(":")[0] for claim in claims[8:]]
    assert set(figures) == {"figure 2 (c)", "figure 2 (d)"}


def test_minibatch_variance_that_stays_high_is_reported_with_the_noise() -> None:
    def spread(cell: minibatch.Cell) -> float:
        return 0.01 * (10 / cell.batch if cell.noise == Noise(1.0, "text") else 1)

    claims = minibatch.judge(spreads(spread))
    assert failing(claims) == [1, 2, 5, 6, 9, 10]  # with h = 5 in the text's order, with h = 1 in ours
    failed = [claims[position] for position in (1, 5, 9)]
    # 2 sqrt(d) / (lambda h eps): d = 10, then 50
    assert "12.6 / t" in failed[0].figure
    assert "28.3 / t" in failed[2].figure
    assert "h^-2.0" in failed[0].figure


def test_minibatch_nearly_the_same_needs_the_whole_interval() -> None:
    def spread(cell: minibatch.Cell) -> float:
        return 0.01 * (1.3 if cell.batch == 5 and cell.noise.epsilon else 1)

    claims = minibatch.judge(spreads(spread))[1::2]  # those of h = 5
    assert "1.69 [1.28, 2.23]" in claims[0].figure
    assert not any(claim.holds for claim in claims)


def test_variance_ratio_has_the_interval_of_the_f_distribution() -> None:
    a, b = np.random.default_rng(2).normal(size=(2, 21)) * np.array([[3.0], [1.0]])
    found = variance_ratio(a, b)
    assert found.value == pytest.approx(a.var(ddof=1) / b.var(ddof=1))
    # F(20, 20) has its 97.5 % quantile at 2.4645 (tables), and 1 / 2.4645 at 2.5 %.
    assert found.value / found.low == pytest.approx(2.4645, abs=1e-3)
    assert found.high / found.value == pytest.approx(2.4645, abs=1e-3)
