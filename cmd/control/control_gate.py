"""The gate of the control socket: takes clients, looks who they are, and relays their bytes.

gRPC can neither listen at a socket that is open already nor tell whose a connection is. So it
listens at a socket that only this process knows, behind the gate, and only once a client has said
what gRPC's clients say first: until then nothing of it is loaded.
"""

import errno
import logging
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group. Source: unix(7), SO_PEERCRED."""
_SO_PEERGROUPS: Final = 59
"""Source: Linux, include/uapi/asm-generic/socket.h; Python has no name for it."""
_GROUP: Final = struct.Struct("I")
_GROUPS_MAX: Final = 256
"""Of which Python can be told at once: its buffer has 1024 bytes at most."""
GREETING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client says first. Source: RFC 9113, 3.4."""
CLIENTS_MAX: Final = 16
"""Clients at once; one more takes the place of one that has not greeted, or is silent longest."""
GREETING_SECONDS: Final = 5.0
STALL_SECONDS: Final = 10.0
"""In which an end must take something of what waits for it."""
SILENCE_SECONDS: Final = 60.0
_CHUNK_BYTES: Final = 1 << 16
_EXHAUSTED_SECONDS: Final = 1.0
"""How long no client is taken where no file can be opened."""


class Peer(Struct, frozen=True, kw_only=True):
    """The process at the other end of a socket."""

    user_id: int
    group_ids: frozenset[int]

    def is_privileged(self) -> bool:
        """Whether it is root's, or of the same user as this process."""
        return self.user_id in (0, os.geteuid())


def peer_of(connection: socket.socket) -> Peer:
    """The peer of a connected UNIX socket, as it was when it connected. Raises `OSError`."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user_id, group_id = _CREDENTIALS.unpack(found)
    return Peer(user_id=user_id, group_ids=frozenset({group_id, *_groups(connection)}))


def _groups(connection: socket.socket) -> list[int]:
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUP.size * _GROUPS_MAX)
    except OSError as error:
        # Kernels before 4.13 know the first group alone; more groups than anybody has are none.
        if error.errno in (errno.ENOPROTOOPT, errno.ERANGE):
            return []
        raise
    return [one for (one,) in _GROUP.iter_unpack(found)]


class ControlGate:
    """The gate, with a thread of its own from `start` to `stop`."""

    def __init__(
        self,
        listener: socket.socket,
        may_enter: Callable[[Peer], bool],
        open_service: Callable[[], socket.socket],
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`open_service`: a new connection to the service, which it makes ready if need be."""
        self._listener = listener
        self._next: socket.socket | None = None
        """Where clients come from from here on."""
        self._may_enter = may_enter
        self._open_service = open_service
        self._log = log
        self._clock = clock
        self._relays: dict[_Relay, None] = {}
        self._resumes_at: float | None = None
        """When clients are taken again; None while they are."""
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        """Begin to take clients."""
        self._thread.start()

    def listen_at(self, listener: socket.socket) -> None:
        """Take clients from another socket; the one before is closed. Those who are there stay."""
        self._next = listener
        self._wake.send(b"!")

    def stop(self) -> None:
        """Take no more clients and leave those that are there."""
        self._wake.close()
        if self._thread.ident is not None:
            self._thread.join()
        self._end()

    def _run(self) -> None:
        while True:
            has_newcomer = False
            for key, _ in self._selector.select(self._pause()):
                if key.fileobj is self._woken:
                    if not self._woken.recv(1):
                        return
                    self._change()
                elif key.fileobj is self._listener:
                    has_newcomer = True
                elif key.data in self._relays:
                    self._serve(key.data)
            self._drop_late()
            # Last, so that those who have left have given their places back.
            if has_newcomer:
                self._take()

    def _change(self) -> None:
        before, self._listener = self._listener, self._next or self._listener
        if before is self._listener:
            return
        if self._resumes_at is None:
            self._selector.unregister(before)
            self._selector.register(self._listener, selectors.EVENT_READ)
        before.close()

    def _end(self) -> None:
        for relay in tuple(self._relays):
            self._drop(relay)
        self._selector.close()
        self._woken.close()

    def _pause(self) -> float | None:
        """Seconds until there is something to do although nobody says anything."""
        times = [relay.end for relay in self._relays]
        if self._resumes_at is not None:
            times.append(self._resumes_at)
        return max(0.0, min(times) - self._clock()) if times else None

    def _take(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._log.error("control socket: cannot take a client: %s", error.strerror)
                self._selector.unregister(self._listener)
                self._resumes_at = self._clock() + _EXHAUSTED_SECONDS
            return
        try:
            peer = peer_of(client)
            is_welcome = self._may_enter(peer)
        except OSError as error:
            self._log.error("control socket: no client can be told from others: %s", error)
            client.close()
            return
        if not is_welcome:
            self._log.warning("control socket: user %d may not use it", peer.user_id)
            client.close()
            return
        if len(self._relays) >= CLIENTS_MAX:
            self._drop(min(self._relays, key=_rights))
        client.setblocking(False)
        relay = _Relay(client, self._clock())
        self._relays[relay] = None
        self._watch(relay)

    def _serve(self, relay: "_Relay") -> None:
        try:
            if relay.service is None and not self._has_greeted(relay):
                return
            relay.move(self._clock())
        except _GoneError:
            self._drop(relay)
        except OSError as error:
            self._log.debug("event=control-client-lost reason=%r", os.strerror(error.errno or 0))
            self._drop(relay)
        else:
            self._watch(relay)

    def _has_greeted(self, relay: "_Relay") -> bool:
        """Whether a client has just said its greeting; then it has a connection to the service."""
        if not relay.greet():
            return False
        try:
            service = self._open_service()
        except Exception:
            # Whatever keeps the service from its work, the daemon's own work goes on.
            self._log.exception("event=fault during=control")
            raise _GoneError from None
        service.setblocking(False)
        relay.service = service
        return True

    def _watch(self, relay: "_Relay") -> None:
        """Wait for what each end of a relay can do next."""
        for end, events in relay.wanted():
            is_known = end in self._selector.get_map()
            if events and is_known:
                self._selector.modify(end, events, relay)
            elif events:
                self._selector.register(end, events, relay)
            elif is_known:
                self._selector.unregister(end)

    def _drop(self, relay: "_Relay") -> None:
        del self._relays[relay]
        for end in relay.ends():
            if end in self._selector.get_map():
                self._selector.unregister(end)
            end.close()

    def _drop_late(self) -> None:
        now = self._clock()
        for relay in [one for one in self._relays if one.end <= now]:
            self._drop(relay)
        if self._resumes_at is not None and self._resumes_at <= now:
            self._resumes_at = None
            self._selector.register(self._listener, selectors.EVENT_READ)


def _rights(relay: "_Relay") -> tuple[bool, float]:
    """The order in which clients lose their places: those that said no greeting come first."""
    return relay.service is not None, relay.heard_at


class _GoneError(Exception):
    """A client ended, or is no client of ours."""


class _Relay:
    """One client's connection and the one to the service, with the bytes that are in between."""

    def __init__(self, client: socket.socket, now: float) -> None:
        self.client = client
        self.service: socket.socket | None = None
        self.heard_at = now
        self._began_at = now
        self._for_client = bytearray()
        self._for_service = bytearray()

    @property
    def end(self) -> float:
        """When its time is over, unless something comes."""
        if self.service is None:
            return self._began_at + GREETING_SECONDS
        is_stalled = self._for_client or self._for_service
        return self.heard_at + (STALL_SECONDS if is_stalled else SILENCE_SECONDS)

    def ends(self) -> tuple[socket.socket, ...]:
        """Its open sockets."""
        return (self.client,) if self.service is None else (self.client, self.service)

    def wanted(self) -> list[tuple[socket.socket, int]]:
        """What to wait for: nobody is read whose last words have not been passed on."""
        if self.service is None:
            return [(self.client, selectors.EVENT_READ)]
        return [
            (self.client, _events(self._for_client, self._for_service)),
            (self.service, _events(self._for_service, self._for_client)),
        ]

    def greet(self) -> bool:
        """Whether the client has said its whole greeting. Raises `_GoneError` where it does not."""
        self._for_service += _received(self.client)
        said = bytes(self._for_service[: len(GREETING)])
        if not GREETING.startswith(said):
            raise _GoneError
        return said == GREETING

    def move(self, now: float) -> None:
        """Move what can be moved. Raises `_GoneError` at the end of either, and `OSError`."""
        service = self.service
        assert service is not None
        moved = _passed(self.client, self._for_service, service)
        moved += _passed(service, self._for_client, self.client)
        if moved:
            self.heard_at = now


def _events(own: bytearray, others: bytearray) -> int:
    writing = selectors.EVENT_WRITE if own else 0
    return writing if others else writing | selectors.EVENT_READ


def _passed(source: socket.socket, waiting: bytearray, target: socket.socket) -> int:
    """The number of bytes that came from a source or went to a target."""
    moved = 0
    if not waiting:
        try:
            waiting += _received(source)
        except BlockingIOError:
            return 0
        moved = len(waiting)
    try:
        sent = target.send(waiting)
    except BlockingIOError:
        return moved
    del waiting[:sent]
    return moved + sent


def _received(source: socket.socket) -> bytes:
    found = source.recv(_CHUNK_BYTES)
    if not found:
        raise _GoneError
    return found
