"""`tacit run`, `tacit predict` and `tacit model`: from a table to a table with predictions."""

import csv
import html
import json
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tests.models import clinics

EXPERIMENT = """
[run]
rounds = 20
regret_points = 0
[graph]
kind = "directed_ring"
[stream]
kind = "csv"
path = "{path}"
label = "outcome"
features = ["age", "sex", "dose"]
owner = "clinic"
missing = ["dose"]
exhausted = "cycle"
[objective]
kind = "logistic"
[[algorithm]]
name = "online_push_sum"
step = 0.3
"""


def tacit_says(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def directory(file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "clinics.toml").write_text(EXPERIMENT.format(path=file))
    code, said = tacit_says("run", folder / "clinics.toml", "--out", folder / "out")
    assert code == 0, said
    assert "tacit predict" in said
    return folder / "out"


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_predictions_stand_beside_the_rows(directory, file, tmp_path):
    out = tmp_path / "predicted.csv"
    code, said = tacit_says("predict", directory, file, "--out", out, "--proba")
    assert code == 0, said
    assert "accuracy" in said
    model, given, found = tacit.load_model(directory), rows(file), rows(out)
    assert [{name: row[name] for name in given[0]} for row in found] == given
    assert [row["prediction"] for row in found] == model.predict(file).tolist()
    for name, chances in zip(model.classes, model.predict_proba(file).T, strict=True):
        assert [float(row[f"probability of {name}"]) for row in found] == chances.tolist()
    before = out.read_bytes()
    code, said = tacit_says("predict", directory, file, "--out", out)
    assert code == 2
    assert "--force" in said
    assert out.read_bytes() == before
    code, _ = tacit_says("predict", directory / "model.safetensors", out, "--out", out, "--force")
    assert code == 0
    assert list(rows(out)[0])[-2:] == ["prediction 2", "score"]


def test_owners_models(directory, file, tmp_path):
    outs = {name: tmp_path / f"{name}.csv" for name in ("mean", "north", "each")}
    asked = {"mean": [], "north": ["--owner", "north"], "each": ["--owner-column"]}
    for name, out in outs.items():
        code, said = tacit_says("predict", directory, file, "--out", out, *asked[name])
        assert code == 0, said
    scores = {name: np.array([float(row["score"]) for row in rows(out)]) for name, out in outs.items()}
    north = np.array([row["clinic"] == "north" for row in rows(file)])
    assert (scores["each"][north] == scores["north"][north]).all()
    assert (scores["each"][~north] != scores["north"][~north]).all()
    assert (scores["mean"] != scores["each"]).all()
    code, said = tacit_says("predict", directory, file, "--owner", "east", "--out", tmp_path / "east.csv")
    assert code == 2
    assert "north" in said
    code, _ = tacit_says("predict", directory, file, "--owner", "north", "--owner-column")
    assert code == 2


def test_rows_that_cannot_be_predicted_write_nothing(directory, file, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("age,sex,dose\n50,f,1\n60,x,2\n")
    code, said = tacit_says("predict", directory, bad, "--out", tmp_path / "out.csv")
    assert code == 2
    assert "line 3" in said
    assert "'x'" in said
    assert "--unknown ignore" in said
    ignored = tmp_path / "ignored.csv"
    assert tacit_says("predict", directory, bad, "--out", ignored, "--unknown", "ignore")[0] == 0
    assert len(rows(ignored)) == 2
    assert tacit_says("predict", directory, bad, "--out", tmp_path / "out.csv", "--unknown", "guess")[0] == 2
    bad.write_text("age,dose\n50,1\n")
    assert tacit_says("predict", directory, bad, "--out", tmp_path / "out.csv")[0] == 2
    assert not (tmp_path / "out.csv").exists()
    bad.write_text("dose,age,sex\n,50,f\n")
    code, said = tacit_says("predict", directory, bad, "--out", tmp_path / "out.csv")
    assert code == 0, said
    assert "accuracy" not in said


def test_card_show_and_onnx(directory, tmp_path):
    page = (directory / "model.html").read_text()
    for word in ("north", "outcome", "Not private", "tacit predict", "well"):
        assert word in page
    assert "http" not in page.replace("http-equiv", "")
    assert tacit_says("model", "card", directory, "--out", tmp_path / "card.html", "--no-figures")[0] == 0
    assert "while learning" not in (tmp_path / "card.html").read_text()
    code, said = tacit_says("model", "show", directory, "--json")
    assert code == 0
    assert json.loads(said)["label"] == "outcome"
    assert str(directory.parent) not in said.replace(json.loads(said)["made"]["command"] or "", "")
    assert "north" in tacit_says("model", "show", directory)[1]
    assert tacit_says("model", "onnx", directory, "--out", tmp_path / "model.onnx")[0] == 0
    assert (tmp_path / "model.onnx").stat().st_size > 0


def test_names_out_of_a_file_are_no_markup(runs):
    from tacit.results.pages.model_card import page

    card = runs["binary"].model().card
    hostile = card.model_copy(update={"label": "<script>alert(1)</script>", "columns": ["<b>"], "notes": ["<i>"]})
    text = page(hostile, "<u>")
    assert not any(tag in text for tag in ("<script", "<b>", "<i>", "<u>"))


def test_a_command_of_a_card_names_an_owner_and_does_nothing_else(runs):
    from tacit.results.pages.model_card import page

    owner = "it's; touch gone"
    card = runs["binary"].model().card.model_copy(update={"owners": [owner]})
    (line,) = (line for line in html.unescape(page(card, "my model")).splitlines() if "--owner" in line)
    words = shlex.split(line.partition("</pre>")[0])
    assert words == ["tacit", "predict", "my model", "data.csv", "--owner", owner]


def test_rows_without_names_of_columns(tmp_path):
    method = tacit.algorithms.online_push_sum(tacit.objectives.squared(), step=0.05)
    run = tacit.simulate(method, tacit.graphs.ring(2), tacit.streams.linear_drift(2, 3), rounds=3)
    model = run.model()
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.savez(tmp_path / "rows.npz", X=x)
    np.testing.assert_allclose(model.predict(tmp_path / "rows.npz"), model.predict(x), rtol=1e-6)
    with pytest.raises(tacit.errors.DataError, match="3"):
        model.predict(x[:, :2])


@pytest.mark.parametrize(("low", "known"), [("0", True), ("-1", True), ("2", False)])
def test_a_model_of_signs_is_judged_by_0_and_1_too(low, known, tmp_path):
    x = np.linspace(-1, 1, 20)
    (tmp_path / "signs.csv").write_text("\n".join(["a,y", *(f"{v},{1 if v > 0 else -1}" for v in x), ""]))
    table = tacit.streams.read_table(tmp_path / "signs.csv", label="y", task="binary")
    stream = tacit.streams.from_table(table, np.arange(20) % 2)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=1.0)
    run = tacit.simulate(method, tacit.graphs.ring(2), stream, rounds=10)
    run.model().save(tmp_path / "m.safetensors")
    (tmp_path / "other.csv").write_text("\n".join(["a,y", *(f"{v},{1 if v > 0 else low}" for v in x), ""]))
    code, said = tacit_says("predict", tmp_path / "m.safetensors", tmp_path / "other.csv", "--out", tmp_path / "p.csv")
    assert code == 0, said
    assert ("accuracy 1," in said) is known
    assert "learnt from a table of this name" not in said


def test_comparisons_keep_every_model_and_name_them(file, tmp_path):
    text = EXPERIMENT.format(path=file) + '[[algorithm]]\nname = "local_online"\n'
    (tmp_path / "two.toml").write_text(text)
    code, said = tacit_says("run", tmp_path / "two.toml", "--out", tmp_path / "out", "--rounds", 5)
    assert code == 0, said
    with pytest.raises(tacit.errors.ModelError, match="local-online"):
        tacit.load_model(tmp_path / "out")
    assert tacit.load_model(tmp_path / "out" / "local-online").card.made.algorithm == "local_online"
    assert tacit.load_model(tmp_path / "out" / "online-push-sum").card.data.rows == clinics.ROWS


def test_tables_keep_their_marks(tmp_path):
    """A table with semicolons, decimal commas and another encoding: the answer is read as the table is."""
    table = tmp_path / "daten.csv"
    lines = [f"{k % 7},5;{'groß' if k % 3 else 'klein'};{1 + k % 3}" for k in range(30)]
    table.write_bytes("\n".join(["länge;art;klasse", *lines]).encode("cp1252"))
    marks = {"encoding": "cp1252", "separator": ";", "decimal": ","}
    read = tacit.streams.read_table(table, "klasse", task="multiclass", **marks)
    stream = tacit.streams.from_table(read, np.arange(30) % 2)
    method = tacit.algorithms.online_push_sum(tacit.objectives.softmax(3), step=0.1)
    run = tacit.simulate(method, tacit.graphs.ring(2), stream, rounds=5)
    path = run.model().save(tmp_path / "model.safetensors")
    assert tacit_says("predict", path, table, "--out", tmp_path / "out.csv", "--proba")[0] == 0
    first, *others = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert first == "länge;art;klasse;prediction;probability of 1;probability of 2;probability of 3"
    assert [line.rsplit(";", 4)[0] for line in others] == lines
    chance = others[0].split(";")[-1]
    assert "," in chance
    assert float(chance.replace(",", ".")) == tacit.load_model(path).predict_proba(table)[0, 2]
    assert tacit_says("predict", path, tmp_path / "out.csv", "--out", tmp_path / "again.csv")[0] == 0


def test_of_references_without_noise_no_model_is_kept(file, tmp_path):
    private = EXPERIMENT.format(path=file).replace('missing = ["dose"]', 'missing = ["dose"]\npublic = ["scaling"]')
    given = 'categories = {sex = ["f", "m"]}\nclasses = ["ill", "well"]\n[objective]'
    noise = '[algorithm.mechanism]\nkind = "laplace"\nepsilon = 1.0\nclip = 1.0\n'
    (tmp_path / "private.toml").write_text(private.replace("[objective]", given) + noise)
    code, said = tacit_says("run", tmp_path / "private.toml", "--out", tmp_path / "out", "--rounds", 3)
    assert code == 0, said
    kept = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.glob("**/model.safetensors"))
    assert kept == ["out", "out/online-push-sum"]
    model = tacit.load_model(tmp_path / "out")
    assert model.card.privacy.private
    assert model.card.data.fingerprint is None
    assert model.card.made.command is not None
