from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tacit.core.errors import ResultError
from tacit.results import Record, Run, plots

from .conftest import PRIVATE

MakeRun = Callable[..., Run]
PNG = b"\x89PNG\r\n"


def axes_of(name: str, records: list[Record]) -> object:
    return plots._figure([plots.PANELS[name]], records).axes[0]


def records(make_run: MakeRun, *labels: str) -> list[Record]:
    found = []
    for seed, label in enumerate(labels):
        run = make_run(seed=seed, label=label)
        run.regret(points=4)
        found.append(run.record())
    return found


def test_every_panel_is_drawn_with_labelled_axes(make_run: MakeRun) -> None:
    both = records(make_run, "A", "B")
    for name in plots.PANELS:
        axes = axes_of(name, both)
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert {line.get_label() for line in axes.get_lines()} >= {"A", "B"}
        assert len(axes.collections) == 2  # a band over repeats for each
    drawn = plots.draw_all(both)
    assert set(drawn) == set(plots.PANELS)
    assert all(image.png.startswith(PNG) for image in drawn.values())


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
    pairs = list(zip(map(str, plots.LINES), plots.MARKERS, strict=True))
    assert len(set(pairs)) == len(pairs) == len(set(plots.COLOURS))


def test_a_run_that_sends_nothing_is_a_level_line(make_run: MakeRun) -> None:
    silent = make_run(label="alone")
    silent.per_round = {**silent.per_round, "bits": 0 * silent.per_round["bits"]}
    axes = axes_of("loss_against_bits", [make_run(label="A").record(), silent.record()])
    (line,) = [line for line in axes.get_lines() if line.get_label() == "alone"]
    assert len(set(line.get_ydata())) == 1
    assert not plots.PANELS["loss_against_bits"].applies([silent.record()])


def test_what_cannot_be_drawn_is_left_out(make_run: MakeRun) -> None:
    below = make_run()
    below.regret(points=4)
    below.per_round["loss"][:] -= 10  # better than any fixed model: negative everywhere
    below._regret.clear()
    below.regret(points=4)
    assert not plots.PANELS["regret"].applies([below.record()])
    assert not plots.PANELS["regret"].applies([make_run().record()])  # not asked for
    agreed = make_run()
    agreed.recorded["consensus"][:] = 0
    assert not plots.PANELS["consensus"].applies([agreed.record()])


def test_one_repeat_has_no_band(make_run: MakeRun) -> None:
    assert not axes_of("average_loss", [make_run(repeats=1).record()]).collections


def test_svg_fits_into_a_page(make_run: MakeRun) -> None:
    record = make_run().record()
    first, second = (plots.draw(plots.PANELS["average_loss"], [record], name).svg for name in ("a", "b"))
    assert first.startswith("<svg")
    assert "currentColor" in first
    assert plots.INK not in first
    assert plots.draw(plots.PANELS["average_loss"], [record], "a").svg == first  # the same bytes each time
    clips = [set(re.findall(r'<clipPath id="(\w+)"', svg)) for svg in (first, second)]
    assert clips[0].isdisjoint(clips[1])


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
    for panel in plots.PANELS.values():
        if not panel.applies([one, other, private]):
            continue
        (note,) = plots._figure([panel], [one, other, private]).texts
        assert note.get_text().replace("\n", " ") == "Privacy: A, B: not private; C: eps 1.5 per record."
    assert plots.privacy_note([one]) == "Privacy: not private."
    assert plots.privacy_note([one, other]) == "Privacy: not private (all runs)."


def test_the_note_on_privacy_stands_below_the_axes_and_within_the_figure(make_run: MakeRun) -> None:
    many = [make_run(label=f"{k}: a rather long label").record() for k in range(7)]
    many[0].summary["privacy"] = PRIVATE.summary()
    figure = plots._figure([plots.PANELS["average_loss"]], many)
    figure.draw_without_rendering()
    (note,) = figure.texts
    box, below = note.get_window_extent(), figure.axes[0].get_tightbbox()
    assert note.get_text().count("\n") >= 1
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert 0 <= box.y0 < box.y1 <= below.y0
