"""Standard error through the log of handshakes: what is taken out is counted, all else comes out unchanged."""

import os
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tacit.peer.transport.tls_log import REASONS, HandshakeLog, handshake_reason

LIMIT = 600  # seconds
DESCRIPTORS = Path("/proc/self/fd")
CORE = b"I1115 14:36:26.736508   24657 ssl_transport_security.cc:2563] "
REFUSAL = CORE + b"Handshake failed with error SSL_ERROR_SSL: error:1:SSL routines:OPENSSL_internal:HTTP_REQUEST: x\n"


def test_reasons_are_a_fixed_set_of_words():
    assert handshake_reason("Handshake failed with error SSL_ERROR_SSL: something new") == "handshake"
    assert handshake_reason("OPENSSL_internal:UNSUPPORTED_PROTOCOL: x") == "old tls"
    assert handshake_reason("SSL routines:OPENSSL_internal:BAD_SIGNATURE: x") == "certificate"
    assert {"handshake", "old tls", "certificate", "plaintext", "expired"} < set(REASONS)


def logged(capfd, monkeypatch, *written, on_refusal=None):
    """What came through, and what was taken out, of bytes written to descriptor 2."""
    monkeypatch.setenv("GRPC_VERBOSITY", "")
    taken = []
    with HandshakeLog(on_refusal or (lambda *refusal: taken.append(refusal))):
        for data in written:
            os.write(2, data)
    return capfd.readouterr().err.encode(), taken


@pytest.mark.parametrize(
    "text",
    [
        b"plain\n",
        b"no end of line",
        b"\n\n",
        b"I am a line that only begins like one of the core\n",
        b"I1115 is no core line",
        b"I11",
        CORE + b"something else that gRPC says\n",
        b"quoted: " + REFUSAL,
        b"x" * 300_000 + b"\n",
        CORE + b"y" * 300_000,
    ],
)
def test_everything_else_goes_through_unchanged(capfd, monkeypatch, text):
    assert logged(capfd, monkeypatch, text) == (text, [])


def test_refusals_are_taken_out_wherever_the_bytes_are_cut(capfd, monkeypatch):
    line = REFUSAL.decode().rstrip("\n")
    text = b"before\n" + REFUSAL + b"after\n" + REFUSAL
    for cut in range(len(text)):
        through, taken = logged(capfd, monkeypatch, text[:cut], text[cut:])
        assert through == b"before\nafter\n", cut
        assert taken == [("plaintext", line)] * 2, cut


@pytest.mark.parametrize(
    ("begun", "rest"), [(b"quoted: ", REFUSAL), (CORE + b"y" * 20_000, b"\n")], ids=["a prompt", "a line without end"]
)
def test_what_is_no_line_of_the_core_is_not_kept_back(monkeypatch, begun, rest):
    """Its first part comes out before the rest is written."""
    monkeypatch.setenv("GRPC_VERBOSITY", "")
    before, (source, sink) = os.dup(2), os.pipe()
    os.dup2(sink, 2)
    os.close(sink)
    taken = []
    try:
        with HandshakeLog(lambda *refusal: taken.append(refusal)):
            for part in (begun, rest):
                os.write(2, part)
                assert read_exactly(source, len(part)) == part
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(source)
    assert taken == []


def read_exactly(source, size):
    heard = b""
    while len(heard) < size and select.select([source], [], [], LIMIT)[0]:
        heard += os.read(source, size - len(heard))
    return heard


def test_what_the_dialler_tells_itself_is_only_taken_out(capfd, monkeypatch):
    notice = CORE + b"Log level INFO is not suitable for production. Prefer WARNING or ERROR.\n"
    assert logged(capfd, monkeypatch, notice + CORE + b"No match found for server name: other\nx\n") == (b"x\n", [])


def test_other_lines_of_the_core_can_be_taken_over(capfd):
    said = []
    line = "I1115 15:28:43.742871   32536 chttp2_transport.cc:1234] Got goaway"
    with HandshakeLog(print, said.append):
        os.write(2, f"{line}\nno line of the core\n".encode())
    assert said == [line]
    assert capfd.readouterr().err == "no line of the core\n"


def test_a_callback_that_fails_does_not_stop_the_log(capfd, monkeypatch):
    def fail(reason, line):
        raise ValueError("no")

    through, _ = logged(capfd, monkeypatch, REFUSAL + b"after\n", on_refusal=fail)
    assert through == REFUSAL + b"this line could not be counted: no (ValueError)\nafter\n"


def test_closing_gives_everything_back(capfd, monkeypatch):
    monkeypatch.setenv("GRPC_VERBOSITY", "")
    before, threads = list(DESCRIPTORS.iterdir()), threading.active_count()
    log = HandshakeLog(print)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)  # holds the pipe open
    log.close()
    log.close()
    os.write(2, REFUSAL)
    child.communicate(b"\n", timeout=LIMIT)
    assert capfd.readouterr() == ("", REFUSAL.decode())
    assert (len(list(DESCRIPTORS.iterdir())), threading.active_count()) == (len(before), threads)


def test_last_words_are_not_lost():
    program = (
        "import os\n"
        "from tacit.peer.transport.tls_log import HandshakeLog\n"
        "log = HandshakeLog(lambda reason, line: print(reason))\n"
        f"os.write(2, {REFUSAL!r} * 1000)\n"
        "raise SystemExit('the last line')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.stdout == "plaintext\n" * 1000
    assert ended.stderr == "the last line\n"
    assert ended.returncode == 1
