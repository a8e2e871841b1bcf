"""Numbers that mean nothing where they stand are refused, with the name, the value and what was expected."""

from __future__ import annotations

import pytest

import tacit
from tacit.core.checks import positive, whole_number
from tacit.core.errors import ConfigError


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3", None])
def test_what_is_no_count_is_refused(value):
    with pytest.raises(ConfigError, match=r"cohort = .*whole number of at least 1"):
        whole_number("cohort", value, "how many are called")
    assert whole_number("cohort", 1, "how many are called") == 1


@pytest.mark.parametrize("value", [0, -0.5, float("inf"), float("nan"), True, "1", None])
def test_what_is_not_positive_is_refused(value):
    with pytest.raises(ConfigError, match=r"penalty = .*above 0"):
        positive("penalty", value, "how hard it pulls")
    assert positive("penalty", 2, "how hard it pulls") == 2.0


COMPONENT = tacit.privacy.laplace(1.0, 1.0, "l2", perturbs="gradient", adjacency="component")


@pytest.mark.parametrize(
    "make",
    [
        lambda objective: tacit.algorithms.fedavg(objective, mechanism=COMPONENT, local_steps=2, cohort=2),
        lambda objective: tacit.algorithms.private_admm(objective, mechanism=COMPONENT),
        lambda objective: tacit.algorithms.consensus(objective, mechanism=COMPONENT._replace(perturbs="model")),
    ],
    ids=["several local steps", "a problem solved to the end", "a private state"],
)
def test_one_component_is_no_unit_where_a_record_moves_all_of_them(make):
    """In such methods a record that changes one component of one gradient changes all components of later ones."""
    objective = tacit.objectives.logistic()
    with pytest.raises(ConfigError, match="adjacency"):
        make(objective)
    assert tacit.algorithms.fedavg(objective, mechanism=COMPONENT).privacy.private
