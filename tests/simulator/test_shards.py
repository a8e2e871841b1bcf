"""Simulations over several devices and processes beside one device's."""

from __future__ import annotations

import json
import signal
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.algorithms import METHODS
from tacit.core.errors import ConfigError
from tacit.experiments import build, parse
from tacit.simulator.shards.hosts import join
from tests.contract.cases import CASES
from tests.simulator.several import free_port, started

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
PARTS = 6
"""In which all cases are run, so that no process takes long."""
FIRST_OF_JOBS = 65536 - 2**12
"""Port from which on JAX gives one to each job of a cluster."""


def lines(process: subprocess.Popen[str]) -> list[dict]:
    out = process.communicate()[0]
    assert process.returncode == 0
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def check(found: list[dict], dtype: str) -> None:
    apart = {(one["name"], one["devices"]): one["difference"] for one in found if one["difference"] > TOLERANCE[dtype]}
    print(json.dumps({"dtype": dtype, "furthest apart": max(one["difference"] for one in found)}))
    assert apart == {}
    assert all(one["privacy"] for one in found)


def test_some_methods_are_the_same_on_four_devices() -> None:
    names = "online_push_sum, gaussian on gradient;pao_fed, there by chance"
    found = lines(started("-m", "tests.simulator.sharded", "float64", "4", names, devices=4))
    assert len(found) == 2
    check(found, "float64")


def names_of(part: int) -> list[str]:
    return [case.name for case in CASES[part::PARTS]]


def test_the_cases_are_of_every_method() -> None:
    assert {name.split(",")[0] for part in range(PARTS) for name in names_of(part)} >= set(METHODS)


@cache
def on_several_devices(dtype: str, part: int) -> list[dict]:
    names = ";".join(names_of(part))
    return lines(started("-m", "tests.simulator.sharded", dtype, "2,4,8", names, devices=8))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_method_is_the_same_on_several_devices(dtype: str, part: int) -> None:
    found = on_several_devices(dtype, part)
    assert [one["name"] for one in found if one["devices"] == 8] == names_of(part)
    check(found, dtype)


@pytest.mark.slow
def test_settings_of_a_run_are_the_same_on_three_devices() -> None:
    found = lines(started("-W", "ignore", "-m", "tests.simulator.sharded_settings", devices=3))
    assert len(found) == 10
    check(found, "float64")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_two_processes_compute_what_two_devices_of_one_do_with_every_method(dtype: str, part: int) -> None:
    arguments = ("-m", "tests.simulator.sharded", dtype, "2", ";".join(names_of(part)), f"127.0.0.1:{free_port()}/2/")
    both = [started(*arguments[:-1], f"{arguments[-1]}{k}") for k in (0, 1)]
    found = [lines(process) for process in both]
    assert found[0] == found[1]
    assert [one["name"] for one in found[0]] == names_of(part)
    expected = {one["name"]: one for one in on_several_devices(dtype, part) if one["devices"] == 2}
    apart = {one["name"]: furthest(one, expected[one["name"]]) for one in found[0]}
    print(json.dumps({"dtype": dtype, "two processes, furthest apart": max(apart.values())}))
    assert {name: far for name, far in apart.items() if not far <= TOLERANCE[dtype]} == {}


def furthest(one: dict, other: dict) -> float:
    """Return how far losses and models are apart, relative to 1 + their size; infinite where one has a gap."""
    pairs = [(one["loss"], other["loss"]), *zip(one["models"], other["models"], strict=True)]
    return max(gap_between(np.asarray(a), np.asarray(b)) for a, b in pairs)


def gap_between(a: np.ndarray, b: np.ndarray) -> float:
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    return float(np.nanmax(np.abs(a - b) / (1 + np.abs(b)), initial=0))


FOUND_OUT = """
import json, signal
import jax
from tacit.simulator.shards.hosts import join
print(json.dumps({"first": join(), "process": jax.process_index(), "of": jax.process_count()}), flush=True)
signal.pause()
"""


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["slurm", "ompi"])
def test_processes_of_a_cluster_find_each_other_and_end_when_they_are_told(cluster: str) -> None:
    """As much of a cluster as JAX looks at: variables of the environment."""
    job, both = free_port(FIRST_OF_JOBS) - FIRST_OF_JOBS, []
    for k in (0, 1):
        facts = {
            "slurm": {"JOB_ID": job, "STEP_NODELIST": "127.0.0.1", "NTASKS": 2, "PROCID": k, "LOCALID": k},
            "ompi": {"COMM_WORLD_SIZE": 2, "COMM_WORLD_RANK": k, "COMM_WORLD_LOCAL_RANK": k},
        }[cluster]
        told = {f"{cluster.upper()}_{name}": str(value) for name, value in facts.items()}
        if cluster == "ompi":
            told["OMPI_MCA_orte_hnp_uri"] = f"{job * 2**12}.0;tcp://127.0.0.1:1"
        both.append(started("-c", FOUND_OUT, **told))
    for k, process in enumerate(both):
        found = json.loads(next(line for line in process.stdout or () if line.startswith("{")))
        assert found == {"first": k == 0, "process": k, "of": 2}
    for process in reversed(both):
        process.terminate()
        process.communicate(timeout=600)
    assert [process.returncode for process in both] == [-signal.SIGTERM] * 2


RESUMED = """
import sys, numpy as np, tacit
from tests.contract.cases import CASES, stream
path, = sys.argv[1:]
for name in ("online_push_sum, correlated on update", "loss_tolerant_push_sum, lossy", "dynamic_mirror_descent"):
    case = next(case for case in CASES if case.name == name)
    runs = []
    for k, devices in enumerate((1, 4, 2, 1)):
        settings = dict(rounds=3 * (k + 1), channel=case.channel, dtype="float64", devices=devices, record_every=3)
        file = f"{path}/{name}.npz"
        tacit.simulate(case.make(), case.graph, stream(), checkpoint=file, progress=False, **settings)
    again = tacit.simulate(case.make(), case.graph, stream(), checkpoint=file, progress=False, **settings)
    whole = tacit.simulate(case.make(), case.graph, stream(), progress=False, **settings)
    for figure, values in whole.per_round.items():
        np.testing.assert_allclose(again.per_round[figure], values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(again.models, whole.models, rtol=0, atol=1e-12)
"""


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_devices(tmp_path: Path) -> None:
    assert lines(started("-W", "ignore", "-c", RESUMED, str(tmp_path), devices=4)) == []


IN_TURN = """
import sys, numpy as np, tacit
from tacit.simulator.shards.hosts import join
from tests.contract.cases import CASES, stream
path, rounds, meeting = sys.argv[1:]
if meeting:
    address, number = meeting.split("/")
    join(address, 2, int(number))
for name in ("online_push_sum, correlated on update", "loss_tolerant_push_sum, lossy", "push_diging"):
    case = next(case for case in CASES if case.name == name)
    settings = dict(rounds=int(rounds), channel=case.channel, dtype="float64", record_every=3, progress=False)
    run = tacit.simulate(case.make(), case.graph, stream(), checkpoint=f"{path}/{name}.npz", **settings)
    if int(rounds) == 9:
        whole = tacit.simulate(case.make(), case.graph, stream(), **settings)
        for figure, values in whole.per_round.items():
            np.testing.assert_allclose(run.per_round[figure], values, rtol=0, atol=1e-12)
        np.testing.assert_allclose(run.models, whole.models, rtol=0, atol=1e-12)
"""


@pytest.mark.slow
def test_two_processes_go_on_with_what_one_did_and_the_other_way_round(tmp_path: Path) -> None:
    for rounds, processes in ((3, 2), (6, 1), (9, 2)):
        address = f"127.0.0.1:{free_port()}"
        meeting = [f"{address}/{k}" for k in range(2)] if processes == 2 else [""]
        every = [started("-W", "ignore", "-c", IN_TURN, str(tmp_path), str(rounds), one) for one in meeting]
        assert [lines(process) for process in every] == [[]] * processes


# -- refusals ----------------------------------------------------------------------------------------------------------

GRAPH, STREAM = tacit.graphs.ring(4), tacit.streams.logistic_drift(4, 3, rounds=4)
METHOD = tacit.algorithms.distributed_online(tacit.objectives.logistic())


@pytest.mark.parametrize(
    ("devices", "told"), [(0, "0"), (True, "True"), (1000, "xla_force_host_platform_device_count")]
)
def test_devices_that_are_not_there_are_refused(devices, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        tacit.simulate(METHOD, GRAPH, STREAM, rounds=2, devices=devices)


def test_a_file_says_devices() -> None:
    text = """
    [run]
    rounds = 4
    devices = 1000
    [graph]
    kind = "ring"
    agents = 4
    [stream]
    kind = "logistic_drift"
    dim = 3
    [objective]
    kind = "logistic"
    [[algorithm]]
    name = "distributed_online"
    """
    with pytest.raises(ConfigError, match="1000"):
        list(build(parse(text, Path("devices.toml"))).runs())


REFUSED = """
import tacit
from tacit.core.errors import ConfigError
from tests.simulator.test_shards import GRAPH, METHOD, STREAM
liars = {1: tacit.attacks.sign_flip()}
clients, fed = tacit.graphs.star_roles(4), tacit.algorithms.fedavg(tacit.objectives.logistic(), cohort=2)
for settings in ({"liars": liars}, {"evaluate": "cohort"}):
    problem = (METHOD, GRAPH) if "liars" in settings else (fed, clients)
    try:
        tacit.simulate(*problem, STREAM, rounds=2, devices=2, **settings)
    except ConfigError as error:
        assert "devices" in str(error) and ("liars" in settings or "mask" in str(error)), error
    else:
        raise SystemExit(f"{settings} was taken")
"""


def test_what_several_devices_cannot_do_is_refused() -> None:
    assert lines(started("-c", REFUSED, devices=2)) == []


@pytest.mark.parametrize("given", [("127.0.0.1:1", None, None), ("127.0.0.1:1", 2, 2), (None, 2, 0)])
def test_processes_that_cannot_meet_are_refused(given) -> None:
    with pytest.raises(ConfigError, match="process"):
        join(*given)
