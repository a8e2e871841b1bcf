"""Sections of an experiment's file, apart from the parameters of what they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from tacit.config.choices import choose
from tacit.config.methods import MethodSettings
from tacit.config.sections import Place, Section, Seeding, check, located
from tacit.core import limits
from tacit.graphs.channel import LONGEST_DELAY
from tacit.streams.learnt import Kind
from tacit.streams.reading.columns import Unknown
from tacit.streams.reading.formats import is_several
from tacit.streams.reading.sql import SqlQuery

if TYPE_CHECKING:
    from tacit.attacks.kinds import Attack

MOST_POINTS = 10_000
"""Of a regret curve: each is an optimisation over the data up to there."""
Seed = Literal["repeat"] | Seeding
"""A fixed seed, the same for all repeats, or each repeat's own: run.seed, run.seed + 1, ..."""


class DelaySettings(Section):
    """[run.channel.delay]: P(delay >= step * i) = p ** i, older than `longest` is lost."""

    p: float = Field(default=0.2, ge=0, lt=1)
    longest: int = Field(default=10, ge=0, le=LONGEST_DELAY)
    step: int = Field(default=1, ge=1, le=LONGEST_DELAY)


class ChannelSettings(Section):
    """[run.channel]: losses and delays of messages."""

    loss: float = Field(default=0.0, ge=0, lt=1)
    delay: DelaySettings | None = None
    links: list[str] | None = Field(default=None, min_length=1)
    """The link sets that it is so on, e.g. ["uplink"]; without it on all."""


class RunSettings(Section):
    """[run]."""

    name: str = Field(min_length=1)
    """Without it, that of the file."""
    rounds: int = Field(ge=1, le=limits.MOST_ROUNDS)
    repeats: int = Field(default=1, ge=1, le=limits.MOST_ROUNDS)
    seed: Seeding = 0
    dtype: Literal["float32", "float64"] = "float32"
    channel: ChannelSettings = ChannelSettings()
    regret_points: int = Field(default=8, ge=0, le=MOST_POINTS)
    """Rounds at which static regret is computed; 0 leaves it out."""
    regret_window: int | None = Field(default=None, ge=1, le=limits.MOST_ROUNDS)
    """K: regret is against models that keep the constraints over every K rounds; without it those do not count."""
    node_loss: int | None = Field(default=None, ge=0)
    """An agent whose model is also judged on the data of all agents."""
    record_every: int | None = Field(default=None, ge=1, le=limits.MOST_ROUNDS)
    devices: int | None = Field(default=None, ge=1)
    """JAX's devices over which agents are split; without it one, or all where several processes run together."""
    references: bool = True
    """Whether private methods are also run without noise and alone, and compared with a constant."""
    memory: float | None = Field(default=None, gt=0, le=limits.MOST_GIB)
    """GiB that data, graphs and models may ask for, instead of 4: see `tacit.limits`."""


class GraphSettings(Section):
    """Settings of every graph, besides the parameters of its kind."""

    weights: Literal["sender", "receiver", "metropolis"] | None = None
    """None: the algorithm's rule."""
    dynamics: dict[str, Any] | None = None
    clusters: list[int] | None = None
    """Which cluster each agent belongs to, counted from 0."""
    availability: float | list[float | dict[str, Any]] | None = None
    """Probability that an agent is there in a round: one for all, or one for each. Where the stream says when data
    come, no agent is there without. Tables say in which rounds agents are there, and rest in all others."""


class SeededGraph(GraphSettings):
    """A random graph."""

    seed: Seed = "repeat"


class SyntheticSettings(Section):
    """Settings of every synthetic stream, besides the parameters of its kind."""

    seed: Seed = "repeat"


class TabularSettings(Section):
    """Settings of streams over data sets and files."""

    seed: Seed = "repeat"
    """Of the partition and of the order in which samples are read."""
    partition: dict[str, Any] | None = None
    bias: bool = True
    """Whether a column of ones is added, so that a linear model has an intercept."""
    unit: bool = False
    """Whether every row is scaled to norm 1, which needs no other row; with [privacy] it is, unless said otherwise."""
    batch: int = Field(default=1, ge=1)
    """With [privacy], where it is not given: a hundredth of what the largest owner has."""
    exhausted: Literal["mask", "cycle", "stop"] = "mask"
    """Where an owner's rows are used up: its rounds are over, or it begins again, or the run ends for all."""
    passes: int = Field(default=1, ge=1, le=limits.MOST_ROUNDS)
    """Times that every row is read."""
    shuffle: bool = True


class DatasetSettings(TabularSettings):
    """Further settings of streams over data sets."""

    standardise: bool = True


class TableSettings(TabularSettings):
    """Further settings of streams over tables of the user's own."""

    standardise: bool | Literal["owner"] = True
    """Mean 0 and deviation 1 over all rows, or over each owner's own; see `tacit.streams.scaled`."""
    bounds: dict[str, list[float]] | None = None
    """Column -> [low, high], by which it is scaled instead."""
    public: list[Kind] = Field(default=[])
    """Facts that may be learnt from all rows though a method promises privacy; see `tacit.streams.learnt`."""


class FileSettings(TableSettings):
    """Further settings of streams over files."""

    path: str | Annotated[list[str], Field(min_length=1)]
    """A file, a pattern such as "data/*.csv", or a list of files; of several, each is an owner's unless `owner` is
    given."""

    @property
    def data(self) -> str | list[str]:
        """The files."""
        return self.path

    @property
    def several(self) -> bool:
        """Whether there are several files."""
        return is_several(self.path)


class SqlSettings(TableSettings):
    """Further settings of streams over queries."""

    url: str
    """Of the data base; ${NAME} stands for a variable of the environment, as for a password."""
    query: str
    """SELECT, whose columns are those of the table."""

    @property
    def data(self) -> SqlQuery:
        """The query."""
        return SqlQuery(self.url, self.query)

    @property
    def several(self) -> bool:
        """Whether there are several files, which there are not."""
        return False


class AlgorithmSettings(MethodSettings):
    """Settings of every algorithm, besides its own parameters."""

    label: str | None = Field(default=None, min_length=1)
    alone: bool = False
    """Whether every agent runs it by itself: the same method on a network without links."""
    private: bool | None = None
    """False: [privacy] is not for it."""


class LiarSettings(Section):
    """[liars]: agents that lie, in every repeat, and how; figures are then those of the others."""

    agents: list[int] | None = Field(default=None, min_length=1)
    """Their numbers, from 0 on."""
    count: int | None = Field(default=None, ge=1)
    """How many, spread evenly over the numbers; instead of `agents`."""
    attack: str | dict[str, Any]
    """Its kind, or a table of kind and settings: see `tacit.attacks`."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.agents is None) == (self.count is None):
            raise ValueError("expected agents = [2, 7], say, or count = 2; give one of them")
        return self

    def numbers(self, agents: int) -> list[int]:
        """Return who lies, of so many agents."""
        if self.agents is not None:
            return self.agents
        count = self.count or 0
        return [k * agents // count for k in range(count)]


class Liars(NamedTuple):
    """The section [liars], where it stands, and the attack that was made of it."""

    settings: LiarSettings
    place: Place
    attack: Attack


def liars_of(data: Mapping[str, Any], place: Place) -> Liars:
    """Check the section [liars]."""
    from tacit.attacks.kinds import ATTACKS  # an honest member of a swarm has no need of it

    settings = check(LiarSettings, data, place)
    asked = {"kind": settings.attack} if isinstance(settings.attack, str) else settings.attack
    chosen = choose(ATTACKS, asked, place.table("attack"))
    with located(chosen.place):
        return Liars(settings, place, chosen.function(**chosen.arguments()))


class EvaluateSettings(Section):
    """[evaluate]: rows that are held out, and by which final models are judged."""

    share: float | None = Field(default=None, gt=0, lt=1)
    """Of the rows of [stream], which are then not learnt from."""
    by: Literal["row", "owner", "time"] = "row"
    """Rows at random, whole owners at random, or the last rows of each owner."""
    seed: Seeding | None = None
    """Of the choice, which is the same in all repeats; without it that of [run]."""
    file: str | None = Field(default=None, min_length=1)
    """Rows of a file of their own instead, with the columns of that of [stream]."""
    unknown: Unknown = "refuse"
    """Words in that file which no row of [stream] has: refused, or none of a column's categories."""
    choose: float | None = Field(default=None, gt=0, lt=1)
    """Share of the held-out rows that chooses the best models of a run, which the others judge."""
    patience: int | None = Field(default=None, ge=1)
    """Looks in a row that found no better models, after which a run ends; without it all rounds are run."""
    public: bool = False
    """Whether the rows that choose are nobody's secret: methods that promise privacy are refused otherwise."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.share is None) == (self.file is None):
            raise ValueError('expected share = 0.2, say, or file = "test.csv"; give one of them')
        given = sorted({"by", "seed"} & self.model_fields_set)
        if self.file is not None and given:
            raise ValueError(f"{given[0]} is about a share; a file's rows are all held out; remove it")
        if self.file is None and "unknown" in self.model_fields_set:
            raise ValueError("unknown is about a file; a word that only held-out rows have is ignored; remove it")
        alone = sorted({"patience", "public"} & self.model_fields_set)
        if self.choose is None and alone:
            raise ValueError(f"{alone[0]} is about the best models; say choose = 0.5, say, or remove it")
        if self.by == "time" and self.seed is not None:
            raise ValueError('seed has no effect with by = "time"; remove it')
        return self


class Evaluate(NamedTuple):
    """The section [evaluate], and where it stands."""

    settings: EvaluateSettings
    place: Place


class PrivacySettings(Section):
    """[privacy]: what a record may cost; noise, step and average of every algorithm without a mechanism follow."""

    epsilon: float = Field(gt=0, allow_inf_nan=False)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    strategy: Literal["blt", "banded", "toeplitz", "independent"] = "blt"
    """Of the noise; see `tacit.privacy.correlated`."""


class Privacy(NamedTuple):
    """The section [privacy], and where it stands."""

    settings: PrivacySettings
    place: Place
