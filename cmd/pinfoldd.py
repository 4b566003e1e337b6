"""`pinfoldd`: the daemon's command line, signals and exit status."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

import click

from ..nri.plugin.cri_socket_paths import AUTO
from ..policy.configuration.config import Log, LogFormat, LogLevel
from ..policy.configuration.config_text import CheckedConfig
from ..policy.model.cpuset_conflicts import runc_warning
from .commands.exit_status import FAULT, StatusCommand
from .control.control_server import ControlServer
from .control.control_socket import place_control_socket
from .daemon.config_file import load_config
from .daemon.config_watch import ConfigWatch
from .daemon.daemon import Command, Daemon, memory_bytes
from .daemon.hint_sources import find_hint_sources
from .daemon.kubelet_managers import read_managers
from .daemon.machine_source import live_root, machine_of, machine_options
from .daemon.periodic_work import plan_periodic_work
from .daemon.runtimes import DEFAULT_SOCKET, Access, find_runtime, is_preinstalled
from .daemon.sd_notify import Notifier
from .daemon_lifecycle import DaemonLifecycle
from .daemon_reports import DaemonReports
from .embedded_pods import EmbeddedPods
from .kernel.tuner import Tuner, tuner_below
from .metrics.metrics_server import MetricsServer
from .report.daemon_logger import DaemonLogger
from .report.decision_log import DecisionLog
from .report.log_setup import end_logging
from .report.path_type import FolderType, PathType
from .state.state_folder import StateClaim, claim_patiently

_SWITCH_SECONDS: Final = 0.001
"""How long another thread keeps Python's lock while a runtime's call waits for it; 5 ms usually."""


@click.command(cls=StatusCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "config_path",
    type=PathType(path_type=Path),
    help="Read FILE and its drop-ins.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="Set one field, last of all."
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "nri", "cri", "embedded"]),
    default="auto",
    show_default=True,
    help="Whom to serve; 'embedded' is a runtime on paper inside the daemon.",
)
@click.option(
    "--nri-socket",
    type=PathType(remedy="name the runtime's, or leave the option out"),
    default=DEFAULT_SOCKET,
    show_default=True,
    help="The NRI socket.",
)
@click.option(
    "--cri-socket",
    type=PathType(remedy="name the runtime's, or write 'auto' or 'off'"),
    default=AUTO,
    show_default=True,
    metavar="PATH|auto|off",
    help="The runtime's CRI socket, for updates that cannot wait for its next call.",
)
@click.option(
    "--cri-listen",
    type=PathType(remedy="name a place for the socket, or leave the option out"),
    metavar="PATH",
    help="Serve the kubelet at PATH and pass its calls on to --cri-socket: a proxy, without NRI.",
)
@click.option("--nri-plugin-name", default="pinfold", show_default=True, help="Our name there.")
@click.option(
    "--nri-plugin-index",
    default="90",
    show_default=True,
    help="Our place among plugins: two digits, lower ones are asked first.",
)
@click.option(
    "--manifest",
    "manifests",
    multiple=True,
    type=PathType(path_type=Path),
    help="Run the pods of FILE (with --runtime embedded; repeatable).",
)
@click.option(
    "--state-dir",
    type=FolderType(remedy="name one, or leave the option out to remember nothing"),
    envvar="STATE_DIRECTORY",
    help="Remember in DIR over restarts, made if need be; systemd's STATE_DIRECTORY by default.",
)
@click.option(
    "--control",
    type=PathType(remedy="name a place for the socket, or write 'off'"),
    metavar="PATH|off",
    help="The socket at which pinfold asks the daemon; control.sock in systemd's"
    " RUNTIME_DIRECTORY or the state directory by default.",
)
@click.option(
    "--kernel-root",
    type=FolderType(remedy="name the one with sys/ and proc/ in it", is_there=True),
    help="Set interrupts and clocks of cpus below DIR; '/' by default on this machine itself.",
)
@machine_options
@click.option(
    "--log-level",
    type=click.Choice([one.value for one in LogLevel]),
    help="What to log, whatever the configuration says; info by default.",
)
@click.option(
    "--log-format",
    type=click.Choice([one.value for one in LogFormat]),
    help="How to log, whatever the configuration says; text by default.",
)
@click.version_option(package_name="pinfold", message="%(prog)s %(version)s")
def command(
    config_path: Path | None,
    settings: tuple[str, ...],
    runtime: str,
    nri_socket: str,
    cri_socket: str,
    cri_listen: str | None,
    nri_plugin_name: str,
    nri_plugin_index: str,
    manifests: tuple[Path, ...],
    state_dir: Path | None,
    control: str | None,
    kernel_root: Path | None,
    sysfs_root: str | None,
    machine: str | None,
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Place this node's containers on cpus and memory nodes, as a plugin of its runtime or a proxy.

    A change of its files, or SIGHUP, has the configuration read again. SIGUSR1 has it log in
    detail, and a second one as before. SIGTERM ends the daemon; containers keep their cpus.
    """
    environment = os.environ
    pods = EmbeddedPods(manifests, runtime)
    found = machine_of(sysfs_root, machine)
    watch = ConfigWatch(config_path)
    loaded = load_config(config_path, environment=environment, settings=settings)
    root = live_root(sysfs_root, machine)
    access = find_runtime(
        *(runtime, nri_socket, nri_plugin_name, nri_plugin_index, environment),
        *(cri_socket, root or "/", cri_listen),
    )
    logs = _daemon_logger(loaded.config.log, log_level, log_format)
    log = logs.logger
    _tell_choice(access, log)
    _warn((*loaded.warnings, *found.warnings), log)
    notifier = Notifier(environment)
    claim = claim_patiently(state_dir, log, goes_on=access.identity.is_preinstalled)
    is_here = sysfs_root is None and machine is None and access.embedded is None
    reports = DaemonReports.of(claim.folder, _tuner(kernel_root, claim, log, is_here=is_here), log)
    hint_sources = find_hint_sources(root, environment)
    with loaded.placing():
        daemon = Daemon(
            found,
            loaded.config,
            access.link,
            reports=[DecisionLog(log, access.where), notifier, *reports],
            identity=access.identity,
            finder=hint_sources,
            as_found=reports.tuner.as_found if reports.tuner else None,
        )
    daemon.written = loaded
    _look_for_conflicts(daemon, log, is_here=is_here)
    server = _control_server((control, claim), daemon, reports, access, root, log)
    reports.begin(daemon)
    plan_periodic_work(daemon, watch, root, log)
    metrics = MetricsServer(daemon, root, log, reports.counts)
    lifecycle = DaemonLifecycle(daemon, reports, server, metrics, logs)
    load = partial(_load_again, watch, config_path, settings, log)
    _listen(daemon)
    lifecycle.start()
    try:
        lifecycle.serve()
        if access.embedded is not None:
            _warn(pods.remarks(), log)
            pods.run(access.embedded, memory_bytes(found))
        reload = partial(lifecycle.reload, load, notifier)
        ended = daemon.run(notifier, reload, logs.toggle_debug)
    finally:
        notifier.stopping()
        lifecycle.stop()
        # Nobody waits for a signal any more, and the pipe goes with the daemon.
        signal.set_wakeup_fd(-1)
        hint_sources.close()
        notifier.close()
    if ended is Command.ENDED and not (access.identity.is_preinstalled and daemon.has_served):
        raise click.exceptions.Exit(FAULT)


def _daemon_logger(settings: Log, level: str | None, form: str | None) -> DaemonLogger:
    is_ours = is_preinstalled(os.environ)
    return DaemonLogger(settings, os.environ, level=level, form=form, is_preinstalled=is_ours)


def _tell_choice(access: Access, log: logging.Logger) -> None:
    if access.reason:
        log.info("event=runtime kind=%s: %s", access.kind, access.reason)


def _look_for_conflicts(daemon: Daemon, log: logging.Logger, *, is_here: bool) -> None:
    _warn(map(daemon.written.placed, daemon.engine.warnings), log)
    _warn(filter(None, (runc_warning(daemon.machine),)), log)
    if is_here:
        managers = read_managers()
        daemon.front.events.foreign_pins.kubelet_pins = managers.pins_cpus
        _warn(managers.warnings(), log)


def _warn(warnings: Iterable[str], log: logging.Logger) -> None:
    for warning in warnings:
        log.warning("%s", warning)


def _tuner(
    root: Path | None, claim: StateClaim, log: logging.Logger, *, is_here: bool
) -> Tuner | None:
    root = Path("/") if root is None and is_here else root
    return None if root is None or claim.is_anothers else tuner_below(root, claim.folder, log)


def _load_again(
    watch: ConfigWatch, path: Path | None, settings: tuple[str, ...], log: logging.Logger
) -> CheckedConfig:
    watch.take()
    again = load_config(path, environment=os.environ, settings=settings)
    _warn(again.warnings, log)
    return again


def _control_server(
    place: tuple[str | None, StateClaim],
    daemon: Daemon,
    reports: DaemonReports,
    access: Access,
    root: str | None,
    log: logging.Logger,
) -> ControlServer | None:
    # A plugin that its runtime starts is started once: containers would stay unpinned.
    found = place_control_socket(*place, log, goes_on=access.identity.is_preinstalled)
    if found is None:
        return None
    journal, history = reports.journal, reports.history
    return ControlServer(daemon, journal, found, access.kind, log, history, root)


def _listen(daemon: Daemon) -> None:
    for number, order in (
        (signal.SIGTERM, Command.STOP),
        (signal.SIGINT, Command.STOP),
        (signal.SIGHUP, Command.RELOAD),
        (signal.SIGUSR1, Command.TOGGLE_DEBUG),
    ):
        signal.signal(number, partial(_obey, daemon, order))
    signal.set_wakeup_fd(daemon.commands.waker, warn_on_full_buffer=False)


def _obey(daemon: Daemon, order: Command, _number: int, _frame: object) -> None:
    daemon.tell(order)


def main() -> None:
    """Run the daemon and leave with its status: 0, 1 after a fault, 2 for what cannot work."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        command.main(prog_name="pinfoldd")
    finally:
        end_logging()


if __name__ == "__main__":
    main()
