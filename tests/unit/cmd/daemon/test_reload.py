"""A reload while the policy is busy: what is said is what happens."""

import logging
import threading
from collections.abc import Callable, Generator

import pytest

from pinfold.cmd.daemon.daemon import Daemon, reload_configuration
from pinfold.cmd.daemon.sd_notify import Notifier
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.config_text import CheckedConfig, read_config
from pinfold.policy.text.errors import ConfigError
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine

LOG = logging.getLogger("test_reload")
MACHINE = machine_from_spec("socket:1 core:4 mem:4G")
OLD = Config(reserved_resources=Amounts(cpu="cpuset:0"))
NEW = Config(reserved_resources=Amounts(cpu="cpuset:1"))
IMPOSSIBLE = Config(reserved_resources=Amounts(cpu="cpuset:77"))


@pytest.fixture(name="daemon")
def fixture_daemon(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Generator[Daemon]:
    # So long that the owner's thread has begun by then, however busy the machine is.
    monkeypatch.setattr("pinfold.cmd.daemon.daemon._BUSY_SECONDS", 1.0)
    caplog.set_level(logging.INFO, LOG.name)
    runtime = EmbeddedRuntime()
    daemon = Daemon(MACHINE, OLD, embedded_link(runtime))
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    assert daemon.front.wait_until_ready(5)
    assert daemon.front.settle()
    yield daemon
    daemon.stop()


def reload(daemon: Daemon, config: Config) -> None:
    reload_checked(daemon, CheckedConfig(config))


def reload_checked(daemon: Daemon, checked: CheckedConfig) -> None:
    reload_configuration(daemon, lambda: checked, Notifier({}), LOG)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == LOG.name]


def test_what_was_said_to_stay_in_force_does(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    daemon.front.owner.submit("long work", lambda: gate.wait(5))
    reload(daemon, NEW)
    gate.set()
    assert daemon.front.settle()
    assert daemon.engine.config == OLD
    assert said(caplog) == [
        "reconfigure: the policy is busy for more than 1.0 s; the old configuration stays in force"
        " — reload again"
    ]
    assert daemon.last_reload is not None
    assert daemon.last_reload.fault == said(caplog)[0].partition(";")[0]
    reload(daemon, NEW)
    assert daemon.engine.config == NEW
    assert (daemon.last_reload.is_good, daemon.last_reload.fault) == (True, "")


Slow = Callable[[], threading.Event]


@pytest.fixture(name="slow")
def fixture_slow(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Has the policy take its time to change; the event lets it go on."""

    def slow() -> threading.Event:
        gate = threading.Event()
        change = daemon.front.events.reconfigure

        def change_slowly(config: Config | None = None, machine: Machine | None = None) -> bool:
            gate.wait(5)
            return change(config, machine)

        monkeypatch.setattr(daemon.front.events, "reconfigure", change_slowly)
        return gate

    return slow


def test_a_change_that_takes_long_is_said_to_come_and_told_when_it_did(
    daemon: Daemon, slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    gate = slow()
    reload(daemon, NEW)
    assert daemon.engine.config == OLD
    begun = (
        "reconfigure: begun, and not over after 1.0 s; the new configuration is in force once it"
        " is, unless it has a fault"
    )
    assert said(caplog) == [begun]
    gate.set()
    assert daemon.front.settle()
    assert daemon.engine.config == NEW
    assert said(caplog) == [begun, "event=reconfigured"]


def test_a_fault_that_shows_late_is_told(
    daemon: Daemon, slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    gate = slow()
    reload(daemon, IMPOSSIBLE)
    gate.set()
    assert daemon.front.settle()
    assert daemon.engine.config == OLD
    _, fault = said(caplog)
    assert "77" in fault
    assert fault.endswith("; the old configuration stays in force")
    with pytest.raises(ConfigError):
        daemon.reconfigure(IMPOSSIBLE)


WRITTEN = "pinCPU: true\nreservedResources:\n  cpu: cpuset:77\n"


def test_what_does_not_fit_the_machine_is_told_with_file_and_line(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    reload_checked(daemon, read_config(WRITTEN, "pinfold.yaml"))
    (fault,) = said(caplog)
    assert fault.startswith("pinfold.yaml:3:3: reservedResources.cpu: 'cpuset:77'")
    assert daemon.engine.config == OLD


def test_a_fault_that_shows_late_is_told_with_file_and_line(
    daemon: Daemon, slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    gate = slow()
    reload_checked(daemon, read_config(WRITTEN, "pinfold.yaml"))
    gate.set()
    assert daemon.front.settle()
    _, fault = said(caplog)
    assert fault.startswith("pinfold.yaml:3:3: reservedResources.cpu: 'cpuset:77'")
