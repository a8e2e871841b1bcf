"""Several processes, on one host or on many, that run one simulation together."""

from __future__ import annotations

import jax
import numpy as np
from jax.experimental import multihost_utils

from tacit.core.errors import ConfigError


def join(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> bool:
    """Join the processes of a run, each of which makes this call before anything else of JAX.

    Args:
      coordinator: Host and port of process 0, e.g. ``"10.0.0.1:9000"``, which must be free there and reachable from
        the others. None: JAX finds out by itself, under SLURM, Open MPI or Kubernetes.
      processes: Number of them, from 1; None: likewise.
      process: Which one this is, from 0; None: likewise.

    Returns:
      Whether this is process 0, the one that writes results.
    """
    given = (coordinator, processes, process)
    if any(one is None for one in given) and not all(one is None for one in given):
        raise ConfigError(
            f"coordinator is {coordinator!r}, processes {processes!r} and process {process!r}; expected all three, "
            "or none of them under SLURM, Open MPI or Kubernetes, where JAX finds them out"
        )
    if processes is not None and process is not None and not 0 <= process < processes:
        raise ConfigError(f"process is {process} of {processes}; expected a number from 0 to {processes - 1}")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # with it SIGTERM would end no process
    try:
        jax.distributed.initialize(coordinator, processes, process)
        of_all(True)  # the first exchange opens the connections, for which there is half a minute
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"the processes did not find each other ({reason}); start all of them with the same coordinator and "
            "number of processes, and each with its own number"
        ) from error
    return is_first()


def is_first() -> bool:
    """Whether this is the process that writes results."""
    return bool(jax.process_index() == 0)


def of_all(flag: bool) -> tuple[bool, ...]:
    """Return what each process says."""
    if jax.process_count() == 1:
        return (flag,)
    return tuple(bool(one) for one in np.asarray(multihost_utils.process_allgather(np.array(flag))).reshape(-1))
