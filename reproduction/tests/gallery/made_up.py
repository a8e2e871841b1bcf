"""Experiments of no text: quick ones that end in every way there is."""

from __future__ import annotations

import os
import signal

import numpy as np

from tacit.core.errors import DataError
from tacit_reproduction.catalogue import Claim, Experiment
from tacit_reproduction.drawing import Panel, draw_curves
from tacit_reproduction.experiment import Findings, Table, reproducible, seen_in


def found(quick: bool, seed: int) -> Findings:
    curves = {"A & B": np.random.default_rng(seed).random((3, 20))}
    picture = draw_curves("picture", "A <picture>", "Its caption", [Panel("left", curves)], "loss")
    claims = [
        *seen_in("picture", Claim("A < B", True, "A 0.1, B 0.2"), text="0.3 (table 1)"),
        Claim("B | A", False, "the reason"),
    ]
    table = Table("A table", "A note", ("name", "value"), [("a", "1")])
    print("as it goes")
    data = {"description": f"{len(os.sched_getaffinity(0))} core"}
    return Findings(claims, {"loss": [0.5]}, data, ["Done like this."], [table], [picture])


def fails(quick: bool, seed: int) -> Findings:
    raise DataError("rows.csv is not there; put it there")


def dies(quick: bool, seed: int) -> Findings:
    os._exit(3)


def waits(quick: bool, seed: int) -> Findings:
    while True:
        signal.pause()


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        reproducible("fine", "Fine", "OPS paper, sec. 5", found),
        reproducible("fails", "Fails", "Rizk (2023), ch. 9", fails),
        reproducible("dies", "Dies", "beyond Gauthier (2023), ch. 5", dies),
    )
}
FOR_EVER = reproducible("waits", "Waits", "Li et al.", waits)


def named(name: str) -> Experiment:
    return FOR_EVER if name == FOR_EVER.name else EXPERIMENTS[name]
