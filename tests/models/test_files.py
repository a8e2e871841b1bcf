"""Model files: whole or refused, whatever was done to them; nothing is overwritten, nothing leaks into a card."""

import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load

import tacit
from tacit.core.errors import ConfigError, ModelError, TacitError
from tacit.models.card import NOT_COVERED, SIMULATED
from tacit.models.files import model_bytes, model_of
from tacit.models.making import privacy_card
from tacit.models.tensor_file import LENGTH, packed, unpacked

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((0, 2)), "c": np.array(1.5)}


def parts(content):
    length = int.from_bytes(content[:LENGTH], "little")
    return json.loads(content[LENGTH : LENGTH + length]), content[LENGTH + length :]


def joined(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(LENGTH, "little") + text + data


def test_the_format_is_that_of_the_library():
    content = packed(ARRAYS, {"card": "é"})
    for name, array in load(content).items():
        np.testing.assert_array_equal(array, ARRAYS[name])
    found, metadata = unpacked(content, "file")
    assert metadata == {"card": "é"}
    assert {name: (array.shape, array.dtype) for name, array in found.items()} == {
        name: (array.shape, array.dtype) for name, array in ARRAYS.items()
    }
    assert content == packed(ARRAYS, {"card": "é"})


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [2, 4]},
        {"shape": [-2, -3]},
        {"shape": [2.0, 3]},
        {"shape": [True, 6]},
        {"shape": [1] * 30},
        {"shape": "23"},
        {"shape": [2**40, 2**40]},
        {"data_offsets": [0, 25]},
        {"data_offsets": [8, 32]},
        {"data_offsets": [24, 0]},
        {"data_offsets": [0]},
        {"dtype": "F99"},
        {"dtype": ["F32"]},
        {"dtype": "BF16"},
        {"more": 1},
    ],
    ids=str,
)
def test_headers_that_lie_are_refused(change):
    header, data = parts(packed(ARRAYS, {}))
    header["a"] |= change
    with pytest.raises(ModelError, match="file"):
        unpacked(joined(header, data), "file")


def test_axes_beyond_all_arrays_are_refused_though_they_hold_nothing():
    entry = {"dtype": "F32", "shape": [0, 2**47, 2**47], "data_offsets": [0, 0]}
    with pytest.raises(ModelError, match="file.*shape"):
        unpacked(joined({"a": entry}, b""), "file")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 7,
        b"PK\x03\x04 a zip archive",
        b"\xff" * 8 + b"{}",
        joined(b"{", b""),
        joined(b"[1]", b""),
        joined(b"{" + b'"a":{' * 5000, b""),
        joined(b"{" + b",".join([b'"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'] * 2) + b"}", b""),
        joined(b'{"__metadata__":{"card":1}}', b""),
        joined(b'{"__metadata__":[]}', b""),
        joined(b'{"__metadata__":{"card":NaN}}', b""),
        joined(b"{\xff}", b""),
        packed(ARRAYS, {}) + b"more",
    ],
    ids=range(13),
)
def test_what_is_no_file_of_arrays_is_refused(content):
    with pytest.raises(ModelError, match="file"):
        unpacked(content, "file")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(value):
    bad = {"a": np.array([1.0, value])}
    with pytest.raises(ModelError, match="finite"):
        packed(bad, {})
    content = packed({"a": np.array([1.0, 7.0])}, {}).replace(np.float64(7).tobytes(), np.float64(value).tobytes())
    with pytest.raises(ModelError, match="finite"):
        unpacked(content, "file")


def test_damaged_models_are_refused_or_whole(runs, file):
    """Whatever a damage leaves readable is a model: it loads, and predicts finite numbers."""
    content = model_bytes(runs["binary"].model())
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        kind = rng.integers(3)
        place = int(rng.integers(len(content)))
        if kind == 0:
            damaged = damaged[:place]
        elif kind == 1:
            damaged[place] ^= 1 << int(rng.integers(8))
        else:
            damaged[place : place + int(rng.integers(1, 40))] = rng.bytes(int(rng.integers(0, 40)))
        try:
            model = model_of(bytes(damaged), "file")
        except ModelError:
            refused += 1
            continue
        try:
            assert np.isfinite(model.decision_function(file)).all()
        except TacitError:  # a column's name was changed, say
            continue
    assert refused > 150


def scale_of(column, low, high):
    return {"column": column, "by": "bounds", "numbers": [[low, high]]}


CHANGES = {
    "version": lambda card: card | {"format": 2},
    "unknown key": lambda card: card | {"code": "import os"},
    "classes": lambda card: card | {"classes": ["a", "b", "c"]},
    "class twice": lambda card: card | {"classes": ["a", "a"]},
    "task": lambda card: card | {"task": "multiclass"},
    "features": lambda card: card | {"features": 7},
    "owner twice": lambda card: card | {"owners": ["a", "a", "b"]},
    "too few owners": lambda card: card | {"owners": ["a"]},
    "no owners": lambda card: card | {"owners": []},
    "objective": lambda card: card | {"objective": {"name": "os.system"}},
    "arguments": lambda card: card | {"objective": {"name": "logistic", "arguments": {"l2": -1}}},
    "arguments beyond numbers": lambda card: card | {"objective": {"name": "logistic", "arguments": {"l2": 10**400}}},
    "huge": lambda card: card | {"objective": {"name": "cnn", "arguments": {"hidden": 10**12}}, "task": "multiclass"},
    "type": lambda card: card | {"features": "3"},
    "preprocessing": lambda card: card | {"preprocessing": {"inputs": []}},
    "preprocessing of a later version": lambda card: card | {"preprocessing": card["preprocessing"] | {"logarithm": 1}},
    "input of a later version": lambda card: (
        card
        | {
            "preprocessing": card["preprocessing"]
            | {"inputs": [each | {"power": 2} for each in card["preprocessing"]["inputs"]]}
        }
    ),
    "bounds that are none": lambda card: (
        card | {"preprocessing": card["preprocessing"] | {"scales": [scale_of("age", 1.0, 1.0)]}}
    ),
    "scaled twice": lambda card: (
        card | {"preprocessing": card["preprocessing"] | {"scales": [scale_of("age", 0.0, 1.0)] * 2}}
    ),
    "bias": lambda card: card | {"bias": True},
    "epsilon": lambda card: card | {"privacy": card["privacy"] | {"epsilon": -1.0}},
    "a promise without a number": lambda card: card | {"privacy": card["privacy"] | {"private": True}},
    "missing": lambda card: {key: value for key, value in card.items() if key != "privacy"},
    "no object": lambda card: [card],
}


@pytest.mark.parametrize("change", CHANGES)
def test_cards_that_do_not_fit_are_refused(runs, change):
    header, data = parts(model_bytes(runs["binary"].model()))
    card = json.loads(header["__metadata__"]["card"])
    model_of(joined(header, data), "file")
    header["__metadata__"]["card"] = json.dumps(CHANGES[change](card))
    with pytest.raises(ModelError, match="file|objective"):
        model_of(joined(header, data), "file")


def test_arrays_that_do_not_belong_to_the_objective_are_refused(runs):
    header, data = parts(model_bytes(runs["binary"].model()))
    for change in (
        lambda h: h | {"extra": h["default.weights"] | {"shape": [0], "data_offsets": [0, 0]}},
        lambda h: {key.replace("default.weights", "default.other"): value for key, value in h.items()},
    ):
        with pytest.raises(ModelError, match="file"):
            model_of(joined(change(header), data), "file")


def test_files_are_not_overwritten(runs, tmp_path):
    model = runs["binary"].model()
    path = model.save(tmp_path / "model.safetensors")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="force"):
        runs["regression"].model().save(path)
    assert path.read_bytes() == before
    runs["regression"].model().save(path, force=True)
    assert tacit.load_model(path).task == "regression"
    assert [each.name for each in tmp_path.iterdir()] == ["model.safetensors"]
    with pytest.raises(ConfigError, match="nowhere"):
        model.save(tmp_path / "nowhere" / "model.safetensors")


def test_places_without_a_model_say_so(tmp_path):
    for place in (tmp_path, tmp_path / "nothing", "/dev/zero"):
        with pytest.raises(ModelError, match=str(place)):
            tacit.load_model(place)


def private_run(mechanism, last=1, seed=0):
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = np.sign(x[:, 0])
    y[0] = last
    stream = tacit.streams.from_arrays(x, y, [range(20), range(20, 40)], exhausted="stop")
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), mechanism=mechanism)
    return tacit.simulate(method, tacit.graphs.directed_ring(2), stream, rounds=20, seed=seed)


def test_noise_that_follows_from_a_seed_hides_nothing_and_the_card_says_so():
    """Whoever knows all records but one, and the seed, tries the last one until the model is the same to the bit."""
    noise = tacit.privacy.laplace(0.1, clip=1.0, norm="l1")
    model = private_run(noise, last=-1, seed=3).model()
    tried = {y: private_run(noise, last=y, seed=model.card.made.seed).model().params for y in (-1, 1)}
    assert [y for y, params in tried.items() if np.array_equal(params, model.params)] == [-1]
    assert model.card.privacy.model == SIMULATED


def test_privacy_in_the_card_is_that_of_the_account():
    run = private_run(tacit.privacy.laplace(2.0, clip=1.0, norm="l1"))
    card = run.model().card
    assert card.privacy.words == run.privacy.words()
    assert (card.privacy.epsilon, card.privacy.delta) == (run.privacy.guarantee.epsilon, run.privacy.guarantee.delta)
    assert card.privacy.model == SIMULATED
    assert card.data.fingerprint is None
    assert run.model().without_figures().card.figures == {}
    open_run = private_run(tacit.core.contract.unprotected)
    again = private_run(tacit.core.contract.unprotected)
    found = open_run.model().card.data.fingerprint
    assert found is not None
    assert found == again.model().card.data.fingerprint


def test_models_that_hold_what_was_not_released_say_so():
    """Under graph-homomorphic noise an agent keeps a copy that makes up for its noise: no promise covers the model."""
    mechanism = tacit.privacy.graph_homomorphic(0.5, clip=1.0)
    method = tacit.algorithms.consensus(tacit.objectives.logistic(), mechanism=mechanism)
    run = tacit.simulate(method, tacit.graphs.complete(3), tacit.streams.logistic_drift(3, 2), rounds=3)
    assert run.privacy.private
    assert privacy_card(run.privacy.statement, run.privacy.summary()).model == NOT_COVERED


def test_large_runs_keep_their_mean_alone(runs, monkeypatch):
    from tacit.results import run_model

    run = runs["binary"]
    monkeypatch.setattr(run_model, "MOST_BYTES", 8)
    kept = run_model.kept_model(run)
    assert kept.owned is None
    assert kept.card.notes
    jax.tree.map(np.testing.assert_array_equal, kept.params, run.model().params)
    monkeypatch.setattr(run_model, "MOST_NAMES", 2)
    assert run.model().card.took_part == {}
    assert run.model(owner="south").card.which == "south"
