"""A node on paper whose daemon can be asked over its control socket."""

import logging
import os
from pathlib import Path

from pinfold.cmd.control.control_client import ControlClient
from pinfold.cmd.control.control_server import ControlServer
from pinfold.cmd.control.control_socket import ControlSocket
from pinfold.cmd.control.decisions.decision_journal import DecisionJournal
from pinfold.topology.made.spec import machine_from_spec

from ..daemon.paper_node import PaperNode, config

LOG = logging.getLogger("asked_node")
MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:8G")


class AskedNode(PaperNode):
    """A node on paper whose daemon can be asked."""

    def __init__(self, folder: Path, root: Path | None = None, **fields: object) -> None:
        """`root`: where the machine's files are; `fields`: of the configuration."""
        self.journal = DecisionJournal(clock=lambda: 1_700_000_000.0)
        super().__init__(MACHINE, config(**fields), reports=(self.journal,))
        self.path = folder / "control.sock"
        self.server = ControlServer(
            *(self.daemon, self.journal, ControlSocket(self.path), "embedded", LOG),
            root=os.fspath(root) if root else None,
        )
        self.server.start()
        self.client = ControlClient(self.path)

    def stop(self) -> None:
        self.server.stop()
        super().stop()
