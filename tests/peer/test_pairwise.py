"""Secrets of two neighbours of one receiver: agreement, sealed messages and pads."""

import copy
import pickle

import numpy as np
import pytest
import scipy.stats
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import ConfigError, IdentityError, PrivacyError
from tacit.peer import pairwise
from tacit.peer import pairwise_wire as wire
from tacit.peer.authority import init_ca, issue
from tacit.peer.identity import install, request
from tacit.peer.pairwise import PairwiseParty
from tests.peer.pairs import (
    DAY,
    JOB,
    NOW,
    Authority,
    Relay,
    authority,
    forged,
    identified,
    identity,
    offered,
    pair,
    party,
    refusal,
    state,
)

PADS = [(1, 0), (1, 1), (2, 0), (7, 3), (2**64 - 1, 2**32 - 1)]


def test_three_messages_make_one_session():
    a, c = party("a"), party("c")
    assert a.unsettled() == ("c", "d")
    hello = a.offer("c")
    answered = c.accept(hello, NOW)
    assert answered.sender == "a"
    assert c.session("a") is None, "nobody has proved to be there yet"
    confirmed = a.accept(answered.reply, NOW)
    assert c.accept(confirmed.reply, NOW) == ("a", None)
    assert a.session("c") == c.session("a") is not None
    assert a.unsettled() == ("d",)


def test_an_offer_made_again_does_not_spoil_the_answer_that_is_under_way():
    a, c = party("a"), party("c")
    answer = c.accept(a.offer("c"), NOW).reply
    assert offered(a.offer("c")).key == offered(answer).answered
    c.accept(a.accept(answer, NOW).reply, NOW)
    assert a.session("c") == c.session("a") is not None


def test_hellos_that_cross_lead_to_one_session():
    a, c = party("a"), party("c")
    relay = Relay(a, c).carry(a.offer("c"), c.offer("a"))
    assert a.session("c") == c.session("a") is not None
    assert (a.unsettled(), c.unsettled(), relay.refused) == (("d",), ("d",), [])


@pytest.mark.parametrize(("first", "receiver"), [("a", b"b"), ("c", b"hub.one")])
def test_keys_are_those_of_an_independent_computation(first, receiver, monkeypatch):
    """X25519, HKDF and ChaCha20 by hand from the two private keys and what the module's text says."""
    privates = []

    class Recording:
        @staticmethod
        def generate():
            privates.append(X25519PrivateKey.generate())
            return privates[-1]

    monkeypatch.setattr(pairwise, "X25519PrivateKey", Recording)
    a, c, relay = pair(first, "c" if first == "a" else "a", receiver=receiver.decode())
    one, two = (a, c) if first == "a" else (c, a)
    key_a, key_c = privates if first == "a" else privates[::-1]
    public_a, public_c = (k.public_key().public_bytes_raw() for k in (key_a, key_c))
    assert {offered(m).key for m in relay.seen} == {public_a, public_c}
    secret = key_a.exchange(X25519PublicKey.from_public_bytes(public_c))
    group = bytes([len(receiver)]) + receiver + JOB
    info = b"tacit pairwise keys 1\0" + b"\x01\x00" + b"\x01a\x01c" + group + public_a + public_c
    keys = HKDF(SHA256(), 112, None, info).derive(secret)
    assert one.session("c") == two.session("a") == keys[96:]

    sealed = one.seal("c", b"from a")
    header = b"\x01\x04\x01a\x01c" + group + keys[96:] + bytes(8)
    body = ChaCha20Poly1305(keys[:32]).encrypt(bytes(12), b"from a", header)
    assert sealed == header + len(body).to_bytes(4, "big") + body
    second = two.seal("a", b"") and two.seal("a", b"from c")
    header = b"\x01\x04\x01c\x01a" + group + keys[96:] + (1).to_bytes(8, "big")
    assert second[-22:] == ChaCha20Poly1305(keys[32:64]).encrypt((1).to_bytes(12, "big"), b"from c", header)

    nonce = bytes(4) + (3).to_bytes(4, "little") + (7).to_bytes(8, "little")
    stream = Cipher(ChaCha20(keys[64:96], nonce), None).encryptor().update(bytes(80))
    assert one.pad("c", 7, 3, 10).tobytes() == two.pad("a", 7, 3, 10).tobytes() == stream


def test_pads_are_equal_at_both_ends_and_differ_otherwise():
    a, c, _ = pair()
    d = party("d")
    Relay(a, c, d).carry(a.offer("d"), d.offer("c"))
    pads = []
    for round_, phase in PADS:
        for one, two in ((a, c), (a, d), (c, d)):
            mine, yours = one.pad(two.name, round_, phase, 300), two.pad(one.name, round_, phase, 300)
            assert mine.dtype == np.uint64
            assert mine.shape == (300,)
            np.testing.assert_array_equal(mine, yours)
            pads.append(mine)
    blocks = np.concatenate(pads).reshape(-1, 2)
    assert len(np.unique(blocks, axis=0)) == len(blocks), "16 bytes of key stream occurred twice"


def test_pads_of_another_session_job_or_group_differ():
    a, c, relay = pair()
    seen = [a.pad("c", 1, 0, 4).tobytes()]
    relay.carry(a.rekey("c"))
    assert a.session("c") == c.session("a")
    seen.append(a.pad("c", 1, 0, 4).tobytes())
    seen += [pair(job=bytes(32))[0].pad("c", 1, 0, 4).tobytes(), pair(receiver="e")[0].pad("c", 1, 0, 4).tobytes()]
    assert len(set(seen)) == 4


def test_masks_cancel_to_the_bit():
    """Three senders add their pads with opposite signs: the sum of what the receiver gets is the sum of the values."""
    senders = [party(n) for n in ("a", "c", "d")]
    a, c, _ = senders
    Relay(*senders).carry(a.offer("c"), a.offer("d"), c.offer("d"))
    values = np.random.default_rng(0).integers(0, 2**64, (3, 50), np.uint64)
    sent = values.copy()
    for k, one in enumerate(senders):
        for other in one.partners:
            assert one.sign(other) == -senders["acd".index(other)].sign(one.name)
            pad = one.pad(other, 1, 0, 50)
            sent[k] = sent[k] + pad if one.sign(other) > 0 else sent[k] - pad
    np.testing.assert_array_equal(sent.sum(axis=0), values.sum(axis=0))
    assert not (sent == values).any()


def test_pads_pass_a_chi_square():
    """256 byte values over 800,000 bytes; a right implementation fails once in a million fresh keys."""
    a, _, _ = pair()
    counts = sum(np.bincount(a.pad("c", t, 0, 10_000).view(np.uint8), minlength=256) for t in range(10))
    assert scipy.stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("again", [(5, 2), (5, 1), (4, 9), (0, 0)])
def test_a_position_is_given_out_once(again):
    a, c, _ = pair()
    first = a.pad("c", 5, 2, 8)
    with pytest.raises(PrivacyError, match="no position is used twice"):
        a.pad("c", *again, 8)
    np.testing.assert_array_equal(c.pad("a", 5, 2, 8), first)
    np.testing.assert_array_equal(a.pad("c", 5, 3, 8), c.pad("a", 5, 3, 8))


@pytest.mark.parametrize("asked", [(-1, 0, 1), (2**64, 0, 1), (0, -1, 1), (0, 2**32, 1), (1, 0, 0), (1, 0, 2**28 + 1)])
def test_pads_outside_the_layout_are_refused_and_use_nothing_up(asked):
    a, _, _ = pair()
    with pytest.raises(PrivacyError, match="expected 1 to"):
        a.pad("c", *asked)
    assert a.pad("c", 0, 0, 1).shape == (1,)


def test_without_a_session_nothing_can_be_masked_or_sealed():
    a = party("a")
    for act in (lambda: a.pad("c", 1, 0, 1), lambda: a.seal("c", b"")):
        with pytest.raises(PrivacyError, match="no session with 'c'"):
            act()
    a.offer("c")
    with pytest.raises(PrivacyError, match="no session with 'c'"):
        a.pad("c", 1, 0, 1)


def test_sealed_messages_go_both_ways_and_gaps_are_allowed():
    a, c, _ = pair()
    texts = [b"", b"one", bytes(1000), bytes(wire.LARGEST_SEALED)]
    for text in texts:
        assert c.open(a.seal("c", text)) == ("a", text)
        assert a.open(c.seal("a", text)) == ("c", text)
    a.seal("c", b"lost")
    assert c.open(a.seal("c", b"after it")) == ("a", b"after it")
    with pytest.raises(ConfigError, match="split them"):
        a.seal("c", bytes(wire.LARGEST_SEALED + 1))


def test_sealed_messages_hide_their_text_and_never_repeat():
    a, _, _ = pair()
    sealed = [a.seal("c", b"secret text" * 10) for _ in range(5)]
    assert len({s[-126:] for s in sealed}) == 5
    assert not any(b"secret" in s for s in sealed)


def test_restart_of_one_end_leads_to_a_new_session():
    a, c, _ = pair()
    before, pad, old = a.session("c"), a.pad("c", 1, 0, 4), a.seal("c", b"old")
    c = party("c")
    relay = Relay(a, c)
    assert refusal(c.open, old) == "session"
    hello = c.offer("a")
    reply = a.accept(hello, NOW).reply
    assert a.session("c") == before, "a hello proves nothing: the session stands"
    assert a.unsettled() == ("c", "d")
    relay.carry(reply)
    assert a.session("c") == c.session("a") != before
    assert a.unsettled() == ("d",)
    assert refusal(c.open, old) == "session"
    assert (a.pad("c", 1, 0, 4) != pad).any()
    assert c.open(a.seal("c", b"new")) == ("a", b"new")


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("standing", [False, True])
@pytest.mark.parametrize("order", ["ac", "ca"])
def test_a_lost_message_of_an_exchange_is_healed_by_offers_that_are_due(lost, standing, order):
    a, c = party("a"), party("c")
    if standing:
        Relay(a, c).carry(a.offer("c"))
        a = party("a")
    relay = Relay(a, c)
    relay.tamper = lambda payload, count=iter(range(99)): [] if next(count) == lost else [payload]
    relay.carry(a.offer("c"))
    assert a.session("c") is None or a.session("c") != c.session("a")
    for name in order:
        one, other = relay.parties[name], order.replace(name, "")
        if other in one.unsettled():
            relay.carry(one.offer(other))
    assert a.session("c") == c.session("a") is not None
    assert (a.unsettled(), c.unsettled()) == (("d",), ("d",))


def test_simultaneous_rekeys_settle():
    a, c, relay = pair()
    before = a.session("c")
    hellos = a.rekey("c"), c.rekey("a")
    assert (a.session("c"), c.session("a")) == (None, None), "given up at once"
    relay.carry(*hellos)
    assert a.session("c") == c.session("a") != before
    assert relay.refused == []


def test_forgotten_keys_are_overwritten_and_unusable():
    a, c, _ = pair()
    session = a._sessions["c"]
    assert any(session.pad_key) and any(session.send_key) and any(session.hear_key)  # noqa: PT018
    a.close()
    assert not any(session.pad_key + session.send_key + session.hear_key)
    assert refusal(a.open, c.seal("a", b"late")) == "session"
    with pytest.raises(PrivacyError, match="no session"):
        a.pad("c", 9, 0, 1)


def test_a_session_that_is_replaced_is_overwritten():
    a, c, relay = pair()
    session = c._sessions["a"]
    relay.carry(a.rekey("c"))
    assert not any(session.pad_key + session.send_key + session.hear_key)


def test_keys_are_neither_shown_nor_copied():
    a, _, _ = pair()
    session = a._sessions["c"]
    text = repr(a) + str(a) + repr(session) + repr(a._exchanges)
    for key in (session.pad_key, session.send_key, session.hear_key):
        assert key.hex() not in text
        assert repr(bytes(key)) not in text
    assert "sessions with ['c']" in repr(a)
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError, match="neither copied nor stored"):
            take(a)


def test_the_relay_reads_addresses_alone():
    a, _, relay = pair()
    assert [wire.addresses(m) for m in (*relay.seen, a.seal("c", b""))] == [
        ("a", "c"),
        ("c", "a"),
        ("a", "c"),
        ("a", "c"),
    ]
    for names in (b"\x01A\x01c\x01b", b"\x01a\x02c\n\x01b", b"\x01a\x01c\x00", b"\x01a\xfe" + b"c" * 254 + b"\x01b"):
        assert refusal(wire.addresses, b"\x01\x01" + names + JOB) == "content"
    assert refusal(wire.addresses, b"\x01\x09" + b"\x01a\x01c\x01b" + JOB) == "content"


def test_fields_beyond_the_limits_and_kinds_out_of_place_are_refused():
    """All of them well formed and signed."""
    a, c, _ = pair()
    hello = offered(a.offer("c"))
    assert refusal(c.accept, forged(a, hello._replace(certificate=bytes(8193))), NOW) == "content"
    answer = hello._replace(answered=bytes([1] * 32))
    for kind in (0, wire.SEALED, 5):
        assert refusal(c.accept, forged(a, answer._replace(header=hello.header._replace(kind=kind))), NOW) == "content"
    sealed = wire.Sealed(hello.header._replace(kind=wire.SEALED), bytes(16), 0, bytes(wire.LARGEST_SEALED + 17))
    assert refusal(c.open, sealed.encoded()) == "content"
    assert refusal(c.open, sealed._replace(header=hello.header, ciphertext=bytes(16)).encoded()) == "content"


def test_an_identity_of_the_federation_s_own_authority_does(tmp_path):
    """As `tacit peer init-ca`, `request`, `issue` and `install` make them."""
    init_ca(tmp_path / "ca", "hospitals")
    parties = []
    for name, partner in (("hospital-a", "hospital-c"), ("hospital-c", "hospital-a")):
        csr = request(name, tmp_path / name).csr
        issued = issue(csr, name, tmp_path / "ca", tmp_path / f"{name}.crt")
        own = install(issued, tmp_path / "ca" / "ca.crt", tmp_path / name)
        parties.append(PairwiseParty(own, JOB, "hub", [partner], own.not_before))
    a, c = parties
    answer = c.accept(a.offer("hospital-c"), a_moment := own.not_before).reply
    c.accept(a.accept(answer, a_moment).reply, a_moment)
    assert a.session("hospital-c") == c.session("hospital-a") is not None


def test_an_authority_that_follows_another_is_trusted_beside_it():
    """Both certificates in one file, in either order, while peers move over."""
    new = Authority("second")
    both = authority().pem + new.pem
    a, c = party("a", issued=new.issue("a"), ca=both), party("c", ca=new.pem + authority().pem)
    Relay(a, c).carry(a.offer("c"))
    assert a.session("c") == c.session("a") is not None


def test_a_renewed_certificate_keeps_sessions_and_signs_what_follows():
    a, c, relay = pair()
    before = a.session("c")
    a.renew(identified("a", *authority().issue("a")), NOW)
    assert a.session("c") == before
    relay.carry(a.rekey("c"))
    assert a.session("c") == c.session("a") != before


@pytest.mark.parametrize(
    ("issue", "expected"),
    [
        (lambda: identity("c"), "not for 'a' alone"),
        (lambda: Authority().issue("a"), "not issued by a valid authority"),
        (lambda: authority().issue("a", end=NOW - DAY / 2), "valid from"),
        (lambda: (identity("a")[0], identity("c")[1]), "for another key"),
    ],
)
def test_an_identity_that_nobody_would_accept_is_refused_at_once(issue, expected):
    with pytest.raises(IdentityError, match=expected):
        party("a", issued=issue())


@pytest.mark.parametrize("is_ca", [True, False])
def test_only_an_authority_can_issue(is_ca):
    """A peer's certificate that strayed into the file of authorities gives no names."""
    issuer = Authority(is_ca=is_ca)
    if is_ca:
        assert party("a", issued=issuer.issue("a"), ca=issuer.pem).unsettled() == ("c", "d")
    else:
        with pytest.raises(IdentityError, match="not issued by a valid authority"):
            party("a", issued=issuer.issue("a"), ca=issuer.pem)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"receiver": "a"}, "all different"),
        ({"receiver": "c"}, "all different"),
        ({"receiver": "B"}, "name 'B'"),
        ({"partners": ["c", "d" * 254]}, "1 to 253"),
        ({"job": b"short"}, "a job hash of 5 bytes"),
    ],
)
def test_settings_that_cannot_work_are_refused(given, expected):
    with pytest.raises(ConfigError, match=expected):
        party("a", **given)


def test_an_unknown_partner_is_refused():
    a, _, _ = pair()
    before = state(a)
    for act in (a.offer, a.rekey, a.sign, a.session, a.forget, lambda n: a.pad(n, 1, 0, 1), lambda n: a.seal(n, b"")):
        for name in ("x", "b", "a"):
            with pytest.raises(ConfigError, match="is no partner at receiver 'b'"):
                act(name)
    assert state(a) == before
