"""Federated averaging with a proximal term, FedProx (Li et al. (2020), Alg. 2).

    server:  calls L of its clients, or all, and sends them w
    client:  w_0 = w;  w_e = w_{e-1} - eta / E (ghat(w_{e-1}) + mu (w_{e-1} - w)),  e = 1, ..., E
    server:  w <- mean of the called clients' w_E

With mu = 0 it is `fedavg` with a cohort. Local problems are solved as far as E steps go: the text's inexact solution.

Privacy: the mean of the local steps' gradients, pulled to w, is released (`tacit.algorithms._parts.local_steps`). Its
clip holds whatever mu is.
"""

from __future__ import annotations

from tacit.algorithms._parts.local_steps import local_work, sampled_training
from tacit.algorithms._parts.mixing import IfMissing
from tacit.algorithms._parts.per_client import PerClient
from tacit.algorithms.federated._server_round import averaging_rounds
from tacit.algorithms.local_step import LocalStep
from tacit.algorithms.registry import register
from tacit.core.checks import positive
from tacit.core.contract import Algorithm, Mechanism, Objective, unprotected
from tacit.privacy import statement


@register("Li et al. (2020), Alg. 2", title="FedProx")
def fedprox(
    objective: Objective,
    step: LocalStep = 0.1,
    mechanism: Mechanism = unprotected,
    missing: IfMissing = "wait",
    proximal: float = 0.1,
    cohort: int | None = None,
    local_steps: PerClient = 5,
    batch_size: PerClient | None = None,
    local_epochs: PerClient | None = None,
) -> Algorithm:
    """FedProx: federated averaging whose clients are pulled back to the server's model while they train.

    In a round the server sends its model, each called client takes some gradient steps on its own data with the
    gradient of proximal / 2 times the squared distance to that model added, and the server averages what they came to.
    The pull keeps clients with differing data from drifting apart within a round. It runs on `tacit.graphs.star_roles`;
    a graph of peers is taken as so many clients of one server.

    Args:
      objective: Loss and regulariser, e.g. `tacit.objectives.logistic(l2=1e-4)`.
      step: Step size above 0 of a client's steps in a round together, a number or a function of the round t = 1, 2,
        ..., or an optimiser such as `optax.adam(1e-3)`; 0.1 by default.
      mechanism: Noise, its place and its account, e.g. `tacit.privacy.laplace(1.0, clip=1.0)`; none by default.
      missing: "wait" for all models, or "renormalise": the server averages those that arrived.
      proximal: mu, the strength of the pull, above 0; 0.1 by default.
      cohort: Clients that the server calls in a round, from 1 on, drawn uniformly; by default all of them.
      local_steps: Gradient steps of a client in a round, from 1 on; one number, or one per client; 5 by default. With
        one step nothing is pulled.
      batch_size: Records drawn for each step, without replacement, from 1 on; one number, or one per client; by default
        the batch as it comes.
      local_epochs: Passes through all records that a round brings, shuffled, `batch_size` of them at a time, in the
        place of `local_steps`; one number, or one per client; none by default.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.fedprox(tacit.objectives.logistic(), step=0.5, proximal=1.0, cohort=3)
      >>> stream = tacit.streams.logistic_drift(8, 5, heterogeneity=1.0, seed=0)
      >>> run = tacit.simulate(method, tacit.graphs.star_roles(8), stream, rounds=20, seed=0)
      >>> int(run.per_round["messages"][0, 0])
      6

    References:
      Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith (2020), Alg. 2.
    """
    pull = positive("proximal", proximal, "the strength of the pull; without one use fedavg")
    training = sampled_training(objective, step, mechanism, local_work(local_steps, batch_size, local_epochs, 5), pull)
    said = statement(mechanism)
    return averaging_rounds("fedprox", objective, training, said, missing, cohort)
