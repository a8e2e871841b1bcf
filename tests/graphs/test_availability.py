"""Agents that are there by chance: drawn once for all of their links, by one seed, and never without data."""

import jax
import numpy as np
import pytest

from tacit import runtime
from tacit.algorithms import dynamic_mirror_descent, pao_fed
from tacit.core.errors import ConfigError, GraphError, RequirementError
from tacit.graphs import (
    Availability,
    Channel,
    Delay,
    Topology,
    as_topology,
    check_requirements,
    complete,
    ring,
    star_roles,
)
from tacit.objectives import squared

N = 6
CHANCE = np.linspace(0.1, 1, N)


def histories(availability: Availability, rounds: int) -> np.ndarray:
    keys = jax.vmap(lambda t: runtime.presence_key(jax.random.key(0), "client", t))(np.arange(1, rounds + 1))
    return np.asarray(jax.vmap(availability.present)(np.arange(1, rounds + 1), keys))


def test_everybody_is_there_as_often_as_it_should():
    """4,000 rounds: 4.5 standard deviations each, a false alarm in 25,000."""
    there = histories(Availability.of(N, CHANCE), 4000)
    assert np.all(np.abs(there.mean(axis=0) - CHANCE) <= 4.5 * np.sqrt(CHANCE * (1 - CHANCE) / 4000))
    assert there[:, -1].all()


def test_nobody_is_there_without_data_and_the_table_starts_over():
    arrivals = np.random.default_rng(0).random((5, N)) < 0.5
    there = histories(Availability.of(N, 1.0, arrivals), 12)
    np.testing.assert_array_equal(there, arrivals[np.arange(12) % 5])


def test_both_link_sets_agree_on_who_is_there():
    topology = runtime.prepared_topology(pao_fed(squared(), share=2), star_roles(N).available("client", 0.5))
    key = jax.random.key(3)
    there = topology.availability["client"].present(1, key)
    up = topology.links["uplink"].at(1, key, senders_there=there)
    down = topology.links["downlink"].at(1, key, there=there)
    np.testing.assert_array_equal(up.live[np.argsort(topology.links["uplink"].senders)], there)
    np.testing.assert_array_equal(down.live[np.argsort(topology.links["downlink"].receivers)], there)
    np.testing.assert_array_equal(up.senders_present, there)
    np.testing.assert_array_equal(down.present, there)
    weights = np.asarray(up.edge_weight)
    np.testing.assert_allclose(weights[np.asarray(up.live)], 1 / there.sum(), rtol=1e-6)
    assert not weights[~np.asarray(up.live)].any()


def test_a_union_keeps_everybodys_chance_and_the_first_part_its_history():
    arrivals = np.random.default_rng(1).random((4, N)) < 0.7
    parts = [star_roles(N).available("client", chance, arrivals) for chance in (CHANCE, 0.5)]
    both = Topology.union(parts).availability["client"]
    np.testing.assert_array_equal(both.probability, [*CHANCE, *[0.5] * N])
    alone = histories(parts[0].availability["client"], 30)
    np.testing.assert_array_equal(histories(both, 30)[:, :N], alone)


def test_parts_of_different_forms_make_no_union():
    plain, known = star_roles(N), star_roles(N).available("client", 0.5, np.ones((3, N), bool))
    for other in (
        plain,
        star_roles(N).available("client", 0.5),
        star_roles(N).available("client", 0.5, np.ones((4, N), bool)),
    ):
        with pytest.raises(GraphError, match="the same form"):
            Topology.union([known, other])


@pytest.mark.parametrize(
    ("role", "chance", "arrivals", "words"),
    [
        ("peer", 0.5, None, "no role 'peer'"),
        ("client", 0.0, None, "above 0 and up to 1"),
        ("client", 1.5, None, "above 0 and up to 1"),
        ("client", [0.5] * (N - 1), None, f"one for each of {N} agents"),
        ("client", 0.5, np.ones((3, N - 1), bool), r"expected \(rounds, 6\) of bool"),
        ("client", 0.5, np.ones((3, N)), "float64"),
    ],
)
def test_what_makes_no_sense_is_refused(role, chance, arrivals, words):
    with pytest.raises(GraphError, match=words):
        star_roles(N).available(role, chance, arrivals)


def test_whoever_needs_fixed_links_is_told_that_these_are_not():
    there_by_chance = as_topology(complete(N)).available("peer", 0.5)
    assert check_requirements(there_by_chance, frozenset({"fixed"}), "method")
    assert not check_requirements(there_by_chance, frozenset({"symmetric", "strongly_connected"}), "method")
    assert check_requirements(star_roles(N).available("client", 0.5), frozenset({"fixed"}), "method")


def test_a_window_of_rounds_that_connects_everybody_is_not_promised():
    method = dynamic_mirror_descent(squared(), window=5)
    with pytest.raises(RequirementError, match="Attendance"):
        runtime.check_window(method, as_topology(ring(N)).available("peer", 0.5), jax.random.key(0), 10)


def test_delays_come_in_steps_and_on_the_links_that_they_are_for():
    """20,000 messages: 4.5 standard deviations each, a false alarm in 25,000."""
    channel = Channel(delay=Delay(p=0.4, longest=60, step=10), links=("uplink",))
    lost, delay = map(np.asarray, channel.on("uplink").draw(jax.random.key(1), 20_000))
    assert channel.ages == tuple(range(0, 61, 10))
    chances = channel.delay.probabilities()
    for age, chance in zip(channel.ages, chances, strict=True):
        found = np.mean(~lost & (delay == age))
        assert abs(found - chance) <= 4.5 * np.sqrt(chance * (1 - chance) / 20_000)
    assert set(delay[~lost]) <= set(channel.ages)
    assert abs(lost.mean() - 0.4**7) <= 4.5 * np.sqrt(0.4**7 / 20_000)
    assert channel.on("downlink").reliable
    assert not channel.reliable


def test_a_channel_for_links_that_nobody_has_is_refused():
    misspelt = Channel(delay=Delay(), links=("uplnk",))
    with pytest.raises(ConfigError, match="'uplnk', .*'pao_fed' has 'downlink', 'uplink'"):
        runtime.prepared_topology(pao_fed(squared(), share=2), star_roles(N), misspelt)
