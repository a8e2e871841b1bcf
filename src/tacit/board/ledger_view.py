"""Privacy spent over time: of a run from its account, of a peer from its store.

    {"unit", "classes": [{"name", "limit", "spent", "left"}],
     "releases": [{"round", "time", "class", "cost"}], "chain", "words"}

A run's account is looked at now and then: its "releases" have the "rounds" since the look before, and cost what these
did together.

The cost of a release is what it adds to the loss of the record that has lost most: costs add up to what is spent.
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
from tacit.core.errors import LedgerError
from tacit.privacy.accounting import Account
from tacit.privacy.events import Event, fresh_number
from tacit.privacy.ledger import Replay, inspect
from tacit.privacy.ledger.budget_use import budget_use, spending

RECORD = "each record"
"""The class of a run: its account tells records apart, and their loss is that of the dearest."""
MOST_RELEASES = 1000
"""That are told of one by one; of more, some are taken together."""
_ROUND = re.compile(r"round (\d{1,15})")
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
            {"round": at, "time": None, "class": RECORD, "cost": cost, "rounds": at - before}
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


def ledger_of_store(path: Path, witness: Path | None = None) -> dict[str, Any]:
    """Return what stands in a peer's store, verified from its first entry on; it is never written to.

    Args:
      path: store.sqlite of a peer, or a ledger.
      witness: Its witness, to find out an old copy; None: unchecked.
    """
    try:
        return inspect(path, _read, witness)
    except (LedgerError, OSError) as error:
        return {"unit": "epsilon", "classes": [], "releases": [], "chain": "broken", "words": str(error)}


def _read(replay: Replay) -> dict[str, Any]:
    accounts: dict[str, Account] = {}
    releases: list[dict[str, Any]] = []
    spent: dict[str, float] = {}
    for entry, event in replay:
        if not event.labels:  # it is of no record
            continue
        name, budget = _class_of(event), replay.genesis.budget
        accounts[name] = accounts.get(name, Account()).charged(event)
        now = spending(budget, accounts[name].spent()).spent
        cost, spent[name] = now - spent.get(name, 0.0), now
        found = _ROUND.search(entry.release)
        at = int(found[1]) if found else entry.sequence
        releases.append({"round": at, "time": None, "class": name, "cost": cost})
        if len(releases) > 2 * MOST_RELEASES:
            releases = _merged(releases)
    use = budget_use(replay.genesis.budget, replay.account)
    return {
        "unit": use.unit,
        "classes": [
            {"name": name, "limit": use.limit, "spent": value, "left": max(0.0, use.limit - value)}
            for name, value in spent.items()
        ],
        "releases": releases,
        "chain": "verified",
        "words": f"{use.words[:1].upper()}{use.words[1:]}. The book has {replay.last.sequence:,} entries.",
    }


def _class_of(event: Event) -> str:
    if event.records == "":
        return "all records"
    if fresh_number(event.records) is not None:
        return "records that are read once"
    return "records that may come again" if event.records.startswith("rows ") else event.records


def _merged(releases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return half as many releases, two of a class as one."""
    waiting: dict[str, dict[str, Any]] = {}
    found = []
    for each in releases:
        before = waiting.pop(each["class"], None)
        if before is None:
            waiting[each["class"]] = each
        else:
            found.append({**each, "cost": before["cost"] + each["cost"]})
    return [*found, *waiting.values()]
