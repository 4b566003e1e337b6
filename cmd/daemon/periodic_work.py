"""Periodic work of the daemon, aside from the runtime's events: what is done how often."""

import logging
from functools import partial
from typing import Final

from ...topology.sysfs.available_memory import read_available_memory
from ...topology.sysfs.processor import parse_processor
from ...topology.sysfs.sysfs_tree import SysfsTree, open_tree
from .config_watch import ConfigWatch
from .cpu_watch import CpuWatch
from .daemon import Command, Daemon
from .drift_audit import AUDIT_SECONDS
from .moves.rule_watch import RULES_SECONDS

CONFIG_SECONDS: Final = 2.0
"""Between two looks at the configuration files."""
MEMORY_SECONDS: Final = 10.0
"""Between two looks at the free memory of every node."""
PROCESSOR_SECONDS: Final = 3.0
"""After the start the processor's name and flags are read: most nodes are ready by then."""
CPUS_SECONDS: Final = 10.0
"""Between two looks at which cpus are online."""


def plan_periodic_work(
    daemon: Daemon, watch: ConfigWatch, root: str | None, log: logging.Logger
) -> None:
    """Set a timer of the daemon's for each, before it starts. `root`: that of this machine's files.

    Raises `TopologyError` where that shows no machine.
    """
    timers = daemon.timers
    timers.every("configuration files", CONFIG_SECONDS, partial(_look_at_files, watch, daemon))
    timers.every("audit", AUDIT_SECONDS, daemon.audit.repair)
    timers.every("rules", RULES_SECONDS, daemon.rules.look)
    # A rule about a label of the processor would read it while its container waits.
    timers.once("processor", PROCESSOR_SECONDS, partial(_read_processor, daemon))
    if root is not None:
        tree = open_tree(root)
        look_at_memory = partial(_look_at_memory, tree, daemon)
        timers.once("free memory at the start", 0, look_at_memory)
        timers.every("free memory", MEMORY_SECONDS, look_at_memory)
        timers.every("threads", AUDIT_SECONDS, partial(daemon.audit.look_at_threads, root))
        timers.every("cpus", CPUS_SECONDS, CpuWatch(root, daemon, log).look)


def _look_at_files(watch: ConfigWatch, daemon: Daemon) -> None:
    if watch.look():
        daemon.tell(Command.RELOAD)


def _read_processor(daemon: Daemon) -> None:
    """Read the processor's name and flags, which stay in memory."""
    parse_processor(daemon.machine.cpuinfo)


def _look_at_memory(tree: SysfsTree, daemon: Daemon) -> None:
    """Tell the policy how much memory can be had from each node."""
    events, free_bytes = daemon.front.events, read_available_memory(tree)
    if free_bytes:
        daemon.front.owner.submit("free memory", lambda: events.observe_memory(free_bytes))
