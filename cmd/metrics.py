"""Metrics and health over HTTP, where and as far as the configuration says."""

import errno
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..policy.configuration.config import Instrumentation, MetricsExporter
from ..policy.configuration.endpoint import Endpoint, parse_endpoint
from ..topology.sysfs import open_tree
from .daemon import Daemon

if TYPE_CHECKING:
    from .webserver import WebServer

_REMEDIES: Final = {
    errno.EADDRINUSE: "another program listens there; name another port",
    errno.EACCES: "take a port above 1023",
    # What systemd's filters answer, the second one where it is told to say so.
    errno.EAFNOSUPPORT: "set RestrictAddressFamilies=AF_INET AF_INET6 for the service",
    errno.EPERM: "set RestrictAddressFamilies=AF_INET AF_INET6 for the service",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    endpoint: Endpoint
    with_metrics: bool
    groups: tuple[str, ...]


class Metrics:
    """Serves what a daemon's configuration wants; for one thread.

    What takes time to load is loaded with the first endpoint.
    """

    def __init__(self, daemon: Daemon, root: str | None, log: logging.Logger) -> None:
        """`root`: where this machine's state of the moment can be read, if anywhere.

        Raises `TopologyError` where that shows no machine.
        """
        self._daemon = daemon
        self._tree = None if root is None else open_tree(root)
        self._log = log
        self._served: _Wanted | None = None
        self._server: WebServer | None = None

    @property
    def port(self) -> int | None:
        """The port it listens at; None where it does not."""
        return None if self._server is None else self._server.port

    def follow(self) -> None:
        """Serve what the configuration in force says; at the start and after each change."""
        wanted = _wanted(self._daemon.engine.config.instrumentation)
        if wanted == self._served:
            return
        self.stop()
        if wanted is None:
            return
        # Imported here: most daemons serve nobody, and both take longer than a machine's topology.
        from .metricpages import MetricPages
        from .webserver import WebServer

        pages = MetricPages(self._daemon, self._tree, wanted.groups)
        try:
            self._server = WebServer(
                wanted.endpoint, pages.pages(with_metrics=wanted.with_metrics), self._log
            )
        except OSError as error:
            what = (error.strerror or str(error)).lower()
            remedy = _REMEDIES.get(error.errno or 0, "name another address")
            self._log.error(
                "instrumentation.httpEndpoint: cannot listen at %s: %s — %s",
                wanted.endpoint,
                what,
                remedy,
            )
            return
        self._served = wanted
        self._log.info("event=serving address=%s", Endpoint(wanted.endpoint.host, self.port or 0))

    def stop(self) -> None:
        """Serve nothing more."""
        if self._server is not None:
            self._server.stop()
        self._server = self._served = None


def _wanted(section: Instrumentation) -> _Wanted | None:
    if not section.http_endpoint:
        return None
    return _Wanted(
        endpoint=parse_endpoint(section.http_endpoint),
        with_metrics=section.prometheus_export
        or section.metrics_exporter is MetricsExporter.PROMETHEUS,
        groups=section.metrics.enabled,
    )
