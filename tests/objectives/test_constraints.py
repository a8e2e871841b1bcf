"""Constraints: what they are worth, how several become one vector, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.errors import ConfigError, ContractError
from tacit.objectives import CONSTRAINTS, Constraint, size_limit, spending_limit
from tacit.objectives.constraints import as_constraints, stacked
from tacit.streams import Batch

PRICES = np.array([[1.0, 2.0, 4.0], [3.0, 0.0, -2.0]], np.float32)
PARAMS = jnp.array([0.5, -1.0, 0.25])


def test_spending_is_the_mean_price_of_what_is_bought_less_the_limit():
    spent = PRICES @ np.asarray(PARAMS)  # -0.5 and 1.0
    limit = spending_limit(0.2).value
    assert limit(PARAMS, Batch(PRICES[1], np.float32(1))) == pytest.approx(spent[1] - 0.2)
    assert limit(PARAMS, Batch(PRICES, np.ones(2, np.float32))) == pytest.approx(spent.mean() - 0.2)
    only_first = Batch(PRICES, np.ones(2, np.float32), np.array([1.0, 0.0], np.float32))
    assert limit(PARAMS, only_first) == pytest.approx(spent[0] - 0.2)
    np.testing.assert_allclose(jax.grad(limit)(PARAMS, Batch(PRICES, np.ones(2, np.float32))), PRICES.mean(axis=0))


def test_size_is_the_l1_norm_less_the_limit():
    limit = size_limit(1.5).value
    assert limit(PARAMS, Batch(PRICES[0], np.float32(1))) == pytest.approx(1.75 - 1.5)
    np.testing.assert_allclose(jax.grad(limit)(PARAMS, None), np.sign(PARAMS))


def test_several_are_one_vector_in_their_order():
    both = as_constraints([size_limit(1.0), spending_limit(0.0)])
    batch = Batch(PRICES[1], np.float32(1))
    np.testing.assert_allclose(stacked(both)(PARAMS, batch), [0.75, 1.0])
    alone = spending_limit(0.0)
    assert as_constraints(alone) == (alone,)


def test_names_carry_the_limit_and_are_registered():
    assert spending_limit(0.25).name == "spending at most 0.25"
    assert size_limit(3).name == "l1 norm at most 3"
    assert {"spending_limit", "size_limit"} <= set(CONSTRAINTS)
    assert CONSTRAINTS["size_limit"](limit=3).name == size_limit(3).name


def test_a_run_notes_them_in_every_round_under_their_names():
    """The mean over agents of c at the model of before the round."""
    agents, rounds = 3, 4
    prices = np.random.default_rng(1).uniform(size=(rounds, agents, 3)).astype(np.float32)
    stream = tacit.streams.from_function(
        lambda a, b: Batch(prices[a:b], np.ones((b - a, agents), np.float32)), agents=agents, rounds=rounds
    )
    limits = [spending_limit(0.3), Constraint("first below a half", lambda params, batch: params[0] - 0.5)]
    algorithm = tacit.algorithms.constrained_mirror_descent(
        tacit.objectives.logistic(), limits, mirror=tacit.objectives.entropy()
    )
    firsts = {"first": lambda params, batch: params[0]}
    run = tacit.simulate(algorithm, tacit.graphs.ring(agents), stream, rounds=rounds, figures=firsts)
    cost = run.per_round["spending at most 0.3"][0]
    assert cost[0] == pytest.approx(prices[0].mean() - 0.3, rel=1e-5)  # all start at equal shares
    np.testing.assert_allclose(run.per_round["first below a half"], run.per_round["first"] - 0.5, atol=1e-6)
    assert set(run.constraints) == {each.name for each in limits}


def test_a_figure_may_not_be_called_like_a_constraint():
    limit = Constraint("share", lambda params, batch: params[0] - 0.5)
    algorithm = tacit.algorithms.constrained_mirror_descent(tacit.objectives.logistic(), limit)
    stream = tacit.streams.logistic_drift(agents=3, dim=2, rounds=2, seed=0)
    with pytest.raises(ConfigError, match="'share' .*constraint"):
        tacit.simulate(algorithm, tacit.graphs.ring(3), stream, rounds=2, figures={"share": limit.value})


@pytest.mark.parametrize("make", [tacit.algorithms.constrained_mirror_descent, tacit.algorithms.lagrangian_descent])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], r"constraints = \[\]: expected a tacit.objectives.Constraint, or a list of at least one"),
        ([size_limit(1.0), "spending"], "constraints = .*expected a tacit.objectives.Constraint"),
        ([size_limit(1.0), size_limit(1.0)], "named .*l1 norm at most 1.*expected different names"),
    ],
)
def test_constraints_that_cannot_be_used_are_refused(make, given, words):
    settings = {"rounds": 5} if make is tacit.algorithms.lagrangian_descent else {}
    with pytest.raises(ConfigError, match=words):
        make(tacit.objectives.logistic(), given, **settings)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: spending_limit("much"), "limit = 'much': expected a number"),
        (lambda: spending_limit(float("nan")), "limit = nan"),
        (lambda: size_limit(0), "limit = 0: expected a finite number above 0"),
    ],
)
def test_limits_that_are_none_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_a_limit_of_the_parameters_alone_costs_no_privacy_and_one_that_only_says_so_is_refused():
    mechanism = tacit.privacy.laplace(epsilon=2.0, clip=1.0, perturbs="gradient")
    stream = tacit.streams.logistic_drift(agents=3, dim=2, batch=4, rounds=6, seed=0)

    def run(limit):
        algorithm = tacit.algorithms.lagrangian_descent(
            tacit.objectives.logistic(), limit, rounds=6, mechanism=mechanism
        )
        return tacit.simulate(algorithm, tacit.graphs.complete(3), stream, rounds=6)

    assert run(tacit.objectives.size_limit(0.1)).privacy.guarantee.epsilon == pytest.approx(2.0)
    with pytest.raises(ContractError, match="data into the state"):
        run(tacit.objectives.spending_limit(0.1)._replace(reads_data=False))
    with pytest.raises(ContractError, match="data"):  # also beside one that does read data, and says so
        run([tacit.objectives.spending_limit(0.2), tacit.objectives.spending_limit(0.1)._replace(reads_data=False)])
