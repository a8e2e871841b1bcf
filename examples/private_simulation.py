"""Private simulation: plan a budget, run with it, read what was spent, and attack the claim.

    python examples/private_simulation.py    # some ten seconds

Every record is read in four rounds here, so that a run costs it four releases. The script finds the Gaussian noise that
keeps four of them within epsilon = 1, runs with and without it, prints both losses and what was spent, and then plays
an attacker who sees every message: epsilon is at least what he finds, and at most what was claimed.
"""

from __future__ import annotations

import tacit
from tacit.audit import audit
from tacit.privacy.planning import noise_for

AGENTS, ROUNDS, READS = 20, 200, 4
EPSILON, DELTA = 1.0, 1e-5


def main() -> None:
    multiplier = noise_for("gaussian", EPSILON, DELTA, releases=READS)
    print(f"plan: noise of {multiplier:.2f} times the sensitivity keeps {READS} uses of a record within {EPSILON:g}")
    noise = tacit.privacy.gaussian(noise_multiplier=multiplier, clip=1.0)

    graph = tacit.graphs.random_digraph(AGENTS, out_degree=5, seed=0)
    # A record moves the mean of its batch of 32 by a 32nd, and the noise shrinks with it.
    stream = tacit.streams.logistic_drift(
        agents=AGENTS, dim=5, batch=32, noise=0.3, rounds=ROUNDS, repeat_every=ROUNDS // READS, seed=0
    )
    objective = tacit.objectives.logistic(l2=1e-4)
    for name, mechanism in (("without noise", tacit.privacy.unprotected), ("with noise", noise)):
        algorithm = tacit.algorithms.online_push_sum(objective, step=1.0, mechanism=mechanism)
        run = tacit.simulate(algorithm, graph, stream, rounds=ROUNDS, seed=0)
        print(f"{name}: average loss {run.average_loss()[0]:.4f}")
        print(f"  {run.privacy.words()}")

    # `tacit audit online_push_sum --mechanism gaussian` tries more problems, and takes longer.
    mechanism = tacit.privacy.gaussian(1.0, clip=1.0)
    found = audit(tacit.algorithms.online_push_sum, mechanism, trials=5_000, problems=["linear"])
    print(f"audit: {found.words()}")
    assert found.holds, "the attacker found more than was claimed"


if __name__ == "__main__":
    main()
