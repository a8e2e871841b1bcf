"""Proposals of an epoch's last round: each signed by the member that makes it, so that any other may pass it on.

A proposal is three lines: JSON in its canonical form, the signature of that line by the key of the member's certificate
(ECDSA P-256, SHA-256, base64), and the certificate (DER, base64)::

    {"job":"5f...","last":120,"member":"hospital-a","next":"a0..."}

`job` and `next` are the hashes of the settings of this epoch's job and of the next one's: a proposal says nothing about
any other epoch. What is signed begins with words that nothing else begins with.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from tacit.core.errors import IdentityError, MessageRefused
from tacit.peer.identity.identity import Identity
from tacit.peer.identity.signatures import certified_key

LARGEST = 2**14
"""Bytes of a proposal at most."""
_SIGNED = b"tacit: last round of an epoch\n"
_KINDS = {"job": str, "last": int, "member": str, "next": str}


class Proposal(NamedTuple):
    """The word of one member."""

    member: str
    job: str
    """Hash of the settings of the epoch that ends."""
    next: str
    """Hash of the settings of the epoch that follows."""
    last: int
    """Round that the member goes to, and not beyond before it knows the proposals of all."""

    @property
    def body(self) -> bytes:
        """Return what is signed, but for the words before it."""
        return json.dumps(self._asdict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


class Voice:
    """A peer's signature under its own proposals, and its look at those of others."""

    def __init__(self, identity: Callable[[], Identity], now: Callable[[], datetime] = lambda: datetime.now(UTC)):
        """Take the identity as it is at any time: `IdentityWatch.current`."""
        self._identity, self._now = identity, now

    def signed(self, proposal: Proposal) -> bytes:
        """Return a proposal of this peer as bytes."""
        identity = self._identity()
        key = load_pem_private_key(identity.key_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise IdentityError(f"the key of {identity.name!r} is not on P-256: request a new certificate")
        certificate = x509.load_pem_x509_certificate(identity.certificate_pem).public_bytes(Encoding.DER)
        signature = key.sign(_SIGNED + proposal.body, ec.ECDSA(SHA256()))
        return b"\n".join((proposal.body, base64.b64encode(signature), base64.b64encode(certificate)))

    def read(self, data: bytes) -> Proposal:
        """Return a proposal that its member has signed with a good certificate, or raise MessageRefused."""
        proposal, signature, certificate = _parsed(data)
        identity = self._identity()
        authorities = x509.load_pem_x509_certificates(identity.ca_pem)
        public = certified_key(certificate, proposal.member, authorities, self._now())
        if identity.revoked is not None and identity.revoked.revokes(certificate):
            raise MessageRefused("revoked", f"the authority has revoked this certificate of {proposal.member!r}")
        try:
            public.verify(signature, _SIGNED + proposal.body, ec.ECDSA(SHA256()))
        except InvalidSignature:
            raise MessageRefused("signature", f"{proposal.member!r} did not sign this proposal") from None
        return proposal


def _parsed(data: bytes) -> tuple[Proposal, bytes, bytes]:
    """Return a proposal, its signature and its certificate; nothing is verified."""
    try:
        if len(data) > LARGEST:
            raise ValueError("too long")
        body, *coded = data.split(b"\n")
        signature, certificate = (base64.b64decode(line, validate=True) for line in coded)
        facts = json.loads(body)
        if not isinstance(facts, dict) or {key: type(value) for key, value in facts.items()} != _KINDS:
            raise ValueError("not in its form")
        proposal = Proposal(**facts)
        if proposal.body != body:
            raise ValueError("not in its form")
    except (ValueError, binascii.Error, RecursionError) as error:
        raise MessageRefused("malformed", f"{len(data)} bytes that are no proposal of an epoch") from error
    return proposal, signature, certificate
