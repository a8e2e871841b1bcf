"""Identities of a small federation, and parties that speak through a relay in memory."""

import datetime
import functools

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tacit.core.errors import MessageRefused
from tacit.peer.identity.identity import Identity
from tacit.peer.masking import REASONS
from tacit.peer.masking import agreement_wire as wire
from tacit.peer.masking.agreement import PairwiseParty

NOW = datetime.datetime(2030, 5, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
JOB, OTHER_JOB = bytes(range(32)), bytes(32)
CLIENT = [x509.OID_CLIENT_AUTH, x509.OID_SERVER_AUTH]


def addresses(payload):
    """Sender and recipient of a payload."""
    header = wire.Reader(payload).header()
    return header.sender, header.recipient


class Authority:
    """Issues certificates, good ones and others."""

    def __init__(self, name="federation", start=NOW - 30 * DAY, end=NOW + 30 * DAY, is_ca=True):
        self.key, self.name, self.valid = ec.generate_private_key(ec.SECP256R1()), name, (start, end)
        constraints = x509.BasicConstraints(ca=is_ca, path_length=None)
        certificate = self._builder(name, self.key, start, end).add_extension(constraints, critical=True)
        self.pem = certificate.sign(self.key, SHA256()).public_bytes(Encoding.PEM)

    def _builder(self, subject, key, start, end):
        def named(common):
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])

        builder = x509.CertificateBuilder().subject_name(named(subject)).issuer_name(named(self.name))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return builder.not_valid_before(start).not_valid_after(end)

    def issue(
        self,
        *names,
        start=NOW - DAY,
        end=NOW + DAY,
        usage=CLIENT,
        curve=ec.SECP256R1(),
        extra=None,
        named=True,
        signs=None,
    ):
        """Return a certificate and its key."""
        key = ec.generate_private_key(curve)
        builder = self._builder(names[0], key, start, end)
        if named:
            alternatives = x509.SubjectAlternativeName([x509.DNSName(n) for n in names])
            builder = builder.add_extension(alternatives, critical=False)
        if usage:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        if signs is not None:
            builder = builder.add_extension(x509.KeyUsage(signs, *[False] * 3, not signs, *[False] * 4), critical=True)
        if extra:
            builder = builder.add_extension(extra, critical=True)
        return builder.sign(self.key, SHA256()).public_bytes(Encoding.PEM), key


@functools.cache
def authority():
    return Authority()


@functools.cache
def identity(name):
    return authority().issue(name)


def identified(name, certificate, key, ca=None):
    """An identity as it lies in memory; whether its parts fit is for others to check."""
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    start, end = NOW - DAY, NOW + DAY
    return Identity(name, start, end, "", certificate, private, ca or authority().pem)


class Vault:
    """Keeps keys as a store does, in memory."""

    def __init__(self):
        self.keys = {}

    def keep_keys(self, pairs):
        self.keys = {**self.keys, **pairs}


def party(name, receiver="b", partners=("a", "c", "d"), job=JOB, issued=None, ca=None, store=None):
    """A member of the group of a receiver; with the store of another it is that peer after a restart."""
    own = identified(name, *(issued or identity(name)), ca)
    return PairwiseParty(own, job, receiver, set(partners) - {name}, store or Vault(), NOW)


def restarted(one):
    """The same peer as a new process."""
    return party(one.name, one.receiver, one.partners, one._job, store=one._store)


class Relay:
    """Carries payloads between parties and keeps a copy of each; `tamper` may return others in its place."""

    def __init__(self, *parties):
        self.parties = {p.name: p for p in parties}
        self.seen, self.refused = [], []
        self.tamper = lambda payload: [payload]

    def carry(self, *payloads):
        """Carry payloads, and replies to them, until there are none."""
        queue = list(payloads)
        while queue:
            payload = queue.pop(0)
            self.seen.append(payload)
            for passed in self.tamper(payload):
                try:
                    reply = self.parties[addresses(passed)[1]].accept(passed, NOW).reply
                except MessageRefused as refusal:
                    self.refused.append(refusal.reason)
                else:
                    queue += [] if reply is None else [reply]
        return self


def pair(first="a", second="c", **kwargs):
    """Two parties with a session."""
    one, two = party(first, **kwargs), party(second, **kwargs)
    relay = Relay(one, two).carry(one.offer(second))
    assert one.session(second) is not None
    return one, two, relay


def refusal(act, *args):
    """The reason for which a payload is refused; any other end is a failure."""
    with pytest.raises(MessageRefused) as caught:
        act(*args)
    assert caught.value.reason in REASONS
    return caught.value.reason


def state(one):
    """All that a message could change in a party."""
    return dict(one._store.keys), dict(one._last)


def offered(payload):
    """The fields of an offer."""
    reader = wire.Reader(payload)
    return reader.offer(reader.header())


def der(pem):
    """A certificate as an offer encloses it."""
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def forged(one, offer, signer=None):
    """An offer with any fields, signed by the key of a party or by another."""
    key = signer or one._private_key
    return offer._replace(
        signature=key.sign(b"tacit pairwise offer 2\0" + offer.signed(), ec.ECDSA(SHA256()))
    ).encoded()
