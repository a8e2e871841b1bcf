"""Secrets of two neighbours of one receiver, against a relay that does what it likes."""

import random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import MessageRefused
from tacit.peer import pairwise_wire as wire
from tests.peer.pairs import (
    DAY,
    NOW,
    OTHER_JOB,
    Authority,
    Relay,
    authority,
    der,
    forged,
    identity,
    offered,
    pair,
    party,
    refusal,
    state,
)

LOW_ORDER = [  # the points of small order on Curve25519, and encodings of them that are not reduced
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


def refused(one, payload, reason):
    """It is refused for that reason and changes nothing."""
    before = state(one)
    assert refusal(one.accept, payload, NOW) == reason
    assert state(one) == before


def test_messages_of_an_exchange_that_stands_do_not_set_it_back():
    """Played again they are answered again, but neither pads nor numbers begin anew."""
    a, c, relay = pair()
    a.pad("c", 3, 0, 1)
    c.pad("a", 3, 0, 1)
    sealed = a.seal("c", b"x")
    c.open(sealed)
    before = state(a), state(c)
    for payload in list(relay.seen):
        relay.carry(payload)
    assert relay.refused == []
    assert (state(a), state(c)) == before
    assert refusal(c.open, sealed) == "repeated"


def test_messages_of_an_ended_session_are_stale():
    a, _, relay = pair()
    old = list(relay.seen)
    relay.carry(a.rekey("c"))
    for payload in old:
        refused(relay.parties[wire.addresses(payload)[1]], payload, "stale")


def test_messages_from_before_a_restart_complete_nothing():
    """A restarted party does not know old keys again; it may answer an old hello, but no session comes of it."""
    _, _, earlier = pair()
    a, c, relay = pair()
    before = a.session("c"), c.session("a")
    a.pad("c", 3, 0, 1)
    for payload in earlier.seen * 2:
        relay.carry(payload)
    assert (a.session("c"), c.session("a")) == before
    assert a._sessions["c"].last_pad == (3, 0)
    assert set(relay.refused) == {"stale"}
    fresh = party("c")
    refused(fresh, earlier.seen[2], "stale")
    Relay(fresh, a).carry(earlier.seen[0])
    assert fresh.session("a") is None


def test_the_last_word_of_a_dead_process_does_not_take_a_live_ones_place():
    a, dead, live = party("a"), party("c"), party("c")
    last = dead.accept(a.accept(dead.offer("a"), NOW).reply, NOW).reply
    answer = a.accept(live.offer("a"), NOW).reply
    refused(a, last, "stale")
    Relay(a, live).carry(answer)
    assert a.session("c") == live.session("a") is not None


def test_offers_for_others_are_refused():
    a, c = party("a"), party("c")
    hello = a.offer("c")
    refused(a, hello, "address")
    refused(party("d"), hello, "address")
    refused(party("c", job=OTHER_JOB), hello, "job")
    refused(party("c", receiver="e"), hello, "receiver")
    refused(party("c", partners=("d",)), hello, "sender")
    refused(c, a.offer("d"), "address")
    for fields in ({"recipient": "c"}, {"job": OTHER_JOB}, {"receiver": "e"}, {"sender": "d"}):
        altered = offered(a.offer("d"))
        altered = altered._replace(header=altered.header._replace(**{"recipient": "c"} | fields)).encoded()
        before = state(c)
        assert refusal(c.accept, altered, NOW) in {"signature", "job", "receiver", "certificate"}
        assert state(c) == before


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_relay_that_swaps_keys_is_noticed(which):
    """In whichever message: in place of a key, or of the key that is answered, it puts one that it knows."""
    known = X25519PrivateKey.generate().public_key().public_bytes_raw()
    for field in ("key", "answered"):
        if (which, field) == (0, "answered"):
            continue
        a, c = party("a"), party("c")
        relay, count = Relay(a, c), iter(range(99))
        relay.tamper = lambda p, f=field, n=count: [
            offered(p)._replace(**{f: known}).encoded() if next(n) == which else p
        ]
        relay.carry(a.offer("c"))
        assert relay.refused == ["signature"]
        assert c.session("a") is None


def test_a_relay_that_signs_for_itself_is_noticed():
    a, c = party("a"), party("c")
    certificate, key = identity("b")
    own = X25519PrivateKey.generate().public_key().public_bytes_raw()
    hello = offered(a.offer("c"))
    refused(c, forged(a, hello._replace(key=own, certificate=der(certificate)), key), "certificate")
    refused(c, forged(a, hello._replace(key=own), key), "signature")
    as_itself = hello._replace(key=own, certificate=der(certificate), header=hello.header._replace(sender="b"))
    refused(c, forged(a, as_itself, key), "sender")


@pytest.mark.parametrize(
    "issue",
    [
        lambda: Authority().issue("a"),
        lambda: Authority("another").issue("a"),
        lambda: authority().issue("a", end=NOW - DAY / 2),
        lambda: authority().issue("a", start=NOW + DAY / 2),
        lambda: authority().issue("d"),
        lambda: authority().issue("a", "d"),
        lambda: authority().issue("a", named=False),
        lambda: authority().issue("a", signs=False),
        lambda: authority().issue("a", usage=[x509.OID_SERVER_AUTH]),
        lambda: authority().issue("a", curve=ec.SECP384R1()),
        lambda: authority().issue("a", extra=x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")),
    ],
    ids=[
        "other-same-name",
        "other",
        "expired",
        "not-yet",
        "other-name",
        "two-names",
        "no-name",
        "no-signatures",
        "server-only",
        "P-384",
        "restricted",
    ],
)
def test_certificates_that_do_not_do(issue):
    """The offer is right but for the certificate, whose own key signed it."""
    a, c = party("a"), party("c")
    pem, key = issue()
    hello = offered(a.offer("c"))
    refused(c, forged(a, hello._replace(certificate=der(pem)), key), "certificate")
    good, key = authority().issue("a", usage=None, signs=True)
    assert c.accept(forged(a, hello._replace(certificate=der(good)), key), NOW).sender == "a"


def test_time_passes_for_certificates_and_authorities():
    a, c = party("a"), party("c")
    hello = a.offer("c")
    assert refusal(c.accept, hello, NOW + 2 * DAY) == "certificate"
    forever = authority().issue("a", end=NOW + 400 * DAY)
    a = party("a", issued=forever)
    assert c.accept(a.offer("c"), NOW + 29 * DAY).sender == "a"
    assert refusal(c.accept, a.offer("c"), NOW + 31 * DAY) == "certificate"


@pytest.mark.parametrize("point", LOW_ORDER)
def test_points_of_low_order_are_refused(point):
    """Signed by a true partner, in a hello and in an answer."""
    a, c = party("a"), party("c")
    low = bytes.fromhex(point)
    refused(c, forged(a, offered(a.offer("c"))._replace(key=low)), "key")
    answer = offered(a.accept(c.offer("a"), NOW).reply)
    refused(c, forged(a, answer._replace(key=low)), "key")
    Relay(a, c).carry(c.offer("a"))
    assert a.session("c") == c.session("a") is not None


def test_hello_and_answered_key_exclude_each_other():
    a, c = party("a"), party("c")
    hello = offered(a.offer("c"))
    refused(c, forged(a, hello._replace(answered=bytes([1] * 32))), "content")
    answer = offered(c.accept(a.offer("c"), NOW).reply)
    refused(a, forged(c, answer._replace(answered=wire.NO_KEY)), "content")


def test_a_partner_that_answers_another_key_within_a_session_is_stale():
    a, c, relay = pair()
    for payload in relay.seen[1:]:
        signer = {"a": a, "c": c}[wire.addresses(payload)[0]]
        other = forged(signer, offered(payload)._replace(answered=bytes([1] * 32)))
        refused({"a": c, "c": a}[signer.name], other, "stale")


def test_sealed_messages_that_are_not_the_next_for_this_party():
    a, c, _ = pair()
    d = party("d")
    Relay(a, c, d).carry(d.offer("a"), d.offer("c"))
    first, second, third = (a.seal("c", t) for t in (b"1", b"2", b"3"))
    assert c.open(second) == ("a", b"2")
    before = state(c)
    assert [refusal(c.open, m) for m in (second, first)] == ["repeated", "repeated"]
    assert [refusal(p.open, third) for p in (d, a)] == ["address", "address"]
    assert refusal(c.open, third.replace(b"\x01a\x01c", b"\x01d\x01c")) == "session"
    assert refusal(d.open, a.seal("c", b"x").replace(b"\x01a\x01c", b"\x01a\x01d")) == "session"
    assert refusal(c.accept, third, NOW) == "content"
    assert refusal(c.open, a.offer("c")) == "content"
    assert refusal(party("c", receiver="e").open, third) == "receiver"
    assert refusal(party("c", job=OTHER_JOB).open, third) == "job"
    number = third.index(a.session("c")) + 16
    assert refusal(c.open, third[: number + 7] + b"\x63" + third[number + 8 :]) == "seal"
    assert state(c) == before
    assert c.open(third) == ("a", b"3")


def situations():
    """Of each kind one payload, who is to take it, and how."""
    a, c = party("a"), party("c")
    hello = a.offer("c")
    yield hello, party("c"), "accept"
    answer = c.accept(hello, NOW).reply
    yield answer, a, "accept"
    one, two = party("a"), party("c")
    confirm = one.accept(two.accept(one.offer("c"), NOW).reply, NOW).reply
    yield confirm, two, "accept"
    three, four, _ = pair()
    yield three.seal("c", b"some text"), four, "open"


def take(one, how, payload):
    return one.open(payload) if how == "open" else one.accept(payload, NOW)


def mutated(rng, payload, others):
    """Change bits, cut, lengthen, or join with another payload."""
    changed = bytearray(payload)
    kind = rng.randrange(6)
    if kind <= 2:
        for _ in range(rng.choice((1, 1, 2, 5))):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    elif kind == 3:
        del changed[rng.randrange(len(changed)) :]
    elif kind == 4:
        at = rng.randrange(len(changed) + 1)
        changed[at : at + rng.choice((0, 1, 4))] = rng.randbytes(rng.choice((1, 2, 32)))
    else:
        other, at = rng.choice(others), rng.randrange(1, len(changed))
        changed[at:] = other[at:]
    return bytes(changed)


def test_ten_thousand_mutations_are_refused_and_change_nothing():
    rng = random.Random(20300501)
    cases = list(situations())
    originals = [payload for payload, _, _ in cases]
    before = [state(one) for _, one, _ in cases]
    count, reasons = 0, set()
    while count < 10_000:
        payload, one, how = cases[count % 4]
        changed = mutated(rng, payload, originals)
        if changed in originals:
            continue
        count += 1
        reasons.add(refusal(take, one, how, changed))
    assert [state(one) for _, one, _ in cases] == before
    assert reasons >= {"content", "version", "address", "sender", "receiver", "job", "certificate", "signature", "seal"}
    for payload, one, how in cases:
        assert take(one, how, payload)[0] == "a" or one.name == "a"


def test_every_truncation_and_every_single_bit_of_the_short_fields():
    for payload, one, how in situations():
        before = state(one)
        for length in range(0, len(payload), 3):
            assert refusal(take, one, how, payload[:length]) == "content"
        for at in range(min(120, len(payload))):
            for bit in range(8):
                changed = bytearray(payload)
                changed[at] ^= 1 << bit
                refusal(take, one, how, bytes(changed))
        refusal(take, one, how, payload + b"\0")
        assert state(one) == before


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.binary(max_size=300) | st.builds(lambda tail: b"\x01\x01\x01a\x01c\x01b" + bytes(range(32)) + tail, st.binary())
)
def test_arbitrary_bytes_are_refused(payload):
    c = party("c")
    for act in (lambda: c.accept(payload, NOW), lambda: c.open(payload)):
        refusal(act)
    assert state(c) == ({}, {}, {})


class DishonestRelay:
    """Delivers, repeats and withholds at will while the ends restart, rekey, seal and take pads."""

    def __init__(self, rng):
        self.rng, self.ends = rng, {"a": party("a"), "c": party("c")}
        self.wires, self.sealed, self.opened, self.pads = [], {}, set(), {"a": set(), "c": set()}

    def step(self, action):
        name, other = self.rng.choice((("a", "c"), ("c", "a")))
        getattr(self, action)(self.ends[name], other)

    def offer(self, one, other):
        self.wires.append(one.offer(other))

    def rekey(self, one, other):
        self.wires.append(one.rekey(other))

    def restart(self, one, _):
        self.ends[one.name] = party(one.name)

    def seal(self, one, other):
        if one.session(other) is not None:
            text = str(len(self.wires)).encode()
            self.wires.append(one.seal(other, text))
            self.sealed[self.wires[-1]] = (one.name, text)

    def pad(self, one, other):
        if one.session(other) is not None:
            pad = one.pad(other, one._sessions[other].last_pad[0] + 1, 0, 2).tobytes()
            assert pad not in self.pads[one.name]
            self.pads[one.name].add(pad)

    def deliver(self, *_):
        if not self.wires:
            return
        payload = self.wires[-1] if self.rng.random() < 0.7 else self.rng.choice(self.wires)
        target = self.ends[wire.addresses(payload)[1]]
        try:
            if payload in self.sealed:
                assert target.open(payload) == self.sealed[payload]
                assert payload not in self.opened
                self.opened.add(payload)
            elif (reply := target.accept(payload, NOW).reply) is not None:
                self.wires.append(reply)
        except MessageRefused:
            pass


ACTIONS = ("offer", "deliver", "deliver", "deliver", "deliver", "restart", "rekey", "seal", "pad")


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(ACTIONS), min_size=10, max_size=80))
def test_no_schedule_of_a_dishonest_relay_repeats_a_pad_or_a_message(rng, actions):
    """Nobody takes one pad twice, ends in the same session hold the same keys, what is opened was sealed and is opened once.

    When the relay turns honest, the offers that are due lead to one session.
    """
    relay = DishonestRelay(rng)
    for action in actions:
        relay.step(action)
        a, c = (relay.ends[one]._sessions.get(other) for one, other in ("ac", "ca"))
        if a is not None and c is not None and a.id == c.id:
            assert (a.pad_key, a.send_key, a.hear_key) == (c.pad_key, c.hear_key, c.send_key)
    a, c = relay.ends["a"], relay.ends["c"]
    honest = Relay(a, c)
    for one, two in ((a, c), (c, a), (a, c)):
        unlike = two.session(one.name) not in (None, one.session(two.name))  # what the other end seals is refused here
        if two.name in one.unsettled() or unlike:
            honest.carry(one.offer(two.name))
    assert a.session("c") == c.session("a") is not None
    assert (a.unsettled(), c.unsettled()) == (("d",), ("d",))
