"""Whatever is done to a file, and whenever the peer is killed: no record is released twice."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.peer.learner import Learner
from tests.peer.stores import MEMORY

HARMLESS = ("append", "shuffle", "crlf", "copy", "rotate", "round", "rounds", "crash", "restart")
HARMFUL = ("correct", "delete", "spoil", "put back", "copytruncate", "slowly")


class World:
    """A file and a peer that learns from it; each file has an anchor, its first record, which nobody touches."""

    def __init__(self, folder, seed, **source):
        self.draw, self.folder = random.Random(seed), folder
        self.path, self.number, self.files, self.versions = folder / "data.csv", 0, 0, []
        self.rows, self.end = {}, "\n"
        self.begin()
        self.peer = Learner(folder, **source)

    def begin(self):
        self.rows = {}
        self.anchor = self.number + 1
        self.add()

    def add(self):
        self.number += 1
        self.rows[self.number] = f"{self.number},0.5,{self.number % 2}"
        self.write()

    def write(self, upto=None):
        self.path.write_bytes((self.end.join(["a,b,y", *self.rows.values()][:upto]) + self.end).encode())

    def known(self):
        """Records of this file that may be changed: the anchor is known, so that the file is."""
        released = self.peer.released
        found = [n for n in self.rows if n != self.anchor and (not released[n] or released[self.anchor])]
        return found or [None]

    def step(self, what):
        getattr(self, what.replace(" ", "_"))()
        assert max(self.peer.released.values(), default=0) <= 1, what

    def append(self):
        with self.path.open("ab") as file:
            for _ in range(self.draw.randrange(1, 4)):
                self.number += 1
                self.rows[self.number] = f"{self.number},0.5,{self.number % 2}"
                file.write((self.rows[self.number] + self.end).encode())

    def shuffle(self):
        rows = list(self.rows.items())
        self.draw.shuffle(rows)
        self.rows = dict(rows)
        self.versions.append((self.anchor, dict(self.rows)))
        self.write()

    def crlf(self):
        self.end = "\r\n" if self.end == "\n" else "\n"
        self.write()

    def copy(self):
        self.path.rename(self.path.with_name("other"))
        self.write()
        self.path.with_name("other").unlink()

    def rotate(self):
        self.files += 1
        self.path.rename(self.path.with_name(f"data.csv.{self.files}"))
        self.begin()

    def copytruncate(self):
        self.begin()

    def correct(self):
        which = self.draw.choice(self.known())
        if which:
            self.rows[which] = f"{which},{self.draw.random()},{which % 2}"
            self.write()

    def spoil(self):
        which = self.draw.choice(self.known())
        if which:
            self.rows[which] = f"{which},,"
            self.write()

    def delete(self):
        which = self.draw.choice(self.known())
        if which:
            del self.rows[which]
            self.write()

    def put_back(self):
        if self.versions:
            self.anchor, rows = self.draw.choice(self.versions)
            self.rows = dict(rows)
            self.write()

    def slowly(self):
        """Empty the file and write it again while the peer looks."""
        self.rows = {self.anchor: self.rows[self.anchor], **self.rows}
        for upto in sorted(self.draw.choices(range(1, len(self.rows) + 2), k=2)):
            self.write(upto)
            self.peer.round()
        self.write()

    def round(self):
        self.peer.round()

    def rounds(self):
        self.peer.rounds()

    def crash(self):
        """Be killed between taking records and committing what was made of them."""
        self.peer.taken()
        self.peer.again()

    def restart(self):
        self.peer.again()


def run(steps, seed, settle=False, **source):
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        world = World(Path(name), seed, **source)
        for step in steps:
            if settle and step == "rotate":  # what is rewritten and rotated before anybody looks may be missed
                world.step("rounds")
            world.step(step)
        world.step("rounds")
        world.peer.close()
    return world


@pytest.mark.covered_by("the two below, with harmless steps too")
@settings(derandomize=True, deadline=None, max_examples=30)
@given(steps=st.lists(st.sampled_from(HARMLESS), max_size=12), seed=st.integers(0, 2**32))
def test_each_record_once_where_none_is_changed(steps, seed):
    world = run(steps, seed, settle=True)
    assert world.peer.released == dict.fromkeys(range(1, world.number + 1), 1)
    assert not world.peer.faults


@settings(derandomize=True, deadline=None, max_examples=60)
@given(steps=st.lists(st.sampled_from(HARMLESS + HARMFUL), max_size=14), seed=st.integers(0, 2**32))
def test_no_record_twice_where_some_are_changed(steps, seed):
    run(steps, seed)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(steps=st.lists(st.sampled_from(HARMLESS + HARMFUL), max_size=14), seed=st.integers(0, 2**32))
def test_with_a_key_no_record_is_lost_either(steps, seed):
    world = run(steps, seed, key=["a"])
    assert not world.peer.faults
    usable = {number for number, row in world.rows.items() if not row.endswith(",,")}
    assert usable <= set(world.peer.released)
