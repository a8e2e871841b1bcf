"""The convolutional network of examples/organs.py in processes of its own, over graphs with one link a round."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tacit.config import own_code
from tacit.deploy.comparison import compare
from tacit.experiments import build, load
from tacit.objectives.registry import OWN_OBJECTIVES
from tests.docs.pages import ROOT

SIDE, CLASSES, ROWS = 8, 3, 120
STREAM = '[stream]\nkind = "csv"\npath = "images.csv"\nlabel = "y"\nbatch = 4\nexhausted = "cycle"\n'


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """Make images of three brightnesses, and the example's file with them and few rounds."""
    monkeypatch.setattr(own_code, "_LOADED", {})
    for name in ("organ_net", "digit_net"):
        monkeypatch.setitem(OWN_OBJECTIVES, name, None)  # put back as it was
        del OWN_OBJECTIVES[name]
    code = tmp_path / "organs.py"
    code.write_text((ROOT / "examples" / "organs.py").read_text(encoding="utf-8"))
    own_code.import_file(code)
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, ROWS)
    x = np.clip(rng.normal(size=(ROWS, SIDE * SIDE)) / 8 + y[:, None] / 2, 0, 1).round(3)
    names = [f"p{k}" for k in range(SIDE * SIDE)]
    lines = [",".join([*map(str, row), str(label)]) for row, label in zip(x, y, strict=True)]
    (tmp_path / "images.csv").write_text("\n".join([",".join([*names, "y"]), *lines]) + "\n")

    def made(name, rounds):
        text = (ROOT / "examples" / name).read_text(encoding="utf-8")
        before, _, rest = text.partition("[stream]\n")
        _, _, settings = rest.partition('kind = "organamnist"\n')
        settings = settings.partition('exhausted = "cycle"')[2].partition("\n")[2]
        text = before + STREAM + settings
        channels = "" if "channels" in text else "channels = 2\n"
        kind = 'kind = "organ_net"\n'
        text = text.replace(kind, f"{kind}side = {SIDE}\nclasses = {CLASSES}\n{channels}")
        (tmp_path / name).write_text(text)
        return build(load(tmp_path / name, rounds=rounds, references=False))

    yield made
    sys.modules.pop("with_organs", None)


@pytest.mark.covered_by("objectives/test_own_models.py and the contract tests of each method")
def test_all_methods_train_the_network_of_the_example(experiment):
    runs = list(experiment("organs.toml", 3).runs(progress=False))
    assert len(runs) == 11
    assert all(np.isfinite(run.per_round["loss"]).all() for run in runs)
    sent = {run.label: int(run.per_round["bits"].sum()) for run in runs}
    assert sent["Alone"] == 0
    assert sent["CHOCO-SGD, a tenth sent"] * 4 < sent["Decentralised SGD"]


@pytest.mark.slow
def test_four_processes_train_it_as_the_simulator_does(experiment, tmp_path):
    problem = experiment("organs-swarm.toml", 6)
    for index in range(2):
        outcome = compare(problem, index, tmp_path / f"members-{index}", limit=3600.0)
        assert outcome.processes == 4
        assert outcome.within(1e-6)


def test_the_example_of_two_digits_each_can_be_read(experiment):
    experiment("organs.toml", 1)
    config = load(ROOT / "examples" / "two-digits.toml")
    assert config.run.repeats == 5
    assert "FedAvg" in config.labels
    assert config.partition is not None
    assert config.partition.kind == "few_classes"
