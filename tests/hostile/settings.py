"""Every key of every table of a configuration with values that nobody meant: `python -m tests.hostile.settings`.

A case is a file that is right but for one key, or one table, which has a value of another kind or beyond all bounds. It
is read and built, and with --run also run for two rounds where that succeeds. What may happen is an error of ours or
nothing; any other exception is a fault, and so is more memory than the limit. Prints the faults; exit code 1 if there
are any.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import math
import random
import resource
import sqlite3
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from tacit.algorithms import REGISTRY
from tacit.algorithms.model_average import AVERAGES
from tacit.attacks import ATTACKS
from tacit.config import choices
from tacit.config import experiment as config
from tacit.config import experiment_sections as sections
from tacit.config import job as jobs
from tacit.config import peer as peers
from tacit.config import stream as streams
from tacit.config.schedule import AgentShift, MemberShift
from tacit.core.errors import TacitError, TacitWarning
from tacit.core.robust_rules import RULES
from tacit.experiments import build, parse
from tests.deploy.homes import LAPLACE, job_text, peer_text

VALUES: tuple[Any, ...] = (
    [], {}, [1], [[]], [{}], {"kind": []}, True, "", "word", "\0", -1, 0, 1, 0.5, 10**9, 10**18, 10**30, -(10**30),
    1e300, 5e-324, math.nan, math.inf, -math.inf, datetime.date(2026, 11, 16), ["a", "a"], [math.nan],
)  # fmt: skip
EXAMPLES: Mapping[str, Any] = {
    "agents": 5, "out_degree": 2, "p": 0.5, "radius": 0.6, "k": 2, "rewire": 0.1, "W": [[0.5, 0.5], [0.5, 0.5]],
    "probability": 0.5, "table": [[True] * 5], "dim": 3, "label": "y", "shards_per_agent": 1, "alpha": 1.0,
    "classes_per_agent": 1,
    "fraction": 0.5, "smallest": 1, "largest": 2, "classes": 2, "epsilon": 1.0, "clip": 1.0, "noise_multiplier": 1.0,
    "decay": 0.5, "rounds": 2, "delta": 1e-5, "noise_std": 1.0, "limit": 1.0, "cohort": 2, "clusters": 1,
    "constraints": {"kind": "size_limit", "limit": 1.0}, "hops": [1, 4],
}  # fmt: skip
"""Values of keys that have to be there."""
BASE: Mapping[str, Any] = {
    "run": {"name": "hostile", "rounds": 2, "regret_points": 0},
    "graph": {"kind": "ring", "agents": 5},
    "stream": {"kind": "logistic_drift", "dim": 3},
    "objective": {"kind": "logistic"},
    "algorithm": [{"name": "online_push_sum"}],
}
Path_ = tuple[str | int, ...]


class Case(NamedTuple):
    """A file with one value that is wrong, or at least odd."""

    document: Mapping[str, Any]
    at: Path_
    """Keys that lead to the value."""
    value: Any
    try_out: Callable[[str, Path], Any]

    def text(self) -> str:
        changed: Any = copy.deepcopy(dict(self.document))
        table = changed
        for key in self.at[:-1]:
            if isinstance(key, str):
                table.setdefault(key, {})
            table = table[key]
        table[self.at[-1]] = self.value
        return tomli_w.dumps(changed)

    def __str__(self) -> str:
        kind = self.document.get("graph", {}).get("kind", "")
        return f"{'.'.join(map(str, self.at))} = {self.value!r} ({kind}, {self.document.get('algorithm')})"

    def fault(self, folder: Path) -> str | None:
        """Return what went wrong but should not have."""
        try:
            self.try_out(self.text(), folder)
        except (TacitError, TacitWarning):
            return None
        except Exception as error:
            return f"{self}: {type(error).__name__}: {str(error)[:150]}"
        return None


def experiment(text: str, folder: Path) -> Any:
    return build(parse(text, folder / "hostile.toml"))


def experiment_run(text: str, folder: Path) -> None:
    for _ in experiment(text, folder).runs(progress=False):
        pass


def job(text: str, folder: Path) -> None:
    (folder / "job.toml").write_text(text)
    jobs.load_job(folder / "job.toml")


def peer(text: str, folder: Path) -> None:
    (folder / "job.toml").write_text(job_text(mechanism=LAPLACE))
    (folder / "home").mkdir(exist_ok=True)
    (folder / "home" / "peer.toml").write_text(text)
    peers.load_peer(folder / "home" / "peer.toml")


def required(function: Callable[..., Any], hidden: frozenset[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the keys that a table of this function needs, and all that it takes."""
    known = choices.parameters(function, hidden)
    return {key: EXAMPLES[key] for key, p in known.items() if p.default is p.empty and key in EXAMPLES}, list(known)


def documents() -> Iterator[tuple[dict[str, Any], Path_, list[str]]]:
    """Yield experiments, each with the place of a table in it and the keys that this takes."""

    def made(**changed: Any) -> dict[str, Any]:
        return {**copy.deepcopy(dict(BASE)), **changed}

    yield made(), (), list(config.SECTIONS)
    yield made(), ("run",), list(sections.RunSettings.model_fields)
    yield made(), ("run", "channel"), list(sections.ChannelSettings.model_fields)
    yield made(), ("run", "channel", "delay"), list(sections.DelaySettings.model_fields)
    for kind, function in config.GRAPHS.items():
        given, keys = required(function, frozenset({"seed", "name"}))
        graph = {"kind": kind, **given, **({"path": "edges.txt"} if kind == "edge_list" else {})}
        yield made(graph=graph), ("graph",), ["kind", *keys, *sections.SeededGraph.model_fields]
    for kind, function in config.DYNAMICS.items():
        given, keys = required(function, frozenset())
        given |= {"rounds": [[[k, (k + way) % 5] for k in range(5)] for way in (1, -1)]} if kind == "timetable" else {}
        graph = {"kind": "ring", "agents": 5, "dynamics": {"kind": kind, **given}}
        yield made(graph=graph), ("graph", "dynamics"), ["kind", *keys]
    graph = {"kind": "ring", "agents": 5, "availability": [{"agents": [1], "period": 3, "rounds": 2}]}
    yield made(graph=graph), ("graph", "availability", 0), list(AgentShift.model_fields)
    for kind, function in config.SYNTHETIC.items():
        given, keys = required(function, config.OF_THE_RUN)
        yield made(stream={"kind": kind, **given}), ("stream",), ["kind", "seed", *keys]
    table = {"kind": "csv", "path": "rows.csv", "label": "y", "shuffle": False}
    _, keys = required(config.FILES["csv"], config.OF_THE_RUN)
    yield made(stream=table), ("stream",), ["kind", *keys, *sections.FileSettings.model_fields]
    owned = {**table, "owner": "who"}
    yield made(stream=owned), ("stream",), ["owner", "bounds", "categories", "classes", "missing", "time_features"]
    query = {"kind": "sql", "url": "sqlite:///rows.db", "query": "SELECT * FROM rows", "label": "y", "shuffle": False}
    yield made(stream=query), ("stream",), ["url", "query", "path", "owner"]
    yield made(stream=table, objective={"kind": "softmax"}), ("stream",), ["kind", "label", "classes", "path"]
    for kind, function in config.PARTITIONS.items():
        given, keys = required(function, config.OF_THE_DATA)
        yield made(stream={**table, "partition": {"kind": kind, **given}}), ("stream", "partition"), ["kind", *keys]
    for kind, function in config.OBJECTIVES.items():
        given, keys = required(function, frozenset())
        yield made(objective={"kind": kind, **given}), ("objective",), ["kind", *keys]
    yield made(privacy={"epsilon": 1.0}), ("privacy",), list(sections.PrivacySettings.model_fields)
    evaluated = made(stream={**table, "exhausted": "cycle"}, evaluate={"share": 0.2})
    yield evaluated, ("evaluate",), list(sections.EvaluateSettings.model_fields)
    lying = made(liars={"count": 1, "attack": "sign_flip"})
    yield lying, ("liars",), list(sections.LiarSettings.model_fields)
    for kind, function in ATTACKS.items():
        _, keys = required(function, frozenset())
        yield made(liars={"count": 1, "attack": {"kind": kind}}), ("liars", "attack"), ["kind", *keys]
    yield from methods(lambda method: made(algorithm=[method]), ("algorithm", 0))


def methods(made: Callable[[dict[str, Any]], dict[str, Any]], at: Path_) -> Iterator[tuple[Any, Path_, list[str]]]:
    """Yield files with every method, every mechanism, geometry and constraint."""
    for name, entry in REGISTRY.items():
        given, keys = required(entry.constructor, frozenset())
        yield made({"name": name, **given}), at, ["name", "label", "average", "robust", *keys]
    yield made({"name": "online_push_sum"}), (*at, "step"), ["schedule", "scale"]
    for inner, method, kinds in (
        ("mechanism", "online_push_sum", choices.MECHANISMS),
        ("average", "online_push_sum", AVERAGES),
        ("mirror", "mirror_descent", choices.MIRROR_MAPS),
        ("constraints", "constrained_mirror_descent", choices.CONSTRAINTS),
    ):
        for kind, function in kinds.items():
            given, keys = required(function, frozenset())
            yield made({"name": method, inner: {"kind": kind, **given}}), (*at, inner), ["kind", *keys]
    for rule, function in RULES.items():
        _, keys = required(function, frozenset())
        wary = {"name": "local_online", "robust": {"rule": rule}}
        yield made(wary), (*at, "robust"), ["rule", "quarantine", "release", *keys]


def job_documents() -> Iterator[tuple[dict[str, Any], Path_, list[str]]]:
    """Yield jobs, likewise."""
    whole = tomllib.loads(job_text())
    yield whole, (), [*jobs.TABLES]
    yield whole, ("job",), list(jobs.JobSettings.model_fields)
    yield whole, ("members",), ["peer", "server"]
    yield whole, ("clusters",), ["hospital-a"]
    yield whole, ("objective",), ["kind", "l1", "l2"]
    link = ["hospital-a", "hospital-b"]
    for dynamics in (
        {"kind": "link_drop", "probability": 0.5, "symmetric": True},
        {"kind": "rotation", "hops": [1, 2], "symmetric": True},
        {"kind": "timetable", "rounds": [[link], [link[::-1]]], "symmetric": False},
    ):
        yield {**whole, "dynamics": dynamics}, ("dynamics",), list(dynamics)
    shift = {"members": ["hospital-a"], "period": 3, "rounds": 2}
    yield {**whole, "availability": [shift]}, ("availability", 0), list(MemberShift.model_fields)
    yield from methods(lambda method: {**whole, "algorithm": method}, ("algorithm",))


STREAMS: list[dict[str, Any]] = [
    {"kind": "push"},
    {"kind": "csv", "path": "rows.csv"},
    {"kind": "kafka", "brokers": ["localhost:9092"], "topic": "visits"},
    {"kind": "mqtt", "broker": "localhost:1883", "topic": "ward/+/visits"},
    {"kind": "sql", "url_file": "url", "table": "visits", "order": "id"},
]


def peer_documents() -> Iterator[tuple[dict[str, Any], Path_, list[str]]]:
    """Yield peers' files, likewise."""
    ports = {"hospital-a": 7501, "hospital-b": 7502, "hospital-c": 7503}
    whole = tomllib.loads(peer_text("hospital-a", ["hospital-b"], ["hospital-c"], ports, privacy="epsilon = 4.0"))
    yield whole, (), [*peers.TABLES]
    yield whole, ("links",), ["peers", "others"]
    yield whole, ("links", "peers"), list(peers.LinksTable.model_fields)
    for key in ("weight_to", "weight_from", "co_senders"):
        yield whole, ("links", "peers", key), ["hospital-b", "hospital-c"]
    yield whole, ("addresses",), ["hospital-b", "hospital-c"]
    for name, model in (
        ("peer", peers.PeerTable),
        ("identity", peers.IdentityTable),
        ("privacy", peers.PrivacyTable),
        ("rounds", peers.RoundsTable),
        ("operations", peers.OperationsTable),
    ):
        yield whole, (name,), list(model.model_fields)
    for stream in STREAMS:
        keys = {key for kind in streams.KINDS for key in streams.table_of(kind).model_fields}
        yield {**whole, "stream": stream}, ("stream",), sorted(keys)


def all_cases(run: bool = False) -> list[Case]:
    """Return every case, in a fixed order."""
    found = []
    for try_out, source in (
        (experiment_run if run else experiment, documents()),
        (job, job_documents()),
        (peer, peer_documents()),
    ):
        for document, at, keys in source:
            found += [Case(document, (*at, key), value, try_out) for key in keys for value in VALUES]
    return found


def sample(count: int, seed: int, run: bool = False) -> list[Case]:
    """Return some of the cases."""
    every = all_cases(run)
    return random.Random(seed).sample(every, min(count, len(every)))


def prepare(folder: Path) -> Path:
    """Put down the files that experiments name."""
    (folder / "edges.txt").write_text("0 1\n1 2\n2 0\n")
    base = sqlite3.connect(folder / "rows.db")
    base.execute("CREATE TABLE rows AS SELECT 1.5 AS x, 0 AS y, 1 AS who UNION SELECT 2.5, 1, 2")
    base.commit()
    base.close()
    (folder / "rows.csv").write_text("x,z,y,who\n" + "".join(f"{k}.5,{-k},{k % 2},{k % 5}\n" for k in range(40)))
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, help="so many of them, drawn at random; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", action="store_true", help="also run what could be built, for two rounds (hours)")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (24 * 2**30, 24 * 2**30))
    cases = all_cases(given.run) if given.cases is None else sample(given.cases, given.seed, given.run)
    with tempfile.TemporaryDirectory(prefix="tacit-hostile-") as directory:
        folder = prepare(Path(directory))
        faults = [fault for case in cases if (fault := case.fault(folder)) is not None]
    print(*faults, f"{len(cases):,} cases, {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
