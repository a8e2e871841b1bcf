"""Jobs: what is refused and how it is said, and when two files are the same job."""

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.algorithms import REGISTRY
from tacit.algorithms.registry import Entry
from tacit.config.job import load_job
from tacit.core.errors import ConfigError
from tests.contract.on_paper import sampled_fedavg
from tests.deploy.homes import LAPLACE, job_text

EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals" / "job.toml"


def loaded(tmp_path, text):
    file = tmp_path / "job.toml"
    file.write_text(text)
    return load_job(file)


def refusal(tmp_path, text):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert str(tmp_path / "job.toml") in str(caught.value)
    return str(caught.value).replace(str(tmp_path / "job.toml"), "job.toml")


# -- refusals --------------------------------------------------------------------------------------------------------------


def in_job(line):
    return job_text().replace("[job]\n", f"[job]\n{line}\n")


def with_objective(lines):
    return job_text(objective=lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[job\n", ["not valid TOML", "line 1"]),
        (job_text().replace("[members]", "[member]"), ["[member] is unknown", "job, members, clusters, dynamics"]),
        (job_text().replace("[objective]\n", "").replace('kind = "logistic"\n', ""), ["no [objective]"]),
        ("job = 3\n" + job_text().replace("[job]\n", "[x]\n"), ["unknown"]),
        ("job = 3\n", ["job = 3 is no table", "write [job]"]),
        (job_text(mechanism='robust = "medan"'), ["[algorithm.robust]", "rule = 'medan'", "did you mean 'median'?"]),
        (job_text(mechanism='average = "men"'), ["[algorithm] average = 'men'", "did you mean 'mean'?"]),
        (in_job("epochs = 2"), ["[job] epochs = 2", "did you mean 'epoch'?"]),
        (in_job("epoch = 0"), ["[job] epoch = 0", "greater than or equal to 1"]),
        (in_job('epoch = "1"'), ["[job] epoch = '1'", "whole number"]),
        (in_job("epoch = 1.5"), ["[job] epoch = 1.5", "whole number"]),
        (job_text(features=0), ["[job] features = 0", "greater than or equal to 1"]),
        (job_text(features=-3), ["[job] features = -3"]),
        (job_text(features="true"), ["[job] features = true", "whole number"]),
        (job_text().replace("features = 2\n", ""), ["[job] has no 'features'", "add features = ..."]),
        (in_job("batch = 0"), ["[job] batch = 0"]),
        (in_job('dtype = "float16"'), ["[job] dtype = 'float16'", "'float32' or 'float64'"]),
        (in_job("bias = 1"), ["[job] bias = 1", "true or false"]),
        (in_job("seed = -1"), ["[job] seed = -1"]),
        (in_job("longest_delay = -1"), ["[job] longest_delay = -1"]),
        (in_job("longest_delay = 2"), ["[job] longest_delay = 2", "'online_push_sum' waits", "remove it"]),
        (job_text(members=()), ["[members] peer = []", "at least one name in quotes"]),
        (job_text().replace("peer = [", "peer = 7 # ["), ["[members] peer = 7", "list of at least one name"]),
        (job_text().replace("peer = [", "peers = ["), ["[members] has peers", "needs peer ="]),
        (job_text().replace("peer = [", "server = []\npeer = ["), ["[members] has peer, server", "needs peer ="]),
        (job_text(members=("a", "b", "a")), ["[members]: 'a' is there twice", "remove one"]),
        (job_text(members=("Hospital A", "b")), ["[members] peer:", "'Hospital A'", "lower-case"]),
        (with_objective('kind = "logistics"'), ["[objective] kind = 'logistics'", "did you mean 'logistic'?"]),
        (with_objective("l2 = 0.1"), ["[objective] has no kind", "logistic"]),
        (with_objective('kind = "logistic"\nl2 = -1.0'), ["[objective]", "l2", "-1.0"]),
        (with_objective('kind = "softmax"'), ["[objective] has no 'classes'"]),
        (with_objective('kind = "softmax"\nclasses = 1'), ["[objective]", "classes", "1"]),
        (job_text("online_pushsum"), ["[algorithm] name = 'online_pushsum'", "did you mean 'online_push_sum'?"]),
        (job_text().replace("step = 0.5", "step = -0.5"), ["[algorithm]", "step", "-0.5"]),
        (job_text().replace("step = 0.5", 'step = "big"'), ["[algorithm] step = 'big'"]),
        (job_text().replace("step = 0.5", "step = 0.5\nsteps = 1"), ["[algorithm] steps = 1", "did you mean 'step'?"]),
        (job_text("centralised_online"), ["'centralised_online'", "makes its own graph", "takes the graph as it is"]),
        (job_text(mechanism=LAPLACE.replace("laplace", "lapace")), ["kind = 'lapace'", "did you mean 'laplace'?"]),
        (job_text(mechanism=LAPLACE.replace("2.0", "0.0")), ["[algorithm.mechanism]", "epsilon", "0"]),
        (job_text(mechanism=LAPLACE.replace("clip = 1.0", "")), ["[algorithm.mechanism]", "clip"]),
    ],
)  # fmt: skip
def test_a_fault_names_file_key_value_and_remedy(tmp_path, text, said):
    message = refusal(tmp_path, text)
    for words in said:
        assert words in message, message


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path):
    for path, why in ((tmp_path / "none.toml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=why) as caught:
            load_job(path)
        assert str(path) in str(caught.value)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "job.toml").write_bytes(b"\xff\xfe[job]")
    with pytest.raises(ConfigError, match=r"job\.toml: .*TOML"):
        load_job(tmp_path / "job.toml")


@pytest.fixture
def two_roles(monkeypatch):
    """A method of clients and a server, as later ones will be."""

    def constructor(objective: tacit.contract.Objective, step: float):
        return sampled_fedavg(objective, step, 1, 2)

    monkeypatch.setitem(REGISTRY, "sampled_fedavg", Entry("sampled_fedavg", "Rizk (2023), ch. 2", constructor))
    return job_text("sampled_fedavg").replace(
        'peer = ["hospital-a", "hospital-b", "hospital-c"]', 'client = ["a", "b"]\nserver = ["s"]'
    )


def test_roles_have_their_own_members(tmp_path, two_roles):
    job = loaded(tmp_path, two_roles)
    assert dict(job.members) == {"client": ("a", "b"), "server": ("s",)}
    assert [job.role_of(name) for name in "abs"] == [("client", 0), ("client", 1), ("server", 0)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('server = ["s"]', "", ["[members] has client;", "needs client = ", " and server = "]),
        ('server = ["s"]', 'server = ["a"]', ["'a' is there twice"]),
        ('server = ["s"]', 'servers = ["s"]', ["has client, servers"]),
    ],
)
def test_roles_are_filled_as_the_method_has_them(tmp_path, two_roles, old, new, said):
    message = refusal(tmp_path, two_roles.replace(old, new))
    for words in said:
        assert words in message, message


def test_who_is_no_member(tmp_path):
    with pytest.raises(ConfigError, match=r"'x' .* hospital-a, hospital-b, hospital-c"):
        loaded(tmp_path, job_text()).role_of("x")


# -- the hash --------------------------------------------------------------------------------------------------------------

FULL = """
[algorithm]     # order does not matter
step = 0.5
name = "loss_tolerant_push_sum"
[algorithm.mechanism]
clip = 1
epsilon = 2
kind = "laplace"
[objective]
l1 = 0.0
l2 = 0.0
kind = "logistic"
[members]
peer = ["hospital-a", "hospital-b", "hospital-c"]
[job]
seed = 0
longest_delay = 0
dtype = "float32"
batch = 1
bias = true
features = 2
epoch = 1
name = "ward study"
"""


def test_what_says_the_same_is_the_same_job(tmp_path):
    short = loaded(tmp_path, job_text("loss_tolerant_push_sum", mechanism=LAPLACE))
    assert loaded(tmp_path, FULL).hash == short.hash
    assert loaded(tmp_path, FULL.replace("step = 0.5", "step=5e-1 # half")).hash == short.hash
    assert len(short.hash) == 64
    assert bytes.fromhex(short.hash)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"ward study"', '"ward  study"'),
        ("epoch = 1", "epoch = 2"),
        ("features = 2", "features = 3"),
        ("bias = true", "bias = false"),
        ("batch = 1", "batch = 2"),
        ("float32", "float64"),
        ("longest_delay = 0", "longest_delay = 1"),
        ("seed = 0", "seed = 1"),
        ('"hospital-c"', '"hospital-d"'),
        ('"hospital-a", "hospital-b"', '"hospital-b", "hospital-a"'),
        (', "hospital-c"', ""),
        ('kind = "logistic"', 'kind = "hinge"'),
        ("l2 = 0.0", "l2 = 0.1"),
        ("l1 = 0.0", "l1 = 0.1"),
        ("loss_tolerant_push_sum", "online_push_sum"),
        ("step = 0.5", "step = 0.25"),
        ("step = 0.5", 'step = 0.5\naverage = "mean"'),
        ("step = 0.5", 'step = { schedule = "inverse_sqrt", scale = 0.5 }'),
        ('kind = "laplace"', 'kind = "laplace"\nperturbs = "gradient"'),
        ("epsilon = 2", "epsilon = 3"),
        ("clip = 1", "clip = 2"),
        ('[algorithm.mechanism]\nclip = 1\nepsilon = 2\nkind = "laplace"\n', ""),
    ],
)
def test_any_change_of_meaning_is_another_job(tmp_path, old, new):
    assert FULL.count(old) == 1
    assert loaded(tmp_path, FULL.replace(old, new)).hash != loaded(tmp_path, FULL).hash


# -- what a job gives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "bias", "shape"), [(1, "true", (3,)), (4, "true", (4, 3)), (4, "false", (4, 2))])
def test_the_empty_batch_has_the_shape_of_every_round(tmp_path, batch, bias, shape):
    made = loaded(tmp_path, job_text(batch=batch, bias=bias, dtype='"float64"')).empty_batch
    assert (made.x.shape, made.y.shape, made.weight.shape) == (shape, shape[:-1], shape[:-1])
    assert made.x.dtype == np.float64
    assert not made.weight.any()


@pytest.mark.parametrize(
    ("objective", "task", "classes"),
    [
        ('kind = "logistic"', "binary", None),
        ('kind = "hinge"', "binary", None),
        ('kind = "squared"', "regression", None),
        ('kind = "absolute"', "regression", None),
        ('kind = "softmax"\nclasses = 3', "multiclass", 3),
    ],
)
def test_the_objective_says_what_labels_are(tmp_path, objective, task, classes):
    form = loaded(tmp_path, job_text(objective=objective)).form
    assert (form.features, form.task, form.classes) == (2, task, classes)


def test_the_example_is_a_job():
    job = load_job(EXAMPLE)
    assert job.algorithm.privacy.private
    assert len(job.members["peer"]) == 5
