"""Offers of public keys as bytes: a fixed layout, read with limits.

Integers are big-endian. An offer is: version u8, kind u8, the names of sender, recipient and receiver (each a u8 length
and ASCII), the job's hash (32 bytes), a public key (32), the public key that it answers (32; zeros in a hello), the
certificate (u16 length, DER) and the signature of all before it (u16 length, DER).
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from tacit.core.errors import MessageRefused

VERSION = 2
HELLO, ANSWER, CONFIRM = OFFERS = 1, 2, 3
KEY_BYTES = 32
NO_KEY = bytes(KEY_BYTES)
NAME = re.compile(r"[a-z0-9.-]{1,253}")
_LARGEST_CERTIFICATE, _LARGEST_SIGNATURE = 8192, 128


class Header(NamedTuple):
    """Beginning of every payload."""

    kind: int
    sender: str
    recipient: str
    receiver: str
    job: bytes

    def encoded(self) -> bytes:
        """Return it as bytes."""
        names = b"".join(bytes((len(n),)) + n.encode("ascii") for n in (self.sender, self.recipient, self.receiver))
        return bytes((VERSION, self.kind)) + names + self.job


class Offer(NamedTuple):
    """A public key, with the certificate and signature that vouch for it."""

    header: Header
    key: bytes
    answered: bytes
    certificate: bytes
    signature: bytes = b""

    def signed(self) -> bytes:
        """Return the signed part as bytes."""
        certificate = struct.pack(">H", len(self.certificate)) + self.certificate
        return self.header.encoded() + self.key + self.answered + certificate

    def encoded(self) -> bytes:
        """Return it as bytes."""
        return self.signed() + struct.pack(">H", len(self.signature)) + self.signature


class Reader:
    """Takes fields off a payload and refuses one that ends early, is too long, or goes on."""

    def __init__(self, payload: bytes) -> None:
        self._payload, self._at = payload, 0

    def header(self) -> Header:
        """Read the header."""
        if (version := self._number(1)) != VERSION:
            raise MessageRefused("version", f"layout {version}, this peer knows {VERSION}")
        if (kind := self._number(1)) not in OFFERS:
            raise MessageRefused("content", f"kind {kind}, expected one of {OFFERS}")
        return Header(kind, self._name(), self._name(), self._name(), self._take(KEY_BYTES))

    def offer(self, header: Header) -> Offer:
        """Read the rest of an offer."""
        key, answered = self._take(KEY_BYTES), self._take(KEY_BYTES)
        certificate, signature = self._sized(2, _LARGEST_CERTIFICATE), self._sized(2, _LARGEST_SIGNATURE)
        self._end()
        if (answered == NO_KEY) != (header.kind == HELLO):
            raise MessageRefused("content", "a hello answers no key, every other offer does")
        return Offer(header, key, answered, certificate, signature)

    def _take(self, count: int) -> bytes:
        field = self._payload[self._at : self._at + count]
        if len(field) != count:
            raise MessageRefused("content", f"{len(self._payload)} bytes end within a field of {count} at {self._at}")
        self._at += count
        return field

    def _number(self, count: int) -> int:
        return int.from_bytes(self._take(count), "big")

    def _sized(self, count: int, largest: int) -> bytes:
        size = self._number(count)
        if size > largest:
            raise MessageRefused("content", f"a field of {size} bytes, at most {largest} are taken")
        return self._take(size)

    def _name(self) -> str:
        name = self._sized(1, 253).decode("latin-1")
        if not NAME.fullmatch(name):
            raise MessageRefused("content", "a name of other characters than a-z, 0-9, '-' and '.'")
        return name

    def _end(self) -> None:
        if self._at != len(self._payload):
            raise MessageRefused("content", f"{len(self._payload) - self._at} bytes after the last field")
