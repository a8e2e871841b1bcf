from __future__ import annotations

import importlib
from collections.abc import Mapping

import numpy as np
import pytest

from reproduction.tests.papers.judged import failing
from tacit.core.errors import DataError
from tacit_reproduction.asynchronous import ocean, ocean_runs, setting
from tacit_reproduction.asynchronous.comparison import FED, SGD
from tacit_reproduction.asynchronous.ocean_claims import judge
from tacit_reproduction.asynchronous.ocean_data import DealtStream
from tacit_reproduction.asynchronous.ocean_runs import FULL, QUICK, Design, Evidence, Steps
from tacit_reproduction.asynchronous.setting import Curve, Data, Task
from tacit_reproduction.catalogue import EXPERIMENTS
from tacit_reproduction.datasets.calcofi import Bottles, CalcofiStream

SEEDS, ROUNDS = 6, np.arange(20, 2020, 20)
JITTER = 0.02 * np.random.default_rng(1).normal(size=(SEEDS, 1))
JITTER -= JITTER.mean()
MODULE = importlib.import_module("tacit_reproduction.datasets.calcofi")  # `tacit.streams` has a function of this name
METHODS = {"U1": -7.0, "C2": -7.5, f"{SGD} (matched)": -6.99, f"{FED} (matched)": -6.0}


def curve(name: str, level: float) -> Curve:
    bits = 100.0 if SGD in name else 2.0
    shape = level * (1 - np.exp(-ROUNDS / 200))
    return Curve(name, ROUNDS, 10 ** ((shape + JITTER) / 10), bits, bits, 0.015, 1.0)


def evidence(levels: Mapping[str, float] | None = None, design: Design = FULL) -> Evidence:
    """On which every claim holds, but for the levels given."""
    rivals: list[tuple[Data, str]] = [(data, method) for data in design.data for method in (SGD, FED)]
    tuned: list[tuple[Data, str]] = [("calcofi", method) for method in ocean_runs.METHODS]
    steps = Steps(dict.fromkeys(rivals, 0.05), dict.fromkeys(tuned, 0.1) if design.tuning_seeds else {})
    names = [ocean_runs.label(method, data) for data in design.data for method in ("U1", "C2")]
    names += [task.label for task in ocean_runs._compared(design, steps, 0)]
    level = {name: METHODS.get(name.split(": ")[1].replace("step 0.4", "matched"), -7.2) for name in names}
    curves = {name: curve(name, {**level, **(levels or {})}[name]) for name in names}
    return Evidence(design, steps, curves, {"calcofi": -10.8}, 0.5, (0.06, 0.25))


@pytest.mark.parametrize("design", [FULL, QUICK])
def test_all_claims_hold_on_evidence_as_the_text_has_it(design: Design) -> None:
    found = judge(evidence(design=design))
    assert len(found) == 4 * len(design.data)
    assert failing(found) == []


@pytest.mark.parametrize(
    ("name", "level", "missed"),
    [
        (f"by place: {SGD} (matched)", -7.15, 0),
        (f"dealt by chance: {FED} (matched)", -7.6, 6),
        ("by place, without O2Sat: U1", -7.6, 11),
    ],
)
def test_other_levels_are_reported(name: str, level: float, missed: int) -> None:
    assert failing(judge(evidence({name: level}))) == [missed]


def test_a_failure_by_place_is_explained_by_the_same_bottles_dealt_by_chance() -> None:
    claims = judge(evidence({"by place: U1": -6.0, "by place: C2": -6.1}))
    missed = next(claim for claim in claims if not claim.holds)
    assert all(level in missed.figure for level in ("U1 -6.00", "C2 -6.10", "U1 -7.00", "C2 -7.50"))


def test_a_difference_that_hangs_on_few_seeds_is_not_as_good() -> None:
    found = evidence()
    name = "by place: U1"
    uneven = 10 ** (np.linspace(-0.05, 0.05, SEEDS)[:, None] * 5)  # no difference on average, +- 2.5 dB by seed
    scattered = found.curves[name]._replace(mse=found.curves[name].mse * uneven)
    assert 0 in failing(judge(found._replace(curves={**found.curves, name: scattered})))


def test_communication_counts_in_both_directions() -> None:
    found = evidence()
    name = "by place: U1"
    costly = found._replace(curves={**found.curves, name: found.curves[name]._replace(down=100.0)})
    assert failing(judge(costly)) == [0]


def test_errors_in_salinity_are_those_of_the_curve_times_the_variance() -> None:
    found = evidence()
    label = "by place: U1"
    practical = ocean._practical(found, label)
    np.testing.assert_allclose(practical, 10 ** (found.curves[label].steady() / 10) * 0.25)


@pytest.mark.slow
def test_the_page_shows_everything() -> None:
    page = ocean.findings(evidence(), "bottles")
    assert [figure.name for figure in page.figures] == ["calcofi", "best-steps"]
    assert all(len(row) == len(table.columns) for table in page.tables for row in table.rows)
    assert "pao-calcofi" in EXPERIMENTS


def test_steps_are_chosen_by_data_and_taken_over_where_a_column_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(task: Task) -> Curve:
        if task.method == "pao_fed" and task.seed == 0:
            fall = 0.1 if task.data == "calcofi" else 0.2
        else:
            fall = task.settings["step"]
        return curve(task.label, 0.0)._replace(mse=10 ** ((-10 * np.sqrt(fall) + JITTER + 0 * ROUNDS) / 10))

    monkeypatch.setattr(ocean_runs, "run", run)
    monkeypatch.setattr(ocean_runs, "stream", lambda *_: CalcofiStream(bottles(), ("Depthm",), np.array([3, 5]), 10, 0))
    monkeypatch.setattr(ocean_runs, "pooled", lambda *_: -10.0)
    found = ocean_runs.gather(FULL, 0, workers=1)
    assert found.steps.matched["calcofi", SGD] == 0.1
    assert found.steps.matched["calcofi, dealt", FED] == 0.2
    assert found.steps.matched["calcofi, one oxygen", SGD] == 0.1
    assert found.steps.best["calcofi", SGD] == 0.8
    assert found.rates == (0.3, 0.5)


# -- bottles in other hands --------------------------------------------------------------------------------------------


def bottles(rows: int = 60) -> Bottles:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    return Bottles(x, np.arange(rows, dtype=np.float32), np.arange(rows), 0.4, "made up")


def test_dealt_bottles_are_the_same_at_the_same_times_in_other_hands() -> None:
    sizes, rounds = np.array([10, 20, 6]), 30
    by_place = CalcofiStream(bottles(), ("Depthm", "T_degC"), sizes, rounds, 4)
    dealt = DealtStream(by_place, 4)
    first, second = by_place.chunk(0, rounds), dealt.chunk(0, rounds)
    np.testing.assert_array_equal(first.weight, second.weight)
    there = first.weight > 0
    np.testing.assert_array_equal(np.sort(first.y[there]), np.sort(second.y[there]))
    of_label = {y: x for x, y in zip(first.x[there][:, 0], first.y[there], strict=True)}
    assert all(of_label[y] == x for x, y in zip(second.x[there][:, 0], second.y[there], strict=True))
    # Places are labels here: a client by place has neighbours, one that was dealt to has labels from everywhere.
    spread = [np.ptp(batch.y[:, 1][there[:, 1]]) for batch in (first, second)]
    assert spread[1] > spread[0]
    np.testing.assert_array_equal(dealt.test(5).y, by_place.test(5).y)
    assert set(dealt.test(20).y).isdisjoint(first.y[there])
    assert not np.array_equal(DealtStream(by_place, 5).chunk(0, rounds).y, second.y)


def test_forms_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_bottles", lambda: bottles(20_000))
    setting.stream.cache_clear()
    try:
        found = {data: setting.stream(data, 8, 400, 0) for data in ("calcofi", "calcofi, dealt", "calcofi, one oxygen")}
        assert [stream.chunk(0, 1).x.shape[-1] for stream in found.values()] == [4, 4, 3]
        assert {int(stream.data_size.sum()) for stream in found.values()} == {80_000 * 8 * 400 // (256 * 2000)}
        assert isinstance(found["calcofi, dealt"], DealtStream)
        # Least squares on what clients hold: labels are ranks, which the columns say nothing of.
        centred = bottles(20_000)._replace(y=bottles(20_000).x[:, 0])
        monkeypatch.setattr(MODULE, "_bottles", lambda: centred)
        setting.stream.cache_clear()
        small = QUICK._replace(clients=8, rounds=400)
        monkeypatch.setattr(ocean_runs, "TEST_SAMPLES", 500)
        assert ocean_runs.pooled(small, "calcofi", 0) < -1.0
    finally:
        setting.stream.cache_clear()


def test_without_the_data_it_says_where_they_are_to_be_had(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    setting.stream.cache_clear()
    with pytest.raises(DataError, match="Get the bottle database from"):
        ocean.investigate(QUICK, 0)
