"""Swarms: real processes do what the simulator does, and none is left behind."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.board.runs import Runs
from tacit.cli.swarm import app
from tacit.core.errors import ConfigError, RemoteError
from tacit.deploy import comparison
from tacit.deploy.comparison import Outcome, rounds_of
from tacit.deploy.member import MemberSettings
from tacit.deploy.rehearsal import job_hash, plan_for
from tacit.deploy.swarm import Privacy, Swarm
from tacit.experiments import build, load

EXPERIMENT = """
[run]
name = "three"
rounds = 10
seed = 5
dtype = "float64"
regret_points = 0

[graph]
kind = "complete"
agents = 3

[stream]
kind = "logistic_drift"
dim = 4
batch = 3

[objective]
kind = "logistic"
l2 = 1e-3

[[algorithm]]
name = "online_push_sum"
step = 0.5

[[algorithm]]
name = "distributed_online"
step = 0.5

[algorithm.mechanism]
kind = "laplace"
epsilon = 1.0
clip = 1.0
norm = "l1"
"""
PUSH_SUM, PRIVATE = 0, 1


def problem(folder: Path, text: str = EXPERIMENT, **overrides):
    file = folder / "three.toml"
    file.write_text(text)
    return build(load(file, **overrides))


TWO = EXPERIMENT.replace("agents = 3", "agents = 2")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_swarm_is_the_simulator_even_after_a_member_was_killed(tmp_path):
    """The private one, through kill -9: the member goes on from its store at its old address, unasked."""
    made = problem(tmp_path, rounds=40)
    with Swarm(made, PRIVATE, tmp_path / "swarm") as swarm:
        swarm.await_round("peer-1", 60)
        old = swarm.members["peer-1"].port
        swarm.kill("peer-1")
        assert not (tmp_path / "swarm" / "peer-1" / "models" / "00000040.npz").exists()  # there is something left to do
        assert swarm.members["peer-1"].exit_codes == [-signal.SIGKILL]
        swarm.restart("peer-1")
        swarm.wait(60)
        assert swarm.members["peer-1"].port == old
        pids = [member.pid for member in swarm.members.values()]
        codes = swarm.stop()
    assert codes == dict.fromkeys(swarm.members, 0)
    assert not any(map(alive, pids))
    found = swarm.models()
    assert np.ptp(found[-1]) > 0
    np.testing.assert_allclose(found, rounds_of(made, PRIVATE)[0], rtol=0, atol=1e-6)
    run = tacit.simulate(made.algorithms[PRIVATE], made.graph, made.stream, rounds=40, seed=5, dtype="float64")
    np.testing.assert_allclose(found[-1], run.models[0], rtol=0, atol=1e-6)


def command(*arguments: object) -> int | None:
    with pytest.raises(SystemExit) as caught:
        app(args=["run", *map(str, arguments)], prog_name="tacit swarm")
    return caught.value.code


def test_the_command_compares_and_writes_its_figures(tmp_path, capsys):
    file, out = tmp_path / "one.toml", tmp_path / "out"
    file.write_text(EXPERIMENT.partition('[[algorithm]]\nname = "distributed_online"')[0])
    assert command(file, "--out", out) == 0
    (figures,) = json.loads((out / "swarm.json").read_text())["algorithms"]
    assert (figures["verdict"], figures["rounds"], figures["processes"]) == ("same", 10, 3)
    assert figures["difference"] <= 1e-6
    assert figures["final_difference"] <= 1e-6
    assert figures["loss"] == pytest.approx(figures["simulated_loss"], abs=1e-6)
    assert figures["rounds_per_second"] > 0
    (live,) = Runs(out).all()
    assert (live.state, live.done) == ("done", 10)
    assert 0 < live.figures["loss"] < 1
    assert live.figures["consensus"] > 0
    assert "same" in capsys.readouterr().out
    assert command(file, "--out", out) == 2
    assert "not empty" in capsys.readouterr().err


@pytest.mark.slow
def test_booked_members_draw_their_own_noise_and_charge_it(tmp_path):
    made = problem(tmp_path, TWO, rounds=3)
    outcome = comparison.compare(made, PRIVATE, tmp_path / "swarm", privacy=Privacy(epsilon=1.5), limit=60)
    assert outcome.difference is None
    assert outcome.within(0.0)
    for facts in outcome.spending.values():
        assert facts["releases"] == 3
        assert facts["budget"]["spent"] == pytest.approx(1.0)  # every record is read once
        assert facts["budget"]["left"] == pytest.approx(1.5)  # so that the next ones have the whole budget
        assert not facts["budget"]["runs_out"]
    first = np.load(tmp_path / "swarm" / "peer-0" / "models" / "00000001.npz")["arr_0"]
    assert np.abs(first - rounds_of(made, PRIVATE)[0][0, 0]).max() > 1e-6


def test_a_run_of_a_few_rounds_has_a_loss_too(tmp_path):
    made = problem(tmp_path, TWO, rounds=3)
    models = rounds_of(made, PUSH_SUM)[0]
    assert np.isfinite(comparison._last_loss(made, models))
    assert np.isnan(comparison._last_loss(problem(tmp_path, TWO, rounds=1), models))


def test_a_member_that_dies_is_reported_with_the_end_of_its_log(tmp_path, monkeypatch):
    save = MemberSettings.save

    def save_rubbish_for_one(self, directory):
        save(self, directory)
        if self.name == "peer-1":
            (directory / "member.json").write_text('{"nonsense": 1}')

    monkeypatch.setattr(MemberSettings, "save", save_rubbish_for_one)
    swarm = Swarm(problem(tmp_path, TWO), PUSH_SUM, tmp_path / "swarm")
    with (
        pytest.raises(RemoteError, match=r"(?s)peer-1 .*exit code 1.*'nonsense'"),
        swarm,
    ):
        pass
    assert not any(alive(member.pid) for member in swarm.members.values())


@pytest.mark.slow
def test_members_do_not_outlive_a_launcher_that_is_killed(tmp_path):
    (tmp_path / "two.toml").write_text(TWO.replace("rounds = 10", "rounds = 1000000"))
    launcher = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tacit.deploy.swarm import Swarm\n"
        "from tacit.experiments import build, load\n"
        "folder = Path(sys.argv[1])\n"
        "swarm = Swarm(build(load(folder / 'two.toml')), 0, folder / 'swarm')\n"
        "swarm.start()\n"
        "swarm.await_round('peer-0', 60)\n"
        "print(*[member.pid for member in swarm.members.values()], flush=True)\n"
        "swarm.wait(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", launcher, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        watched = [os.pidfd_open(pid) for pid in pids]
        process.kill()
    assert len(pids) == 2
    for member in watched:
        ended, _, _ = select.select([member], [], [], 60)
        os.close(member)
        assert ended


@pytest.mark.parametrize(
    ("channel", "key"),
    [("loss = 0.1", "loss = 0.1"), ("delay = { p = 0.2, longest = 3 }", "delay = {'p': 0.2, 'longest': 3}")],
)
def test_a_channel_is_refused(tmp_path, capsys, channel, key):
    (tmp_path / "lossy.toml").write_text(EXPERIMENT.replace("[graph]", f"[run.channel]\n{channel}\n\n[graph]"))
    assert command(tmp_path / "lossy.toml") == 2
    assert f"[run.channel] {key}" in capsys.readouterr().err


OUTCOME = Outcome("push-sum", 10, 3, False, 2e-6, 4, 0.0, 0.5, 0.5, 1.0, 9.0, {})


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (OUTCOME, 1),
        (OUTCOME._replace(difference=0.0, final_difference=2e-6), 1),
        (OUTCOME._replace(difference=float("inf")), 1),
        (OUTCOME._replace(difference=1e-6), 0),
    ],
)
def test_a_difference_beyond_the_tolerance_is_exit_code_1(tmp_path, monkeypatch, capsys, outcome, code):
    monkeypatch.setattr(comparison, "compare", lambda *args, **settings: outcome)
    (tmp_path / "three.toml").write_text(EXPERIMENT.replace("rounds = 10", "rounds = 10\nrepeats = 4"))
    assert command(tmp_path / "three.toml") == code
    out = capsys.readouterr().out
    assert ("DIFFERENT" in out) == (code == 1)
    assert "REHEARSAL" in out
    assert "only the first one is run" in out


def test_a_difference_that_is_no_number_is_infinite(tmp_path):
    good = {"w": np.zeros((2, 3, 4))}
    bad = {"w": np.array(good["w"])}
    bad["w"][1, 2, 3] = np.nan
    np.testing.assert_array_equal(comparison.largest_difference(good, bad), [0, np.inf])
    bad["w"][1, 2, 3] = -2
    np.testing.assert_array_equal(comparison.largest_difference(good, bad), [0, 2])


@pytest.mark.parametrize("options", [["--booked"], ["--epsilon", "1"], ["--delta", "1e-5"]])
def test_a_budget_goes_with_booking(tmp_path, capsys, options):
    assert command(tmp_path / "none.toml", *options) == 2
    assert "--booked needs --epsilon" in capsys.readouterr().err


def test_a_job_is_one_algorithm_of_one_experiment(tmp_path):
    config = problem(tmp_path).config
    other = problem(tmp_path, EXPERIMENT.replace("l2 = 1e-3", "l2 = 2e-3")).config
    seeded = problem(tmp_path, seed=6).config
    hashes = {job_hash(c, k) for c in (config, other, seeded) for k in (PUSH_SUM, PRIVATE)}
    assert len(hashes) == 6
    assert all(len(found) == 64 for found in hashes)
    assert job_hash(problem(tmp_path).config, 0) == job_hash(config, 0)


def test_only_members_have_plans(tmp_path):
    made = problem(tmp_path)
    assert plan_for(made, PUSH_SUM, "peer-2").agent == 2
    with pytest.raises(ConfigError, match="no peer 'peer-3'"):
        plan_for(made, PUSH_SUM, "peer-3")
