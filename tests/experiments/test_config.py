from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.algorithms import REGISTRY
from tacit.config.choices import MECHANISMS, parameters
from tacit.config.experiment import DYNAMICS, GRAPHS, PARTITIONS, SYNTHETIC
from tacit.core.contract import Clip, Extent
from tacit.core.errors import ConfigError, TacitError
from tacit.experiments import build, load, parse
from tacit.privacy import laplace
from tacit.results.store import config_bytes

from .conftest import EXPERIMENT

FILE = Path("folder/exp.toml")


def test_an_experiment_is_read_with_its_defaults(experiment: str) -> None:
    config = parse(experiment, FILE)
    assert config.run.rounds == 12
    assert config.run.dtype == "float32"
    assert config.labels == ("online_push_sum", "alone")
    found = config.settings()
    assert found["graph"] == {
        "kind": "random_digraph",
        "agents": 5,
        "out_degree": 2,
        "exact": False,
        "seed": "repeat",
    }
    assert found["algorithm"][0]["step"] == {"schedule": "inverse_sqrt", "scale": 1.0}


def test_settings_say_exactly_what_ran(experiment: str) -> None:
    config = parse(experiment, FILE)
    text = config_bytes(config.settings()).decode()
    again = parse(text, FILE)
    assert again.settings() == config.settings()
    one = parse(config_bytes(config.settings(only=1)).decode(), FILE)
    assert one.labels == ("alone",)


def test_overrides_replace_keys_of_the_run(experiment: str) -> None:
    config = parse(experiment, FILE, rounds=7, seed=None)
    assert (config.run.rounds, config.run.seed) == (7, 0)
    with pytest.raises(ConfigError, match="rounds = 0"):
        parse(experiment, FILE, rounds=0)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("rounds = 12", "rounds = -1", ["[run] rounds = -1", "greater than or equal to 1"]),
        ("rounds = 12", "rounds = 1.5", ["[run] rounds = 1.5", "whole number"]),
        ("rounds = 12", 'rounds = "12"', ["[run] rounds = '12'", "whole number"]),
        ("rounds = 12", "rounds = true", ["[run] rounds = true", "whole number"]),
        ("rounds = 12", "", ["[run] has no 'rounds'", "add rounds"]),
        (
            "rounds = 12",
            "rounds = 12\nrouns = 3",
            ["[run] rouns = 3", "unknown key", "did you mean 'rounds'?"],
        ),
        ("rounds = 12", 'rounds = 12\ndtype = "float16"', ["dtype = 'float16'", "'float32' or 'float64'"]),
        ("rounds = 12", "rounds = 12\nchannel = { loss = 1.0 }", ["channel.loss = 1.0", "less than 1"]),
        ("rounds = 12", "rounds = 12\nchannel = { los = 0.5 }", ["channel.los = 0.5", "unknown key"]),
        ('kind = "random_digraph"', 'kind = "random_graph"', ["did you mean 'random_digraph'?"]),
        ('kind = "random_digraph"', "kind = 3", ["[graph] kind = 3", "name in quotes", "ring"]),
        ('kind = "random_digraph"', "", ["[graph] has no kind", "ring"]),
        ("out_degree = 2", "out_degre = 2", ["out_degre = 2", "did you mean 'out_degree'?"]),
        ("out_degree = 2", "out_degree = 9", ["[graph]", "random_digraph(5, 9)"]),
        ("out_degree = 2", 'out_degree = 2\nweights = "both"', ["weights = 'both'", "'sender'"]),
        (
            "out_degree = 2",
            'out_degree = 2\ndynamics = { kind = "drop" }',
            ["[graph.dynamics] kind = 'drop'", "did you mean 'link_drop'?"],
        ),
        ("dim = 3", "dim = 0", ["[stream]", "dim"]),
        ("dim = 3", "", ["[stream] has no 'dim'"]),
        ("dim = 3", "dim = 3\nagents = 5", ["[stream] agents = 5", "unknown key"]),
        ('kind = "logistic"\n', 'kind = "logistc"\n', ["[objective]", "did you mean 'logistic'?"]),
        ("l2 = 1e-2", "l2 = -1", ["[objective]", "l2"]),
        ('name = "local_online"', 'name = "local"', ["[[algorithm]] 2 name = 'local'", "did you mean"]),
        ("step = 0.3", "step = -0.3", ["[[algorithm]] 2", "step is -0.3"]),
        ("step = 0.3", 'step = "big"', ["[[algorithm]] 2 step = 'big'", "a number"]),
        ("step = 0.3", "stp = 0.3", ["[[algorithm]] 2 stp = 0.3", "did you mean 'step'?"]),
        ("scale = 1.0", "scale = -1.0", ["[[algorithm]] 1 step.scale = -1.0", "greater than 0"]),
        (
            '"inverse_sqrt"',
            '"sqrt"',
            ["[[algorithm]] 1 step.schedule = 'sqrt'", "'inverse_sqrt' or 'inverse'"],
        ),
        ("step = 0.3", 'average = "meen"', ["[[algorithm]] 2 average = 'meen'", "did you mean 'mean'?"]),
        ("step = 0.3", "average = 0.5", ["[[algorithm]] 2 average = 0.5", "text in quotes", "a table"]),
        ("step = 0.3", "average = { rate = 0.1 }", ["[algorithm.average] of [[algorithm]] 2", "kind"]),
        (
            "step = 0.3",
            'average = { kind = "tail", rate = 0.1 }',
            ["[algorithm.average] of [[algorithm]] 2 rate = 0.1", "share"],
        ),
        ("step = 0.3", 'average = { kind = "exponential", rate = 1.5 }', ["[algorithm.average]", "rate = 1.5"]),
        ('label = "alone"', 'label = "online_push_sum"', ["used twice"]),
        ("[objective]", "[objectve]", ["[objectve] is unknown", "objective"]),
        ('[objective]\nkind = "logistic"\nl2 = 1e-2', "", ["no [objective]"]),
        ("[run]", "run", ["not valid TOML"]),
    ],
)
def test_a_fault_is_named_with_file_key_value_and_remedy(
    experiment: str, old: str, new: str, wanted: list[str]
) -> None:
    assert old in experiment
    with pytest.raises(TacitError) as caught:
        build(parse(experiment.replace(old, new, 1), FILE))
    message = str(caught.value)
    assert message.startswith(str(FILE))
    for words in wanted:
        assert words in message


def test_a_faulty_step_table_is_not_also_called_a_faulty_number(experiment: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(experiment.replace("scale = 1.0", "scale = -1.0"), FILE)
    assert len(str(caught.value).splitlines()) == 1


def test_algorithms_stand_in_double_brackets() -> None:
    text = EXPERIMENT.partition("[[algorithm]]")[0] + '[algorithm]\nname = "local_online"\n'
    with pytest.raises(ConfigError, match=r"write \[\[algorithm\]\]"):
        parse(text, FILE)
    with pytest.raises(ConfigError, match=r"no \[\[algorithm\]\]"):
        parse(EXPERIMENT.partition("[[algorithm]]")[0], FILE)


def test_two_algorithms_of_one_name_are_told_apart() -> None:
    text = EXPERIMENT.replace('name = "local_online"\nlabel = "alone"', 'name = "online_push_sum"')
    assert parse(text, FILE).labels == ("online_push_sum 1", "online_push_sum 2")


def test_a_method_may_predict_with_an_average_of_its_models() -> None:
    """A kind, or a table of it with settings; names of runs show it, and what ran is spelt out."""
    text = EXPERIMENT.replace('label = "alone"', '[algorithm.average]\nkind = "tail"\nshare = 0.25\n')
    config = parse(text.replace("step = {", 'average = "mean"\nstep = {').replace("step = 0.3", ""), FILE)
    names = ("online_push_sum, averaged (mean)", "local_online, averaged (tail)")
    assert config.labels == names
    assert tuple(algorithm.name for algorithm in build(config).algorithms) == names
    averages = [table["average"] for table in config.settings()["algorithm"]]
    assert averages == [{"kind": "mean", "power": 0.0}, {"kind": "tail", "share": 0.25}]
    assert parse(config_bytes(config.settings()).decode(), FILE).settings() == config.settings()


def test_a_method_may_combine_by_a_robust_rule() -> None:
    """A rule, or a table of it with settings; below an average, where there is one."""
    text = EXPERIMENT.replace('name = "local_online"\nlabel = "alone"', 'name = "distributed_online"\n%s')
    given = 'average = "mean"\nrobust = {rule = "geometric_median", liars = 0, iterations = 4}'
    config = parse(text % given, FILE)
    assert config.labels[1] == "distributed_online, robust (geometric_median), averaged (mean)"
    table = config.settings()["algorithm"][1]["robust"]
    assert table == {"rule": "geometric_median", "liars": 0, "iterations": 4, "smoothing": 1e-6, "quarantine": False, "release": 500}  # fmt: skip
    assert parse(config_bytes(config.settings()).decode(), FILE).settings() == config.settings()
    assert "tau" not in parse(text % 'robust = "clipped"', FILE).settings()["algorithm"][1]["robust"]
    for wrong, named in (
        ('"medan"', "did you mean 'median'"),
        ('{rule = "median", tau = 1.0}', "tau"),
        ("{liars = 1}", "rule"),
    ):
        with pytest.raises(ConfigError, match=named):
            parse(text % f"robust = {wrong}", FILE)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("count = 1", "attack"),
        ('attack = "sign_flip"', "count"),
        ('count = 1\nagents = [1]\nattack = "sign_flip"', "one of them"),
        ('count = 1\nattack = "sing_flip"', "did you mean 'sign_flip'"),
        ('count = 1\nattack = {kind = "sign_flip", scale = -1.0}', "scale"),
        ('agents = [900]\nattack = "sign_flip"', "900"),
        ('count = 900\nattack = "sign_flip"', "nobody"),
    ],
)
def test_liars_that_cannot_be_are_refused_in_the_words_of_the_file(given: str, named: str) -> None:
    with pytest.raises(ConfigError, match=rf"\[liars.*{named}"):
        build(parse(f"{EXPERIMENT}\n[liars]\n{given}\n", FILE))


def test_liars_lie_in_every_method_of_a_file() -> None:
    config = parse(f'{EXPERIMENT}\n[liars]\ncount = 2\nattack = "large_values"\n', FILE, rounds=3)
    assert parse(config_bytes(config.settings()).decode(), FILE).settings() == config.settings()
    for run in build(config).runs(progress=False):
        assert "agents lie (large_values)" in run.stream


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read"):
        load(tmp_path / "nowhere.toml")


def test_every_listed_function_can_be_configured_by_its_own_parameters() -> None:
    """What a registry offers has types that TOML can express, so that no choice fails for its signature."""
    constructors = {name: entry.constructor for name, entry in REGISTRY.items()}
    for functions in (GRAPHS, DYNAMICS, SYNTHETIC, PARTITIONS, MECHANISMS, constructors):
        for function in functions.values():
            known = set(inspect.signature(function).parameters)
            assert {p.name for p in parameters(function).values()} <= known


MECHANISM = """
[algorithm.mechanism]
kind = "laplace"
epsilon = 2.0
clip = 0.5
norm = "l1"
"""


PERTURBS = inspect.signature(laplace).parameters["perturbs"].default


def with_mechanism(old: str = "", new: str = "", name: str = "distributed_online") -> str:
    """The experiment with one algorithm, which has a mechanism; a part of its text replaced."""
    ring = EXPERIMENT.replace('"random_digraph"', '"ring"').replace("out_degree = 2\n", "")
    text = ring.partition("[[algorithm]]")[0] + f'[[algorithm]]\nname = "{name}"\n{MECHANISM}'
    assert old in text
    return text.replace(old, new, 1)


def test_a_mechanism_is_made_as_configured() -> None:
    (algorithm,) = build(parse(with_mechanism(name="online_push_sum"), FILE)).algorithms
    mechanism = algorithm.phases[0].mechanism
    assert (mechanism.name, mechanism.clip, mechanism.perturbs) == ("laplace", Clip(0.5, "l1"), PERTURBS)
    assert algorithm.privacy.private
    view = SimpleNamespace(round=jnp.asarray(1), data_size=jnp.asarray(0))
    noise = mechanism.noise(view, Extent(coordinates=4, records=1))
    assert noise is not None
    assert float(noise.sensitivity / noise.scale) == pytest.approx(2.0)
    (open_,) = build(parse(with_mechanism(MECHANISM, "", name="online_push_sum"), FILE)).algorithms
    assert not open_.privacy.private


def test_a_mechanism_is_written_back_with_its_defaults_so_that_it_runs_again() -> None:
    config = parse(with_mechanism(), FILE)
    text = config_bytes(config.settings()).decode()
    assert config.settings()["algorithm"][0]["mechanism"] == {
        "kind": "laplace",
        "epsilon": 2.0,
        "clip": 0.5,
        "norm": "l1",
        "perturbs": PERTURBS,
        "adjacency": "record",
    }
    assert parse(text, FILE).settings() == config.settings()
    assert build(parse(text, FILE)).algorithms[0].privacy == build(config).algorithms[0].privacy


CONFIGURED = {
    "laplace": ("distributed_online", "epsilon = 1.0\nclip = 1.0"),
    "gaussian": ("distributed_online", "noise_multiplier = 2.0\nclip = 1"),
    "correlated": ("distributed_online", "rounds = 12\nepsilon = 2.0\nparticipation = [2, 6]\nclip = 1.0"),
    "decaying_gaussian": ("distributed_online", "noise_multiplier = 2.0\ndecay = 0.9\nclip = 1.0"),
    "classic_gaussian": ("distributed_online", "epsilon = 0.5\ndelta = 1e-6\nclip = 1.0"),
    "bounded_laplace": ("distributed_online", "epsilon = 1.0\nrounds = 12"),
    "laplace_of_size": ("distributed_online", "noise_std = 0.5"),
    "per_edge": ("adapt_then_combine", "noise_std = 0.5\nclip = 1.0"),
    "graph_homomorphic": ("consensus", "noise_std = 0.5\nperron = [0.2, 0.2, 0.2, 0.2, 0.2]"),
    "local_graph_homomorphic": ("combine_then_adapt", "noise_std = 0.5"),
    "on_grid": ("adapt_then_combine", "grid = 0.001"),
}


@pytest.mark.parametrize("kind", MECHANISMS)
def test_every_mechanism_can_be_configured(kind: str) -> None:
    name, own = CONFIGURED[kind]
    text = with_mechanism(MECHANISM, f'[algorithm.mechanism]\nkind = "{kind}"\n{own}\n', name)
    (algorithm,) = build(parse(text, FILE)).algorithms
    assert algorithm.phases[0].mechanism.name == kind


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ('kind = "laplace"', 'kind = "laplce"', ["kind = 'laplce'", "did you mean 'laplace'?", "decaying_gaussian"]),
        ('kind = "laplace"', "", ["has no kind", "bounded_laplace"]),
        ("epsilon = 2.0", "epsilon = 2.0\nepsilom = 1.0", ["epsilom = 1.0", "did you mean 'epsilon'?"]),
        ("epsilon = 2.0", 'epsilon = "big"', ["epsilon = 'big'", "expected a number"]),
        ("epsilon = 2.0", "epsilon = -1.0", ["epsilon = -1.0", "a finite number above 0"]),
        ("epsilon = 2.0", "epsilon = true", ["epsilon = true", "expected a number"]),
        ("clip = 0.5", "", ["has no 'clip'", "add clip"]),
        ("clip = 0.5", "clip = 0.0", ["clip = 0.0", "without a clip no sensitivity holds"]),
        ('norm = "l1"', 'norm = "l3"', ["norm = 'l3'", "'l2', 'l1' or 'linf'"]),
        ('norm = "l1"', 'perturbs = "all"', ["perturbs = 'all'", "'gradient', 'update' or 'model'"]),
        ('norm = "l1"', 'adjacency = "row"', ["adjacency = 'row'", "'record', 'component', 'dataset' or 'agent'"]),
    ],
)
def test_a_fault_of_a_mechanism_is_named_with_its_table(old: str, new: str, wanted: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(with_mechanism(old, new), FILE)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(f"{FILE}: [algorithm.mechanism] of [[algorithm]] 1")
    for words in wanted:
        assert words in message


def test_a_mechanism_is_a_table_of_algorithms_that_take_one() -> None:
    with pytest.raises(ConfigError, match=r"\[\[algorithm\]\] 1 mechanism = 'laplace': expected a table"):
        parse(with_mechanism(MECHANISM, 'mechanism = "laplace"\n'), FILE)
    with pytest.raises(ConfigError, match=r"mechanism = .*unknown key.* step"):
        parse(with_mechanism(name="local_online"), FILE)
    with pytest.raises(ConfigError, match=r"mecanism = .*did you mean 'mechanism'\?"):
        parse(with_mechanism("[algorithm.mechanism]", "[algorithm.mecanism]"), FILE)


def test_what_the_method_refuses_of_a_mechanism_is_named_with_the_algorithm() -> None:
    text = with_mechanism('name = "distributed_online"', 'name = "distributed_online"\nradius = 1.0')
    text += 'perturbs = "model"\n'
    with pytest.raises(ConfigError, match=r"exp\.toml: \[\[algorithm\]\] 1: .*'laplace' .*l1"):
        build(parse(text, FILE))


def test_a_schedule_that_is_a_default_is_left_to_the_algorithm() -> None:
    plain = parse(with_mechanism(), FILE)
    assert "step" not in plain.settings()["algorithm"][0]
    assert "step" not in plain.algorithms[0].arguments()
    text = with_mechanism('name = "distributed_online"', 'name = "distributed_online"\nstep = 0.25')
    assert parse(text, FILE).algorithms[0].arguments()["step"] == 0.25


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    section=st.sampled_from(["run", "graph", "stream", "objective"]),
    key=st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
    value=st.one_of(st.integers(-5, 5), st.booleans(), st.just("x"), st.just([]), st.just({})),
)
def test_any_setting_is_taken_or_refused_with_its_place(section: str, key: str, value: object) -> None:
    """Whatever is written, a ConfigError says where: nothing is ignored and nothing else is raised."""
    import tomllib

    data = tomllib.loads(EXPERIMENT)
    known = parse(EXPERIMENT, FILE).settings()[section]
    data[section][key] = value
    refused, taken = None, {}
    try:
        taken = parse(config_bytes(data).decode(), FILE).settings()[section]
    except ConfigError as error:
        refused = str(error)
    assert f"[{section}" in refused if refused is not None else key in known or taken[key] == value


def test_a_range_is_a_list_of_two_numbers_and_comes_back_as_written(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "examples" / "asynchronous.toml").read_text()
    ranged = text.replace('kind = "autoregressive"', 'kind = "autoregressive"\ntheta = [0.1, 0.5]')
    config = parse(ranged, tmp_path / "a.toml")
    again = parse(tomli_w.dumps(config.settings()), tmp_path / "a.toml")
    assert again.stream.arguments() == config.stream.arguments()
    assert config.stream.arguments()["theta"] == (0.1, 0.5)
    with pytest.raises(ConfigError, match="theta"):
        parse(ranged.replace("[0.1, 0.5]", '"wide"'), tmp_path / "a.toml")
