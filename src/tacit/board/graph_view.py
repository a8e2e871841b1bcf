"""A run's network and its agents, round by round, from its live file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.board.live_reader import LINK_STATES, LiveRecord, Network
from tacit.core.errors import ConfigError, ResultError

MEASURES = ("loss", "disagreement", "mass", "cluster", "presence", "privacy")
MOST_VALUES = 2_000_000
"""Of one answer."""
NONE = "this run has no live file with a graph: it was written before there were such files, or by another command"


def network_of(live: LiveRecord | None) -> Network:
    """Return the network of a run, or say that there is none.

    Args:
      live: What its live file holds; None: there is none.
    """
    if live is None or live.network is None:
        raise ResultError(NONE)
    return live.network


def graph(live: LiveRecord | None) -> dict[str, Any]:
    """Return nodes and links, and what can be shown on them.

    Args:
      live: What a run's live file holds.
    """
    network = network_of(live)
    assert live is not None
    known = {name for _, measures in live.frames for name in measures}
    if any(cluster is not None for cluster in network.clusters):
        known.add("cluster")
    each = zip(network.labels, network.clusters, network.sizes, strict=True)
    return {
        "agents": network.agents,
        "aggregated": network.aggregated,
        "nodes": [{"id": k, "label": a, "cluster": b, "size": c} for k, (a, b, c) in enumerate(each)],
        "links": network.links.tolist(),
        "left_out": network.left_out,
        "link_states": link_states(live),
        "measures": [name for name in MEASURES if name in known],
        "rounds": [at for at, _ in live.frames],
    }


def link_states(live: LiveRecord) -> list[str]:
    """Return the states besides open that links of a run can be in: those that it knew of, and those that were seen.

    Args:
      live: What its live file holds.
    """
    known = network_of(live).states
    seen = {state for states in live.links.values() for state, places in states.items() if places.size}
    return [state for state in LINK_STATES if state in known or state in seen]


def frames(live: LiveRecord | None, measure: str, first: int, last: int | None) -> dict[str, Any]:
    """Return a figure of all nodes after each recorded round.

    Args:
      live: What a run's live file holds.
      measure: Name of the figure.
      first: The first round.
      last: The last one; None: that of the run.
    """
    network = network_of(live)
    assert live is not None
    if measure not in MEASURES:
        raise ConfigError(f"measure = {measure[:40]!r}; expected one of {', '.join(MEASURES)}")
    wanted = [(at, found) for at, found in live.frames if first <= at and (last is None or at <= last)]
    apart = 1 + len(wanted) * len(network.labels) // MOST_VALUES
    kept = wanted[::-apart][::-1]  # the last one is among them
    table = np.stack([_values(network, found, measure) for _, found in kept]) if kept else np.zeros((0, 0))
    all_ = [_values(network, found, measure) for _, found in live.frames]  # colours mean the same in every answer
    seen = np.concatenate([values[np.isfinite(values)] for values in all_]) if all_ else np.zeros(0)
    return {
        "measure": measure,
        "link_states": link_states(live),
        "rounds": [at for at, _ in kept],
        "low": float(seen.min()) if seen.size else None,
        "high": float(seen.max()) if seen.size else None,
        "values": table.tolist(),
    }


def _values(network: Network, found: dict[str, NDArray[np.float64]], measure: str) -> NDArray[np.float64]:
    if measure == "cluster":
        return np.array([np.nan if cluster is None else cluster for cluster in network.clusters], np.float64)
    return found.get(measure, np.full(len(network.labels), np.nan))


def links(live: LiveRecord | None, first: int, last: int | None) -> dict[str, Any]:
    """Return the links that were not open after each recorded round, by their places among those of `graph`.

    Args:
      live: What a run's live file holds.
      first: The first round.
      last: The last one; None: that of the run.
    """
    network_of(live)
    assert live is not None
    found, told = list[dict[str, Any]](), 0
    for at, states in live.links.items():
        if at < first or (last is not None and at > last):
            continue
        told += sum(places.size for places in states.values())
        if found and told > MOST_VALUES:  # the rest is asked for next
            break
        found.append({"round": at, "states": {state: places.tolist() for state, places in states.items()}})
    return {"rounds": found}


def agent(
    live: LiveRecord | None, number: int, private: bool, epsilon: float | None, round_: int | None = None
) -> dict[str, Any]:
    """Return what is known of one agent, or of one group of them.

    Args:
      live: What a run's live file holds.
      number: Of the node.
      private: Whether the method promises anything.
      epsilon: That the run has spent by now.
      round_: States of links are those of the last recorded round up to this one; None: of the last one.
    """
    network = network_of(live)
    assert live is not None
    if number >= len(network.labels):
        raise ResultError(f"there is no node {number}: they are 0 to {len(network.labels) - 1}")
    rounds = [at for at, _ in live.frames]
    curve = {
        name: [float(found[name][number]) if name in found else None for _, found in live.frames]
        for name in ("loss", "disagreement")
    }
    senders, receivers = network.links[:, 0], network.links[:, 1]
    states = _states(live, network, round_)
    sent, heard = states[senders == number].tolist(), states[receivers == number].tolist()
    out, into = receivers[senders == number].tolist(), senders[receivers == number].tolist()
    return {
        "id": number,
        "label": network.labels[number],
        "size": network.sizes[number],
        "curve": {"rounds": rounds, **curve},
        "out": out,
        "into": into,
        "links": [{"to": to, "state": state} for to, state in zip(out, sent, strict=True)],
        "heard": [{"from": k, "state": state} for k, state in zip(into, heard, strict=True)],
        "released": _released(live, number, private, epsilon, network.sizes[number]),
    }


def _states(live: LiveRecord, network: Network, round_: int | None) -> NDArray[np.str_]:
    """Return the state of each link in a recorded round."""
    known = [at for at in live.links if round_ is None or at <= round_]
    found = np.full(len(network.links), "open", "<U12")
    for state, places in live.links.get(max(known), {}).items() if known else ():
        found[places] = state
    return found


def _released(live: LiveRecord, number: int, private: bool, epsilon: float | None, size: int) -> dict[str, Any]:
    last = live.frames[-1] if live.frames else (0, {})
    own = last[1].get("privacy")
    spent = epsilon if own is None else float(own[number])
    times = _times(last, number)
    of = "this agent" if size == 1 else f"each of these {size:,} agents"
    if not private:
        words = f"What {of} sends is computed from its data, and no noise protects it."
    elif "presence" in last[1] or "releases" in last[1]:
        words = f"In every round in which it took part, {of} released a value with noise on it."
    else:
        words = f"In every round {of} released a value with noise on it, and its neighbours see nothing else."
    if times is None:
        words += " In how many rounds was not noted."
    if private and own is not None:
        words += " Epsilon is that of its own record that has lost most."
    elif private:
        words += " Epsilon is that of the record that has lost most in the whole run: this one lost no more."
    return {"times": times, "words": words, "epsilon": spent if private else None}


def _times(last: tuple[int, dict[str, NDArray[np.float64]]], number: int) -> int | None:
    """Return in how many rounds up to the last recorded one a node has released something; None: it is not known."""
    at, known = last
    if "releases" not in known:
        return None if "presence" in known else at
    times = known["releases"][number]
    return round(float(times)) if np.isfinite(times) else None
