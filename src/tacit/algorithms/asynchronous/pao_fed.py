"""PAO-Fed: asynchronous online learning in which 98 % of the model stays at home (Gauthier (2023), ch. 4, Alg. 3).

See `tacit.algorithms.asynchronous._round` for the equations and `._windows` for the windows. The text's variants:

    C / U   `coordinated`: all clients share the same window, or each its own
    0       `answer="same"`: a client sends back what it just got, refined once
    1, 2    `answer="next"`: it sends what the server will send next, refined since it was last overwritten
    2       `decay=0.2`: an update that was under way for l rounds counts 0.2**l

The bounds on the step are Theorems 4.1 and 4.2; `tacit_reproduction.analysis.mean_square` has what holds.
"""

from __future__ import annotations

from typing import Any, Literal

from tacit.algorithms.asynchronous._round import around_windows
from tacit.algorithms.asynchronous._windows import Late, Order, Sharing, Windows
from tacit.algorithms.local_step import LocalStep
from tacit.algorithms.registry import register
from tacit.core.checks import one_of
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


@register("Gauthier (2023), (4.9)-(4.14)", {"share": 1}, title="Partial sharing, asynchronous (PAO-Fed)")
def pao_fed(
    objective: Objective,
    step: LocalStep = 0.4,
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
    """Partial-sharing asynchronous online federated learning (PAO-Fed): clients send windows, however late.

    Clients are there by chance, their updates come late, and a message holds `share` coordinates of a model, a window
    that moves from round to round. In a round the server sends each client that is there a window; the client puts it
    into its model, takes a step, and sends a window back; the server moves its model towards what arrives, averaged
    over updates of the same delay, which count less the later they come. It runs on `tacit.graphs.star_roles`, or on a
    graph of peers taken as clients of one server.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.4 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      share: Coordinates of a model that a message holds, from 1 on, at most all.
      variant: "C0" ... "U2", the text's names, short for `coordinated`, `answer` and `decay`; None to set these.
      coordinated: Whether all clients share the same window in a round; by default each has its own.
      answer: "next", the window that the server will send in the next round, or "same", the one that it just sent.
      decay: An update that was under way for l rounds counts decay**l, from 0 to 1; 1 by default.
      download: "window", or "all": the server sends its whole model.
      order: "shift", each window begins where the last one ended, or "random".
      autonomous: Whether clients that the server does not reach learn on; yes by default.
      newest_only: Whether of late updates of one coordinate only the youngest counts; by default all are added.
      unstable: "refuse" a step above 1 / lambda before a run, lambda the largest eigenvalue of any client's E[z z'] of
        least squares, or "allow" it; above 2 / lambda the mean diverges.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> algorithm = tacit.algorithms.pao_fed(tacit.objectives.squared(), share=2, variant="C2")
      >>> graph = tacit.graphs.star_roles(8).available("client", 0.25)
      >>> sorted(algorithm.init), sorted(algorithm.requires)
      (['client', 'server'], [])

    References:
      Gauthier (2023), thesis, NTNU, ch. 4, Alg. 3 and (4.9)-(4.14); `download="all"` is the ablation of Fig. 4.6 a.
    """
    if variant is not None:
        one_of("variant", variant, VARIANTS)
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
