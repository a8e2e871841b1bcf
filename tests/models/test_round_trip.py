"""One model, four ways: the simulator's arrays, a file that was read back, scikit-learn and ONNX agree."""

import dataclasses
import json

import jax
import numpy as np
import onnxruntime
import pandas
import pytest

import tacit
from tacit.core.errors import ConfigError, ModelError
from tacit.models.objective_names import arguments_of, made
from tests.models import clinics

CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def by_onnx(path, frame):
    session = onnxruntime.InferenceSession(path)
    feeds = {}
    for given in session.get_inputs():
        words = "string" in given.type
        column = frame[given.name].fillna("").astype(object) if words else frame[given.name].astype(float)
        feeds[given.name] = column.to_numpy()[:, None]
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, feeds), strict=True))


@pytest.mark.parametrize("task", clinics.LABELS)
def test_all_ways_agree(runs, file, task, tmp_path):
    run, frame = runs[task], pandas.read_csv(file)
    x = run.streams[0].preprocessing.apply(file)
    of_simulator = np.asarray(run.objective.predict(run.models[0].mean(axis=0), x))
    model = tacit.load_model(run.model().save(tmp_path / "model.safetensors"))
    scores = model.decision_function(file)
    np.testing.assert_allclose(scores, of_simulator, **CLOSE)
    for agent, owner in enumerate(["north", "south", "west"]):
        alone = np.asarray(run.objective.predict(run.models[0, agent], x))
        np.testing.assert_allclose(model.decision_function(file, owner=owner), alone, **CLOSE)
    pipeline = model.to_sklearn()
    graph = by_onnx(model.to_onnx(tmp_path / "model.onnx"), frame)
    np.testing.assert_allclose(graph["score"], scores, **CLOSE)
    if task == "regression":
        for other in (pipeline.predict(frame), graph["label"], model.predict(file)):
            np.testing.assert_allclose(other, scores, **CLOSE)
        return
    chances = model.predict_proba(file)
    np.testing.assert_allclose(pipeline.decision_function(frame), scores, **CLOSE)
    np.testing.assert_allclose(pipeline.predict_proba(frame), chances, **CLOSE)
    np.testing.assert_allclose(graph["probability"], chances, **CLOSE)
    assert (pipeline.predict(frame) == model.predict(file)).all()
    assert (graph["label"] == model.predict(file)).all()
    assert set(model.predict(file)) <= set(frame[clinics.LABELS[task]])


@pytest.mark.parametrize("settings", [{"unit": True}, {"bias": False, "bounds": {"age": [18, 80]}, "by": None}])
def test_other_preprocessing_is_exported_too(file, settings, tmp_path):
    run, frame = clinics.run(file, "binary", tacit.objectives.hinge(), **settings), pandas.read_csv(file)
    model = run.model()
    scores = model.decision_function(file)
    np.testing.assert_allclose(model.to_sklearn().decision_function(frame), scores, **CLOSE)
    graph = by_onnx(model.to_onnx(tmp_path / "model.onnx"), frame)
    np.testing.assert_allclose(graph["score"], scores, **CLOSE)
    assert "probability" not in graph
    with pytest.raises(ConfigError, match="hinge"):
        model.predict_proba(file)


def test_rows_of_an_owner_are_scaled_by_its_own_numbers(file, tmp_path):
    run = clinics.run(file, "binary", by="owner")
    model = tacit.load_model(run.model().save(tmp_path / "model.safetensors"))
    of_stream = run.streams[0].preprocessing.apply(file)
    np.testing.assert_array_equal(model.x(file), of_stream)
    assert not np.array_equal(model.x(file, owner="north"), of_stream)
    with pytest.raises(ConfigError, match="owner"):
        model.to_sklearn()
    assert model.to_sklearn(preprocess=False).predict(of_stream).shape == (clinics.ROWS,)


def test_owner_by_row(runs, file):
    model = runs["binary"].model()
    names = np.array(["north", "west"] * (clinics.ROWS // 2))
    mixed = model.decision_function(file, owner=names)
    for name in set(names):
        np.testing.assert_array_equal(mixed[names == name], model.decision_function(file, owner=name)[names == name])
    alone = runs["binary"].model(owner="west")
    np.testing.assert_array_equal(alone.decision_function(file), model.of("west").decision_function(file))
    assert alone.owners == ()
    for wrong in ("east", "weest"):
        with pytest.raises(ConfigError, match="west"):
            model.predict(file, owner=wrong)
    with pytest.raises(ConfigError, match="repeat = 1"):
        runs["binary"].model(repeat=1)


def test_an_owner_may_be_called_as_the_mean_is(tmp_path):
    rng = np.random.default_rng(0)
    x, who = rng.normal(size=(12, 2)), np.tile(["mean", "other"], 6)
    np.savez(tmp_path / "rows.npz", a=x[:, 0], b=x[:, 1], y=np.sign(x[:, 0]), who=who)
    read = tacit.streams.read_table(tmp_path / "rows.npz", label="y", owner="who")
    method = tacit.algorithms.local_online(tacit.objectives.logistic(), step=0.5)
    model = tacit.simulate(method, tacit.graphs.ring(2), tacit.streams.from_table(read), rounds=6).model()
    assert model.owners == ("mean", "other")
    np.testing.assert_array_equal(model.parameters("mean"), model.owned[0])
    np.testing.assert_array_equal(model.of("mean").parameters("mean"), model.owned[0])
    assert not np.allclose(model.parameters(), model.owned[0])


def test_classes_beyond_whole_numbers_of_the_machine_are_words(runs):
    card = runs["binary"].model().card.model_copy(update={"classes": ["1", str(10**30)]})
    model = dataclasses.replace(runs["binary"].model(), card=card)
    assert model.classes.tolist() == ["1", str(10**30)]


def small(objective, stream, **settings):
    method = tacit.algorithms.online_push_sum(objective, step=0.05)
    return tacit.simulate(method, tacit.graphs.ring(2), stream, rounds=3, **settings)


@pytest.mark.parametrize(
    ("objective", "task", "width"),
    [
        (tacit.objectives.fourier(count=8, bandwidth=2.0, seed=3), "regression", 3),
        (tacit.objectives.cnn(classes=3, channels=(2, 2), hidden=4, side=4), "multiclass", 16),
    ],
    ids=["fourier", "cnn"],
)
def test_networks_and_random_features(objective, task, width, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(12, width)), np.arange(12) % 3
    stream = tacit.streams.from_arrays(x, y, [range(6), range(6, 12)], task=task, exhausted="cycle")
    run = small(objective, stream, repeats=2)
    model = tacit.load_model(run.model(repeat=1).save(tmp_path / "model.safetensors"))
    params = jax.tree.map(lambda leaf: leaf[1].mean(axis=0), run.models)
    np.testing.assert_allclose(model.decision_function(x), objective.predict(params, x.astype(np.float32)), rtol=1e-5)
    assert model.card.objective.arguments.items() >= {"l2": 0.0}.items()
    assert model.card.data.fingerprint is not None
    if task == "multiclass":
        assert model.predict_proba(x).shape == (12, 3)
        assert set(model.predict(x)) <= {0, 1, 2}
    with pytest.raises(ConfigError, match="linear"):
        model.to_sklearn()


def test_objective_of_the_users_own(tmp_path):
    def predict(params, x):
        return x @ params["w"] + params["b"]

    def loss(params, batch):
        return jax.numpy.mean((predict(params, batch.x) - batch.y) ** 4)

    first = {"w": jax.numpy.zeros(3), "b": jax.numpy.zeros(())}
    own = tacit.objectives.from_loss(loss, initial=first, name="quartic", predict=predict)
    run = small(own, tacit.streams.linear_drift(2, 3))
    path = run.model().save(tmp_path / "model.safetensors")
    without = tacit.load_model(path)
    assert without.card.objective.own
    assert set(without.params) == {"w", "b"}
    with pytest.raises(ModelError, match="quartic"):
        without.predict(np.ones((2, 3)))
    np.testing.assert_array_equal(
        tacit.load_model(path, objective=own).predict(np.ones((2, 3))), run.model().predict(np.ones((2, 3)))
    )


def test_same_name_but_another_loss_is_the_users_own():
    logistic = tacit.objectives.logistic()
    other = logistic._replace(predict=lambda params, x: 2 * x @ params)
    run = small(other, tacit.streams.logistic_drift(2, 3))
    assert run.model().card.objective.own


@pytest.mark.parametrize(
    ("objective", "params"),
    [
        (tacit.objectives.logistic(l2=0.1, class_weight=[1.0, 5.0]), np.zeros(3)),
        (tacit.objectives.hinge(l1=0.1), np.zeros(3)),
        (tacit.objectives.softmax(3, class_weight={"2": 4.0}), np.zeros((3, 2))),
        (tacit.objectives.absolute(l1=0.1), np.zeros(3)),
        (tacit.objectives.regularised(tacit.objectives.squared(l2=0.1), tacit.objectives.l1(0.2)), np.zeros(3)),
        (tacit.objectives.fourier(count=5, bandwidth=3.0, seed=2, l2=0.1), np.zeros(5)),
        (tacit.objectives.cnn(classes=3, channels=(1, 2), hidden=3, side=8, l2=0.1), ()),
    ],
    ids=repr,
)
def test_an_objective_is_made_again_by_its_name_and_arguments(objective, params):
    arguments = arguments_of(objective, params)
    assert arguments is not None
    again = made(objective.name, json.loads(json.dumps(arguments)))
    assert (again.loss, again.predict) == (objective.loss, objective.predict)


def test_held_out_figures_are_in_the_card(file):
    run = clinics.run(file, "binary")
    x, y = (run.streams[0].preprocessing.apply(file), run.streams[0].preprocessing.labels(file))
    run.evaluate(x, y)
    model = run.model()
    right = float(np.mean(model.scores(x) * y > 0))
    assert model.card.figures[f"accuracy on {clinics.ROWS} held-out rows"] == pytest.approx(right)
    assert not any("held-out" in name for name in run.model(owner="west").card.figures)


def test_times_predict_and_are_refused_by_exports(tmp_path):
    lines = [f"2015-02-{1 + k:02} {k:02}:30:00,{k / 10},{k % 3}" for k in range(20)]
    paths = [tmp_path / "arles.csv", tmp_path / "faro.csv"]
    for path in paths:
        path.write_text("\n".join(["when,v,y", *lines]))
    times = {"when": ["hour", "weekday"]}
    read = tacit.streams.read_table(paths, "y", task="regression", time_features=times)
    run = small(tacit.objectives.squared(), tacit.streams.from_table(tacit.streams.scaled(read)))
    model = tacit.load_model(run.model().save(tmp_path / "model.safetensors"))
    assert model.owners == ("arles", "faro")
    x = run.streams[0].preprocessing.apply(paths[0])
    said = np.asarray(run.objective.predict(run.models[0].mean(axis=0), x))
    np.testing.assert_allclose(model.predict(paths[0]), said, **CLOSE)
    np.testing.assert_array_equal(model.predict(pandas.read_csv(paths[0])), model.predict(paths[0]))
    for export in (model.to_sklearn, lambda: model.to_onnx(tmp_path / "model.onnx")):
        with pytest.raises(ConfigError, match="'when'"):
            export()
    session = onnxruntime.InferenceSession(model.to_onnx(tmp_path / "rows.onnx", preprocess=False))
    (score,) = session.run(["score"], {"x": model.x(paths[0]).astype(float)})
    np.testing.assert_allclose(score, model.predict(paths[0]), **CLOSE)
