"""Secrets of two neighbours of one receiver, against a relay that does what it likes."""

import random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.peer.masking import agreement_wire as wire
from tests.peer.pairs import (
    DAY,
    NOW,
    OTHER_JOB,
    Authority,
    Relay,
    addresses,
    authority,
    der,
    forged,
    identity,
    offered,
    pair,
    party,
    refusal,
    restarted,
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


def test_messages_of_an_exchange_that_is_over_change_nothing():
    """Played again they are answered again, and that is all, before a restart and after it."""
    a, c, relay = pair()
    a.pad("c", 3, 0, 1)
    c.pad("a", 3, 0, 1)
    before = state(a), state(c)
    for payload in list(relay.seen):
        relay.carry(payload)
    assert relay.refused == []
    assert (state(a), state(c)) == before
    relay.parties = {"a": restarted(a), "c": restarted(c)}
    for payload in list(relay.seen):
        relay.carry(payload)
    assert relay.refused == []
    assert [dict(one._store.keys) for one in (a, c)] == [keys for keys, _ in before]
    hellos = [m for m in relay.seen if offered(m).header.kind == wire.HELLO]
    assert len(set(hellos)) == 1, "nobody was made to begin anything"


def test_messages_from_other_stores_complete_nothing():
    """Of an earlier run of the same job: an old hello may be answered, but nothing comes of it."""
    _, _, earlier = pair()
    a, c, relay = pair()
    before = state(a), state(c)
    for payload in earlier.seen * 2:
        relay.carry(payload)
    assert (state(a), state(c)) == before
    assert set(relay.refused) == {"stale"}
    fresh = party("c")
    before = state(fresh)
    assert refusal(fresh.accept, earlier.seen[2], NOW) == "stale"
    answer = fresh.accept(earlier.seen[0], NOW).reply
    assert refusal(a.accept, answer, NOW) == "stale"
    assert state(fresh) == before
    assert fresh.session("a") is None


def test_the_last_word_of_a_lost_store_does_not_take_a_new_ones_place():
    """What an end with a lost store would have confirmed answers a key that nobody has any more."""
    lost, live, c = party("a"), party("a"), party("c")
    last = c.accept(lost.accept(c.offer("a"), NOW).reply, NOW).reply
    refused(live, last, "stale")
    assert live.session("c") is None


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


def test_a_partner_that_answers_another_key_is_stale():
    a, c, relay = pair()
    for payload in relay.seen[1:]:
        signer = {"a": a, "c": c}[addresses(payload)[0]]
        other = forged(signer, offered(payload)._replace(answered=bytes([1] * 32)))
        refused({"a": c, "c": a}[signer.name], other, "stale")


def situations():
    """Of each kind one payload, and who is to take it."""
    a, c = party("a"), party("c")
    hello = a.offer("c")
    yield hello, party("c")
    answer = c.accept(hello, NOW).reply
    yield answer, a
    one, two = party("a"), party("c")
    yield one.accept(two.accept(one.offer("c"), NOW).reply, NOW).reply, two


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
    originals = [payload for payload, _ in cases]
    before = [state(one) for _, one in cases]
    count, reasons = 0, set()
    while count < 10_000:
        payload, one = cases[count % 3]
        changed = mutated(rng, payload, originals)
        if changed in originals:
            continue
        count += 1
        reasons.add(refusal(one.accept, changed, NOW))
    assert [state(one) for _, one in cases] == before
    assert reasons >= {"content", "version", "address", "sender", "receiver", "job", "certificate", "signature"}
    for payload, one in cases:
        assert one.accept(payload, NOW).sender == addresses(payload)[0]


def test_every_truncation_and_every_single_bit_of_the_short_fields():
    for payload, one in situations():
        before = state(one)
        for length in range(0, len(payload), 3):
            assert refusal(one.accept, payload[:length], NOW) == "content"
        for at in range(min(120, len(payload))):
            for bit in range(8):
                changed = bytearray(payload)
                changed[at] ^= 1 << bit
                refusal(one.accept, bytes(changed), NOW)
        refusal(one.accept, payload + b"\0", NOW)
        assert state(one) == before


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.binary(max_size=300) | st.builds(lambda tail: b"\x02\x01\x01a\x01c\x01b" + bytes(range(32)) + tail, st.binary())
)
def test_arbitrary_bytes_are_refused(payload):
    c = party("c")
    before = state(c)
    refusal(c.accept, payload, NOW)
    assert state(c) == before


class DishonestRelay:
    """Delivers, repeats and withholds at will while the ends begin, restart and take pads."""

    def __init__(self, rng):
        self.rng, self.ends = rng, {"a": party("a"), "c": party("c")}
        self.wires, self.pads = [], {}

    def step(self, action):
        name, other = self.rng.choice((("a", "c"), ("c", "a")))
        getattr(self, action)(self.ends[name], other)

    def offer(self, one, other):
        if other in one.unsettled():
            self.wires.append(one.offer(other))

    def restart(self, one, _):
        self.ends[one.name] = restarted(one)

    def pad(self, one, other):
        if one.session(other) is not None:
            t = one._last.get(other, (0, 0))[0] + self.rng.choice((1, 1, 70))
            assert self.pads.setdefault(t, pad := one.pad(other, t, 0, 2).tobytes()) == pad

    def deliver(self, *_):
        if not self.wires:
            return
        payload = self.wires[-1] if self.rng.random() < 0.7 else self.rng.choice(self.wires)
        target = self.ends[addresses(payload)[1]]
        reply = target.accept(payload, NOW).reply
        if reply is not None:
            self.wires.append(reply)


ACTIONS = ("offer", "deliver", "deliver", "deliver", "deliver", "restart", "pad")


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(ACTIONS), min_size=10, max_size=80))
def test_no_schedule_of_a_dishonest_relay_makes_a_second_secret(rng, actions):
    """Whatever is delivered when, a position has one pad, at both ends and over restarts; no letter is out of place.

    When the relay turns honest, the offers that are due lead to the secret.
    """
    relay = DishonestRelay(rng)
    for action in actions:
        relay.step(action)
    assert len({bytes(pad) for pad in relay.pads.values()}) == len(relay.pads)
    a, c = relay.ends["a"], relay.ends["c"]
    honest = Relay(a, c)
    for one, two in ((a, c), (c, a), (a, c)):
        if two.name in one.unsettled():
            honest.carry(one.offer(two.name))
    assert a.session("c") == c.session("a") is not None
    assert (a.unsettled(), c.unsettled(), honest.refused) == (("d",), ("d",), [])
