"""Privacy spent over the rounds: of a run from its account, of a swarm from the stores of its members.

    {"unit", "classes": [{"name", "limit", "spent", "left"}],
     "releases": [{"round", "class", "cost"}], "chain", "words"}

A run's account is looked at now and then: its "releases" have the "rounds" since the look before, and cost what these
did together: what they add to the loss of the record that has lost most.

Members of `swarm run --booked` have ledgers, which are verified from their first entry on, and told as peers tell of
theirs (`tacit.peer.observing.ledger_summary`); "members" are all of them, "member" is the one that is told of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tacit.board.live_reader import LiveRecord, finite_or_none
from tacit.board.runs import Found
from tacit.core.errors import LedgerError, ResultError
from tacit.peer.observing.ledger_summary import summary_of
from tacit.privacy.ledger import inspect

RECORD = "each record"
"""The class of a run: its account tells records apart, and their loss is that of the dearest."""
STORE = "store.sqlite"
MOST_MEMBERS = 10_000
NOTHING = "This run promises nothing, so that there is no loss to be told: whatever it sends may show its data."


def ledger_of_run(run: Found, live: LiveRecord | None, privacy: Mapping[str, Any], settings: Any) -> dict[str, Any]:
    """Return what a run has spent.

    Args:
      run: The run.
      live: What its live file holds; None: there is none.
      privacy: What its summary says; empty while it goes on.
      settings: As they stand in config.toml.
    """
    spent = finite_or_none(privacy.get("epsilon", run.figures.get("epsilon")))
    if not run.private:
        words = str(privacy.get("words") or "")
        return {
            "unit": "epsilon",
            "classes": [],
            "releases": [],
            "chain": "none",
            "words": f"{NOTHING} {words}".strip(),
        }
    points = {at: line[0] for at, line in live.curves.get("epsilon", {}).items()} if live is not None else {}
    if spent is not None:
        points[run.done] = spent
    limit = _limit(settings)
    releases = rising(points)
    return {
        "unit": "epsilon",
        "classes": [{"name": RECORD, "limit": limit, "spent": spent, "left": _left(limit, spent)}],
        "releases": [
            {"round": at, "class": RECORD, "cost": cost, "rounds": at - before}
            for (before, _), (at, cost) in pairwise([(0, 0.0), *releases])
        ],
        "chain": "none",
        "words": _words(run, privacy, spent, limit, releases),
    }


def rising(points: Mapping[int, float | None]) -> list[tuple[int, float]]:
    """Return the rounds after which a loss was looked at, and what was added to it since.

    Args:
      points: Round -> loss of the record that has lost most.

    Example:
      >>> rising({10: 1.0, 20: 1.0, 30: 2.5})
      [(10, 1.0), (20, 0.0), (30, 1.5)]
    """
    found, before = [], 0.0
    for at, value in sorted(points.items()):
        if value is not None:
            found.append((at, max(0.0, value - before)))
            before = max(before, value)
    return found


def _words(
    run: Found,
    privacy: Mapping[str, Any],
    spent: float | None,
    limit: float | None,
    releases: Sequence[tuple[int, float]],
) -> str:
    if spent is None:
        return "Nothing has been told yet of what this run has spent: that is looked at every now and then."
    unit = str(privacy.get("unit") or "record")
    factor = math.exp(min(spent, 700.0))
    told = f"{factor:,.2f}" if factor < 1000 else "more than a thousand"
    delta = finite_or_none(privacy.get("delta"))
    chance = f", but for a chance of {delta:.2g}" if delta else ""
    sentences = [
        f"After {run.done:,} rounds the {unit} that has lost most has an epsilon of {spent:.3g}: to whoever sees all "
        f"that was sent, any outcome is at most {told} times as likely with it as without it{chance}."
    ]
    later = [cost for _, cost in releases[1:]]
    if later and not any(later):
        sentences.append("Further rounds added nothing to it: each record was released once.")
    elif later:
        sentences.append("It grows: records come again, or every release is charged to all of them.")
    if limit is not None:
        sentences.append(f"The experiment asked for {limit:.3g} at most.")
    sentences.append("A simulation keeps its account in memory: it has no chain to verify, as a peer's ledger does.")
    return " ".join([*sentences, str(privacy.get("words") or "")]).strip()


def _limit(settings: Any) -> float | None:
    """Return the epsilon that an experiment's [privacy] asks for."""
    planned = settings.get("privacy") if isinstance(settings, Mapping) else None
    return finite_or_none(planned.get("epsilon")) if isinstance(planned, Mapping) else None


def _left(limit: float | None, spent: float | None) -> float | None:
    return None if limit is None else max(0.0, limit - (spent or 0.0))


def stores_of(live: Path | None) -> dict[str, Path]:
    """Return the stores of a swarm's members by their names; nothing where there are none.

    They lie beside its live file's folder, in one that begins with the same number. Links are not followed.

    Args:
      live: Its live file.
    """
    found: dict[str, Path] = {}
    number = re.match(r"\d+", live.name) if live is not None else None
    if live is None or number is None:
        return found
    try:
        folders = [one for one in live.parent.parent.iterdir() if one.name.startswith(f"{int(number[0])}-")]
        for folder in folders:
            homes = [] if folder.is_symlink() or not folder.is_dir() else sorted(folder.iterdir(), key=_in_order)
            stores = [home / STORE for home in homes[:MOST_MEMBERS] if not home.is_symlink()]
            found |= {store.parent.name: store for store in stores if store.is_file() and not store.is_symlink()}
    except OSError:  # it is being moved, or closed to this user
        return {}
    return found


def _in_order(home: Path) -> tuple[str, int]:
    """Sort member-10 behind member-9."""
    digits = re.search(r"\d{1,9}$", home.name)
    return (home.name, 0) if digits is None else (home.name[: digits.start()], int(digits[0]))


def ledger_of_swarm(stores: Mapping[str, Path], member: str) -> dict[str, Any]:
    """Return what stands in the ledger of one member of a swarm, which is never written to.

    Args:
      stores: As `stores_of` gives them.
      member: Its name; empty: the first one.
    """
    name = member or next(iter(stores), "")
    if name not in stores:
        raise ResultError(f"there is no member {name[:80]!r} with a ledger; expected one of {', '.join(stores)}")
    try:
        found = inspect(stores[name], summary_of)
    except (LedgerError, OSError) as error:
        found = {"unit": "epsilon", "classes": [], "releases": [], "chain": "broken", "words": str(error)}
    return {**found, "members": list(stores), "member": name}
