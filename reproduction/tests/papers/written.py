from __future__ import annotations

from tacit_reproduction.experiment import Experiment, Findings, summarise
from tacit_reproduction.page import page


def page_of(experiment: Experiment, findings: Findings) -> str:
    """The page of findings, as its directory would hold it."""
    summary = summarise(experiment, findings, False, 0, 1.0, "0" * 64)
    return page(summary, {figure.name: figure.svg for figure in findings.figures}, "tacit reproduce")
