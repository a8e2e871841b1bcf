"""Masks from a key stream: the Laplace law, in whole steps, from integers alone."""

import functools
import hashlib
import math
import re

import mpmath
import numpy as np
import pytest
from scipy import stats

from tacit import graphs, objectives, simulate, streams
from tacit.algorithms import adapt_then_combine
from tacit.core.errors import ConfigError
from tacit.privacy import local_graph_homomorphic, on_grid, unprotected
from tacit.privacy.noise import hides
from tacit.privacy.noise.mask_noise import MaskLaw, mask_law

FALSE_ALARM = 1e-6
"""Of each statistical test; seeds are fixed, so that it was to be feared once."""
TOP = 2**64 - 1


def stream(law, draws, seed=0):
    return np.frombuffer(np.random.default_rng(seed).bytes(8 * law.words * draws), "<u8")


def made(law, digits, sign):
    """The one draw for which each digit's word is as small or as large as it can be."""
    words = [0 if k in digits else TOP for k in range(law.words - 1)]
    return int(law.draws(np.array([*words, sign], np.uint64))[0])


@pytest.mark.parametrize("scale", [1.0, 6.3])
def test_every_number_of_steps_has_its_chance(scale):
    """Chi-square against the Laplace law rounded down, whole number by whole number."""
    law, count = MaskLaw(scale, 1.0), 400_000
    draws = law.draws(stream(law, count))
    edges = np.arange(-int(5 * scale), int(5 * scale) + 1)
    cells = np.diff(np.concatenate([[0.0], stats.laplace.cdf(edges, scale=scale), [1.0]]))
    found = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=cells.size)
    assert stats.chisquare(found, count * cells).pvalue > FALSE_ALARM


@pytest.mark.parametrize("integers", ["int32", "int64"])
@pytest.mark.parametrize("noise_std", [0.01, 1.0, 32.0])
def test_masks_are_laplace_of_the_declared_size(integers, noise_std):
    law = mask_law(local_graph_homomorphic(noise_std), integers)
    step = {"int32": 2.0**-20, "int64": 2.0**-40}[integers]
    masks = law.draws(stream(law, 50_000, seed=1)) * step
    assert stats.kstest(masks, "laplace", args=(0, noise_std / math.sqrt(2))).pvalue > FALSE_ALARM
    ranks = stats.spearmanr(masks[1:], masks[:-1])
    assert ranks.pvalue > FALSE_ALARM


def test_the_bits_are_these_on_every_machine():
    law = MaskLaw(0.7, 2.0**-20)
    words = np.frombuffer(hashlib.shake_128(b"a key stream").digest(8 * 4 * law.words), "<u8")
    assert law.words == 26
    assert law.draws(words).tolist() == [-124733, 870600, 360169, -216206]


def test_digits_and_sign():
    law = MaskLaw(100.0, 1.0)
    assert [made(law, {k}, 0) for k in range(4)] == [1, 2, 4, 8]
    assert made(law, {0, 2}, 0) == 5
    assert made(law, {0, 2}, TOP) == -6
    assert (made(law, set(), 0), made(law, set(), 2**63)) == (0, -1)


@pytest.mark.parametrize("scale", [1.0, 17.25, 2.0**44])
def test_thresholds_are_exact_and_reach_far_into_the_tails(scale):
    law = MaskLaw(scale, 1.0)
    with mpmath.workdps(80):
        exact = [mpmath.floor(2**64 / (1 + mpmath.exp(mpmath.mpf(2) ** k / scale))) for k in range(law.words)]
        assert [int(chance) for chance in law._chances] == [int(chance) for chance in exact[:-1]]
        assert exact[-1] == 0
    assert made(law, set(range(law.words - 1)), 0) > 35 * scale


def test_a_word_at_its_threshold_is_no_one():
    law = MaskLaw(3.0, 1.0)
    words = np.full(law.words, TOP, np.uint64)
    words[-1] = 0
    words[0] = law._chances[0]
    assert law.draws(words).tolist() == [0]
    words[0] -= np.uint64(1)
    assert law.draws(words).tolist() == [1]


@pytest.mark.parametrize(
    ("noise_std", "grid"), [(2.0**-19, 2.0**-20), (2.0**-39, None), (0.5, 0.01), (1.4e-3, 1e-6), (1e-300, 1e-303)]
)
def test_masks_of_a_few_steps_are_refused(noise_std, grid):
    """They hide a value's last digits at best; a grid that fits, or masks that do, are named."""
    with pytest.raises(ConfigError, match=r"noise_std = .* 1,024 steps.*noise_std = (\S+).*grid = (\S+)") as said:
        local_graph_homomorphic(noise_std, grid)
    larger, finer = map(float, re.findall(r"= (\S+) or", str(said.value)))
    assert hides(local_graph_homomorphic(1.01 * larger, grid))
    assert hides(local_graph_homomorphic(noise_std, 0.99 * finer))


def test_masks_that_fit_double_precision_only_are_refused_at_single():
    small = local_graph_homomorphic(1e-5)
    assert mask_law(small, "int64").words > 20
    with pytest.raises(ConfigError, match=r"noise_std = 1e-05.*7.4\d steps.*noise_std = 0.00138"):
        mask_law(small, "int32")
    method = adapt_then_combine(objectives.squared(), step=0.1, mechanism=small)
    run = functools.partial(simulate, method, graphs.complete(4), streams.linear_drift(4, 2, seed=1), rounds=1)
    run(dtype="float64")
    with pytest.raises(ConfigError, match="at least 1,024 steps"):
        run()


def test_what_is_said_of_masks_names_their_size():
    said = adapt_then_combine(objectives.squared(), step=0.1, mechanism=local_graph_homomorphic(0.25)).privacy.holds
    assert "standard deviation 0.25" in said


def test_which_mechanisms_hide():
    assert hides(local_graph_homomorphic(1.0))
    assert not hides(on_grid())
    assert not hides(unprotected)
