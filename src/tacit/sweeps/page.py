"""Page about a sweep: its metric against every key that is a number, and the table of its settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tacit.metrics.intervals import mean_band
from tacit.results.html import Html, document, html, joined
from tacit.results.pages.charts import chart
from tacit.results.pages.panels import WIDE, Axis, Curve, Panel
from tacit.results.pages.script import SCRIPT
from tacit.results.pages.style import CSS
from tacit.results.record import versions
from tacit.sweeps.settings import Sweep
from tacit.sweeps.table import DONE, Row

MOST_LINES = 8
"""Of a plot; with more groups of the other keys, settings stand by themselves."""
SPREAD = 10.0
"""Factor between values of a key from which on its axis is logarithmic."""


class Group(NamedTuple):
    """Settings that agree in all keys but one."""

    label: str
    diverged: bool = False


def page(sweep: Sweep, rows: Sequence[Row], table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> str:
    """Return the page about a sweep.

    Args:
      sweep: What was swept.
      rows: Of its table.
      table: Columns and lines of its settings, best first.
    """
    columns, lines = table
    done = [row for row in rows if row["status"] == DONE and _is_number(row.get(sweep.metric))]
    plots = joined(drawn for key in sweep.keys if (drawn := plot(sweep, key, done)))
    head = joined(html("<th scope='col'>{}</th>", column) for column in columns)
    body = joined(html("<tr>{}</tr>", joined(html("<td>{}</td>", cell) for cell in line)) for line in lines)
    better = "lower" if sweep.minimise else "higher"
    title = f"Sweep of {sweep.file.stem}"
    words = (
        f"{len(sweep.each):,} settings ({sweep.settings.kind}), {len(sweep.seeds)} seed(s) of each, up to "
        f"{sweep.rounds:,} rounds. {sweep.metric}, {better} is better; ± is half of a 95 % confidence interval over "
        "the seeds (Student's t)."
    )
    parts = [
        html("<header><h1>{}</h1><p class='by'>A report by tacit</p></header><p>{}</p>", title, words),
        html("<h2>Plots</h2>\n<div class='plots'>{}</div>", plots) if plots else Html(""),
        html(
            "<h2>Settings</h2><div class='scroll' role='region' aria-label='Table of settings' tabindex='0'>"
            "<table class='results'><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
            head,
            body,
        ),
        html("<footer><p>{}</p></footer>", ", ".join(f"{name} {version}" for name, version in versions().items())),
    ]
    return document(title, joined(parts, "\n"), CSS, script=SCRIPT)


def plot(sweep: Sweep, key: str, rows: Sequence[Row]) -> Html:
    """Return the metric against one key, a line for each group of the other keys; empty where there is nothing to draw.

    Args:
      sweep: What was swept.
      key: The key of the horizontal axis.
      rows: Of settings that have a figure.
    """
    values = [row[key] for row in rows]
    if not values or not all(map(_is_number, values)) or len(set(values)) < 2:
        return Html("")
    others = [name for name in (*sweep.keys, "rounds") if name != key and len({row[name] for row in rows}) > 1]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(", ".join(f"{_last(name)} {_written(row[name])}" for name in others), []).append(row)
    scattered = len(groups) > MOST_LINES or sweep.settings.count is not None
    if scattered:
        groups = {"a setting": list(rows)}
    figures = [row[sweep.metric] for row in rows]
    curves = [_curve(k, key, sweep.metric, own, scattered) for k, own in enumerate(groups.values())]
    means = np.concatenate([curve.mean for curve in curves])
    wide = min(figures) > 0 and float(means.max()) > WIDE * float(means.min())
    panel = Panel(
        f"sweep-{sweep.keys.index(key)}",
        f"{sweep.metric} by {key}",
        "Means over the seeds" + ("." if scattered else "; the band is the 95 % confidence interval."),
        Axis(key, log=min(values) > 0 and max(values) >= SPREAD * min(values), counts=_last(key)),
        Axis(sweep.metric, log=wide),
        tuple(curves),
        scattered=scattered,
    )
    return chart(panel, [Group(label or sweep.metric) for label in groups])


def _curve(number: int, key: str, metric: str, rows: Sequence[Row], scattered: bool) -> Curve:
    """Return the means over seeds, setting by setting, in the order of the key."""
    settings: dict[tuple[float, int, int], list[float]] = {}
    for row in rows:
        settings.setdefault((row[key], row["setting"], row["rounds"]), []).append(row[metric])
    order = sorted(settings)
    bands = [mean_band(np.array(settings[each])[:, None]) for each in order]
    at = np.array([each[0] for each in order], np.float64)
    mean, low, high = (np.array([getattr(band, name)[0] for band in bands]) for name in ("mean", "low", "high"))
    certain = not scattered and all(band.n > 1 for band in bands)
    return Curve(number, at, mean, low if certain else None, high if certain else None, np.arange(len(order)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _written(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
