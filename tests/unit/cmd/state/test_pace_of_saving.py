"""When the state is saved: at once after quiet, and not too often."""

import logging
from pathlib import Path

from pinfold.cmd.daemon.daemon import Daemon
from pinfold.cmd.state.state_file import read_state
from pinfold.cmd.state.state_keeper import StateKeeper
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import start_pods
from pinfold.policy.configuration.config import Config
from tests.unit.cmd.daemon.paper_node import PATIENT
from tests.unit.cmd.state.test_daemon_state import MACHINE, mixed
from tests.unit.nri.plugin.session_node import eventually

LOG = logging.getLogger("test_pace_of_saving")
HOUR_SECONDS = 3600.0


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
