"""The mark of a state file that is the last word of its daemon: who sets it, and who takes it."""

import errno
import json
import logging
import os
import shutil
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NoReturn

import pytest
from msgspec import structs

from pinfold.cmd.daemon.daemon import Daemon
from pinfold.cmd.daemon_lifecycle import DaemonLifecycle
from pinfold.cmd.daemon_reports import DaemonReports
from pinfold.cmd.metrics.metrics_server import MetricsServer
from pinfold.cmd.report.daemon_logger import DaemonLogger
from pinfold.cmd.state.state_file import State, StateFile, read_state
from pinfold.nri.cri.cri_link import CriLink, ListenPlace
from pinfold.nri.embedded.cri_server import EmbeddedCriServer
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link, kernel_reader
from pinfold.nri.embedded.kubelet import start_pods
from pinfold.nri.plugin.plugin import RuntimeLink
from pinfold.policy.configuration.config import Config, Log
from pinfold.policy.model.container import ContainerId
from pinfold.topology.sets.cpuset import CpuSet
from tests.e2e.cri import Cri
from tests.unit.cmd.daemon.paper_node import PATIENT
from tests.unit.cmd.daemon.test_daemon import PODS, Start, fixture_start
from tests.unit.cmd.state.test_daemon_state import MACHINE, STATE, mixed, whole
from tests.unit.nri.cri.proxied_node import container_config, pod_config
from tests.unit.nri.plugin.session_node import eventually

LOG = logging.getLogger("test_last_word")
SECONDS = 10.0
__all__ = ["fixture_start"]


def is_marked(folder: Path) -> bool:
    return json.loads((folder / "state.json").read_bytes())["is_final"] is True


def recalled(folder: Path) -> tuple[State, bool]:
    return StateFile(folder, LOG).recall()


def test_a_state_is_the_last_word_once_it_is_marked_and_for_one_reader(tmp_path: Path) -> None:
    file = StateFile(tmp_path, LOG)
    file.write(STATE)
    assert recalled(tmp_path) == (STATE, False)
    file.seal()
    assert is_marked(tmp_path)
    assert read_state(tmp_path, LOG) == STATE
    assert recalled(tmp_path) == (STATE, True)
    assert recalled(tmp_path) == (STATE, False)


@pytest.mark.parametrize(
    ("pins", "is_final"),
    [
        pytest.param(True, True, id="who is pinned is led back"),
        pytest.param(False, False, id="who is not pinned any more is taken where it runs"),
    ],
)
def test_the_last_word_counts_where_cpus_are_pinned(*, pins: bool, is_final: bool) -> None:
    advice = STATE.advice(Config(pin_cpu=pins), is_final=True)
    assert {one.told is not None for one in advice.values()} == {is_final}


def test_whatever_is_written_behind_the_mark_is_not_the_last_word(tmp_path: Path) -> None:
    file = StateFile(tmp_path, LOG)
    file.write(STATE)
    file.seal()
    file.write(STATE)
    assert not is_marked(tmp_path)


def test_what_others_wrote_meanwhile_is_not_marked(tmp_path: Path) -> None:
    file = StateFile(tmp_path, LOG)
    file.write(STATE)
    StateFile(tmp_path, LOG).write(State())
    file.seal()
    assert not is_marked(tmp_path)
    StateFile(tmp_path, LOG).seal()
    assert not is_marked(tmp_path)


def test_a_state_of_an_earlier_version_is_not_the_last_word(tmp_path: Path) -> None:
    StateFile(tmp_path, LOG).write(STATE)
    path = tmp_path / "state.json"
    path.write_bytes(path.read_bytes().replace(b'"is_final":false,', b""))
    assert recalled(tmp_path) == (STATE, False)


def _refuse(*_: object) -> int:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def _write_less(*_: object) -> int:
    return 3


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        pytest.param(_refuse, "read-only file system", id="refused"),
        pytest.param(_write_less, "no space left on device", id="in part"),
    ],
)
def test_a_mark_that_cannot_be_taken_back_is_not_believed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    write: Callable[..., int],
    reason: str,
) -> None:
    file = StateFile(tmp_path, LOG)
    file.write(STATE)
    file.seal()
    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", write)
        assert recalled(tmp_path) == (STATE, False)
    (message,) = caplog.messages
    assert message.startswith(f"{tmp_path}/state.json: {reason} — ")
    assert is_marked(tmp_path)


def test_one_that_was_told_no_cpus_is_not_taken_for_told_those_it_ran_on() -> None:
    (pod, *_), one = STATE.pods, STATE.pods[0].containers[0]
    unpinned = structs.replace(one, cpus="4-5", is_unpinned=True)
    state = structs.replace(STATE, pods=(structs.replace(pod, containers=(unpinned,)),))
    (advice,) = state.advice(is_final=True).values()
    assert advice.told is None


class Node:
    """A runtime on paper behind NRI, and daemons, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.runtime = EmbeddedRuntime()

    def link(self) -> RuntimeLink | CriLink:
        return embedded_link(self.runtime)

    def begin(self) -> None:
        """Start the next daemon, which need not find its runtime."""
        self.state.mkdir(mode=0o700, exist_ok=True)
        self.reports = DaemonReports.of(self.state, None, LOG)
        self.daemon = Daemon(
            *(MACHINE, Config(), self.link()), reports=tuple(self.reports), timing=PATIENT
        )
        self.reports.begin(self.daemon)
        self.daemon.start()

    def start(self) -> None:
        self.begin()
        assert self.daemon.front.wait_until_ready(SECONDS)
        assert self.daemon.front.settle()

    def begin_stop(self) -> None:
        """As `pinfoldd` does, while its runtime goes on."""
        self.daemon.begin_stop()
        self.reports.stop_keeping(self.daemon)

    def end_stop(self) -> None:
        self.daemon.stop()
        self.reports.end_keeping(self.daemon)

    def stop(self) -> None:
        self.begin_stop()
        self.end_stop()

    def kill(self) -> None:
        """End the daemon, with its state as it is now."""
        aside = self.folder / "aside"
        shutil.copytree(self.state, aside)
        self.stop()
        shutil.rmtree(self.state)
        aside.rename(self.state)

    def run(self, name: str) -> ContainerId:
        """A container with one cpu of its own, and a share of others."""
        assert not start_pods(self.runtime, [mixed(name)], 8 << 30)
        (found,) = [key for key, one in self.runtime.containers.items() if one.name == name]
        return ContainerId(found)

    def write(self, container_id: ContainerId, cpus: str) -> None:
        """Another program sets a container's cpus."""
        self.runtime.update_cpuset(container_id, cpus, "")

    def remove(self, container_id: ContainerId) -> None:
        self.runtime.remove_pod(self.runtime.containers[container_id].pod_sandbox_id)

    def cpus(self, container_id: ContainerId) -> str:
        return self.runtime.kernel[container_id].cpus

    def own(self, container_id: ContainerId) -> CpuSet:
        """The cpus that a container has for itself as far as the policy knows."""
        return self.daemon.engine.grants[container_id].exclusive

    def close(self) -> None:
        self.runtime.drop()


class ProxiedNode(Node):
    """The same runtime behind a CRI proxy."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.socket = str(folder / "runtime.sock")
        self.server = EmbeddedCriServer(self.runtime)
        self.server.start(self.socket)
        self.kubelet = Cri(folder / "proxy/cri.sock", SECONDS)

    def link(self) -> RuntimeLink | CriLink:
        place = ListenPlace(str(self.folder / "proxy/cri.sock"), self.socket)
        return CriLink(place=place, socket=self.socket, read_back=kernel_reader(self.runtime))

    def run(self, name: str) -> ContainerId:
        config = pod_config(name, "")
        pod = self.kubelet.run_pod(config)
        created = self.kubelet.create_container(pod, container_config(name, 1000), config)
        self.kubelet.start_container(created)
        return ContainerId(created)

    def own(self, container_id: ContainerId) -> CpuSet:
        engine = self.daemon.engine
        (found,) = [
            engine.grants[key].exclusive
            for key, one in engine.containers.items()
            if container_id in (key, one.runtime_id)
        ]
        return found

    def close(self) -> None:
        self.kubelet.close()
        self.server.stop()


@pytest.fixture(name="node", params=[Node, ProxiedNode], ids=["nri", "cri"])
def fixture_node(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Node]:
    node: Node = request.param(tmp_path)
    yield node
    node.close()


def test_a_clean_stop_says_the_last_word_and_a_daemon_that_runs_does_not(node: Node) -> None:
    node.start()
    node.run("one")
    node.stop()
    assert is_marked(node.state)
    node.start()
    assert not is_marked(node.state)
    node.kill()
    assert not is_marked(node.state)


def test_what_happens_while_the_daemon_ends_is_in_its_last_word(node: Node) -> None:
    node.start()
    node.run("one")
    node.begin_stop()
    assert not is_marked(node.state), "its runtime still asks it"
    node.run("late")
    node.end_stop()
    assert is_marked(node.state)
    names = [one.name for one in read_state(node.state, LOG).running()]
    assert sorted(names) == ["late", "one"]


def test_a_daemon_that_saw_no_runtime_leaves_the_last_word_that_it_found(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start()
    node.run("one")
    node.stop()
    before = (node.state / "state.json").read_bytes()
    runtime, node.runtime = node.runtime, EmbeddedRuntime()
    node.runtime.connect = _refused  # type: ignore[method-assign]
    node.begin()
    assert not is_marked(node.state)
    node.stop()
    assert (node.state / "state.json").read_bytes() == before
    assert is_marked(node.state)
    runtime.drop()


def test_the_last_word_of_one_that_was_killed_is_not_that_of_the_one_before(node: Node) -> None:
    node.start()
    node.run("one")
    node.stop()
    node.start()
    node.kill()
    assert recalled(node.state)[1] is False


def test_there_is_no_last_word_while_cpus_that_one_has_left_are_kept(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start()
    one = node.run("one")
    engine = node.daemon.engine
    held = engine.left_cpus.held(one)
    assert held is not None
    node.begin_stop()
    node.daemon.stop()
    engine.update(one, structs.replace(whole(1), cpu_request_milli=500, cpu_limit_milli=500))
    engine.left_cpus.keep([held])
    assert engine.left
    node.reports.end_keeping(node.daemon)
    assert not is_marked(node.state)


def test_there_is_no_last_word_while_the_runtime_takes_one_off_no_cpus(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start()
    one = node.run("one")
    node.begin_stop()
    node.daemon.stop()
    node.daemon.engine.stuck_containers.note({one: CpuSet.parse("0-3")})
    node.reports.end_keeping(node.daemon)
    assert not is_marked(node.state)


def test_what_could_not_be_saved_leaves_the_state_of_before_without_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path)
    node.start()
    node.run("one")
    node.begin_stop()
    node.run("late")
    monkeypatch.setattr("os.fsync", _refuse)
    node.end_stop()
    assert [one.name for one in read_state(node.state, LOG).running()] == ["one"]
    assert not is_marked(node.state)


def test_that_the_last_word_could_not_be_said_is_told_with_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(tmp_path)
    node.start()
    node.run("one")
    monkeypatch.setattr("os.pwrite", _refuse)
    node.stop()
    assert not is_marked(node.state)
    (message,) = [one for one in caplog.messages if one.startswith(f"{node.state}: ")]
    assert message == (
        f"{node.state}: read-only file system — it cannot be noted that nobody is told anything"
        " more: where containers run counts more"
    )


def test_the_last_word_is_said_once_the_daemon_has_left_its_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path)
    node.start()
    node.run("one")
    leave = node.daemon.stop

    def leave_late() -> None:
        assert not is_marked(node.state), "its runtime still asks it"
        node.run("late")
        leave()

    monkeypatch.setattr(node.daemon, "stop", leave_late)
    metrics = MetricsServer(node.daemon, None, LOG)
    DaemonLifecycle(node.daemon, node.reports, None, metrics, DaemonLogger(Log(), {})).stop()
    assert is_marked(node.state)
    assert len(read_state(node.state, LOG).running()) == 2


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_who_was_put_elsewhere_meanwhile_is_led_back_where_the_daemon_was_stopped(
    node: Node, is_clean: bool
) -> None:
    node.start()
    moved, gone = node.run("moved"), node.run("gone")
    assert node.daemon.front.settle()
    own, cpus = node.own(moved), node.cpus(moved)
    if is_clean:
        node.stop()
    else:
        node.kill()
    node.remove(gone)
    node.write(moved, "6")
    node.start()
    assert eventually(lambda: (node.own(moved) == own) is is_clean)
    if is_clean:
        assert CpuSet.parse(cpus) <= CpuSet.parse(node.cpus(moved))


def _refused() -> NoReturn:
    raise ConnectionRefusedError


def test_pinfoldd_says_its_last_word_when_it_is_stopped_and_not_when_it_is_killed(
    tmp_path: Path, start: Start
) -> None:
    (tmp_path / "pods.yaml").write_text(PODS)
    folder = tmp_path / "state"
    options = ("--runtime=embedded", f"--manifest={tmp_path}/pods.yaml", f"--state-dir={folder}")
    daemon = start(*options)
    daemon.await_notice("READY=1")
    assert eventually((folder / "state.json").exists)
    assert not is_marked(folder)
    assert daemon.end() == 0
    assert is_marked(folder)
    daemon.notices.close()
    (tmp_path / "notify").unlink()
    daemon = start(*options)
    daemon.await_notice("READY=1")
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait(SECONDS)
    assert not is_marked(folder)
