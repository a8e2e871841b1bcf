"""First steps in Python: a graph, a stream of data, an algorithm, a run, and what can be asked of it.

Run it with `python examples/first_steps.py`.
"""

from __future__ import annotations

from pathlib import Path

import tacit


def main(rounds: int = 1000, repeats: int = 5, out: str = "runs/first_steps") -> Path:
    # Functions of a seed: repeat r gets its own graph and data, so intervals speak of more than one draw.
    def graph(seed: int) -> tacit.graphs.Graph:
        return tacit.graphs.random_digraph(64, out_degree=10, seed=seed)

    def stream(seed: int) -> tacit.streams.Stream:
        return tacit.streams.logistic_drift(agents=64, dim=18, noise=0.3, heterogeneity=0.2, seed=seed)

    objective = tacit.objectives.logistic(l2=1e-4)
    algorithm = tacit.algorithms.online_push_sum(objective, step=1.0)
    run = tacit.simulate(algorithm, graph, stream, rounds=rounds, repeats=repeats, seed=0)

    regret = run.regret()  # against the best fixed model, solved for on all the data
    loss = run.metrics()["average_loss"]
    print(f"average loss {loss['mean']:.4f}, 95 % interval {loss['low']:.4f} to {loss['high']:.4f}")
    for t, value in zip(regret.rounds, regret.per_agent_round.mean(axis=0), strict=True):
        print(f"after round {t:5d}: regret per agent and round {value:.4f}")
    print(run.privacy.words())

    directory = run.save(out)
    print(f"see {directory / 'report.html'}")
    return directory


if __name__ == "__main__":
    main()
