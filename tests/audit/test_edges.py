"""Noise that knows the graph under attack: what one link shows, what all links show, and masks that are broken.

A claim that holds is broken by chance in at most 1 of 1,000 seeds; seeds are fixed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import jax.numpy as jnp
import pytest

import tacit
from tacit import runtime
from tacit.audit import audit as audit_on
from tacit.audit import audit_masks
from tacit.core.errors import ConfigError
from tacit.privacy import graph_homomorphic, laplace, local_graph_homomorphic, per_edge
from tacit.privacy.draws import mask_draws
from tacit.privacy.noise import noise_words
from tacit.simulator.delivery import Delivery

ATC = partial(tacit.algorithms.adapt_then_combine, step=1.0)
CLIP, RECORDS = 0.5, 1
ONE = 2 * CLIP / RECORDS
"""What a record moves in one step of size 1."""
STD = math.sqrt(2) * ONE / 1.5
"""Laplace noise under which one noisy copy of it costs 1.5."""
TRIALS = 12_000
MASKS = local_graph_homomorphic(0.05)
audit = partial(audit_on, problems=["linear"])


@pytest.mark.covered_by("test_broken.py, fresh noise for every neighbour")
def test_a_link_with_noise_of_its_own_shows_one_copy_and_all_links_as_many_as_are_charged():
    one = audit(ATC, per_edge(STD, CLIP), rounds=1, records=RECORDS, one_link=True, trials=TRIALS)
    every = audit(ATC, per_edge(STD, CLIP), rounds=4, records=RECORDS, trials=TRIALS)
    assert one.claim.epsilon == every.claim.epsilon == pytest.approx(3 * 1.5)  # two neighbours and the own copy
    assert 1.0 <= one.lower_bound <= 1.5
    assert 1.5 < every.lower_bound <= 4.5


@pytest.mark.covered_by("the next test, which books less")
def test_homomorphic_noise_is_charged_for_every_round_at_a_growing_sensitivity():
    one = audit(ATC, graph_homomorphic(STD, CLIP), rounds=1, records=RECORDS, one_link=True, trials=TRIALS)
    assert one.claim.epsilon == pytest.approx(1.5)
    assert 1.0 <= one.lower_bound <= 1.5
    every = audit(ATC, graph_homomorphic(STD, CLIP), rounds=4, records=RECORDS, trials=TRIALS)
    assert every.claim.epsilon == pytest.approx(1.5 * (1 + 2 + 3 + 4))
    assert 1.5 < every.lower_bound <= every.claim.epsilon


def test_homomorphic_noise_booked_as_if_the_agent_forgot_the_record_is_caught():
    """What an agent keeps makes up for the noise that it sent: the record is in every later message too."""

    def forgetful(objective, mechanism):
        algorithm = ATC(objective, mechanism=mechanism)
        phase = algorithm.phases[0]._replace(mechanism=mechanism)  # one step's sensitivity, not all steps'
        parallel = algorithm.privacy._replace(composition="parallel")
        return algorithm._replace(phases=(phase,), privacy=parallel)

    found = audit(forgetful, graph_homomorphic(STD, CLIP), rounds=4, records=RECORDS, trials=TRIALS)
    assert found.claim.epsilon == pytest.approx(1.5)
    assert found.lower_bound > 1.2 * found.claim.epsilon
    assert not found.holds


def test_masks_hide_on_every_link_and_cancel_at_the_receiver():
    found = audit_masks(MASKS, trials=4000)
    assert found.holds
    assert found.exact
    assert found.hidden
    assert 0.3 * found.claim < found.lower_bound <= found.claim
    assert "exact to the bit" in found.words()


def _both_add(self, at, rows, masks):
    words = noise_words(runtime.masks_key(at.network.root), at.links.round, at.index)
    masked = {}
    for name, values in rows.items():
        draw = mask_draws(words, masks.scale[name], (masks.adds.size, values.shape[1]), values.dtype)
        masked[name] = values.at[masks.adds].add(draw).at[masks.subtracts].add(draw)
    return masked


MASKED = Delivery.masked
BROKEN = {
    "both ends add": (_both_add, "do not cancel"),
    "the same mask in every round": (
        lambda self, at, rows, masks: MASKED(
            self, replace(at, links=at.links._replace(round=jnp.int32(1))), rows, masks
        ),
        "repeated noise",
    ),
    "no mask at all": (lambda self, at, rows, masks: rows, "WITHOUT a mask"),
    "masks a tenth of what is declared": (
        lambda self, at, rows, masks: MASKED(
            self, at, rows, masks._replace(scale={k: v / 10 for k, v in masks.scale.items()})
        ),
        "BROKEN",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_masks_are_caught(fault, monkeypatch):
    replacement, words = BROKEN[fault]
    monkeypatch.setattr(Delivery, "masked", replacement)
    found = audit_masks(MASKS, trials=2000)
    assert not found.holds
    assert words in found.words()


def test_each_audit_refuses_what_is_the_others_business():
    with pytest.raises(ConfigError, match="audit_masks"):
        audit(ATC, MASKS)
    with pytest.raises(ConfigError, match="masks nothing"):
        audit_masks(laplace(1.0, 1.0))
