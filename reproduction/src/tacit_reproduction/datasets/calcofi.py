"""CalCOFI bottle database: salinity of sea water and other readings of the same bottle (Gauthier 2023, sec. 4.4.4).

Columns are depth (m), temperature (degrees C), oxygen (ml/l) and its saturation (%): the measurements that most bottles
have. Potential density would give salinity away by a formula, oxygen and its saturation do so in part (its solubility
falls by 0.6 % per unit). Place and time say only who gets a bottle and when. Bottles that lack a value are left out.
"""

import csv
import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.checks import whole_number
from tacit.core.errors import DataError
from tacit.streams.arrivals import ArrivalStream, check_rounds
from tacit.streams.batch import Batch
from tacit.streams.learnt import Learnt
from tacit.streams.reading.npz import read_npz
from tacit_reproduction.datasets import fetch as datasets

COLUMNS = ("Depthm", "T_degC", "O2ml_L", "O2Sat")
TARGET = "Salnty"
GROUPS = (500, 1000, 1500, 2000)
"""Agent k's share of the samples is in proportion to entry k mod 4, as in the text's synthetic data."""
CHOICE, ARRIVALS, TEST = range(3)
REMEDY = "it is damaged or another edition, replace it by the original"


class Bottles(NamedTuple):
    """All bottles that have all values, in the order of time."""

    x: NDArray[np.float32]  # (rows, 4) `COLUMNS`, each standardised over these rows
    y: NDArray[np.float32]  # (rows,) salinity, standardised over these rows
    place: NDArray[np.int64]  # (rows,) rank of the place: places that follow each other are neighbours
    deviation: float  # standard deviation of salinity (PSS-78)
    origin: str


class CalcofiStream(ArrivalStream):
    """Bottles shared out by place. Make it with `calcofi`."""

    salinity_deviation: float
    """One unit of y on the practical salinity scale: its square times an MSE is the MSE there."""

    def __init__(self, bottles: Bottles, sizes: NDArray[np.int64], rounds: int, seed: int) -> None:
        self._bottles, self._seed = bottles, seed
        self.salinity_deviation = bottles.deviation
        rng = np.random.default_rng([seed, CHOICE])
        shuffled = rng.permutation(len(bottles.y))
        held, self._free = np.split(shuffled, [int(sizes.sum())])
        held = held[np.argsort(bottles.place[held], kind="stable")]
        neighbours = rng.permutation(len(sizes))
        held = held[np.lexsort((held, np.repeat(neighbours, sizes[neighbours])))]
        super().__init__(
            bottles.x[held], bottles.y[held], sizes, rounds, np.random.default_rng([seed, ARRIVALS]),
            name="calcofi",
            description=f"CalCOFI, {len(held):,} of {len(bottles.y):,} complete bottles ({bottles.origin}) by place in "
            f"{rounds} rounds, salinity from {', '.join(COLUMNS)}, all standardised, seed {seed}")  # fmt: skip
        what = "means and deviations over all bottles of CalCOFI, a published data set"
        self.learnt = (Learnt("scaling", what, "take rows of your own", public=True),)

    def test(self, count: int, seed: int = 0) -> Batch:
        """Return `count` bottles that no agent holds, drawn at random from all places and times, each once at most."""
        whole_number("count", count)
        if count > len(self._free):
            free = len(self._free)
            raise DataError(f"{count} bottles to test with, but only {free} that nobody holds: share out fewer")
        rows = np.random.default_rng([self._seed, TEST, seed]).choice(self._free, count, replace=False)
        return Batch(self._bottles.x[rows], self._bottles.y[rows])


def calcofi(agents: int, *, samples: int = 80_000, rounds: int = 2000, seed: int = 0) -> CalcofiStream:
    """CalCOFI bottles as a stream: shared out unevenly, by place, one at a time over the rounds.

    Agents k = 0, 1, 2, 3, 4, ... hold shares 1 : 2 : 3 : 4 : 1 : ... of them. The bottles are drawn at random, sorted
    by place (in bands from west to east) and cut into blocks, one for each agent, so that agents differ; an agent's own
    come in the order of time, each in a round drawn at random. Means and deviations that columns and salinity are
    standardised with are those of all complete bottles, held or not, and stand outside any privacy account.

    Args:
      agents: Number of agents.
      samples: Number of bottles held by all agents together; at least one each, and some left to test with.
      rounds: Number of rounds over which the bottles arrive.
      seed: Seed of the choice of bottles and of their rounds.

    Raises:
      ConfigError: An argument is out of range.
      DataError: The database is not here (it is not downloaded), or has too few bottles.

    References: Gauthier (2023), sec. 4.4.4; the CalCOFI bottle database.
    """
    for setting, count in (("agents", agents), ("samples", samples)):
        whole_number(setting, count)
    whole_number("seed", seed, least=0)
    check_rounds(rounds, agents)
    ends = np.cumsum(np.resize(GROUPS, agents))
    sizes = np.diff(samples * ends // ends[-1], prepend=0)
    if sizes.min() < 1:
        raise DataError(f"{samples} samples for {agents} agents; expected at least one for each: use more samples")
    (path,) = datasets.files_of("calcofi")
    bottles = (_from_table if path.name == datasets.KNOWN["calcofi"].other else _from_prepared)(path)
    if samples >= len(bottles.y):
        raise DataError(f"{samples} samples, but there are {len(bottles.y)} complete bottles; leave some to test with")
    return CalcofiStream(bottles, sizes, rounds, seed)


@functools.cache
def _from_prepared(path: Path) -> Bottles:
    archive = read_npz(path)
    values = np.stack([archive[name] for name in (*COLUMNS, TARGET)], axis=1)
    # Bands of one degree of latitude, each from west to east. The file is sorted by date, cast and depth.
    return _complete(values, np.round(archive["lat"]), archive["lon"], "1970 to 2020")


@functools.cache
def _from_table(path: Path) -> Bottles:
    """Read the database's own table, 'line station' of a survey grid being the place; rows are in the order of time."""
    wanted = (*COLUMNS, TARGET)
    values, places = [], []
    with path.open(encoding="latin-1", newline="") as text:
        reader = csv.DictReader(text)
        missing = {*wanted, "Sta_ID"} - set(reader.fieldnames or ())
        if missing:
            raise DataError(f"{path}: column {min(missing)!r} is missing: {REMEDY}")
        for number, row in enumerate(reader, start=2):
            try:
                values.append([float(row[name] or "nan") for name in wanted])
                line, station = row["Sta_ID"].split()
                places.append((float(line), -float(station)))  # stations are counted from the coast, in the east
            except (ValueError, TypeError, AttributeError) as fault:
                raise DataError(f"{path}, line {number}: {fault}: {REMEDY}") from fault
    line, station = np.array(places, np.float64).reshape(-1, 2).T
    return _complete(np.array(values, np.float64).reshape(-1, len(wanted)), line, station, path.name)


def _complete(values: NDArray[Any], band: NDArray[Any], within: NDArray[Any], origin: str) -> Bottles:
    complete = np.isfinite(values).all(axis=1)
    table = values[complete].astype(np.float64)
    if len(table) < 2:
        raise DataError(f"CalCOFI ({origin}): {len(table)} bottles have {', '.join(COLUMNS)} and {TARGET}; {REMEDY}")
    spread = table.std(axis=0)
    scaled = ((table - table.mean(axis=0)) / np.where(spread > 0, spread, 1)).astype(np.float32)
    place = np.empty(len(table), np.int64)
    place[np.lexsort((within[complete], band[complete]))] = np.arange(len(table))
    return Bottles(np.ascontiguousarray(scaled[:, :-1]), scaled[:, -1].copy(), place, float(spread[-1]), origin)
