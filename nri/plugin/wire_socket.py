"""The socket of one end of an NRI connection: what plugins and runtimes do with it alike."""

import contextlib
import select
import socket
import struct
import threading
from concurrent.futures import Future
from typing import Final

from ..wire.connection import BadCall, Call, Connection, Event, Rejection, Reply, Role

_CHUNK_BYTES: Final = 256 * 1024
_SEND_SECONDS: Final = 2.0


class WireSocket:
    """The socket of one end of an NRI connection, with the requests of both ends under way.

    One thread at a time reads. Any thread sends, and never waits for the one that reads, nor that
    one for it. Messages go out whole: behind one that could not be written to its end nothing is
    sent, and the connection is over. A call of the peer is answered once: the first answer counts.
    """

    def __init__(
        self, sock: socket.socket, role: Role, service: str, send_seconds: float = _SEND_SECONDS
    ) -> None:
        """`service`: the peer's, whose methods `request` calls.

        `send_seconds`: a peer that takes no byte for so long does not hold us any longer.
        """
        self._socket = sock
        self._service = service
        self._connection = Connection(role)
        self._sending = threading.Lock()
        """For what is written, and which calls are answered."""
        self._unanswered: set[int] = set()
        self._replies: dict[int, Future[Reply]] = {}
        self._is_over = False
        self._closing = threading.RLock()
        """For the descriptor: once it is closed, its number may be that of another file. A signal's
        handler may close while the thread it interrupts does."""
        self.fault = ""
        """Why the connection is over, once what was read last ended in garbage."""
        timeout = struct.pack("ll", *divmod(int(send_seconds * 1e6), 1_000_000))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)

    def read(self) -> bytes:
        """The next bytes, waited for; none at the end. Raises `OSError`."""
        return self._socket.recv(_CHUNK_BYTES)

    def events(self, chunk: bytes) -> list[Event]:
        """Events in bytes that were read; raises `WireError` as `Connection.receive` does."""
        events = self._connection.receive(chunk)
        self.fault = self._connection.fault
        for event in events:
            if isinstance(event, Call):
                # Without the lock: nobody answers a call that nobody has seen.
                self._unanswered.add(event.stream_id)
        return events

    def attend(self, event: BadCall | Reply) -> None:
        """Do what an event asks for that is no call to serve. Raises `OSError`."""
        match event:
            case BadCall(stream_id=stream_id, code=code, message=message):
                data = self._connection.respond(stream_id, Rejection(code, message))
                with self._sending:
                    self._send(data)
            case Reply(stream_id=stream_id):
                waiting = self._replies.pop(stream_id, None)
                if waiting is not None:
                    waiting.set_result(event)

    def respond(self, stream_id: int, answer: bytes | Rejection) -> bool:
        """Answer a call of the peer; False where that was done before. Raises `OSError`."""
        data = self._connection.respond(stream_id, answer)
        with self._sending:
            if stream_id not in self._unanswered:
                return False
            self._unanswered.discard(stream_id)
            self._send(data)
            return True

    def request(self, method: str, payload: bytes, timeout_nano: int = 0) -> Future[Reply]:
        """The peer's answer to a call of ours, at some time; an `OSError` once it is over.

        Raises `OSError` where it cannot be sent.
        """
        future: Future[Reply] = Future()
        with self._sending:
            stream_id, data = self._connection.request(self._service, method, payload, timeout_nano)
            self._replies[stream_id] = future
            try:
                self._send(data)
            except OSError:
                self._replies.pop(stream_id, None)
                raise
        return future

    def is_readable(self, milliseconds: float) -> bool:
        """Whether there are bytes to read, or the end of them, within this time."""
        # Made anew each time: one of them is not for two threads.
        poller = select.poll()
        try:
            poller.register(self._socket, select.POLLIN)
        except ValueError:
            # Closed meanwhile: another thread has seen the end.
            return True
        return bool(poller.poll(milliseconds))

    def close(self) -> None:
        """End the connection, from any thread: whoever reads or sends goes on and sees the end."""
        with self._closing, contextlib.suppress(OSError):  # the peer was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """The connection is over: requests under way fail, and nothing is sent any more."""
        self.close()
        with self._sending:
            self._is_over = True
        # One by one: each belongs to whoever takes it out, and a reply may still be attended to.
        with contextlib.suppress(KeyError):
            while True:
                _, waiting = self._replies.popitem()
                waiting.set_exception(ConnectionError("the connection is over"))

    def release(self) -> None:
        """End the connection and close the socket; only once nobody reads any more."""
        self.end()
        with self._closing:
            self._socket.close()

    def _send(self, data: bytes) -> None:
        if self._is_over:
            raise ConnectionError("the connection is over")
        try:
            self._socket.sendall(data)
        except BaseException:
            # Half a message may be out: nothing can follow it.
            self._is_over = True
            self.close()
            raise
