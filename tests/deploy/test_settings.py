"""peer.toml: what is refused and how it is said, and what is made of what is not."""

import pytest

from tacit.algorithms import REGISTRY
from tacit.algorithms.registry import Entry
from tacit.config.peer import load_peer
from tacit.core.contract import Objective
from tacit.core.errors import ConfigError
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.privacy.accounting import Budget
from tests.contract.on_paper import sampled_fedavg
from tests.deploy.homes import LAPLACE, job_text, peer_text

PORTS = {"hospital-a": 7501, "hospital-b": 7502, "hospital-c": 7503}
TEXT = peer_text("hospital-a", ["hospital-b"], ["hospital-c"], PORTS)
GAUSSIAN = LAPLACE.replace("laplace", "gaussian").replace("epsilon", "noise_multiplier")
BOUNDED = LAPLACE.replace("laplace", "bounded_laplace").replace("clip = 1.0", "rounds = 10")


def write(tmp_path, text, job=None):
    (tmp_path / "job.toml").write_text(job or job_text())
    home = tmp_path / "hospital-a"
    home.mkdir(exist_ok=True)
    (home / "peer.toml").write_text(text)
    return home / "peer.toml"


def loaded(tmp_path, text, job=None):
    return load_peer(write(tmp_path, text, job))


def refusal(tmp_path, text, job=None, names="peer.toml"):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text, job)
    assert names in str(caught.value)
    return str(caught.value).replace(f"{tmp_path}/hospital-a/", "")


def put(table, line):
    assert TEXT.count(f"[{table}]\n") == 1
    return TEXT.replace(f"[{table}]\n", f"[{table}]\n{line}\n")


def changed(old, new):
    assert TEXT.count(old) == 1, old
    return TEXT.replace(old, new)


SENDS, HEARS = 'sends_to = ["hospital-b"]', 'hears = ["hospital-c"]'
LISTEN, DIAL = 'listen = "127.0.0.1:7501"', 'hospital-b = "127.0.0.1:7502"'


KAFKA = 'kind = "kafka"\nbrokers = "b:9092"\ntopic = "visits"\n'
MQTT = 'kind = "mqtt"\nbroker = "b:1883"\ntopic = "ward/#"\n'
SQL = 'kind = "sql"\nurl = "postgresql+psycopg://u:${PW}@h/d"\ntable = "visits"\norder = "id"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT + "\n[strem]\n", ["[strem] is unknown", "stream"]),
        (changed('job = "../job.toml"', ""), ["there is no job", 'add job = "job.toml" as the first line']),
        (changed('job = "../job.toml"', "job = 3"), ["job = 3 is no path"]),
        (changed("[peer]\n", "[privat]\n"), ["[privat] is unknown"]),
        (changed("[peer]\n", "[identity]\n"), ["there is no [peer]"]),
        (changed('name = "hospital-a"', ""), ["[peer] has no 'name'"]),
        (changed('name = "hospital-a"', "name = 3"), ["[peer] name = 3", "text in quotes"]),
        (changed('name = "hospital-a"', 'name = "hospital-x"'), ["[peer] name", "'hospital-x'", "members are hospital-a"]),
        (put("peer", "port = 3"), ["[peer] port = 3", "unknown key"]),
        (put("peer", 'store = ""'), ["[peer] store = ''", "expected a path"]),
        (changed(LISTEN, 'listen = "7501"'), ["[peer] listen = '7501'", '"host:port"']),
        (changed(LISTEN, 'listen = "127.0.0.1:65536"'), ["[peer] listen", "0 to 65535"]),
        (changed(LISTEN, 'listen = "127.0.0.1:port"'), ["[peer] listen = '127.0.0.1:port'"]),
        (changed(LISTEN, f'listen = "a:{"9" * 5000}"'), ["[peer] listen = 'a:99999"]),
        (changed(LISTEN, 'listen = "::1:7443"'), ["[peer] listen = '::1:7443'", "[fd00::2]:7443"]),
        (changed(LISTEN, "listen = 7501"), ["[peer] listen = 7501", "text in quotes"]),
        (changed(DIAL, 'hospital-b = "https://b.example:7443"'), ["[addresses] hospital-b = 'https://b.example:7443'"]),
        (changed(DIAL, 'hospital-b = "10.0.0.2:0"'), ["[addresses] hospital-b", "1 to 65535"]),
        (changed(DIAL, "hospital-b = 7502"), ["[addresses] hospital-b = 7502"]),
        (changed(DIAL, ""), ["[addresses] has no 'hospital-b'", 'add hospital-b = "host:port"']),
        (put("addresses", 'hospital-c = "127.0.0.1:7503"'), ["[addresses] hospital-c", "does not send to it", "remove it"]),
        (changed("[links.peers]", "[links.friends]"), ["there is no [links.peers]", "add it"]),
        (put("links.peers", "").replace("[links.peers]", "[links.friends]\n[links.peers]"), ["friends: unknown links"]),
        (TEXT[: TEXT.index("[links.peers]")] + "[links]\npeers = 3\n", ["[links] peers = 3", "write [links.peers]"]),
        (changed(SENDS, 'sends_to = "hospital-b"'), ["[links.peers] sends_to = 'hospital-b'", "list"]),
        (changed(SENDS, "sends_to = [1]"), ["[links.peers] sends_to.0 = 1"]),
        (changed(SENDS, 'sends_to = ["hospital-x"]'), ["sends_to: 'hospital-x'", "hospital-b, hospital-c"]),
        (changed(SENDS, 'sends_to = ["hospital-a"]'), ["sends_to: 'hospital-a' is this peer itself", "remove it"]),
        (changed(SENDS, 'sends_to = ["hospital-b", "hospital-b"]'), ["'hospital-b' is there twice"]),
        (changed(HEARS, 'hears = ["hospital-a"]'), ["hears: 'hospital-a' is this peer itself"]),
        (changed(HEARS, 'hears = ["nobody"]'), ["hears: 'nobody' cannot be a neighbour"]),
        (put("links.peers", "sends = []"), ["[links.peers] sends = []", "did you mean 'sends_to'?"]),
        (put("links.peers", "weight_to = { hospital-b = 1.5 }"), ["weight_to.hospital-b = 1.5", "at most 1"]),
        (put("links.peers", "weight_to = { hospital-b = 0.0 }"), ["weight_to.hospital-b = 0.0", "above 0"]),
        (put("links.peers", "weight_to = { hospital-b = nan }"), ["weight_to.hospital-b = nan"]),
        (put("links.peers", "weight_to = { hospital-c = 0.5 }"), ["weight_to.hospital-c", "not in sends_to"]),
        (put("links.peers", "weight_from = { hospital-b = 0.5 }"), ["weight_from.hospital-b", "not in hears"]),
        (put("links.peers", "weight_to = 0.5"), ["weight_to = 0.5"]),
        (put("stream", 'kind = "tsv"'), ["[stream] kind = 'tsv'", "push, csv, jsonl", "kafka"]),
        (put("stream", 'kind = "csv"'), ["[stream] has no 'path'", "add path = ..."]),
        (put("stream", 'kind = "csv"\npath = ""'), ["[stream] path = ''"]),
        (put("stream", 'path = "x.csv"'), ["[stream]: kind = 'push' takes no path", "remove it"]),
        (put("stream", 'label = "z"'), ["[stream]: kind = 'push' takes no label"]),
        (put("stream", 'kind = "csv"\npath = "x"\ncapacity = 3'), ["kind = 'csv' takes no capacity"]),
        (put("stream", "capacity = 0"), ["[stream] capacity = 0"]),
        (put("stream", 'kind = "csv"\npath = "x"\ncolumns = ["a"]'), ["columns = ['a']", "expected 2 names"]),
        (put("stream", 'kind = "csv"\npath = "x"\ncolumns = ["a", "a"]'), ["each once"]),
        (put("stream", 'kind = "csv"\npath = "x"\ncolumns = ["a", "b", "a"]'), ["expected 2 names"]),
        (put("stream", 'kind = "csv"\npath = "x"\ncolumns = ["a", "y"]'), ["label = 'y'", "not among them"]),
        (put("stream", KAFKA + 'path = "x"'), ["kind = 'kafka' takes no path"]),
        (put("stream", KAFKA.replace("b:9092", "b")), ["brokers = 'b'", "host:port"]),
        (put("stream", KAFKA.replace("b:9092", "b:0")), ["brokers = 'b:0'", "65535"]),
        (put("stream", 'kind = "kafka"\nbrokers = []\ntopic = "t"'), ["brokers", "host:port"]),
        (put("stream", KAFKA.replace('"visits"', '"a b"')), ["topic = 'a b'"]),
        (put("stream", KAFKA + "partitions = [1, 1]"), ["partitions = [1, 1]", "each once"]),
        (put("stream", KAFKA + "partitions = []"), ["partitions = []"]),
        (put("stream", KAFKA + 'start = "now"'), ["start = 'now'", "'earliest' or 'latest'"]),
        (put("stream", KAFKA + 'ca = "ca.pem"'), ["ca = 'ca.pem' needs tls = true"]),
        (put("stream", KAFKA + 'tls = true\ncertificate = "c.pem"'), ["certificate = 'c.pem' needs private_key"]),
        (put("stream", KAFKA + 'username = "u"'), ["username = 'u' needs password_file"]),
        (put("stream", KAFKA + 'username = "u"\npassword_file = "p"'), ["password_file = 'p' needs tls = true"]),
        (put("stream", KAFKA + 'password = "geheim"'), ["[stream] password = ", "unknown key"]),
        (put("stream", MQTT + "qos = 2"), ["[stream] qos = 2", "unknown key"]),
        (put("stream", MQTT.replace("ward/#", "ward/#/x")), ["topic = 'ward/#/x'", "filter"]),
        (put("stream", MQTT.replace("ward/#", "ward+")), ["topic = 'ward+'"]),
        (put("stream", SQL + 'url_file = "f"'), ["one of url and url_file"]),
        (put("stream", SQL + 'query = "SELECT 1"'), ["one of table and query"]),
        (put("stream", SQL.replace('order = "id"', "")), ["[stream] has no 'order'"]),
        (put("stream", SQL + "poll = 0"), ["[stream] poll = 0"]),
        (put("stream", SQL.replace("${PW}", "geheim")), ["url: a password", "url_file"]),
        (put("stream", 'key = "id"'), ["[stream]: kind = 'push' takes no key"]),
        (put("stream", 'kind = "csv"\npath = "x"\nkey = 3'), ["[stream] key = 3"]),
        (put("stream", 'kind = "csv"\npath = "x"\nkey = ""'), ["key = ''", "tell records apart"]),
        (put("stream", 'kind = "csv"\npath = "x"\nkey = ["a", "a"]'), ["key = ['a', 'a']", "each once"]),
        (put("stream", 'kind = "csv"\npath = "x"\nkey = ["id", "y"]'), ["label = 'y'", "not among them"]),
        (put("rounds", "deadline = 0"), ["[rounds] deadline = 0", "greater than 0"]),
        (put("rounds", "deadline = inf"), ["[rounds] deadline = inf", "less than or equal to"]),
        (put("rounds", "patience = -1"), ["[rounds] patience = -1"]),
        (put("rounds", "patience = nan"), ["[rounds] patience = nan"]),
        (put("rounds", "interval = inf"), ["[rounds] interval = inf"]),
        (put("rounds", "last = 0"), ["[rounds] last = 0"]),
        (put("rounds", 'last = "10"'), ["[rounds] last = '10'", "whole number"]),
        (TEXT + "\n[limits]\nconnections = 0\n", ["[limits] connections = 0"]),
        (TEXT + "\n[limits]\nper_address = 1.5\n", ["[limits] per_address = 1.5"]),
        (TEXT + "\n[limits]\nproof_time = nan\n", ["[limits] proof_time = nan"]),
        (put("operations", "port = 70000"), ["[operations] port = 70000"]),
        (put("operations", 'log = "xml"'), ["[operations] log = 'xml'", "'json' or 'text'"]),
        (put("operations", 'level = "loud"'), ["[operations] level = 'loud'"]),
        (changed("unprotected = true", ""), ["[privacy]:", "no mechanism", "unprotected = true"]),
        (changed("unprotected = true", "epsilon = 1.0"), ["[privacy]:", "protects nothing", "[algorithm.mechanism]"]),
        (put("privacy", "delta = 1e-5"), ["[privacy]:", "protects nothing"]),
        (put("privacy", "reserve = 1e-5"), ["[privacy]:", "protects nothing"]),
        (changed("unprotected = true", 'unprotected = "yes"'), ["[privacy] unprotected = 'yes'", "true or false"]),
    ],
)  # fmt: skip
def test_a_fault_names_file_key_value_and_remedy(tmp_path, text, said):
    message = refusal(tmp_path, text)
    for words in said:
        assert words in message, message


@pytest.mark.parametrize(
    ("privacy", "mechanism", "said"),
    [
        ("", LAPLACE, ["no budget: give epsilon", "tacit privacy plan"]),
        ("unprotected = true", LAPLACE, ["unprotected = true, but the job has a mechanism", "remove it"]),
        ("epsilon = 1.0\nunprotected = true", LAPLACE, ["unprotected = true, but"]),
        ("epsilon = 1.0\nrho = 1.0", LAPLACE, ["epsilon = 1.0, rho = 1.0", "epsilon alone, rho alone, or"]),
        ("rho = 1.0\ndelta = 1e-5", LAPLACE, ["rho = 1.0, delta = 1e-05"]),
        ("delta = 1e-5", LAPLACE, ["no budget"]),
        ("epsilon = 0.0", LAPLACE, ["epsilon = 0.0", "above 0"]),
        ("epsilon = inf", LAPLACE, ["epsilon = inf", "finite"]),
        ('epsilon = "1"', LAPLACE, ["[privacy] epsilon = '1'", "a number"]),
        ("epsilon = 1.0\ndelta = 1.0", LAPLACE, ["delta = 1.0", "below 1"]),
        ("epsilon = 1.0\nreserve = 1e-6", LAPLACE, ["reserve = 1e-06", "part of delta"]),
        ('epsilon = 1.0\nwitness = ""', LAPLACE, ["[privacy] witness = ''"]),
        ("epsilon = 1.0", GAUSSIAN, ["epsilon = 1.0 alone", "Gaussian", "add delta, or give rho"]),
        ("epsilon = 1.0\ndelta = 1e-5", BOUNDED, ["no reserve", "delta and reserve"]),
    ],
)
def test_a_budget_that_does_not_fit(tmp_path, privacy, mechanism, said):
    message = refusal(tmp_path, changed("unprotected = true", privacy), job_text(mechanism=mechanism))
    assert "[privacy]" in message
    for words in said:
        assert words in message, message


@pytest.mark.parametrize(
    ("privacy", "mechanism", "budget"),
    [
        ("epsilon = 1", LAPLACE, Budget(1.0)),
        ("rho = 0.5", LAPLACE, Budget(rho=0.5)),
        ("rho = 0.5", GAUSSIAN, Budget(rho=0.5)),
        ("epsilon = 1.0\ndelta = 1e-5", GAUSSIAN, Budget(1.0, delta=1e-5)),
        ("epsilon = 1.0\ndelta = 1e-5\nreserve = 1e-6", BOUNDED, Budget(1.0, delta=1e-5, reserve=1e-6)),
        ("unprotected = true", "", NOTHING_BOOKED),
    ],
)
def test_budgets(tmp_path, privacy, mechanism, budget):
    made = loaded(tmp_path, changed("unprotected = true", privacy), job_text(mechanism=mechanism))
    assert (made.budget, made.booked) == (budget, bool(mechanism))


def test_the_job_is_named_where_the_fault_is_in_it(tmp_path):
    assert "job.toml: [job] features = 0" in refusal(tmp_path, TEXT, job_text(features=0), names="job.toml")


def test_a_job_that_is_not_there(tmp_path):
    file = write(tmp_path, TEXT)
    (tmp_path / "job.toml").unlink()
    with pytest.raises(ConfigError, match=r"job\.toml: cannot be read"):
        load_peer(file)


def test_a_file_that_is_not_there_or_no_toml(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        load_peer(tmp_path / "none.toml")
    assert "not valid TOML" in refusal(tmp_path, "a = \n")


def test_defaults_and_paths_beside_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, changed(LISTEN, "") + '\n[identity]\ndirectory = "id"\n')
    made = load_peer(file.relative_to(tmp_path))
    home = tmp_path / "hospital-a"
    assert (made.file, made.identity) == (file, home / "id")
    assert (made.store, made.control) == (home / "state/store.db", home / "state/store.db.control")
    assert made.peer.listen == "0.0.0.0:7443"
    assert (made.rounds.deadline, made.rounds.patience, made.rounds.last) == (5.0, 1.0, None)
    assert made.witness is None
    assert made.stream.kind == "push"


def test_a_key_is_one_column_or_several(tmp_path):
    for text, keys in (('key = "id"', ["id"]), ('key = ["id", "visit"]', ["id", "visit"]), ("", [])):
        assert loaded(tmp_path, put("stream", f'kind = "csv"\npath = "x"\n{text}')).stream.keys == keys


@pytest.mark.parametrize("address", ["10.0.0.2:7443", "b.example:1", "[::1]:7443", "[fe80::1%eth0]:65535"])
def test_addresses(tmp_path, address):
    text = changed(DIAL, f'hospital-b = "{address}"')
    assert loaded(tmp_path, text).addresses == {"hospital-b": address}


def test_a_peer_may_be_heard_by_nobody_and_hear_nobody(tmp_path):
    made = loaded(tmp_path, changed(DIAL, "").replace(SENDS, "").replace(HEARS, ""))
    assert (made.links["peers"].sends_to, made.links["peers"].hears, made.addresses) == ([], [], {})


def test_a_store_is_of_a_job_a_name_and_links(tmp_path):
    base = loaded(tmp_path, TEXT)
    more = changed(HEARS, 'hears = ["hospital-c", "hospital-b"]')
    turned = changed(HEARS, 'hears = ["hospital-b", "hospital-c"]')
    assert base.job.settings_hash in base.part
    assert loaded(tmp_path, TEXT, job_text(epoch=2)).part != base.part
    assert loaded(tmp_path, more).part == base.part  # of a method whose links change while it runs
    fixed = job_text("distributed_online")
    assert loaded(tmp_path, more, fixed).part != loaded(tmp_path, TEXT, fixed).part
    assert loaded(tmp_path, more, fixed).part == loaded(tmp_path, turned, fixed).part
    other = peer_text("hospital-b", ["hospital-c"], ["hospital-a"], PORTS)
    same_links = peer_text("hospital-b", [], [], PORTS), peer_text("hospital-a", [], [], PORTS)
    assert loaded(tmp_path, other).part != base.part
    assert len({loaded(tmp_path, text).part for text in same_links}) == 2


# -- two roles -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(monkeypatch):
    """A job of clients and a server."""

    def constructor(objective: Objective, step: float):
        return sampled_fedavg(objective, step, 1, 2)

    monkeypatch.setitem(REGISTRY, "sampled_fedavg", Entry("sampled_fedavg", "Rizk (2023), ch. 2", constructor))
    return job_text("sampled_fedavg").replace(
        'peer = ["hospital-a", "hospital-b", "hospital-c"]', 'client = ["a", "b"]\nserver = ["s"]'
    )


CLIENT = """
job = "../job.toml"
[peer]
name = "a"
[links.downlink]
hears = ["s"]
[links.uplink]
sends_to = ["s"]
[addresses]
s = "10.0.0.1:7443"
[privacy]
unprotected = true
"""


def test_a_client_has_the_ends_of_its_role(tmp_path, served):
    made = loaded(tmp_path, CLIENT, served)
    assert made.links["downlink"].hears == made.links["uplink"].sends_to == ["s"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('hears = ["s"]', 'hears = ["b"]', ["[links.downlink] hears: 'b'", "expected some of s"]),
        ('hears = ["s"]', 'hears = ["s"]\nsends_to = ["s"]', ["[links.downlink] sends_to: 's'", "leave sends_to out"]),
        ('sends_to = ["s"]', 'sends_to = ["b"]', ["[links.uplink] sends_to: 'b'"]),
        ("[links.uplink]", "[links.up]", ["there is no [links.uplink]", "[links.downlink], [links.uplink]"]),
    ],
)
def test_a_client_cannot_take_another_role(tmp_path, served, old, new, said):
    message = refusal(tmp_path, CLIENT.replace(old, new), served)
    for words in said:
        assert words in message, message
