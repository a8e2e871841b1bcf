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


def compiled(function: Callable[..., Any], *arguments: Any, donate: tuple[int, ...] = ()) -> Callable[..., Any]:
    """Compile a function, or return the equal program that was compiled before.

    Args:
      function: A function of arrays, as `jax.jit` takes it.
      arguments: What it will be called with, or the shapes of that.
      donate: Places of the arguments whose memory the results may take.

    Returns:
      The program; it takes arguments of these shapes alone.

    Example:
      >>> import jax.numpy as jnp
      >>> first, second = (compiled(lambda x, y: x + 1, 1.0, jnp.zeros(3)) for _ in range(2))
      >>> first is second, float(first(2.0, jnp.ones(3)))
      (True, 3.0)
      >>> compiled(lambda x, y: x, 1.0, 2.0) is compiled(lambda x, y: y, 1.0, 2.0)
      False
    """
    # An argument that is not used would be left out of the text, and two programs could differ in which one it is.
    lowered = jax.jit(function, donate_argnums=donate, keep_unused=True).lower(*arguments)
    text, settings = lowered.as_text(), jax.config.values
    if "callback" in text or settings.get("jax_use_simplified_jaxpr_constants"):  # that keeps constants out of the text
        return lowered.compile()
    key = (
        hashlib.sha256(text.encode()).digest(),
        lowered.in_tree,
        lowered.out_tree,
        str(jax.tree.leaves(lowered.args_info)),
        str(jax.tree.leaves(lowered.out_info)),
        str(settings.get("jax_default_device")),
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
