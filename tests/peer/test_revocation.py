"""Revoked certificates: refused at both ends, on new links and on open ones; and lists that must not be believed."""

from __future__ import annotations

import base64
import contextlib
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.cli import main
from tacit.core.errors import IdentityError, MessageRefused
from tacit.peer.identity.authority import init_ca, revoke
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.identity import identity_files
from tacit.peer.identity.pem_files import load_certificates
from tacit.peer.identity.revocation import _name_in, install_list, named, read_list
from tacit.peer.masking.agreement import PairwiseParty
from tacit.peer.operations import status
from tacit.peer.operations.status import certificate_status
from tests.peer import services
from tests.peer.enrolment import DAY, enrol
from tests.peer.linked import Federation, Hearing, Sending, ear, mouth, parcel, within


class Authority:
    """An authority, the certificates that it issued, and peers that get its lists."""

    def __init__(self, directory, *names):
        self.directory, self.ca = directory, directory / "authority"
        init_ca(self.ca, "federation")
        for name in names:
            self.enrol(name)

    def enrol(self, name):
        return enrol(self.directory / name, self.ca, name)

    def certificate(self, name):
        """The file that was issued, as it is now."""
        path = self.directory / f"{name}.crt"
        (found,) = load_certificates(self.directory / name / "identity.pem")
        path.write_bytes(found.public_bytes(Encoding.PEM))
        return path

    def revoke(self, *names, **how):
        return revoke([self.certificate(name) for name in names], self.ca, **how)

    def send(self, *names):
        for name in names:
            install_list(self.ca / "revoked.crl", self.directory / name)

    def installed(self, name):
        return self.directory / name / "revoked.crl"


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "a", "b", "c")


def serial(identity):
    return x509.load_pem_x509_certificate(identity.certificate_pem).serial_number


# --- links


def federation_of(authority):
    return Federation.reopened(authority.directory, "a", "b", "c")


@pytest.mark.parametrize(("victim", "who"), [("a", "b"), ("b", "a")], ids=["dialler", "listener"])
def test_no_new_link_by_a_revoked_certificate_at_either_end(authority, victim, who):
    """The other end has the list; the one whose certificate it names has not."""
    federation = federation_of(authority)
    authority.revoke(victim)
    authority.send(who)

    async def story():
        hearing = Hearing("a", "c")
        async with (
            ear(federation, "b", hearing) as b,
            mouth(federation, "a", Sending(parcel("b", 1)), "b", b.address) as a,
        ):
            diary = b.diary if who == "b" else a.diary
            await diary.until(lambda: "revoked" in diary.reasons)
            assert hearing.taken == []
            assert not b.listener.connected
            assert not a.dialer.connected
            if who == "b":
                await a.diary.until(lambda: any("revoked" in detail for _, _, detail in a.diary.losses))
            async with mouth(federation, "c", Sending(parcel("b", 1)), "b", b.address):
                await hearing.until(lambda: hearing.taken == [("c", 0, 1)])  # whoever is not on the list gets in

    within(story())


@pytest.mark.parametrize(("victim", "who"), [("a", "b"), ("b", "a")], ids=["in", "out"])
def test_an_open_link_is_cut_at_once_and_stays_down(authority, victim, who):
    federation = federation_of(authority)

    async def story():
        hearing, sending = Hearing("a", "c"), Sending(parcel("b", 1))
        async with (
            ear(federation, "b", hearing) as b,
            mouth(federation, "a", sending, "b", b.address) as a,
            mouth(federation, "c", Sending(), "b", b.address) as c,
        ):
            await hearing.until(lambda: hearing.taken == [("a", 0, 1)])
            await c.diary.until(lambda: c.dialer.connected)
            authority.revoke(victim)
            authority.send(who)
            listed = federation.watches[who].current().revoked
            own = b if who == "b" else a
            (b.listener if who == "b" else a.dialer).cut_revoked(listed)
            assert own.diary.reasons == ["revoked"]
            assert "a" not in b.listener.connected if who == "b" else not a.dialer.connected
            sending.parcels.append(parcel("b", 2))
            a.dialer.wake()
            await own.diary.until(lambda: own.diary.reasons[:3] == ["revoked"] * 3)  # it tries again, in vain
            assert hearing.taken == [("a", 0, 1)]
            assert c.dialer.connected

    within(story())


def test_a_list_that_comes_during_the_handshake_counts(authority, monkeypatch):
    from tacit.peer.transport import listener as module

    federation = federation_of(authority)
    shake_hands = module.shake_hands

    async def slowly(*arguments, **more):
        secured = await shake_hands(*arguments, **more)
        if not authority.installed("b").exists():
            authority.revoke("a")
            authority.send("b")
        return secured

    monkeypatch.setattr(module, "shake_hands", slowly)

    async def story():
        async with ear(federation, "b", Hearing("a")) as b, mouth(federation, "a", Sending(), "b", b.address):
            await b.diary.until(lambda: b.diary.refusals != [])
            assert b.diary.reasons[0] == "revoked"
            assert not b.listener.connected

    within(story())


def test_a_renewed_peer_gets_in_and_its_old_certificate_does_not(authority):
    federation, old = federation_of(authority), Federation.reopened(authority.directory, "a")
    authority.revoke("a")
    authority.send("b")
    authority.enrol("a")
    issued = [load_certificates(path)[0] for path in (authority.ca / "issued").iterdir()]
    assert {f"{one.serial_number:x}.crt" for one in issued} == {
        path.name for path in (authority.ca / "issued").iterdir()
    }
    assert len(issued) == 4  # the old one is there too, to be revoked
    assert federation.watches["a"].current().fingerprint != old.watches["a"]._credentials.identity.fingerprint
    old.watches["a"].credentials = lambda kept=old.watches["a"]._credentials: kept  # the thief of the old key
    old.watches["a"].current = lambda kept=old.watches["a"]._credentials.identity: kept

    async def story():
        hearing = Hearing("a")
        async with ear(federation, "b", hearing) as b:
            async with mouth(old, "a", Sending(parcel("b", 1)), "b", b.address):
                await b.diary.until(lambda: "revoked" in b.diary.reasons)
                assert hearing.taken == []
            async with mouth(federation, "a", Sending(parcel("b", 2)), "b", b.address):
                await hearing.until(lambda: hearing.taken == [("a", 0, 2)])

    within(story())


def test_letters_of_a_revoked_partner_are_refused(authority):
    """The relay may not have the list yet."""
    watches, now = federation_of(authority).watches, datetime.now(UTC)

    class Keys:
        def __init__(self):
            self.keys = {}

        def keep_keys(self, keys):
            self.keys.update(keys)

    def party(name, partner):
        return PairwiseParty(watches[name].current(), bytes(32), "b", [partner], Keys(), now)

    a, c = party("a", "c"), party("c", "a")
    authority.revoke("a")
    authority.send("c")
    c.renew(watches["c"].current(), now)
    with pytest.raises(MessageRefused) as caught:
        c.accept(a.offer("c"), now)
    assert caught.value.reason == "revoked"


# --- running peers


OBJECTIVE = tacit.objectives.logistic(l2=1e-3)


def stream():
    return tacit.streams.logistic_drift(agents=3, dim=2, seed=3)


@pytest.fixture
def quick_looks(monkeypatch):
    monkeypatch.setattr(status, "LOOK_AT_LIST", 0.02)


def running(tmp_path, algorithm, graph):
    federation = services.Federation(
        tmp_path, services.plans(algorithm, graph, stream()), stream(), rounds=None, deadline=0.05
    )
    for name in federation.plans:
        (found,) = load_certificates(tmp_path / name / "identity.pem")
        (tmp_path / f"{name}.crt").write_bytes(found.public_bytes(Encoding.PEM))
    return federation


@contextlib.asynccontextmanager
async def met(federation):
    """Run all peers, from the time when each of three is linked with the others."""
    try:
        for name in federation.plans:
            await federation.launch(name)
        federation.connect()
        await linked(federation, 4)
        yield
    finally:
        await federation.stop()


async def linked(federation, count):
    for service in federation.services.values():
        links = service.links
        await links.until(lambda links=links: len(links.listener.connected) + len(links.dialers) == count)


def test_running_peers_cut_the_revoked_one_without_a_restart_and_go_on(tmp_path, quick_looks):
    algorithm = tacit.algorithms.loss_tolerant_push_sum(OBJECTIVE, step=0.5)
    federation = running(tmp_path, algorithm, tacit.graphs.complete(3))
    one, out, other = federation.plans

    async def story():
        async with met(federation):
            revoke([tmp_path / f"{out}.crt"], tmp_path / "ca")
            for name in (one, other):
                install_list(tmp_path / "ca" / "revoked.crl", tmp_path / name)
            for name in (one, other):
                service = federation.services[name]
                links, dialer = service.links, service.links.dialers[out]
                await links.until(
                    lambda links=links, dialer=dialer: not (out in links.listener.connected or dialer.connected)
                )
                assert service.counters.value("tacit_refusals_total", reason="revoked") >= 2  # in and out
                assert service.status()["revoked"] == {"number": 1, "entries": 1, "names": [out]}
                reached = service.node.round
                await links.until(lambda node=service.node, last=reached + 5: node.round >= last)
                assert service.fault is None
            assert other in federation.services[one].links.listener.connected

    within(story())


def test_rounds_that_would_wait_for_a_revoked_peer_end_with_the_remedy(tmp_path, quick_looks):
    federation = running(tmp_path, tacit.algorithms.distributed_online(OBJECTIVE, step=0.5), tacit.graphs.ring(3))
    one, out, _ = federation.plans

    async def story():
        async with met(federation):
            revoke([tmp_path / f"{out}.crt"], tmp_path / "ca")
            install_list(tmp_path / "ca" / "revoked.crl", tmp_path / one)
            service = federation.services[one]
            await service.finished.wait()
            assert isinstance(service.fault, IdentityError)
            assert repr(out) in str(service.fault)
            assert "epoch" in str(service.fault)
            assert federation.services[out].fault is None  # it has no list, and only waits

    within(story())


def test_a_neighbour_that_is_away_or_has_a_new_certificate(tmp_path):
    """Who is out is known by name; a replaced certificate, and a link by a newer one, put nobody out."""
    federation = running(tmp_path, tacit.algorithms.distributed_online(OBJECTIVE, step=0.5), tacit.graphs.ring(3))
    one, away, renewed = federation.plans
    told = []

    async def story():
        try:
            await federation.launch(one)
            links = federation.services[one].links
            links.revoked = told.append
            links.end_revoked()
            revoke([tmp_path / f"{renewed}.crt"], tmp_path / "ca", replaced=True)
            install_list(tmp_path / "ca" / "revoked.crl", tmp_path / one)
            links.end_revoked()
            assert told == []
            revoke([tmp_path / f"{away}.crt"], tmp_path / "ca")
            install_list(tmp_path / "ca" / "revoked.crl", tmp_path / one)
            links.end_revoked()
            links.end_revoked()
            assert told == [away]
        finally:
            await federation.stop()

    within(story())


# --- lists that must not be believed


def test_a_list_of_another_authority_is_refused(authority, tmp_path):
    other = Authority(tmp_path / "other", "a")
    other.revoke("a")
    with pytest.raises(IdentityError, match="not signed by this"):
        install_list(other.ca / "revoked.crl", authority.directory / "b")
    assert not authority.installed("b").exists()


def test_a_list_of_a_peer_is_refused(authority):
    key = load_pem_private_key((authority.directory / "a" / "identity.pem").read_bytes(), None)
    content = made(authority, key=key)
    with pytest.raises(IdentityError, match="not signed by this"):
        read_list(content, authorities(authority), authority.ca)


def authorities(authority):
    return load_certificates(authority.ca / "ca.crt")


def made(authority, key=None, number=7, extensions=(), entry=()):
    """A list that `revoke` would not make."""
    now = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder(authorities(authority)[0].subject, now, now + DAY)
    for extension, critical in (*([(x509.CRLNumber(number), False)] if number else []), *extensions):
        builder = builder.add_extension(extension, critical)
    one = x509.RevokedCertificateBuilder(77, now)
    for extension, critical in entry:
        one = one.add_extension(extension, critical)
    builder = builder.add_revoked_certificate(one.build())
    key = key or load_pem_private_key((authority.ca / "ca.key").read_bytes(), None)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def test_lists_of_other_programs(authority):
    plain = read_list(made(authority), authorities(authority), authority.ca)
    assert (plain.number, plain.names) == (7, ["unnamed"])
    part = x509.DeltaCRLIndicator(3)
    issuer = x509.CertificateIssuer([x509.DirectoryName(x509.Name([]))])
    for how in ({"number": None}, {"extensions": [(part, True)]}, {"entry": [(issuer, True)]}):
        with pytest.raises(IdentityError, match="list"):
            read_list(made(authority, **how), authorities(authority), authority.ca)
    with pytest.raises(IdentityError, match="one complete"):
        read_list(made(authority) + made(authority), authorities(authority), authority.ca)


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("signed"), "a", "b")
    authority.revoke("a")
    return authority, authority.revoke("b")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_a_flipped_bit_is_never_another_list(signed, data):
    authority, good = signed
    der = bytearray(x509.load_pem_x509_crl(good.pem).public_bytes(Encoding.DER))
    bit = data.draw(st.integers(0, 8 * len(der) - 1))
    der[bit // 8] ^= 1 << bit % 8
    content = b"-----BEGIN X509 CRL-----\n" + base64.encodebytes(der) + b"-----END X509 CRL-----\n"
    with pytest.raises(IdentityError):
        read_list(content, authorities(authority), authority.ca)


@pytest.mark.parametrize("content", [b"", b"junk", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"])
def test_what_is_no_list_is_refused(authority, content):
    with pytest.raises(IdentityError, match="no usable"):
        read_list(content, authorities(authority), authority.ca)


def test_an_old_list_is_refused_by_install_and_by_a_running_peer(authority):
    faults = []
    watch = IdentityWatch(identity_files(authority.directory / "c"), faults.append)
    authority.revoke("a")
    first = (authority.ca / "revoked.crl").read_bytes()
    authority.revoke("b")
    authority.send("c")
    newest = watch.current().revoked
    assert (newest.number, newest.names) == (2, ["a", "b"])
    (authority.directory / "old.crl").write_bytes(first)
    with pytest.raises(IdentityError, match="newest"):
        install_list(authority.directory / "old.crl", authority.directory / "c")
    authority.installed("c").write_bytes(first)
    assert watch.current().revoked is newest
    assert len(faults) == 1
    authority.send("a")
    authority.installed("c").unlink()
    assert watch.current().revoked is watch.current().revoked is newest
    assert len(faults) == 2
    authority.installed("c").write_bytes(b"junk")
    assert watch.current().revoked is newest
    assert len(faults) == 3
    (authority.ca / "revoked.crl").unlink()  # an authority that has lost its list begins with number 1
    for name in ("a", "b", "c"):
        authority.revoke(name)
    assert authority.revoke("c").number > newest.number
    authority.send("b")
    authority.installed("c").write_bytes(newest.pem)
    (authority.ca / "revoked.crl").unlink()
    for _ in range(4):
        authority.revoke("c")
    with pytest.raises(IdentityError, match="lacks 2 of its 2"):
        authority.send("c")


def test_a_peer_with_a_damaged_list_does_not_start(authority):
    authority.installed("a").write_bytes(b"junk")
    with pytest.raises(IdentityError, match="no usable"):
        IdentityWatch(identity_files(authority.directory / "a"), print)


def test_identity_and_list_are_taken_up_independently(authority):
    """A certificate that cannot be used keeps no list from being taken up, nor the other way round."""
    faults, files = [], identity_files(authority.directory / "c")
    watch = IdentityWatch(files, faults.append)
    good = files.certificate.read_bytes()
    files.certificate.write_bytes(b"junk")
    authority.revoke("a")
    authority.send("c")
    assert watch.current().revoked.number == 1
    assert len(faults) == 1
    files.certificate.write_bytes(good)
    renewed = authority.enrol("c")
    authority.installed("c").write_bytes(b"junk")
    assert watch.current() == replace(renewed, revoked=watch.current().revoked)
    assert watch.current().revoked.number == 1


# --- at the authority


def test_lists_count_up_and_keep_what_they_hold(authority):
    first = authority.revoke("a")
    again = authority.revoke("a", "b")
    assert (first.number, again.number) == (1, 2)
    assert again.entries.items() >= first.entries.items()
    assert authority.revoke("b", replaced=True).names == ["a", "b (replaced)"]
    before = (authority.ca / "revoked.crl").read_bytes()
    damaged = before.replace(b"\nMII", b"\nMIJ")
    assert damaged != before
    (authority.ca / "revoked.crl").write_bytes(damaged)
    with pytest.raises(IdentityError, match="list"):
        authority.revoke("c")
    assert (authority.ca / "revoked.crl").read_bytes() == damaged


def test_only_certificates_of_this_authority_are_revoked(authority, tmp_path):
    other = Authority(tmp_path / "other", "a")
    for path in (other.certificate("a"), authority.ca / "ca.crt"):
        with pytest.raises(IdentityError, match="no peer's certificate"):
            revoke([authority.certificate("b"), path], authority.ca)
    assert not (authority.ca / "revoked.crl").exists()


def test_own_revocation_is_a_warning(authority):
    watch = IdentityWatch(identity_files(authority.directory / "a"), print)
    assert watch.current().revocation is None
    authority.revoke("a")
    authority.send("a")
    assert "revoked" in certificate_status(watch.current(), datetime.now(UTC))["warning"]
    authority.enrol("a")
    assert watch.current().revocation is None


@pytest.mark.parametrize(
    "length", [1, 121, 122, 123, 124, 125, 126, 127, 128, 129, 246, 247, 248, 249, 250, 251, 252, 253]
)
def test_names_of_every_length_are_read_as_they_were_written(length):
    name = ".".join("x" * 63 for _ in range(4))[:length].rstrip(".").ljust(length, "y")
    assert _name_in(named(name).public_bytes()) == name


def test_by_the_commands(authority, monkeypatch, capsys):
    monkeypatch.chdir(authority.directory)

    def tacit_peer(*arguments):
        with pytest.raises(SystemExit) as caught:
            main(["peer", *arguments])
        return caught.value.code or 0, *capsys.readouterr()

    authority.certificate("a")
    assert tacit_peer("revoke", "--ca", "authority")[0] == 2
    assert tacit_peer("revoke", "--list", "--ca", "authority")[0] == 0
    code, out, _ = tacit_peer("revoke", "a.crt", "--ca", "authority")
    assert code == 0
    assert "number 1" in out
    code, out, _ = tacit_peer("install", "authority/revoked.crl", "--out", "b")
    assert (code, out) == (0, "revocation list 1: a\n")
    assert authority.installed("b").read_bytes() == (authority.ca / "revoked.crl").read_bytes()
    code, out, _ = tacit_peer("revoke", "--list", "--ca", "authority")
    assert code == 0
    (certificate,) = load_certificates(authority.certificate("a"))
    assert f"{certificate.serial_number:x}"[:12] in out
