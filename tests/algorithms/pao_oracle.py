"""PAO-Fed written out in NumPy, one loop per index of the text: what the algorithm is tested against.

Equations (4.9) to (4.14) of Gauthier (2023) on given tables of data, availability and delays; windows as in (4.5), (4.6).
Every table may have leading axes, one entry of which is one run: the runs share nothing but the loops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PaoOracle:
    """The settings of PAO-Fed; `run` gives the server's models."""

    step: float
    """mu of (4.9)."""
    share: int
    """m: how many coordinates one message carries."""
    coordinated: bool = True
    """One window for all clients (C), or client k's shifted by m k (U)."""
    same_window: bool = False
    """Send the window that was received (variants 0), or the one that will be received next (4.6)."""
    decay: float = 1.0
    """alpha_l = decay^l."""
    full_download: bool = False
    """M = I: clients receive the whole model."""
    autonomous: bool = True
    """Clients with data that are not available step alone (4.11)."""
    newest_only: bool = False
    """A coordinate touched by arrivals of several ages is moved by the youngest age alone (manuscript, after (15))."""
    longest: int = 10
    """l_max: older messages are dropped."""

    def window(self, n: int, k: int, d: int) -> Array:
        """Return the diagonal of M_k^n (d,), before `full_download`."""
        first = self.share * (n + (0 if self.coordinated else k))
        mask = np.zeros(d)
        mask[[(first + i) % d for i in range(self.share)]] = 1.0
        return mask

    def received(self, n: int, k: int, d: int) -> Array:
        """Return the diagonal of M_k^n (d,)."""
        return np.ones(d) if self.full_download else self.window(n, k, d)

    def sent(self, n: int, k: int, d: int) -> Array:
        """Return the diagonal of S_k^n (d,)."""
        return self.window(n if self.same_window else n + 1, k, d)

    def run(
        self, z: Array, y: Array, fresh: NDArray[np.bool_], available: NDArray[np.bool_], delay: NDArray[np.int64]
    ) -> Array:
        """Return w^1, w^2, ... (..., T + 1, d) for z (..., T, K, d) and y, fresh, available, delay (..., T, K).

        `delay` -1 is a message that is lost. All models begin at 0.
        """
        *runs, rounds, clients, d = z.shape
        takes = fresh & available
        server, local = np.zeros((*runs, d)), np.zeros((*runs, clients, d))
        post: dict[tuple[int, int], Array] = {}  # what client k put on its way in iteration n, arrived or not
        models = [server]
        for n in range(1, rounds + 1):
            new_local = local.copy()
            for k in range(clients):
                data, target = z[..., n - 1, k, :], y[..., n - 1, k]
                has_data = fresh[..., n - 1, k][..., None]
                takes_part = takes[..., n - 1, k][..., None]
                mask = self.received(n, k, d)
                start = np.where(takes_part, mask * server + (1 - mask) * local[..., k, :], local[..., k, :])
                error = target - np.sum(start * data, axis=-1)  # (4.10) or (4.12)
                stepped = start + self.step * data * error[..., None]  # (4.9) or (4.11)
                moves = has_data if self.autonomous else takes_part
                new_local[..., k, :] = np.where(moves, stepped, local[..., k, :])
                post[n, k] = new_local[..., k, :]
            change = np.zeros_like(server)
            touched = np.zeros_like(server, dtype=bool)
            for age in range(min(self.longest, n - 1) + 1):
                then = n - age
                # C_l: sent in iteration n - l by a client with data that was available, and l iterations late.
                arrives = takes[..., then - 1, :] & (delay[..., then - 1, :] == age)
                total, covered = np.zeros_like(server), np.zeros_like(server, dtype=bool)
                for k in range(clients):
                    mask = arrives[..., k, None] * self.sent(then, k, d)
                    covered |= mask > 0
                    total = total + mask * (post[then, k] - server)
                counts = np.maximum(arrives.sum(axis=-1), 1)[..., None]
                deviation = total / counts  # (4.13)
                if self.newest_only:
                    deviation = np.where(touched, 0.0, deviation)
                    touched |= covered
                change = change + self.decay**age * deviation
            server, local = server + change, new_local  # (4.14)
            models.append(server)
        return np.stack(models, axis=-2)
