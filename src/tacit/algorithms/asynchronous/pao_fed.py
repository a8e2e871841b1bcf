"""PAO-Fed: asynchronous online learning in which 98 % of the model stays at home (001 ch. 4, Algorithm 3).

Clients are there by chance, their updates come late, and both sides share `share` of d coordinates per message; see
`partial_rounds` for the round and `partial_sharing` for the windows. The text's variants are settings:

    C / U   `coordinated`: everybody shares the same window, or each its own
    0       `answer="same"`: a client sends back what it just got, refined once
    1, 2    `answer="next"`: it sends what the server will send next, refined since it was last overwritten
    2       `decay=0.2`: an update that was under way for l rounds counts 0.2**l

With `download="all"` the server sends its whole model (the text's ablation, Fig. 4.6 a). Where several late updates of
one round touch the same coordinate, the thesis adds them all; its manuscript takes the youngest (`newest_only=True`).

A step above 1 / lambda, lambda the largest eigenvalue of any client's E[z z'], is refused before a run (Theorem 4.2)
unless `unstable="allow"`; above 2 / lambda the mean diverges (Theorem 4.1). See `metrics.mean_square` for what holds.
"""

from __future__ import annotations

from typing import Any, Literal

from tacit.algorithms.asynchronous._round import around_windows
from tacit.algorithms.asynchronous._windows import Late, Order, Sharing, Windows
from tacit.algorithms.registry import register
from tacit.algorithms.schedules import StepSize
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected
from tacit.core.errors import ConfigError

VARIANTS: dict[str, dict[str, Any]] = {
    f"{place}{number}": {"coordinated": place == "C", **settings}
    for place in "CU"
    for number, settings in enumerate(
        ({"answer": "same", "decay": 1.0}, {"answer": "next", "decay": 1.0}, {"answer": "next", "decay": 0.2})
    )
}
"""The text's names -> what they mean."""


@register("001 (4.9)-(4.14)", example={"share": 1})
def pao_fed(
    objective: Objective,
    step: StepSize = 0.4,
    mechanism: Mechanism = unprotected,
    *,
    share: int = 4,
    variant: Literal["C0", "C1", "C2", "U0", "U1", "U2"] | None = None,
    coordinated: bool = False,
    answer: Literal["next", "same"] = "next",
    decay: float = 1.0,
    download: Literal["window", "all"] = "window",
    order: Order = "shift",
    autonomous: bool = True,
    newest_only: bool = False,
    unstable: Literal["refuse", "allow"] = "refuse",
) -> Algorithm:
    """Partial-sharing-based asynchronous online federated learning; `variant` is short for three of the settings."""
    if variant is not None:
        if variant not in VARIANTS:
            raise ConfigError(f"variant = {variant!r}: expected one of {', '.join(VARIANTS)}")
        given = {"coordinated": (coordinated, False), "answer": (answer, "next"), "decay": (decay, 1.0)}
        for name, (value, default) in given.items():
            if value not in (default, VARIANTS[variant][name]):
                raise ConfigError(f"variant = {variant!r} says {VARIANTS[variant][name]!r} of {name}; leave one out")
        coordinated, answer, decay = (VARIANTS[variant][name] for name in ("coordinated", "answer", "decay"))
    if download not in ("window", "all"):
        raise ConfigError(f"download = {download!r}: expected 'window' or 'all'")
    windows = Windows(share, coordinated, order)
    down = windows if download == "window" else Windows(None)
    sharing = Sharing(down, windows, answer, Late(decay, newest_only=newest_only), autonomous)
    return around_windows("pao_fed", objective, step, mechanism, sharing, unstable)
