"""Simulation: a graph, a stream of data, an algorithm, a run, and what can be asked of it.

    python examples/simulation.py            # some ten seconds

It prints the average loss with its interval, regret against the best fixed model, and whether the run was private; the
report is in runs/simulation/report.html. `tacit run examples/synthetic.toml` is the same from a file.
"""

from __future__ import annotations

import tacit

AGENTS, ROUNDS, REPEATS = 32, 500, 3


# Functions of a seed: repeat r gets its own graph and data, so intervals speak of more than one draw.
def graph(seed: int) -> tacit.graphs.Graph:
    return tacit.graphs.random_digraph(AGENTS, out_degree=6, seed=seed)


def stream(seed: int) -> tacit.streams.Stream:
    return tacit.streams.logistic_drift(agents=AGENTS, dim=10, noise=0.3, heterogeneity=0.2, seed=seed)


def main() -> None:
    objective = tacit.objectives.logistic(l2=1e-4)
    algorithm = tacit.algorithms.online_push_sum(objective, step=1.0)
    run = tacit.simulate(algorithm, graph, stream, rounds=ROUNDS, repeats=REPEATS, seed=0)

    loss = run.metrics()["average_loss"]
    print(f"average loss {loss['mean']:.4f}, 95 % interval {loss['low']:.4f} to {loss['high']:.4f}")
    regret = run.regret(points=4)  # against the best fixed model, solved for on all the data
    for t, value in zip(regret.rounds, regret.per_agent_round.mean(axis=0), strict=True):
        print(f"after round {t:5d}: regret per agent and round {value:.4f}")
    print(run.privacy.words())
    print(f"see {run.save('runs/simulation') / 'report.html'}")


if __name__ == "__main__":
    main()
