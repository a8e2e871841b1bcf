"""Loss from each agent to each single observer, against dense covariances, by hand and at its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tacit
from tacit.core.errors import ConfigError
from tacit.privacy import LinearNetwork, averaging_network, network_loss
from tacit.privacy.accounting import composed
from tacit.privacy.conversions import tight
from tacit.privacy.events import Event

ROW = np.array([[2, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 2]]) / 3
"""Four agents in a row."""
ONE_WAY = np.array([[0.5, 0, 0.3], [0.5, 0.6, 0], [0, 0.4, 0.7]])
"""0 -> 1 -> 2 -> 0."""


def messages_of(weights: np.ndarray, rounds: int) -> np.ndarray:
    """(rounds, senders, rounds, agents): what each message makes of each release, by running every release alone."""
    n = len(weights)
    found = np.zeros((rounds, n, rounds, n))
    for s in range(rounds):
        for u in range(n):
            x = np.zeros(n)
            for t in range(rounds):
                sent = x + ((np.arange(n) == u) & (t == s))
                found[t, :, s, u] = sent
                x = weights @ sent
    return found


@pytest.mark.parametrize("response", [None, [1.0, -0.5, -0.125]])
def test_it_is_that_of_dense_covariances(response: list[float] | None) -> None:
    rounds, n = 3, 3
    scale, moved = np.array([0.5, 1.0, 2.0]), np.array([1.0, 0.7, 2.0])
    found = network_loss(averaging_network(ONE_WAY, rounds), moved, scale, noise_response=response)
    column = np.zeros(rounds)
    column[: len(response or [1.0])] = response or [1.0]
    one = np.diag(scale) @ np.array([[column[t - s] if t >= s else 0 for s in range(rounds)] for t in range(rounds)])
    everything = messages_of(ONE_WAY, rounds)
    for v in range(n):
        (heard,) = [j for j in range(n) if j != v and ONE_WAY[v, j] > 0]
        view = everything[:, heard].copy()
        view[:, :, v] = 0  # what it released itself it knows
        covariance = sum(view[:, :, u] @ one @ one.T @ view[:, :, u].T for u in range(n))
        for u in set(range(n)) - {v}:
            shifts = view[:, :, u] * moved
            squared = max(shifts[:, s] @ np.linalg.pinv(covariance) @ shifts[:, s] for s in range(rounds))
            assert found.mu[u, v] == pytest.approx(math.sqrt(squared), rel=1e-9)
    strong = max(np.linalg.norm(np.linalg.solve(one, np.eye(rounds)[s] * moved[s])) for s in range(rounds))
    assert found.strong == pytest.approx(strong)


def test_by_hand_in_a_row() -> None:
    loss = network_loss(averaging_network(ROW, 2), sensitivity=1.0, scale=2.0)
    assert loss.mu[0, 1] == pytest.approx(0.5)  # the first message of a neighbour is its release, as it is
    # The second message of agent 1 holds a third of agent 0's first release, under one new draw.
    assert loss.mu[0, 2] == pytest.approx(0.5 * (1 / 3) / math.sqrt(1 / 9 + 1))
    assert loss.mu[0, 3] == 0  # nothing has arrived
    assert np.isnan(np.diag(loss.mu)).all()
    assert averaging_network(ROW, 2).distances()[0].tolist() == [0, 1, 2, 3]


def test_who_hears_everybody_gets_the_strong_figure_and_no_one_more() -> None:
    loss = network_loss(averaging_network(np.full((4, 4), 0.25), 5), sensitivity=1.0, scale=0.5)
    others = ~np.eye(4, dtype=bool)
    assert loss.mu[others] == pytest.approx(2.0)
    assert loss.strong == pytest.approx(2.0)
    row = network_loss(averaging_network(ROW, 5), sensitivity=1.0, scale=0.5)
    assert np.nanmax(row.mu) <= row.strong.max() * (1 + 1e-12)


def test_the_strong_figure_is_what_accounts_say() -> None:
    records = [np.array([[0], [1], [0], [1], [0], [2]])] * 4
    loss = network_loss(averaging_network(ROW, 6), sensitivity=1.0, scale=3.0, records=records)
    booked = composed([Event("gaussian", "gaussian", 1.0, 3.0)] * 3)
    assert loss.strong_epsilon(1e-5) == pytest.approx(tight(booked.rho, 1e-5), rel=1e-9)
    assert np.nanmax(loss.rho) <= booked.rho * (1 + 1e-9)


def test_a_record_of_several_rounds_costs_as_much_as_any_directions_of_its_moves() -> None:
    rounds, v = 4, 2
    network = averaging_network(ROW, rounds)
    loss = network_loss(network, 1.0, records=[np.zeros((rounds, 1), np.int64)] * 4)
    view = network.view(np.flatnonzero(network.heard[v]))
    view[:, :, v] = 0
    flat = view.reshape(len(view), -1)
    for signs in np.random.default_rng(0).choice([-1.0, 1.0], (16, rounds)):
        seen = view[:, :, 0] @ signs
        assert seen @ np.linalg.pinv(flat @ flat.T) @ seen <= loss.mu[0, v] ** 2 * (1 + 1e-9)


def test_messages_that_say_the_same_twice_tell_no_more() -> None:
    network = averaging_network(ROW, 4)
    twice = LinearNetwork(
        network.transition,
        network.entry,
        np.repeat(network.from_state, 2, axis=1),
        np.repeat(network.from_release, 2, axis=1),
        np.repeat(network.heard, 2, axis=1),
    )
    once = network_loss(network, 1.0).mu
    np.testing.assert_allclose(network_loss(twice, 1.0).mu, once, rtol=1e-6)
    assert twice.distances()[0].tolist() == [0, 1, 2, 3]


def test_gradients_that_react_may_show_more_than_the_figure_and_no_more_than_the_strong_one() -> None:
    # 0 -> 1 -> 4 -> 5 carries the record, 2 -> 3 -> 4 noise that hides it. Agent 3 has the loss x^2 / 2 and step 1: its
    # gradient step forgets what it heard, the noise of agent 2 with it. Quadratic losses keep all of it linear.
    weights = np.zeros((6, 6))
    for receiver, senders in {0: [0], 1: [0, 1], 2: [2], 3: [2, 3], 4: [1, 3, 4], 5: [4, 5]}.items():
        weights[receiver, senders] = 1 / len(senders)
    network = averaging_network(weights, 8)
    keeps = np.repeat(np.diag([1.0, 1, 1, 0, 1, 1])[None], 8, axis=0)
    reacting = network._replace(transition=network.transition @ keeps, from_state=network.from_state @ keeps)
    figure, truth = (network_loss(each, 1.0).mu[0, 5] for each in (network, reacting))
    assert (figure, truth) == (pytest.approx(0.353, abs=1e-3), pytest.approx(0.432, abs=1e-3))
    assert truth < 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scale": 0.0}, "scale"),
        ({"scale": [1.0, 2.0]}, "(2,)"),
        ({"sensitivity": -1.0}, "sensitivity"),
        ({"noise_response": [0.0, 1.0]}, "noise_response"),
        ({"records": [None]}, "4"),
    ],
)
def test_what_cannot_be_used_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("(", r"\(").replace(")", r"\)")):
        network_loss(averaging_network(ROW, 3), **{"sensitivity": 1.0, **change})  # type: ignore[arg-type]


def test_a_view_that_is_too_large_is_refused_before_it_is_made() -> None:
    network = averaging_network(np.full((30, 30), 1 / 30), 60)
    with tacit.limits.memory(0.05), pytest.raises(ConfigError, match="--rounds"):
        network_loss(network, 1.0)
