"""Strangers at a peer's door: `python -m tests.faults.stranger_campaign --attempts 10000` says who got in.

Each connects by real TLS to a listener that hears one neighbour, with whatever could be taken for a certificate of that
neighbour, made anew for the attempt: none, one of another authority, one that is over or was taken back, one of a
member that is no neighbour, and more (`KINDS`). Whoever gets through the handshake says hello and sends a message. Every
attempt must be refused for the reason of its kind and reach nothing of the peer; now and then the neighbour itself calls,
and must get in.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from tacit.peer.identity.authority import init_ca, revoke
from tacit.peer.identity.identity import IdentityFiles, identity_files
from tacit.peer.identity.pem_files import load_certificates
from tacit.peer.identity.revocation import install_list
from tests.peer.enrolment import DAY, NAME, certificate, enrol
from tests.peer.handshakes import Federation, heard
from tests.peer.linked import HELLO, frames, parcel
from tests.peer.weather import BrokenInvariantError

SAID = HELLO + b"".join(frames(parcel("b", 1)))
HONEST_EVERY = 25
"""Attempts after which the neighbour calls."""
SLOW = "unproven"
"""Refusal of who took too long, as on a machine that stood still."""
REVOKED = 8
"""Different certificates that were taken back."""
TEN_YEARS = 3650 * DAY.total_seconds()

Files = IdentityFiles | None


class Strangers:
    """A door, and all that strangers may hold."""

    def __init__(self, root: Path, seed: int) -> None:
        self.rng, self.root, self.door = random.Random(seed), root, Federation(root)
        self.own = root / "stranger"
        self.authorities = {name: root / f"authority of {name}" for name in ("federation", "others")}
        for name, directory in self.authorities.items():
            init_ca(directory, name)
        self.revoked = [self.enrolled(f"revoked {k}") for k in range(REVOKED)]
        revoke([self._issued(files) for files in self.revoked], self.door.ca)
        install_list(self.door.ca / "revoked.crl", self.door.home)
        self.members = {"no neighbour": self.enrolled("other", "hospital-b")}
        self.members |= {role: self.enrolled(role, role=role) for role in ("observer", "operator")}
        self.attempts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.honest = 0

    def enrolled(self, place: str, name: str = NAME, role: str = "peer") -> IdentityFiles:
        """Return what the federation's authority gave to a member."""
        enrol(self.root / place, self.door.ca, name, role=role)
        return identity_files(self.root / place)

    def _issued(self, files: IdentityFiles) -> Path:
        (found,) = load_certificates(files.certificate)
        path = files.certificate.with_suffix(".issued")
        path.write_bytes(found.public_bytes(Encoding.PEM))
        return path

    def made(self, authority: Path | None = None, **how: object) -> IdentityFiles:
        """Return a new certificate, by default of the federation's authority."""
        return certificate(self.own, authority or self.door.ca, **how)

    def some_time(self) -> timedelta:
        """Return an hour to ten years."""
        return timedelta(seconds=self.rng.uniform(3600, TEN_YEARS))

    def signed_by_itself(self) -> IdentityFiles:
        key = ec.generate_private_key(ec.SECP256R1())
        return self.made(key=key, signer=key)

    def signed_by_a_peer(self) -> IdentityFiles:
        key = load_pem_private_key(identity_files(self.door.peer).key.read_bytes(), None)
        return self.made(signer=key)

    def changed(self) -> IdentityFiles:
        """Return one whose signature has a false bit."""
        files = self.made()
        der = bytearray(x509.load_pem_x509_certificate(files.certificate.read_bytes()).public_bytes(Encoding.DER))
        der[-self.rng.randrange(1, 25)] ^= 1 << self.rng.randrange(8)
        files.certificate.write_text(ssl.DER_cert_to_PEM_cert(bytes(der)))
        return files

    def over(self) -> IdentityFiles:
        ended = self.some_time()
        return self.made(start=-ended - self.some_time(), end=-ended)

    def to_come(self) -> IdentityFiles:
        begins = self.some_time()
        return self.made(start=begins, end=begins + self.some_time())

    def attempt(self, kind: str) -> None:
        """Try to get in, and see that it is in vain."""
        make, reason = KINDS[kind]
        version = ssl.TLSVersion.TLSv1_2 if kind == "TLS 1.2" else ssl.TLSVersion.TLSv1_3
        self.attempts[kind] += 1
        with contextlib.suppress(ssl.SSLError, ConnectionError), self.door.tls(make(self), version) as connection:
            connection.sendall(SAID)
            heard(connection)
        event = self.door.event()
        if event.get("refused") not in (reason, SLOW):
            raise BrokenInvariantError(f"{kind}, attempt {self.attempts.total()}: {event}, expected refusal {reason!r}")
        if self.door.hearing.calls:
            raise BrokenInvariantError(f"{kind}, attempt {self.attempts.total()}: the peer has heard it")
        self.refusals[event["refused"]] += 1

    def neighbour(self) -> None:
        """Let the neighbour call, and see that it gets in."""
        self.honest += 1
        event = self.call()
        while event == {"refused": SLOW}:
            event = self.call()
        if event != {"called": NAME}:
            raise BrokenInvariantError(f"the neighbour was not let in: {event}")

    def call(self) -> dict[str, str]:
        """Call as the neighbour, and return what the door makes of it."""
        with self.door.tls(identity_files(self.door.peer)) as connection:
            connection.sendall(HELLO)
            heard(connection)
            return self.door.event()


KINDS: dict[str, tuple[Callable[[Strangers], Files], str]] = {
    "no certificate": (lambda s: None, "no certificate"),
    "other authority": (lambda s: s.made(s.authorities["others"]), "unknown authority"),
    "other authority of the same name": (lambda s: s.made(s.authorities["federation"]), "unknown authority"),
    "signed by itself": (Strangers.signed_by_itself, "unknown authority"),
    "signed by a peer": (Strangers.signed_by_a_peer, "unknown authority"),
    "a false bit in the signature": (Strangers.changed, "unknown authority"),
    "expired": (Strangers.over, "expired"),
    "not yet valid": (Strangers.to_come, "not yet valid"),
    "revoked": (lambda s: s.rng.choice(s.revoked), "revoked"),
    "no neighbour": (lambda s: s.members["no neighbour"], "sender"),
    "observer": (lambda s: s.members["observer"], "role"),
    "operator": (lambda s: s.members["operator"], "role"),
    "two names": (lambda s: s.made(names=[x509.DNSName("hospital-b"), x509.DNSName(NAME)]), "identity"),
    "no name": (lambda s: s.made(names=None), "identity"),
    "not for clients": (lambda s: s.made(uses=[x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), "certificate"),
    "TLS 1.2": (lambda s: identity_files(s.door.peer), "old tls"),
}
"""What a stranger holds, and the reason for which it is refused."""


def besieged(attempts: int, seed: int, root: Path) -> Strangers:
    """Let strangers of all kinds try, in turns; raises what broke."""
    strangers = Strangers(root, seed)
    with contextlib.closing(strangers.door):
        for number in range(attempts):
            if number % HONEST_EVERY == 0:
                strangers.neighbour()
            strangers.attempt(list(KINDS)[number % len(KINDS)])
        strangers.neighbour()
    return strangers


def main() -> int:
    """Let strangers try, and say who got in."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    asked, began = parser.parse_args(), time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        try:
            found = besieged(asked.attempts, asked.seed, Path(directory))
        except BrokenInvariantError as violation:
            print(f"violations: 1\n{violation}")
            return 1
    print(f"{found.attempts.total():,} attempts in {time.monotonic() - began:.0f} s: {dict(found.attempts)}")
    print(f"refused: {dict(found.refusals)}")
    print(f"strangers in: 0; the neighbour called {found.honest} times, and got in {found.honest} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
