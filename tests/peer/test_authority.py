"""The authority: what it is, and which requests it does not sign."""

import stat
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from tacit.core.errors import IdentityError
from tacit.peer.identity.authority import init_ca, issue
from tests.peer.enrolment import DAY, NAME, csr


@pytest.fixture
def ca(tmp_path):
    init_ca(tmp_path / "ca", "federation")
    return tmp_path / "ca"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# --- the authority


def test_authority_is_one_that_signs_only_peers(ca):
    certificate = x509.load_pem_x509_certificate((ca / "ca.crt").read_bytes())
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert not usage.value.digital_signature
    assert mode(ca / "ca.key") == 0o600
    assert mode(ca / "ca.crt") == 0o644
    assert mode(ca) == 0o700
    assert sorted(path.name for path in ca.iterdir()) == ["ca.crt", "ca.key"], "nothing half-written is left"
    assert certificate.not_valid_after_utc - datetime.now(UTC) > 3649 * DAY


@pytest.mark.parametrize("survivor", ["ca.key", "ca.crt"])
def test_authority_is_never_overwritten(ca, survivor):
    (ca / ({"ca.key", "ca.crt"} - {survivor}).pop()).unlink()
    before = (ca / survivor).read_bytes()
    with pytest.raises(IdentityError, match=f"{survivor} is there already"):
        init_ca(ca, "federation")
    assert (ca / survivor).read_bytes() == before
    assert len(list(ca.iterdir())) == 1


@pytest.mark.parametrize(("name", "days"), [("", 10), ("x" * 65, 10), ("federation", 0), ("federation", 10**6)])
def test_authority_that_cannot_be(tmp_path, name, days):
    with pytest.raises(IdentityError, match="expected 1 to"):
        init_ca(tmp_path, name, days)
    assert not list(tmp_path.iterdir())


# --- requests that are refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"names": (x509.DNSName("hospital-b"),)}, "expected only the DNS name 'hospital-a'"),
        ({"names": (x509.DNSName(NAME), x509.DNSName("hospital-b"))}, "expected only the DNS name"),
        ({"names": (x509.DNSName(NAME), x509.DNSName(NAME))}, "expected only the DNS name"),
        ({"names": (x509.DNSName("*"),)}, "expected only the DNS name"),
        ({"names": (x509.RFC822Name(NAME),)}, "expected only the DNS name"),
        ({"names": (x509.DNSName(NAME), x509.UniformResourceIdentifier("spiffe://x/y"))}, "expected only the DNS name"),
        ({"names": None, "subject": (NAME,)}, "expected only the DNS name"),
        ({"names": None}, "expected only the DNS name"),
        ({"subject": ("hospital-b",)}, "expected only the DNS name"),
        ({"extensions": (x509.BasicConstraints(ca=True, path_length=None),)}, "asks for basicConstraints"),
        ({"extensions": (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.OCSP_SIGNING]),)}, "asks for extendedKeyUsage"),
        ({"key": ec.generate_private_key(ec.SECP384R1())}, "kind secp384r1, expected ECDSA P-256"),
        ({"key": rsa.generate_private_key(65537, 2048)}, "expected ECDSA P-256"),
        ({"key": ed25519.Ed25519PrivateKey.generate()}, "expected ECDSA P-256"),
    ],
)
def test_requests_for_more_than_one_agreed_name_are_refused(tmp_path, ca, content, message):
    path = csr(tmp_path / "csr", **content)
    with pytest.raises(IdentityError, match=message):
        issue(path, NAME, ca, tmp_path / "out.crt")
    assert not (tmp_path / "out.crt").exists()


def test_a_request_with_the_same_common_name_is_issued(tmp_path, ca):
    assert issue(csr(tmp_path / "csr", subject=(NAME,)), NAME, ca, tmp_path / "out.crt").exists()


def test_a_request_changed_on_its_way_is_refused(tmp_path, ca):
    original = x509.load_pem_x509_csr(csr(tmp_path / "csr").read_bytes()).public_bytes(Encoding.DER)
    changed = x509.load_der_x509_csr(original.replace(NAME.encode(), b"hospital-b"))
    (tmp_path / "csr").write_bytes(changed.public_bytes(Encoding.PEM))
    with pytest.raises(IdentityError, match="not signed by its own"):
        issue(tmp_path / "csr", "hospital-b", ca, tmp_path / "out.crt")


@pytest.mark.parametrize(
    "content", [b"", b"junk", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
)
def test_what_is_no_request_is_refused(tmp_path, ca, content):
    (tmp_path / "csr").write_bytes(content)
    with pytest.raises(IdentityError, match="not a certificate request"):
        issue(tmp_path / "csr", NAME, ca, tmp_path / "out.crt")


def test_issue_refuses_bad_names_days_and_authorities(tmp_path, ca):
    path = csr(tmp_path / "csr", names=(x509.DNSName("*.a"),))
    with pytest.raises(IdentityError, match="peer name"):
        issue(path, "*.a", ca, tmp_path / "out.crt")
    path = csr(tmp_path / "csr")
    with pytest.raises(IdentityError, match="after the authority itself"):
        issue(path, NAME, ca, tmp_path / "out.crt", days=3651)
    with pytest.raises(IdentityError, match="valid for 0 days"):
        issue(path, NAME, ca, tmp_path / "out.crt", days=0)
    init_ca(tmp_path / "ca2", "federation")
    (ca / "ca.crt").write_bytes((tmp_path / "ca2" / "ca.crt").read_bytes())
    with pytest.raises(IdentityError, match="do not fit"):
        issue(path, NAME, ca, tmp_path / "out.crt")
    (tmp_path / "ca2" / "ca.key").chmod(0o640)
    with pytest.raises(IdentityError, match="can be read by others"):
        issue(path, NAME, tmp_path / "ca2", tmp_path / "out.crt")
    with pytest.raises(IdentityError, match="cannot be read"):
        issue(path, NAME, tmp_path / "nowhere", tmp_path / "out.crt")
    assert not (tmp_path / "out.crt").exists()


def test_what_cannot_be_written_is_said(tmp_path, ca):
    with pytest.raises(IdentityError, match="cannot be written"):
        issue(csr(tmp_path / "csr"), NAME, ca, tmp_path / "nowhere" / "out.crt")
