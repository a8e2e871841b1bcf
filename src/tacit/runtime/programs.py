"""Compiled programs of this process, found again where the same program is asked for a second time.

Fits of equal shape (of a cross-validation, say) lower to the same text, and compiling is most of what a small one
takes. A program is its text with the forms of its arguments and results, so that equal keys compute the same. A text
with a callback holds the address of a Python object, and is compiled anew.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax

MOST = 32
"""Programs that are kept; the one that was used longest ago goes first."""

_kept: OrderedDict[tuple[Any, ...], Callable[..., Any]] = OrderedDict()
_lock = threading.Lock()


def compiled(lowered: jax.stages.Lowered) -> Callable[..., Any]:
    """Compile a program, or return the equal one that was compiled before.

    Args:
      lowered: From ``jax.jit(function).lower(...)``.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> lower = lambda: jax.jit(lambda x: x + 1).lower(jnp.zeros(3))
      >>> compiled(lower()) is compiled(lower())
      True
      >>> unused = lambda size: jax.jit(lambda x, y: x).lower(1.0, jnp.zeros(size))
      >>> compiled(unused(3)) is compiled(unused(4))
      False
    """
    text = lowered.as_text()
    if "callback" in text:
        return lowered.compile()
    key = (
        hashlib.sha256(text.encode()).digest(),
        lowered.in_tree,
        str(lowered.in_avals),  # also of arguments that are not used, which the text leaves out
        lowered.out_tree,
        str(jax.tree.leaves(lowered.args_info)),  # the text is without arguments that nothing is made of
        str(jax.tree.leaves(lowered.out_info)),
        str(jax.config.values.get("jax_default_device")),
    )
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
            return found
    made = lowered.compile()
    with _lock:
        _kept[key] = made
        while len(_kept) > MOST:
            _kept.popitem(last=False)
    return made
