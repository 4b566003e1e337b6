"""The daemon's logger: its level and form, from the command line or the configuration in force."""

import logging
from collections.abc import Mapping

from ...policy.configuration.config import Log, LogFormat, LogLevel
from .json_lines import JsonFormatter
from .log_setup import log_handler, prepare_logging


class DaemonLogger:
    """The logger, and what may change of it while the daemon runs."""

    def __init__(
        self,
        settings: Log,
        environment: Mapping[str, str],
        *,
        level: str | None = None,
        form: str | None = None,
        is_preinstalled: bool = False,
    ) -> None:
        """`level` and `form`: what the command line says, whatever the configuration does."""
        self._level = None if level is None else LogLevel(level)
        self._form = None if form is None else LogFormat(form)
        self._is_debugging = False
        self._settings = settings
        self._handler = log_handler(environment, is_preinstalled=is_preinstalled)
        self.logger = prepare_logging(self._handler.handler)
        self.follow(settings)

    def follow(self, settings: Log) -> None:
        """Log as the configuration in force says; at the start and after each change."""
        self._settings = settings
        level = LogLevel.DEBUG if self._is_debugging else self._level or settings.level
        self.logger.setLevel(level.value.upper())
        form = self._form or settings.format
        self._handler.write_as(JsonFormatter() if form is LogFormat.JSON else None)

    def toggle_debug(self) -> None:
        """Log in detail, or as before that again."""
        self._is_debugging = not self._is_debugging
        self.follow(self._settings)
        level = logging.getLevelName(self.logger.level).lower()
        self.logger.warning("log: the level is %s — SIGUSR1 switches it", level)
