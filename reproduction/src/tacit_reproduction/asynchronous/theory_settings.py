"""Settings of `pao-theory`: small networks with predictable errors, and step sizes to try."""

from __future__ import annotations

from typing import NamedTuple

from tacit.algorithms.asynchronous.pao_fed import VARIANTS
from tacit.graphs import Delay


class Setting(NamedTuple):
    """One small network."""

    name: str
    variant: str = "U1"
    step: float = 0.1
    share: int = 2
    available: float = 0.5
    delay: float = 0.3
    longest: int = 2
    data: float = 1.0
    """Chance that a round brings a client a sample."""
    full_download: bool = False
    clients: int = 4
    d: int = 6
    rough: float = 1.0
    """Variance of the first client's features, in multiples of the others'."""
    white: bool = False
    """Whether features have unit variance and no correlation, instead of a spectrum from 0.2 to 1."""

    @property
    def delays(self) -> tuple[float, ...]:
        """P(delay = 0), P(delay = 1), ..."""
        return Delay(self.delay, self.longest).probabilities() if self.longest else (1.0,)


USUAL = (
    *(Setting(variant, variant) for variant in VARIANTS),
    Setting("U1, mu = 0.02", step=0.02),
    Setting("U1, mu = 0.2", step=0.2),
    Setting("U1, m = 1", share=1),
    Setting("C1, m = 6, no delays", "C1", share=6, longest=0),
    Setting("U1, no delays", longest=0),
    Setting("U1, available 0.1", available=0.1),
    Setting("U1, data in half", data=0.5),
    Setting("C2, full download", "C2", full_download=True),
)
MEETING = Setting("U1, m = 3, all available, most late", share=3, available=1.0, delay=0.8)
"""Updates of all ages meet on most coordinates."""
FOLLOWED = ("U1", "C2", "C1, m = 6, no delays")
"""Settings whose way is compared, too."""

BEYOND = Setting("above every limit", step=1.5)
ROUGH = Setting(
    "one rough client", "C1", step=0.3, share=4, available=1.0, longest=0, clients=8, d=4, rough=8.0, white=True
)
ALONE = Setting("one client", "C1", step=0.5, share=6, available=1.0, longest=0, clients=1, white=True)
AGES = Setting("three ages meet", "C1", step=0.02, share=4, available=1.0, delay=0.7, clients=6, d=4)
FADING = AGES._replace(name="three ages meet, decay 0.2", variant="C2")
FORCED = (BEYOND, ROUGH)
"""Above the bound of Theorem 4.2."""
STEPPED = {BEYOND: 400, ROUGH: 400, ALONE: 400, AGES: 3000, FADING: 3000}
"""Settings whose steps are tried, and for how many rounds."""


class Design(NamedTuple):
    """The extent of the experiment."""

    seeds: int
    settings: tuple[Setting, ...]
    time: float
    """Rounds of a run, times its step."""

    def rounds(self, setting: Setting) -> int:
        """Return how long a setting is run."""
        return int(self.time / setting.step) if setting in self.settings else STEPPED[setting]


FULL = Design(40, (*USUAL, MEETING), 200.0)
QUICK = Design(20, tuple(s for s in USUAL if s.name in (*FOLLOWED, "U1, mu = 0.2")), 100.0)
