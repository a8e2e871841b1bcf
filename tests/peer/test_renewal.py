"""Renewal of certificates, by the commands that docs/deploy.md names, and what is told before and after it."""

import logging

import pytest

from tacit.cli import main
from tacit.peer.identity.authority import init_ca
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.identity import identity_files
from tacit.peer.operations import logs
from tacit.peer.operations.counters import Counters
from tacit.peer.operations.status import CertificateWatch, certificate_status
from tests.peer.enrolment import DAY, enrol


def peer(*arguments):
    with pytest.raises(SystemExit) as caught:
        main(["peer", *arguments])
    assert not caught.value.code


def test_request_issue_and_install_again_with_the_same_names_renew_a_running_identity(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    peer("init-ca", "ca")
    faults, found, watch = [], [], None
    for k in range(3):
        peer("request", "hospital-a")
        peer("issue", "hospital-a", "--csr", "identity/hospital-a.csr")
        peer("install", "hospital-a.crt", *(["--ca", "ca/ca.crt"] if k == 0 else []))
        watch = watch or IdentityWatch(identity_files(tmp_path / "identity"), faults.append)
        found.append(watch.current().fingerprint)
    assert len(set(found)) == 3
    assert faults == []


def test_a_first_certificate_needs_that_of_the_authority(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["peer", "install", "hospital-a.crt"])
    assert caught.value.code == 2
    assert "--ca" in capsys.readouterr().err


def test_the_end_of_a_certificate_and_its_renewal_are_reported(tmp_path, caplog):
    home, ca, counters = tmp_path / "home", tmp_path / "ca", Counters()
    init_ca(ca, "federation")
    enrol(home, ca)
    watch = IdentityWatch(identity_files(home), print)
    first = watch.current()
    certificate = CertificateWatch(watch, counters, logs.Log(interval=0))

    def look(left):
        caplog.clear()
        with caplog.at_level(logging.INFO, logs.NAME):
            certificate.look(watch.current().not_after - left)
        assert counters.value("tacit_certificate_expiry_seconds") == left.total_seconds()
        return [(record.message, record.tacit_fields) for record in caplog.records]

    assert look(30 * DAY) == []
    ((_, fields),) = look(3 * DAY)
    assert "ends in 3 days" in fields["warning"]
    ((_, fields),) = look(-DAY)
    assert "ended" in fields["warning"]
    enrol(home, ca)
    ((event, fields),) = look(30 * DAY)
    assert "renewed" in event
    assert fields["fingerprint"] == watch.current().fingerprint != first.fingerprint
    assert look(30 * DAY) == []
    found = certificate_status(first, first.not_after - 3 * DAY)
    assert (found["days_left"], found["expires"]) == (3.0, first.not_after.isoformat())
    assert "tacit peer request hospital-a" in found["warning"]
    assert certificate_status(first, first.not_after - 30 * DAY)["warning"] is None
