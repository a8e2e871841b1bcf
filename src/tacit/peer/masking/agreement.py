"""Key agreement of two senders through their common receiver, which does not learn the secret.

A and C both send to B and need one key stream, for masks that cancel at B; all their messages pass through B.

**What B sees**: names, public keys and certificates. **What B can do**: drop, delay, repeat and alter, that is deny
service, and nothing else. Each end makes one X25519 key for each partner and receiver, in its whole life, and stores it
before it is sent (`key_store.py`). It signs it with the key of its certificate, together with the key that it answers,
both names, the job and the receiver: a Diffie-Hellman exchange signed as in ISO/IEC 9798-3, which is secure against an
active attacker (Canetti and Krawczyk 2001). To swap a key B would have to forge a signature. An end takes the other's
key only from a message that signs *this* end's, so nothing from an earlier run, another job or another receiver's group
is taken. HKDF binds all of it into the key of the pair.

**An exchange** is three messages: hello (my key), answer (my key and yours), confirm (likewise, and no reply is due).
A hello is due to the partners in `unsettled`. An end keeps the other's key for good, in the store, and the pair's key
is a function of the two. So crashes, restarts and attacks of B lead to the one key or to none; and a mask is a function
of that key, round and phase: masked again, a value is the same bytes again. A message can only make known a key that
was not, and only if it is signed.

A later thief of the certificate's key learns no key of a pair, and a thief of the store none of rounds before the last.
Nothing here stops a partner that tells B the pads. Stores that are lost or put back are treated in docs/privacy.md.
"""

from __future__ import annotations

import datetime
import hashlib
import operator
import struct
from collections.abc import Collection, Mapping
from typing import NamedTuple, NoReturn, Protocol

import numpy as np
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from numpy.typing import NDArray

from tacit.core.errors import ConfigError, IdentityError, MessageRefused, PrivacyError
from tacit.peer.identity.identity import Identity
from tacit.peer.identity.signatures import certified_key
from tacit.peer.masking import LARGEST_PAD
from tacit.peer.masking import agreement_wire as wire
from tacit.peer.masking.key_store import Pair, PairKey

SESSION_BYTES = 16
_SIGNED, _KEYS, _NAME = b"tacit pairwise offer 2\0", b"tacit pairwise keys 2\0", b"tacit pairwise name 2\0"


class Accepted(NamedTuple):
    """Result of an offer."""

    sender: str
    reply: bytes | None
    """Message to send back, if one is due."""


class KeyStore(Protocol):
    """Durable keys: a peer's store."""

    @property
    def keys(self) -> Mapping[Pair, PairKey]:
        """All keys."""

    def keep_keys(self, pairs: Mapping[Pair, PairKey], /) -> None:
        """Store keys; when this returns they are durable."""


class PairwiseParty:
    """One sender to a receiver, and its secrets with the receiver's other senders; no clock and no network."""

    def __init__(
        self,
        identity: Identity,
        job: bytes,
        receiver: str,
        partners: Collection[str],
        store: KeyStore,
        now: datetime.datetime,
    ) -> None:
        """Take this peer's identity, the job's hash (32 bytes), the receiver, and the receiver's other senders."""
        name = identity.name
        for given in (name, receiver, *partners):
            if not wire.NAME.fullmatch(given):
                raise ConfigError(f"name {given!r}: expected 1 to 253 of a-z, 0-9, '-' and '.'")
        if receiver == name or {name, receiver} & set(partners):
            raise ConfigError(
                f"party {name!r}, receiver {receiver!r}, partners {', '.join(sorted(partners))}: expected all "
                "different; a secret with the receiver would hide nothing from it"
            )
        if len(job) != wire.KEY_BYTES:
            raise ConfigError(f"a job hash of {len(job)} bytes: expected the {wire.KEY_BYTES} bytes of a SHA-256")
        self.name, self.receiver, self.partners = name, receiver, tuple(sorted(set(partners)))
        self._job, self._store = bytes(job), store
        self._last: dict[str, tuple[int, int]] = {}
        """Partner -> the last position that this process gave out."""
        self.renew(identity, now)
        made = {(receiver, partner): _made() for partner in self.partners if (receiver, partner) not in store.keys}
        if made:
            store.keep_keys(made)

    def renew(self, identity: Identity, now: datetime.datetime) -> None:
        """Sign with another certificate, and trust by its authorities and its list, from now on; secrets stay."""
        authorities = x509.load_pem_x509_certificates(identity.ca_pem)
        certificate = x509.load_pem_x509_certificate(identity.certificate_pem).public_bytes(Encoding.DER)
        private_key = load_pem_private_key(identity.key_pem, password=None)
        try:
            public = certified_key(certificate, self.name, authorities, now)
        except MessageRefused as refusal:
            raise IdentityError(f"certificate of {self.name!r}: {refusal}; have a new one issued") from None
        if not isinstance(private_key, ec.EllipticCurvePrivateKey) or private_key.public_key() != public:
            raise IdentityError(f"the certificate of {self.name!r} is for another key: take two that belong together")
        self._authorities, self._certificate, self._private_key = authorities, certificate, private_key
        self._revoked = identity.revoked

    def offer(self, to: str) -> bytes:
        """Return a hello with this end's key, for a partner whose own is not known."""
        return self._signed(wire.HELLO, to, self._pair(to).own, wire.NO_KEY)

    def accept(self, payload: bytes, now: datetime.datetime) -> Accepted:
        """Verify an offer and take its key where that is due; where it raises, nothing has changed."""
        offer = self._verified(payload, now)
        sender, kind = offer.header.sender, offer.header.kind
        pair = self._pair(sender)
        if offer.key != (pair.remote or offer.key) or offer.answered not in (wire.NO_KEY, pair.own):
            raise MessageRefused(
                "stale",
                f"{sender!r} speaks of other keys than those of this pair: the letter is one of an earlier run, or "
                f"{sender!r} or {self.name!r} has begun with a new store; then begin a new epoch of the job",
            )
        if pair.remote is None:
            agreed = pair._replace(key=self._agreed(sender, pair, offer.key), remote=offer.key)
            if kind != wire.HELLO:  # a hello may be of long ago: it is answered, and proves nothing
                self._store.keep_keys({(self.receiver, sender): agreed})
        reply = None if kind == wire.CONFIRM else self._signed(kind + 1, sender, pair.own, offer.key)
        return Accepted(sender, reply)

    def session(self, with_: str) -> bytes | None:
        """Return a name for the pair's secret: it is public, and the same at both ends; None while there is none."""
        pair = self._pair(with_)
        if pair.remote is None:
            return None
        return hashlib.sha256(_NAME + self._info(with_, pair.own, pair.remote)).digest()[:SESSION_BYTES]

    def unsettled(self) -> tuple[str, ...]:
        """Return the partners to which an offer is due: their key is not known."""
        return tuple(partner for partner in self.partners if self._pair(partner).remote is None)

    def pad(self, with_: str, round_: int, phase: int, words: int) -> NDArray[np.uint64]:
        """Return the common key stream of a position, in one process once; after a restart it is the same again."""
        if self.session(with_) is None:
            raise PrivacyError(f"no secret with {with_!r}: exchange offers first, nothing leaves without its mask")
        position = operator.index(round_), operator.index(phase)
        if not (0 <= position[0] < 1 << 64 and 0 <= position[1] < 1 << 32 and 0 < words <= LARGEST_PAD):
            raise PrivacyError(
                f"a pad of {words} words for round {round_}, phase {phase}: expected 1 to {LARGEST_PAD} words, a "
                "round of 64 bits and a phase of 32"
            )
        if position <= self._last.get(with_, (-1, -1)):
            raise PrivacyError(
                f"pad with {with_!r} for round {round_}, phase {phase}: round {self._last[with_][0]}, phase "
                f"{self._last[with_][1]} was given out, and no position is used twice or out of order"
            )
        key = self._pair(with_).at(position[0])
        self._last[with_] = position
        nonce = struct.pack("<LLQ", 0, position[1], position[0])  # block counter 0, then the 96 bits of RFC 8439
        stream = Cipher(ChaCha20(key, nonce), mode=None).encryptor().update(bytes(8 * words))
        return np.frombuffer(stream, "<u8")

    def __repr__(self) -> str:
        agreed = sorted(set(self.partners) - set(self.unsettled()))
        return f"PairwiseParty({self.name!r}, receiver {self.receiver!r}, secrets with {agreed})"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("pairwise secrets are not copied: a copy would use their key stream again")

    def _pair(self, partner: str) -> PairKey:
        if partner not in self.partners:
            raise ConfigError(
                f"{partner!r} is no partner at receiver {self.receiver!r}: expected one of {', '.join(self.partners)}"
            )
        return self._store.keys[self.receiver, partner]

    def _agreed(self, partner: str, pair: PairKey, remote: bytes) -> bytes:
        try:
            private, public = X25519PrivateKey.from_private_bytes(pair.key), X25519PublicKey.from_public_bytes(remote)
            secret = private.exchange(public)
        except ValueError:  # RFC 7748, 6.1: with a point of low order the secret is all zeros, which everybody knows
            raise MessageRefused("key", "the public key is a point of low order: there is no secret in it") from None
        info = _KEYS + self._info(partner, pair.own, remote)
        return HKDF(SHA256(), wire.KEY_BYTES, salt=None, info=info).derive(secret)

    def _header(self, kind: int, to: str) -> wire.Header:
        return wire.Header(kind, self.name, to, self.receiver, self._job)

    def _info(self, partner: str, own: bytes, remote: bytes) -> bytes:
        """Context that a pair's secret is bound to, the same at both ends."""
        (first, one), (second, other) = sorted(((self.name, own), (partner, remote)))
        return wire.Header(0, first, second, self.receiver, self._job).encoded() + one + other

    def _signed(self, kind: int, to: str, key: bytes, answered: bytes) -> bytes:
        offer = wire.Offer(self._header(kind, to), key, answered, self._certificate)
        signature = self._private_key.sign(_SIGNED + offer.signed(), ec.ECDSA(SHA256()))
        return offer._replace(signature=signature).encoded()

    def _verified(self, payload: bytes, now: datetime.datetime) -> wire.Offer:
        """Read an offer; refuse one that is not from a partner, for this party, in this group and job, and signed."""
        reader = wire.Reader(payload)
        header = reader.header()
        if header.recipient != self.name:
            raise MessageRefused("address", f"it is for {header.recipient!r}, this is {self.name!r}")
        if header.receiver != self.receiver:
            raise MessageRefused("receiver", f"group of {header.receiver!r}, this is the group of {self.receiver!r}")
        if header.sender not in self.partners:
            raise MessageRefused("sender", f"{header.sender!r} is no partner at receiver {self.receiver!r}")
        if header.job != self._job:
            raise MessageRefused("job", f"job {header.job.hex()}, this is job {self._job.hex()}")
        offer = reader.offer(header)
        public = certified_key(offer.certificate, offer.header.sender, self._authorities, now)
        if self._revoked is not None and self._revoked.revokes(offer.certificate):
            raise MessageRefused("revoked", f"the authority has revoked this certificate of {offer.header.sender!r}")
        try:
            public.verify(offer.signature, _SIGNED + offer.signed(), ec.ECDSA(SHA256()))
        except InvalidSignature:
            raise MessageRefused("signature", f"{offer.header.sender!r} did not sign this offer") from None
        return offer


def _made() -> PairKey:
    private = X25519PrivateKey.generate()
    return PairKey(private.public_key().public_bytes_raw(), private.private_bytes_raw())
