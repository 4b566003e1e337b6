"""An HTTP server for a few pages, in a thread of its own.

uvicorn speaks the protocol, with h11 as its parser; here is what it leaves to others: how many
clients are served at once, how long each may take, and what a path shows.
"""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, cast

import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...policy.configuration.endpoint import Endpoint
from ...topology.sets.base_errors import os_reason

PLAIN: Final = "text/plain; charset=utf-8"
_REQUESTS_AT_ONCE: Final = 8
_CLIENT_SECONDS: Final = 5.0
"""In which a client must have asked, in which it is answered, and in which it takes the answer."""
_WAITING_CLIENTS: Final = 2 * _REQUESTS_AT_ONCE
"""Connections that wait for their turn in the kernel."""
_WAY_IN_SECONDS: Final = 0.01
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_METHODS: Final = ("GET", "HEAD")


class Page(Struct, frozen=True, kw_only=True):
    """A page as a client gets it: content, status and type."""

    content: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = PLAIN


_VERSIONS: Final = ("1.0", "1.1")
_OTHER_VERSION: Final = Page(content=b"HTTP/1.1 is spoken here\n", status=HTTPStatus.BAD_REQUEST)
"""h11 takes any two digits for a version that it knows."""

Pages = Mapping[str, Callable[[], Page]]
"""By path, some with a query of their own. Called in any thread, several at once."""
_Headers = list[tuple[bytes, bytes]]


class WebServer:
    """Serves pages from its making until `stop`."""

    def __init__(self, endpoint: Endpoint, pages: Pages, log: logging.Logger) -> None:
        """Raises `OSError` where nobody can listen there."""
        listener = _listener(endpoint)
        self.port: Final = int(listener.getsockname()[1])
        self._log = log
        self._is_exhaustion_told = False
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._tell)
        self._application = _Application(pages, self._loop, log)
        self._server = _Server(self._application, listener)
        self._thread = threading.Thread(
            target=self._serve, args=(listener,), name="web", daemon=True
        )
        self._thread.start()

    def show(self, pages: Pages) -> None:
        """Serve these from now on."""
        self._application.pages = pages

    def stop(self) -> None:
        """Listen no more. A request that is being answered may still be."""
        with suppress(RuntimeError):  # its thread has ended
            self._loop.call_soon_threadsafe(self._server.ending.set)
        self._server.closed.wait()

    def _serve(self, listener: socket.socket) -> None:
        try:
            self._loop.run_until_complete(self._server.serve([listener]))
        finally:
            self._server.closed.set()
            self._application.threads.shutdown(wait=False)
            self._loop.close()

    def _tell(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Say what the event loop came upon; it waits a second before it takes clients again."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            self._log.debug("event=client-lost reason=%r", context["message"], exc_info=error)
        elif not self._is_exhaustion_told:
            self._is_exhaustion_told = True
            self._log.error(
                "instrumentation.httpEndpoint: cannot take a client: %s — if this lasts,"
                " raise LimitNOFILE= of the service",
                os_reason(error),
            )


class _Server(uvicorn.Server):
    """uvicorn without its clock, which wakes a process up ten times a second."""

    def __init__(self, application: "_Application", listener: socket.socket) -> None:
        config = uvicorn.Config(
            application,
            loop="asyncio",
            http=_Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            # The level of its own loggers: what strangers send is no business of the operator's.
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            workers=1,
            # A client's address is that of its socket, whatever it says.
            proxy_headers=False,
            server_header=False,
            date_header=False,
            # One is taken at a time: those before it had been heard by then, if they spoke.
            backlog=1,
        )
        # Here, as what it imports may be out of reach later, when no file can be opened.
        config.load()
        super().__init__(config)
        self._application = application
        self._listener = listener
        self.ending = asyncio.Event()
        self.closed = threading.Event()

    async def main_loop(self) -> None:
        """Serve until the end; then nobody listens, and uvicorn takes leave of its clients."""
        self._listener.listen(_WAITING_CLIENTS)
        await self.ending.wait()
        # Whoever it is taking just now is taken first: asyncio forgets clients half way in.
        asyncio.get_running_loop().remove_reader(self._listener)
        await asyncio.sleep(_WAY_IN_SECONDS)
        self._application.is_closed = True
        for server in self.servers:
            server.close()
        self.closed.set()


class _Application:
    """The ASGI application: answers a limited number of clients at once, in the loop's thread."""

    def __init__(self, pages: Pages, loop: asyncio.AbstractEventLoop, log: logging.Logger) -> None:
        self.pages = pages
        self.is_closed = False
        self.threads = ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="web page")
        self._loop = loop
        self._log = log
        self._clients: dict[_Connection, asyncio.TimerHandle | None] = {}
        """Each with its end, the oldest first; without one while it waits for us."""

    def take(self, client: "_Connection", transport: asyncio.Transport) -> bool:
        """Whether a client has a place, if need be that of the one that is silent longest."""
        if len(self._clients) >= _REQUESTS_AT_ONCE:
            slow = next((one for one, end in self._clients.items() if end is not None), None)
            if slow is not None:
                slow.transport.abort()
                self.leave(slow)
        if self.is_closed or len(self._clients) >= _REQUESTS_AT_ONCE:
            transport.abort()
            return False
        self._clients[client] = self._end(transport)
        return True

    def leave(self, client: "_Connection") -> None:
        """Give the place of a client to others."""
        end = self._clients.pop(client, None)
        if end is not None:
            end.cancel()

    async def __call__(self, scope: Mapping[str, Any], _receive: object, send: "_Send") -> None:
        """Answer a client's request, and give it its time to take the answer.

        Source: the ASGI specification, HTTP connection scope.
        """
        client: _Connection = scope["state"]["client"]
        self._set_end(client, None)
        page, more = _OTHER_VERSION, _Headers()
        if scope["http_version"] in _VERSIONS:
            page, more = await self._page(
                scope["method"], scope["path"], scope["query_string"].decode("ascii", "replace")
            )
        self._set_end(client, self._end(client.transport))
        headers = [
            (b"server", b"pinfold"),
            (b"date", formatdate(usegmt=True).encode()),
            (b"content-type", page.content_type.encode()),
            (b"content-length", str(len(page.content)).encode()),
            (b"connection", b"close"),
            *more,
        ]
        await send({"type": "http.response.start", "status": page.status, "headers": headers})
        await send({"type": "http.response.body", "body": page.content})

    def _end(self, transport: asyncio.Transport) -> asyncio.TimerHandle:
        return self._loop.call_later(_CLIENT_SECONDS, transport.abort)

    def _set_end(self, client: "_Connection", end: asyncio.TimerHandle | None) -> None:
        before = self._clients.get(client)
        if before is not None:
            before.cancel()
        if client in self._clients:
            self._clients[client] = end
        elif end is not None:
            end.cancel()

    async def _page(self, method: str, path: str, query: str) -> tuple[Page, _Headers]:
        pages = self.pages
        page = pages.get(f"{path}?{query}") or pages.get(path)
        if page is None:
            known = " and ".join(sorted(one for one in pages if "?" not in one))
            return Page(content=f"here are {known}\n".encode(), status=HTTPStatus.NOT_FOUND), []
        if method not in _METHODS:
            text = f"{path} is to be read: {' or '.join(_METHODS)}\n"
            allow = (b"allow", ", ".join(_METHODS).encode())
            return Page(content=text.encode(), status=HTTPStatus.METHOD_NOT_ALLOWED), [allow]
        try:
            async with asyncio.timeout(_CLIENT_SECONDS):
                return await self._loop.run_in_executor(self.threads, page), []
        except TimeoutError:
            text = f"{path} takes more than {_CLIENT_SECONDS:g} s\n"
            return Page(content=text.encode(), status=HTTPStatus.SERVICE_UNAVAILABLE), []
        except Exception:
            self._log.exception("event=fault during=%s", path)
            fault = b"a fault of ours\n"
            return Page(content=fault, status=HTTPStatus.INTERNAL_SERVER_ERROR), []


_Send = Callable[[dict[str, object]], Awaitable[None]]


class _Connection(H11Protocol):
    """A client's connection, as long as there is a place for it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # What is in the state reaches the application with each request.
        self.app_state = {"client": self}
        self._application = cast(_Application, self.config.app)
        self._has_place = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast(asyncio.Transport, transport)
        self._has_place = self._application.take(self, wire)
        if self._has_place:
            super().connection_made(wire)

    def connection_lost(self, exc: Exception | None) -> None:
        self._application.leave(self)
        if self._has_place:
            super().connection_lost(exc)


def _listener(endpoint: Endpoint) -> socket.socket:
    """A socket that listens; at both families' addresses at once where all are meant."""
    family, address = _address(endpoint)
    listener = socket.socket(family)
    try:
        # A port of a daemon that ended a moment ago is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not endpoint.host and family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        listener.listen(_WAITING_CLIENTS)
    except BaseException:
        listener.close()
        raise
    return listener


def _address(endpoint: Endpoint) -> tuple[int, Any]:
    if not endpoint.host:
        is_dual = socket.has_dualstack_ipv6()
        return (socket.AF_INET6 if is_dual else socket.AF_INET), ("", endpoint.port)
    # As bytes: a str is taken through the tables of international names, which would stay loaded.
    host = endpoint.host.encode("ascii")
    found = socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM)
    family, _, _, _, address = found[0]
    return family, address
