from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.algorithms import REGISTRY
from tacit.errors import ConfigError, TacitError
from tacit.experiments import build, load, parse
from tacit.experiments.config import DYNAMICS, GRAPHS, PARTITIONS, SYNTHETIC
from tacit.experiments.sections import parameters
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
        ("rounds = 12", "rounds = true", ["[run] rounds = True", "whole number"]),
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


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read .*No such file"):
        load(tmp_path / "nowhere.toml")


def test_every_listed_function_can_be_configured_by_its_own_parameters() -> None:
    """What a registry offers has types that TOML can express, so that no choice fails for its signature."""
    constructors = {name: entry.constructor for name, entry in REGISTRY.items()}
    for functions in (GRAPHS, DYNAMICS, SYNTHETIC, PARTITIONS, constructors):
        for function in functions.values():
            known = set(inspect.signature(function).parameters)
            assert {p.name for p in parameters(function).values()} <= known


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
