"""What PAO-Fed is compared with (001 section 4.4): federated learning from streams, with and without partial sharing.

    online_fedsgd   every client that is there gets the whole model, takes one step and sends the whole model back
    online_fed      so do some of them, called by chance
    pso_fed         some are called by chance, and share windows as in PAO-Fed; the others learn on alone

The server takes the mean of what arrives, whatever its age. (With `late="by_age"` it does as PAO-Fed does, (4.13)-
(4.14) with alpha = 1. Where whole models are shared this adds up one whole correction for every age, and three ages at
once make it swing.)
"""

from __future__ import annotations

from typing import Literal

from tacit.algorithms.asynchronous._round import around_windows
from tacit.algorithms.asynchronous._windows import Late, Sharing, Windows
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected
from tacit.core.errors import ConfigError

WHOLE = Windows(None)
Together = Literal["together", "by_age"]


@register("001 section 4.4, Online-FedSGD")
def online_fedsgd(
    objective: Objective,
    step: StepSize = 0.4,
    mechanism: Mechanism = unprotected,
    *,
    late: Together = "together",
    unstable: Literal["refuse", "allow"] = "refuse",
) -> Algorithm:
    """Online FedSGD: every client that is there gets the whole model, steps once and sends it back."""
    sharing = Sharing(WHOLE, WHOLE, "same", _late(late), autonomous=False)
    return around_windows("online_fedsgd", objective, step, mechanism, sharing, unstable, answers=True)


@register("001 section 4.4, Online-Fed", example={"fraction": 1.0})
def online_fed(
    objective: Objective,
    step: StepSize = 0.4,
    mechanism: Mechanism = unprotected,
    *,
    fraction: float,
    late: Together = "together",
    unstable: Literal["refuse", "allow"] = "refuse",
) -> Algorithm:
    """Online-Fed: as online FedSGD with a random subset; `fraction` of the clients that are there are called."""
    sharing = Sharing(WHOLE, WHOLE, "same", _late(late), autonomous=False, fraction=fraction)
    return around_windows("online_fed", objective, step, mechanism, sharing, unstable, answers=True)


@register("001 section 4.4, PSO-Fed", example={"fraction": 1.0, "share": 1})
def pso_fed(
    objective: Objective,
    step: StepSize = 0.4,
    mechanism: Mechanism = unprotected,
    *,
    fraction: float,
    share: int = 4,
    coordinated: bool = False,
    late: Together = "together",
    unstable: Literal["refuse", "allow"] = "refuse",
) -> Algorithm:
    """PSO-Fed: a random subset shares windows of `share` coordinates; whoever is not called learns on alone."""
    windows = Windows(share, coordinated)
    sharing = Sharing(windows, windows, "next", _late(late), autonomous=True, fraction=fraction)
    return around_windows("pso_fed", objective, step, mechanism, sharing, unstable)


def _late(late: Together) -> Late:
    if late not in ("together", "by_age"):
        raise ConfigError(f"late = {late!r}: expected 'together' or 'by_age'")
    return Late(by_age=late == "by_age")
