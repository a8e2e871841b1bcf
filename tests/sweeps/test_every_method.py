"""Every method whose step may be an argument of a program, on the problems of the contract tests."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.config.choices import Choice
from tacit.config.experiment_sections import AlgorithmSettings
from tacit.config.methods import choose_method
from tacit.config.sections import Place
from tacit.simulator.simulation import Options
from tacit.sweeps.vectorised import liftable, simulate_together
from tests.contract.cases import AGENTS, CASES, DIM, FORMS, LIMITS, OBJECTIVE

STEPS, ROUNDS = (0.05, 0.2), 5
NEEDED = {
    "constrained_mirror_descent": {"constraints": [{"kind": "spending_limit", "limit": 1.0}]},
    "importance_fedavg": {"cohort": 3},
    "graph_federated": {"cohort": 2},
    "online_fed": {"fraction": 0.5},
    "pso_fed": {"fraction": 0.5},
}
"""What a file has to say of a method."""
LIMITED = {"constrained_mirror_descent": {"constraints": LIMITS}}
PLAIN = {
    case.name: case for case in CASES if case.name.partition(",")[0] in (case.name, case.name.removesuffix(", lossy"))
}


def chosen(case: str, step: float) -> Choice:
    name = case.partition(",")[0]
    form = {**LIMITED.get(name, {}), **FORMS.get(name, ({}, {}))[0]}
    choice = choose_method(
        {"name": name, "step": step, **NEEDED.get(name, {})}, Place("here", "[[algorithm]]"), AlgorithmSettings
    )
    made = choice.function

    @functools.wraps(made)
    def function(objective, **given):
        return made(objective, **{**given, **form})._replace(horizon=None)

    return choice._replace(function=function)


def with_steps() -> list[str]:
    entries = tacit.algorithms.REGISTRY
    return [name for name in PLAIN if "step" in entries[name.partition(",")[0]].constructor.__annotations__]


@pytest.mark.slow
@pytest.mark.parametrize("case", with_steps())
def test_one_program_for_several_steps_is_as_good_as_one_for_each(case: str) -> None:
    choices = [chosen(case, step) for step in STEPS]
    lifted = liftable(choices[0], OBJECTIVE, {"step"})
    plain = choices[0].function(OBJECTIVE, step=STEPS[0])
    free = all(phase.mechanism.distribution is None for phase in plain.phases)
    assert ("step" in lifted) == (free and plain.check_data is None and plain.prepare is None)
    if not lifted:
        pytest.skip("its step is looked at, or enters an account")
    graph, channel = PLAIN[case].graph, PLAIN[case].channel
    stream = tacit.streams.logistic_drift(AGENTS, DIM, seed=0)
    options = Options(
        rounds=ROUNDS, repeats=2, seed=0, channel=channel, dtype=jnp.dtype("float32"), start=None, node_loss=None,
        figures={}, evaluate="everyone", record={}, record_every=ROUNDS, checkpoint=None, progress=False, liars={},
    )  # fmt: skip
    runs = simulate_together(choices, [OBJECTIVE] * len(choices), ["step"], graph, stream, options)
    for choice, step, run in zip(choices, STEPS, runs, strict=True):
        algorithm = choice.function(OBJECTIVE, step=step)
        alone = tacit.simulate(
            algorithm, graph, stream, rounds=ROUNDS, repeats=2, channel=channel, record_every=ROUNDS, progress=False
        )
        for name, figure in alone.metrics().items():
            own = run.metrics()[name]["values"]
            np.testing.assert_allclose(
                np.array(own, float), np.array(figure["values"], float), rtol=1e-6, atol=1e-7, err_msg=name
            )
