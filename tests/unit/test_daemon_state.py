import logging
import os
import queue
from collections.abc import Callable, Generator, Mapping
from logging.handlers import QueueHandler
from pathlib import Path

import msgspec
import pytest

from pinfold.cmd.daemon import Daemon
from pinfold.cmd.savedcontainer import SavedContainer, SavedPod, SavedResources, saved_container
from pinfold.cmd.statefile import SavedMachine, State, read_state, write_state
from pinfold.cmd.statekeeper import Moment, StateKeeper, saved_machine
from pinfold.nri.embedded import EmbeddedRuntime
from pinfold.nri.embedded_cri import embedded_link
from pinfold.nri.kubelet import start_pod
from pinfold.policy.adoption import Advice
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.text import config_from_values
from pinfold.policy.container import (
    Container,
    ContainerId,
    ContainerState,
    Pod,
    PodId,
    QosClass,
    Resources,
)
from pinfold.policy.engine import Engine
from pinfold.policy.hints.hint import Hint, HintOrigin
from pinfold.policy.scenarios.manifest import ContainerSpec, PodSpec
from pinfold.topology.cpuset import CpuSet, NodeSet
from pinfold.topology.spec import machine_from_spec

LOG = logging.getLogger("test_daemon_state")
MACHINE = machine_from_spec("socket:1 numa:1 core:8 thread:1 mem:8G")
STATE = State(
    machine=SavedMachine(summary="cpus 0-7", fingerprint="f00"),
    config={"pinCPU": True},
    containers=(
        SavedContainer(
            id="c1",
            name="main",
            pod=SavedPod(id="p1", name="web", namespace="default", qos=QosClass.GUARANTEED),
            cpus="1-3",
            pool="socket #0",
            exclusive="1-2",
            grown=("1", "2"),
        ),
    ),
)


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
        daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
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


def test_numbers_may_be_keys(tmp_path: Path) -> None:
    resources = SavedResources(hugepage_bytes={2 << 20: 4 << 20, 1 << 30: 1 << 30})
    one = msgspec.structs.replace(STATE.containers[0], resources=resources)
    state = msgspec.structs.replace(STATE, containers=(one,), config={"control": {"rdt": {1: 2}}})
    write_state(tmp_path, state)
    again = read_state(tmp_path, LOG)
    assert again.containers == (one,)
    assert again.config == {"control": {"rdt": {"1": 2}}}


def test_no_file_means_nothing_is_remembered(tmp_path: Path) -> None:
    assert read_state(tmp_path, LOG) == State()


def written(tmp_path: Path) -> bytes:
    write_state(tmp_path, STATE)
    return (tmp_path / "state.json").read_bytes()


def put_aside(tmp_path: Path) -> Path:
    """The one file that is left after a state was refused."""
    assert read_state(tmp_path, LOG, lambda: 1234.5) == State()
    aside = tmp_path / "state.json.corrupt-1234"
    assert [one.name for one in tmp_path.iterdir() if one.name != "elsewhere"] == [aside.name]
    return aside


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "truncated", id="an empty file, as a crash leaves it"),
        pytest.param(b"\xff\x00{", "malformed", id="no text"),
        pytest.param(b"[" * 100_000, "state.json", id="brackets without end"),
        pytest.param(
            b'{"version": 1, "containers": {"c1": {"pool": "p"}}}',
            "version 1 is not 2",
            id="an earlier version's",
        ),
        pytest.param(b'{"version": 99}', "version 99 is not 2", id="a later version's"),
        pytest.param(b'{"version": 2, "state": {}}', "the checksum is not", id="no checksum"),
    ],
)
def test_broken_file_is_put_aside_and_kept(
    tmp_path: Path, content: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state.json").write_bytes(content)
    assert put_aside(tmp_path).read_bytes() == content
    assert reason in caplog.text
    assert "put aside as state.json.corrupt-1234; nothing is remembered" in caplog.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b'"1-2"', b'"1-3"', id="other cpus"),
        pytest.param(b'"socket #0"', b'"socket #1"', id="another pool"),
        pytest.param(b'"pinCPU":true', b'"pinCPU":false', id="another configuration"),
    ],
)
def test_a_file_somebody_edited_is_not_believed(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    content = written(tmp_path)
    assert content.count(before) == 1
    (tmp_path / "state.json").write_bytes(content.replace(before, after))
    put_aside(tmp_path)


def test_every_prefix_of_a_state_is_survived(tmp_path: Path) -> None:
    whole = written(tmp_path)
    for length in range(len(whole)):
        (tmp_path / "state.json").write_bytes(whole[:length])
        assert read_state(tmp_path, LOG) == State()


def test_values_that_make_no_sense_are_not_believed(tmp_path: Path) -> None:
    one = msgspec.structs.replace(STATE.containers[0], exclusive="x")
    write_state(tmp_path, msgspec.structs.replace(STATE, containers=(one,)))
    put_aside(tmp_path)


def test_a_symbolic_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "state.json").rename(elsewhere)
    (tmp_path / "state.json").symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert put_aside(tmp_path).is_symlink()
    assert elsewhere.read_bytes() == before
    assert "a symbolic link" in caplog.text


def test_a_file_anybody_can_write_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path)
    (tmp_path / "state.json").chmod(0o602)
    put_aside(tmp_path)
    assert "anybody may have written it" in caplog.text


def test_neither_a_pipe_nor_a_folder_holds_up_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "state.json")
    put_aside(tmp_path).unlink()
    (tmp_path / "state.json").mkdir()
    put_aside(tmp_path)


def test_a_file_that_cannot_be_put_aside_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state.json").write_bytes(b"broken")
    (tmp_path / "state.json.corrupt-1").mkdir()
    assert read_state(tmp_path, LOG, lambda: 1.0) == State()
    assert "cannot be put aside: Is a directory" in caplog.text


@pytest.mark.parametrize("name", ["state.new", "state.json"])
def test_what_lies_in_the_way_is_replaced_and_not_written_to(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (tmp_path / name).symlink_to(elsewhere)
    write_state(tmp_path, STATE)
    assert read_state(tmp_path, LOG) == STATE
    assert elsewhere.read_bytes() == b"precious"


def test_a_container_is_saved_with_all_the_policy_looks_at() -> None:
    ours = {
        "prefer-shared-cpus.resource-policy.nri.io/pod": "true",
        "resource-policy.nri.io/affinity": "{}",
        "smt.pinfold.dev/container.main": "pack",
        "noderesource.dev/resources": "{}",
    }
    container = Container(
        id=ContainerId("c1"),
        name="main",
        pod=Pod(
            id=PodId("p1"),
            name="web",
            namespace="shop",
            uid="u1",
            labels={"app": "web"},
            annotations={**ours, "example.com/secret": "hush", "notpinfold.dev/x": "y"},
            qos=QosClass.BURSTABLE,
        ),
        labels={"tier": "front"},
        tags={"a": "b"},
        resources=Resources(
            cpu_request_milli=1500,
            cpu_limit_milli=2000,
            memory_request_bytes=5,
            memory_limit_bytes=6,
            hugepage_bytes={2 << 20: 4 << 20},
        ),
        state=ContainerState.RUNNING,
        created_at=77,
        cpus=CpuSet.of(1, 2, 200),
        mems=NodeSet.of(0),
        hints=(
            Hint(
                provider="class/net/eth0",
                origin=HintOrigin.DEVICE,
                cpus=CpuSet.of(130),
                numa_nodes=NodeSet.of(1),
                sockets=(0,),
            ),
        ),
    )
    advice = Advice(pool="root", exclusive=CpuSet.of(200), grown=(CpuSet.of(200),))
    content = msgspec.json.encode(saved_container(container, advice))
    saved = msgspec.json.decode(content, type=SavedContainer)
    assert saved.advice() == advice
    again = saved.container()
    assert again.pod.annotations == ours
    assert msgspec.json.encode(saved_container(again, advice)) == content
    assert again.resources == container.resources
    assert again.hints == container.hints
    assert (again.cpus, again.mems, again.state, again.created_at, again.labels, again.tags) == (
        container.cpus,
        container.mems,
        container.state,
        container.created_at,
        container.labels,
        container.tags,
    )


def test_a_policy_made_of_its_state_holds_the_same() -> None:
    config = Config(reserved_resources=Amounts(cpu="cpuset:7"), colocate_pods=True)
    engine = Engine(MACHINE, config)
    for name in ("one", "two"):
        pod = Pod(id=PodId(name), name=name, qos=QosClass.GUARANTEED)
        resources = mixed(name).containers[0].resources
        engine.create(Container(id=ContainerId(name), name=name, pod=pod, resources=resources))
    state = Moment.of(engine).state(saved_machine(MACHINE))
    again = Engine(MACHINE, config_from_values(state.config))
    again.synchronize(state.running(), state.advice())
    assert again.config == config
    assert Moment.of(again).state(saved_machine(MACHINE)) == state
    assert state.machine.summary == "cpus 0-7, sockets: 1, NUMA nodes: 1"


def test_a_machine_is_known_by_its_shape_and_not_by_its_memory() -> None:
    def fingerprint(spec: str) -> str:
        return saved_machine(machine_from_spec(spec)).fingerprint

    known = fingerprint("socket:1 numa:1 core:8 thread:1 mem:8G")
    assert fingerprint("socket:1 numa:1 core:8 thread:1 mem:9G") == known
    assert fingerprint("socket:1 numa:2 core:4 thread:1 mem:8G") != known
    assert fingerprint("socket:1 numa:1 core:4 thread:2 mem:8G") != known


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
    daemon = Daemon(MACHINE, Config(), embedded_link(unconnected), reports=(keeper,))
    keeper.start(daemon.plugin)
    daemon.reconfigure(Config(colocate_pods=True))
    keeper.stop()
    daemon.plugin.owner.close()
    assert read_state(tmp_path, LOG) == STATE


def test_another_configuration_is_saved(tmp_path: Path) -> None:
    runtime = EmbeddedRuntime()
    keeper = StateKeeper(tmp_path, LOG, pause_seconds=0)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
    keeper.start(daemon.plugin)
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    start_pod(runtime, mixed("one"), 8 << 30)
    assert daemon.reconfigure(Config(colocate_pods=True))
    assert daemon.plugin.settle()
    keeper.stop()
    daemon.stop()
    state = read_state(tmp_path, LOG)
    assert config_from_values(state.config) == Config(colocate_pods=True)
    assert [one.name for one in state.containers] == ["one"]


def test_folder_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = EmbeddedRuntime()
    keeper = StateKeeper(tmp_path / "none", LOG, pause_seconds=0)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
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


def test_a_fault_of_ours_ends_no_saving(caplog: pytest.LogCaptureFixture) -> None:
    runtime = EmbeddedRuntime()
    # No folder has such a name, and the error is none of the file system's.
    keeper = StateKeeper(Path("no\0folder"), LOG, pause_seconds=0)
    saved: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler = QueueHandler(saved)
    LOG.addHandler(handler)
    daemon = Daemon(MACHINE, Config(), embedded_link(runtime), reports=(keeper,))
    keeper.start(daemon.plugin)
    daemon.start()
    assert runtime.wait_until_synchronized(5)
    for name in ("one", "two"):
        start_pod(runtime, mixed(name), 8 << 30)
        assert "a fault of ours — the state is not saved" in saved.get(timeout=5).getMessage()
    keeper.stop()
    daemon.stop()
    LOG.removeHandler(handler)
