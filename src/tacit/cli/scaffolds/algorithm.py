"""A method of the user's own: a Python file that keeps the contract, and an experiment that runs it."""

from __future__ import annotations

import keyword
from pathlib import Path

from tacit.algorithms import REGISTRY
from tacit.core.errors import ConfigError

METHOD = '''"""NAME: a method of your own. Run it: tacit --with NAME.py run NAME.toml

An algorithm is a few pure functions of one agent: no function knows the time, the network or the other agents. What may
be known of the world is in `view`; randomness comes in as `key`. Check that it keeps the contract: python NAME.py
"""

from __future__ import annotations

import jax

from tacit.algorithms import register
from tacit.core.contract import Algorithm, Mechanism, Objective, Phase, share
from tacit.privacy import clipped_gradient, statement, unprotected


@register("my own")  # "name" of an [[algorithm]] is that of the function, and its keys are the parameters
def NAME(objective: Objective, step: float = 0.1, mechanism: Mechanism = unprotected) -> Algorithm:
    """Take a gradient step, then average the models of those who are heard."""
    mechanism = mechanism._replace(perturbs="gradient")  # noise goes on the gradient, before the step
    gradient = clipped_gradient(objective, mechanism.clip)

    def init(key, params, views):  # the first state of an agent: here, its model
        return params

    def compute(key, state, batch, view):  # the only function that sees data: returns a value that is still private
        return state, gradient(state, batch, key)

    def emit(state, released, view):  # released: that value with its noise, clipped and booked; what follows may leave
        return state, share(jax.tree.map(lambda x, g: x - step * g, state, released))

    def absorb(key, state, inbox, view):  # mix(): the sum of W[i, j] times what j shared, this agent included
        return inbox.mix().private

    return Algorithm(
        name="NAME",
        objective=objective,
        init={"peer": init},
        phases=(Phase("peers", compute, mechanism, absorb, emit),),
        model=lambda state: state,  # the parameters to predict with
        requires=frozenset({"strongly_connected", "doubly_stochastic", "reliable"}),  # of graph and channel
        privacy=statement(mechanism),  # what holds, by the mechanism; it is checked, and `tacit audit` attacks it
        weights="metropolis",
    )


if __name__ == "__main__":
    import tacit
    from tacit.audit import check_contract

    method = NAME(tacit.objectives.logistic(l2=1e-4))
    graph, stream = tacit.graphs.ring(6), tacit.streams.logistic_drift(agents=6, dim=3, rounds=20)
    for checked in check_contract(method, graph, stream, rounds=6):
        print(checked)
'''

EXPERIMENT = """# An experiment with a method of your own. Run it: tacit --with NAME.py run NAME.toml

[run]
name = "NAME"
rounds = 200
repeats = 3              # each with its own graph and data
seed = 0

[graph]                  # links go both ways, which the method requires
kind = "ring"
agents = 10

[stream]                 # made-up data: a truth that drifts
kind = "logistic_drift"
dim = 5

[objective]
kind = "logistic"
l2 = 1e-4

"""

METHODS = """[[algorithm]]            # your own: the keys are the parameters of the function in NAME.py
name = "NAME"
step = {step}

[[algorithm]]            # one of the package, to compare with; `tacit algorithms` lists all
name = "online_push_sum"
step = {step}
"""


def method_name(asked: str) -> str:
    """Return the name of a method as Python writes it, or say why it cannot be one."""
    name = asked.replace("-", "_")
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        raise ConfigError(f"{asked!r}: expected the name of a function: letters, digits and _, e.g. my_method")
    if name in REGISTRY:
        raise ConfigError(f"{name!r} is a method of the package already; give your own another name")
    return name


def method_files(name: str, experiment: str | None = None) -> dict[Path, str]:
    """Return the files of a method; `experiment` runs it, or one on made-up data."""
    text = EXPERIMENT + METHODS.replace("{step}", "0.3") if experiment is None else experiment
    return {Path(f"{name}.py"): METHOD.replace("NAME", name), Path(f"{name}.toml"): text.replace("NAME", name)}
