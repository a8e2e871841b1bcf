"""Baselines of PAO-Fed: federated learning from streams, with and without partial sharing (Gauthier (2023), sec. 4.4).

The server takes the mean of what arrives, whatever its age. (With `late="by_age"` it does as PAO-Fed does, (4.13)-
(4.14) with alpha = 1. Where whole models are shared this adds up one whole correction for every age, and three ages at
once make it swing.)
"""

from __future__ import annotations

from typing import Literal

from tacit.algorithms.asynchronous._round import around_windows
from tacit.algorithms.asynchronous._windows import Late, Sharing, Windows
from tacit.algorithms.local_step import LocalStep
from tacit.algorithms.registry import register
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected
from tacit.core.errors import ConfigError

WHOLE = Windows(None)
Together = Literal["together", "by_age"]


@register("Gauthier (2023), sec. 4.4, Online-FedSGD", title="Online federated SGD (Online-FedSGD)")
def online_fedsgd(
    objective: Objective,
    step: LocalStep = 0.4,
    mechanism: Mechanism = unprotected,
    *,
    late: Together = "together",
    unstable: Literal["refuse", "allow"] = "refuse",
) -> Algorithm:
    """Online federated SGD: every client that is there gets the whole model, steps once and sends it back.

    The server's next model is the mean of the models that arrive, however late. It runs on `tacit.graphs.star_roles`
    with clients that are there by chance (`.available(...)`), or on a graph of peers taken as clients of one server.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.4 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      late: "together", the mean of all updates that arrive in a round, or "by_age", one mean for each delay, added up.
      unstable: "refuse" a step above 1 / lambda before a run, lambda the largest eigenvalue of any client's E[z z'] of
        least squares, or "allow" it; above 2 / lambda the mean diverges.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> sorted(tacit.algorithms.online_fedsgd(tacit.objectives.squared()).requires)  # any loss and delay
      []

    References:
      Gauthier (2023), thesis, NTNU, sec. 4.4.
    """
    sharing = Sharing(WHOLE, WHOLE, "same", _late(late), autonomous=False)
    return around_windows("online_fedsgd", objective, step, mechanism, sharing, unstable, answers=True)


@register("Gauthier (2023), sec. 4.4, Online-Fed", {"fraction": 1.0}, title="Online federated learning (Online-Fed)")
def online_fed(
    objective: Objective,
    step: LocalStep = 0.4,
    mechanism: Mechanism = unprotected,
    *,
    fraction: float,
    late: Together = "together",
    unstable: Literal["refuse", "allow"] = "refuse",
) -> Algorithm:
    """Online federated learning (Online-Fed): online FedSGD with a random subset of the clients that are there.

    In a round the server calls each client that is there by chance and sends it the whole model; a called client steps
    once and sends the model back; the server averages what arrives.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.4 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      fraction: Probability with which a client that is there is called, above 0, at most 1.
      late: "together", the mean of all updates that arrive in a round, or "by_age", one mean for each delay, added up.
      unstable: "refuse" a step above 1 / lambda before a run, lambda the largest eigenvalue of any client's E[z z'] of
        least squares, or "allow" it; above 2 / lambda the mean diverges.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> tacit.algorithms.online_fed(tacit.objectives.squared(), fraction=0.25).predictor
      'server'

    References:
      Gauthier (2023), thesis, NTNU, sec. 4.4.
    """
    sharing = Sharing(WHOLE, WHOLE, "same", _late(late), autonomous=False, fraction=fraction)
    return around_windows("online_fed", objective, step, mechanism, sharing, unstable, answers=True)


@register(
    "Gauthier (2023), sec. 4.4, PSO-Fed", {"fraction": 1.0, "share": 1}, title="Partial sharing, called (PSO-Fed)"
)
def pso_fed(
    objective: Objective,
    step: LocalStep = 0.4,
    mechanism: Mechanism = unprotected,
    *,
    fraction: float,
    share: int = 4,
    coordinated: bool = False,
    late: Together = "together",
    unstable: Literal["refuse", "allow"] = "refuse",
) -> Algorithm:
    """Partial-sharing online federated learning (PSO-Fed): called clients share windows, the others learn on alone.

    In a round the server sends each called client a window of its model; every client with data takes a step, and a
    called one sends back the next window; the server averages what arrives.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0, a number or a function of the round t = 1, 2, ..., or an optimiser such as
        `optax.adam(1e-3)`; 0.4 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      fraction: Probability with which a client that is there is called, above 0, at most 1.
      share: Coordinates of a model that a message holds, from 1 on, at most all.
      coordinated: Whether all clients share the same window in a round; by default each has its own.
      late: "together", the mean of all updates that arrive in a round, or "by_age", one mean for each delay, added up.
      unstable: "refuse" a step above 1 / lambda before a run, lambda the largest eigenvalue of any client's E[z z'] of
        least squares, or "allow" it; above 2 / lambda the mean diverges.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> tacit.algorithms.pso_fed(tacit.objectives.squared(), fraction=0.5, share=2).missing
      'renormalise'

    References:
      Gauthier (2023), thesis, NTNU, sec. 4.4.
    """
    windows = Windows(share, coordinated)
    sharing = Sharing(windows, windows, "next", _late(late), autonomous=True, fraction=fraction)
    return around_windows("pso_fed", objective, step, mechanism, sharing, unstable)


def _late(late: Together) -> Late:
    if late not in ("together", "by_age"):
        raise ConfigError(f"late = {late!r}: expected 'together' or 'by_age'")
    return Late(by_age=late == "by_age")
