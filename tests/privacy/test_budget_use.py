"""What operators read of a budget: whether it runs out, and what is left for the records of the next release."""

import json
import math

import pytest

from tacit.cli import main
from tacit.privacy import Event
from tacit.privacy.accounting import Account, Budget
from tacit.privacy.events import fresh, rows
from tacit.privacy.ledger import Ledger
from tacit.privacy.ledger.budget_use import budget_use

SCALE = 0.25


def laplace(records="", adjacency="record"):
    """One release of epsilon 4."""
    return Event("laplace", "laplace", 1.0, SCALE, records=records, adjacency=adjacency)


def gaussian(records=""):
    return Event("gaussian", "gaussian", 1.0, 10.0, records=records)


def used(budget, *events):
    account = Account()
    for event in events:
        account = account.charged(event)
    return budget_use(budget, account)


def test_records_that_are_released_once_use_nothing_up():
    found = used(Budget(4.0), *(laplace(fresh(k)) for k in range(1, 6)))
    assert (found.spent, found.limit, found.left, found.runs_out) == (4.0, 4.0, 4.0, False)
    assert "epsilon 4 of 4 per record" in found.words
    assert "nothing is used up" in found.words
    assert "left" not in found.words


def test_several_releases_of_one_round_are_counted():
    found = used(Budget(10.0), laplace(fresh(1)), laplace(fresh(1)), laplace(fresh(2)))
    assert (found.spent, found.left, found.charged) == (8.0, 10.0, "each record once")
    assert "2 times" in found.words


def test_releases_that_cost_nothing_do_not_count():
    free = (Event("laplace", "laplace", 0.0, SCALE, records=fresh(k)) for k in range(1, 6))
    found = used(Budget(4.0), *(event for k, each in enumerate(free, start=1) for event in (each, laplace(fresh(k)))))
    assert (found.spent, found.charged) == (4.0, "each record once")
    assert "times" not in found.words


@pytest.mark.parametrize(
    ("event", "per"), [(laplace(), "record"), (laplace(adjacency="dataset"), "agent"), (laplace(fresh(9), "dataset"), "agent")]
)  # fmt: skip
def test_what_every_record_pays_adds_up_and_runs_out(event, per):
    found = used(Budget(9.0), event, event)
    assert (found.spent, found.left, found.runs_out, found.per) == (8.0, 1.0, True, per)
    assert f"epsilon 8 of 9 per {per}" in found.words
    assert "1 is left" in found.words


def test_records_that_come_again_run_out_by_themselves():
    found = used(Budget(9.0), laplace(rows([1, 2])), laplace(rows([2, 3])))
    assert (found.spent, found.left, found.runs_out) == (8.0, 1.0, True)
    assert found.charged == "records that may come again"


def test_one_release_of_all_records_among_fresh_ones_counts_for_all():
    found = used(Budget(12.0), laplace(fresh(1)), laplace(), laplace(fresh(2)))
    assert (found.spent, found.left, found.charged) == (8.0, 4.0, "every record")


def test_before_the_first_release_and_for_batches_without_records():
    assert used(Budget(4.0)).charged == "nothing"
    found = used(Budget(4.0), laplace("none"))
    assert (found.charged, found.spent, found.left, found.runs_out) == ("nothing", 0.0, 4.0, False)


def test_gaussian_noise_speaks_in_the_budgets_unit():
    found = used(Budget(2.0, delta=1e-5), gaussian(fresh(1)), gaussian(fresh(2)))
    assert (found.unit, found.delta, found.left) == ("epsilon", 1e-5, 2.0)
    assert 0 < found.spent < 2
    assert "at delta 1e-05" in found.words
    rho = used(Budget(rho=0.5), gaussian(), gaussian())
    assert (rho.unit, rho.spent, rho.runs_out) == ("rho", pytest.approx(0.01), True)
    assert math.isfinite(rho.left)


@pytest.mark.parametrize(
    ("records", "left", "words"), [([fresh(1), fresh(2)], 4.0, "nothing is used up"), ([""], 0.0, "0 is left")]
)
def test_the_command_says_the_same(tmp_path, capsys, records, left, words):
    path = tmp_path / "ledger.db"
    with Ledger.create(path, Budget(4.0)) as ledger:
        for k, label in enumerate(records):
            ledger.charge(f"release {k}", laplace(label))
        said = ledger.use().words
    for options in ([], ["--json"]):
        with pytest.raises(SystemExit) as caught:
            main(["ledger", "show", str(path), *options])
        assert not caught.value.code
    text, _, content = capsys.readouterr().out.partition("{")
    assert said in text
    assert words in said
    facts = json.loads("{" + content)
    assert facts["use"]["words"] == said
    assert (facts["left"]["epsilon"], facts["use"]["left"], facts["spent"]["epsilon"]) == (left, left, 4.0)
