"""Mirror maps: what every potential and its Bregman projection must fulfil, a map of the test's own among them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.core.errors import ConfigError
from tacit.objectives import Ball, Box, Euclidean, MirrorMap, NegativeEntropy, Simplex, entropy, euclidean_ball

quick = settings(max_examples=6, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
DIM = 6


@dataclass(frozen=True)
class PNorm(MirrorMap):
    """R(x) = ||x||_p^2 / 2 on the whole space, (p - 1)-strongly convex in the p-norm: all that a new geometry takes."""

    p: float
    within: None = None

    def potential(self, params):
        return 0.5 * jnp.sum(jnp.abs(params) ** self.p) ** (2 / self.p)

    def to_dual(self, params):
        return _slope(params, self.p)

    def from_dual(self, dual):
        return _slope(dual, self.p / (self.p - 1))  # the gradient of the conjugate, which is of the same kind


def _slope(x, p):
    norm = jnp.sum(jnp.abs(x) ** p) ** (1 / p)
    return jnp.where(norm > 0, jnp.sign(x) * jnp.abs(x) ** (p - 1) * jnp.where(norm > 0, norm, 1) ** (2 - p), 0)


@pytest.fixture(autouse=True, scope="module")
def double_precision():
    with jax.enable_x64(True):
        yield


MAPS = {
    "euclidean": Euclidean(),
    "ball": euclidean_ball(1.5),
    "box": Euclidean(Box(-0.5, 2.0)),
    "simplex": Euclidean(Simplex(3.0)),
    "entropy": entropy(),
    "large entropy": NegativeEntropy(40.0),
    "p-norm": PNorm(1.5),
}
every_map = pytest.mark.parametrize("name", MAPS)


def inside(mirror: MirrorMap, rng: np.random.Generator) -> np.ndarray:
    """A point in the interior (relative to its plane) of the map's set."""
    if isinstance(mirror.within, Ball):
        x = rng.normal(size=DIM)
        return x / np.linalg.norm(x) * mirror.within.radius * rng.uniform()
    if isinstance(mirror.within, Box):
        return rng.uniform(mirror.within.low, mirror.within.high, DIM)
    if isinstance(mirror.within, Simplex):
        return mirror.within.total * rng.dirichlet(np.full(DIM, 0.7))
    return rng.normal(size=DIM) * 3


def anywhere(mirror: MirrorMap, rng: np.random.Generator) -> np.ndarray:
    """A point where the potential is defined, most likely outside of the set."""
    x = rng.normal(size=DIM) * 4
    return np.exp(x) if isinstance(mirror, NegativeEntropy) else x


def divergence(mirror: MirrorMap, x: np.ndarray, y: np.ndarray) -> float:
    """Written down for each potential by itself."""
    if isinstance(mirror, NegativeEntropy):
        return float(np.sum(x * np.log(x / y) - x + y))
    if isinstance(mirror, PNorm):
        norm_x, norm_y = (np.linalg.norm(v, mirror.p) for v in (x, y))
        slope = np.sign(y) * np.abs(y) ** (mirror.p - 1) * norm_y ** (2 - mirror.p)
        return float(norm_x**2 / 2 - norm_y**2 / 2 - slope @ (x - y))
    return float(np.sum((x - y) ** 2) / 2)


@every_map
@quick
@given(seed=seeds)
def test_divergence_is_that_of_the_potential_and_obeys_the_three_point_identity(name, seed):
    """B(x, y) + B(y, z) - B(x, z) = <grad R(z) - grad R(y), x - y>."""
    mirror, rng = MAPS[name], np.random.default_rng(seed)
    x, y, z = (anywhere(mirror, rng) for _ in range(3))
    b = mirror.divergence
    size = 1e-12 * (1 + float(sum(abs(mirror.potential(p)) for p in (x, y, z))))
    np.testing.assert_allclose(mirror.to_dual(y), jax.grad(mirror.potential)(jnp.asarray(y)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(b(x, y), divergence(mirror, x, y), rtol=1e-8, atol=1e3 * size)
    turn = np.asarray(mirror.to_dual(z)) - np.asarray(mirror.to_dual(y))
    np.testing.assert_allclose(b(x, y) + b(y, z) - b(x, z), turn @ (x - y), rtol=1e-8, atol=1e3 * size)
    assert b(x, y) > 0
    assert abs(b(x, x)) <= size


def strength(mirror: MirrorMap) -> tuple[float, float]:
    """The norm, and how strongly convex the potential is on the set in it."""
    if isinstance(mirror, NegativeEntropy):
        return 1, 1 / mirror.total  # Pinsker
    return (mirror.p, mirror.p - 1) if isinstance(mirror, PNorm) else (2, 1.0)


@every_map
@quick
@given(seed=seeds)
def test_potentials_are_strongly_convex(name, seed):
    mirror, rng = MAPS[name], np.random.default_rng(seed)
    norm, alpha = strength(mirror)
    x, y = inside(mirror, rng), inside(mirror, rng)
    for near in (1.0, 1e-3):  # the constant is met in the limit
        close = x + near * (y - x)
        assert mirror.divergence(close, x) >= (1 - 1e-6) * alpha / 2 * np.linalg.norm(close - x, norm) ** 2


def test_the_constant_of_the_entropy_cannot_be_larger():
    """So that the strong convexity above is no test of a weaker statement."""
    x = jnp.array([20.0, 20.0])
    y = x + 1e-3 * jnp.array([1.0, -1.0])
    assert NegativeEntropy(40.0).divergence(y, x) == pytest.approx((2e-3) ** 2 / (2 * 40), rel=1e-3)


@every_map
@quick
@given(seed=seeds)
def test_a_projection_is_the_nearest_point_of_the_set(name, seed):
    """<grad R(z) - grad R(y), v - z> >= 0 for all v of the set, which is necessary and enough."""
    mirror, rng = MAPS[name], np.random.default_rng(seed)
    y = anywhere(mirror, rng)
    z = np.asarray(mirror.project(y))
    assert mirror.fault(z) is None
    duals = [np.asarray(mirror.to_dual(point)) for point in (z, y)]
    for _ in range(10):
        v = inside(mirror, rng)
        room = 1e-11 * sum(map(np.linalg.norm, duals)) * (np.linalg.norm(v) + np.linalg.norm(z))
        assert (duals[0] - duals[1]) @ (v - z) >= -room


@every_map
@quick
@given(seed=seeds)
def test_points_inside_come_back_from_the_dual(name, seed):
    mirror, rng = MAPS[name], np.random.default_rng(seed)
    x = inside(mirror, rng)
    np.testing.assert_allclose(mirror.from_dual(mirror.to_dual(x)), x, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["ball", "box", "simplex", "entropy", "large entropy"])
def test_a_mirror_step_is_that_of_a_solver(name):
    """argmin over the set of <g, x> + B(x, start), the text's own form of the step."""
    mirror, rng = MAPS[name], np.random.default_rng(3)
    start, g = inside(mirror, rng), rng.normal(size=DIM) * 2
    x = cvxpy.Variable(DIM)
    if isinstance(mirror, NegativeEntropy):
        far = cvxpy.sum(cvxpy.kl_div(x, start))
    else:
        far = cvxpy.sum_squares(x - start) / 2
    bounds = {
        Ball: lambda s: [cvxpy.norm(x, 2) <= s.radius],
        Box: lambda s: [x >= s.low, x <= s.high],
        Simplex: lambda s: [x >= 0, cvxpy.sum(x) == s.total],
    }[type(mirror.within)](mirror.within)
    cvxpy.Problem(cvxpy.Minimize(g @ x + far), bounds).solve(solver="CLARABEL")
    np.testing.assert_allclose(mirror.step(start, g), x.value, atol=2e-5 * (1 + np.abs(x.value).max()))


@every_map
def test_a_run_starts_at_the_least_potential_and_knows_what_is_outside(name):
    mirror, rng = MAPS[name], np.random.default_rng(5)
    first = np.asarray(mirror.first(jnp.zeros(DIM)))
    assert mirror.fault(first) is None
    for _ in range(20):
        assert mirror.potential(inside(mirror, rng)) >= mirror.potential(first) - 1e-12
    given_first = inside(mirror, rng)  # an objective's own first parameters, where they lie inside
    np.testing.assert_allclose(mirror.first(given_first), given_first, rtol=1e-10, atol=1e-12)
    assert (mirror.fault(first + 1e6) is not None) == (mirror.within is not None)


@pytest.mark.parametrize("name", [n for n in MAPS if n != "p-norm"])
def test_a_pytree_is_one_vector(name):
    mirror, rng = MAPS[name], np.random.default_rng(6)
    x, y = anywhere(mirror, rng), anywhere(mirror, rng)
    tree = lambda v: {"a": jnp.asarray(v[:4]).reshape(2, 2), "b": jnp.asarray(v[4:])}  # noqa: E731
    flat = lambda t: np.concatenate([np.ravel(t["a"]), t["b"]])  # noqa: E731
    np.testing.assert_allclose(mirror.potential(tree(x)), mirror.potential(x), rtol=1e-12)
    np.testing.assert_allclose(mirror.divergence(tree(x), tree(y)), mirror.divergence(x, y), rtol=1e-10)
    np.testing.assert_allclose(flat(mirror.step(tree(x), tree(y))), mirror.step(x, y), rtol=1e-10, atol=1e-14)
    assert (mirror.fault(tree(x)) is None) == (mirror.fault(x) is None)


def test_entropy_at_the_border_is_finite():
    x, y = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.5, 0.5, 0.0])
    assert entropy().potential(x) == 0
    assert entropy().divergence(x, y) == pytest.approx(math.log(2))
    assert np.isfinite(entropy().to_dual(x)).all()
    assert entropy().fault(x) is None


def test_exponentiated_gradient_survives_large_steps_in_many_dimensions():
    """d = 100,000, eta g = 1e3 of both signs, single precision: nothing overflows, and nobody is out for ever."""
    d = 100_000
    signs = np.where(np.arange(d) % 2, 1.0, -1.0).astype(np.float32)
    x = entropy().first(jnp.zeros(d, jnp.float32))
    np.testing.assert_allclose(x, 1 / d, rtol=1e-5)
    for sign in (1, -1, 1):  # up, then the other half, then back
        x = entropy().step(x, jnp.asarray(sign * 1e3 * signs))
        assert x.dtype == jnp.float32
        assert entropy().fault(x) is None  # finite, nobody below 0, the sum is 1
        winners = np.asarray(x)[sign * signs < 0]
        np.testing.assert_allclose(winners, 2 / d, rtol=1e-3)
        assert float(np.sum(np.asarray(x)[sign * signs > 0], dtype=np.float64)) < 1e-6


def test_large_steps_in_many_dimensions_through_a_run():
    d, agents = 100_000, 2
    signs = np.where(np.arange(d) % 2, 1.0, -1.0).astype(np.float32)

    def chunk(start, stop):  # turns round in every round
        turns = np.where(np.arange(start, stop) % 2, -1, 1)[:, None, None]
        return np.broadcast_to(turns * signs, (stop - start, agents, d)).astype(np.float32)

    stream = tacit.streams.from_function(chunk, agents=agents, rounds=4)
    objective = tacit.objectives.from_loss(jnp.vdot, np.zeros(d, np.float32))
    algorithm = tacit.algorithms.mirror_descent(objective, step=1e3, mirror=entropy())
    with jax.enable_x64(False):
        run = tacit.simulate(algorithm, tacit.graphs.complete(agents), stream, rounds=3)
    for model in run.models[0]:
        assert entropy().fault(model) is None
        np.testing.assert_allclose(model[signs < 0], 2 / d, rtol=1e-3)


def test_a_map_of_your_own_runs():
    """The p-norm map through `mirror_descent`, against its recursion."""
    p, q, agents, rounds = 1.5, 3.0, 3, 20
    targets = np.random.default_rng(2).normal(size=(rounds, agents, DIM))
    stream = tacit.streams.from_function(lambda a, b: targets[a:b], agents=agents, rounds=rounds)
    objective = tacit.objectives.from_loss(lambda params, batch: jnp.sum((params - batch) ** 2) / 2, np.ones(DIM))
    graph = tacit.graphs.directed_ring(agents).with_weights("receiver")
    algorithm = tacit.algorithms.mirror_descent(objective, step=0.2, mirror=PNorm(p))
    run = tacit.simulate(algorithm, graph, stream, rounds=rounds, dtype="float64")

    def slope(x, r):
        return np.sign(x) * np.abs(x) ** (r - 1) * np.linalg.norm(x, r) ** (2 - r)

    W, x = graph.matrix().toarray(), np.ones((agents, DIM))
    for t in range(rounds):
        x = W @ [slope(slope(x[i], p) - 0.2 * (x[i] - targets[t, i]), q) for i in range(agents)]
    np.testing.assert_allclose(run.models[0], x, rtol=1e-9)


@pytest.mark.parametrize("total", [0, -1.0, math.inf, "much"])
def test_a_total_that_is_none_is_refused(total):
    with pytest.raises(ConfigError, match="total = "):
        entropy(total)
