"""A small HTTP server for a few pages, in threads of its own."""

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, Final

from ..policy.configuration.endpoint import Endpoint

PLAIN: Final = "text/plain; charset=utf-8"
_REQUESTS_AT_ONCE: Final = 8
_CLIENT_SECONDS: Final = 5.0
"""After which a client that says nothing, or takes nothing, is left."""


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

    def stop(self) -> None:
        """Listen no more. A request under way may still be answered."""
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
        self._is_everywhere = not endpoint.host
        self._is_ending = False
        self._log = log
        self._free = threading.BoundedSemaphore(_REQUESTS_AT_ONCE)
        self.address_family, address = _address(endpoint)
        super().__init__(address, partial(_Handler, pages, log))

    def serve(self) -> None:
        """Take clients until the end, without looking at a clock in between."""
        while not self._is_ending:
            self.handle_request()

    def end(self) -> None:
        """Wake up who waits for clients, for the last time."""
        self._is_ending = True
        self.socket.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        if self._is_everywhere and self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        # Whoever opens connections without end gets no thread for each.
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        self._log.debug("event=client-lost client=%s", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = _CLIENT_SECONDS
    # The head and the page go out together: apart, the second waits for the first to be confirmed.
    wbufsize = -1
    server_version = "pinfold"
    sys_version = ""

    def __init__(self, pages: Pages, log: logging.Logger, *arguments: Any) -> None:
        self._pages = pages
        self._log = log
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer with the page."""
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
        page = self._pages.get(path)
        try:
            if page is not None:
                return page()
        except Exception:
            self._log.exception("event=fault during=%s", path)
            return Page(content=b"a fault of ours\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)
        known = " and ".join(sorted(self._pages))
        return Page(content=f"here are {known}\n".encode(), status=HTTPStatus.NOT_FOUND)


def _address(endpoint: Endpoint) -> tuple[int, Any]:
    """The family and the address of a socket; of both families at once where all are meant."""
    if not endpoint.host:
        is_dual = socket.has_dualstack_ipv6()
        return (socket.AF_INET6 if is_dual else socket.AF_INET), ("", endpoint.port)
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    family, _, _, _, address = found[0]
    return family, address
