"""A federation whose peers listen and dial in processes of their own.

gRPC reads its settings once in a process, so those that listen and dial are this file, run as a program (at its end). It
takes orders on standard input and answers with one line of JSON for each thing that happens.
"""

import asyncio
import json
import os
import queue
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

from cryptography import x509

from tacit.core.errors import MessageRefused
from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.credentials import (
    IdentityWatch,
    channel_credentials,
    channel_options,
    grpc,
    peer_name,
    refused_server,
    server_credentials,
    server_options,
)
from tacit.peer.identity.identity import identity_files, install, request
from tacit.peer.transport.tls_log import HandshakeLog
from tests.peer.enrolment import NAME, enrol

SERVER = "server"
LIMIT = 600  # seconds; everything here takes milliseconds
WITHOUT_SETTINGS = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5)
PING, PONG = (bytes(2) + b"\x08\x06" + flags + bytes(4) + b"12345678" for flags in (b"\0", b"\1"))


class Process:
    """This file as a program: `listen HOME` or `dial`."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.peer.handshakes", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=WITHOUT_SETTINGS,
        )
        self.events = queue.Queue()
        self.readers = [
            threading.Thread(target=lambda: [self.events.put(json.loads(line)) for line in self.process.stdout]),
            threading.Thread(target=lambda: setattr(self, "stderr", self.process.stderr.read())),
        ]
        for reader in self.readers:
            reader.start()

    def event(self):
        return self.events.get(timeout=LIMIT)

    def order(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        try:
            assert self.process.wait(LIMIT) == 0
        finally:
            self.process.kill()
            for reader in self.readers:
                reader.join(LIMIT)
            self.process.stdout.close()
            self.process.stderr.close()
        assert self.events.empty(), list(self.events.queue)
        assert self.stderr == "", "what was counted is taken out of standard error, and there was nothing else"


class Federation:
    """One authority, a server, and a peer that may dial it."""

    def __init__(self, root):
        self.root, self.ca, self.home, self.peer = root, root / "ca", root / "server", root / "peer"
        init_ca(self.ca, "federation")
        enrol(self.home, self.ca, SERVER)
        enrol(self.peer, self.ca, NAME)
        self.listener, self.dialler = Process("listen", self.home), Process("dial")

    def dial(self, home=None, expect=SERVER, port=None):
        """What became of a call by a peer's own credentials, and of what its log of handshakes says meanwhile."""
        self.dialler.order(home=str(home or self.peer), expect=expect, port=port or self.port)
        events = [self.dialler.event()]
        while not {"answer", "details"} & events[-1].keys():
            events.append(self.dialler.event())
        self.logged = events[:-1]
        return events[-1]

    def tls(self, files=None, version=ssl.TLSVersion.TLSv1_3):
        """A client of the standard library, connected as far as it gets."""
        context = ssl.create_default_context(cafile=self.ca / "ca.crt")
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols(["h2"])
        if files:
            context.load_cert_chain(files.certificate, files.key)
        plain = socket.create_connection(("127.0.0.1", self.port), LIMIT)
        try:
            return context.wrap_socket(plain, server_hostname=SERVER)
        except BaseException:
            plain.close()
            raise

    def serial(self):
        """The number of the certificate that the server shows to a new connection."""
        with self.tls(identity_files(self.peer)) as connection:
            return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True)).serial_number

    def renew(self, home, name, days=30):
        issued = issue(request(name, home).csr, name, self.ca, self.root / "issued.crt", days)
        install(issued, self.ca / "ca.crt", home)
        serial = x509.load_pem_x509_certificate(issued.read_bytes()).serial_number
        issued.unlink()
        return serial

    def close(self):
        self.dialler.close()
        self.listener.close()


def ping(connection):
    """Is there HTTP/2 at the other end?"""
    connection.sendall(PREFACE + PING)
    heard = b""
    while PONG not in heard:
        more = connection.recv(4096)
        assert more, heard
        heard += more


# --- this file as a program


def tell(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


async def orders():
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield json.loads(line)


async def listen(home):
    async def call(message, context):
        try:
            tell(called=peer_name(context.auth_context()))
        except MessageRefused as refused:
            tell(refused=refused.reason)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, refused.reason)
        return b"welcome"

    server = grpc.aio.server(options=server_options())
    method = grpc.unary_unary_rpc_method_handler(call)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t", {"call": method}),))
    watch = IdentityWatch(identity_files(home), lambda fault: tell(fault=str(fault)))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(watch))
    await server.start()
    tell(port=port)
    async for _ in orders():
        pass
    await server.stop(0)


async def dial():
    async for order in orders():
        watch = IdentityWatch(identity_files(Path(order["home"])), lambda fault: tell(fault=str(fault)))
        options = channel_options(order["expect"])
        address = f"127.0.0.1:{order['port']}"
        async with grpc.aio.secure_channel(address, channel_credentials(watch.current()), options) as channel:
            try:
                answer = await channel.unary_unary("/t/call")(b"", timeout=LIMIT)
                tell(answer=answer.decode())
            except grpc.aio.AioRpcError as error:
                tell(refused=refused_server(error.details()), details=error.details())


if __name__ == "__main__":
    with HandshakeLog(lambda reason, line: tell(refused=reason)):
        asyncio.run(listen(Path(sys.argv[2])) if sys.argv[1] == "listen" else dial())
