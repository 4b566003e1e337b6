import logging
import re
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import pytest

from pinfold.cmd.daemon import Daemon
from pinfold.cmd.statefile import Remembered, State, StateKeeper, read_state, write_state
from pinfold.nri.embedded import EmbeddedRuntime
from pinfold.nri.kubelet import start_pod
from pinfold.policy.adoption import Advice
from pinfold.policy.config import Config
from pinfold.policy.container import ContainerId, QosClass, Resources
from pinfold.policy.manifest import ContainerSpec, PodSpec
from pinfold.topology.cpuset import CpuSet
from pinfold.topology.spec import machine_from_spec

LOG = logging.getLogger("test_daemon_state")
MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")
STATE = State(containers={"c1": Remembered(pool="socket #0", exclusive="1-2", grown=("1", "2"))})


def mixed(name: str) -> PodSpec:
    """A pod with one container of one exclusive cpu and a half of the shared ones."""
    resources = Resources(
        cpu_request_milli=1500,
        cpu_limit_milli=1500,
        memory_request_bytes=1 << 20,
        memory_limit_bytes=1 << 20,
    )
    return PodSpec(
        name=name,
        qos=QosClass.GUARANTEED,
        containers=(ContainerSpec(name=name, resources=resources),),
    )


Run = Callable[[EmbeddedRuntime], Daemon]


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path) -> Generator[Run]:
    """Runs a daemon with a state file, which is complete once the daemon was stopped."""
    running: list[tuple[Daemon, StateKeeper]] = []

    def stop() -> None:
        while running:
            daemon, keeper = running.pop()
            keeper.stop()
            daemon.stop()

    def run(runtime: EmbeddedRuntime) -> Daemon:
        stop()
        keeper = StateKeeper(tmp_path, LOG, pause_seconds=0)
        daemon = Daemon(MACHINE, Config(), runtime.connect, reports=(keeper,))
        running.append((daemon, keeper))
        daemon.plugin.events.advice = read_state(tmp_path, LOG).advice()
        keeper.start(daemon.plugin)
        daemon.start()
        assert runtime.wait_until_synchronized(5)
        assert daemon.plugin.settle()
        return daemon

    yield run
    stop()


def exclusive_cpus(daemon: Daemon) -> Mapping[str, CpuSet]:
    return {one: grant.exclusive for one, grant in daemon.engine.grants.items()}


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_state(tmp_path, STATE)
    assert read_state(tmp_path, LOG) == STATE
    assert STATE.advice() == {
        ContainerId("c1"): Advice(
            pool="socket #0",
            exclusive=CpuSet.of(1, 2),
            grown=(CpuSet.of(1), CpuSet.of(2)),
        )
    }
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600


def test_no_file_means_nothing_is_remembered(tmp_path: Path) -> None:
    assert read_state(tmp_path, LOG) == State()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="an empty file, as a crash leaves it"),
        pytest.param(b"\xff\x00{", id="no text"),
        pytest.param(b'{"version": 1, "containers": {"c1": {"exclusive": "1"}}}', id="no pool"),
        pytest.param(
            b'{"version": 1, "containers": {"c1": {"pool": "p", "exclusive": "x"}}}', id="no cpus"
        ),
        pytest.param(b'{"version": 99}', id="a later version's"),
    ],
)
def test_broken_file_is_put_aside_and_kept(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state.json").write_bytes(content)
    assert read_state(tmp_path, LOG) == State()
    [aside] = tmp_path.iterdir()
    assert re.fullmatch(r"state\.json\.corrupt-\d+", aside.name)
    assert aside.read_bytes() == content
    assert aside.name in caplog.text


def test_every_prefix_of_a_state_is_survived(tmp_path: Path) -> None:
    write_state(tmp_path, STATE)
    whole = (tmp_path / "state.json").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "state.json").write_bytes(whole[:length])
        assert read_state(tmp_path, LOG) == State()


def test_restarted_daemon_knows_which_cpus_are_whose(tmp_path: Path, run: Run) -> None:
    runtime = EmbeddedRuntime()
    first = run(runtime)
    for name in ("one", "two", "three"):
        start_pod(runtime, mixed(name), 8 << 30)
    assert first.plugin.settle()
    before = exclusive_cpus(first)
    cpus = {one.name: one.linux.resources.cpu.cpus for one in runtime.containers.values()}
    counts = runtime.update_counts.copy()
    runtime.drop()
    second = run(runtime)
    assert exclusive_cpus(second) == before
    assert len(before) == 3
    assert {one.name: one.linux.resources.cpu.cpus for one in runtime.containers.values()} == cpus
    assert runtime.update_counts == counts


def test_daemon_that_saw_no_runtime_does_not_forget(tmp_path: Path) -> None:
    write_state(tmp_path, STATE)
    keeper = StateKeeper(tmp_path, LOG, pause_seconds=0)
    unconnected = EmbeddedRuntime()
    daemon = Daemon(MACHINE, Config(), unconnected.connect, reports=(keeper,))
    keeper.start(daemon.plugin)
    keeper.stop()
    daemon.plugin.owner.close()
    assert read_state(tmp_path, LOG) == STATE


def test_folder_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = EmbeddedRuntime()
    keeper = StateKeeper(tmp_path / "none", LOG, pause_seconds=0)
    daemon = Daemon(MACHINE, Config(), runtime.connect, reports=(keeper,))
    keeper.start(daemon.plugin)
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    for name in ("one", "two"):
        start_pod(runtime, mixed(name), 8 << 30)
        assert daemon.plugin.settle()
    keeper.stop()
    daemon.stop()
    assert [one.getMessage() for one in caplog.records] == [
        f"{tmp_path}/none: No such file or directory — the state is not saved"
    ]
