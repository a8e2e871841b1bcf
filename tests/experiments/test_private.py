"""[privacy] of an experiment: epsilon alone plans the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.core.contract import Objective
from tacit.core.errors import ConfigError, TacitWarning
from tacit.experiments import build, parse
from tacit.experiments.private import participation
from tacit.objectives.registry import OWN_OBJECTIVES
from tacit.privacy.conversions import tight

TEXT = """
[run]
rounds = 12
references = false
regret_points = 0
[graph]
kind = "ring"
agents = 4
[stream]
kind = "logistic_drift"
dim = 3
batch = 5
[objective]
kind = "logistic"
[privacy]
epsilon = 2.0
[[algorithm]]
name = "online_push_sum"
"""


def problem(text: str, file: Path = Path("x.toml")):
    return build(parse(text, file))


def test_epsilon_alone_gives_noise_step_and_average() -> None:
    made = problem(TEXT)
    (algorithm,) = made.algorithms
    mechanism = algorithm.phases[0].mechanism
    assert mechanism.correlation is not None
    assert mechanism.correlation.rounds == 12
    assert "tail" in algorithm.name
    (run,) = made.runs(progress=False)
    assert run.privacy.guarantee is not None
    assert (run.privacy.guarantee.epsilon, run.privacy.guarantee.delta) == (pytest.approx(2.0), 1e-6)
    assert tight(run.privacy.guarantee.rho, 1e-6) == pytest.approx(2.0)
    table = run.settings["algorithm"][0]
    assert table["mechanism"]["kind"] == "correlated"  # spelt out in what is saved
    assert table["step"] > 0


def test_a_network_is_refused_with_a_mechanism_that_fits_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def net(hidden: int = 2) -> Objective:
        first = {"in": np.ones((4, hidden), "float32"), "out": np.ones(hidden, "float32")}
        return tacit.objectives.from_model(lambda params, x: x @ params["in"] @ params["out"], "logistic", first)

    def line() -> Objective:
        return tacit.objectives.from_model(lambda w, x: x @ w, "logistic", np.zeros(4, "float32"))

    monkeypatch.setitem(OWN_OBJECTIVES, "net", net)
    monkeypatch.setitem(OWN_OBJECTIVES, "line", line)
    features = TEXT.replace("dim = 3", "dim = 4")
    with pytest.raises(ConfigError, match=r"here of 4 parameters, and 'net' has 10.*leave \[privacy\] out") as refused:
        problem(features.replace('"logistic"', '"net"'))
    told = str(refused.value)
    mechanism = told[told.index("mechanism = ") :]
    without = features.replace("[privacy]\nepsilon = 2.0\n", "").replace('"logistic"', '"net"')
    made = problem(f"{without}step = 0.1\n{mechanism}\n")  # as the message says it
    (run,) = made.runs(progress=False)
    assert run.privacy.guarantee is not None
    assert run.privacy.guarantee.epsilon == pytest.approx(2.0)
    assert problem(features.replace('"logistic"', '"line"')).algorithms[0].phases[0].mechanism.correlation is not None


def test_what_an_algorithm_says_itself_stays() -> None:
    text = (
        TEXT
        + 'step = 0.125\naverage = "mean"\n[[algorithm]]\nname = "adapt_then_combine"\nprivate = false\nlabel = "open"\n'
    )
    text += '[[algorithm]]\nname = "adapt_then_combine"\n[algorithm.mechanism]\nkind = "laplace"\nepsilon = 1.0\nclip = 1.0\n'
    made = problem(text)
    own, opened, other = made.config.algorithms
    assert own.settings("name")["step"] == 0.125
    assert "mean" in made.algorithms[0].name
    assert opened.settings("name").get("mechanism") is None
    assert "private" not in own.settings("name")  # a report shows settings, and would call any method private
    assert other.settings("name")["mechanism"]["kind"] == "laplace"


def test_rows_of_a_file_get_norm_1_and_batches_of_a_hundredth(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{a:.3f},{b:.3f},{int(a > b)},{k % 2}" for k, (a, b) in enumerate(rng.random((800, 2)))]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y,who", *lines, ""]))
    stream = '[stream]\nkind = "csv"\npath = "rows.csv"\nlabel = "y"\nclasses = ["0", "1"]\nowner = "who"\n'
    stream += "bounds = {a = [0, 1], b = [0, 1]}\npasses = 3\n"
    start, _, rest = TEXT.partition("[stream]")
    text = start.replace("agents = 4", "") + stream + rest[rest.index("[objective]") :]
    made = problem(text.replace("rounds = 12", "rounds = 250"), tmp_path / "x.toml")
    data = made.stream(0)
    assert data.batch_spec().y.shape == (4,)
    np.testing.assert_allclose(np.linalg.norm(data.chunk(0, 3).x, axis=-1), 1, rtol=1e-6)
    mechanism = made.algorithms[0].phases[0].mechanism
    assert mechanism.correlation is not None
    assert (mechanism.correlation.reads, mechanism.correlation.apart) == (3, 100)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("epsilon = 2.0", "epsilon = 0", r"\[privacy\].*epsilon"),
        ("epsilon = 2.0", "", r"\[privacy\].*epsilon"),
        ("epsilon = 2.0", 'epsilon = 2.0\nstrategy = "tree"', "strategy"),
        ("[privacy]", "[privcay]", "privcay"),
    ],
)
def test_faults_are_named(old: str, new: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        problem(TEXT.replace(old, new))


def test_participation_is_what_the_stream_does() -> None:
    rng = np.random.default_rng(0)
    rows = [np.arange(7), np.arange(7, 12)]
    data = tacit.streams.from_arrays(rng.random((12, 2)), np.ones(12), rows, batch=2, exhausted="cycle")
    for rounds in (1, 3, 4, 9, 20):
        reads, apart = 1, rounds
        for agent in range(2):
            at: dict[int, list[int]] = {}
            for t, batch in enumerate(data.records(agent, 0, rounds).tolist()):
                for number in set(batch):
                    at.setdefault(number, []).append(t)
            reads = max(reads, *(len(each) for each in at.values()))
            apart = min([apart, *(int(np.diff(each).min()) for each in at.values() if len(each) > 1)])
        assert participation(data, rounds) == (reads, apart if reads > 1 else 1)


def test_owners_of_very_unequal_sizes_are_told(tmp_path: Path) -> None:
    lines = [f"{k % 7 / 7},{k % 2},{'few' if k < 20 else 'many'}" for k in range(400)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,y,who", *lines, ""]))
    stream = '[stream]\nkind = "csv"\npath = "rows.csv"\nlabel = "y"\nclasses = ["0", "1"]\nowner = "who"\n'
    start, _, rest = TEXT.partition("[stream]")
    text = (
        start.replace("agents = 4", "")
        + stream
        + "bounds = {a = [0, 1]}\nexhausted = 'cycle'\n"
        + rest[rest.index("[objective]") :]
    )
    with pytest.warns(TacitWarning, match="cycle"):
        problem(text.replace("rounds = 12", "rounds = 40"), tmp_path / "x.toml")
    passes = text.replace("exhausted = 'cycle'", "passes = 3").replace("rounds = 12", "rounds = 285")
    assert problem(passes, tmp_path / "x.toml").plan.passes == 3  # and no warning, which would be an error
