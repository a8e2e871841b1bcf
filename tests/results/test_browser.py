"""A report and a model card in a browser: tables scroll, lines are switched, values are told, and nothing leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.models.card import Card, DataCard, MadeCard, ObjectiveCard, PrivacyCard
from tacit.results import Comparison, Run
from tacit.results.pages.model_card import page as card_page
from tacit.results.report import page
from tests.browser import running

from .conftest import PRIVATE

MakeRun = Callable[..., Run]

browser = pytest.fixture(scope="module")(running)


@pytest.fixture
def comparison(make_run: MakeRun) -> Comparison:
    """Six runs: one private, one with negative regret, one that sends nothing, one that is named at length."""
    runs = [make_run(seed=k, label=f"{name} (OPS)") for k, name in enumerate(("A", "B", "C", "D" * 60, "E"))]
    runs.append(make_run(seed=5, label="mine", privacy=PRIVATE))
    runs[1].per_round["loss"][:, 20:] -= 0.5
    runs[2].per_round = {**runs[2].per_round, "bits": 0 * runs[2].per_round["bits"]}
    for run in runs[:2]:
        run.regret(points=4)
    return Comparison(tuple(run.record() for run in runs), "Six runs")


def test_a_report_in_a_browser(browser: Any, comparison: Comparison, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(comparison, "tacit run " + "x" * 200), encoding="utf-8")
    tab, faults = _opened(browser, file)
    for width in _widths(tab):
        assert tab.evaluate("[...document.querySelectorAll('figure.chart')].every(f => f.scrollWidth <= f.offsetWidth)")
        if width == 400:
            moved = "box => { box.scrollLeft = 80; const at = box.scrollLeft; box.scrollLeft = 0; return at; }"
            assert tab.locator(".scroll").evaluate(moved) == 80
            assert tab.locator(".privacy dd").first.evaluate("dd => dd.offsetWidth") > 300
    dark, light = (_ground(tab, scheme) for scheme in ("dark", "light"))
    assert dark != light
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == light
    tab.set_viewport_size({"width": 750, "height": 900})  # a sheet
    assert tab.evaluate("document.documentElement.scrollWidth") <= 750
    tab.emulate_media(media="screen", color_scheme="light")

    # The names switch lines, in every plot, by mouse and by keyboard.
    first = tab.locator("figure.chart").first
    lines, button = tab.locator("svg.plot g[data-run='0']"), first.locator(".legend button").first
    assert lines.count() >= 3
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert not any(line.is_visible() for line in lines.all())
    assert {each.get_attribute("aria-pressed") for each in tab.locator("li[data-run='0'] button").all()} == {"false"}
    assert "A (OPS)" not in _told(first)
    button.press("Enter")
    assert all(line.is_visible() for line in lines.all())
    tab.locator("button.every").click()
    assert not any(line.is_visible() for line in tab.locator("svg.plot g[data-run]").all())
    tab.locator("button.every").click()

    # A plot tells the round and the value of each line under the mouse, and by the arrow keys.
    record = comparison.records[0]
    said = _told(first)
    nearest = [k for k, t in enumerate(record.trace.rounds) if f"round {t}\n" in said]
    assert len(nearest) == 1
    assert f"{record.trace.average_loss.mean(axis=0)[nearest[0]]:.4g} A (OPS)" in said
    plot = first.locator("svg.plot")
    tab.mouse.move(0, 0)
    assert not first.locator(".tip").is_visible()
    plot.focus()
    plot.press("End")
    assert f"round {record.trace.rounds[-1]}\n" in first.locator(".tip").inner_text()
    plot.press("ArrowLeft")
    assert f"round {record.trace.rounds[-2]}\n" in first.locator(".tip").inner_text()
    plot.press("Escape")
    assert not first.locator(".tip").is_visible()
    assert "-0." in _told(tab.locator("figure.chart").nth(1), 0.96)  # negative regret

    tab.locator("summary", has_text="words").press("Enter")
    assert "push-sum" in tab.locator(".terms").inner_text()
    assert faults == []
    tab.context.close()


def test_a_model_card_in_a_browser(browser: Any, tmp_path: Path) -> None:
    card = Card(
        objective=ObjectiveCard(name="logistic"),
        task="binary",
        features=40,
        columns=[f"{'a_long_name_' * 5}{k}" for k in range(40)],
        owners=["north"],
        took_part={f"clinic {'x' * 60}": 10, "north": None},
        privacy=PrivacyCard(private=True, words="Epsilon = 1 per record. " * 20, epsilon=1.0, delta=1e-6),
        data=DataCard(description="d" * 200, rows=10),
        figures={"average_loss": 0.1234567},
        made=MadeCard(algorithm="online_push_sum", rounds=10, created="today", versions={}, command="c" * 200),
    )
    file = tmp_path / "card.html"
    file.write_text(card_page(card, "model" * 30), encoding="utf-8")
    tab, faults = _opened(browser, file)
    assert list(_widths(tab)) == [400, 900, 1400] * 2
    assert faults == []
    tab.context.close()


def test_a_report_is_whole_without_its_script(browser: Any, comparison: Comparison, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(comparison), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(file.as_uri())
    assert tab.locator("svg.plot g[data-run='0'] .line").first.is_visible()
    assert tab.locator(".legend").first.inner_text().split("\n")[0] == "A (OPS)"
    assert tab.locator("button").count() == 0
    assert not tab.locator(".hint").is_visible()
    context.close()


def _opened(browser: Any, file: Path) -> tuple[Any, list[str]]:
    """A page, and a list that gets whatever goes wrong or leaves."""
    tab = browser.new_context().new_page()
    faults: list[str] = []
    tab.on("console", lambda message: faults.append(message.text))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("request", lambda request: faults.append(request.url) if request.url != file.as_uri() else None)
    tab.goto(file.as_uri())
    return tab, faults


def _widths(tab: Any) -> Iterator[int]:
    """Go through widths in light and dark; at none of them does the page itself scroll sideways."""
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        for width in (400, 900, 1400):
            tab.set_viewport_size({"width": width, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            yield width


def _ground(tab: Any, scheme: str) -> str:
    tab.emulate_media(color_scheme=scheme)
    return str(tab.evaluate("getComputedStyle(document.body).backgroundColor"))


def _told(figure: Any, along: float = 0.8) -> str:
    box = figure.locator("svg.plot").bounding_box()
    figure.locator("svg.plot").hover(position={"x": box["width"] * along, "y": box["height"] / 2})
    return str(figure.locator(".tip").inner_text())
