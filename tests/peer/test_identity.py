"""Authority, requests and certificates: the whole flow, and every way in which it must be refused."""

import base64
import contextlib
import random
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from tacit.core.errors import IdentityError
from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.enrolment import install, request
from tacit.peer.identity.identity import Identity, expiry_warning, identity_files, load_identity, validate_peer_name
from tests.peer.enrolment import DAY, NAME, certificate, csr, enrol


@pytest.fixture
def ca(tmp_path):
    init_ca(tmp_path / "ca", "federation")
    return tmp_path / "ca"


@pytest.fixture
def home(tmp_path, ca):
    """A peer with its identity installed."""
    enrol(tmp_path / "home", ca)
    return tmp_path / "home"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# --- names


@pytest.mark.parametrize("name", ["hospital-a", "a", "a.b-c.d1", "x" * 63, "1a.2b", "0xg", ".".join(["x" * 49] * 5)])
def test_names_that_a_peer_may_have(name):
    assert validate_peer_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Hospital",
        "*",
        "*.a",
        "a.",
        ".a",
        "a..b",
        "-a",
        "a-",
        "a_b",
        "a b",
        "a\n",
        "ä",
        "x" * 64,
        ".".join(["x" * 50] * 5),
        "127.0.0.1",
        "127.1",
        "7",
        "a.7",
        "::1",
        "0x7f000001",
        "xn--ä",
        "a/b",
        "../a",
        "a\x00b",
    ],
)
def test_names_that_a_peer_may_not_have(name):
    with pytest.raises(IdentityError, match="hospital-a"):
        validate_peer_name(name)


# --- the flow


def test_from_nothing_to_an_identity(tmp_path, ca):
    home = tmp_path / "home"
    asked = request(NAME, home)
    assert mode(asked.key) == 0o600
    assert mode(home) == 0o700
    assert b"PRIVATE" not in asked.csr.read_bytes()
    out = issue(asked.csr, NAME, ca, tmp_path / "out.crt")
    assert b"PRIVATE" not in out.read_bytes()
    identity = install(out, ca / "ca.crt", home)
    assert identity.name == NAME
    assert load_identity(identity_files(home)) == identity
    assert sorted(path.name for path in home.iterdir()) == ["ca.crt", "identity.pem"]
    assert mode(home / "identity.pem") == 0o600
    assert "PRIVATE" not in repr(identity)
    assert identity.key_pem.decode() not in repr(identity)


def test_certificate_says_what_a_peer_needs_and_no_more(tmp_path, ca):
    home = tmp_path / "home"
    issued = x509.load_pem_x509_certificate(
        issue(request(NAME, home).csr, NAME, ca, tmp_path / "c", days=7).read_bytes()
    )
    extensions = issued.extensions
    assert extensions.get_extension_for_class(x509.SubjectAlternativeName).value == x509.SubjectAlternativeName(
        [x509.DNSName(NAME)]
    )
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    uses = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert uses == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert not usage.key_cert_sign
    now = datetime.now(UTC)
    assert timedelta(minutes=50) < now - issued.not_valid_before_utc < timedelta(minutes=70), "clocks differ"
    assert timedelta(days=7) - timedelta(minutes=1) < issued.not_valid_after_utc - now <= timedelta(days=7)
    again = x509.load_pem_x509_certificate(issue(home / f"{NAME}.csr", NAME, ca, tmp_path / "d").read_bytes())
    assert issued.serial_number != again.serial_number
    assert min(issued.serial_number, again.serial_number) > 1 << 64


def test_certificate_is_not_written_over_another_file(tmp_path, ca):
    asked = request(NAME, tmp_path / "home")
    before = (ca / "ca.key").read_bytes()
    with pytest.raises(IdentityError, match="already"):
        issue(asked.csr, NAME, ca, ca / "ca.key")
    assert (ca / "ca.key").read_bytes() == before


def test_renewal_touches_nothing_in_use_until_it_is_installed(home, ca, tmp_path):
    before = load_identity(identity_files(home))
    asked = request(NAME, home)
    assert load_identity(identity_files(home)) == before
    pending = asked.key.read_bytes()
    assert pending != before.key_pem, "a renewed certificate has a fresh key"
    assert request(NAME, home).key.read_bytes() == pending, (
        "asking again does not throw away a key whose certificate is on its way"
    )
    after = install(issue(asked.csr, NAME, ca, tmp_path / "new.crt"), ca / "ca.crt", home)
    assert after.key_pem == pending
    assert after.fingerprint != before.fingerprint
    assert load_identity(identity_files(home)) == after
    assert not asked.key.exists()


def test_a_renewed_certificate_takes_the_place_of_the_old_one_at_the_authority(home, ca, tmp_path):
    """`request`, `issue` and `install` again, with the same names, as docs/deploy.md has it."""
    out = tmp_path / f"{NAME}.crt"
    first = issue(request(NAME, home).csr, NAME, ca, out).read_bytes()
    before = install(out, ca / "ca.crt", home)
    second = issue(request(NAME, home).csr, NAME, ca, out).read_bytes()
    assert first != second
    assert install(out, ca / "ca.crt", home).fingerprint != before.fingerprint
    assert sorted(path.name for path in home.iterdir()) == ["ca.crt", "identity.pem"]  # no key that nobody uses
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_certificate_makes_room_for_no_other_peer_and_no_other_authority(tmp_path, ca):
    init_ca(tmp_path / "ca2", "another")
    out, asked = tmp_path / "out.crt", request(NAME, tmp_path / "home")
    before = issue(asked.csr, NAME, ca, out).read_bytes()
    other = request("hospital-b", tmp_path / "b")
    for csr_, name, authority in ((other.csr, "hospital-b", ca), (asked.csr, NAME, tmp_path / "ca2")):
        with pytest.raises(IdentityError, match=r"out\.crt is there already"):
            issue(csr_, name, authority, out)
    assert out.read_bytes() == before
    for text in (b"", b"my notes", before + before):
        out.write_bytes(text)
        with pytest.raises(IdentityError, match="already"):
            issue(asked.csr, NAME, ca, out)
        assert out.read_bytes() == text


def test_install_may_be_repeated_after_a_crash_before_its_last_step(home, ca, tmp_path):
    asked = request(NAME, home)
    pending, new = asked.key.read_bytes(), issue(asked.csr, NAME, ca, tmp_path / "new.crt")
    first = install(new, ca / "ca.crt", home)
    asked.key.write_bytes(pending)
    asked.key.chmod(0o600)
    assert install(new, ca / "ca.crt", home) == first


def test_a_certificate_is_not_written_over_an_identity_with_its_key(home, ca):
    before = (home / "identity.pem").read_bytes()
    with pytest.raises(IdentityError, match=r"identity\.pem is there already"):
        issue(request(NAME, home).csr, NAME, ca, home / "identity.pem")
    assert (home / "identity.pem").read_bytes() == before


def test_a_key_is_fresh_also_after_an_install_that_was_cut_short(home, ca, tmp_path):
    asked = request(NAME, home)
    pending = asked.key.read_bytes()
    install(issue(asked.csr, NAME, ca, tmp_path / "new.crt"), ca / "ca.crt", home)
    asked.key.write_bytes(pending)
    asked.key.chmod(0o600)
    assert request(NAME, home).key.read_bytes() != pending
    assert mode(asked.key) == 0o600


def test_install_refuses_the_certificate_of_another_request(home, ca, tmp_path):
    before = (home / "identity.pem").read_bytes()
    other = issue(request(NAME, tmp_path / "other").csr, NAME, ca, tmp_path / "other.crt")
    with pytest.raises(IdentityError, match="make a request first"):
        install(other, ca / "ca.crt", home)
    request(NAME, home)
    with pytest.raises(IdentityError, match="not issued for the key"):
        install(other, ca / "ca.crt", home)
    assert (home / "identity.pem").read_bytes() == before
    assert (home / "next.key").exists()


def test_install_refuses_another_authority_and_another_name(home, ca, tmp_path):
    before = (home / "identity.pem").read_bytes(), (home / "ca.crt").read_bytes()
    init_ca(tmp_path / "ca2", "federation")
    new = issue(request(NAME, home).csr, NAME, tmp_path / "ca2", tmp_path / "new.crt")
    with pytest.raises(IdentityError, match="not issued by the authority"):
        install(new, ca / "ca.crt", home)
    with pytest.raises(IdentityError, match="holds another authority"):
        install(new, tmp_path / "ca2" / "ca.crt", home)
    with pytest.raises(IdentityError, match="identity of 'hospital-a', .*'hospital-b'"):
        request("hospital-b", home)
    asked = request("hospital-b", tmp_path / "b")
    asked.key.replace(home / "next.key")
    new = issue(asked.csr, "hospital-b", ca, tmp_path / "b.crt")
    with pytest.raises(IdentityError, match="identity of 'hospital-a', .*'hospital-b'"):
        install(new, ca / "ca.crt", home)
    assert ((home / "identity.pem").read_bytes(), (home / "ca.crt").read_bytes()) == before


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # cryptography's remark on some of the damage
def test_damaged_bytes_are_refused_with_a_clear_error(tmp_path, ca):
    """Whatever bit is turned: an IdentityError, or (the frame of a signature is not signed) it still says the same."""
    generator = random.Random(4)
    original = x509.load_pem_x509_csr(csr(tmp_path / "csr").read_bytes())
    files = certificate(tmp_path / "home", ca)
    issued = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    refused = 0
    for turn in range(400):
        asked = turn % 2 == 1
        der = bytearray((original if asked else issued).public_bytes(Encoding.DER))
        der[generator.randrange(len(der))] ^= 1 << generator.randrange(8)
        kind = "CERTIFICATE REQUEST" if asked else "CERTIFICATE"
        pem = f"-----BEGIN {kind}-----\n{base64.b64encode(der).decode()}\n-----END {kind}-----\n"
        (tmp_path / "damaged").write_text(pem)
        try:
            if asked:
                issue(tmp_path / "damaged", NAME, ca, tmp_path / f"{turn}.crt")
                signed = x509.load_pem_x509_csr(pem.encode()).tbs_certrequest_bytes
                assert signed == original.tbs_certrequest_bytes
            else:
                load_identity(files._replace(certificate=tmp_path / "damaged"))
                assert (
                    x509.load_pem_x509_certificate(pem.encode()).tbs_certificate_bytes == issued.tbs_certificate_bytes
                )
        except IdentityError:
            refused += 1
    assert refused > 380


# --- identities that are refused


BOTH = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]


def test_a_pair_made_elsewhere_is_accepted(tmp_path, ca):
    files = certificate(tmp_path / "home", ca)
    assert load_identity(files).name == NAME
    bundle = tmp_path / "bundle.crt"
    init_ca(tmp_path / "ca2", "next federation")
    bundle.write_bytes((tmp_path / "ca2" / "ca.crt").read_bytes() + (ca / "ca.crt").read_bytes())
    identity = load_identity(files._replace(ca=bundle))
    assert identity.ca_pem.count(b"BEGIN CERTIFICATE") == 2, "two authorities, while one takes over from the other"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"names": None}, r"holds the names .none., expected exactly one DNS name"),
        ({"names": (x509.DNSName(NAME), x509.DNSName("b"))}, "expected exactly one DNS name"),
        ({"names": (x509.RFC822Name("a@b"),)}, "expected exactly one DNS name"),
        ({"names": (x509.DNSName("*.a"),)}, r"peer name '\*.a' cannot be used"),
        ({"start": -2 * DAY, "end": -DAY}, "ended .*renew it"),
        ({"start": DAY, "end": 2 * DAY}, "valid from .*clock"),
        ({"signer": ec.generate_private_key(ec.SECP256R1())}, "not issued by the authority"),
        ({"uses": BOTH[:1]}, "may not be used for .*serverAuth"),
        ({"uses": BOTH[1:]}, "may not be used for .*clientAuth"),
        ({"key": ec.generate_private_key(ec.SECP384R1())}, "expected ECDSA P-256"),
    ],
)
def test_certificates_that_cannot_be_used(tmp_path, ca, content, message):
    with pytest.raises(IdentityError, match=message):
        load_identity(certificate(tmp_path / "home", ca, **content))


def test_files_that_cannot_be_used(tmp_path, ca):
    files = certificate(tmp_path / "home", ca)
    other = certificate(tmp_path / "other", ca)
    with pytest.raises(IdentityError, match="not issued for the key"):
        load_identity(files._replace(key=other.key))
    with pytest.raises(IdentityError, match="cannot be read"):
        load_identity(files._replace(key=tmp_path / "nowhere"))
    with pytest.raises(IdentityError, match="no usable certificate"):
        load_identity(files._replace(certificate=files.key))
    with pytest.raises(IdentityError, match="not issued by the authority"):
        load_identity(files._replace(ca=other.certificate))
    two = tmp_path / "two.crt"
    two.write_bytes(files.certificate.read_bytes() + other.certificate.read_bytes())
    with pytest.raises(IdentityError, match="holds 2 certificates, expected one"):
        load_identity(files._replace(certificate=two))
    for bits in (0o640, 0o604, 0o660):
        files.key.chmod(bits)
        with pytest.raises(IdentityError, match=f"mode {bits:o}.: chmod 600"):
            load_identity(files)
    files.key.write_bytes(b"junk")
    files.key.chmod(0o600)
    with pytest.raises(IdentityError, match="no usable private key"):
        load_identity(files)


def test_a_peer_is_no_authority(tmp_path, ca):
    """What a peer signs with its own key under its own name is worth nothing."""
    peer = certificate(tmp_path / "home", ca)
    child = certificate(tmp_path / "child", ca, signer=load_pem_private_key(peer.key.read_bytes(), None))
    with pytest.raises(IdentityError, match="not issued by the authority"):
        load_identity(child)
    with pytest.raises(IdentityError, match="not issued by the authority"):
        load_identity(child._replace(ca=peer.certificate))


def test_a_certificate_that_may_not_sign_is_no_authority(tmp_path, ca):
    files = certificate(tmp_path / "home", ca)
    key = load_pem_private_key((ca / "ca.key").read_bytes(), None)
    authority = x509.load_pem_x509_certificate((ca / "ca.crt").read_bytes())
    builder = x509.CertificateBuilder().subject_name(authority.subject).issuer_name(authority.subject)
    builder = builder.public_key(key.public_key()).serial_number(authority.serial_number)
    builder = builder.not_valid_before(authority.not_valid_before_utc).not_valid_after(authority.not_valid_after_utc)
    for signs in (True, False):
        made = builder.add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
        files.ca.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
        with contextlib.nullcontext() if signs else pytest.raises(IdentityError, match="not issued by the authority"):
            load_identity(files)


def test_an_authority_that_has_ended_issues_nobody(home):
    now = datetime.now(UTC) + 3651 * DAY
    with pytest.raises(IdentityError, match="authority's certificate is not valid"):
        load_identity(identity_files(home), now)


# --- the end of a certificate


def lasting(life):
    start = datetime(2030, 1, 1, tzinfo=UTC)
    return Identity(NAME, start, start + life, "", b"", b"", b"")


@pytest.mark.parametrize(
    ("life", "left"),
    [(90 * DAY, 21 * DAY), (10 * DAY, 3 * DAY), (DAY, 0.3 * DAY)],
)
def test_the_end_is_announced_in_good_time(life, left):
    identity, second = lasting(life), timedelta(seconds=1)
    assert expiry_warning(identity, identity.not_after - left - second) is None
    assert "tacit peer request hospital-a" in expiry_warning(identity, identity.not_after - left)
    assert "ends in 0 hours" in expiry_warning(identity, identity.not_after - second)
    with pytest.raises(IdentityError, match="ended .*renew it"):
        expiry_warning(identity, identity.not_after)


def test_the_announcement_counts_days_then_hours():
    identity = lasting(90 * DAY)
    assert "ends in 2 days" in expiry_warning(identity, identity.not_after - 2 * DAY)
    assert "ends in 47 hours" in expiry_warning(identity, identity.not_after - 2 * DAY + timedelta(seconds=1))
