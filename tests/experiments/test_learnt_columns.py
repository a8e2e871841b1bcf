"""An attack: two tables that differ in one record, and what a private run's method is handed of the others."""

from __future__ import annotations

import html
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import tacit
from tacit.config.experiment import DATASETS, parse
from tacit.core.errors import DataError, PrivacyError, TacitError
from tacit.experiments import build
from tacit.results import report
from tacit.streams import Dataset
from tacit.streams.learnt import public_of

COLUMNS = ("clinic", "age", "days", "ward", "smoker", "again")
ROWS = [
    ("Arles", "31", "4", "heart", "true", "no"),
    ("Arles", "58", "2", "general", "false", "yes"),
    ("Arles", "44", "9", "heart", "false", "yes"),
    ("Bonn", "70", "1", "general", "true", "yes"),
    ("Bonn", "25", "6", "heart", "false", "yes"),
    ("Bonn", "62", "3", "general", "true", "yes"),
]
VICTIM = 0
"""The only record that says "no"."""
HEAD = """
run.rounds = 3
run.regret_points = 0
graph.kind = "complete"
stream.kind = "csv"
stream.path = "table.csv"
stream.exhausted = "cycle"
stream.shuffle = false
objective.kind = "logistic"
algorithm = [{ name = "online_push_sum", step = 0.1, mechanism = { kind = "laplace", epsilon = 1.0, clip = 1.0 } }]
"""
OPEN = {
    "label": '"again"',
    "owner": '"clinic"',
    "missing": '"indicate"',
}
GIVEN = OPEN | {
    "missing": '["days", "ward"]',
    "classes": '["no", "yes"]',
    "categories": '{ ward = ["general", "heart", "surgery"] }',
    "bounds": "{ age = [0, 100], days = [0, 30], smoker = [0, 1] }",
}
"""Everything is fixed beforehand."""
CHANGES = {
    "a new word": {"ward": "surgery"},
    "a gap among numbers": {"days": ""},
    "a gap among words": {"ward": ""},
    "the last of its class": {"again": "yes"},
    "a label that comes before the others": {"again": "aha"},
    "a number far away": {"age": "99"},
    "a word among truths": {"smoker": "maybe"},
    "a word among numbers": {"age": "old"},
}


def table(folder: Path, **changed: str) -> Path:
    """Write the table, with other values in the victim's record."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [list(row) for row in ROWS]
    for name, value in changed.items():
        rows[VICTIM][COLUMNS.index(name)] = value
    text = "\n".join(",".join(row) for row in [list(COLUMNS), *rows])
    (folder / "table.csv").write_text(text + "\n")
    return folder


def problem(folder: Path, keys: dict[str, str], head: str = HEAD) -> Any:
    lines = "".join(f"stream.{key} = {value}\n" for key, value in keys.items())
    return build(parse(lines + head, folder / "private.toml", references=False))


def seen(made: Any) -> tuple[Any, list[Any]]:
    """The model that the method starts from, and every batch that it is handed."""
    stream = made.stream(0)
    model = made.objective.initial(stream.batch_spec())
    return jax.tree.map(np.shape, model), jax.tree.map(np.asarray, stream.chunk(0, 3))


def differing(one: Any, other: Any) -> set[tuple[int, int]]:
    """Return the (round, agent) in which the batches of two tables differ."""
    found = set()
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.shape == b.shape
        unlike = (a != b).reshape(*a.shape[:2], -1).any(axis=-1)
        found |= {(int(t), int(k)) for t, k in zip(*np.nonzero(unlike), strict=True)}
    return found


def outcome(folder: Path, keys: dict[str, str]) -> Any:
    try:
        return seen(problem(folder, keys))
    except TacitError as refusal:
        return refusal


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("keys", [OPEN, GIVEN], ids=["found", "given"])
def test_one_record_changes_its_own_row_at_most(tmp_path: Path, change: str, keys: dict[str, str]) -> None:
    before = outcome(table(tmp_path / "one"), keys)
    after = outcome(table(tmp_path / "other", **CHANGES[change]), keys)
    if keys is OPEN:
        assert isinstance(before, PrivacyError)
        assert isinstance(after, TacitError)
        return
    assert not isinstance(before, TacitError), before
    if isinstance(after, TacitError):  # a value that was not foreseen
        return
    assert before[0] == after[0]
    assert differing(before[1], after[1]) <= {(0, VICTIM)}


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("categories", {key: value for key, value in GIVEN.items() if key != "categories"}),
        ("classes", {key: value for key, value in GIVEN.items() if key != "classes"}),
        ("missing", GIVEN | {"missing": '"indicate"'}),
        ("scaling", GIVEN | {"bounds": "{ age = [0, 100], smoker = [0, 1] }"}),
        ("scaling", GIVEN | {"bounds": "{ age = [0, 100] }", "standardise": '"owner"'}),
        (
            "partition",
            {key: value for key, value in GIVEN.items() if key != "owner"}
            | {"partition": '{ kind = "label_shards", shards_per_agent = 1 }', "features": '["age", "days", "ward"]'}
            | {"bounds": "{ age = [0, 100], days = [0, 30] }"},
        ),
    ],
)
def test_what_is_learnt_is_refused_by_name_or_declared(tmp_path: Path, kind: str, keys: dict[str, str]) -> None:
    head = HEAD.replace('graph.kind = "complete"', 'graph.kind = "complete"\ngraph.agents = 2')
    head = head if kind == "partition" else HEAD
    table(tmp_path)
    with pytest.raises(PrivacyError) as caught:
        problem(tmp_path, keys, head)
    for word in ("private.toml: [stream]", f'public = ["{kind}"]', "online_push_sum"):
        assert word in str(caught.value)
    made = problem(tmp_path, keys | {"public": f'["{kind}"]'}, head)
    (learnt,) = [each for each in made.stream(0).learnt if each.kind == kind]
    assert learnt.public
    without = head[: head.index(", mechanism")] + " }]\n"
    problem(tmp_path, keys, without)  # without a mechanism nothing has to be said


def test_a_run_tells_what_was_declared(tmp_path: Path) -> None:
    keys = {key: value for key, value in GIVEN.items() if key != "categories"} | {"public": '["categories", "scaling"]'}
    made = problem(table(tmp_path), keys)
    (run,) = made.runs(progress=False)
    summary = run.record().summary["privacy"]
    assert summary["private"]
    (said,) = summary["public"]  # scaling was declared too, but nothing was scaled
    assert "ward" in said
    assert said in summary["words"]
    shown = html.unescape(report._privacy([run.record()]))
    assert "Declared public" in shown
    assert said in shown


def test_a_published_data_set_needs_no_declaration_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)).astype(np.float32), np.where(rng.random(40) < 0.5, -1, 1).astype(np.float32)
    made_up = Dataset("occupancy", x, y, ("a", "b"), "made up", complete=True, parts={})
    monkeypatch.setitem(DATASETS._found, "occupancy", SimpleNamespace(load=lambda: lambda: made_up))
    head = HEAD.replace('kind = "csv"\nstream.path = "table.csv"', 'kind = "occupancy"')
    head = head.replace('graph.kind = "complete"', 'graph.kind = "complete"\ngraph.agents = 4')
    made = problem(tmp_path, {"partition": '{ kind = "label_shards", shards_per_agent = 1 }'}, head)
    public = public_of([made.stream(0)])
    assert [word in " ".join(public) for word in ("published", "label_shards")] == [True, True]


def test_a_kind_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TacitError, match="public.*categorys"):
        problem(table(tmp_path), GIVEN | {"public": '["categorys"]'})


def test_a_blank_line_is_no_record_and_a_private_run_says_so(tmp_path: Path) -> None:
    file = table(tmp_path) / "table.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, "", ""]))  # at the end it is no matter
    problem(tmp_path, GIVEN)
    file.write_text("\n".join([*lines[:3], "", *lines[3:]]))
    with pytest.raises(PrivacyError, match="line 4"):
        problem(tmp_path, GIVEN)
    quoted = 'clinic,age,days,ward,smoker,again\nArles,3,4,heart,true,"no"\n"Bonn\n\nam Rhein",3,4,heart,true,yes\n'
    file.write_text(quoted)
    problem(tmp_path, GIVEN)


# -- from Python -----------------------------------------------------------------------------------------------------------


def read(folder: Path, **settings: Any) -> Any:
    given = {
        "label": "again",
        "owner": "clinic",
        "missing": ["days"],
        "classes": ["no", "yes"],
        "categories": {"ward": ["general", "heart"]},
    }
    return tacit.streams.read_table(folder / "table.csv", **{**given, **settings})


def simulated(stream: Any) -> Any:
    noise = tacit.privacy.laplace(epsilon=1.0, clip=1.0)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), mechanism=noise)
    return tacit.simulate(method, tacit.graphs.complete(2), stream, rounds=2, progress=False)


def test_a_table_carries_what_was_learnt_into_a_run(tmp_path: Path) -> None:
    table(tmp_path)
    plain = tacit.streams.scaled(read(tmp_path), by=None, bounds={"age": [0, 100]})
    assert simulated(tacit.streams.from_table(plain)).privacy.public == ()
    scaled = tacit.streams.scaled(read(tmp_path, categories=None))
    with pytest.raises(PrivacyError, match=r"categories.*scaling"):
        simulated(tacit.streams.from_table(scaled))
    with pytest.raises(PrivacyError, match="scaling"):
        simulated(tacit.streams.from_table(scaled, public=["categories"]))
    run = simulated(tacit.streams.from_table(scaled, public=["categories", "scaling"]))
    assert len(run.privacy.public) == 2
    judged = tacit.streams.with_validation(tacit.streams.from_table(plain), tacit.streams.from_table(scaled))
    with pytest.raises(PrivacyError, match="scaling"):
        simulated(judged)


def test_peers_in_memory_and_swarms_refuse_it_too(tmp_path: Path) -> None:
    from tacit.deploy.rehearsal import plans

    stream = tacit.streams.from_table(tacit.streams.scaled(read(table(tmp_path))))
    noise = tacit.privacy.laplace(epsilon=1.0, clip=1.0)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), mechanism=noise)
    with pytest.raises(PrivacyError, match="scaling"):
        tacit.peer.run_in_process(method, tacit.graphs.complete(2), stream, rounds=1)
    with pytest.raises(PrivacyError, match="scaling"):
        plans(method, tacit.graphs.complete(2), stream, job="")


def test_the_list_of_gaps_is_kept(tmp_path: Path) -> None:
    table(tmp_path, days="")
    found = read(tmp_path)
    assert [name for name in found.columns if name.endswith("missing")] == ["days is missing"]
    assert found.x[:, found.columns.index("days is missing")].tolist() == [1, 0, 0, 0, 0, 0]
    with pytest.raises(DataError, match="'days'"):
        read(tmp_path, missing=["age"])
    with pytest.raises(TacitError, match="height"):
        read(tmp_path, missing=["height"])


def test_numbers_can_be_classes_and_categories_to_the_last_digit(tmp_path: Path) -> None:
    table(tmp_path, days="1234567", age="0.5")
    listed = {"days": ["4", "2", "9", "1", "6", "3", "1234567"], "ward": ["general", "heart"]}
    found = read(tmp_path, categories=listed, missing="refuse")
    assert found.x[:, found.columns.index("days = 1234567")].tolist() == [1, 0, 0, 0, 0, 0]
    ages = ["0.5", "58", "44", "70", "25", "62"]
    coded = read(
        tmp_path, label="age", classes=ages, task="multiclass", missing="refuse", features=["days"], categories={}
    )
    assert coded.y.tolist() == [0, 1, 2, 3, 4, 5]


def test_classes_are_numbered_as_they_are_listed(tmp_path: Path) -> None:
    table(tmp_path)
    assert read(tmp_path).y.tolist() == [-1, 1, 1, 1, 1, 1]
    assert read(tmp_path, classes=["yes", "no"]).y.tolist() == [1, -1, -1, -1, -1, -1]
    several = read(tmp_path, task="multiclass", classes=["yes", "perhaps", "no"])
    assert (several.y.tolist(), several.classes) == ([2, 0, 0, 0, 0, 0], ("yes", "perhaps", "no"))
    for classes, fault in ((["yes", "aha"], "'no' is not among"), (["no"], "two"), (["no", "no"], "once")):
        with pytest.raises(TacitError, match=fault):
            read(tmp_path, classes=classes)


def test_how_many_classes_there_are_is_learnt_too(tmp_path: Path) -> None:
    """One record of the last class decides how many a model names, whose labels are numbers already."""
    rows = "".join(f"{k},{k % 3},{'ab'[k % 2]}\n" for k in range(12))
    (tmp_path / "table.csv").write_text("age,ward,clinic\n" + rows)
    noise = tacit.privacy.laplace(epsilon=1.0, clip=1.0)
    method = tacit.algorithms.online_push_sum(tacit.objectives.softmax(3), mechanism=noise)

    def run(**settings: Any) -> Any:
        found = tacit.streams.read_table(tmp_path / "table.csv", "ward", owner="clinic", task="multiclass", **settings)
        stream = tacit.streams.from_table(tacit.streams.scaled(found, by=None, bounds={"age": [0, 100]}))
        return tacit.simulate(method, tacit.graphs.complete(2), stream, rounds=2, progress=False)

    with pytest.raises(PrivacyError, match="'ward'.*classes = 3"):
        run()
    assert run(classes=3).model().card.classes == ["0", "1", "2"]
