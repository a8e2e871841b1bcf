"""The card of a model: how it reads data, what it was made of and by whom, and what that cost in privacy.

It travels inside the model's file, as JSON, and is checked whenever a file is read.

A fingerprint of the data is kept of runs that promise nothing, and of no other. It is a hash of the rows: whoever knows
all rows but one can try the last one, value by value, until the hash fits, and a table of few columns with few values
can be guessed as a whole. A promise of privacy speaks of just such a reader. A keyed hash would be safe, but whoever
could check it would hold the key, and with it the same test.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tacit.core.errors import ModelError
from tacit.streams.batch import Task

FORMAT = 1
Text = Annotated[str, Field(max_length=100_000)]
Name = Annotated[str, Field(max_length=10_000)]
Names = Annotated[list[Name], Field(max_length=1_000_000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Plain = dict[str, Any]
"""What JSON can say."""

MEAN = "mean"
"""The model that predicts where no owner is named."""

COVERED = (
    "The models are made of released values alone, so that handing this file on tells no more than the releases did, "
    "and what was spent covers it."
)
NOT_COVERED = (
    "What was spent covers the messages. The models also hold what was computed from records and never released, and "
    "nothing covers handing them on: treat this file as you treat the data."
)
SIMULATED = (
    "This noise was simulated. It follows from the seed, and whoever knows or guesses that computes it again: what was "
    "spent says what such noise costs, and covers nothing here. Treat this file as you treat the data. Models of peers "
    "have noise that nobody can compute again."
)
NOT_PRIVATE = "Nothing was promised: the models may tell of single records. Treat this file as you treat the data."
FIGURES_COST = (
    "Figures were taken from the data as they are, without noise, and no privacy account covers them; "
    "Model.save(path, figures=False) leaves them out."
)


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    """Nothing but what is described, of just these types."""


class ObjectiveCard(_Part):
    """The function of parameters and x."""

    name: Name
    """Name in the registry, or that of the user's own."""
    arguments: Plain = {}
    """Of its constructor."""
    own: bool = False
    """Whether it is the user's own, whose code is needed to predict."""


class PrivacyCard(_Part):
    """Privacy that was spent, in the words of the account."""

    private: bool
    words: Text
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    delta: Annotated[float, Field(ge=0, lt=1)] | None = None
    unit: Text = "none"
    adjacency: Text = "none"
    """What differs between two neighbouring data sets."""
    model: Text = NOT_PRIVATE
    """What all that means for handing the model on."""

    @model_validator(mode="after")
    def _told(self) -> Self:
        if self.private and (self.epsilon is None or self.delta is None):
            raise ValueError("private, but epsilon or delta is not said")
        return self


class DataCard(_Part):
    """Data that the model was made of."""

    description: Text
    rows: Count | None = None
    """Of all owners together; None: no end of them."""
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    """A hash of the rows; None where privacy is promised, see the top of this file."""


class MadeCard(_Part):
    """The run, or the peer, that made the model."""

    algorithm: Name
    settings: Plain = {}
    """As configured."""
    rounds: Count
    seed: Count | None = None
    repeat: Count | None = None
    graph: Text = ""
    command: Text | None = None
    created: Name
    """Date and time, UTC."""
    versions: dict[Name, Name]
    partial: bool = False
    """Whether the run was interrupted."""


class Card(_Part):
    """All that a model's file says besides its numbers.

    Example:
      >>> import tacit
      >>> ops = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> run = tacit.simulate(ops, tacit.graphs.ring(4), tacit.streams.logistic_drift(4, 3), rounds=5)
      >>> run.model().card.objective.name, run.model().card.privacy.private
      ('logistic', False)
    """

    format: Literal[1] = 1
    """Of the card."""
    objective: ObjectiveCard
    """Function of parameters and x."""
    task: Task | None
    """Kind of the labels; None: an objective of the user's own, which does not say."""
    features: Annotated[int, Field(ge=1, lt=2**31)]
    """Numbers that the model sees of a row, a bias included."""
    bias: bool = False
    """Whether the last of them is a one that is added; with `preprocessing`, which then does it, False."""
    preprocessing: Plain | None = None
    """From columns of a file to these numbers; None: they are given as they are."""
    columns: Names = []
    """Names of these numbers, where known."""
    label: Name | None = None
    """Column of the labels, where known."""
    classes: Names = []
    """Labels in the words of the data, in the order of their numbers."""
    which: Name = MEAN
    """The model that predicts by default: the mean of all owners' models, or an owner's."""
    owners: Names = []
    """Owners whose models are in the file, in order."""
    agents: Annotated[int, Field(ge=1, lt=2**53)] = 1
    """Owners that took part."""
    took_part: dict[Name, Count | None] = {}
    """Owner -> its rows, None: not known; without names where there are more than are listed."""
    privacy: PrivacyCard
    """Privacy that was spent, and what it means for the file."""
    data: DataCard
    """Data that the model was made of."""
    figures: dict[Name, Number | None] = {}
    """Name -> figure, held-out ones first; no privacy account covers them."""
    made: MadeCard
    """How it was made."""
    notes: list[Text] = []
    """Sentences to show."""


def checked(content: Any, name: str) -> Card:
    """Return the card that a file holds; `name` is the file in messages."""
    version = content.get("format") if isinstance(content, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise ModelError(
            f"{name}: its card is of format {version}, and this tacit reads {FORMAT}; install a newer tacit"
        )
    try:
        return Card.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part)[:60] for part in fault["loc"]) or "all of it"
        found = "" if fault["type"] == "missing" else f", found {str(fault['input'])[:60]!r}"
        raise ModelError(
            f"{name}: its card, {place}: {fault['msg']}{found}; it was changed, or written by another version"
        ) from error
