"""Invitations: who may join, with which number, and files that must not be believed."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.cli import main
from tacit.config.job import load_job
from tacit.config.peer import load_peer
from tacit.core.errors import ConfigError, IdentityError
from tacit.deploy.check import check_peers
from tacit.peer.identity.authority import init_ca
from tacit.peer.identity.invitation import LARGEST, Invitation, invite, read_invitation
from tacit.peer.identity.pem_files import load_certificates
from tests.deploy.homes import certify, found, job_text

JOB, OTHER = "5f" * 32, "60" * 32
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("authority")
    init_ca(directory / "ca", "federation")
    return directory


@pytest.fixture(scope="module")
def trusted(directory):
    return load_certificates(directory / "ca" / "ca.crt")


@pytest.fixture
def invited(directory, tmp_path):
    def call(name, job=JOB, members=3, **how):
        return invite(name, job, "peer", members, directory / "ca", tmp_path / f"{name}.invitation", **how)

    (directory / "ca" / "invitations.json").unlink(missing_ok=True)
    return call


def signed_by(key, facts, prefix=b"tacit: invitation\n"):
    body = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()
    return body + b"\n" + base64.b64encode(key.sign(prefix + body, ec.ECDSA(SHA256()))) + b"\n"


def facts_of(text):
    return json.loads(text.split(b"\n")[0])


# --- what is believed


def test_an_invitation_says_name_role_and_number(invited, trusted, tmp_path):
    made = invited("hospital-d")
    text = (tmp_path / "hospital-d.invitation").read_bytes()
    assert text == made.text
    assert len(text) < LARGEST
    assert read_invitation(text, trusted, JOB, NOW) == made == Invitation("hospital-d", "peer", 3, made.until, text)
    assert timedelta(days=29) < made.until - NOW < timedelta(days=31)


def test_the_longest_name_fits(invited):
    assert len(invited(".".join(["x" * 63] * 3 + ["y" * 40])).text) < LARGEST


@pytest.fixture(scope="module")
def text(directory):
    out = directory / "hospital-d.invitation"
    return invite("hospital-d", OTHER, "peer", 3, directory / "ca", out).text


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_flipped_bit_is_refused(text, trusted, data):
    changed = bytearray(text)
    bit = data.draw(st.integers(0, 8 * len(text) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(IdentityError):
        read_invitation(bytes(changed), trusted, OTHER, NOW)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.one_of(st.binary(max_size=1100), st.text(max_size=300).map(str.encode)))
def test_bytes_that_are_none_are_refused(trusted, data):
    with pytest.raises(IdentityError):
        read_invitation(data, trusted, JOB, NOW)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}\n\n", b"[]\nAAAA\n", b"null\nAAAA\n", b"[" * 900, b"x" * (LARGEST + 1), b"{}\nAAAA\n" + b" " * LARGEST],
)
def test_what_is_no_invitation_is_refused(trusted, data):
    with pytest.raises(IdentityError):
        read_invitation(data, trusted, JOB, NOW)


def test_other_job_other_authority_and_other_times_are_refused(invited, trusted, tmp_path):
    made = invited("hospital-d", days=30)
    with pytest.raises(IdentityError, match="tacit peer invite"):
        read_invitation(made.text, trusted, OTHER, NOW)
    with pytest.raises(IdentityError, match="ended"):
        read_invitation(made.text, trusted, JOB, NOW + timedelta(days=31))
    assert read_invitation(made.text, trusted, JOB, None) == made
    init_ca(tmp_path / "other", "federation")
    other = load_certificates(tmp_path / "other" / "ca.crt")
    with pytest.raises(IdentityError, match="not signed by this"):
        read_invitation(made.text, other, JOB, NOW)
    assert read_invitation(made.text, [*other, *trusted], JOB, NOW) == made
    with pytest.raises(IdentityError, match="not signed by this"):
        read_invitation(made.text, [], JOB, NOW)
    with pytest.raises(IdentityError, match="not signed by this"):
        read_invitation(made.text, trusted, JOB, trusted[0].not_valid_after_utc + timedelta(days=1))


def test_a_signature_of_the_authority_for_something_else_is_none(invited, trusted, directory):
    key, facts = load_pem_private_key((directory / "ca" / "ca.key").read_bytes(), None), facts_of(invited("d").text)
    assert read_invitation(signed_by(key, facts), trusted, JOB, NOW).number == 3
    for prefix in (b"", b"tacit: something else\n"):
        with pytest.raises(IdentityError, match="not signed by this"):
            read_invitation(signed_by(key, facts, prefix), trusted, JOB, NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2}, {"format": True}, {"number": -1}, {"number": 2**31}, {"number": 3.0}, {"number": True},
        {"name": "*"}, {"name": "D"}, {"name": None}, {"role": 1}, {"until": "tomorrow"}, {"until": 5}, {"more": 1},
    ],
)  # fmt: skip
def test_even_a_signed_one_has_to_make_sense(invited, trusted, directory, change):
    """As one of a later version, or of an authority that makes its own."""
    key = load_pem_private_key((directory / "ca" / "ca.key").read_bytes(), None)
    with pytest.raises(IdentityError):
        read_invitation(signed_by(key, {**facts_of(invited("d").text), **change}), trusted, JOB, NOW)


# --- numbers


def test_two_names_never_share_a_number_and_a_name_keeps_its_own(invited):
    assert [invited(name).number for name in ("d", "e", "d", "f", "e")] == [3, 4, 3, 5, 4]
    assert invited("d", job=OTHER).number == 3
    assert invited("g", number=9).number == 9
    assert invited("h").number == 10
    for name, number in (("i", 4), ("i", 2), ("i", 2**31), ("d", 6)):
        with pytest.raises(IdentityError, match=f"--number {number}"):
            invited(name, number=number)
    assert invited("i").number == 11


@settings(max_examples=30, deadline=None, derandomize=True)
@given(steps=st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 8)), max_size=12))
def test_numbers_in_any_order_of_invitations(directory, steps):
    (directory / "ca" / "invitations.json").unlink(missing_ok=True)
    numbers = {}
    for name, wanted in steps:
        try:
            made = invite(name, JOB, "peer", 3, directory / "ca", directory / f"{name}.invitation", number=wanted)
        except IdentityError:
            continue
        assert numbers.setdefault(name, made.number) == made.number >= 3
    assert len(set(numbers.values())) == len(numbers)


@pytest.mark.parametrize(
    "content", [b"junk", b"[]", b'{"x": 1}', b'{"j": {"peer": {"d": "3"}}}', b'{"j": {"peer": 1}}']
)
def test_a_damaged_register_gives_no_number(invited, directory, content):
    register = directory / "ca" / "invitations.json"
    register.write_bytes(content)
    with pytest.raises(IdentityError, match="copy"):
        invited("d")
    assert register.read_bytes() == content


def test_what_is_no_invitation_of_the_name_is_not_overwritten(invited, tmp_path):
    invited("d", days=1)
    assert invited("d", days=20).until - NOW > timedelta(days=19)
    (tmp_path / "e.invitation").write_bytes(invited("d").text)
    with pytest.raises(IdentityError, match="there already"):
        invited("e")
    for days in (0, 10**6):
        with pytest.raises(IdentityError, match=f"{days} days"):
            invited("d", days=days)
    with pytest.raises(IdentityError, match="peer name"):
        invited("*")


# --- jobs and peers


def tacit_peer(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(["peer", *map(str, arguments)])
    return caught.value.code or 0, *capsys.readouterr()


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    """A federation, and the home of an invited peer beside it."""
    monkeypatch.chdir(tmp_path)
    files = found(tmp_path, job_text())
    code, out, err = tacit_peer(capsys, "invite", "hospital-d", "--job", "job.toml", "--ca", "ca")
    assert (code, err) == (0, "")
    assert "peer 3" in out
    certify(tmp_path, ["hospital-d"])
    text = (
        files["hospital-a"].read_text().replace('"hospital-a"', '"hospital-d"\ninvitation = "../hospital-d.invitation"')
    )
    text = text.replace('hears = ["hospital-c"]', "hears = []")
    (tmp_path / "hospital-d" / "peer.toml").write_text(text)
    return tmp_path / "hospital-d" / "peer.toml"


def test_an_invited_peer_has_its_role_and_number(home):
    peer = load_peer(home)
    assert peer.job.role_of("hospital-d") == ("peer", 3)
    assert peer.invitation.number == 3
    assert peer.job.hash == load_job(home.parent.parent / "job.toml").hash
    with pytest.raises(ConfigError, match="not a member"):
        peer.job.role_of("hospital-e")
    assert any("peer 3" in line for line in check_peers([home]).lines)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('invitation = ""', "expected a path"),
        ('invitation = "a\\u0000b"', "expected a path"),
        ("invitation = 3", "invitation = 3"),
        ('invitation = "nowhere"', "cannot be read"),
        ('invitation = ".."', "cannot be read"),
        ('invitation = "peer.toml"', "damaged"),
        ("", "not a member"),
    ],
)
def test_hostile_settings(home, line, message):
    home.write_text(home.read_text().replace('invitation = "../hospital-d.invitation"', line))
    with pytest.raises(ConfigError, match=message):
        load_peer(home)


def test_the_invitation_of_another_peer_or_job_is_refused(home, capsys):
    own, root = home.parent.parent / "hospital-d.invitation", home.parent.parent
    good = own.read_bytes()
    assert tacit_peer(capsys, "invite", "hospital-e")[0] == 0
    own.write_bytes((root / "hospital-e.invitation").read_bytes())
    with pytest.raises(ConfigError, match="invites 'hospital-e'"):
        load_peer(home)
    own.write_bytes(good)
    assert load_peer(home).invitation.number == 3
    (root / "job.toml").write_text(job_text(epoch=2))
    with pytest.raises(ConfigError, match="is to job"):
        load_peer(home)


def test_nobody_is_invited_to_fixed_members_and_no_member_is(home, capsys):
    root = home.parent.parent
    code, _, err = tacit_peer(capsys, "invite", "hospital-a")
    assert code == 2
    assert "needs no invitation" in err
    (root / "job.toml").write_text(job_text("distributed_online"))
    code, _, err = tacit_peer(capsys, "invite", "hospital-e")
    assert code == 2
    assert "epoch" in err
    with pytest.raises(ConfigError, match="epoch"):
        load_peer(home)
