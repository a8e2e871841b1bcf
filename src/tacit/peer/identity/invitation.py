"""Invitations: a name and a number with which a peer may join a job within an epoch, signed by the authority.

An invitation is two lines of text, JSON in its canonical form and the authority's signature of that line (ECDSA P-256,
SHA-256, base64)::

    {"format":1,"job":"5f...","name":"hospital-d","number":3,"role":"peer","until":"2027-01-31T12:00:00Z"}
    MEUCIQ...

What is signed begins with words that nothing else the authority signs begins with. It is no secret: only the peer whose
certificate has the name can use it. Its end is that of the time to join; who has joined stays.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from tacit.core.errors import IdentityError
from tacit.peer.identity.authority import load_authority
from tacit.peer.identity.identity import is_valid, validate_peer_name
from tacit.peer.identity.pem_files import alone, read_file, replace_file, write_new

FORMAT, LARGEST = 1, 1000
"""Version of the format, and bytes in an invitation at most."""
LAST_NUMBER = 2**31 - 1
_SIGNED = b"tacit: invitation\n"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_KINDS = {"format": int, "job": str, "name": str, "number": int, "role": str, "until": str}


@dataclass(frozen=True)
class Invitation:
    """An invitation that was verified."""

    name: str
    role: str
    number: int
    """Id of the peer among those of its role."""
    until: datetime
    """End of the time to join."""
    text: bytes = field(repr=False)
    """As the authority wrote it, to be shown to others."""


def read_invitation(data: bytes, authorities: Sequence[x509.Certificate], job: str, now: datetime | None) -> Invitation:
    """Return an invitation to a job by one of the authorities, or raise IdentityError.

    Args:
      data: Content of its file, or bytes that a peer has shown.
      authorities: Certificates of the federation's authority.
      job: The job's `settings_hash`.
      now: Time at which it is to be valid; None: its end does not matter, for a peer that has joined.

    Returns:
      The name, role and number in it. That it is shown by the peer of that name is left to the caller.
    """
    found, said, body, signature = _parsed(data)
    if not any(_signed(body, signature, one) for one in authorities if now is None or is_valid(one, now)):
        raise IdentityError(
            f"the invitation of {found.name!r} was not signed by this federation's authority, or was changed on its "
            "way: get it from the authority again"
        )
    if said != job:
        raise IdentityError(
            f"the invitation of {found.name!r} is to job {said[:16]}..., this is job {job[:16]}... (or another epoch): "
            f"have one made for this job (tacit peer invite {found.name} --job job.toml)"
        )
    if now is not None and now > found.until:
        raise IdentityError(
            f"the invitation of {found.name!r} ended {found.until:%Y-%m-%d %H:%M} UTC: have it made anew "
            f"(tacit peer invite {found.name} --job job.toml); its number stays the same"
        )
    return found


def invite(
    name: str,
    job: str,
    role: str,
    members: int,
    ca_directory: Path,
    out: Path,
    days: int = 30,
    number: int | None = None,
) -> Invitation:
    """Invite a peer to a job; the authority's register sees to it that no two names ever share a number.

    Args:
      name: The peer's name, as its certificate has it.
      job: The job's `settings_hash`.
      role: Role of the peer.
      members: Number of the job's members of that role, whose ids are below it.
      ca_directory: The authority's directory.
      out: File to write; an older invitation of the same name makes room.
      days: Until the invitation ends.
      number: Id of the peer; by default its own of before, or the next that is free.

    Returns:
      The invitation.
    """
    validate_peer_name(name)
    if not 1 <= days <= 3650:
        raise IdentityError(f"an invitation cannot be valid for {days} days: expected 1 to 3650")
    key, ca = load_authority(ca_directory)
    given = _number(ca_directory / "invitations.json", name, job, role, members, number)
    until = (datetime.now(UTC) + timedelta(days=days)).strftime(_TIME)
    facts = {"format": FORMAT, "job": job, "name": name, "number": given, "role": role, "until": until}
    body = _canonical(facts)
    text = body + b"\n" + base64.b64encode(key.sign(_SIGNED + body, ec.ECDSA(SHA256()))) + b"\n"
    found = read_invitation(text, [ca], job, datetime.now(UTC))
    write = replace_file if _is_older(out, name) else write_new
    write(out, text, 0o644)
    return found


def _number(register: Path, name: str, job: str, role: str, members: int, wanted: int | None) -> int:
    """Return a peer's number in a job; it is in the register, for good, when this returns."""
    with alone(register):
        jobs = _registered(register)
        numbers = jobs.setdefault(job, {}).setdefault(role, {})
        taken = {number: other for other, number in numbers.items() if other != name}
        own = numbers.get(name)
        given = wanted if wanted is not None else own
        if given is None:
            given = max([members - 1, *taken]) + 1
        if own is not None and given != own:
            raise IdentityError(f"--number {given}: {name!r} has number {own} in this job already; leave --number out")
        if given in taken or not members <= given <= LAST_NUMBER:
            whose = f"that of {taken[given]!r}" if given in taken else "that of a member, or too large"
            raise IdentityError(f"--number {given} is {whose}: leave --number out, and the next free one is taken")
        numbers[name] = given
        replace_file(register, (json.dumps(jobs, indent=1, sort_keys=True) + "\n").encode(), 0o600)
    return given


def _registered(path: Path) -> dict[str, dict[str, dict[str, int]]]:
    """Return job -> role -> name -> number."""
    if not path.exists():
        return {}
    try:
        found = json.loads(read_file(path))
        numbers = [number for roles in found.values() for names in roles.values() for number in names.values()]
        usable = all(type(number) is int for number in numbers)
    except (ValueError, AttributeError, RecursionError):
        usable = False
    if not usable:
        raise IdentityError(
            f"{path} is no register of invitations: put it back from a copy; without it a number may be given twice"
        )
    return found  # type: ignore[no-any-return]


def _is_older(out: Path, name: str) -> bool:
    """Whether a file is an invitation of the same name, and nothing else."""
    try:
        return _parsed(read_file(out))[0].name == name
    except IdentityError:  # no file, or another one: `write_new` says so
        return False


def _canonical(facts: dict[str, object]) -> bytes:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _parsed(data: bytes) -> tuple[Invitation, str, bytes, bytes]:
    """Return what an invitation says, its job, what is signed and the signature; nothing is verified."""
    if len(data) > LARGEST:
        raise IdentityError(
            f"an invitation of {len(data)} bytes, expected at most {LARGEST}: get it from the authority"
        )
    try:
        body, coded, rest = data.split(b"\n")
        signature = base64.b64decode(coded, validate=True)
        facts = json.loads(body)
        known = isinstance(facts, dict) and {key: type(value) for key, value in facts.items()} == _KINDS
        if rest or not known or _canonical(facts) != body or base64.b64encode(signature) != coded:
            raise ValueError("not in its form")
        until = datetime.strptime(facts["until"], _TIME).replace(tzinfo=UTC)
        validate_peer_name(facts["name"])
    except (ValueError, binascii.Error, RecursionError, IdentityError) as error:
        raise IdentityError("the invitation is damaged: get it from the authority again") from error
    if facts["format"] != FORMAT or not 0 <= facts["number"] <= LAST_NUMBER:
        raise IdentityError(
            f"the invitation has format {facts['format']} and number {facts['number']}, expected format {FORMAT}: "
            "have it made by the version of tacit that the job's peers have"
        )
    return Invitation(facts["name"], facts["role"], facts["number"], until, data), facts["job"], body, signature


def _signed(body: bytes, signature: bytes, authority: x509.Certificate) -> bool:
    key = authority.public_key()
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, _SIGNED + body, ec.ECDSA(SHA256()))
            return True
    except InvalidSignature:
        pass
    return False
