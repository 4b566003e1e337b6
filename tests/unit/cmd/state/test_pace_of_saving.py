"""When the state is saved: at once after quiet, and not too often."""

import logging
from collections.abc import Callable
from pathlib import Path

from pinfold.cmd.daemon.daemon import Daemon
from pinfold.cmd.state.state_file import read_state
from pinfold.cmd.state.state_keeper import StateKeeper
from pinfold.nri.dispatch.report import Synchronized
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import start_pods
from pinfold.policy.configuration.config import Config
from tests.unit.cmd.daemon.paper_node import PATIENT
from tests.unit.cmd.state.test_daemon_state import MACHINE, mixed
from tests.unit.nri.plugin.session_node import eventually

LOG = logging.getLogger("test_pace_of_saving")
HOUR_SECONDS = 3600.0


class NoFault(str):
    """No fault, at each look at which something happens in another thread."""

    _happen: Callable[[], None]

    @classmethod
    def of(cls, happen: Callable[[], None]) -> "NoFault":
        found = cls()
        found._happen = happen
        return found

    def __bool__(self) -> bool:
        self._happen()
        return False


class DisturbedKeeper(StateKeeper):
    """A keeper to which something happens while it looks whether there is anything to save."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, LOG)
        self._complaint = NoFault.of(lambda: self(Synchronized(0, 0)))

    def looks(self) -> bool:
        return self._is_due()


def saved(folder: Path) -> list[str]:
    return [one.name for one in read_state(folder, LOG).running()]


def test_what_happens_after_quiet_is_saved_at_once_and_what_follows_after_a_pause(
    tmp_path: Path,
) -> None:
    runtime = EmbeddedRuntime()
    assert not start_pods(runtime, [mixed("one")], 8 << 30)
    keeper = StateKeeper(tmp_path, LOG, pause_seconds=HOUR_SECONDS)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,), timing=PATIENT)
    keeper.start(daemon.front)
    daemon.start()
    assert eventually(lambda: saved(tmp_path) == ["one"])
    assert not start_pods(runtime, [mixed("two")], 8 << 30)
    assert daemon.front.settle()
    assert saved(tmp_path) == ["one"]
    keeper.stop()
    assert sorted(saved(tmp_path)) == ["one", "two"]
    daemon.stop()


def test_what_happens_while_it_is_looked_whether_anything_did_is_saved_next(
    tmp_path: Path,
) -> None:
    keeper = DisturbedKeeper(tmp_path)
    assert [keeper.looks() for _ in range(4)] == [False, True, False, True]
