import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.algorithms.pao_oracle import PaoOracle

from tacit.core.errors import RequirementError
from tacit_reproduction.analysis.mean_square import FORMS, Form, Network, mean_square_radius, steady_state

Array = NDArray[np.float64]
D = 3
# Two clients with three equally likely samples each: small enough to go through every case.
SAMPLES = np.array(
    [[[1.0, 0.4, 0.1], [-0.3, 0.9, 0.5], [0.2, -1.1, 0.7]], [[0.7, -0.5, 0.2], [0.6, 0.8, -0.9], [-1.2, 0.1, 0.3]]]
)
NOISE = np.array([0.02, 0.05])


def moments(z: Array) -> tuple[Array, Array]:
    """Return E[z_a z_b] and E[z_a z_b z_c z_d] of features (K, n, d), client by client."""
    second, fourth = np.einsum("kni,knj->kij", z, z), np.einsum("kna,knb,knc,knd->kabcd", z, z, z, z)
    return second / z.shape[1], fourth / z.shape[1]


def transient(net: Network, start: Any, rounds: int, form: Form = "kept") -> Array:
    """Return (rounds + 1, d, d) the server's second moments (4.33), all clients beginning at its model."""
    steps = FORMS[form](net)
    everyone = np.tile(np.asarray(start, np.float64), net.blocks)
    path = [np.outer(everyone, everyone)]
    for n in range(1, rounds + 1):
        path.append(steps[n % len(steps)](path[-1], True))
    return np.stack(path)[:, : net.d, : net.d]


TINY: dict[str, Any] = {
    "step": 0.3, "share": 2, "availability": np.array([0.6, 0.3]), "data": np.array([0.7, 0.9]),
    "delays": np.array([0.5, 0.3]), "decay": 0.6, "fourth": moments(SAMPLES)[1],
}  # fmt: skip


def network(correlations: Array, noise: Any, **settings: Any) -> Network:
    """A network whose clients are always there and whose messages are in time, unless something else is said."""
    everybody = np.ones(len(correlations))
    usual = {"availability": everybody, "data": everybody, "delays": np.ones(1)}
    return Network(correlations, noise * everybody, **{**usual, **settings})


def tiny(**changes: Any) -> Network:
    return network(moments(SAMPLES)[0], NOISE, **{**TINY, **changes})


def block(first: int, last: int | None = None) -> slice:
    """Return where the models first..last of [w, w_1, w_2, sent by 1, sent by 2] lie."""
    return slice(D * first, D * (1 + (first if last is None else last)))


def some_covariance() -> Array:
    root = np.random.default_rng(5).normal(size=(5 * D, 5 * D))
    return root @ root.T


def cases(*chances: float) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield every outcome of independent events, with its probability."""
    for outcome in itertools.product((0, 1), repeat=len(chances)):
        yield float(np.prod([p if o else 1 - p for p, o in zip(chances, outcome, strict=True)])), outcome


def server_row(net: Network, arrived: tuple[int, ...], selected: list[Array]) -> Array:
    """Return the first block row of B_e (4.21) for arrivals by delay and client with these selections."""
    row = np.zeros((D, 5 * D))
    row[:, block(0)] = np.eye(D)
    for message, (age, _) in enumerate(itertools.product(range(2), repeat=2)):
        if arrived[message]:
            weighted = net.decay**age / (arrived[2 * age] + arrived[2 * age + 1]) * np.diag(selected[message])
            row[:, block(1 + message)] += weighted
            row[:, block(0)] -= weighted
    return row


APART = {"coordinated": False}
OPTIONS = ({"coordinated": True}, APART, {"same_window": True}, {"full_download": True, **APART})


@pytest.mark.parametrize("options", OPTIONS)
def test_one_iteration_is_the_mean_over_every_case(options: dict[str, Any]) -> None:
    net, before, n = tiny(**options), some_covariance(), 1
    oracle = PaoOracle(net.step, net.share, **options)
    received = [np.diag(oracle.received(n, k, D)) for k in range(2)]
    selected = [oracle.sent(n - age, k, D) for age in range(2) for k in range(2)]
    expected = np.zeros_like(before)
    for z in itertools.product(*SAMPLES):
        shrink = [np.eye(D) - net.step * np.outer(v, v) for v in z]
        # By client: has data, is available, its message is in time.
        for chance, fate in cases(*net.data, *net.availability, net.delays[0], net.delays[0]):
            data, available, in_time = fate[:2], fate[2:4], fate[4:]
            linear, noisy = np.zeros_like(before), np.zeros((2, 5 * D))
            present = np.eye(5 * D)  # w, what each client would send now, what it sent before
            for k in range(2):
                own, sends, old = block(1 + k), block(3 + k), np.eye(5 * D)[block(1 + k)]
                heard = received[k] @ np.eye(5 * D)[block(0)] + (np.eye(D) - received[k]) @ old
                present[own] = linear[sends] = shrink[k] @ heard
                noisy[k, sends], linear[own] = net.step * z[k], old
                if data[k]:
                    linear[own] = shrink[k] @ (heard if available[k] else old)
                    noisy[k, own] = net.step * z[k]
            sent = tuple(data[k] * available[k] * in_time[k] for k in range(2))
            for chance_late, late in cases(*(net.delays[1] * net.data * net.availability)):
                row = server_row(net, sent + late, selected)
                linear[block(0)] = row @ present
                for k in range(2):
                    noisy[k, block(0)] = row[:, block(1 + k)] @ (net.step * z[k])
                noise = np.einsum("k,ka,kb->ab", net.noise, noisy, noisy)
                expected += chance * chance_late / 9 * (linear @ before @ linear.T + noise)
    np.testing.assert_allclose(FORMS["kept"](net)[n](before, True), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", OPTIONS[::3])
def test_the_form_of_the_text_is_its_explicit_matrix(options: dict[str, Any]) -> None:
    net = tiny(**options)
    places = [np.roll([1.0, 1.0, 0.0], i) for i in range(D)]
    choices = [(i, i) for i in places] if net.coordinated else list(itertools.product(places, repeat=2))
    q_a, q_b, size = np.zeros((225, 225)), np.zeros((225, 225)), 5 * D
    for chance, available in cases(*net.takes_part):
        for choice in choices:
            a = np.eye(size)
            for k in range(2):
                taken = available[k] * (np.eye(D) if net.full_download else np.diag(choice[k]))
                a[block(1 + k), block(0)], a[block(1 + k), block(1 + k)] = taken, np.eye(D) - taken
            q_a += chance / len(choices) * np.kron(a, a)
    for chance, arrived in cases(*np.outer(net.delays, net.takes_part).ravel()):
        for now, before in itertools.product(choices, repeat=2):
            b = np.zeros((size, size))
            b[block(0)] = server_row(net, arrived, [*now, *before])
            b[block(1, 2), block(1, 2)] = b[block(3, 4), block(1, 2)] = np.eye(2 * D)
            q_b += chance / len(choices) ** 2 * np.kron(b, b)
    r_e, phi = np.zeros((size, size)), np.zeros((size, size))
    for k in range(2):
        r_e[block(1 + k), block(1 + k)] = net.data[k] * net.correlations[k]
        phi[block(1 + k), block(1 + k)] = net.data[k] * net.noise[k] * net.correlations[k]
    r_sum = np.kron(np.eye(size), r_e) + np.kron(r_e, np.eye(size))
    f, h = q_b @ (np.eye(225) - net.step * r_sum) @ q_a, net.step**2 * q_b @ phi.ravel()  # (4.26), (4.29)
    some = some_covariance()
    np.testing.assert_allclose(FORMS["text"](net)[0](some, True).ravel(), f @ some.ravel() + h, rtol=1e-9, atol=1e-9)
    limit = np.linalg.solve(np.eye(225) - f, h).reshape(size, size)[block(0), block(0)]  # (4.34)
    np.testing.assert_allclose(steady_state(net, form="text"), limit, rtol=1e-6)
    assert mean_square_radius(net, form="text") == pytest.approx(np.abs(np.linalg.eigvals(f)).max(), rel=1e-5)


@pytest.mark.parametrize("coordinated", [True, False])
def test_without_chance_it_is_the_algorithm(coordinated: bool) -> None:
    # One sample per client, no noise, everyone available, every message two iterations late.
    z, truth, rounds = np.random.default_rng(2).normal(size=(2, 1, 5)), np.arange(1.0, 6.0), 12
    setting: dict[str, Any] = {"step": 0.1, "share": 2, "coordinated": coordinated, "decay": 0.9}
    second, fourth = moments(z)
    net = network(second, 0.0, delays=np.array([0.0, 0.0, 1.0]), fourth=fourth, **setting)
    table = np.broadcast_to(z[:, 0], (rounds, 2, 5))
    everyone = np.ones((rounds, 2), bool)
    models = PaoOracle(**setting).run(table, table @ truth, everyone, everyone, np.full((rounds, 2), 2))
    expected = np.sum((models - truth) ** 2, axis=1)
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(np.trace(transient(net, truth, rounds), axis1=-2, axis2=-1), expected)


def test_gaussian_moments_are_the_default() -> None:
    r = moments(SAMPLES)[0]
    pairs = (np.einsum(f"k{i},k{j}->kabcd", r, r) for i, j in (("ab", "cd"), ("ac", "bd"), ("ad", "bc")))
    some = some_covariance()
    explicit, default = (FORMS["kept"](tiny(fourth=fourth))[0](some, True) for fourth in (sum(pairs), None))
    np.testing.assert_allclose(default, explicit, rtol=1e-9)


@pytest.mark.parametrize("form", ["kept", "text"])
def test_the_steady_state_is_where_the_transient_ends(form: Any) -> None:
    net = tiny(coordinated=False)
    path = transient(net, [1.0, -2.0, 0.0], 900, form=form)
    assert np.trace(path, axis1=-2, axis2=-1)[0] == pytest.approx(5.0)
    end = path[-3:].mean(axis=0)  # three windows make a period
    np.testing.assert_allclose(steady_state(net, form=form), end, rtol=1e-6)
    quiet = replace(net, noise=np.zeros(2))
    fall = np.trace(transient(quiet, [1.0, -2.0, 0.0], 300, form=form), axis1=-2, axis2=-1)
    assert (fall[300] / fall[270]) ** (1 / 30) == pytest.approx(mean_square_radius(net, form=form), rel=1e-4)


@settings(derandomize=True, deadline=None, max_examples=15)
@given(st.lists(st.floats(0.2, 1.5), min_size=1, max_size=4), st.floats(0.01, 0.2), st.floats(0.001, 1.0))
def test_one_client_that_shares_all_is_least_mean_squares(spectrum: list[float], step: float, noise: float) -> None:
    # The classical result for Gaussian features (P = (mu noise / (2 - 2 mu r_i)) / (1 - s), s = sum of
    # mu r_i / (2 - 2 mu r_i)): every coordinate of the eigenbasis on its own, coupled by the trace.
    r = np.array(spectrum)
    share = step / (2 - 2 * step * r)
    net = network(np.diag(r)[None], noise, step=step, share=r.size)
    expected = np.diag(share * noise / (1 - np.sum(share * r)))
    np.testing.assert_allclose(steady_state(net), expected, rtol=1e-5, atol=1e-8 * noise)


def gaussian_case(clients: int, d: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    turns = [np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(clients)]
    spectra = np.linspace(0.4, 1.4, d) * rng.uniform(0.6, 1.4, (clients, 1))
    r = np.stack([q @ np.diag(s) @ q.T for q, s in zip(turns, spectra, strict=True)])
    return r, rng.uniform(0.005, 0.03, clients)


def test_updates_of_several_ages_make_the_server_overshoot_at_any_step() -> None:
    r, noise = gaussian_case(4, 2)
    thirds: dict[str, Any] = {"step": 0.01, "share": 2, "delays": np.full(3, 1 / 3)}
    net = network(r, noise, **thirds)
    assert net.step < 1 / np.linalg.eigvalsh(r).max() / 20  # of Theorem 4.2
    assert mean_square_radius(net) > 1.1
    with pytest.raises(RequirementError, match="no steady state"):
        steady_state(net)
    assert mean_square_radius(network(r, noise, **thirds, decay=0.2)) < 1
