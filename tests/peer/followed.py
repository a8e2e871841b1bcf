"""Files that grow, and followers of them, for tests without waiting."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from tacit.peer.sources.file_follower import FileTail
from tacit.peer.sources.queue import SampleForm

FORM = SampleForm.of(2)
HEADER = "a,b,y\n"


class Records:
    """What a store remembers of used records."""

    def __init__(self, others=None):
        self.kept = {} if others is None else {digest: Counter(files) for digest, files in others.kept.items()}

    def keep(self, seen):
        for file, digest in seen:
            self.kept.setdefault(digest, Counter())[file] += 1

    def uses(self, digest):
        return sorted(self.kept.get(digest, {}).items(), reverse=True)

    def used_of_files(self):
        return sum(self.kept.values(), Counter())


class Time:
    """A clock that moves when somebody sleeps; `events` happen at their times."""

    def __init__(self, events=()):
        self.now, self.events, self.sleeps = 0.0, sorted(events, key=lambda e: e[0]), 0

    async def sleep(self, seconds):
        self.sleeps += 1
        self.now += seconds
        while self.events and self.events[0][0] <= self.now:
            self.events.pop(0)[1]()


def tail(path, time=None, **settings):
    time = time or Time()
    options = {"format": "csv", "label": "y", "known": Records(), **settings}
    return FileTail(path, options.pop("form", FORM), clock=lambda: time.now, sleep=time.sleep, **options)


def take(source, limit=100, patience=0.0):
    """Take, and commit what was taken."""
    taken = asyncio.run(source.take(limit, patience))
    source._known.keep(taken.seen)
    return taken


def everything(source):
    """Take and commit until nothing more comes."""
    found = []
    while (taken := take(source, patience=1)).samples:
        found += ys(taken)
    return found


def ys(taken):
    """Labels of the samples; of a record that cannot be used, None."""
    return [None if sample is None else int(sample.y) for sample in taken.samples]


def append(path, text):
    with path.open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def rows(*labels):
    return "".join(f"{y},{-y},{y}\n" for y in labels)


def reopened(path, cursor, **settings):
    again = tail(path, **settings)
    again.resume(json.loads(json.dumps(cursor)))
    return again
