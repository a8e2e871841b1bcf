"""docs/deploy.md exactly as written: its blocks in order, each on its host, which is a network namespace.

A reader waits until a peer that was just started answers; so does this test. Nothing else is added or left out.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.deploy.hosts import Hosts, why_not
from tests.docs import pages

REASON = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=REASON or ""), pytest.mark.timeout(600)]

DOCUMENT = Path(__file__).parents[2] / "docs" / "deploy.md"
ADDRESSES = {
    "hospital-a": "10.77.0.1",
    "hospital-b": "10.77.0.2",
    "hospital-c": "10.77.0.3",
    "authority": "10.77.0.9",
}
PEERS = tuple(name for name in ADDRESSES if name != "authority")
LONGEST_BLOCK, LONGEST_START, LONGEST_WAIT = 120.0, 120.0, 60.0
SCP = """#!/usr/bin/env bash
# scp FILE... HOST: where every host is a directory
set -e
target=${*: -1}
cp "${@:1:$#-1}" "$HOSTS/${target%:}/"
"""


class Block(NamedTuple):
    """A block of the document."""

    host: str
    script: str


def blocks() -> list[Block]:
    """Return the document's commands in order, each with the host that its first line names."""
    found = []
    for script in (block.text for block in pages.blocks(DOCUMENT, "bash")):
        host = re.match(r"# on (\S+)\n", script)
        assert host is not None, f"a block that does not say on which host it runs:\n{script}"
        found.append(Block(host[1], script))
    return found


class Reader:
    """Somebody who follows the document."""

    def __init__(self, hosts: Hosts, tools: Path) -> None:
        self.hosts, self.starts, self.number = hosts, dict.fromkeys(PEERS, 0), 0
        scp = tools / "scp"
        scp.write_text(SCP)
        scp.chmod(scp.stat().st_mode | stat.S_IXUSR)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")},
            "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOSTS": str(hosts.directory),
        }

    def do(self, block: Block) -> str:
        """Run a block and return what it printed; what it leaves in the background goes on."""
        directory = self.hosts.directory / block.host
        self.number += 1
        output = self.hosts.directory / f"block{self.number}.txt"
        with output.open("wb") as out:  # a file: a pipe would stay open as long as what goes on in the background
            done = subprocess.run(
                [*self.hosts.inside(block.host), "bash", "-e", "-c", block.script],
                cwd=directory, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                timeout=LONGEST_BLOCK, check=False,
            )  # fmt: skip
        said = output.read_text()
        assert done.returncode == 0, f"on {block.host}:\n{block.script}\nended with {done.returncode}:\n{said}"
        if block.script.rstrip().endswith("&"):
            self.starts[block.host] += 1
            until(lambda: self.started(block.host) == self.starts[block.host], LONGEST_START, f"{block.host} to start")
        return said

    def started(self, host: str) -> int:
        return sum(event["event"] == "operations" for event in self.log(host))

    def log(self, host: str) -> list[dict[str, Any]]:
        lines = (self.hosts.directory / host / "log.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def ask(self, host: str, command: str) -> str:
        """Run a command of one's own on a host."""
        return subprocess.run(
            [*self.hosts.inside(host), "bash", "-e", "-c", command], cwd=self.hosts.directory / host, check=True,
            env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_BLOCK,
        ).stdout  # fmt: skip

    def status(self, host: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask(host, "curl -s http://127.0.0.1:9443/status"))
        return found

    def rounds(self) -> dict[str, int]:
        return {name: self.status(name)["round"] for name in PEERS}


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Look again and again until it is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with Hosts(tmp_path_factory.mktemp("hosts"), ADDRESSES) as hosts:
        yield Reader(hosts, tmp_path_factory.mktemp("tools"))


def test_the_document_does_what_it_says_when_it_is_followed_to_the_letter(reader: Reader) -> None:
    hosts, steps = reader.hosts, iter(blocks())

    def follow(through: str, host: str | None = None) -> str:
        """Do the blocks up to the first that contains a text, and return what that one said."""
        for block in steps:
            said = reader.do(block)
            if through in block.script and host in (None, block.host):
                return said
        raise AssertionError(f"{DOCUMENT.name} has no further block with {through!r} on {host or 'any host'}")

    follow("tacit peer install", "hospital-c")
    secret = [path for path in hosts.directory.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert sorted(path.relative_to(hosts.directory).parts[0] for path in secret) == sorted(ADDRESSES)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secret)

    for name in PEERS:
        assert "ok" in follow("tacit peer run", name)
    until(lambda: all(_linked(reader.status(name)) for name in PEERS), LONGEST_WAIT, "all links to be up")
    for name in PEERS:  # nothing takes connections but what the files declare
        assert hosts.listening(name) == {(ADDRESSES[name], 7443), ("127.0.0.1", 9443)}
    assert hosts.listening("authority") == set()

    said = follow("/predict")
    assert "hospital-c" in said
    prediction = json.loads(re.findall(r"^\{.*\}", said, re.MULTILINE)[1])
    assert set(prediction) == {"class", "probability", "score"}
    assert sum(prediction["probability"].values()) == pytest.approx(1)
    assert "tacit_round " in said
    assert 'tacit_connected{direction="out",neighbour="hospital-a"} 1.0' in said
    until(
        lambda: "tacit_samples_total{outcome=\"used\"} 1.0\n" in reader.ask("hospital-c", "curl -s http://127.0.0.1:9443/metrics"),
        LONGEST_WAIT, "the pushed sample to be used",
    )  # fmt: skip
    before = reader.rounds()
    until(lambda: all(now > before[name] + 2 for name, now in reader.rounds().items()), LONGEST_WAIT, "rounds to go on")

    said = follow("tacit ledger verify")
    booked = int(re.search(r"([\d,]+) release\(s\), whole and unchanged", said)[1].replace(",", ""))  # type: ignore[index]
    assert booked >= before["hospital-a"]

    pid, last = reader.status("hospital-b")["pid"], reader.status("hospital-b")["round"]
    follow("tacit peer stop", "hospital-b")
    again = reader.status("hospital-b")
    assert again["pid"] != pid
    assert again["round"] >= last
    until(lambda: _linked(reader.status("hospital-b")), LONGEST_WAIT, "hospital-b to be linked again")
    until(lambda: reader.status("hospital-b")["round"] > last + 1, LONGEST_WAIT, "hospital-b to go on")
    assert all(reader.status(name)["fault"] is None for name in PEERS)

    first = (hosts.directory / "hospital-a" / "identity" / "identity.pem").read_bytes()
    for block in steps:
        reader.do(block)
        assert hosts.listening(block.host) == set()
        until(lambda host=block.host: not hosts.processes(host), LONGEST_WAIT, f"{block.host} to end")
    assert (hosts.directory / "hospital-a" / "identity" / "identity.pem").read_bytes() != first  # renewed
    for name in PEERS:
        assert not any(event["level"] == "error" for event in reader.log(name))
        assert reader.log(name)[-1]["event"] == "peer stopped"
        assert "unchanged" in reader.ask(name, "tacit ledger verify state/store.db --witness witness.json")


def _linked(status: dict[str, Any]) -> bool:
    return all(status["hears"].values()) and all(status["sends_to"].values())
