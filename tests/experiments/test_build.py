from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tacit.core.errors import ConfigError, DataError, RequirementError
from tacit.experiments import Problem, build, parse
from tacit.graphs import LinkDrop

FILE = Path("exp.toml")


def problem(text: str, *changes: tuple[str, str], file: Path = FILE) -> Problem:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return build(parse(text, file))


def first_rows(made: Problem, seed: int) -> np.ndarray:
    return made.stream(seed).chunk(0, 4).x


def test_each_repeat_has_its_own_graph_and_data(experiment: str) -> None:
    made = problem(experiment, ("agents = 5", "agents = 30"))
    assert made.graph(0) is made.graph(0)
    assert made.stream(0) is made.stream(0)
    assert made.stream(0).agents == 30
    assert not np.array_equal(made.graph(0).senders, made.graph(1).senders)
    assert not np.array_equal(first_rows(made, 0), first_rows(made, 1))


def test_a_fixed_seed_gives_all_repeats_the_same(experiment: str) -> None:
    made = problem(experiment, ("out_degree = 2", "out_degree = 2\nseed = 4"), ("dim = 3", "dim = 3\nseed = 4"))
    assert np.array_equal(made.graph(0).senders, made.graph(1).senders)
    np.testing.assert_array_equal(first_rows(made, 0), first_rows(made, 1))


def test_weights_and_dynamics_are_put_on_the_graph(experiment: str) -> None:
    more = 'out_degree = 2\nweights = "sender"\ndynamics = { kind = "link_drop", probability = 0.25 }'
    graph = problem(experiment, ("out_degree = 2", more)).graph(0)
    assert graph.dynamics == LinkDrop(0.25)
    assert graph.weights is not None
    assert graph.weights.rule == "sender"


def test_a_matrix_and_an_edge_list_are_graphs_too(experiment: str, tmp_path: Path) -> None:
    random = 'kind = "random_digraph"\nagents = 5\nout_degree = 2'
    matrix = 'kind = "matrix"\nW = [[0.5, 0.5], [0.5, 0.5]]'
    assert problem(experiment, (random, matrix)).graph(0).agents == 2
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n2 0\n")
    edges = 'kind = "edge_list"\npath = "edges.txt"'
    assert problem(experiment, (random, edges), file=tmp_path / "exp.toml").graph(0).edges == 3


def test_a_requirement_that_fails_is_refused_before_anything_runs(experiment: str) -> None:
    lossy = ("repeats = 2", "repeats = 2\nchannel = { loss = 0.1 }")
    with pytest.raises(RequirementError, match=r"\[\[algorithm\]\] 1: online_push_sum .*reliable"):
        problem(experiment, lossy)
    tolerant = ('name = "online_push_sum"', 'name = "loss_tolerant_push_sum"')
    assert problem(experiment, lossy, tolerant).channel.loss == 0.1


def test_a_problem_runs_with_its_settings(experiment: str) -> None:
    made = problem(experiment)
    runs = list(made.runs(progress=False))
    assert [run.label for run in runs] == ["online_push_sum", "alone"]
    for k, run in enumerate(runs):
        assert (run.rounds, run.repeats, run.agents) == (12, 2, 5)
        assert run.settings == made.config.settings(only=k)
        assert run.streams[0] is made.stream(0)
        assert run.known_regret is not None
    assert len(runs[0].known_regret.rounds) == 2


ROWS = 40


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, (ROWS, 2))
    lines = [f"{a},{b},{int(a > 3)},{k % 5}" for k, (a, b) in enumerate(x)]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["a,b,label,room", *lines]) + "\n")
    return tmp_path / "exp.toml"


SYNTHETIC = 'kind = "logistic_drift"\ndim = 3'


def test_a_file_is_shared_out_and_standardised(experiment: str, table: Path) -> None:
    csv = 'kind = "csv"\npath = "data.csv"\nlabel = "label"\nfeatures = ["a", "b"]\nexhausted = "stop"'
    stream = problem(experiment, (SYNTHETIC, csv), ("rounds = 12", "rounds = 8"), file=table).stream(0)
    batch = stream.chunk(0, 8)
    x = batch.x.reshape(ROWS, 3)
    np.testing.assert_allclose(x[:, :2].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(x[:, :2].std(axis=0), 1, atol=1e-5)
    np.testing.assert_array_equal(x[:, 2], 1)
    assert set(np.unique(batch.y)) == {-1.0, 1.0}
    words = "columns scaled by mean and deviation of all rows, which no privacy account covers; shared out by iid"
    assert words in stream.description


def test_a_file_with_owners_gives_each_its_rows(experiment: str, table: Path) -> None:
    csv = (
        'kind = "csv"\npath = "data.csv"\nlabel = "label"\nowner = "room"\nstandardise = false\n'
        "bias = false\nshuffle = false\npasses = 2"
    )
    stream = problem(experiment, (SYNTHETIC, csv), file=table).stream(0)
    lines = (table.parent / "data.csv").read_text().splitlines()[1:6]
    first = [float(line.split(",")[0]) for line in lines]
    np.testing.assert_allclose(stream.chunk(0, 1).x[0, :, 0], first, rtol=1e-6)
    with pytest.raises(DataError, match=r"5 owners, .* 4 agents.*\[graph\] agents = 5"):
        problem(experiment, (SYNTHETIC, csv), ("agents = 5", "agents = 4"), file=table).stream(0)
    both = f'{csv}\npartition = {{ kind = "iid" }}'
    with pytest.raises(ConfigError, match="remove one of them"):
        problem(experiment, (SYNTHETIC, both), file=table)


@pytest.mark.parametrize(
    "partition",
    [
        'kind = "iid"',
        'kind = "label_shards", shards_per_agent = 2',
        'kind = "few_classes", classes_per_agent = 1',
        'kind = "dirichlet", alpha = 0.5',
        'kind = "stochastic_adversarial", fraction = 0.5',
    ],
)
def test_every_way_to_share_rows_out(experiment: str, table: Path, partition: str) -> None:
    csv = f'kind = "csv"\npath = "data.csv"\nlabel = "label"\nexhausted = "cycle"\npartition = {{ {partition} }}'
    made = problem(experiment, (SYNTHETIC, csv), file=table)
    assert made.stream(0).data_size.sum() == ROWS
    words = partition.partition('"')[2].partition('"')[0]
    assert f"shared out by {words}" in made.stream(0).description


def test_more_rounds_than_rows_are_refused_with_both_remedies(experiment: str, table: Path) -> None:
    csv = 'kind = "csv"\npath = "data.csv"\nlabel = "label"\nowner = "room"'
    with pytest.raises(DataError, match=r"(?s)rounds = 12.* 8 rows.*rounds = 8.*passes = 2.*cycle"):
        problem(experiment, (SYNTHETIC, csv), file=table)
    twice = problem(experiment, (SYNTHETIC, f"{csv}\npasses = 2"), file=table).stream(0)
    assert (twice.rounds, twice.read_counts(12)[:2]) == (16, (1, 2))
    with pytest.raises(DataError, match="rounds = 16"):
        problem(experiment, (SYNTHETIC, f"{csv}\npasses = 2"), ("rounds = 12", "rounds = 17"), file=table)


def test_faults_in_the_data_name_the_section(experiment: str, table: Path) -> None:
    csv = 'kind = "csv"\npath = "data.csv"\nlabel = "lable"'
    with pytest.raises(DataError, match=r"exp\.toml: \[stream\]: .*lable"):
        problem(experiment, (SYNTHETIC, csv), file=table)
    bad = 'kind = "csv"\npath = "data.csv"\nlabel = "label"\npartition = { kind = "dirichlet", alpha = -1.0 }'
    with pytest.raises(ConfigError, match=r"\[stream\.partition\]: alpha"):
        problem(experiment, (SYNTHETIC, bad), file=table).stream(0)
    with pytest.raises(ConfigError, match=r"ends in \.parquet"):
        problem(experiment, (SYNTHETIC, csv.replace('"csv"', '"parquet"')), file=table)
