"""Privacy columns of the tables: epsilon, delta, unit, and neighbouring relation of each run."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.privacy.spending import RunPrivacy

COLUMNS = ("epsilon", "delta", "unit")


def in_columns(privacy: RunPrivacy) -> tuple[str, str, str]:
    """Return the three cells of a table."""
    if not privacy.private:
        return "none", "-", "-"
    found = privacy.summary()
    return f"{found['epsilon']:.4g}", f"{found['delta']:.4g}", str(found["unit"])


def note(all_privacy: Iterable[RunPrivacy]) -> str:
    """Return the sentence for a table that says what epsilon and delta are of."""
    found = dict.fromkeys(str(privacy.summary()["adjacency"]) for privacy in all_privacy if privacy.private)
    return (
        "Epsilon and delta are what each unit has spent over the whole run; two data sets are neighbours if "
        f"{' or '.join(found)}."
    )
