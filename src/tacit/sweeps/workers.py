"""Independent tasks, done by processes of this machine or by Ray.

A worker that is killed takes its task along, and nothing else: the task is given to another one.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NamedTuple, TypeVar

from tacit.core.errors import ConfigError
from tacit.core.extras import require
from tacit.results.record import usable_cores

Task = TypeVar("Task")
Result = TypeVar("Result")
MOST_WORKERS = 8
ATTEMPTS = 3
"""Workers that a task may bring down before it is given up."""
CLIENT_PORT = 10001
"""Of a Ray cluster that says no other."""
TICK = 0.5
"""Seconds after which whoever waits is told that some time went by."""


class Lost(NamedTuple):
    """A task that has no result."""

    reason: str


class Ended(NamedTuple, Generic[Result]):
    """A task that ended."""

    task: int
    """Its place among all."""
    result: Result | Lost


def worker_count(asked: int | None) -> int:
    """Return how many workers there are: as many as asked for, or one per usable core, at most eight."""
    return min(len(usable_cores()), MOST_WORKERS) if asked is None else asked


def check_place(on: str) -> None:
    """Refuse a name of workers that there are not.

    Args:
      on: "pool", "ray", or "ray://HOST" with a port if need be.
    """
    if on != "pool" and not re.fullmatch(r"ray(://[^/\s]+)?", on):
        raise ConfigError(f"--on {on}: expected pool, ray, or ray://HOST")
    if on != "pool":
        require("ray", "ray", f"--on {on}")


def in_parallel(
    do: Callable[[Task], Result],
    tasks: Sequence[Task],
    on: str = "pool",
    workers: int | None = None,
    *,
    fresh: bool = False,
    tick: Callable[[], object] = lambda: None,
) -> Iterator[Ended[Result]]:
    """Do a function of each task, and yield the results as they come.

    Args:
      do: A function of a module, which every worker imports.
      tasks: What it is called with.
      on: "pool" for processes of this machine (for one worker or task: this process itself), "ray" for a Ray of this
        machine that is started and ended here, "ray://HOST" for one that runs.
      workers: How many; None: one per usable core, at most eight. A Ray that runs has its own.
      fresh: Whether every task gets a process of its own.
      tick: Called every now and then while there is nothing to yield.

    Returns:
      An iterator over what ended, in that order. A result is `Lost` where the function raised, or where the task
      brought down three workers.

    Example:
      >>> [ended.result for ended in in_parallel(abs, [-1, -2], workers=1)]
      [1, 2]
    """
    check_place(on)
    if on != "pool":
        return _on_ray(do, tasks, on, worker_count(workers), fresh, tick)
    if min(worker_count(workers), len(tasks)) <= 1 and not fresh:
        return (Ended(k, _guarded(do, task)) for k, task in enumerate(tasks))
    return _in_processes(do, tasks, worker_count(workers), fresh, tick)


def one_thread() -> None:
    """Make a worker use one thread of the CPU: there is a worker per core, and its programs are small."""
    import jax

    os.environ["PJRT_NPROC"] = "1"
    jax.config.update("jax_platforms", "cpu")


def _guarded(do: Callable[[Task], Result], task: Task) -> Result | Lost:
    try:
        return do(task)
    except Exception as error:
        return Lost(f"{type(error).__name__}: {error}")


def _serve(door: Connection) -> None:
    """Do tasks until there are none; the parent ends this process, so that Ctrl-C is for the parent alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    one_thread()
    while True:
        try:
            do, task = door.recv()
            door.send(_guarded(do, task))
        except (EOFError, BrokenPipeError):  # nobody waits for it any more
            return


class _Worker(NamedTuple):
    process: BaseProcess
    door: Connection

    @classmethod
    def started(cls) -> _Worker:
        # Spawned, not forked: a forked child of a process whose JAX runs threads may hang.
        context = multiprocessing.get_context("spawn")
        door, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,))
        process.start()
        theirs.close()
        return cls(process, door)

    def end(self) -> None:
        self.door.close()
        self.process.kill()
        self.process.join()


def _in_processes(
    do: Callable[[Task], Result], tasks: Sequence[Task], count: int, fresh: bool, tick: Callable[[], object]
) -> Iterator[Ended[Result]]:
    waiting, died = list(range(len(tasks))), [0] * len(tasks)
    idle: list[_Worker] = []
    busy: dict[Connection, tuple[_Worker, int]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < count:
                worker = idle.pop() if idle else _Worker.started()
                task = waiting.pop(0)
                busy[worker.door] = worker, task
                _hand_over(worker, do, tasks[task])
            ready = wait(list(busy), timeout=TICK)
            tick()
            for door in [door for door in busy if door in ready]:
                worker, task = busy.pop(door)
                try:
                    result = worker.door.recv()
                except (EOFError, OSError):
                    worker.end()
                    died[task] += 1
                    if died[task] < ATTEMPTS:
                        waiting.insert(0, task)
                        continue
                    code = worker.process.exitcode
                    result = Lost(f"its worker died {ATTEMPTS} times (exit code {code}); memory may have run out")
                else:
                    if fresh:
                        worker.end()
                    else:
                        idle.append(worker)
                yield Ended(task, result)
    finally:
        for worker in (*idle, *(worker for worker, _ in busy.values())):
            worker.end()


def _hand_over(worker: _Worker, do: Callable[[Any], Any], task: Any) -> None:
    try:
        worker.door.send((do, task))
    except (BrokenPipeError, ConnectionResetError):
        return  # it is dead, which its door says at once


def _on_ray(
    do: Callable[[Task], Result], tasks: Sequence[Task], on: str, count: int, fresh: bool, tick: Callable[[], object]
) -> Iterator[Ended[Result]]:
    ray: Any = require("ray", "ray", f"--on {on}")
    ours = not ray.is_initialized()
    if ours:
        _start_ray(ray, on, count)
    remote = ray.remote(max_retries=ATTEMPTS - 1, max_calls=int(fresh), num_cpus=1)(_on_one_thread)
    under_way: dict[Any, int] = {}
    try:
        under_way.update({remote.remote(do, task): k for k, task in enumerate(tasks)})
        while under_way:
            ready, _ = ray.wait(list(under_way), timeout=TICK)
            tick()
            for found in ready:
                try:
                    result = ray.get(found)
                except ray.exceptions.RayError as error:
                    result = Lost(f"its worker died {ATTEMPTS} times ({type(error).__name__})")
                yield Ended(under_way.pop(found), result)
    finally:
        for left in under_way:
            ray.cancel(left, force=True)
        if ours:
            ray.shutdown()


def _start_ray(ray: Any, on: str, count: int) -> None:
    """Start a Ray of this machine, or go to one that runs."""
    if on != "ray":
        try:
            ray.init(on if re.search(r":\d+$", on) else f"{on}:{CLIENT_PORT}", log_to_driver=False)
        except (ConnectionError, RuntimeError) as error:
            raise ConfigError(
                f"--on {on}: no Ray answers there ({error}); start one by `ray start --head`, and set RAY_AUTH_TOKEN "
                "where it asks for one"
            ) from error
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns of a fork; here a program of its own follows it
        ray.init(address="local", num_cpus=count, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def _on_one_thread(do: Callable[[Task], Result], task: Task) -> Result | Lost:
    one_thread()
    return _guarded(do, task)
