"""The daemon's slow side: cold starts, free memory, cpus and configuration files that change."""

import dataclasses
import logging
import queue
import re
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pinfold.cmd.daemon.config_file import load_config
from pinfold.cmd.daemon.config_watch import ConfigWatch
from pinfold.cmd.daemon.daemon import Command, Daemon, reload_configuration
from pinfold.cmd.daemon.machine_source import live_root
from pinfold.cmd.daemon.periodic_work import (
    CONFIG_SECONDS,
    CPUS_SECONDS,
    MEMORY_SECONDS,
    PROCESSOR_SECONDS,
    plan_periodic_work,
)
from pinfold.cmd.daemon.sd_notify import Notifier
from pinfold.cmd.report.decision_log import DecisionLog
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.embedded.kubelet import start_pods
from pinfold.policy.configuration.config import Amounts, Config
from pinfold.policy.configuration.config_text import read_config
from pinfold.policy.manifests.pod_spec import ContainerSpec, PodSpec
from pinfold.policy.model.container import QosClass, Resources
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.model.machine import Machine, MemoryKind, NumaNode, NumaNodeId
from pinfold.topology.sysfs.discovery import read_machine
from pinfold.topology.sysfs.processor import parse_processor
from tests.unit.cmd.daemon.paper_node import PATIENT
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

GIB = 2**30
LOG = logging.getLogger("test_periodic_work")
COLD = {"cold-start.resource-policy.nri.io/pod": "duration: 10s"}
ONLINE = "sys/devices/system/cpu/online"


class Clock:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def tiered() -> Machine:
    """Two sockets with 4 GiB of DRAM each, and as much slower memory near each."""
    plain = machine_from_spec("socket:2 core:4 mem:4G")
    slow = tuple(
        NumaNode(id=NumaNodeId(2 + socket), memory_bytes=4 * GIB, kind=MemoryKind.PMEM)
        for socket in range(2)
    )
    return dataclasses.replace(
        plain,
        numa_nodes=(*plain.numa_nodes, *slow),
        distances=((10, 21, 17, 28), (21, 10, 28, 17), (17, 28, 10, 28), (28, 17, 28, 10)),
    )


def pod(name: str, annotations: dict[str, str] | None = None, milli: int = 1000) -> PodSpec:
    resources = Resources(
        cpu_request_milli=milli,
        cpu_limit_milli=milli,
        memory_request_bytes=GIB,
        memory_limit_bytes=GIB,
    )
    return PodSpec(
        name=name,
        annotations=annotations or {},
        qos=QosClass.GUARANTEED,
        containers=(ContainerSpec(name=name, resources=resources),),
    )


RESERVED = Config(reserved_resources=Amounts(cpu="cpuset:0"))


class Node:
    """A daemon with its embedded runtime, and a clock for its timers."""

    def __init__(
        self, machine: Machine, runtime: EmbeddedRuntime, settings: Config = RESERVED
    ) -> None:
        self.clock = Clock()
        self.runtime = runtime
        self.daemon = Daemon(
            machine,
            settings,
            embedded_link(runtime),
            reports=(DecisionLog(LOG, "here"),),
            timing=PATIENT,
            clock=self.clock,
        )

    def start(self) -> None:
        # The timers' own thread would look at another clock than the test.
        self.daemon.timers.start = lambda: None  # type: ignore[method-assign]
        self.daemon.start()
        self.await_synchronization()

    def await_synchronization(self) -> None:
        assert self.runtime.wait_until_synchronized(5)
        assert self.daemon.front.wait_until_ready(5)
        assert self.daemon.front.settle()

    def run(self, spec: PodSpec) -> None:
        assert not start_pods(self.runtime, [spec], 8 * GIB)
        assert self.daemon.front.settle()

    def pass_seconds(self, seconds: float) -> None:
        self.clock.now += seconds
        self.daemon.timers.work_off()
        assert self.daemon.front.settle()

    def told(self, name: str) -> tuple[str, str]:
        (cpu,) = (
            one.linux.resources.cpu for one in self.runtime.containers.values() if one.name == name
        )
        return cpu.cpus, cpu.mems


Run = Callable[..., Node]


@pytest.fixture(name="run")
def fixture_run() -> Generator[Run]:
    running: list[Node] = []

    def run(
        machine: Machine,
        runtime: EmbeddedRuntime | None = None,
        root: Path | None = None,
        config: Path | None = None,
        settings: Config = RESERVED,
    ) -> Node:
        node = Node(machine, runtime or EmbeddedRuntime(request_timeout_seconds=10.0), settings)
        running.append(node)
        watch = ConfigWatch(config or Path("/nonexistent"))
        plan_periodic_work(node.daemon, watch, None if root is None else str(root), LOG)
        node.start()
        return node

    yield run
    for node in running:
        node.daemon.stop()


def test_the_processor_is_read_before_a_rule_asks_for_it(run: Run) -> None:
    """Its reader takes tens of milliseconds to load, for which no container is to wait."""
    text = "vendor_id\t: AuthenticAMD\nmodel name\t: Prepared 1\nflags\t\t: avx2"
    node = run(dataclasses.replace(tiered(), cpuinfo=text))
    known = parse_processor.cache_info().currsize
    node.pass_seconds(PROCESSOR_SECONDS)
    assert parse_processor.cache_info().currsize == known + 1
    node.run(pod("picky", {"pool-selector.pinfold.dev/pod": "cpu.flag/avx2=true"}))
    assert parse_processor.cache_info().currsize == known + 1


def test_a_cold_start_ends_in_time(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    node = run(tiered())
    node.run(pod("cold", COLD))
    assert node.told("cold")[1] == "3"
    node.pass_seconds(9.9)
    assert node.told("cold")[1] == "3"
    with caplog.at_level(logging.INFO):
        node.pass_seconds(0.2)
    assert node.told("cold")[1] == "1,3"
    line = r'event=adjusted pod=default/cold container=cold id=\w+ cause="end of cold start"'
    assert re.search(line, caplog.text)
    assert sum(node.runtime.update_counts.values()) == 1


def test_a_container_that_ends_first_is_left_alone(run: Run) -> None:
    node = run(tiered())
    node.run(pod("cold", COLD))
    (container_id,) = node.runtime.containers
    node.runtime.stop(container_id)
    assert node.daemon.front.settle()
    node.pass_seconds(20)
    assert node.told("cold")[1] == "3"
    assert not node.runtime.update_counts


def test_a_cold_start_goes_on_over_a_reconnection(run: Run) -> None:
    node = run(tiered())
    node.run(pod("cold", COLD))
    node.pass_seconds(6)
    node.runtime.drop()
    node.await_synchronization()
    node.pass_seconds(5)
    assert node.told("cold")[1] == "1,3"


def test_a_cold_start_found_running_lasts_its_time_again(run: Run) -> None:
    first = run(tiered())
    first.run(pod("cold", COLD))
    first.pass_seconds(6)
    first.daemon.stop()
    second = run(tiered(), first.runtime)
    second.pass_seconds(6)
    assert second.told("cold")[1] == "3"
    second.pass_seconds(5)
    assert second.told("cold")[1] == "1,3"


def test_a_cold_start_that_is_over_stays_over(run: Run) -> None:
    first = run(tiered())
    first.run(pod("cold", COLD))
    first.pass_seconds(11)
    counts = first.runtime.update_counts.copy()
    first.daemon.stop()
    second = run(tiered(), first.runtime)
    second.pass_seconds(11)
    assert second.told("cold")[1] == "1,3"
    assert second.runtime.update_counts == counts


@pytest.fixture(name="tree")
def fixture_tree(tmp_path: Path) -> Path:
    """The files of a machine with two sockets of four cpus."""
    root = tmp_path / "root"
    root.mkdir()
    write_tree(machine_snapshot(machine_from_spec("socket:2 core:4 mem:4G")), str(root))
    return root


def set_free(root: Path, node: int, free_bytes: int) -> None:
    path = root / f"sys/devices/system/node/node{node}/meminfo"
    amounts = {"MemTotal": 4 * GIB, "MemFree": free_bytes}
    path.write_text(
        "".join(f"Node {node} {name}: {one // 1024} kB\n" for name, one in amounts.items())
    )


def test_memory_that_runs_out_widens_sets(
    run: Run, tree: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = run(read_machine(str(tree)), root=tree)
    node.run(pod("hungry"))
    _, home = node.told("hungry")
    for one in range(2):
        set_free(tree, one, 3 * GIB)
    node.pass_seconds(MEMORY_SECONDS)
    assert node.told("hungry")[1] == home
    set_free(tree, int(home), 0)
    node.pass_seconds(MEMORY_SECONDS - 1)
    assert node.told("hungry")[1] == home
    with caplog.at_level(logging.INFO):
        node.pass_seconds(1)
    assert node.told("hungry")[1] == "0-1"
    assert 'cause="memory pressure"' in caplog.text


@pytest.mark.parametrize("full", [0, 1])
def test_a_daemon_looks_at_the_free_memory_when_it_starts(run: Run, tree: Path, full: int) -> None:
    set_free(tree, full, 0)
    set_free(tree, 1 - full, 3 * GIB)
    node = run(read_machine(str(tree)), root=tree)
    node.pass_seconds(0)
    node.run(pod("new"))
    assert node.told("new")[1] == str(1 - full)


def test_a_cpu_that_goes_offline_moves_who_runs_there_and_nobody_else(
    run: Run, tree: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = run(read_machine(str(tree)), root=tree)
    node.run(pod("a", milli=2000))
    node.run(pod("b", milli=2000))
    before = node.told("b")
    assert node.told("a")[0] == "4-5"
    (tree / ONLINE).write_text("0-4,6-7\n")
    with caplog.at_level(logging.INFO):
        node.pass_seconds(CPUS_SECONDS)
    assert str(node.daemon.machine.online) == "0-4,6-7"
    assert node.told("a")[0] == "4,6"
    assert node.told("b") == before
    line = r'event=moved pod=default/a container=a id=\w+ pool="socket #1" cpus=4,6'
    assert re.search(line, caplog.text)
    assert 'reason="cpus 5 are offline"' in caplog.text
    assert "cpus 0-4,6-7 are online now, 0-7 before" in caplog.text


def test_a_cpu_that_comes_back_is_used_again(run: Run, tree: Path) -> None:
    (tree / ONLINE).write_text("0-3\n")
    node = run(read_machine(str(tree)), root=tree)
    node.run(pod("a", milli=2000))
    before = node.told("a")
    (tree / ONLINE).write_text("0-7\n")
    node.pass_seconds(CPUS_SECONDS)
    assert node.told("a") == before
    node.run(pod("b", milli=4000))
    assert node.told("b")[0] == "4-7"


def test_another_cpu_is_reserved_where_the_reserved_one_went_offline(
    run: Run, tree: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = run(read_machine(str(tree)), root=tree)
    node.run(dataclasses.replace(pod("dns", milli=100), namespace="kube-system"))
    assert node.told("dns")[0] == "0"
    (tree / ONLINE).write_text("1-7\n")
    for _ in range(3):
        node.pass_seconds(CPUS_SECONDS)
    assert node.told("dns")[0] == "1"
    said = [one.getMessage() for one in caplog.records if "reserved instead" in one.getMessage()]
    assert said == [
        "reservedResources.cpu: no cpu of 'cpuset:0' is online (offline are 0): cpus 1 are"
        " reserved instead"
    ]
    (tree / ONLINE).write_text("0-7\n")
    node.pass_seconds(CPUS_SECONDS)
    assert node.told("dns")[0] == "0"


def test_which_cpus_are_reserved_by_their_number_by_now_is_told(
    run: Run, tree: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = run(read_machine(str(tree)), root=tree, settings=Config())
    for online, told in (
        ("1-7", ["cpus 1 are reserved now, 0 before"]),
        ("1-6", []),
        ("0-6", []),
        ("0,2-6", ["cpus 0 are reserved now, 1 before"]),
    ):
        caplog.clear()
        (tree / ONLINE).write_text(online + "\n")
        node.pass_seconds(CPUS_SECONDS)
        assert [one for one in caplog.messages if "are reserved now" in one] == told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "reservedResources:\n  cpu: cpuset:0\n",
            "pinfold.yaml:2:3: reservedResources.cpu: no cpu of 'cpuset:0' is online (offline are"
            " 0): cpus 1 are reserved instead",
            id="a warning",
        ),
        pytest.param(
            "reservedResources:\n  cpu: cpuset:0\n  memory: nodeset:0\n"
            "availableResources:\n  memory: cpuset:0,4\n",
            "cpus 1-7 are online now: pinfold.yaml:3:3: reservedResources.memory: nodes 0 of"
            " 'nodeset:0' are not among the available nodes 1 — take them out here or add them to"
            " availableResources.memory; still counting on 0-7",
            id="a fault",
        ),
    ],
)
def test_what_offline_cpus_do_to_a_configuration_is_told_with_file_and_line(
    text: str, said: str, run: Run, tree: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = read_config(text, "pinfold.yaml")
    node = run(read_machine(str(tree)), root=tree, settings=written.config)
    node.daemon.written = written
    (tree / ONLINE).write_text("1-7\n")
    for _ in range(2):
        node.pass_seconds(CPUS_SECONDS)
    about_it = [one for one in caplog.messages if "reservedResources" in one]
    assert about_it[-1] == said
    assert all("pinfold.yaml:" in one for one in about_it)


def test_cpus_the_configuration_cannot_do_without_are_missed_once(
    run: Run, tree: Path, caplog: pytest.LogCaptureFixture
) -> None:
    by_cpus = Config(
        available_resources=Amounts(memory="cpuset:0,4"),
        reserved_resources=Amounts(cpu="cpuset:0", memory="nodeset:0"),
    )
    node = run(read_machine(str(tree)), root=tree, settings=by_cpus)
    node.run(pod("a", milli=2000))
    before = node.told("a")
    (tree / ONLINE).write_text("1-7\n")
    for _ in range(3):
        node.pass_seconds(CPUS_SECONDS)
    assert node.told("a") == before
    assert str(node.daemon.machine.online) == "0-7"
    said = [one.getMessage() for one in caplog.records if "online now" in one.getMessage()]
    assert said == [
        "cpus 1-7 are online now: reservedResources.memory: nodes 0 of 'nodeset:0' are not among"
        " the available nodes 1 — take them out here or add them to availableResources.memory;"
        " still counting on 0-7"
    ]


def test_nothing_that_changes_tells_nobody_anything(run: Run, tree: Path) -> None:
    node = run(read_machine(str(tree)), root=tree)
    node.run(pod("a", milli=2000))
    for _ in range(5):
        node.pass_seconds(CPUS_SECONDS)
    assert not node.runtime.update_counts


SETTINGS = 'reservedResources: {cpu: "cpuset:0"}\n'
ReloadAfter = Callable[[str], tuple[Node, list[str]]]


@pytest.fixture(name="reload_after")
def fixture_reload_after(run: Run, tmp_path: Path) -> Generator[ReloadAfter]:
    """Has a file change under a daemon with one container; its reload and who was told to move."""
    config = tmp_path / "pinfold.yaml"
    config.write_text(SETTINGS)
    threads: list[tuple[Node, threading.Thread]] = []

    def reload_after(text: str) -> tuple[Node, list[str]]:
        node = run(machine_from_spec("socket:2 core:4 mem:4G"), config=config)
        node.run(pod("a", milli=2000))
        reloads: queue.SimpleQueue[str] = queue.SimpleQueue()
        notifier = Notifier({})

        def load() -> None:
            reload_configuration(
                node.daemon, lambda: load_config(config, environment={}), notifier, LOG
            )
            reloads.put("reloaded")

        thread = threading.Thread(target=lambda: node.daemon.run(notifier, load))
        thread.start()
        threads.append((node, thread))
        config.write_text(text)
        for _ in range(3):
            node.pass_seconds(CONFIG_SECONDS)
        assert reloads.get(timeout=5) == "reloaded"
        assert node.daemon.front.settle()
        return node, list(node.runtime.update_counts)

    yield reload_after
    for node, thread in threads:
        node.daemon.tell(Command.STOP)
        thread.join()


def test_what_the_machine_cannot_have_of_a_changed_file_is_told_once(
    reload_after: ReloadAfter, caplog: pytest.LogCaptureFixture
) -> None:
    classes = "cpuClasses: [{name: low, pctPriority: low}]\nsharedPoolCPUClass: low\n"
    reload_after(SETTINGS + classes)
    said = [one.getMessage() for one in caplog.records if "Speed Select" in one.getMessage()]
    (line,) = said
    what = "cpuClasses: pctPriority: no effect, this machine shows no Speed Select"
    assert f"/pinfold.yaml:2:1: {what}" in line


def test_a_file_that_changes_is_put_in_force(
    reload_after: ReloadAfter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node, told = reload_after(SETTINGS + 'availableResources: {cpu: "exclude-cpuset:4"}\n')
    assert node.told("a")[0] == "5-6"
    assert len(told) == 1
    line = r'event=moved pod=default/a container=a id=\w+ pool="socket #1" cpus=5-6'
    assert re.search(line, caplog.text)
    assert 'before=4-5 reason="cpus 4 are not available"' in caplog.text
    assert "event=reconfigured" in caplog.text


def test_a_file_that_says_the_same_changes_nothing(
    reload_after: ReloadAfter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    _, told = reload_after("# a remark\n" + SETTINGS)
    assert told == []
    assert "event=reconfigured changed=nothing" in caplog.text


def test_a_file_with_faults_leaves_the_old_configuration_in_force(
    reload_after: ReloadAfter, caplog: pytest.LogCaptureFixture
) -> None:
    node, told = reload_after("pinCPUs: true\npinMemory: maybe\n")
    assert told == []
    assert node.daemon.engine.config == Config(reserved_resources=Amounts(cpu="cpuset:0"))
    said = [one.getMessage() for one in caplog.records if "stays in force" in one.getMessage()]
    assert [re.sub(r"^.*/", "", one)[:24] for one in said] == [
        "pinfold.yaml:1:1: pinCPU",
        "pinfold.yaml:2:1: pinMem",
    ]


def test_only_a_folder_shows_the_moment(tmp_path: Path) -> None:
    assert live_root(None, None) == "/"
    assert live_root(str(tmp_path), None) == str(tmp_path)
    assert live_root(str(tmp_path / "node.tar.xz"), None) is None
    assert live_root(None, "socket:1") is None
