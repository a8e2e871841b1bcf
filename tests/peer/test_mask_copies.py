"""Attacks on masks by a receiver that relays dishonestly: how many masked copies of one value can it collect?

The real stack: node, store, masker, party and letters of every sender; the receiver, who carries all letters, is the
attacker, and one of the victim's two partners is on its side. What that partner's mask is it knows, so that copies differ
in the honest partner's masks alone, and the mean of n independent ones would be off by 1 / sqrt(n) of a mask. There is
one, and no mean to take.
"""

import asyncio
import datetime
import itertools

import pytest

from tacit.peer.masking import agreement_wire as wire
from tacit.peer.masking.agreement import PairwiseParty
from tacit.peer.masking.key_exchange import PairwiseSecrets
from tacit.peer.node.assignment import NOTHING_BOOKED
from tacit.peer.node.exchange import Position
from tacit.peer.node.node import Node
from tacit.peer.node.store import PeerStore
from tests.peer.masked import setting
from tests.peer.pairs import JOB, Authority, Vault, identified, offered

RECEIVER, COLLUDER, VICTIM, HONEST = "peer-0", "peer-1", "peer-2", "peer-3"
CENTURY = {
    "start": datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC),
    "end": datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC),
}


class Sender:
    """One sender to the receiver, with its store; made again after a crash it is a new process."""

    def __init__(self, attack, name):
        self.attack, self.name = attack, name
        path = attack.folder / name
        make = PeerStore.open if path.exists() else PeerStore.create
        self.store = make(path, NOTHING_BOOKED, "job")
        self.pads = {}
        self.node = Node(setting().plans[name], self.store, 1.0, 0.0, setting().functions, self.pads.get)
        if self.node.round == 0:
            self.node.begin(setting().batch(name, 0), 0.0)
        partners = self.node.masker.partners()[RECEIVER]
        own = identified(name, *attack.certificates[name], attack.authority.pem)
        self.pads[RECEIVER] = PairwiseSecrets(
            self, lambda: own, JOB.hex(), RECEIVER, partners, self.store, refused=self.refused, retry=0.0
        )
        self.node.confirmed(RECEIVER, Position(1, 0))

    def open_key_channel(self, relay, box):
        assert relay == RECEIVER
        self.box = box

        async def send(to, payload):
            self.attack.letters.append((self.name, to, payload))

        return send

    def refused(self, reason, sender, detail):
        self.attack.refusals.append((self.name, reason, sender))

    async def crash(self):
        await self.pads[RECEIVER].close()
        self.store.close()


class Attack:
    """The receiver: it keeps every letter, and carries, repeats and forges what it likes."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = Authority(**CENTURY)
        self.certificates = {name: self.authority.issue(name, **CENTURY) for name in (COLLUDER, VICTIM, HONEST)}
        self.letters, self.seen, self.refusals = [], [], []
        self.copies = {}
        self.senders = {}

    async def __aenter__(self):
        self.senders = {name: Sender(self, name) for name in self.certificates}
        await self.carry()
        return self

    async def __aexit__(self, *_):
        for sender in self.senders.values():
            await sender.crash()

    async def carry(self):
        """Pass on letters until there are none, and keep what the victim would send then."""
        for _ in range(20):
            await asyncio.sleep(0)  # lets the tasks run that send letters
            for _ in range(len(self.letters)):
                sender, to, payload = self.letters.pop(0)
                self.seen.append((sender, to, payload))
                self.senders[to].box(sender, payload)
            for parcel in self.senders[VICTIM].node.waiting(RECEIVER):
                self.copies[parcel.content] = parcel

    async def restart(self, name):
        await self.senders[name].crash()
        self.senders[name] = Sender(self, name)
        await self.carry()

    def forged(self, sender, to):
        """A letter that nobody signed, of a kind that there is not: once it was a sealed one."""
        head = wire.Header(4, sender, to, RECEIVER, JOB).encoded()
        return head + bytes(16) + bytes(8) + (32).to_bytes(4, "big") + bytes(32)

    def sessions(self):
        return {
            (name, partner): sender.pads[RECEIVER].session(partner)
            for name, sender in self.senders.items()
            for partner in sender.node.masker.partners()[RECEIVER]
        }


def attacked(act, folder):
    async def scenario():
        async with Attack(folder) as attack:
            assert len(attack.copies) == 1
            await act(attack)

    asyncio.run(asyncio.wait_for(scenario(), 600))


def test_letters_that_nobody_signed_bring_about_nothing(tmp_path):
    async def act(attack):
        before, written = attack.sessions(), len(attack.seen)
        signed = [payload for _, to, payload in attack.seen if to == VICTIM]
        for k in range(30):
            altered = bytearray(signed[k % len(signed)])
            altered[-1 - k] ^= 1
            attack.senders[VICTIM].box(HONEST, bytes(altered))
            attack.senders[VICTIM].box(HONEST, attack.forged(HONEST, VICTIM))
            attack.senders[HONEST].box(VICTIM, attack.forged(VICTIM, HONEST))
            await attack.carry()
        assert len(attack.copies) == 1
        assert attack.sessions() == before
        assert len(attack.seen) == written, "somebody was made to write a letter"
        assert len(attack.refusals) == 90

    attacked(act, tmp_path)


def test_letters_of_old_processes_bring_about_no_offer_and_no_second_copy(tmp_path):
    async def act(attack):
        await attack.restart(HONEST)
        await attack.restart(VICTIM)
        old, before = list(attack.seen), attack.sessions()
        for sender, to, payload in itertools.chain(old, reversed(old)):
            attack.senders[to].box(sender, payload)
            await attack.carry()
        assert len(attack.copies) == 1
        assert attack.sessions() == before
        later = [offered(payload).header.kind for _, _, payload in attack.seen[len(old) :]]
        assert wire.HELLO not in later

    attacked(act, tmp_path)


@pytest.mark.parametrize("who", [VICTIM, HONEST, COLLUDER])
def test_restarts_give_no_second_copy(tmp_path, who):
    async def act(attack):
        written = len(attack.seen)
        for _ in range(6):
            await attack.restart(who)
        assert len(attack.copies) == 1
        assert len(attack.seen) == written, "a restart needs no letters"

    attacked(act, tmp_path)


def test_a_partner_that_signs_key_after_key_gets_no_second_copy(tmp_path):
    """Its masks it could tell the receiver anyhow; a new one would show that the honest partner's stays."""

    async def act(attack):
        own = identified(COLLUDER, *attack.certificates[COLLUDER], attack.authority.pem)
        now = datetime.datetime.now(datetime.UTC)
        for _ in range(5):
            party = PairwiseParty(own, JOB, RECEIVER, [VICTIM], Vault(), now)
            attack.senders[VICTIM].box(COLLUDER, party.offer(VICTIM))
            await attack.carry()
        assert len(attack.copies) == 1
        assert {reason for name, reason, _ in attack.refusals if name == VICTIM} == {"stale"}

    attacked(act, tmp_path)


def test_a_crash_between_a_key_and_the_disk_gives_no_second_copy(tmp_path):
    """The victim dies as it is about to keep the honest partner's key, and just after it: nothing left before."""

    class DiedError(Exception):
        pass

    async def act(attack):
        for after in (False, True):
            attack.copies.clear()
            for name in attack.certificates:
                await attack.senders[name].crash()
                (attack.folder / name).unlink()
            attack.senders = {name: Sender(attack, name) for name in attack.certificates}
            store = attack.senders[VICTIM].store
            keep = store.keep_keys

            def fatal(pairs, keep=keep, after=after):
                if after:
                    keep(pairs)
                raise DiedError

            store.keep_keys = fatal
            with pytest.raises(DiedError):
                await attack.carry()
            assert attack.copies == {}
            attack.letters.clear()
            await attack.restart(VICTIM)
            assert len(attack.copies) == 1
            await attack.restart(VICTIM)
            assert len(attack.copies) == 1

    attacked(act, tmp_path)
