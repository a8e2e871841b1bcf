"""Peers with good certificates, and with certificates and requests that must be refused."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from tacit.peer.identity.authority import issue
from tacit.peer.identity.enrolment import install, request
from tacit.peer.identity.identity import IdentityFiles

NAME = "hospital-a"
DAY = timedelta(days=1)


def enrol(home, ca, name=NAME, days=90, role="peer"):
    asked = request(name, home)
    certificate = issue(asked.csr, name, ca, home / f"{name}.crt", days, role)
    identity = install(certificate, ca / "ca.crt", home)
    certificate.unlink()
    return identity


def csr(path, key=None, names=(x509.DNSName(NAME),), subject=(), extensions=()):
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in subject])
    )
    if names is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    key = key or ec.generate_private_key(ec.SECP256R1())
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    path.write_bytes(builder.sign(key, algorithm).public_bytes(Encoding.PEM))
    return path


def certificate(home, ca, names=(x509.DNSName(NAME),), uses=None, start=-DAY, end=DAY, key=None, signer=None):
    """A pair of files with a certificate that `issue` would not make."""
    now = datetime.now(UTC)
    home.mkdir(exist_ok=True)
    authority = x509.load_pem_x509_certificate((ca / "ca.crt").read_bytes())
    signer = signer or load_pem_private_key((ca / "ca.key").read_bytes(), None)
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject, issuer = x509.Name([]), authority.subject
    if signer is key:
        subject = issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now + start).not_valid_after(now + end)
    if names is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if uses is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    files = IdentityFiles(home / "peer.crt", home / "peer.key", ca / "ca.crt")
    files.certificate.write_bytes(builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM))
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files.key.chmod(0o600)
    return files
