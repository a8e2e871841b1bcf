"""Secrets that two neighbours of a common receiver share, agreed on through that receiver, who does not learn them.

A and C both send to B and need one key stream, for masks that cancel at B; all that passes between them goes through B.

**What B sees**: names, public keys, certificates, and the number and sizes of sealed messages. **What B can do**: drop,
delay, repeat and alter, that is deny service, and nothing else. Each party signs, with the key of its certificate, its
fresh X25519 key, the key that it answers, both names, the job and the receiver: a Diffie-Hellman exchange signed as in
ISO/IEC 9798-3, which is secure against an active attacker (Canetti and Krawczyk 2001). To swap a key B would have to
forge a signature. A session stands only after the other end signed *this* end's fresh key, so nothing from an earlier
run, another job or another receiver's group completes one. HKDF binds all of it into the keys. Who steals the
certificate's key later learns no past session. A partner who tells B the pads is not held off by anything here.

**An exchange** is three messages: hello (my key), answer (my key and yours), confirm (likewise, and no reply is due).
An end has one key under way per partner, so hellos that cross lead to one session. A standing session gives way only to
one that is proven: a hello of long ago, repeated, takes nothing away. Keys live in memory alone; a restart means a new
exchange and a new key stream. `session` names the present one: pads cancel only if both ends took them from the same.
An offer is due to those whom `unsettled` names, and to one whose message `open` refuses for its session.
"""

from __future__ import annotations

import datetime
import operator
import struct
from collections.abc import Collection
from typing import NamedTuple, NoReturn

import numpy as np
from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from numpy.typing import NDArray

from tacit.errors import ConfigError, IdentityError, MessageRefused, PrivacyError
from tacit.peer import pairwise_wire as wire
from tacit.peer.identity import Identity, is_valid, issued_by

REASONS = frozenset(
    {"content", "version", "address", "sender", "receiver", "job"}
    | {"certificate", "signature", "key", "stale", "session", "repeated", "seal"}
)
"""Every `MessageRefused.reason` of this module."""
LARGEST_PAD = 1 << 28
"""Words of one pad (2 GiB): the 32-bit block counter of ChaCha20 stays far from its end."""
_REMEMBERED = 64  # keys of ended sessions, per partner; older ones are not known again, but complete no exchange
_SIGNED, _KEYS = b"tacit pairwise offer 1\0", b"tacit pairwise keys 1\0"


class Accepted(NamedTuple):
    """What came of an offer."""

    sender: str
    reply: bytes | None
    """To be sent back to the sender, where the exchange needs it."""


class _Exchange:
    """A key pair made for a session that does not stand yet."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.key = self._private.public_key().public_bytes_raw()
        self.answered: bytes | None = None

    def shared(self, key: bytes) -> bytes:
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(key))
        except ValueError:  # RFC 7748, 6.1: with a point of low order the secret is all zeros, which everybody knows
            raise MessageRefused("key", "the public key is a point of low order: there is no secret in it") from None


class _Session:
    """Keys and positions of a session that stands."""

    def __init__(self, exchange: _Exchange, key: bytes, ours_first: bool, info: bytes) -> None:
        self.own, self.remote = exchange.key, key
        keys = self.own + key if ours_first else key + self.own
        kdf = HKDF(SHA256(), 3 * wire.KEY_BYTES + wire.SESSION_BYTES, salt=None, info=info + keys)
        derived = bytearray(kdf.derive(exchange.shared(key)))
        first, second, self.pad_key, name = (derived[k : k + wire.KEY_BYTES] for k in range(0, len(derived), 32))
        self.send_key, self.hear_key = (first, second) if ours_first else (second, first)
        self.id = bytes(name)
        _overwrite(derived)
        self.sent, self.heard = 0, -1
        self.last_pad = (-1, -1)

    def end(self) -> None:
        for key in (self.send_key, self.hear_key, self.pad_key):
            _overwrite(key)


class PairwiseParty:
    """One sender to a receiver, and its secrets with the receiver's other senders; no clock, no network, no disk."""

    def __init__(
        self,
        identity: Identity,
        job: bytes,
        receiver: str,
        partners: Collection[str],
        now: datetime.datetime,
    ) -> None:
        """Take who this is, the job's hash (32 bytes), the receiver, and the receiver's other senders."""
        name = identity.name
        for given in (name, receiver, *partners):
            if not wire.NAME.fullmatch(given):
                raise ConfigError(f"name {given!r}: expected 1 to 253 of a-z, 0-9, '-' and '.'")
        if receiver == name or {name, receiver} & set(partners):
            raise ConfigError(
                f"party {name!r}, receiver {receiver!r}, partners {sorted(partners)}: expected all different; "
                "a secret with the receiver would hide nothing from it"
            )
        if len(job) != wire.KEY_BYTES:
            raise ConfigError(f"a job hash of {len(job)} bytes: expected the {wire.KEY_BYTES} bytes of a SHA-256")
        self.name, self.receiver, self.partners = name, receiver, tuple(sorted(set(partners)))
        self._job = bytes(job)
        self._exchanges: dict[str, _Exchange] = {}
        self._sessions: dict[str, _Session] = {}
        self._ended: dict[str, list[bytes]] = {}
        self.renew(identity, now)

    def renew(self, identity: Identity, now: datetime.datetime) -> None:
        """Sign with another certificate, and trust its authorities, from now on; sessions stay."""
        authorities = x509.load_pem_x509_certificates(identity.ca_pem)
        certificate = x509.load_pem_x509_certificate(identity.certificate_pem).public_bytes(Encoding.DER)
        private_key = load_pem_private_key(identity.key_pem, password=None)
        try:
            public = _certified_key(certificate, self.name, authorities, now)
        except MessageRefused as refusal:
            raise IdentityError(f"certificate of {self.name!r}: {refusal}; have a new one issued") from None
        if not isinstance(private_key, ec.EllipticCurvePrivateKey) or private_key.public_key() != public:
            raise IdentityError(f"the certificate of {self.name!r} is for another key: take two that belong together")
        self._authorities, self._certificate, self._private_key = authorities, certificate, private_key

    def offer(self, to: str) -> bytes:
        """Begin an exchange, or say again what began it; a standing session is kept until the new one is proven."""
        self._known(to)
        if to not in self._exchanges:
            self._exchanges[to] = _Exchange()
        return self._signed(wire.HELLO, to, self._exchanges[to].key, wire.NO_KEY)

    def rekey(self, to: str) -> bytes:
        """Give up the session at once and begin another."""
        self.forget(to)
        return self.offer(to)

    def accept(self, payload: bytes, now: datetime.datetime) -> Accepted:
        """Verify an offer and complete the session where that is due; where it raises, nothing has changed."""
        offer = self._verified(payload, now)
        sender, kind = offer.header.sender, offer.header.kind
        session, exchange = self._sessions.get(sender), self._exchanges.get(sender)
        if session is not None and offer.key == session.remote:  # said again, since our last word was lost
            if kind != wire.HELLO and offer.answered != session.own:
                _refuse_stale(sender)
            return Accepted(sender, self._reply(offer, session.own))
        if offer.key in self._ended.get(sender, ()):
            _refuse_stale(sender)
        if kind == wire.HELLO:
            if exchange is None or exchange.answered not in (None, offer.key):
                exchange = _Exchange()  # a key answers one key only: a dead process's last word must not take it up
            exchange.shared(offer.key)
            exchange.answered = offer.key
            self._exchanges[sender] = exchange
            return Accepted(sender, self._reply(offer, exchange.key))
        if exchange is None or offer.answered != exchange.key:
            _refuse_stale(sender)
        agreed = _Session(exchange, offer.key, self.sign(sender) > 0, self._info(sender))
        self.forget(sender)
        self._sessions[sender] = agreed
        return Accepted(sender, self._reply(offer, agreed.own))

    def session(self, with_: str) -> bytes | None:
        """Return the name of the standing session: no secret, and the same at both ends."""
        self._known(with_)
        session = self._sessions.get(with_)
        return None if session is None else session.id

    def unsettled(self) -> tuple[str, ...]:
        """Partners to whom an offer is due: no session stands, or an exchange was not completed."""
        return tuple(p for p in self.partners if p not in self._sessions or p in self._exchanges)

    def sign(self, with_: str) -> int:
        """+1 at one end and -1 at the other."""
        self._known(with_)
        return 1 if self.name < with_ else -1

    def pad(self, with_: str, round_: int, phase: int, words: int) -> NDArray[np.uint64]:
        """Return the common key stream of a position, once: within a session positions only grow."""
        session = self._standing(with_)
        position = operator.index(round_), operator.index(phase)
        if not (0 <= position[0] < 1 << 64 and 0 <= position[1] < 1 << 32 and 0 < words <= LARGEST_PAD):
            raise PrivacyError(
                f"a pad of {words} words for round {round_}, phase {phase}: expected 1 to {LARGEST_PAD} words, a "
                "round of 64 bits and a phase of 32"
            )
        if position <= session.last_pad:
            raise PrivacyError(
                f"pad with {with_!r} for round {round_}, phase {phase}: (round, phase) {session.last_pad} was given "
                "out, and no position is used twice or out of order; rekey"
            )
        session.last_pad = position
        nonce = struct.pack("<LLQ", 0, position[1], position[0])  # block counter 0, then the 96 bits of RFC 8439
        stream = Cipher(ChaCha20(bytes(session.pad_key), nonce), mode=None).encryptor().update(bytes(8 * words))
        return np.frombuffer(stream, "<u8")

    def seal(self, to: str, plaintext: bytes) -> bytes:
        """Encrypt for a partner."""
        session = self._standing(to)
        if len(plaintext) > wire.LARGEST_SEALED:
            raise ConfigError(f"{len(plaintext)} bytes to seal, at most {wire.LARGEST_SEALED} are taken: split them")
        message = wire.Sealed(self._header(wire.SEALED, to), session.id, session.sent)
        cipher = ChaCha20Poly1305(bytes(session.send_key))
        session.sent += 1
        return message._replace(ciphertext=cipher.encrypt(_nonce(message), plaintext, message.bound())).encoded()

    def open(self, payload: bytes) -> tuple[str, bytes]:
        """Return sender and plaintext; what is not newer than the last is refused, a gap is not."""
        reader = wire.Reader(payload)
        message = reader.sealed(self._addressed(reader, (wire.SEALED,)))
        sender, session = message.header.sender, self._sessions.get(message.header.sender)
        if session is None or message.session != session.id:
            raise MessageRefused("session", f"{sender!r} sealed it in a session that does not stand here")
        if message.number <= session.heard:
            raise MessageRefused("repeated", f"number {message.number} of {sender!r} after number {session.heard}")
        cipher = ChaCha20Poly1305(bytes(session.hear_key))
        try:
            plaintext = cipher.decrypt(_nonce(message), message.ciphertext, message.bound())
        except InvalidTag:
            raise MessageRefused("seal", f"it is not what {sender!r} sealed") from None
        session.heard = message.number
        return sender, plaintext

    def forget(self, with_: str) -> None:
        """End session and exchange with a partner; keys are overwritten, but for copies that the libraries made."""
        self._known(with_)
        self._exchanges.pop(with_, None)
        if (session := self._sessions.pop(with_, None)) is not None:
            session.end()
            self._ended[with_] = [*self._ended.get(with_, ()), session.remote][-_REMEMBERED:]

    def close(self) -> None:
        """Forget every session and exchange."""
        for partner in self.partners:
            self.forget(partner)

    def __repr__(self) -> str:
        return f"PairwiseParty({self.name!r}, receiver {self.receiver!r}, sessions with {sorted(self._sessions)})"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("pairwise secrets are neither copied nor stored: a copy would use their key stream again")

    def _known(self, partner: str) -> None:
        if partner not in self.partners:
            raise ConfigError(
                f"{partner!r} is no partner at receiver {self.receiver!r}: expected one of {', '.join(self.partners)}"
            )

    def _standing(self, partner: str) -> _Session:
        self._known(partner)
        if partner not in self._sessions:
            raise PrivacyError(f"no session with {partner!r}: exchange offers first, nothing leaves without its mask")
        return self._sessions[partner]

    def _header(self, kind: int, to: str) -> wire.Header:
        return wire.Header(kind, self.name, to, self.receiver, self._job)

    def _info(self, partner: str) -> bytes:
        first, second = sorted((self.name, partner))
        return _KEYS + wire.Header(0, first, second, self.receiver, self._job).encoded()

    def _signed(self, kind: int, to: str, key: bytes, answered: bytes) -> bytes:
        offer = wire.Offer(self._header(kind, to), key, answered, self._certificate)
        signature = self._private_key.sign(_SIGNED + offer.signed(), ec.ECDSA(SHA256()))
        return offer._replace(signature=signature).encoded()

    def _reply(self, offer: wire.Offer, own: bytes) -> bytes | None:
        """Answer a hello, confirm an answer."""
        kind, sender = offer.header.kind, offer.header.sender
        return None if kind == wire.CONFIRM else self._signed(kind + 1, sender, own, offer.key)

    def _addressed(self, reader: wire.Reader, kinds: tuple[int, ...]) -> wire.Header:
        """Read a header and refuse what is not from a partner, for this party, in this group and job."""
        header = reader.header(kinds)
        if header.recipient != self.name:
            raise MessageRefused("address", f"it is for {header.recipient!r}, this is {self.name!r}")
        if header.receiver != self.receiver:
            raise MessageRefused("receiver", f"group of {header.receiver!r}, this is the group of {self.receiver!r}")
        if header.sender not in self.partners:
            raise MessageRefused("sender", f"{header.sender!r} is no partner at receiver {self.receiver!r}")
        if header.job != self._job:
            raise MessageRefused("job", f"job {header.job.hex()}, this is job {self._job.hex()}")
        return header

    def _verified(self, payload: bytes, now: datetime.datetime) -> wire.Offer:
        reader = wire.Reader(payload)
        offer = reader.offer(self._addressed(reader, wire.OFFERS))
        public = _certified_key(offer.certificate, offer.header.sender, self._authorities, now)
        try:
            public.verify(offer.signature, _SIGNED + offer.signed(), ec.ECDSA(SHA256()))
        except InvalidSignature:
            raise MessageRefused("signature", f"{offer.header.sender!r} did not sign this offer") from None
        return offer


def _certified_key(
    der: bytes, name: str, authorities: list[x509.Certificate], now: datetime.datetime
) -> ec.EllipticCurvePublicKey:
    """Return the key of a certificate that a valid authority issued for this name alone, valid now, for clients."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        key, extensions = certificate.public_key(), certificate.extensions
        names = list(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        issued = any(issued_by(certificate, authority) and is_valid(authority, now) for authority in authorities)
    except Exception as error:  # bytes from outside: whatever the parser has to say of them
        raise MessageRefused("certificate", f"it cannot be read: {type(error).__name__}") from None
    if not issued:
        raise MessageRefused("certificate", f"that of {name!r} was not issued by a valid authority of this federation")
    if not is_valid(certificate, now):
        times = f"{certificate.not_valid_before_utc} to {certificate.not_valid_after_utc}"
        raise MessageRefused("certificate", f"that of {name!r} is valid from {times}, and now it is {now}")
    if names != [x509.DNSName(name)]:
        raise MessageRefused("certificate", f"it is not for {name!r} alone")
    if not all(_permits_signing(extension) for extension in extensions):
        raise MessageRefused(
            "certificate", f"that of {name!r} is not for a client's signatures, or restricted in an unknown way"
        )
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise MessageRefused("certificate", f"the key of {name!r} is not on P-256")
    return key


def _permits_signing(extension: x509.Extension[x509.ExtensionType]) -> bool:
    """Whether an extension lets a peer sign with its key; what is absent restricts nothing (RFC 5280, 4.2.1)."""
    match extension.value:
        case x509.ExtendedKeyUsage() as uses:
            return x509.OID_CLIENT_AUTH in uses
        case x509.KeyUsage() as usage:
            return usage.digital_signature
        case x509.SubjectAlternativeName() | x509.BasicConstraints():
            return True
    return not extension.critical


def _refuse_stale(sender: str) -> NoReturn:
    raise MessageRefused(
        "stale", f"the offer of {sender!r} belongs to an exchange that is over or was never begun here"
    )


def _nonce(message: wire.Sealed) -> bytes:
    return struct.pack(">LQ", 0, message.number)


def _overwrite(key: bytearray) -> None:
    key[:] = bytes(len(key))
