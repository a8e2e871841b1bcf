"""How a private value becomes one that may leave.

Only `unprotected` is offered so far: it releases values as they are, and says so.
"""

from __future__ import annotations

from tacit.contract import unprotected
from tacit.privacy.release import release

__all__ = ["release", "unprotected"]
