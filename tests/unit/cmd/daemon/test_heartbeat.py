"""The watchdog hears of a policy that answers, whatever else the daemon does."""

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.cmd.daemon.daemon import Command, Daemon
from pinfold.cmd.daemon.heartbeat import Heartbeat
from pinfold.cmd.daemon.sd_notify import Notifier
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.policy.configuration.config import Config
from pinfold.topology.made.spec import machine_from_spec

SECONDS = 20
WATCHDOG = 20.0


class PaperPolicy:
    """A policy that needs so long for each answer, and the clock it all goes by."""

    def __init__(self, pauses: list[float]) -> None:
        self.now = 0.0
        self.told: list[float] = []
        self._pauses = pauses

    def ask(self, seconds: float) -> None:
        if self._pauses[-1] > seconds:
            self.now += seconds
            self._pauses[-1] -= seconds
            raise TimeoutError
        self.now += self._pauses.pop()

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return not self._pauses

    def beat(self) -> None:
        heartbeat = Heartbeat(
            self.ask,
            lambda: self.told.append(self.now),
            WATCHDOG,
            clock=lambda: self.now,
            wait=self.wait,
        )
        heartbeat.run()


@given(st.lists(st.floats(0, WATCHDOG * 0.7), min_size=1))
def test_a_policy_that_answers_in_time_is_never_killed(pauses: list[float]) -> None:
    policy = PaperPolicy(pauses)
    count = len(pauses)
    policy.beat()
    assert len(policy.told) == count
    gaps = [after - before for before, after in zip([0.0, *policy.told], policy.told, strict=False)]
    assert max(gaps) < WATCHDOG


def test_a_policy_that_hangs_is_not_told_to_be_alive() -> None:
    policy = PaperPolicy([1.0, WATCHDOG * 2])
    policy.beat()
    assert policy.told[0] > WATCHDOG * 2


def test_a_quick_policy_is_asked_four_times_as_often_as_needed() -> None:
    policy = PaperPolicy([0.0] * 3)
    policy.beat()
    assert policy.told == [WATCHDOG / 4, WATCHDOG / 2, WATCHDOG * 3 / 4]


@pytest.mark.parametrize("is_storm", [True, False], ids=["a storm of reloads", "one that lasts"])
def test_reloads_do_not_stop_the_heart(tmp_path: Path, is_storm: bool) -> None:
    runtime = EmbeddedRuntime()
    machine = machine_from_spec("socket:1 core:2 thread:1 mem:1G")
    daemon = Daemon(machine, Config(), embedded_link(runtime))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "notify"))
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"})
        heard: list[bytes] = []

        def reload() -> None:
            ear.settimeout(0.001 if is_storm else SECONDS)
            try:
                heard.append(ear.recv(99))
            except TimeoutError:
                reloads.append(None)
            is_over = heard or len(reloads) > SECONDS * 1000 or not is_storm
            daemon.tell(Command.STOP if is_over else Command.RELOAD)

        reloads: list[None] = []
        daemon.start()
        daemon.tell(Command.RELOAD)
        assert daemon.run(notifier, reload) is Command.STOP
        daemon.stop()
        notifier.close()
    assert heard == [b"WATCHDOG=1"]
