from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.core.errors import ResultError
from tacit.results import Record, Run, plots
from tacit.results.pages.charts import DASHES, SHAPES, Look, _below, charts
from tacit.results.pages.panels import PANELS, Panel, panels
from tacit.results.pages.scales import Scale

from .conftest import PRIVATE

MakeRun = Callable[..., Run]
PNG = b"\x89PNG\r\n"


def panel(name: str, records: list[Record]) -> Panel:
    found = PANELS[name](records)
    assert found is not None
    return found


def axes_of(name: str, records: list[Record]) -> object:
    return plots._figure([panel(name, records)], records).axes[0]


def records(make_run: MakeRun, *labels: str) -> list[Record]:
    found = []
    for seed, label in enumerate(labels):
        run = make_run(seed=seed, label=label)
        run.regret(points=4)
        found.append(run.record())
    return found


def test_every_panel_is_drawn_with_labelled_axes(make_run: MakeRun) -> None:
    both = records(make_run, "A", "B")
    for name in PANELS:
        axes = axes_of(name, both)
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert {line.get_label() for line in axes.get_lines()} >= {"A", "B"}
        assert len(axes.collections) == 2  # a band over repeats for each
    drawn = plots.draw_all(both)
    assert set(drawn) == set(PANELS)
    assert all(image.startswith(PNG) for image in drawn.values())


def test_lines_show_the_means(make_run: MakeRun) -> None:
    (record,) = records(make_run, "A")
    (line,) = axes_of("average_loss", [record]).get_lines()
    np.testing.assert_array_equal(line.get_xdata(), record.trace.rounds)
    np.testing.assert_allclose(line.get_ydata(), record.trace.average_loss.mean(axis=0))


def test_regret_is_drawn_on_log_axes_with_a_guide_of_slope_one_half(make_run: MakeRun) -> None:
    axes = axes_of("regret", records(make_run, "A"))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    (guide,) = [line for line in axes.get_lines() if line.get_label() == "_guide"]
    slope = np.diff(np.log(guide.get_ydata())) / np.diff(np.log(guide.get_xdata()))
    assert slope == pytest.approx([-0.5])


def test_runs_are_told_apart_without_colour() -> None:
    assert len(plots.COLOURS) == len(plots.LINES) == len(plots.MARKERS) == len(DASHES) == len(SHAPES)
    looks = [Look.of(run) for run in range(40)]
    assert len(set(looks)) == len(looks)
    assert len({look[1:] for look in looks[:8]}) == 8


def test_a_run_that_sends_nothing_is_a_level_line(make_run: MakeRun) -> None:
    silent = make_run(label="alone")
    silent.per_round = {**silent.per_round, "bits": 0 * silent.per_round["bits"]}
    axes = axes_of("loss_against_bits", [make_run(label="A").record(), silent.record()])
    (line,) = [line for line in axes.get_lines() if line.get_label() == "alone"]
    assert len(set(line.get_ydata())) == 1
    assert PANELS["loss_against_bits"]([silent.record()]) is None


def test_negative_regret_is_drawn_on_a_linear_axis(make_run: MakeRun) -> None:
    below, above = make_run(label="below"), make_run(label="above")
    below.per_round["loss"][:, 20:] -= 0.5  # at the end better than any fixed model
    for run in (below, above):
        run.regret(points=4)
    both = [below.record(), above.record()]
    axes = axes_of("regret", both)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    line = next(line for line in axes.get_lines() if line.get_label() == "below")
    np.testing.assert_allclose(line.get_ydata(), below.regret(points=4).per_agent_round.mean(axis=0))
    assert line.get_ydata()[-1] < 0
    found = panel("regret", both)
    assert "linear" in found.caption
    assert found.guide is None
    assert f"|{line.get_ydata()[-1]:.4g}'" in charts(both)


def test_what_cannot_be_drawn_is_left_out(make_run: MakeRun) -> None:
    assert PANELS["regret"]([make_run().record()]) is None  # not asked for
    agreed = make_run()
    agreed.recorded["consensus"][:] = 0
    assert PANELS["consensus"]([agreed.record()]) is None


def test_a_loss_that_explodes_does_not_flatten_the_others(make_run: MakeRun) -> None:
    wild = make_run(label="wild")
    wild.per_round["loss"][:] *= 1e5
    found = panel("average_loss", [make_run(label="A").record(), wild.record()])
    assert found.y.log
    assert "logarithmic" in found.caption


def test_a_run_that_diverged_is_named_and_not_drawn(make_run: MakeRun) -> None:
    lost = make_run(label="lost")
    lost.per_round["loss"][:, 20:] = np.nan
    shown = charts([make_run(label="A").record(), lost.record()])
    assert "lost (diverged" in shown
    assert "data-run='1'" not in shown[: shown.index("</figure>")]
    far = make_run(label="far").record()
    far.summary["divergence"] = {"round": 3, "repeats": 1, "loss": 9.0, "untrained": 0.7}
    shown = charts([make_run(label="A").record(), far])
    assert "data-run='1'" in shown[: shown.index("</figure>")]  # its loss is shown, not what is far off the others
    assert "far (diverged" in shown


def test_one_repeat_has_no_band(make_run: MakeRun) -> None:
    assert not axes_of("average_loss", [make_run(repeats=1).record()]).collections


def test_a_chart_holds_every_value_that_it_draws_and_not_too_many(make_run: MakeRun) -> None:
    record = make_run().record()
    shown = charts([record])
    (first, *_) = re.findall(r"data-at='([^']*)' data-is='([^']*)'", shown)
    assert first[0].split("|") == [f"{t:,}" for t in record.trace.rounds]
    assert first[1].split("|") == [f"{value:.4g}" for value in record.trace.average_loss.mean(axis=0)]
    ids = re.findall("<clipPath id='([^']*)'", shown)
    assert len(ids) == len(set(ids)) == len(panels([record]))

    def long(values: np.ndarray) -> np.ndarray:
        return np.tile(values, 300)

    trace = record.trace
    many = replace(
        record,
        trace=replace(
            trace,
            rounds=np.arange(1, 1 + 300 * len(trace.rounds)),
            **{name: long(getattr(trace, name)) for name in ("loss", "average_loss", "score", "consensus", "bits")},
        ),
    )
    assert len(charts([many] * 6)) < 1_000_000
    drawn = re.search(r"data-at='([^']*)'", charts([many]))
    assert drawn is not None
    assert drawn[1].endswith(f"|{many.trace.rounds[-1]:,}")


@pytest.mark.parametrize(
    ("low", "high", "log", "ticks"),
    [
        (0.0, 1.0, False, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-0.3, 0.1, False, [-0.3, -0.2, -0.1, 0, 0.1]),
        (0.9, 1200, True, [1, 10, 100, 1000]),
        (1e-13, 1e3, True, [1e-13, 1e-10, 1e-7, 1e-4, 1e-1, 1e2]),
        (2.0, 3.0, True, [2, 2.2, 2.4, 2.6, 2.8, 3]),
    ],
)
def test_ticks_are_few_and_round(low: float, high: float, log: bool, ticks: list[float]) -> None:
    assert Scale(low, high, log).ticks() == pytest.approx(ticks, abs=1e-15)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "values", [[], [np.nan], [5.0], [0.0, 0.0], [-1e150, 1e150], [1e-300, 1e150], [5e-324], [0.0, 5e-324]]
)
def test_any_range_has_an_axis(values: list[float], log: bool) -> None:
    for padding in (0.0, 0.05):
        scale = Scale.over([np.array(values)], log, padding)
        assert 2 <= len(scale.ticks()) <= 7
        assert (np.diff(scale.ticks()) > 0).all()
        assert np.isfinite(scale.places(np.array(scale.ticks()))).all()


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_an_overview_is_one_file(make_run: MakeRun, tmp_path: Path, ending: str) -> None:
    path = make_run().plot(tmp_path / "new" / f"run.{ending}")
    assert path.stat().st_size > 5000
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_an_overview_in_an_unknown_format_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"\.png, \.svg or \.pdf"):
        make_run().plot(tmp_path / "run.docx")


def test_pyplot_is_never_used(make_run: MakeRun) -> None:
    plots.draw_all([make_run().record()])
    assert "matplotlib.pyplot" not in sys.modules


def test_every_figure_says_what_privacy_was_spent(make_run: MakeRun) -> None:
    one, other, private = (
        make_run(label=label, **more).record() for label, more in (("A", {}), ("B", {}), ("C", {"privacy": PRIVATE}))
    )
    for each in panels([one, other, private]):
        (note,) = plots._figure([each], [one, other, private]).texts
        assert note.get_text().replace("\n", " ") == "Privacy: A, B: not private; C: eps 1.5 per record."
    assert plots.privacy_note([one]) == "Privacy: not private."
    assert plots.privacy_note([one, other]) == "Privacy: not private (all runs)."


def test_the_note_on_privacy_stands_below_the_axes_and_within_the_figure(make_run: MakeRun) -> None:
    many = [make_run(label=f"{k}: a rather long label").record() for k in range(7)]
    many[0].summary["privacy"] = PRIVATE.summary()
    figure = plots._figure([panel("average_loss", many)], many)
    figure.draw_without_rendering()
    (note,) = figure.texts
    box, below = note.get_window_extent(), figure.axes[0].get_tightbbox()
    assert note.get_text().count("\n") >= 1
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert 0 <= box.y0 < box.y1 <= below.y0


@pytest.mark.parametrize(
    ("label", "lines", "tight"), [("own", 1, 0), ("all of the clients", 2, 0), ("unbreakable-and-long-name", 1, 1)]
)
def test_names_on_an_axis_keep_to_their_room(label: str, lines: int, tight: int) -> None:
    found = "".join(_below(label, 200.0, 80.0, 240.0))
    assert found.count("<text") == lines
    assert found.count("textLength") == tight
    assert " ".join(re.findall(r">([^<]+)</text>", found)) == label
