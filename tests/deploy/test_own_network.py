"""A network that a file registers and an experiment or a job names: parsed, run, agreed on by the job's hash."""

from __future__ import annotations

import sys

import jax
import numpy as np
import pytest

import tacit
from tacit.config import own_code
from tacit.config.job import load_job
from tacit.core.errors import ConfigError
from tacit.deploy.rehearsal import job_hash
from tacit.deploy.swarm import Swarm
from tacit.experiments import build, load
from tacit.objectives.registry import OBJECTIVES, OWN_OBJECTIVES
from tests.bare import run_bare
from tests.deploy.homes import job_text
from tests.docs.pages import ROOT

CODE = (ROOT / "examples" / "own_network.py").read_text(encoding="utf-8")
EXPERIMENT = (ROOT / "examples" / "own-network.toml").read_text(encoding="utf-8")
OBJECTIVE = 'kind = "two_layers"\nfeatures = 3'


@pytest.fixture(autouse=True)
def _as_a_new_process(monkeypatch):
    monkeypatch.setattr(own_code, "_LOADED", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(OWN_OBJECTIVES, "two_layers", None)  # put back as it was
    del OWN_OBJECTIVES["two_layers"]
    yield
    sys.modules.pop("with_own_network", None)


@pytest.fixture
def given(tmp_path):
    """Run the file as `--with` does."""

    def run(code=CODE):
        file = tmp_path / "own_network.py"
        file.write_text(code)
        own_code.import_file(file)

    return run


def small(tmp_path, **changes):
    text = EXPERIMENT.replace("rounds = 300", "rounds = 4").replace("repeats = 2", "repeats = 1")
    for old, new in changes.items():
        text = text.replace(old, new)
    (tmp_path / "small.toml").write_text(text)
    return load(tmp_path / "small.toml", references=False)


def test_an_experiment_runs_with_it(tmp_path, given):
    given()
    assert "two_layers" in list(OBJECTIVES)
    runs = list(build(small(tmp_path)).runs(progress=False))
    assert [run.label for run in runs] == ["Adam", "Adam, noise", "plain steps"]
    assert [run.privacy.summary()["private"] for run in runs] == [False, True, False]
    assert all(np.isfinite(run.per_round["loss"]).all() for run in runs)


def test_members_of_a_job_agree_on_it_by_the_hash(tmp_path, given):
    job = tmp_path / "job.toml"
    job.write_text(job_text("distributed_online", objective=OBJECTIVE, features=3, bias="false", batch=4))
    hashes = []
    for code in (CODE, CODE, CODE + "\n"):
        own_code._LOADED.clear()
        given(code)
        found = load_job(job)
        assert found.form.task == "binary"
        hashes.append((found.hash, job_hash(small(tmp_path), 0)))
    assert hashes[0] == hashes[1]
    assert all(a != b for a, b in zip(hashes[0], hashes[2], strict=True))


def test_without_the_file_or_with_other_columns_a_job_is_refused(tmp_path, given):
    job = tmp_path / "job.toml"
    job.write_text(job_text("distributed_online", objective=OBJECTIVE, features=3, batch=4))  # and a bias: four columns
    with pytest.raises(ConfigError, match="two_layers"):
        load_job(job)
    given()
    with pytest.raises(ConfigError, match="4"):
        load_job(job)


def test_an_objective_says_what_its_labels_are(tmp_path, given):
    job = tmp_path / "job.toml"
    job.write_text(job_text("distributed_online", objective=OBJECTIVE, features=3, bias="false", batch=4))
    given(CODE.replace('"logistic"', "lambda outputs, labels: (outputs[:, 0] - labels) ** 2"))
    with pytest.raises(ConfigError, match="task"):
        load_job(job)
    given(CODE.replace('"logistic"', '"cross_entropy"'))
    with pytest.raises(ConfigError, match="classes"):
        load_job(job)


def test_no_name_of_the_package_is_taken(given):
    with pytest.raises(ConfigError, match="logistic"):
        given(CODE.replace("def two_layers", "def logistic"))


def test_a_job_without_an_optimiser_does_without_optax(tmp_path):
    (tmp_path / "job.toml").write_text(job_text("distributed_online"))
    code = (
        "from pathlib import Path\nfrom tacit.config.job import load_job\nload_job(Path(sys.argv[1]))\n"
        "print([name for name in ('optax', 'flax', 'equinox', 'tacit.algorithms.optimisers') if name in sys.modules])"
    )
    assert run_bare(code, tmp_path / "job.toml").splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_swarm_of_processes_trains_it_as_the_simulator(tmp_path, given):
    given()
    in_double = {"agents = 6": "agents = 4", 'name = "own network"': 'name = "net"\ndtype = "float64"'}
    made = build(small(tmp_path, **in_double))
    with Swarm(made, 0, tmp_path / "swarm", record=True) as swarm:
        swarm.wait(120)
        assert swarm.stop() == dict.fromkeys(swarm.members, 0)
        found = swarm.models()
    run = tacit.simulate(made.algorithms[0], made.graph(0), made.stream(0), rounds=4, seed=0, dtype="float64")
    for name, leaf in jax.tree.map(lambda each: each[0], run.models).items():
        np.testing.assert_allclose(found[name][-1], leaf, rtol=0, atol=1e-9)
