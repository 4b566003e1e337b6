"""A small HTTP server for a few pages, in threads of its own."""

import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Final

from ...policy.configuration.endpoint import Endpoint

PLAIN: Final = "text/plain; charset=utf-8"
_REQUESTS_AT_ONCE: Final = 8
_CLIENT_SECONDS: Final = 5.0
"""In which a client must have asked, and then once more have its answer."""
_WAY_OUT_SECONDS: Final = 0.5
"""In which the thread of a client that was left ends, as a rule at once."""
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_EXHAUSTED_SECONDS: Final = 1.0
"""Who waits to be accepted wakes us up again and again, so somebody must look away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a client gets."""

    content: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = PLAIN


Pages = Mapping[str, Callable[[], Page]]
"""By path. Called in any thread, several at once."""


class WebServer:
    """Serves pages from its making until `stop`."""

    def __init__(self, endpoint: Endpoint, pages: Pages, log: logging.Logger) -> None:
        """Raises `OSError` where nobody can listen there."""
        self._server = _Server(endpoint, pages, log)
        self.port: Final = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve, name="web", daemon=True)
        self._thread.start()

    def show(self, pages: Pages) -> None:
        """Serve these from now on."""
        self._server.pages = pages

    def stop(self) -> None:
        """Listen no more. A request that is being answered may still be."""
        self._server.end()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    daemon_threads = True
    # A port of a daemon that ended a moment ago is free.
    allow_reuse_address = True
    # Connections that wait for their turn; the default of five is less than what is served at once.
    request_queue_size = 2 * _REQUESTS_AT_ONCE

    def __init__(self, endpoint: Endpoint, pages: Pages, log: logging.Logger) -> None:
        self.pages = pages
        self._is_everywhere = not endpoint.host
        self._is_ending = threading.Event()
        self._log = log
        self._free = threading.BoundedSemaphore(_REQUESTS_AT_ONCE)
        self._lock = threading.Lock()
        self._until: dict[socket.socket, float] = {}
        """When each client is left, the oldest first."""
        self._answered: set[socket.socket] = set()
        """Those that wait for us and not we for them."""
        self._is_exhaustion_told = False
        self.address_family, address = _address(endpoint)
        super().__init__(address, self._handle)

    def serve(self) -> None:
        """Take clients until the end, and look at a clock while there are any."""
        while not self._is_ending.is_set():
            self.timeout = self._leave_overdue()
            self.handle_request()
        with self._lock:
            for request in [one for one in self._until if one not in self._answered]:
                self._leave(request)

    def end(self) -> None:
        """Wake up who waits for clients, for the last time."""
        self._is_ending.set()
        self.socket.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def answering(self, request: socket.socket) -> Generator[None]:
        """A client waits for its page, and has its time anew to take it."""
        with self._lock:
            if request in self._until:
                self._until[request] = time.monotonic() + _CLIENT_SECONDS
                self._answered.add(request)
        try:
            yield
        finally:
            with self._lock:
                self._answered.discard(request)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                if not self._is_exhaustion_told:
                    self._is_exhaustion_told = True
                    self._log.error(
                        "instrumentation.httpEndpoint: cannot take a client: %s — if this lasts,"
                        " raise LimitNOFILE= of the service",
                        (error.strerror or str(error)).lower(),
                    )
                self._is_ending.wait(_EXHAUSTED_SECONDS)
            raise

    def server_bind(self) -> None:
        if self._is_everywhere and self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        # Whoever opens connections without end gets no thread for each.
        if not self._has_place():
            self.shutdown_request(request)
            return
        with self._lock:
            self._until[request] = time.monotonic() + _CLIENT_SECONDS
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def close_request(self, request: Any) -> None:
        # First, as nobody may be left by the number of a socket that is another's by then.
        with self._lock:
            self._until.pop(request, None)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        self._log.debug("event=client-lost client=%s", client_address, exc_info=True)

    def _handle(self, request: Any, client_address: Any, _server: object) -> BaseRequestHandler:
        return _Handler(self, self._log, request, client_address, self)

    def _has_place(self) -> bool:
        """Whether there is one, if need be that of the client that keeps us waiting longest."""
        if self._free.acquire(blocking=False):
            return True
        with self._lock:
            slow = next((one for one in self._until if one not in self._answered), None)
            if slow is None:
                return False
            self._leave(slow)
        return self._free.acquire(timeout=_WAY_OUT_SECONDS)

    def _leave_overdue(self) -> float | None:
        """Leave clients whose time is over; returns the seconds until there are more."""
        with self._lock:
            now = time.monotonic()
            for request in [one for one, until in self._until.items() if until <= now]:
                self._leave(request)
            return min(self._until.values()) - now if self._until else None

    def _leave(self, request: socket.socket) -> None:
        """Have the thread of a client find that it is gone. Needs the lock."""
        del self._until[request]
        with suppress(OSError):  # the client was quicker
            request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    # For clients of a server that ended: nobody else looks at a clock for them.
    timeout = _CLIENT_SECONDS
    # The head and the page go out together: apart, the second waits for the first to be confirmed.
    wbufsize = -1
    server_version = "pinfold"
    sys_version = ""

    def __init__(self, desk: _Server, log: logging.Logger, *arguments: Any) -> None:
        self._desk = desk
        self._log = log
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer with the page."""
        with self._desk.answering(self.connection):
            page = self._page()
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.content)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: a line for every scrape would bury the decisions."""

    def _page(self) -> Page:
        path = self.path.partition("?")[0]
        pages = self._desk.pages
        page = pages.get(path)
        try:
            if page is not None:
                return page()
        except Exception:
            self._log.exception("event=fault during=%s", path)
            return Page(content=b"a fault of ours\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)
        known = " and ".join(sorted(pages))
        return Page(content=f"here are {known}\n".encode(), status=HTTPStatus.NOT_FOUND)


def _address(endpoint: Endpoint) -> tuple[int, Any]:
    """The family and the address of a socket; of both families at once where all are meant."""
    if not endpoint.host:
        is_dual = socket.has_dualstack_ipv6()
        return (socket.AF_INET6 if is_dual else socket.AF_INET), ("", endpoint.port)
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    family, _, _, _, address = found[0]
    return family, address
