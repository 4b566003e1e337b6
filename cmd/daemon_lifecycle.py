"""The lifecycle of a daemon and all beside it: start, reload and stop, in this order."""

from __future__ import annotations

from collections.abc import Callable

from ..policy.configuration.config_text import CheckedConfig
from .control.background_rebalance import REBALANCE_SECONDS, BackgroundRebalance
from .control.control_server import ControlServer
from .daemon.daemon import Daemon, reload_configuration
from .daemon.sd_notify import Notifier
from .daemon_reports import DaemonReports
from .metrics.metrics_server import MetricsServer
from .report.daemon_logger import DaemonLogger


class DaemonLifecycle:
    """Starts, reloads and stops one daemon with the servers and reports beside it."""

    def __init__(
        self,
        daemon: Daemon,
        reports: DaemonReports,
        server: ControlServer | None,
        metrics: MetricsServer,
        logs: DaemonLogger,
    ) -> None:
        """`server`: None where nobody may ask."""
        self._daemon = daemon
        self._reports = reports
        self._server = server
        self._metrics = metrics
        self._logs = logs

    def start(self) -> None:
        """Start the daemon, and with it what looks on; those that serve come after its runtime."""
        daemon = self._daemon
        rebalance = BackgroundRebalance(daemon, self._logs.logger)
        daemon.timers.every("rebalance", REBALANCE_SECONDS, rebalance.look)
        daemon.deferred_start.add("metrics at the start", self._metrics.follow)
        self._reports.start(daemon)
        daemon.start()

    def serve(self) -> None:
        """Answer who asks the daemon."""
        if self._server is not None:
            self._server.start()

    def reload(self, load: Callable[[], CheckedConfig], notifier: Notifier) -> None:
        """Have everybody do as a configuration says that is read again; a bad one changes nothing.

        `load`: raises as `load_config` does.
        """
        reload_configuration(self._daemon, load, notifier, self._logs.logger)
        self._logs.follow(self._daemon.engine.config.log)
        self._metrics.follow()
        self._reports.follow(self._daemon)
        if self._server is not None:
            self._server.follow()

    def stop(self) -> None:
        """End all of them, who asks the daemon first, and the daemon itself.

        The state is saved before: the runtime may take its time, and whoever stops us kills us
        then. It is marked as the last word only after that, when nobody is told anything more.
        """
        self._daemon.begin_stop()
        if self._server is not None:
            self._server.stop()
        self._metrics.stop()
        self._reports.stop_keeping(self._daemon)
        self._daemon.stop()
        self._reports.end_keeping(self._daemon)
        self._reports.traces.stop()
