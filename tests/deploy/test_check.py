"""`tacit peer check`: what is wrong with a federation before any of it runs."""

import re
import shutil

import pytest
from cryptography import x509

from tacit.core.errors import ConfigError
from tacit.deploy.check import check_peers
from tacit.peer.identity.authority import init_ca
from tests.deploy.homes import BOTH_WAYS, RING, found, job_text
from tests.peer.enrolment import DAY, certificate, enrol


def edit(file, old, new):
    text = file.read_text()
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new))


def expire(directory, name):
    """Put a certificate that has run out into a peer's identity."""
    home = directory / name / "identity"
    files = certificate(directory / "old", directory / "ca", [x509.DNSName(name)], start=-2 * DAY, end=-DAY)
    shutil.copy(directory / "ca" / "ca.crt", home / "ca.crt")
    (home / "identity.pem").write_bytes(files.certificate.read_bytes() + files.key.read_bytes())


def test_all_is_well(tmp_path):
    files = found(tmp_path, job_text(epoch=3), RING)
    report = check_peers(list(files.values()))
    assert report.faults == []
    assert "job 'ward study', epoch 3: " in report.lines[0]
    assert "links 'peers': 3" in report.lines[1]
    assert "'online_push_sum'" in report.lines[2]
    assert report.lines[3:] == [f"{name}: ok" for name in files]


def test_some_of_the_files_are_checked_one_by_one(tmp_path):
    files = found(tmp_path, job_text(), RING)
    report = check_peers([files["hospital-a"], files["hospital-b"]])
    assert report.faults == []
    assert any("2 of 3 members" in line for line in report.lines)


def test_ends_that_do_not_agree_are_named_from_both_sides(tmp_path):
    files = found(tmp_path, job_text(), RING)
    edit(files["hospital-b"], 'hears = ["hospital-a"]', 'hears = ["hospital-c"]')
    faults = check_peers(list(files.values())).faults
    one, other = faults
    assert one.startswith("hospital-a sends to hospital-b over 'peers'")
    assert other.startswith("hospital-b hears hospital-c over 'peers'")


def test_a_graph_that_the_method_cannot_use(tmp_path):
    files = found(tmp_path, job_text(), {**RING, "hospital-c": []})
    (fault,) = check_peers(list(files.values())).faults
    assert "strongly" in fault


def test_one_way_links_for_a_symmetric_method(tmp_path):
    files = found(tmp_path, job_text("distributed_online"), RING)
    faults = check_peers(list(files.values())).faults
    assert any("make them the same" in fault for fault in faults)


def test_weights_are_suggested_and_then_taken(tmp_path):
    files = found(tmp_path, job_text("distributed_online"), BOTH_WAYS)
    report = check_peers(list(files.values()))
    lines = [line for line in report.lines if "should have" in line]
    assert len(lines) == 3
    assert len(report.faults) == 3  # none of them can start without
    for file, line in zip(files.values(), lines, strict=True):
        edit(file, "hears = ", line.partition("should have: ")[2] + "\nhears = ")
    report = check_peers(list(files.values()))
    assert report.faults == []
    assert not any("should have" in line for line in report.lines)


def test_other_weights_than_the_rule_gives_are_a_fault(tmp_path):
    files = found(tmp_path, job_text("distributed_online"), BOTH_WAYS)
    for file in files.values():
        others = [name for name in BOTH_WAYS if name != file.parent.name]
        edit(file, "hears = ", "weight_from = { " + ", ".join(f"{name} = 0.2" for name in others) + " }\nhears = ")
    faults = check_peers(list(files.values())).faults
    assert len(faults) == 3
    assert all("by the rule 'metropolis'" in fault and "0.333333" in fault for fault in faults)


def test_weights_given_at_the_other_end_are_enough(tmp_path):
    files = found(tmp_path, job_text("distributed_online"), BOTH_WAYS)
    for file in files.values():
        others = [name for name in BOTH_WAYS if name != file.parent.name]
        weights = ", ".join(f"{name} = {1 / 3!r}" for name in others)
        edit(file, "hears = ", f"weight_to = {{ {weights} }}\nhears = ")
    assert check_peers(list(files.values())).faults == []


def test_a_port_at_which_nobody_listens_is_pointed_out(tmp_path):
    files = found(tmp_path, job_text(), RING)
    text = files["hospital-a"].read_text()
    files["hospital-a"].write_text(re.sub(r'hospital-b = "127.0.0.1:\d+"', 'hospital-b = "127.0.0.1:9"', text))
    report = check_peers(list(files.values()))
    assert report.faults == []  # it may be right
    (line,) = [line for line in report.lines if "dials" in line]
    assert re.match("hospital-a dials hospital-b at 127.0.0.1:9, .* 127.0.0.1:", line)


def test_files_of_two_jobs(tmp_path):
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    second.mkdir()
    ours = found(first, job_text(), RING, identities=False)
    theirs = found(second, job_text(epoch=2), RING, identities=False)
    with pytest.raises(ConfigError, match="different jobs") as caught:
        check_peers([ours["hospital-a"], theirs["hospital-b"]])
    assert str(caught.value).count("job ") >= 2


def test_a_file_twice(tmp_path):
    files = found(tmp_path, job_text(), RING, identities=False)
    with pytest.raises(ConfigError, match=r"peer\.toml: another file .*'hospital-a'"):
        check_peers([files["hospital-a"], files["hospital-a"], files["hospital-b"]])


def test_identities(tmp_path):
    files = found(tmp_path, job_text(), RING, identities=False)
    faults = check_peers(list(files.values())).faults
    assert len(faults) == 3
    assert "identity" in faults[0]
    ca = tmp_path / "ca"
    init_ca(ca, "test")
    enrol(tmp_path / "hospital-a" / "identity", ca, "hospital-b")
    enrol(tmp_path / "hospital-b" / "identity", ca, "hospital-b", days=1)
    enrol(tmp_path / "hospital-c" / "identity", ca, "hospital-c")
    expire(tmp_path, "hospital-c")
    report = check_peers(list(files.values()))
    wrong, expired = report.faults
    assert "names 'hospital-b', not 'hospital-a'" in wrong
    assert expired.startswith("hospital-c: ")
    assert "ended" in expired
