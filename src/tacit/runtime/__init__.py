"""Shared steps of the two runtimes, simulator and peers, so that both compute one trajectory.

- `keys`: the randomness of a run.
- `views`: what an agent knows in a phase.
- `calls`: one agent's compute, release, emit and absorb.
- `messages`, `data_flow`: what each phase sends, and what of it depends on data, found before round 0.
- `phases`: the links that a method uses.
- `topology`, `start`: graphs made ready, first parameters.
- `presence`: rounds in which an agent is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.core.lazy import lazy_exports
from tacit.runtime.calls import (
    Declared,
    Prepared,
    Sizes,
    absorb,
    check_state,
    compute,
    declare,
    emit,
    finish,
    prepare,
    same_structure,
    self_contained,
    with_data,
)
from tacit.runtime.data_flow import check_preparation
from tacit.runtime.keys import (
    absorb_key,
    agent_key,
    channel_key,
    compute_key,
    init_key,
    links_key,
    masks_key,
    presence_key,
)
from tacit.runtime.messages import MessageSpec, ReleaseSpec, settle
from tacit.runtime.phases import check_horizon, is_answered, link_ends
from tacit.runtime.presence import Following, every_round, presence, rounds_of
from tacit.runtime.start import FirstParams, first_params, foretold, model_bytes, model_size, starting_points
from tacit.runtime.views import empty_links, make_view

if TYPE_CHECKING:
    from tacit.runtime.topology import check_window, prepared_topology

__getattr__ = lazy_exports(__name__, {"topology": "check_window prepared_topology"})[
    0
]  # a peer knows its own links alone
__all__ = [
    "Declared",
    "FirstParams",
    "Following",
    "MessageSpec",
    "Prepared",
    "ReleaseSpec",
    "Sizes",
    "absorb",
    "absorb_key",
    "agent_key",
    "channel_key",
    "check_horizon",
    "check_preparation",
    "check_state",
    "check_window",
    "compute",
    "compute_key",
    "declare",
    "emit",
    "empty_links",
    "every_round",
    "finish",
    "first_params",
    "foretold",
    "init_key",
    "is_answered",
    "link_ends",
    "links_key",
    "make_view",
    "masks_key",
    "model_bytes",
    "model_size",
    "prepare",
    "prepared_topology",
    "presence",
    "presence_key",
    "rounds_of",
    "same_structure",
    "self_contained",
    "settle",
    "starting_points",
    "with_data",
]
