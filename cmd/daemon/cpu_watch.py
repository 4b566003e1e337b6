"""Notices cpus that went offline or came back."""

import logging
from typing import Final

from ...topology.sets.base_errors import PinfoldError
from ...topology.sets.cpuset import CpuSet, IdListError
from ...topology.sysfs.sysfs_tree import open_tree
from .daemon import Daemon
from .machine_source import machine_of

_ONLINE: Final = "sys/devices/system/cpu/online"


class CpuWatch:
    """Compares the cpus that are online with those the policy knows whenever `look` is called.

    Where they differ the machine is discovered anew, in the caller's thread: that may take a while.
    """

    def __init__(self, root: str, daemon: Daemon, log: logging.Logger) -> None:
        """Raises `TopologyError` where the root cannot be read."""
        self._root = root
        self._tree = open_tree(root)
        self._daemon = daemon
        self._log = log
        self._refused = ""

    def look(self) -> None:
        """Put the machine as it is now in force, where it has other cpus than before."""
        text = (self._tree.read(_ONLINE) or "").strip()
        known = self._daemon.machine.online
        try:
            online = CpuSet.parse(text)
        except IdListError:
            return
        if not online or online == known or text == self._refused:
            return
        warned = self._daemon.engine.warnings
        reserved = self._daemon.engine.supply.reserved
        try:
            machine = machine_of(self._root, None)
            if machine.online == known:
                return  # files of a cpu on its way: the next look sees it whole
            with self._daemon.written.placing():
                self._daemon.reconfigure(machine=machine)
        except TimeoutError as error:
            self._log.warning("cpus %s are online now: %s; trying again", online, error)
        except PinfoldError as error:
            self._refused = text
            self._log.error(
                "cpus %s are online now: %s; still counting on %s", online, error, known
            )
        else:
            self._refused = ""
            self._log.warning(
                "cpus %s are online now, %s before — containers were looked at again",
                machine.online,
                known,
            )
            if self._daemon.engine.supply.reserved != reserved:
                now = self._daemon.engine.supply.reserved
                self._log.warning("cpus %s are reserved now, %s before", now, reserved)
            for warning in self._daemon.engine.warnings:
                if warning not in warned:
                    self._log.warning("%s", self._daemon.written.placed(warning))
