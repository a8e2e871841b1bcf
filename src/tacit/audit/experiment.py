"""`audit`: run the attacked runs, read the evidence, compare with the accounts of the same runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import runtime
from tacit.audit import attack
from tacit.audit.bounds import Curve, strongest
from tacit.audit.problem import linear, neighbouring
from tacit.audit.report import Audit
from tacit.audit.watch import Evidence, audited
from tacit.contract import Algorithm, Batch, Mechanism, PrivacyStatement
from tacit.errors import ConfigError, ContractError
from tacit.graphs import Channel, Graph, Topology, complete, federation, star_roles
from tacit.privacy.accounting import Guarantee
from tacit.privacy.charges import charges_all
from tacit.privacy.spending import DELTA, Reading, spent_in_run
from tacit.simulate import simulate
from tacit.simulate.engine import Engine
from tacit.simulate.layout import lay_out

CONFIDENCE = 0.999
TRIALS = 40_000
ROUNDS = 4
PRECISION = "float64"
"""So that the noise that must have been drawn is known to all its digits."""
_FEWEST_TRIALS = 100


def audit(
    constructor: Callable[..., Algorithm],
    mechanism: Mechanism,
    *,
    trials: int = TRIALS,
    rounds: int = ROUNDS,
    coordinates: int = 1,
    records: int = 3,
    graph: Graph | Topology | None = None,
    one_link: bool = False,
    delta: float = DELTA,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Audit:
    """Attack a method's claim: `constructor(objective, mechanism=mechanism)`, run `trials` times under watch.

    Agent 0 is the victim; `records` are read per round and agent, and one of the first, the middle or the last round
    differs between the two data sets. `graph` is, unless given, one of three agents who all hear each other, or three
    clients of one server. With `one_link` the attacker sees what the victim sends to one neighbour, not to all; the
    claim stays that of the whole. `delta` is where claims made by Gaussian noise are compared.
    """
    begun = time.perf_counter()
    _check(mechanism, trials, rounds, coordinates, records, confidence)
    algorithm = runtime.self_contained(constructor(linear(), mechanism=mechanism))
    given = _smallest_network(algorithm) if graph is None else graph
    topology = runtime.prepared_topology(algorithm, given)
    stream = neighbouring(mechanism, coordinates, records, rounds, topology.roles[algorithm.learner])
    batch = _one_batch(stream.batch_spec().given)
    positions = sorted({1, (rounds + 1) // 2, rounds})
    everywhere = mechanism.adjacency == "dataset"
    watched = audited(algorithm, batch, rounds, positions, everywhere, one_link)
    run = simulate(
        watched,
        given,
        stream,
        rounds=rounds,
        repeats=trials,
        seed=seed,
        dtype=PRECISION,
        record_every=rounds,
        progress=False,
    )
    evidence: Evidence = run.models
    claim = _claim(algorithm, topology, batch, evidence, delta)
    finding = strongest(
        _scores(algorithm, evidence),
        _groups(evidence, positions, everywhere, len(stream.chunk(0, 1).given.x[0, 0])),
        np.asarray(evidence.trial.other[:, 0]),
        np.arange(trials) % 2 == 0,
        delta=claim.delta if claim is not None and claim.private else 0.0,
        alpha=1 - confidence,
        curves=_curves(algorithm),
    )
    name, seconds = algorithm.name, time.perf_counter() - begun
    found = Audit(name, mechanism.name, claim, finding, confidence, trials, rounds, coordinates, seed, seconds)
    return replace(found, sees="what the victim sends to one neighbour") if one_link else found


def _smallest_network(algorithm: Algorithm) -> Graph | Topology:
    if algorithm.learner == "peer":
        clustered = "cluster" in runtime.link_ends(algorithm)
        return complete(4).with_clusters([0, 0, 1, 1]) if clustered else complete(3)
    between_servers = any(phase.source == phase.target for phase in algorithm.phases)
    return federation(complete(2), 2) if between_servers else star_roles(3)


def _one_batch(pairs: Batch) -> Batch:
    """Shapes of one agent's batch, in the precision of the runs."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], np.dtype(PRECISION)), pairs)


def _curves(algorithm: Algorithm) -> Sequence[Curve]:
    gaussian = any(phase.mechanism.distribution == "gaussian" for phase in algorithm.phases)
    return ("epsilon-delta", "gaussian") if gaussian else ("epsilon-delta",)


def _scores(algorithm: Algorithm, evidence: Evidence) -> dict[str, np.ndarray]:
    victim: Any = jax.tree.map(lambda leaf: leaf[:, 0], evidence)
    truth = np.take_along_axis(victim.leaks, victim.trial.other[:, None].astype(int), axis=1)
    if truth.any():
        raise ContractError(
            f"algorithm {algorithm.name!r}: replayed on the very data that it read, the victim sends something else; "
            "compute, emit and absorb must be functions of their arguments alone"
        )
    entries = evidence.scales.shape[-1]
    distributions = [phase.mechanism.distribution for phase in algorithm.phases] * (entries // len(algorithm.phases))
    neighbours = np.asarray(evidence.residuals[:, 1:, 0] / evidence.scales[:, 1:, :, None]).reshape(len(truth), -1)
    return {
        "likelihood": attack.likelihood(victim.residuals, victim.scales, distributions),
        "repeated noise": attack.repeated_noise(victim.residuals, victim.scales, neighbours),
        "impossible message": attack.impossible_message(victim.leaks),
    }


def _groups(evidence: Evidence, positions: Sequence[int], everywhere: bool, pairs: int) -> dict[str, np.ndarray]:
    """Trials that the attacker may look at by themselves, knowing where and how the data sets differ."""
    position, pair = (np.asarray(lot[:, 0]) for lot in (evidence.trial.position, evidence.trial.pair))
    pair = pair % pairs
    kinds = {"": np.ones_like(pair, bool)} if pairs == 1 else {", spread": pair == 0, ", single": pair == 1}
    rounds = {"every round" if everywhere else "any round": np.ones_like(pair, bool)}
    if not everywhere and len(positions) > 1:
        rounds |= {f"round {t}": position == t for t in positions}
    return {when + kind: a & b for when, a in rounds.items() for kind, b in kinds.items()}


def _claim(
    algorithm: Algorithm, topology: Topology, batch: Batch, evidence: Evidence, delta: float
) -> Guarantee | None:
    """Return what an ordinary run would report, from what the victim's releases declared; each record is read once."""
    ends = runtime.link_ends(algorithm)
    with jax.enable_x64(True):
        # The promise is what is being tried: data that get into the state are for the attack to find.
        unchecked = algorithm._replace(privacy=PrivacyStatement.none())
        engine = Engine(unchecked, lay_out(topology, ends, 1), Channel(), jnp.dtype(PRECISION))
        params = runtime.first_params(algorithm, batch, jnp.dtype(PRECISION), None)
        engine.settle(params, batch)
    phases = len(algorithm.phases)
    ratios = evidence.ratios[:, 0].max(axis=0).reshape(-1, phases)
    releases = [
        spec.release._replace(in_sequence=charges_all(algorithm.privacy, spec.release.mechanism.adjacency))
        for spec in engine.specs
    ]
    return spent_in_run(algorithm.privacy, releases, ratios, [Reading(None)], delta=delta).guarantee


def _check(mechanism: Mechanism, trials: int, rounds: int, coordinates: int, records: int, confidence: float) -> None:
    for name, value, least in (
        ("trials", trials, _FEWEST_TRIALS),
        ("rounds", rounds, 1),
        ("coordinates", coordinates, 1),
        ("records", records, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} = {value!r}: expected a whole number from {least} on")
    if not 0.5 <= confidence < 1:
        raise ConfigError(f"confidence = {confidence!r}: expected a number from 0.5 to below 1")
    if mechanism.spread == "masked":
        raise ConfigError(f"mechanism {mechanism.name!r} adds masks, not noise of its own; use audit_masks")
    if mechanism.finish is not None or mechanism.distribution == "bounded_laplace":
        raise ConfigError(
            f"mechanism {mechanism.name!r} changes the value after its noise, so that the noise cannot be read off "
            "what is released; audit laplace or gaussian"
        )
