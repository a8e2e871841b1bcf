"""A function that is run again from its trace, operation by operation, with some of them done another way.

The walk goes into calls (`jax.jit`, `jax.checkpoint`); functions with derivatives of their own (`jax.custom_vjp`,
`jax.custom_jvp`) and loops are one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core as program

Operation = Any
"""An operation of a trace: its primitive, parameters, and variables."""
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "checkpoint": "jaxpr", "remat2": "jaxpr"}
"""Operation that is a call -> the parameter that holds what is called."""


def inside(operation: Operation) -> Any | None:
    """Return the program that an operation calls; None where it is no call.

    Args:
      operation: Of a trace.
    """
    name = _CALLS.get(operation.primitive.name)
    return None if name is None else operation.params[name]


def run(operation: Operation, operands: Sequence[Any]) -> list[Any]:
    """Run an operation as it is.

    Args:
      operation: Of a trace.
      operands: What it takes.

    Returns:
      Its results.
    """
    primitive = operation.primitive
    found = primitive.bind(*operands, **primitive.get_bind_params(operation.params))
    return list(found) if primitive.multiple_results else [found]


def walk(called: Any, operands: Sequence[Any], step: Callable[[Operation, list[Any]], list[Any]]) -> list[Any]:
    """Run a program again, with a function in the place of each operation.

    Args:
      called: A trace of `jax.make_jaxpr`, or a program without constants.
      operands: What it takes, leaf by leaf; of any type that `step` knows.
      step: Operation and operands -> results; `run` does what is written.

    Returns:
      The program's results, leaf by leaf.

    Example:
      >>> import jax.numpy as jnp
      >>> def doubled(operation, operands):
      ...     return [2 * out for out in run(operation, operands)]
      >>> walk(jax.make_jaxpr(jnp.sin)(0.0), [1.0], doubled) == [2 * jnp.sin(1.0)]
      True
    """
    inner = called.jaxpr if isinstance(called, program.ClosedJaxpr) else called
    known: dict[Any, Any] = dict(zip(inner.constvars, getattr(called, "consts", ()), strict=True))
    known.update(zip(inner.invars, operands, strict=True))

    def read(v: Any) -> Any:
        return v.val if isinstance(v, program.Literal) else known[v]

    for operation in inner.eqns:
        taken = [read(v) for v in operation.invars]
        deeper = inside(operation)
        found = step(operation, taken) if deeper is None else walk(deeper, taken, step)
        known.update(zip(operation.outvars, found, strict=True))
    return [read(v) for v in inner.outvars]


def contains(called: Any, primitive: str) -> bool:
    """Whether an operation of that name is anywhere in a program, loops and branches included.

    Args:
      called: A trace of `jax.make_jaxpr`, or a part of one.
      primitive: Name of the operation.
    """
    for operation in getattr(called, "jaxpr", called).eqns:
        if operation.primitive.name == primitive:
            return True
        for value in operation.params.values():
            parts = value if isinstance(value, tuple | list) else (value,)
            for part in parts:
                if isinstance(part, program.ClosedJaxpr | program.Jaxpr) and contains(part, primitive):
                    return True
    return False


def traced(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
    """Return a function's trace for arguments of these shapes, and the structure of what it returns.

    Args:
      function: Of pytrees of arrays.
      arguments: Arrays, or their shapes.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    return closed, jax.tree.structure(shapes)
