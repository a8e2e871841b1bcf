"""Lazy packages: names are found, hidden by no module, and imported only when they are used."""

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.core.errors import ConfigError
from tacit.graphs import ring, to_networkx
from tacit.streams import partition, read_table

PACKAGES = [tacit.graphs, tacit.streams, tacit.objectives, tacit.metrics]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_no_module_takes_its_place(package):
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    typed = re.findall(r" import (\w+) as \1$", Path(package.__file__).read_text(), re.MULTILINE)
    assert dir(package) == sorted(package.__all__) == sorted(typed)
    assert len(modules) <= 15
    assert modules & set(package.__all__) <= {"partition"}  # which is meant as a module
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = package.no_such_name


def test_a_package_by_itself_imports_none_of_its_modules():
    code = (
        "import sys, tacit.graphs, tacit.streams, tacit.objectives, tacit.metrics;"
        "print(sorted(name for name in sys.modules if name.count('.') > 1 and name.startswith('tacit')), 'jax' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "['tacit.core.lazy'] False"


@pytest.mark.parametrize(
    ("library", "extra", "use"),
    [
        ("networkx", "graphs", lambda folder: to_networkx(ring(3))),
        ("pyarrow", "data", lambda folder: read_table(folder / "a.csv", label="y")),
        ("sklearn", "data", lambda folder: partition.stochastic_adversarial(np.eye(8), 2, 0.0)),
    ],
)
def test_a_library_that_is_not_there_is_named_with_its_extra(library, extra, use, monkeypatch, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,1\n")
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigError, match=rf"{library}.*tacit\[{extra}\]"):
        use(tmp_path)


def test_reprs_are_one_line_that_says_what_it_is():
    stream = tacit.streams.logistic_drift(8, 5, rounds=20)
    said = {
        ring(8): "Graph(ring, 8 agents, 16 links)",
        tacit.graphs.star_roles(5): "Topology(5 client, 1 server; links uplink 5, downlink 5)",
        tacit.graphs.star_roles(2).links["uplink"]: "Graph(uplink, 2 senders to 1 receivers, 2 links)",
        tacit.graphs.Channel(0.1): "Channel(loss=0.1, delay=None, links=None)",  # checkpoints compare it
        stream: "Stream(logistic_drift, 8 agents, 5 features, 20 rounds)",
        tacit.objectives.logistic(l2=0.5): "Objective(logistic, l2=0.5)",
        tacit.metrics.Interval(1.0, 0.5, 1.5, 3): "Interval(1, from 0.5 to 1.5, 3 repeats)",
    }
    assert [repr(thing) for thing in said] == list(said.values())
