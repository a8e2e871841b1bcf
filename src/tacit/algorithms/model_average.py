"""Averaged models: a method that predicts with an average of its models instead of the last one.

x_k is the model after the k-th round in which its agent took part, and every average is a recursion in place:

    mean          a_k = a_(k-1) + (1 + p) / (k + p) (x_k - a_(k-1)): weights that grow like k^p; p = 0 is the plain mean
    exponential   a_k = sum_j (1 - r)^(k-j) x_j / sum_j (1 - r)^(k-j)
    tail          a_k = mean of x_(s+1), ..., x_k, where the s left out are at most (1 - share) k

The tail needs no number of rounds: beside the mean that is served, a second one grows from a later start. When this one
covers the share by itself, it is served instead, and the next one starts. So s is 0, then the first whole number at
which the rest was the share, and so on: 0, 1, 2, 4, 8, ... for a half. The tail then covers at least `share` of the
rounds so far, and at most share (2 - share) but for the rounding of starts: between a half and three quarters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tacit.core.checks import one_of, proportion
from tacit.core.contract import Algorithm, Array, Inbox, Key, Outbox, Params, Tree, View
from tacit.core.errors import ConfigError
from tacit.core.lifted import Carrying, lift


class Running(NamedTuple):
    """An average of the models of so many rounds."""

    average: Params
    rounds: Array


class Tail(NamedTuple):
    """The mean of the last models, and one that started later and will take its place."""

    average: Params
    rounds: Array
    """So far."""
    start: Array
    """How many of them, the first ones, are left out."""
    later: Params
    later_start: Array


class Average(NamedTuple):
    """One way to average: `first` of a first model, which does not count, and `add` of a further model."""

    first: Callable[[Params], Any]
    add: Callable[[Any, Params], Any]


def mean(power: float = 0.0) -> Average:
    """Mean of all models, the later ones with more weight where `power` is above 0."""
    if not 0 <= power <= 1000:
        raise ConfigError(f"power = {power!r}: expected 0 to 1000; 0 is the plain mean, 1 weighs model k by k")
    return _running(lambda k: (1 + power) / (k + power))


def exponential(rate: float = 0.01) -> Average:
    """Average with weights that fall by the factor 1 - `rate` from each model to the one before."""
    if not 1e-6 <= rate < 1:
        raise ConfigError(
            f"rate = {rate!r}: expected a number from 1e-6 on and below 1; 0.01 is about the last 100 rounds"
        )
    # The recursion whose weights sum to 1 from the first model on.
    return _running(lambda k: rate / -jnp.expm1(k * math.log1p(-rate)))


def tail(share: float = 0.5) -> Average:
    """Mean over the last models, at least this share of them."""
    proportion("share", share, "0.5 is the second half", one=True)

    def first(model: Params) -> Tail:
        nothing = jnp.zeros((), jnp.int32)
        return Tail(model, nothing, nothing, model, nothing)

    def add(kept: Tail, model: Params) -> Tail:
        enough = kept.rounds - kept.later_start >= share * _real(kept.rounds)
        average, start, later_start = jax.tree.map(
            partial(jnp.where, enough),
            (kept.later, kept.later_start, kept.rounds),
            (kept.average, kept.start, kept.later_start),
        )
        k = kept.rounds + 1
        return Tail(
            _moved(average, model, 1 / _real(k - start)),
            k,
            start,
            _moved(kept.later, model, 1 / _real(k - later_start)),
            later_start,
        )

    return Average(first, add)


AVERAGES: Mapping[str, Callable[..., Average]] = MappingProxyType(
    {"mean": mean, "exponential": exponential, "tail": tail}
)
"""Kind -> its constructor."""


def _running(weight: Callable[[Array], Array]) -> Average:
    def add(kept: Running, model: Params) -> Running:
        k = kept.rounds + 1
        return Running(_moved(kept.average, model, weight(_real(k))), k)

    return Average(lambda model: Running(model, jnp.zeros((), jnp.int32)), add)


def _real(number: Array) -> Array:
    return number.astype(jnp.result_type(float))  # a quotient of 32-bit whole numbers has single precision


def _moved(average: Params, model: Params, weight: Array) -> Params:
    return jax.tree.map(lambda a, x: a + weight.astype(a.dtype) * (x - a), average, model)


def averaged_name(name: str, kind: str) -> str:
    """Return what a method is called that predicts with an average of its models."""
    return f"{name}, averaged ({kind})"


def averaged(algorithm: Algorithm, kind: str = "mean", **settings: float) -> Algorithm:
    """Let a method predict with an average of its models; its steps, messages and noise stay as they are.

    With a large step noise moves the last model about, and an average less; with a step that was chosen for the last
    model an average lags behind it. Every agent averages its own models (a server does, where its model speaks for
    clients), one after each round in which it takes part: while it is away or not called, its average stays. Before the
    first round the average is the first model. Loss, accuracy and regret of a run, answers of a peer and saved models
    are then those of the average.

    Privacy: statement, account and ledger stay as they are, since nothing of an average is sent. Where records compose
    in parallel, an agent's models are made of released values and so is their average: it may be published at no
    further cost. Of other methods the model itself may hold data: then its average is as secret as the model.

    Args:
      algorithm: The method, with any objective and mechanism.
      kind: "mean" over all rounds so far, "exponential" (old rounds are forgotten), or "tail" (the last ones alone).
      **settings: Of the kind. For "mean": `power`, 0 to 1000, 0 by default: weights grow like k^power (1: in proportion
        to k). For "exponential": `rate`, from 1e-6 on and below 1, 0.01 by default: each model weighs 1 - rate times
        the next. For "tail": `share` above 0 and at most 1, 0.5 by default: the mean covers at least this share of
        the rounds so far, and at most share (2 - share); it needs no number of rounds.

    Returns:
      An algorithm for `tacit.simulate`, a peer or an audit. Its states hold one more model, with "tail" two.

    Raises:
      ConfigError: There is no such kind, or it does not take such a setting.

    Example:
      >>> import tacit
      >>> method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> smooth = tacit.algorithms.averaged(method, "tail", share=0.25)
      >>> stream = tacit.streams.logistic_drift(agents=8, dim=5)
      >>> tacit.simulate(smooth, tacit.graphs.directed_ring(8), stream, rounds=20).algorithm
      'online_push_sum, averaged (tail)'

    References:
      Polyak and Juditsky (1992), the mean; Rakhlin, Shamir and Sridharan (2012), the tail; Shamir and Zhang (2013),
      weights that grow.
    """
    one_of("kind", kind, AVERAGES)
    try:
        average = AVERAGES[kind](**settings)
    except TypeError as error:
        raise ConfigError(f"{kind} average of {', '.join(settings)}: {error}; see help(averaged)") from error
    role, model = algorithm.predictor, algorithm.model
    lifted = lift(algorithm, role, lambda state, views: average.first(model(state)))
    return lifted._replace(
        name=averaged_name(algorithm.name, kind),
        phases=_noting(lifted, lambda carrying: average.add(carrying.carried, model(carrying.state))),
        model=lambda carrying: carrying.carried.average,
    )


def _noting(lifted: Algorithm, add: Callable[[Carrying], Tree]) -> tuple[Any, ...]:
    """Return the phases, of which the last that a predictor's state goes through changes what it carries."""
    role, phases = lifted.predictor, list(lifted.phases)
    last = max(k for k, phase in enumerate(phases) if role in (phase.source, phase.target))
    phase = phases[last]

    def noted(carrying: Carrying, view: View) -> Carrying:
        kept = partial(jnp.where, view.present)
        return carrying._replace(carried=jax.tree.map(kept, add(carrying), carrying.carried))

    def absorb(key: Key, carrying: Carrying, inbox: Inbox, view: View) -> Carrying:
        return noted(phase.absorb(key, carrying, inbox, view), view)

    def emit(carrying: Carrying, released: Tree, view: View) -> tuple[Carrying, Outbox]:
        carrying, outbox = phase.emit(carrying, released, view)
        return noted(carrying, view), outbox

    phases[last] = phase._replace(absorb=absorb) if phase.target == role else phase._replace(emit=emit)
    return tuple(phases)
