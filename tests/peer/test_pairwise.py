"""Secrets of two neighbours of one receiver: agreement, restarts and pads."""

import copy
import hashlib
import hmac
import itertools
import pickle

import numpy as np
import pytest
import scipy.stats
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.core.errors import ConfigError, IdentityError, MessageRefused, PrivacyError
from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.enrolment import install, request
from tacit.peer.masking.agreement import PairwiseParty
from tacit.peer.masking.key_store import ROUNDS_PER_KEY, KeyRing, PairKey
from tests.peer.pairs import (
    DAY,
    JOB,
    NOW,
    Authority,
    Relay,
    Vault,
    addresses,
    authority,
    forged,
    identified,
    identity,
    offered,
    pair,
    party,
    refusal,
    restarted,
    state,
)

PADS = [(1, 0), (1, 1), (2, 0), (7, 3), (2**20, 2**32 - 1)]


def test_three_messages_make_one_secret():
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


@pytest.mark.parametrize("receiver", [b"b", b"hub.one"])
def test_keys_are_those_of_an_independent_computation(receiver):
    """X25519, HKDF, the chain of keys and ChaCha20 by hand from two private keys and what the module's text says."""
    made = {name: X25519PrivateKey.generate() for name in "ac"}
    public = {name: key.public_key().public_bytes_raw() for name, key in made.items()}
    ends = {}
    for name, other in ("ac", "ca"):
        vault = Vault()
        vault.keep_keys({(receiver.decode(), other): PairKey(public[name], made[name].private_bytes_raw())})
        ends[name] = party(name, receiver.decode(), other, store=vault)
    relay = Relay(*ends.values()).carry(ends["c"].offer("a"))
    assert {offered(m).key for m in relay.seen} == set(public.values())
    secret = made["a"].exchange(X25519PublicKey.from_public_bytes(public["c"]))
    group = b"\x02\x00" + b"\x01a\x01c" + bytes([len(receiver)]) + receiver + JOB + public["a"] + public["c"]
    key = HKDF(SHA256(), 32, None, b"tacit pairwise keys 2\0" + group).derive(secret)
    name = hashlib.sha256(b"tacit pairwise name 2\0" + group).digest()[:16]
    assert ends["a"].session("c") == ends["c"].session("a") == name
    for round_, hashes in ((7, 0), (63, 0), (64, 1), (200, 3)):
        chained = key
        for _ in range(hashes):
            chained = hmac.digest(chained, b"tacit mask key, the next one\0", "sha256")
        nonce = bytes(4) + (3).to_bytes(4, "little") + round_.to_bytes(8, "little")
        stream = Cipher(ChaCha20(chained, nonce), None).encryptor().update(bytes(80))
        assert ends["a"].pad("c", round_, 3, 10).tobytes() == ends["c"].pad("a", round_, 3, 10).tobytes() == stream


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


def test_pads_of_another_pair_of_stores_job_or_group_differ():
    made = [pair(), pair(), pair(job=bytes(32)), pair(receiver="e")]
    assert len({a.pad("c", 1, 0, 4).tobytes() for a, _, _ in made}) == 4


def test_masks_cancel_to_the_bit():
    """Three senders add their pads with opposite signs: the sum of what the receiver gets is the sum of the values."""
    senders = [party(n) for n in ("a", "c", "d")]
    a, c, _ = senders
    Relay(*senders).carry(a.offer("c"), a.offer("d"), c.offer("d"))
    values = np.random.default_rng(0).integers(0, 2**64, (3, 50), np.uint64)
    sent = values.copy()
    for k, one in enumerate(senders):
        for other in one.partners:
            pad = one.pad(other, 1, 0, 50)
            sent[k] = sent[k] + pad if one.name < other else sent[k] - pad
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


def test_without_a_secret_nothing_can_be_masked():
    a = party("a")
    for _ in range(2):
        with pytest.raises(PrivacyError, match="no secret with 'c'"):
            a.pad("c", 1, 0, 1)
        a.offer("c")


@pytest.mark.parametrize("who", ["a", "c", "both"])
def test_after_a_restart_it_is_the_same_secret_without_a_letter(who):
    a, c, _ = pair()
    before, pad = a.session("c"), a.pad("c", 3, 0, 4)
    ends = {one.name: restarted(one) if who in (one.name, "both") else one for one in (a, c)}
    assert ends["a"].session("c") == ends["c"].session("a") == before
    assert ends["a"].unsettled() == ends["c"].unsettled() == ("d",)
    if who != "c":
        np.testing.assert_array_equal(ends["a"].pad("c", 3, 0, 4), pad)
    np.testing.assert_array_equal(ends["c"].pad("a", 3, 0, 4), pad)


@pytest.mark.parametrize("when", range(4))
@pytest.mark.parametrize("who", ["a", "c", "both"])
def test_a_crash_in_the_middle_of_an_exchange_leads_to_the_same_secret(who, when):
    """The other end, or both, is a new process after so many letters; its key was on the disk before the first."""
    a, c = party("a"), party("c")
    keys = {one.name: offered(one.offer(other)).key for one, other in ((a, "c"), (c, "a"))}
    relay = Relay(a, c)

    def crash(payload, count=itertools.count()):
        if next(count) == when:
            for one in list(relay.parties.values()):
                if who in (one.name, "both"):
                    relay.parties[one.name] = restarted(one)
        return [payload]

    relay.tamper = crash
    relay.carry(a.offer("c"))
    for name, other in ("ca", "ac"):
        if other in relay.parties[name].unsettled():
            relay.carry(relay.parties[name].offer(other))
    one, other = relay.parties["a"], relay.parties["c"]
    assert one.session("c") == other.session("a") is not None
    assert {offered(m).key for m in relay.seen} == set(keys.values())
    assert relay.refused == []


def test_a_partner_with_a_new_store_is_refused_and_told_what_to_do():
    a, _, _ = pair()
    before = state(a)
    anew = party("c")
    with pytest.raises(MessageRefused, match="'c' or 'a' .*new store.*new epoch") as caught:
        a.accept(anew.offer("a"), NOW)
    assert caught.value.reason == "stale"
    assert state(a) == before


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("order", ["ac", "ca"])
def test_a_lost_message_of_an_exchange_is_healed_by_offers_that_are_due(lost, order):
    a, c = party("a"), party("c")
    relay = Relay(a, c)
    relay.tamper = lambda payload, count=iter(range(99)): [] if next(count) == lost else [payload]
    relay.carry(a.offer("c"))
    assert c.session("a") is None
    for name in order:
        one, other = relay.parties[name], order.replace(name, "")
        if other in one.unsettled():
            relay.carry(one.offer(other))
    assert a.session("c") == c.session("a") is not None
    assert (a.unsettled(), c.unsettled()) == (("d",), ("d",))


def test_keys_are_given_up_when_their_rounds_are_over():
    """From what is left of a chain the keys after it come, and none before it."""
    _, _, relay = pair()
    vault = relay.parties["a"]._store
    key, whole = vault.keys["b", "c"], dict(vault.keys)
    assert key.aged(ROUNDS_PER_KEY - 1) is key
    later = key.aged(3 * ROUNDS_PER_KEY + 5)
    assert later.span == 3
    assert later.key not in (key.key, key.own)
    for t in (3 * ROUNDS_PER_KEY, 1000):
        assert later.at(t) == key.at(t)
    with pytest.raises(PrivacyError, match=f"round {3 * ROUNDS_PER_KEY - 1}.*before round {3 * ROUNDS_PER_KEY}"):
        later.at(3 * ROUNDS_PER_KEY - 1)
    ring = KeyRing(whole)
    assert ring.aged(3 * ROUNDS_PER_KEY) == {("b", "c"): later}  # the other partner's key is not known yet
    assert ring.digest != KeyRing({**whole, ("b", "c"): later}).digest


def test_keys_are_neither_shown_nor_copied():
    a, _, _ = pair()
    for key in a._store.keys.values():
        assert key.key.hex() not in repr(a) + str(a)
        assert repr(key.key) not in repr(a)
    assert "secrets with ['c']" in repr(a)
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError, match="not copied"):
            take(a)


def test_the_relay_reads_addresses_alone():
    _, _, relay = pair()
    assert [addresses(m) for m in relay.seen] == [("a", "c"), ("c", "a"), ("a", "c")]
    for names in (b"\x01A\x01c\x01b", b"\x01a\x02c\n\x01b", b"\x01a\x01c\x00", b"\x01a\xfe" + b"c" * 254 + b"\x01b"):
        assert refusal(addresses, b"\x02\x01" + names + JOB) == "content"
    assert refusal(addresses, b"\x02\x09" + b"\x01a\x01c\x01b" + JOB) == "content"


def test_fields_beyond_the_limits_and_kinds_out_of_place_are_refused():
    """All of them well formed and signed."""
    a, c, _ = pair()
    hello = offered(a.offer("c"))
    assert refusal(c.accept, forged(a, hello._replace(certificate=bytes(8193))), NOW) == "content"
    answer = hello._replace(answered=bytes([1] * 32))
    for kind in (0, 4, 5):
        assert refusal(c.accept, forged(a, answer._replace(header=hello.header._replace(kind=kind))), NOW) == "content"


def test_an_identity_of_the_federation_s_own_authority_does(tmp_path):
    """As `tacit peer init-ca`, `request`, `issue` and `install` make them."""
    init_ca(tmp_path / "ca", "hospitals")
    parties = []
    for name, partner in (("hospital-a", "hospital-c"), ("hospital-c", "hospital-a")):
        csr = request(name, tmp_path / name).csr
        issued = issue(csr, name, tmp_path / "ca", tmp_path / f"{name}.crt")
        own = install(issued, tmp_path / "ca" / "ca.crt", tmp_path / name)
        parties.append(PairwiseParty(own, JOB, "hub", [partner], Vault(), own.not_before))
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


def test_a_renewed_certificate_keeps_secrets_and_signs_what_follows():
    a, c, relay = pair()
    before = a.session("c")
    a.renew(identified("a", *authority().issue("a")), NOW)
    assert a.session("c") == before
    d = party("d")
    relay.parties["d"] = d
    relay.carry(a.offer("d"))
    assert a.session("d") == d.session("a") is not None
    relay.carry(restarted(c).offer("a"))  # answered under the new certificate
    assert relay.refused == []


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
    for act in (a.offer, a.session, lambda n: a.pad(n, 1, 0, 1)):
        for name in ("x", "b", "a"):
            with pytest.raises(ConfigError, match="is no partner at receiver 'b'"):
                act(name)
    assert state(a) == before
