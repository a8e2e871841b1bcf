"""Attack on one problem of an audit: its runs, the attacker's scores and test, and the claim."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.audit import attack
from tacit.audit.bounds import Bools, Curve, Test, Trials, strongest
from tacit.audit.problem import Method, Problem, bound_of, stream_of
from tacit.audit.problems import smallest_network
from tacit.audit.watch import Evidence, audited, without_promise
from tacit.core.contract import Algorithm, Batch, Mechanism
from tacit.core.errors import ContractError
from tacit.graphs import Channel, Graph, Topology
from tacit.privacy.accounting import Guarantee
from tacit.privacy.charges import charges_all
from tacit.privacy.conversions import gaussian_epsilon
from tacit.privacy.spending import Reading, spent_in_run
from tacit.simulator import simulate
from tacit.simulator.engine import Engine
from tacit.simulator.layout import lay_out

PRECISION = "float64"
"""So that the noise that must have been drawn is known to all its digits."""
_PARTS = 8
"""Of so many trials one is learnt from, three choose the test, and the others count."""


class Setting(NamedTuple):
    """Settings shared by all problems of an audit."""

    mechanism: Mechanism
    graph: Graph | Topology | None
    one_link: bool
    delta: float
    alpha: float
    """With which probability the bound may be wrong."""
    seed: int


class Attacked(NamedTuple):
    """A problem whose runs were attacked; its test is yet to be judged on the trials that count."""

    problem: Problem
    algorithm: str
    claim: Guarantee | None
    """The accounts' guarantee for these runs; None: no promise is made."""
    trials: Trials
    test: Test
    """The test that was chosen."""
    promised: float
    """The bound on epsilon of which it is sure by the trials on which it was chosen, however many tests were tried."""
    reach: float
    """Epsilon that these data sets could show with endless trials, if noise is as declared."""
    refused: str | None
    """Why both runtimes refuse to run the method; None: they do not."""
    seconds: float

    @property
    def delta(self) -> float:
        """At which epsilon is compared."""
        return self.claim.delta if self.claim is not None and self.claim.private else 0.0

    @property
    def share(self) -> float:
        """The share of the claim that is promised; where nothing is claimed, what is promised itself."""
        claimed = self.claim is not None and self.claim.private and self.claim.epsilon > 0
        return self.promised / self.claim.epsilon if claimed and self.claim else self.promised


def made(method: Method, mechanism: Mechanism, problem: Problem) -> Algorithm:
    """Return the method for a problem, with those of the problem's settings that it takes."""
    bound = bound_of(mechanism)
    settings = {k: v for k, v in problem.settings(bound, problem.rounds).items() if k in method.takes}
    return runtime.self_contained(method.make(problem.objective(bound), mechanism=mechanism, **settings))


def attacked(algorithm: Algorithm, problem: Problem, setting: Setting) -> Attacked:
    """Run a problem under watch, and choose the attacker's test."""
    begun = time.perf_counter()
    mechanism = setting.mechanism
    given = problem.graph(algorithm, smallest_network(algorithm)) if setting.graph is None else setting.graph
    topology = runtime.prepared_topology(algorithm, given, problem.channel)
    pairs = problem.pairs(mechanism, problem.coordinates, problem.records)
    everywhere = mechanism.adjacency == "dataset"
    positions = problem.differing_rounds()
    again = problem.turns(mechanism)
    in_rounds = [p + k * again[1] for p in positions for k in range(again[0])]
    in_rounds = list(range(1, problem.rounds + 1)) if everywhere else in_rounds
    stream = stream_of(pairs, in_rounds, problem.rounds, topology.roles[algorithm.learner])
    batch = _one_batch(stream.batch_spec().given)
    refused = _refusal(algorithm, topology, batch)
    watched = audited(algorithm, batch, problem.rounds, positions, everywhere, setting.one_link, again)
    run = simulate(
        watched._replace(horizon=None),  # a few rounds of what may be made for many
        given,
        stream,
        rounds=problem.rounds,
        repeats=problem.trials,
        seed=setting.seed,
        channel=problem.channel,
        dtype=PRECISION,
        record_every=problem.rounds,
        progress=False,
    )
    evidence: Evidence = run.models
    claim = _claim(algorithm, topology, batch, evidence, setting.delta)
    delta = claim.delta if claim is not None and claim.private else 0.0
    trials = _trials(algorithm, evidence, _groups(evidence, positions, everywhere, [pair.name for pair in pairs]))
    test, promised = strongest(trials, delta=delta, alpha=setting.alpha, curves=_curves(algorithm, delta))
    reach = _reach(algorithm, evidence, delta)
    seconds = time.perf_counter() - begun
    return Attacked(problem, algorithm.name, claim, trials, test, promised, reach, refused, seconds)


def _one_batch(pairs: Batch) -> Batch:
    """Shapes of one agent's batch, in the precision of the runs."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], np.dtype(PRECISION)), pairs)


def _curves(algorithm: Algorithm, delta: float) -> Sequence[Curve]:
    if any(phase.mechanism.distribution == "gaussian" for phase in algorithm.phases):
        return ("epsilon-delta", "gaussian")
    return ("epsilon-delta", "odds") if delta == 0 else ("epsilon-delta",)


def _distributions(algorithm: Algorithm, entries: int) -> list[Any]:
    return [phase.mechanism.distribution for phase in algorithm.phases] * (entries // len(algorithm.phases))


def _draws(algorithm: Algorithm, residuals: Any, scales: Any) -> attack.Floats:
    """(..., entries, width) the independent draws that must have been made, in units of the declared scales."""
    unit: attack.Floats = np.array(residuals) / np.asarray(scales)[..., None]
    for index, phase in enumerate(algorithm.phases):
        if phase.mechanism.correlation is not None:
            each = (..., slice(index, None, len(algorithm.phases)), slice(None))
            unit[each] = attack.whitened(unit[each], phase.mechanism.correlation)
    return unit


def _trials(algorithm: Algorithm, evidence: Evidence, groups: dict[str, Bools]) -> Trials:
    victim: Any = jax.tree.map(lambda leaf: leaf[:, 0], evidence)
    other = np.asarray(victim.trial.other)
    truth = np.take_along_axis(victim.leaks, other[:, None].astype(int), axis=1)
    if truth.any():
        raise ContractError(
            f"algorithm {algorithm.name!r}: replayed on the very data that it read, the victim sends something else; "
            "compute, emit and absorb must be functions of their arguments alone"
        )
    part = np.arange(len(other)) % _PARTS
    learnt_on, chosen_on = part == 0, (part > 0) & (part < 4)
    draws = _draws(algorithm, victim.residuals, victim.scales[:, None])
    unit = draws.reshape(*draws.shape[:2], -1)
    known = _draws(algorithm, evidence.residuals[:, 1:, 0], evidence.scales[:, 1:]).reshape(len(other), -1)
    scores = {
        "likelihood": attack.likelihood(draws, _distributions(algorithm, draws.shape[2])),
        "repeated noise": attack.repeated_noise(unit, known),
        "impossible message": attack.impossible_message(victim.leaks),
        "correlated noise": attack.correlated_noise(unit, known, other, learnt_on),
        "familiar noise": attack.familiar_noise(unit, other, learnt_on),
    }
    finite = {name: np.nan_to_num(score) for name, score in scores.items()}
    return Trials(finite, groups, other, chosen_on, ~learnt_on & ~chosen_on)


def _reach(algorithm: Algorithm, evidence: Evidence, delta: float) -> float:
    """Return the largest loss of privacy of any trial: how far apart its releases were under the two hypotheses."""
    draws = _draws(algorithm, evidence.residuals[:, 0], evidence.scales[:, 0, None])
    apart = np.nan_to_num(draws[:, 1] - draws[:, 0])
    kinds = np.array([kind == "gaussian" for kind in _distributions(algorithm, apart.shape[1])], bool)
    pure = np.abs(apart[:, ~kinds]).sum(axis=(1, 2)).max(initial=0.0)
    mu = math.sqrt(np.square(apart[:, kinds]).sum(axis=(1, 2)).max(initial=0.0))
    return float(pure) + (gaussian_epsilon(mu, delta) if mu > 0 and delta > 0 else 0.0)


def _groups(evidence: Evidence, positions: Sequence[int], everywhere: bool, pairs: Sequence[str]) -> dict[str, Bools]:
    """Trials that the attacker may look at by themselves, knowing where and how the data sets differ."""
    position, pair = (np.asarray(lot[:, 0]) for lot in (evidence.trial.position, evidence.trial.pair))
    pair = pair % len(pairs)
    kinds = {"": np.ones_like(pair, bool)}
    if len(pairs) > 1:
        kinds = {f", {name}": pair == k for k, name in enumerate(pairs)}
    rounds = {"every round" if everywhere else "any round": np.ones_like(pair, bool)}
    if not everywhere:
        each = {f"round {t}": position == t for t in positions}
        rounds = each if len(positions) == 1 else rounds | each
    return {when + kind: a & b for when, a in rounds.items() for kind, b in kinds.items()}


def _settled(algorithm: Algorithm, topology: Topology, batch: Batch) -> Engine:
    with jax.enable_x64(True):
        dtype = jnp.dtype(PRECISION)
        layout = lay_out(topology, runtime.link_ends(algorithm), 1)
        params = runtime.first_params(algorithm, batch, dtype, None)
        return Engine(algorithm, layout, Channel(), dtype, params, batch)


def _refusal(algorithm: Algorithm, topology: Topology, batch: Batch) -> str | None:
    """Return why the runtimes would not run it as it is: data in a state that is said to hold none, for instance."""
    try:
        _settled(algorithm, topology, batch)
    except ContractError as error:
        return str(error)
    return None


def _claim(
    algorithm: Algorithm, topology: Topology, batch: Batch, evidence: Evidence, delta: float
) -> Guarantee | None:
    """Return an ordinary run's guarantee, from the declarations of the victim's releases; a record is read once."""
    # The promise is what is being tried: data that get into the state are for the attack to find.
    engine = _settled(algorithm._replace(privacy=without_promise(algorithm.privacy)), topology, batch)
    ratios = evidence.ratios[:, 0].max(axis=0).reshape(-1, len(algorithm.phases))
    releases = [
        spec.release._replace(in_sequence=charges_all(algorithm.privacy, spec.release.mechanism.adjacency))
        for spec in engine.specs
    ]
    return spent_in_run(algorithm.privacy, releases, ratios, [Reading(None)], delta=delta).guarantee


def exact_epsilon(claim: Guarantee) -> float:
    """Return the epsilon of Gaussian noise that costs what is claimed, by the exact curve."""
    return gaussian_epsilon(math.sqrt(2 * claim.rho), claim.delta) if claim.delta > 0 else claim.epsilon
