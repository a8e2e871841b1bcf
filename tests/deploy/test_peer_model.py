"""The model of a peer, out of its store: the one that it predicts with, while it runs and afterwards."""

import numpy as np
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError, TacitError
from tacit.deploy.model import peer_model
from tacit.deploy.peer import Peer
from tacit.models.card import COVERED, NOT_PRIVATE
from tacit.privacy.ledger import inspect
from tests.deploy.homes import LAPLACE, found, job_text
from tests.deploy.peers import ALONE, alone, run

X = np.random.default_rng(0).normal(size=(6, 2))


def test_the_model_of_a_peer_is_the_one_that_it_predicts_with(tmp_path):
    job = job_text(members=ALONE, mechanism=LAPLACE)
    file = alone(tmp_path, job=job, privacy="epsilon = 100.0", rounds=f"patience = 0.05\nlast = {len(X)}")

    async def scenario():
        async with await Peer.start(file) as peer:
            for x in X:
                await peer.learn(x, np.sign(x[0]))
            await peer.finished()
            running = peer_model(file)
            said = np.array([peer.predict(x) for x in X])
            np.testing.assert_allclose(running.decision_function(X), said, rtol=1e-5, atol=1e-5)  # a peer has float32
            assert running.card.made.rounds == peer.round

    run(scenario())
    before = sorted((path.name, path.stat().st_mtime_ns) for path in load_peer(file).store.parent.iterdir())
    out = tmp_path / "model.safetensors"
    result = CliRunner().invoke(app, ["peer", "model", str(file), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert sorted((path.name, path.stat().st_mtime_ns) for path in load_peer(file).store.parent.iterdir()) == before
    model = tacit.load_model(out)
    assert out.stat().st_mode & 0o077 == 0
    spent = inspect(load_peer(file).store, lambda replay: replay.run().account.spent())
    assert model.card.privacy.epsilon == spent.epsilon == 2.0
    assert model.card.privacy.model == COVERED
    assert model.card.which == "hospital-a"
    assert set(model.predict(X)) <= {-1, 1}
    assert CliRunner().invoke(app, ["peer", "model", str(file), "--out", str(out)]).exit_code == 2


def test_a_peer_that_follows_a_file_knows_its_columns(tmp_path):
    rows = "".join(f"{k},{a},{int(a > 0)},{b}\n" for k, (a, b) in enumerate(X.tolist()))
    data = tmp_path / "rows.csv"
    data.write_text("id,age,y,dose\n" + rows)
    stream = f'kind = "csv"\npath = "{data}"\nkey = "id"'
    file = alone(tmp_path, stream=stream, rounds="patience = 0.05\nlast = 6")

    async def scenario():
        async with await Peer.start(file) as peer:
            await peer.finished()
            assert peer_model(file).card.columns == ["age", "dose", "ones"]
            np.testing.assert_allclose(
                peer_model(file).decision_function(data), [peer.predict(x) for x in X], rtol=1e-5, atol=1e-5
            )

    run(scenario())
    model = peer_model(file)
    assert model.card.label == "y"
    assert model.card.privacy.model == NOT_PRIVATE
    assert not model.card.privacy.private


def test_peers_without_a_model_say_so(tmp_path):
    file = found(tmp_path, job_text(members=ALONE), ALONE, identities=False)["hospital-a"]
    with pytest.raises(ConfigError, match="hospital-a"):
        peer_model(file)
    store = load_peer(file).store
    store.parent.mkdir(parents=True)
    store.write_bytes(b"no store")
    with pytest.raises(TacitError, match="store"):
        peer_model(file)
