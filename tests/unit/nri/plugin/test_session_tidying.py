"""What is left to do once a call is answered: in the runtime's pauses, and with few wakings."""

import threading
import time

import pytest

from pinfold.nri.dispatch.report import Decided, Released
from pinfold.nri.embedded.kubelet import sandbox_message
from pinfold.nri.plugin.wire_socket import WireSocket
from pinfold.policy.manifests.pod_spec import PodSpec
from tests.unit.nri.plugin.session_node import eventually, exclusive, running

_PAUSE_SECONDS = 0.01
"""Between two calls, as of a runtime that has other work; more than it takes to wake a thread."""


@pytest.fixture(name="wakings")
def fixture_wakings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Waits of the session for a quiet moment that ended with one."""
    found: list[str] = []
    is_readable = WireSocket.is_readable

    def counted(self: WireSocket, milliseconds: float) -> bool:
        has_come = is_readable(self, milliseconds)
        name = threading.current_thread().name
        if milliseconds > 0 and not has_come and name in ("plugin", "stand-in"):
            found.append(name)
        return has_come

    monkeypatch.setattr(WireSocket, "is_readable", counted)
    return found


def test_nobody_wakes_for_what_is_left_before_an_event_that_is_only_told(
    wakings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long it takes until this thread gets a processor.
    for name in ("_QUIET_SECONDS", "_LEFT_SECONDS"):
        monkeypatch.setattr(f"pinfold.nri.plugin.session.{name}", 10.0)
    with running() as node:
        wakings.clear()
        container_id = node.create("c", exclusive(1))
        time.sleep(_PAUSE_SECONDS)
        node.runtime.start(container_id)
        assert eventually(lambda: len(node.seen(Decided)) == 1)
        time.sleep(_PAUSE_SECONDS)
        node.runtime.stop(container_id)
        time.sleep(_PAUSE_SECONDS)
        node.runtime.remove(container_id)
        assert eventually(lambda: len(node.seen(Released)) == 1)
        assert wakings == []


def test_events_that_never_cease_keep_nothing_from_being_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pinfold.nri.plugin.session._QUIET_SECONDS", 10.0)
    pod = sandbox_message(PodSpec(name="another"))

    def is_told() -> bool:
        node.runtime.run_pod(pod)
        return bool(node.seen(Decided))

    with running() as node:
        node.create("c", exclusive(1))
        assert eventually(is_told)


def test_what_is_left_is_done_once_the_runtime_is_quiet(wakings: list[str]) -> None:
    with running() as node:
        wakings.clear()
        node.create("c", exclusive(1))
        assert eventually(lambda: len(node.seen(Decided)) == 1)
        assert len(wakings) == 1
