"""Metrics and health over HTTP, where and as far as the configuration says."""

from __future__ import annotations

import errno
import logging
import threading
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ...policy.configuration.config import Instrumentation, MetricsExporter
from ...policy.configuration.endpoint import Endpoint, parse_endpoint
from ...topology.sets.base_errors import os_reason
from ...topology.sysfs.sysfs_tree import open_tree
from ..daemon.daemon import Daemon
from .event_counts import EventCounts

if TYPE_CHECKING:
    from ..web.web_server import Pages, WebServer

LOOK_SECONDS: Final = 10.0
"""How often the configuration is looked at, and an address tried that could not be had."""

_REMEDIES: Final = {
    errno.EADDRINUSE: "another program listens there; name another port",
    errno.EACCES: "take a port above 1023",
    # What systemd's filters answer, the second one where it is told to say so.
    errno.EAFNOSUPPORT: "set RestrictAddressFamilies=AF_INET AF_INET6 for the service",
    errno.EPERM: "set RestrictAddressFamilies=AF_INET AF_INET6 for the service",
}


class _Wanted(Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    with_metrics: bool
    groups: tuple[str, ...]


class MetricsServer:
    """Serves what a daemon's configuration wants. For several threads at once.

    It looks at the configuration now and then, by a timer of the daemon's: an address that cannot
    be had now may be free later. What takes time to load is loaded with the first endpoint.
    """

    def __init__(
        self,
        daemon: Daemon,
        root: str | None,
        log: logging.Logger,
        counts: EventCounts | None = None,
    ) -> None:
        """`root`: where this machine's state of the moment can be read, if anywhere.

        Raises `TopologyError` where that shows no machine.
        """
        self._daemon = daemon
        self._counts = counts or EventCounts()
        self._tree = None if root is None else open_tree(root)
        self._log = log
        self._lock = threading.Lock()
        self._is_over = False
        self._served: _Wanted | None = None
        self._endpoint: Endpoint | None = None
        """Where it listens, in the configuration's words."""
        self._server: WebServer | None = None
        self._complaint = ""
        daemon.timers.every("metrics", LOOK_SECONDS, self.follow)

    @property
    def port(self) -> int | None:
        """The port it listens at; None where it does not."""
        return None if self._server is None else self._server.port

    def follow(self) -> None:
        """Serve what the configuration in force says; at the start and after each change.

        Where nobody can listen at its address, the one before serves on.
        """
        with self._lock:
            wanted = _wanted(self._daemon.engine.config.instrumentation)
            if self._is_over or (wanted == self._served and not self._complaint):
                return
            if wanted is None:
                self._close()
                self._complaint = ""
            else:
                self._serve(wanted)
            self._served = wanted

    def stop(self) -> None:
        """Serve nothing more."""
        with self._lock:
            self._is_over = True
            self._close()

    def _serve(self, wanted: _Wanted) -> None:
        # Imported here: most daemons serve nobody, and it takes longer than a machine's topology.
        from .metric_pages import MetricPages

        pages = MetricPages(self._daemon, self._tree, wanted.groups, self._counts).pages(
            with_metrics=wanted.with_metrics
        )
        if self._server is not None:
            self._server.show(pages)
        if wanted.endpoint != self._endpoint:
            try:
                self._move(wanted.endpoint, pages)
            except OSError as error:
                self._complain(wanted.endpoint, error)
                return
            self._log.info(
                "event=serving address=%s", Endpoint(wanted.endpoint.host, self.port or 0)
            )
        self._complaint = ""

    def _move(self, endpoint: Endpoint, pages: Pages) -> None:
        """Listen there and no longer here. Raises `OSError` where that fails, and stays here."""
        try:
            self._open(endpoint, pages)
        except OSError as error:
            here, port = self._endpoint, self.port
            if error.errno != errno.EADDRINUSE or here is None or port != endpoint.port:
                raise
            # The same port at another address: it may be ourselves who are in the way.
            self._close()
            try:
                self._open(endpoint, pages)
            except OSError:
                self._open(here, pages)
                raise

    def _open(self, endpoint: Endpoint, pages: Pages) -> None:
        from ..web.web_server import WebServer

        server = WebServer(endpoint, pages, self._log)
        self._close()
        self._server, self._endpoint = server, endpoint

    def _close(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server = self._endpoint = None

    def _complain(self, endpoint: Endpoint, error: OSError) -> None:
        """Say it once: it is tried again and again."""
        what = os_reason(error)
        remedy = _REMEDIES.get(error.errno or 0, "name another address")
        here = ""
        if self._endpoint is not None:
            here = f"serving at {Endpoint(self._endpoint.host, self.port or 0)} as before, and "
        complaint = (
            f"instrumentation.httpEndpoint: cannot listen at {endpoint}: {what}; {here}trying again"
            f" every {LOOK_SECONDS:g} s — {remedy}"
        )
        if complaint != self._complaint:
            self._log.error("%s", complaint)
        self._complaint = complaint


def _wanted(section: Instrumentation) -> _Wanted | None:
    if not section.http_endpoint:
        return None
    return _Wanted(
        endpoint=parse_endpoint(section.http_endpoint),
        with_metrics=section.prometheus_export
        or section.metrics_exporter is MetricsExporter.PROMETHEUS,
        groups=section.metrics.enabled,
    )
