"""Facts learnt from all rows before the first round: words of a column, classes, means and deviations.

Every agent's batches carry them, and sizes of models and messages may follow from them, so that one record reaches the
rows of others before any release. No account covers that. A run that promises privacy therefore takes them as given
(categories, classes, bounds listed beforehand), or as declared public by name, and is refused otherwise.

The owner of a row, the number of rows of each owner and their order are no part of a record's content: two neighbouring
data sets differ in what one record says, not in its owner, nor in when it comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from tacit.core.contract import Algorithm
from tacit.core.errors import ConfigError, PrivacyError

if TYPE_CHECKING:
    from tacit.streams.stream import Stream

Kind = Literal["categories", "classes", "missing", "scaling", "partition", "rows", "class_weight"]


class Learnt(NamedTuple):
    """One fact that was learnt from all rows."""

    kind: Kind
    what: str
    """In words."""
    remedy: str
    """Setting to give instead."""
    public: bool = False
    """Whether it is declared to be public."""


def declared(learnt: Iterable[Learnt], public: Collection[str]) -> tuple[Learnt, ...]:
    """Return what was learnt with those kinds marked as public that are declared so."""
    for kind in public:
        if kind not in get_args(Kind):
            raise ConfigError(f"public: {kind!r} is unknown; expected some of {', '.join(get_args(Kind))}")
    return tuple(each._replace(public=each.public or each.kind in public) for each in learnt)


def refuse_undeclared(algorithm: Algorithm, streams: Iterable[Stream]) -> None:
    """Refuse a method that promises privacy on data in which something was learnt and not declared public."""
    hidden = {each: None for stream in streams for each in stream.learnt if not each.public}
    if not hidden or not algorithm.privacy.private:
        return
    found = "".join(f"\n  {each.what}: give {each.remedy}" for each in hidden)
    kinds = ", ".join(f'"{kind}"' for kind in dict.fromkeys(each.kind for each in hidden))
    raise PrivacyError(
        f"{algorithm.name!r} promises privacy, but this was learnt from all rows, which no account covers:{found}\n"
        f"  or, if everybody may know it, declare it: public = [{kinds}]"
    )


def public_of(streams: Iterable[Stream]) -> tuple[str, ...]:
    """Return in words what was learnt from all rows of these streams and declared to be public."""
    return tuple(dict.fromkeys(each.what for stream in streams for each in stream.learnt if each.public))
