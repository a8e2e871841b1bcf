"""What works without extras, what asks for one by name, and what is declared."""

import re
import tomllib
from pathlib import Path

from tests.bare import EXTRAS, LIBRARIES, run_bare

ROOT = Path(__file__).parents[1]
IMPORT_NAMES = {
    "scikit-learn": "sklearn", "tomli-w": "tomli_w", "dp-accounting": "dp_accounting",
    "confluent-kafka": "confluent_kafka", "paho-mqtt": "paho", "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
}  # fmt: skip
A_RUN = """
import tacit
method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
run = tacit.simulate(method, tacit.graphs.directed_ring(4), tacit.streams.logistic_drift(4, 3), rounds=5)
"""
NEEDS = {
    "plot": ("run.plot('here.png')", "plots"),
    "save": ("run.save('here')", "data"),
    "to_pandas": ("run.to_pandas()", "data"),
    "to_parquet": ("run.to_parquet('here.parquet')", "data"),
    "estimator": ("tacit.interop.PeerClassifier", "data"),
    "sql": ("tacit.streams.read_table(tacit.streams.SqlQuery('sqlite://', 'SELECT 1 AS y'), 'y')", "sql"),
    "mlflow": ("tacit.interop.log_to_mlflow(run)", "mlflow"),
}
EXPERIMENT = """
[run]
rounds = 5
[graph]
kind = "ring"
agents = 4
[stream]
kind = "logistic_drift"
dim = 3
[objective]
kind = "logistic"
[[algorithm]]
name = "online_push_sum"
"""


def declared():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements):
    return [re.match(r"[\w-]+", line)[0] for line in requirements]


def test_a_peer_brings_few_libraries_and_the_extras_are_those_of_the_tests():
    project = declared()
    assert len(project["dependencies"]) <= 9
    extras = project["optional-dependencies"]
    for extra, libraries in EXTRAS.items():
        if extra != "mlflow":  # of which there are two distributions
            assert {IMPORT_NAMES.get(name, name) for name in names(extras[extra])} == set(libraries)
    assert not {IMPORT_NAMES.get(name, name) for name in names(project["dependencies"])} & set(LIBRARIES)


def test_a_run_needs_no_extra():
    code = "print(run.algorithm, len(run.metrics()), run.regret(points=2).total.shape)"
    assert run_bare(A_RUN + code).split()[0] == "online_push_sum"


def test_what_needs_an_extra_names_it():
    asked = "\n".join(
        f"try:\n    {code}\nexcept tacit.errors.ConfigError as error:\n    print({name!r}, error)"
        for name, (code, _) in NEEDS.items()
    )
    said = dict(line.split(" ", 1) for line in run_bare(A_RUN + asked).splitlines())
    for name, (_, extra) in NEEDS.items():
        assert f"pip install 'tacit[{extra}]'" in said[name], name


def test_without_plots_a_run_has_its_figures_and_its_report_all_the_same(tmp_path):
    code = f"{A_RUN}run.save(sys.argv[1])\nprint(tacit.results.load(sys.argv[1]).label)"
    assert run_bare(code, tmp_path, without=EXTRAS["plots"]) == "online_push_sum\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "config.toml",
        "model.html",
        "model.safetensors",
        "report.html",
        "summary.json",
        "trace.parquet",
    ]
    assert "<svg class='plot'" in (tmp_path / "report.html").read_text()


def test_the_command_runs_an_experiment_and_says_what_is_missing(tmp_path):
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    code = "sys.stderr = sys.stdout\nfrom tacit.cli import main\nmain(['run', 'small.toml'])"
    said = run_bare(code, cwd=tmp_path)
    assert "online_push_sum" in said
    assert "tacit[data]" in said
    assert not (tmp_path / "runs").exists()


def test_a_directory_that_cannot_be_written_is_refused_before_round_0(tmp_path):
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    code = (
        "sys.stderr = sys.stdout\nfrom tacit.cli import main\n"
        "try:\n    main(['run', 'small.toml', '--out', 'here'])\nexcept SystemExit as end:\n    print('code', end.code)"
    )
    said = run_bare(code, cwd=tmp_path)
    assert "tacit[data]" in said
    assert said.endswith("code 2\n")
    assert "rounds in" not in said


def test_help_loads_no_numerical_library():
    code = (
        "import tacit\nfrom tacit.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('jax', 'numpy', 'ssl', 'tacit.algorithms') if name in sys.modules], dir(tacit))"
    )
    last = run_bare(code, without=[]).splitlines()[-1]
    assert last.startswith("[] ")
    assert "'simulate'" in last
