"""A federation with a server that listens in a thread of its own, and peers that dial it by any TLS."""

import asyncio
import contextlib
import queue
import socket
import ssl
import threading
from concurrent.futures import Future

from cryptography import x509

from tacit.peer.identity.authority import init_ca, issue
from tacit.peer.identity.credentials import IdentityWatch
from tacit.peer.identity.enrolment import install, request
from tacit.peer.identity.identity import identity_files
from tacit.peer.transport.dialer import Dialer
from tacit.peer.transport.listener import Listener
from tests.peer.enrolment import NAME, enrol
from tests.peer.linked import HELLO, QUICK, Diary, Hearing, Sending

SERVER = "server"
LIMIT = 600  # seconds; everything here takes milliseconds


class Told(Diary):
    """Link events that are put in a queue, one after the other."""

    def __init__(self, events):
        super().__init__()
        self._events = events

    def refused(self, reason, name, detail):
        super().refused(reason, name, detail)
        self._events.put({"refused": reason})

    def linked(self, name, direction, up):
        super().linked(name, direction, up)
        if up:
            self._events.put({"called": name})


class Federation:
    """One authority, a server, and a peer that may dial it."""

    def __init__(self, root):
        self.root, self.ca, self.home, self.peer = root, root / "ca", root / "server", root / "peer"
        init_ca(self.ca, "federation")
        enrol(self.home, self.ca, SERVER)
        enrol(self.peer, self.ca, NAME)
        self.events, self._stop, started = queue.Queue(), threading.Event(), Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._listen(started)))
        self._thread.start()
        self.port = started.result(LIMIT)

    async def _listen(self, started):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        watch = IdentityWatch(identity_files(self.home), lambda fault: self.events.put({"fault": str(fault)}))
        self.hearing = Hearing(NAME)
        listener = Listener(self.hearing, watch, Told(self.events))
        started.set_result(await listener.start("127.0.0.1:0"))
        await self._over.wait()
        await listener.close(0.1)

    def event(self):
        return self.events.get(timeout=LIMIT)

    def dial(self, home=None, expect=SERVER, port=None):
        """What a peer's own dialer makes of the server: the loss of its first link, or that it was welcomed."""

        async def attempt():
            diary = Diary()
            watch = IdentityWatch(identity_files(home or self.peer), print)
            dialer = Dialer(Sending(), expect, f"127.0.0.1:{port or self.port}", watch, diary, QUICK)
            running = asyncio.ensure_future(dialer.run())
            await diary.until(lambda: bool(diary.links or diary.losses))
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if diary.links:
                return {"answer": "welcome"}
            return {"refused": diary.reasons[0] if diary.reasons else None, "lost": diary.losses[0][1]}

        return asyncio.run(attempt())

    def context(self, files=None, version=ssl.TLSVersion.TLSv1_3):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.ca / "ca.crt")
        context.minimum_version = context.maximum_version = version
        if files:
            context.load_cert_chain(files.certificate, files.key)
        return context

    def tls(self, files=None, version=ssl.TLSVersion.TLSv1_3, session=None, context=None):
        """A client of the standard library, connected as far as it gets."""
        context = context or self.context(files, version)
        plain = socket.create_connection(("127.0.0.1", self.port), LIMIT)
        try:
            return context.wrap_socket(plain, server_hostname=SERVER, session=session)
        except BaseException:
            plain.close()
            raise

    def serial(self):
        """The number of the certificate that the server shows to a new connection."""
        with self.tls(identity_files(self.peer)) as connection:
            number = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True)).serial_number
            connection.sendall(HELLO)
            assert heard(connection)
        assert self.event() == {"called": NAME}
        return number

    def renew(self, home, name, days=30):
        issued = issue(request(name, home).csr, name, self.ca, self.root / "issued.crt", days)
        install(issued, self.ca / "ca.crt", home)
        serial = x509.load_pem_x509_certificate(issued.read_bytes()).serial_number
        issued.unlink()
        return serial

    def close(self):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(LIMIT)
        assert self.events.empty(), list(self.events.queue)


def heard(connection):
    """Return what the other end says first; nothing if it says nothing, or refuses."""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        return connection.recv(100)
    return b""
