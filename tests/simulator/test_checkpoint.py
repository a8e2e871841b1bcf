"""A run that was stopped goes on to the very figures it would have reached; nothing else is taken for its checkpoint."""

import fcntl
import io
import os
import signal
import zipfile
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import algorithms, graphs, objectives, streams
from tacit.core.errors import ResultError
from tacit.graphs import Channel, Delay
from tacit.privacy import correlated
from tacit.simulator import checkpoint as checkpoints
from tacit.simulator import data as round_data
from tacit.simulator import data_identity, simulate
from tacit.simulator.loop_state import LoopState, PackedState, StateForm
from tests.simulator import specimens
from tests.simulator.test_driver import same_figures

AGENTS, ROUNDS = 5, 9
LATE = Channel(loss=0.2, delay=Delay(0.5, 2))


def objective(pull=1.0):
    return objectives.from_loss(lambda params, batch: pull * specimens.loss(params, batch), np.zeros(specimens.DIM + 3))


def digraph(seed=0):
    return graphs.random_digraph(AGENTS, out_degree=2, seed=seed)


def in_chunks_of_two(monkeypatch, dtype_bytes=4):
    monkeypatch.setattr(round_data, "RESIDENT_BYTES", 1)
    monkeypatch.setattr(round_data, "CHUNK_BYTES", 2 * AGENTS * specimens.DIM * dtype_bytes)


CASES = {
    "resident, repeats": (algorithms.local_online, {"repeats": 2, "node_loss": 1}, False),
    "chunks, messages under way": (algorithms.loss_tolerant_push_sum, {"channel": LATE, "dtype": "float64"}, True),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_was_stopped_equals_one_that_was_not(case, monkeypatch, tmp_path):
    make, settings, chunked = CASES[case]
    if chunked:
        in_chunks_of_two(monkeypatch, 8)
    algorithm, stream = make(objective()), specimens.targets(AGENTS, ROUNDS)
    settings = {**settings, "record_every": 4, "seed": 3}
    path = tmp_path / "run" / "checkpoint.npz"
    for rounds in (3, ROUNDS):
        resumed = simulate(algorithm, digraph(), stream, rounds=rounds, checkpoint=path, **settings)
        assert resumed.rounds == rounds
    whole = simulate(algorithm, digraph(), stream, rounds=ROUNDS, **settings)
    # The last round of the first part was recorded too.
    assert resumed.recorded_rounds.tolist() == [3, 4, 8, 9]
    keep = np.isin(resumed.recorded_rounds, whole.recorded_rounds)
    resumed.recorded_rounds = resumed.recorded_rounds[keep]
    resumed.recorded = {name: values[:, keep] for name, values in resumed.recorded.items()}
    same_figures(resumed, whole)


@pytest.mark.parametrize(
    ("make", "network"),
    [
        pytest.param(algorithms.online_push_sum, digraph(), id="everybody"),
        pytest.param(
            partial(algorithms.fedavg, cohort=2),
            graphs.star_roles(AGENTS),
            id="those who answer a call",
            marks=pytest.mark.covered_by("everybody, and the sampled case of the contract"),
        ),
    ],
)
def test_correlated_noise_goes_on_from_its_memory(make, network, tmp_path):
    """In the middle of a block, and where agents have released unequally often."""
    algorithm = make(objective(), step=0.1, mechanism=correlated(rounds=6, rho=0.5, participation=(6, 1)))
    run = partial(simulate, algorithm, network, specimens.targets(AGENTS, ROUNDS), seed=3)
    for rounds in (ROUNDS // 2, ROUNDS):
        resumed = run(rounds=rounds, checkpoint=tmp_path / "checkpoint.npz")
    whole = run(rounds=ROUNDS)
    jax.tree.map(np.testing.assert_array_equal, resumed.models, whole.models)
    assert resumed.privacy.guarantee == whole.privacy.guarantee


def short_run(path, algorithm=None, graph=None, stream=None, **settings):
    return simulate(
        algorithm or algorithms.local_online(objective(), step=0.1),
        graph or digraph(),
        stream or specimens.targets(AGENTS, 4),
        checkpoint=path,
        **{"rounds": 4, "seed": 0, **settings},
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "state.npz"
    short_run(path)
    return path


class TestOthers:
    """Checkpoints of other runs."""

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"algorithm": algorithms.local_online(objective(), step=0.2)}, "program"),
            ({"algorithm": algorithms.local_online(objective(pull=2.0), step=0.1)}, "program"),
            ({"stream": specimens.targets(AGENTS, 4, seed=1)}, "data"),
            ({"channel": Channel(loss=0.1)}, "channel"),
            ({"seed": 1}, "seed"),
            ({"repeats": 2}, "repeats"),
            ({"dtype": "float64"}, "dtype"),
            ({"node_loss": 0}, "figures"),
            ({"start": np.ones(specimens.DIM + 3)}, "start"),
        ],
        ids=["step", "loss", "data", "channel", "seed", "repeats", "precision", "figures", "start"],
    )
    def test_of_another_run_is_refused(self, path, change, says):
        before = path.read_bytes()
        with pytest.raises(ResultError, match=f"another run: .*{says}"):
            short_run(path, **change)
        assert path.read_bytes() == before

    def test_of_another_graph_is_refused(self, tmp_path):
        algorithm = algorithms.online_push_sum(objective())
        path = tmp_path / "state.npz"
        short_run(path, algorithm, graphs.directed_ring(AGENTS), rounds=1)
        relabelled = graphs.directed_ring(AGENTS).relabelled([1, 0, 2, 3, 4])
        assert relabelled.name == graphs.directed_ring(AGENTS).name
        with pytest.raises(ResultError, match="another run: links"):
            short_run(path, algorithm, relabelled, rounds=1)

    def test_with_more_rounds_than_asked_for_is_refused(self, path):
        with pytest.raises(ResultError, match="4 rounds, .* 3"):
            short_run(path, rounds=3)

    def test_of_a_finished_run_is_the_run(self, path):
        again = short_run(path)
        assert again.rounds == 4
        assert not again.partial
        same_figures(again, short_run(None))


ROWS = np.random.default_rng(5).normal(size=(12, AGENTS, specimens.DIM)).astype(np.float32)


def rows(start, stop):
    return ROWS[np.arange(start, stop) % len(ROWS)]


def other_rows(start, stop, *, at):
    """The same rows, but for one number of one agent in one round."""
    found = rows(start, stop)
    found[np.arange(start, stop) == at, 2, 1] += 1
    return found


def endless(function):
    return streams.from_function(function, agents=AGENTS)


def in_arrays(x):
    """Each agent reads twelve rows of its own, over and over."""
    owner = np.arange(12 * AGENTS) % AGENTS
    return streams.from_arrays(x, np.ones(len(x)), owner, batch=2, shuffle_seed=None, exhausted="cycle")


# A checkpoint goes on only with the data of which it was made, in whatever round others differ.


@pytest.mark.parametrize("at", [1, 5])
def test_one_number_in_a_round_that_was_read_is_noticed(tmp_path, at):
    path = tmp_path / "state.npz"
    short_run(path, stream=endless(rows), rounds=6)
    with pytest.raises(ResultError, match="another run: .*data"):
        short_run(path, stream=endless(partial(other_rows, at=at)), rounds=8)
    assert short_run(path, stream=endless(rows), rounds=8).rounds == 8


def test_one_number_in_a_round_still_to_come_is_noticed(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    stop_after(monkeypatch, 2)
    assert short_run(path, stream=endless(rows), rounds=8, record_every=2).partial
    with pytest.raises(ResultError, match="another run: .*data"):
        short_run(path, stream=endless(partial(other_rows, at=7)), rounds=8, record_every=2)


@pytest.mark.parametrize("at", [2, 4, 11])
def test_of_data_too_large_to_be_read_through_the_ends_and_the_last_round_are_known(tmp_path, monkeypatch, at):
    monkeypatch.setattr(data_identity, "PIECE_BYTES", 1)  # one round each
    monkeypatch.setattr(data_identity, "MOST_PIECES", 4)  # 0, 3, 7, 11
    path = tmp_path / "state.npz"
    stop_after(monkeypatch, 5)
    short_run(path, stream=endless(rows), rounds=12, record_every=5)
    if at in {4, 11}:
        with pytest.raises(ResultError, match="another run: .*data"):
            short_run(path, stream=endless(partial(other_rows, at=at)), rounds=12, record_every=5)
    else:  # the price of not reading all
        short_run(path, stream=endless(partial(other_rows, at=at)), rounds=12, record_every=5)


def test_of_rows_in_arrays_all_are_known_however_large(tmp_path, monkeypatch):
    monkeypatch.setattr(data_identity, "PIECE_BYTES", 1)
    monkeypatch.setattr(data_identity, "MOST_PIECES", 4)
    x = np.random.default_rng(6).normal(size=(12 * AGENTS, 3)).astype(np.float32)
    algorithm, path = algorithms.local_online(objectives.logistic()), tmp_path / "state.npz"
    short_run(path, algorithm, stream=in_arrays(x), rounds=20)
    assert short_run(path, algorithm, stream=in_arrays(x), rounds=22).rounds == 22
    x[20, 0] += 1
    with pytest.raises(ResultError, match="another run: .*data"):
        short_run(path, algorithm, stream=in_arrays(x), rounds=24)


def test_a_stream_that_repeats_is_not_one_that_does_not(tmp_path):
    path = tmp_path / "state.npz"
    again = streams.from_function(lambda a, b: rows(0, 3)[np.arange(a, b) % 3], agents=AGENTS, period=3)
    short_run(path, stream=again, rounds=6)
    with pytest.raises(ResultError, match="another run: .*data"):
        short_run(path, stream=endless(rows), rounds=6)


def test_a_stream_that_ends_sooner_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    short_run(path, stream=specimens.targets(AGENTS, 6), rounds=6, record_every=2)
    with pytest.raises(ResultError, match="rounds"):
        short_run(path, stream=specimens.targets(AGENTS, 4), rounds=4, record_every=2)


def stop_after(monkeypatch, rounds):
    """Have the next run end as Ctrl-C would, after so many rounds."""
    save = checkpoints.save

    def stops(path, log, carry):
        save(path, log, carry)
        if log.rounds == rounds:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(checkpoints, "save", stops)


def test_two_runs_do_not_write_one_checkpoint(tmp_path):
    path = tmp_path / "state.npz"
    with (tmp_path / "state.npz.lock").open("w") as file:
        file.write("12345\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ResultError, match=r"state\.npz.*12345"):
            short_run(path)
    short_run(path)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def example_carry(fill=1.0):
    form = StateForm(None, ())
    packed = PackedState({"float32": jnp.full((4, 3), fill)}, (jnp.full((4, 2, 2), fill),), form)
    return LoopState(jnp.int32(3), {"peer": (packed,)}, (None,), (None,))


def example_log(rounds=3):
    log = checkpoints.Log({"algorithm": "example", "seed": 1}, ["consensus"])
    if rounds:
        log.add(rounds, np.ones((rounds, 2, 1)), np.ones((1, 1, 1), np.int32), np.ones((rounds, 1, 2)))
        log.record(rounds, {"consensus": np.ones(1)})
    return log


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "state.npz"
    checkpoints.save(path, example_log(), example_carry())
    return path


def test_a_file_cut_off_anywhere_is_refused(saved):
    whole = saved.read_bytes()
    for length in {0, 1, 10, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1}:
        saved.write_bytes(whole[:length])
        log = example_log(0)
        with pytest.raises(ResultError, match="delete it to start over"):
            checkpoints.load(saved, log, example_carry())
        assert log.rounds == 0


def test_a_file_with_a_flipped_bit_is_refused_or_says_the_same(saved):
    whole = saved.read_bytes()
    generator = np.random.default_rng(0)
    refused = 0
    for place in generator.choice(len(whole), 300, replace=False):
        broken = bytearray(whole)
        broken[place] ^= 1 << int(generator.integers(8))
        saved.write_bytes(bytes(broken))
        log = example_log(0)
        try:
            carry = checkpoints.load(saved, log, example_carry(0.0))
        except ResultError:
            refused += 1
            assert log.rounds == 0
            continue
        assert log.rounds == 3
        np.testing.assert_array_equal(log.figures(), np.ones((3, 2, 1)))
        np.testing.assert_array_equal(carry.states["peer"][0].columns["float32"], np.ones((4, 3)))
    assert refused > 100


def test_other_files_are_refused(saved):
    buffer = io.BytesIO()
    np.savez(buffer, something=np.ones(3))
    text = io.BytesIO()
    with zipfile.ZipFile(text, "w") as archive:
        archive.writestr("about.npy", "no array")
    pickled = io.BytesIO()
    np.savez(pickled, about=np.array({"a": 1}, dtype=object))
    number = io.BytesIO()
    np.savez(number, about=np.array("7"))
    for content in (b"hello", buffer.getvalue(), text.getvalue(), pickled.getvalue(), number.getvalue()):
        saved.write_bytes(content)
        with pytest.raises(ResultError, match="delete it to start over"):
            checkpoints.load(saved, example_log(0), example_carry())


def test_one_with_a_part_missing_is_refused(saved):
    with np.load(saved) as file:
        arrays = dict(file.items())
    for name in arrays:
        np.savez(saved, **{key: value for key, value in arrays.items() if key != name})
        log = example_log(0)
        with pytest.raises(ResultError, match="start over"):
            checkpoints.load(saved, log, example_carry())
        assert log.rounds == 0


def test_an_interrupted_save_leaves_the_old_one(saved, monkeypatch):
    before = saved.read_bytes()

    def fails(*args):
        raise OSError("no space left on device")

    def writes_half(file, **arrays):
        file.write(b"PK half of it")
        raise KeyboardInterrupt

    for target, name, replacement, error in [
        (checkpoints.os, "fsync", fails, OSError),
        (checkpoints.np, "savez", writes_half, KeyboardInterrupt),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(target, name, replacement)
            with pytest.raises(error):
                checkpoints.save(saved, example_log(), example_carry(7.0))
        assert saved.read_bytes() == before
    checkpoints.save(saved, example_log(), example_carry(7.0))
    carry = checkpoints.load(saved, example_log(0), example_carry())
    assert float(carry.states["peer"][0].others[0][0, 0, 0]) == 7.0
    assert [file.name for file in saved.parent.iterdir()] == ["state.npz"]
