"""`simulate`, the door to the simulator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.attacks.kinds import Attack
from tacit.core import limits
from tacit.core.checks import one_of, whole_number
from tacit.core.contract import Algorithm, Params
from tacit.core.errors import ConfigError, TacitWarning
from tacit.graphs import Channel
from tacit.results.best import Best
from tacit.results.live import LiveFolder, Watch
from tacit.results.run import Run
from tacit.runtime.program_cache import keep_programs
from tacit.simulator.round_metrics import Noted
from tacit.simulator.simulation import Evaluate, GraphSource, Options, Recorder, Simulation, StreamSource

NOTED_BYTES = 32
"""Of a round and repeat, for each phase and figure: its value, messages and bits, and the links' share of them."""
REPEAT_BYTES = 4096
"""Of a repeat, however small: its graph and its stream."""
NOTHING: Mapping[str, Any] = {}
HONEST: Mapping[int, Attack] = {}


def simulate(
    algorithm: Algorithm,
    graph: GraphSource,
    stream: StreamSource,
    *,
    rounds: int,
    repeats: int = 1,
    seed: int = 0,
    channel: Channel | None = None,
    dtype: str = "float32",
    start: Params | Callable[[int], Params] | None = None,
    node_loss: int | None = None,
    figures: Noted = NOTHING,
    evaluate: Evaluate = "everyone",
    record: Mapping[str, Recorder] = NOTHING,
    record_every: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    devices: int | None = None,
    liars: Mapping[int, Attack] = HONEST,
    watch: str | os.PathLike[str] | Watch | Sequence[Watch] = (),
) -> Run:
    """Run an algorithm over a graph and a stream, all agents and repeats at once.

    Graph, channel, data and settings are checked first: what cannot be run, or breaks a promise of privacy, is refused
    before round 0. In every round each learner is judged at the model with which it predicts, before it sees the
    round's data; then the phases of the algorithm follow. Ctrl-C ends the run after the current chunk with
    ``partial=True``; what was done so far is valid. Compiled programs are kept in the user's cache folder, where the
    next process finds them; ``JAX_ENABLE_COMPILATION_CACHE=false`` in the environment switches that off.

    Args:
      algorithm: A method, e.g. ``tacit.algorithms.online_push_sum(objective)``.
      graph: Links of the agents: a graph, a topology of several roles, or a function of a seed. Of a function, repeat
        r gets the graph of ``seed + r``.
      stream: Data of each learner, round by round, or a function of a seed likewise.
      rounds: Number of rounds, from 1.
      repeats: Number of independent runs side by side, from 1; they differ in noise, and in graph and data where these
        are functions. A `TacitWarning` says where they differ in nothing.
      seed: Of all randomness: the same seed gives the same run, to the bit.
      channel: Loss and delay of messages; None: all arrive at once.
      dtype: Precision, ``"float32"`` or ``"float64"``.
      start: First parameters, the same for all, or a function from a learner's number to its own; None: those of the
        objective, or of the set that the method keeps to.
      node_loss: Number of one learner whose model is also judged on everyone's batch in every round, for the regret of
        one node.
      figures: Name -> function of one learner's model and batch; their means over the learners are noted in every round
        (``run.per_round``, ``run.to_pandas()``; tables and reports do not show them).
      evaluate: ``"everyone"`` takes means over all learners; ``"cohort"`` over those that a round called, so that a
        round costs what its cohort does and not what all clients would. Such a run has no regret.
      record: Name -> function of the models of one repeat (leading axis over the learners, in the order of the graph;
        a server's model stands for each of its clients), called outside of compiled code on some rounds
        (``run.recorded``). The models are those that would predict the next round's data; the last are ``run.models``.
        A :class:`tacit.results.Best` keeps the best and may end the run.
      record_every: Rounds from one recorded state to the next; None: about 50 in a run.
      checkpoint: File to which the state is saved on the way. A run that finds it goes on from there and ends with the
        same figures as one that was never stopped; it is refused for another run or other data.
      progress: Whether to show a bar; None: on a terminal.
      devices: Number of JAX's devices over which agents are split, with their states, data and links; the figures are
        those of one device but for rounding. None: one, or all where several processes run together. Not with liars.
      liars: Number of a learner -> how it lies, e.g. ``{3: tacit.attacks.sign_flip()}``. All figures, models and
        regrets of the run are then those of the others.
      watch: A directory in which a live file grows while the run goes on, for ``tacit board``; or a function that
        hears of its rounds about twice a second (:class:`tacit.results.live.Part`), or several. Figures stay the same.

    Returns:
      The run: figures per round, models, traffic and what privacy was spent (:class:`tacit.results.Run`).

    Raises:
      ConfigError: A setting cannot be used.
      DataError: The stream does not fit the graph or the number of rounds.
      RequirementError: Graph or channel do not keep what the algorithm requires.
      ContractError: The algorithm breaks its promises.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> graph = tacit.graphs.directed_ring(8)
      >>> def data(seed):
      ...     return tacit.streams.logistic_drift(agents=8, dim=5, seed=seed)
      >>> run = tacit.simulate(method, graph, data, rounds=20, repeats=2)
      >>> run.per_round["loss"].shape
      (2, 20)
    """
    _check_numbers(rounds, repeats, dtype, len(algorithm.phases) + len(figures))
    for name in sorted(record.keys() & {"consensus", *algorithm.diagnostics}):
        raise ConfigError(f"a record named {name!r} is asked for, but every such run has one: give it another name")
    for recorder in record.values():
        if isinstance(recorder, Best):
            recorder.begin(algorithm, repeats, checkpoint is not None)
    keep_programs()
    with jax.enable_x64(dtype == "float64"):
        options = Options(
            rounds=rounds,
            repeats=repeats,
            seed=seed,
            channel=channel or Channel(),
            dtype=jnp.dtype(dtype),
            start=start,
            node_loss=node_loss,
            figures=figures,
            evaluate=evaluate,
            record=record,
            record_every=record_every,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            progress=progress,
            devices=devices,
            liars=liars,
            watch=_watchers(watch),
        )
        run = Simulation(algorithm, graph, stream, options).run()
    _warn_of_equal_repeats(run)
    return run


def _watchers(asked: str | os.PathLike[str] | Watch | Sequence[Watch]) -> tuple[Watch, ...]:
    if isinstance(asked, str | os.PathLike):
        return (LiveFolder(asked)(""),)
    watchers: tuple[Watch, ...] = (asked,) if callable(asked) else tuple(asked)
    for watch in watchers:
        if not callable(watch):
            raise ConfigError(f"watch is {watch!r}; expected a directory, a function of a part of a run, or several")
    return watchers


def _warn_of_equal_repeats(run: Run) -> None:
    """Say where all repeats went the same way: their interval would be one of nothing."""
    values = [run.per_round["loss"], *jax.tree.leaves(run.models)]
    if run.repeats > 1 and all(np.allclose(each, each[:1], rtol=1e-6, atol=0, equal_nan=True) for each in values):
        warnings.warn(
            f"repeats = {run.repeats} are all the same: nothing in this run is random, and one would do. Let the graph "
            "or the data vary with the seed (in Python give functions, graph=lambda seed: ...; in a file a random "
            '[graph], or rows that are shuffled, with seed = "repeat"), lose messages, or add noise',
            TacitWarning,
            stacklevel=3,
        )


def _check_numbers(rounds: int, repeats: int, dtype: str, noted: int) -> None:
    for name, value in (("rounds", rounds), ("repeats", repeats)):
        whole_number(name, value, most=limits.MOST_ROUNDS)
    wanted = repeats * (REPEAT_BYTES + rounds * NOTED_BYTES * (1 + noted))
    limits.refuse_beyond(wanted, f"curves of {rounds:,} rounds x {repeats:,} repeats")
    one_of("dtype", dtype, ("float32", "float64"))
