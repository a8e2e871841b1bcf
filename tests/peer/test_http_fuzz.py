"""Whatever comes in at the door on loopback, it stays open and nothing falls."""

from __future__ import annotations

import random

import h11

from tacit.peer.operations.http_request import Refused, admit
from tests.peer.http_client import exchange, get, post, serving, split

ROUTES = {"/health": "GET", "/metrics": "GET", "/status": "GET", "/learn": "POST", "/predict": "POST"}


def mutant(draw, seeds):
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.randrange(1, 5)):
        at = draw.randrange(len(data) + 1)
        kind = draw.randrange(5)
        if kind == 0:
            data[at:at] = draw.randbytes(draw.randrange(1, 9))
        elif kind == 1:
            del data[at : at + draw.randrange(1, 30)]
        elif kind == 2 and at < len(data):
            data[at] = draw.randrange(256)
        elif kind == 3:
            other = draw.choice(seeds)
            data[at:] = other[draw.randrange(len(other)) :]
        else:
            data[at:at] = draw.choice([b"\r\n", b"\n", b"\0", b":", b" " * 50, b"\r\n\r\n", b"HTTP/1.1", b"9" * 30])
    return bytes(data)


SEEDS = [
    get("/health"),
    get("/metrics", more="Accept: */*\r\nUser-Agent: x\r\n"),
    get("/status").replace(b"close", b"keep-alive") + get("/status"),
    post("/learn", {"x": [1, 2], "y": 3}),
    post("/learn", [{"x": [1, 2], "y": 3}] * 3, more="Expect: 100-continue\r\n"),
    post("/predict", {"x": [1.5, -2e3]}),
]


def test_five_thousand_mutated_requests():
    """Every one gets well-formed answers or a closed connection, none a 500, and the server lives on."""
    draw = random.Random(4)
    seen = {}

    async def work(server, peer):
        for _ in range(5000):
            data = mutant(draw, SEEDS)
            answers = await exchange(server, data)
            statuses = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:] if part[:3].isdigit()]
            assert not answers or answers.startswith(b"HTTP/1.1 "), data
            for status in statuses:
                seen[status] = seen.get(status, 0) + 1
        assert split(await exchange(server, get("/status")))[0] == 200
        await server.close()
        assert not server._door.serving

    serving(work)
    assert 500 not in seen
    assert {200, 400, 404, 405, 415, 421} <= set(seen), seen


def test_the_parser_only_ever_refuses():
    draw = random.Random(5)
    accepted, refused = 0, set()
    for _ in range(20_000):
        data = mutant(draw, SEEDS).split(b"\r\n\r\n")[0] + b"\r\n\r\n"
        try:
            admit(h11.Connection(h11.SERVER), data, ROUTES)
            accepted += 1
        except Refused as fault:
            refused.add(fault.status)
    assert 1000 < accepted < 19_000
    assert refused <= {400, 404, 405, 411, 413, 415, 417, 421, 501, 505}
