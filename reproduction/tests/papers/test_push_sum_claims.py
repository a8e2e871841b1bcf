from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit_reproduction.push_sum.cells import Outcome
from tacit_reproduction.push_sum.claims import judge, rank_correlation
from tacit_reproduction.push_sum.design import FRACTIONS, Cell, Design, Samples
from tacit_reproduction.push_sum.evidence import Evidence, Mixing

ROUNDS, SEEDS = 6, 5


def fabricate(design: Design, samples: Samples, level: Callable[[Cell], float], best: dict[float, float]) -> Evidence:
    """Evidence in which every cell has the loss that `level` says, give or take what all cells share."""
    shared = 0.001 * np.random.default_rng(0).normal(size=(SEEDS, 1))
    cells = {*design.cells(), *(cell for fraction in FRACTIONS for cell in design.controls(fraction))}
    ones = np.ones((SEEDS, ROUNDS))
    return Evidence(
        design,
        samples,
        ROUNDS,
        {},
        {cell: Outcome(level(cell) * ones + shared, np.ones(SEEDS)) for cell in cells},
        {fraction: best[fraction] + shared[:, 0] for fraction in FRACTIONS},
        {nodes: Mixing(np.full(SEEDS, 1 / nodes), shared[:, 0]) for nodes in design.sizes},
    )


def as_the_text_says(cell: Cell) -> float:
    method, (nodes, neighbours, fraction) = cell
    clusters = 0.1 * (fraction < 1)
    if method == "Local OGD":
        return 0.9 + 0.5 * clusters
    return (
        {"COL": 0.3, "OPS": 0.4, "DOL-Symm": 0.6, "DOL-Asymm": 0.7}[method]
        + clusters
        + (0.02 / neighbours - 0.001 * nodes if method == "OPS" else 0)
    )


BEST = {1.0: 0.2, 0.5: 0.25}


def test_all_claims_hold_on_evidence_as_the_text_has_it(micro: Design, samples: Samples) -> None:
    found = judge(fabricate(micro, samples, as_the_text_says, BEST))
    assert len(found) == 14
    assert all(claim.holds for claim in found), [c for c in found if not c.holds]
    assert (found[6].seen_in, found[6].text.split(":")[0]) == ("comparison", "figure 2 (c) and (d)")
    assert found[3].seen_in == "local"
    assert {claim.seen_in for claim in found} == {"comparison", "densities", "sizes", "local"}


@pytest.mark.parametrize(("reference", "missed"), [("DOL-Symm", [1, 7]), ("DOL-Asymm", [2, 8]), ("Local OGD", [3, 9])])
def test_a_baseline_that_wins_is_reported(micro: Design, samples: Samples, reference: str, missed: list[int]) -> None:
    def level(cell: Cell) -> float:
        return 0.1 if cell.method == reference else as_the_text_says(cell)

    assert failing(judge(fabricate(micro, samples, level, BEST))) == missed


def test_col_that_is_worse_is_reported(micro: Design, samples: Samples) -> None:
    def level(cell: Cell) -> float:
        return as_the_text_says(cell) + 0.3 * (cell.method == "COL")

    assert failing(judge(fabricate(micro, samples, level, BEST))) == [0, 6]


def test_density_that_does_harm_is_reported(micro: Design, samples: Samples) -> None:
    def level(cell: Cell) -> float:
        return as_the_text_says(cell) + 0.02 * cell.setting.neighbours * (cell.method == "OPS")

    assert failing(judge(fabricate(micro, samples, level, BEST))) == [4, 10]


@pytest.mark.parametrize(
    ("control_grows", "verdict"), [(False, "the reason lies in the mixing"), (True, "is not the only reason")]
)
def test_size_that_does_harm_is_reported_with_the_control(
    micro: Design, samples: Samples, control_grows: bool, verdict: str
) -> None:
    def level(cell: Cell) -> float:
        grows = cell.method == "OPS" or (cell.method == "COL" and control_grows)
        return as_the_text_says(cell) + 0.02 * cell.setting.nodes * grows

    claims = judge(fabricate(micro, samples, level, BEST))
    for position in (5, 11):
        assert not claims[position].holds
        assert verdict in claims[position].figure


@pytest.mark.parametrize(
    ("best", "words"),
    [
        ({1.0: 0.3, 0.5: 0.2}, "not equally hard"),
        ({1.0: 0.2, 0.5: 0.3}, "no easier with clusters"),
    ],
)
def test_fraction_that_does_harm_is_reported_with_the_best_fixed_model(
    micro: Design, samples: Samples, best: dict[float, float], words: str
) -> None:
    def level(cell: Cell) -> float:
        return as_the_text_says(cell) - 0.2 * (cell.setting.fraction < 1)

    claim = judge(fabricate(micro, samples, level, best))[12]
    assert not claim.holds
    assert words in claim.figure


def test_gain_that_is_smaller_at_100_per_cent_is_reported(micro: Design, samples: Samples) -> None:
    def level(cell: Cell) -> float:
        worse_alone = cell.method == "Local OGD" and cell.setting.fraction < 1
        return as_the_text_says(cell) + 0.5 * worse_alone

    assert failing(judge(fabricate(micro, samples, level, BEST))) == [13]


def test_rank_correlation() -> None:
    a = np.array([0.1, 5.0, 2.0, 9.0])
    assert rank_correlation(a, np.exp(a)) == pytest.approx(1)
    assert rank_correlation(a, -a) == pytest.approx(-1)
