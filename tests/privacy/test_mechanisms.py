"""What mechanisms declare, that noise is drawn as declared, and that what they say of sensitivity is true."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.core.contract import Clip, Extent, Links, View
from tacit.core.errors import ConfigError, ContractError
from tacit.privacy import (
    bounded_laplace,
    classic_gaussian,
    decaying_gaussian,
    gaussian,
    laplace,
    release,
    statement,
    unprotected,
)
from tacit.privacy.mechanisms import largest_change
from tacit.privacy.noise import noise_words


def view(t=1):
    links = Links(jnp.array([0, 1, 2]), jnp.ones(3, bool), jnp.full(3, 1 / 3))
    return View(jnp.int32(0), jnp.int32(t), jnp.array(True), jnp.int32(0), links, links)


def words(t=1, agent=0):
    return noise_words(jax.random.key(agent), t, 0)


@pytest.mark.parametrize("norm", ["l2", "l1", "linf"])
@pytest.mark.parametrize("target", ["l1", "l2"])
@pytest.mark.parametrize("records", [1, 4])
def test_no_replacement_moves_the_mean_further_than_said_and_one_gets_there(norm, target, records):
    """Random search over pairs of clipped vectors, with the corners of the ball among them."""
    d, bound = 5, 0.7
    rng = np.random.default_rng(0)
    candidates = rng.standard_normal((2000, d)) * rng.exponential(size=(2000, 1))
    corners = np.concatenate([np.eye(d), np.ones((1, d))]) * 100
    clipped = np.asarray(
        jax.vmap(lambda g: tacit.privacy.clipping.clip(g, Clip(bound, norm)))(
            jnp.asarray(np.concatenate([candidates, corners]), jnp.float32)
        ),
        np.float64,
    )
    change = (clipped - np.roll(clipped, 1, axis=0)) / records
    opposite = 2 * clipped[-6:] / records
    norms = np.linalg.norm(np.concatenate([change, opposite]), ord=1 if target == "l1" else 2, axis=1)
    said = largest_change(Clip(bound, norm), target, "record", Extent(d, records))
    assert norms.max() <= said * (1 + 1e-9)
    assert norms.max() >= said * 0.999


def test_other_neighbours_change_other_amounts():
    clip, extent = Clip(0.5, "linf"), Extent(9, 3)
    assert largest_change(clip, "l1", "component", extent) == pytest.approx(2 * 0.5 / 3)
    assert largest_change(clip, "l1", "dataset", extent) == pytest.approx(2 * 0.5 * 9)  # the batch does not help
    assert largest_change(clip, "l2", "record", extent) == pytest.approx(2 * 0.5 * 3 / 3)


@pytest.mark.parametrize(
    ("mechanism", "spread"),
    [
        (laplace(epsilon=2.0, clip=0.5, norm="l1"), (2 * 0.5 / 2.0) * np.sqrt(2)),
        (gaussian(noise_multiplier=1.5, clip=0.5), 1.5 * 2 * 0.5),
        (decaying_gaussian(noise_multiplier=1.5, decay=0.81, clip=0.5), 1.5 * 2 * 0.5 * 0.9**2),
        (classic_gaussian(epsilon=0.5, delta=1e-5, clip=0.5, decay=0.81), np.sqrt(8 * np.log(1.25e5)) * 0.9**2),
    ],
    ids=lambda m: getattr(m, "name", ""),
)
def test_noise_is_drawn_as_declared(mechanism, spread):
    """Standard deviation of 1e5 draws within 2 %: six standard errors of the estimate, a false alarm below 1e-6."""
    value = {"w": jnp.zeros(99_000), "b": jnp.ones(1000)}
    released, noise, _ = release(mechanism, words(3), value, view(3))
    drawn = np.concatenate([released["w"], released["b"] - 1])
    assert drawn.std() == pytest.approx(spread, rel=0.02)
    assert abs(drawn.mean()) < 6 * spread / np.sqrt(drawn.size)
    assert noise is not None
    deviation = np.sqrt(2) if mechanism.distribution == "laplace" else 1
    assert float(noise.scale) * deviation == pytest.approx(spread, rel=1e-6)


def test_each_distribution_counts_the_change_in_its_own_norm():
    extent = Extent(coordinates=9, records=2)
    assert float(laplace(1.0, 0.5).noise(view(), extent).sensitivity) == pytest.approx(2 * 0.5 * 3 / 2)
    assert float(gaussian(1.0, 0.5).noise(view(), extent).sensitivity) == pytest.approx(2 * 0.5 / 2)
    assert float(gaussian(1.0, 0.5, "linf").noise(view(), extent).sensitivity) == pytest.approx(2 * 0.5 * 3 / 2)


def test_all_leaves_are_declared_together_and_drawn_apart():
    value = {"a": jnp.zeros(8), "b": jnp.zeros(8), "c": jnp.zeros((3, 3))}
    released, noise, _ = release(laplace(1.0, 0.5, "linf"), words(), value, view(), records=4)
    assert float(noise.sensitivity) == pytest.approx(2 * 0.5 * 25 / 4)
    assert not np.any(np.asarray(released["a"]) == np.asarray(released["b"]))
    _, noise, _ = release(laplace(1.0, 0.5, "linf"), words(), value["a"], view())
    assert float(noise.sensitivity) == pytest.approx(2 * 0.5 * 8)


def test_amplification_scales_sensitivity_and_noise_but_not_the_loss():
    plain = laplace(epsilon=0.5, clip=1.0)
    twice = plain.amplified(lambda v: 2.0 / v.round)
    a, b = plain.noise(view(4), Extent(4, 1)), twice.noise(view(4), Extent(4, 1))
    assert float(b.sensitivity) == pytest.approx(0.5 * float(a.sensitivity))
    assert float(b.sensitivity / b.scale) == pytest.approx(0.5)
    back = plain.amplified(lambda v: -2.0 / v.round).noise(view(4), Extent(4, 1))
    assert (back.sensitivity, back.scale) == (b.sensitivity, b.scale)
    assert unprotected.amplified(lambda v: 2.0) is unprotected


@pytest.mark.parametrize("mechanism", [laplace(0.7, 0.5), gaussian(2.0, 0.5), decaying_gaussian(2.0, 0.64, 0.5)])
def test_what_a_round_costs_is_what_its_noise_says(mechanism):
    first = 0.7 if mechanism.distribution == "laplace" else 0.5
    for t in (1, 2, 5):
        noise = mechanism.noise(view(t), Extent(4, 1))
        assert float(noise.sensitivity / noise.scale) == pytest.approx(mechanism.ratio_in(t), rel=1e-6)
        assert mechanism.ratio_in(t) == pytest.approx(first * mechanism.decay ** (-(t - 1) / 2), rel=1e-14)
    assert laplace(0.3, 1.0).ratio_in(10**6) == 0.3  # to the bit
    assert unprotected.ratio_in(1) is None


def test_a_mean_over_other_records_than_those_of_a_batch():
    """Five records whatever the batch holds; a whole batch moves as one record would; a data set is taken as it is."""
    plain = gaussian(1.0, 0.5)
    extent = Extent(coordinates=4, records=8)
    of_five = plain.over(lambda view, extent: jnp.float32(5))
    assert float(of_five.noise(view(), extent).sensitivity) == pytest.approx(2 * 0.5 / 5)
    assert float(of_five.mean_over(view(), extent)) == 5
    assert float(plain.for_whole_batch().noise(view(), extent).sensitivity) == pytest.approx(2 * 0.5)
    assert float(plain.for_whole_batch().mean_over(view(), extent)) == 1
    whole = gaussian(1.0, 0.5, adjacency="dataset")
    assert whole.over(lambda view, extent: jnp.float32(5)) is whole


def test_bounded_noise_stays_in_bounds_and_is_squeezed_as_printed():
    """Dissertation, Alg. 3, by hand: the vector is the normalised (g + N + b) / (2 b + 1)."""
    mechanism = bounded_laplace(epsilon=4.0, rounds=3)
    value = jnp.linspace(-0.5, 0.5, 5000)
    released, noise, _ = release(mechanism, words(), value, view())
    b = np.log(3) ** 2 / 4.0
    assert float(noise.bound) == pytest.approx(b, rel=1e-6)
    plain, *_ = release(laplace(4.0, 0.5, "linf", "gradient", "component"), words(), value, view())
    drawn = np.asarray(plain - value, np.float64)
    replaced = np.where(np.abs(drawn) <= b, drawn, b / 2)
    assert 0.1 < np.mean(np.abs(drawn) > b) < 0.9  # both branches are taken
    squeezed = (np.asarray(value, np.float64) + replaced + b) / (2 * b + 1)
    np.testing.assert_allclose(released, squeezed / np.linalg.norm(squeezed), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "make",
    [
        lambda: laplace(epsilon=0, clip=1.0),
        lambda: laplace(epsilon=float("nan"), clip=1.0),
        lambda: laplace(epsilon=1.0, clip=-1.0),
        lambda: laplace(epsilon=True, clip=1.0),
        lambda: gaussian(noise_multiplier=float("inf"), clip=1.0),
        lambda: gaussian(noise_multiplier=1.0, clip=1.0, norm="l3"),
        lambda: gaussian(noise_multiplier=1.0, clip=1.0, perturbs="loss"),
        lambda: gaussian(noise_multiplier=1.0, clip=1.0, adjacency="row"),
        lambda: decaying_gaussian(noise_multiplier=1.0, decay=1.1, clip=1.0),
        lambda: bounded_laplace(epsilon=1.0, rounds=1),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(ConfigError, match="expected"):
        make()


def test_integers_get_no_noise():
    with pytest.raises(ContractError, match="int32"):
        release(laplace(1.0, 1.0), words(), jnp.arange(3), view())


def test_a_projected_model_needs_an_l2_clip():
    objective = tacit.objectives.hinge()
    with pytest.raises(ConfigError, match="perturbs='update'"):
        tacit.algorithms.distributed_online(objective, mechanism=laplace(1.0, 1.0, "l1", "model"), radius=1.0)
    tacit.algorithms.distributed_online(objective, mechanism=laplace(1.0, 1.0, "l1", "update"), radius=1.0)


def test_statements_say_who_is_protected():
    said = statement(laplace(1.0, 1.0, adjacency="dataset"), "the text's words")
    assert said.private
    assert said.unit == "agent"
    assert "all records" in said.adjacency
    assert "charged to every record" in said.holds
    assert not statement(unprotected).private
    assert not statement(laplace(1.0, 1.0)._replace(distribution=None)).private  # clipped, but without noise
