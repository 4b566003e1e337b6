"""The control API of a daemon: its socket and gate at once, its service once somebody asks."""

from __future__ import annotations

import logging
import socket
import threading
from typing import TYPE_CHECKING, Final

from ...topology.sets.base_errors import PinfoldError
from ..daemon.daemon import Daemon
from .control_gate import ControlGate, Peer
from .control_socket import ControlSocket, find_group
from .decisions.decision_journal import DecisionJournal
from .history.history_keeper import HistoryKeeper

if TYPE_CHECKING:
    from .control_service import ControlService

LOOK_SECONDS: Final = 10.0
"""How often it is looked which group may use the socket."""


class ControlServer:
    """Serves the control API of one daemon, from `start` to `stop`."""

    def __init__(
        self,
        daemon: Daemon,
        journal: DecisionJournal,
        control_socket: ControlSocket,
        kind: str,
        log: logging.Logger,
        history: HistoryKeeper | None = None,
        root: str | None = None,
    ) -> None:
        """`kind`: that of the runtime's interface. The socket is closed with this server.

        `root`: where the machine's files can be read.
        """
        self._root = root
        self._history = history
        self._daemon = daemon
        self._journal = journal
        self._socket = control_socket
        self._kind = kind
        self._log = log
        self._service: ControlService | None = None
        self._group = ""
        self._complaint = ""
        self._following = threading.Lock()
        self._is_over = False
        self._gate = ControlGate(control_socket.listener, self._may_enter, self._connect, log)

    def start(self) -> None:
        """Begin to take clients."""
        self.follow()
        self._gate.start()
        # A new configuration may be in force later than it was asked for, and a group come later.
        self._daemon.timers.every("control socket", LOOK_SECONDS, self.follow)

    def follow(self) -> None:
        """Let in the group that the configuration in force names; after each change of it."""
        with self._following:
            if not self._is_over:
                self._follow()

    def stop(self) -> None:
        """Take no more clients, end the calls that are being answered and remove the socket."""
        self._daemon.timers.cancel("control socket")
        with self._following:
            self._is_over = True
        self._gate.stop()
        if self._service is not None:
            self._service.stop()
        self._socket.close()

    def _follow(self) -> None:
        if not self._socket.is_there and not self._renew():
            return
        group = self._daemon.engine.config.control.group
        if group == self._group and not self._complaint:
            return
        self._group, complaint = group, ""
        try:
            self._socket.admit(group)
        except (PinfoldError, OSError) as error:
            complaint = str(error)
        self._complain(complaint)

    def _renew(self) -> bool:
        """Make the socket again that somebody deleted; whether it is there."""
        try:
            self._socket.renew()
        except PinfoldError as error:
            self._complain(str(error))
            return False
        self._gate.listen_at(self._socket.listener)
        self._log.warning("%s: the control socket was gone, and is made anew", self._socket.path)
        # Nobody is let in there yet but its owner.
        self._group = self._complaint = ""
        return True

    def _complain(self, complaint: str) -> None:
        if complaint and complaint != self._complaint:
            self._log.error("%s", complaint)
        self._complaint = complaint

    def _may_enter(self, peer: Peer) -> bool:
        if peer.is_privileged():
            return True
        try:
            return bool(self._group) and find_group(self._group) in peer.group_ids
        except PinfoldError:
            return False

    def _connect(self) -> socket.socket:
        """A connection to the service, in the gate's thread."""
        if self._service is not None:
            try:
                return self._service.connect()
            except FileNotFoundError:
                # Its folder was cleaned away, and with it the socket that only we know.
                self._service.stop()
                self._service = None
        if self._service is None:
            # Imported here: grpc and its protobuf take as long to load as everything else.
            from .control_answers import ControlAnswers
            from .control_service import ControlService
            from .slow_answers import SlowAnswers

            answers = ControlAnswers(
                daemon=self._daemon,
                slow=SlowAnswers(self._root, self._daemon.front.owner.pacer),
                journal=self._journal,
                history=self._history,
                kind=self._kind,
            )
            self._service = ControlService(answers, self._socket.path, self._log)
        return self._service.connect()
