"""Containers land near their mounts and devices, and nobody waits for what does not answer."""

# The stubs of grpc leave the types of handlers open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from pinfold.cmd.daemon.hint_sources import find_hint_sources
from pinfold.cmd.report.decision_log import DecisionLog
from pinfold.nri.api import nri_pb2
from pinfold.nri.api import podresources_pb2 as api
from pinfold.nri.dispatch.report import (
    Answered,
    Crashed,
    Decided,
    Happening,
    HintsMissing,
    Outcome,
)
from pinfold.nri.embedded.embedded_runtime import EmbeddedRuntime
from pinfold.nri.embedded.embedded_updates import embedded_link
from pinfold.nri.hints.combined_hints import CombinedHints
from pinfold.nri.hints.device_hints import DeviceNumber
from pinfold.nri.hints.hint_finder import FoundHints, HintFinder
from pinfold.nri.hints.hint_probe import HintProbe
from pinfold.nri.hints.kubelet_hints import KubeletHints
from pinfold.nri.hints.pod_resources import PodResources
from pinfold.nri.plugin.plugin import Plugin, Timing
from pinfold.nri.plugin.string_entries import write_entries
from pinfold.policy.configuration.config import Agent, Config
from pinfold.policy.configuration.config_text import read_config
from pinfold.policy.engine.engine import Engine
from pinfold.policy.model.container import Container, ContainerId, Device, Pod, PodId
from pinfold.topology.made.spec import machine_from_spec
from pinfold.topology.sysfs.sysfs_tree import DirectoryTree
from tests.unit.nri.fault_tally import FaultTally
from tests.unit.nri.hints.pod_resources_service import serve_pod_resources
from tests.unit.topology.made.machine_files import machine_snapshot, write_tree

MACHINE = machine_from_spec("socket:2 numa:1 core:4 thread:1 mem:4G")
"""Node 0 has cpus 0-3, node 1 has cpus 4-7, and the disk."""
CONTROLLER = "sys/devices/pci0000:80/0000:80:01.0"
DISK = f"{CONTROLLER}/nvme/nvme0/nvme0n1"
NUMBER = DeviceNumber(259, 0, True)
TIMING = Timing(deadline_seconds=1.4, first_retry_seconds=0.002, last_retry_seconds=0.004)
WITH_KUBELET = Config(agent=Agent(pod_resource_api=True))
HINTS = "topologyhints.resource-policy.nri.io/pod"
TEST_HINTS = "test.topologyhints.resource-policy.nri.io/pod"
SECONDS = 20
PATIENT_PINFOLDD = Path(__file__).parents[2] / "cmd" / "daemon" / "patient_pinfoldd.py"


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for whatever answers: a busy machine may need longer for it than a runtime likes."""
    for name in (
        *("plugin.service.FIND_SECONDS", "plugin.container_reader._FIND_ALL_SECONDS"),
        *("hints.hint_probe._PATIENCE_SECONDS", "hints.combined_hints._COLLECT_SECONDS"),
        *("hints.pod_resources._GET_SECONDS", "hints.pod_resources._LIST_SECONDS"),
    ):
        monkeypatch.setattr(f"pinfold.nri.{name}", float(SECONDS))
    monkeypatch.setattr("pinfold.nri.plugin.service._FINDING", 0.9)


@pytest.fixture(autouse=True)
def fixture_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture(name="root")
def fixture_root(tmp_path: Path) -> Path:
    """A machine's files, with a disk near node 1; there /dev/null is near node 1 too."""
    base = machine_snapshot(MACHINE)
    snapshot = replace(
        base,
        files={
            **base.files,
            f"{CONTROLLER}/numa_node": "1\n",
            f"{CONTROLLER}/local_cpulist": "4-7\n",
            f"{DISK}/dev": "259:0\n",
        },
        links={**base.links, "sys/dev/block/259:0": DISK, "sys/dev/char/1:3": DISK},
    )
    root = tmp_path / "root"
    root.mkdir()
    write_tree(snapshot, str(root))
    (root / "null").symlink_to("/dev/null")
    return root


class Host:
    """Paths of the host; those named "hangs" answer when the test is over."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_over = threading.Event()

    def device_of(self, path: str) -> DeviceNumber | None:
        self.asked.append(path)
        if "hangs" in path:
            self.is_over.wait(SECONDS)
        if "breaks" in path:
            raise RuntimeError("a fault")
        return NUMBER if "disk" in path else None


@pytest.fixture(name="host")
def fixture_host() -> Iterator[Host]:
    host = Host()
    yield host
    host.is_over.set()
    await_that(lambda: not looking_threads())


def await_that(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def looking_threads() -> int:
    return sum(one.name == "hints" for one in threading.enumerate())


class Node:
    """The embedded runtime, the plugin, its log and everything that happened."""

    def __init__(self, finder: HintFinder | None, config: Config) -> None:
        self.runtime = EmbeddedRuntime()
        self.tally = FaultTally()
        self.happenings: list[Happening] = []
        self.plugin = Plugin(
            Engine(MACHINE, config),
            embedded_link(self.runtime),
            self._report,
            timing=TIMING,
            finder=finder,
        )
        self.thread = threading.Thread(target=self.plugin.run)

    def _report(self, happening: Happening) -> None:
        self.tally(happening)
        self.happenings.append(happening)

    def start(self) -> None:
        self.thread.start()
        self.await_synchronization()

    def reconnect(self) -> None:
        self.runtime.drop()
        self.await_synchronization()

    def await_synchronization(self) -> None:
        assert self.runtime.wait_until_synchronized(SECONDS)
        assert self.plugin.wait_until_ready(SECONDS)
        assert self.plugin.settle()

    def add(
        self,
        name: str,
        *sources: str,
        annotations: Mapping[str, str] | None = None,
        device_access: str = "",
    ) -> str:
        """Create a container in a pod of its own; returns its cpus."""
        self.run_pod(name, annotations)
        return self.create(name, *sources, device_access=device_access)

    def run_pod(self, name: str, annotations: Mapping[str, str] | None = None) -> None:
        pod = nri_pb2.PodSandbox(id=name, name=name, annotations=write_entries(annotations or {}))
        pod.linux.cgroup_parent = "/kubepods/pod1"
        self.runtime.run_pod(pod)

    def create(
        self, name: str, *sources: str, device_access: str = "", container_id: str = ""
    ) -> str:
        message = nri_pb2.Container(id=container_id or name, pod_sandbox_id=name, name=name)
        message.mounts.extend(
            nri_pb2.Mount(source=source, destination=f"/m{source}") for source in sources
        )
        if device_access:
            message.linux.devices.add(path="/dev/x", type="b", major=259, minor=0)
            rule = message.linux.resources.devices.add(allow=True, type="b", access=device_access)
            rule.major.value, rule.minor.value = 259, 0
        message.linux.resources.cpu.shares.value = 512
        return self.runtime.create(message).linux.resources.cpu.cpus

    def cpus(self, name: str) -> str:
        return self.runtime.containers[name].linux.resources.cpu.cpus

    def decided_by(self, name: str) -> str:
        assert self.plugin.settle()
        return next(
            one.decision.decided_by
            for one in self.happenings
            if isinstance(one, Decided) and one.container.name == name
        )

    def complaints(self) -> list[str]:
        assert self.plugin.settle()
        return [one.what for one in self.happenings if isinstance(one, HintsMissing)]


@contextmanager
def running(finder: HintFinder | None, config: Config | None = None) -> Generator[Node]:
    node = Node(finder, config or Config())
    node.start()
    try:
        yield node
    finally:
        node.plugin.stop()
        node.thread.join(SECONDS)
        assert not node.thread.is_alive()


def probe(root: Path, host: Host) -> CombinedHints:
    return CombinedHints(HintProbe(DirectoryTree(str(root)), host.device_of))


NEAR, ELSEWHERE = "4-7", "1-3"
C = ContainerId("c")


def test_without_a_finder_a_container_goes_where_there_is_room() -> None:
    with running(None) as node:
        # cpu 0 is reserved, so node 1 has more room, and the second container finds node 0.
        assert node.add("first", "/disk") == NEAR
        assert node.add("second", "/disk") == ELSEWHERE


@pytest.mark.parametrize(
    ("sources", "access", "annotations", "cpus"),
    [
        pytest.param(["/disk"], "", {}, NEAR, id="a folder on the disk"),
        pytest.param([], "rwm", {}, NEAR, id="the disk itself"),
        pytest.param([], "r", {}, ELSEWHERE, id="the disk itself, to be read only"),
        pytest.param(["/memory"], "", {}, ELSEWHERE, id="a folder that is nowhere"),
        pytest.param(["/disk"], "", {HINTS: "none"}, ELSEWHERE, id="no hints wanted"),
        pytest.param(["/disk"], "", {HINTS: "devices"}, ELSEWHERE, id="hints of devices wanted"),
        pytest.param(["/disk"], "rw", {HINTS: "devices"}, NEAR, id="a device, as wanted"),
        pytest.param(
            ["/disk"],
            "",
            {"deny.topologyhints.resource-policy.nri.io": "type: prefix\npaths: [/disk]"},
            ELSEWHERE,
            id="a path that is denied",
        ),
    ],
)
def test_a_container_lands_near_its_mounts_and_devices(
    root: Path,
    host: Host,
    sources: list[str],
    access: str,
    annotations: dict[str, str],
    cpus: str,
) -> None:
    with running(probe(root, host)) as node:
        node.add("neighbour")
        assert node.cpus("neighbour") == NEAR
        found = node.add("c", *sources, annotations=annotations, device_access=access)
        assert found == cpus
        assert node.decided_by("c").startswith("hints") == (cpus == NEAR)
        assert node.complaints() == []


def test_mounts_are_not_looked_at_for_containers_that_do_not_want_it(
    root: Path, host: Host
) -> None:
    with running(probe(root, host)) as node:
        node.add("c", "/disk", annotations={HINTS: "none"})
        assert host.asked == []


@pytest.mark.parametrize(
    ("irq", "numbers"),
    [
        pytest.param("devices: ['*nvme*']", (7,), id="of its devices"),
        pytest.param("claim: ['*nvme*']", (), id="by their names alone"),
    ],
)
def test_interrupts_are_looked_at_for_containers_that_claim_those_of_their_devices(
    root: Path, host: Host, irq: str, numbers: tuple[int, ...]
) -> None:
    (root / CONTROLLER / "msi_irqs").mkdir()
    (root / CONTROLLER / "msi_irqs/7").write_text("msi")
    pod = Pod(
        id=PodId("p"),
        name="p",
        annotations={"irq-affinity.resource-policy.nri.io/container.c": irq},
    )
    disk = Device(path="/dev/x", type="b", major=259, minor=0)
    one = Container(id=C, name="c", pod=pod, devices=(disk,))
    found = probe(root, host).find(one, with_kubelet=False, seconds=SECONDS)
    assert [hint.interrupts for hint in found.hints[C]] == [numbers]


def test_hints_are_found_once_and_kept_over_updates_and_reconnections(
    root: Path, host: Host
) -> None:
    with running(probe(root, host)) as node:
        node.add("neighbour")
        assert node.add("c", "/disk") == NEAR
        node.runtime.start("c")
        shares = nri_pb2.LinuxResources()
        shares.cpu.shares.value = 256
        node.runtime.update("c", shares)
        node.reconnect()
        assert node.cpus("c") == NEAR
        assert host.asked == ["/disk"]
        assert [one.provider for one in node.plugin.events.policy.containers[C].hints] == [
            f"/{CONTROLLER}"
        ]


class Expectant:
    """A finder that finds nothing, and keeps whom it was told of."""

    def __init__(self) -> None:
        self.expected: list[str] = []

    def expect(self, pod: Pod) -> None:
        self.expected.append(pod.name)

    def looks(self, container: Container, *, with_kubelet: bool) -> bool:
        return with_kubelet

    def find(self, container: Container, *, with_kubelet: bool, seconds: float) -> FoundHints:
        return FoundHints()

    def find_all(
        self, containers: Sequence[Container], *, with_kubelet: bool, seconds: float
    ) -> FoundHints:
        return FoundHints()


def test_a_reload_that_has_the_kubelet_asked_takes_effect_with_the_next_pod() -> None:
    finder = Expectant()
    with running(finder) as node:
        node.run_pod("before")
        node.plugin.owner.ask("reload", lambda: node.plugin.events.reconfigure(WITH_KUBELET))
        node.run_pod("after")
        assert node.plugin.settle()
        assert finder.expected == ["after"]
        assert node.tally.connections == 1, "the mask of events holds for a whole connection"


def test_containers_that_run_already_are_placed_near_their_mounts(
    root: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinfold.nri.hints.hint_probe._PATIENCE_SECONDS", 1.0)
    node = Node(probe(root, host), Config())
    # Without a plugin nobody is pinned.
    for name, source in (("hung", "/hangs"), ("c", "/disk"), ("d", "/disk/2")):
        assert node.add(name, source) == ""
        node.runtime.start(name)
    node.start()
    try:
        assert (node.cpus("c"), node.cpus("d")) == (NEAR, NEAR)
        assert node.cpus("hung")
        assert node.tally.unhinted == 1
        assert len(node.complaints()) == 1
    finally:
        node.plugin.stop()
        node.thread.join(SECONDS)


def test_a_mount_that_hangs_does_not_keep_the_runtime_waiting(
    root: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(probe(root, host)) as node:
        for name in ("plugin.service.FIND_SECONDS", "hints.hint_probe._PATIENCE_SECONDS"):
            monkeypatch.setattr(f"pinfold.nri.{name}", 0.5)
        started = time.monotonic()
        assert node.add("first", "/hangs/a") == NEAR
        assert time.monotonic() - started < SECONDS / 4, "it hangs for longer"
        for name in ("second", "third"):
            assert node.add(name, "/hangs/a")
        assert host.asked == ["/hangs/a"], "a path that hangs is not looked at again"
        be_patient(monkeypatch)
        assert node.add("c", "/disk") == NEAR, "others have their hints"
        assert node.tally.unhinted == 3
        answers = [one for one in node.happenings if isinstance(one, Answered)]
        assert not [one for one in answers if one.outcome is Outcome.LATE]
        assert node.tally.connections == 1
        assert node.complaints()[0] == (
            "default/first/first: no answer from '/hangs/a' in time, placed without hints of"
            " mounts and devices — see whether the disk or server behind it answers"
        )


def test_a_mount_that_answers_again_is_looked_at_again(
    root: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(probe(root, host)) as node:
        monkeypatch.undo()
        node.add("first", "/hangs/disk")
        host.is_over.set()
        await_that(lambda: not looking_threads())
        be_patient(monkeypatch)
        assert node.add("second", "/hangs/disk") == NEAR
        assert node.tally.unhinted == 1


def test_many_mounts_that_hang_hold_few_threads(
    root: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(probe(root, host)) as node:
        monkeypatch.undo()
        for number in range(12):
            assert node.add(f"c{number}", f"/hangs/{number}")
        assert looking_threads() == 8
        assert node.tally.unhinted == 12


def test_a_fault_in_looking_costs_a_container_its_hints_only(root: Path, host: Host) -> None:
    with running(probe(root, host)) as node:
        assert node.add("c", "/breaks") == NEAR
        assert "RuntimeError('a fault')" in node.complaints()[0]
        assert node.tally.unhinted == 1


def test_a_controller_that_tells_nonsense_is_one_warning(root: Path, host: Host) -> None:
    (root / CONTROLLER / "numa_node").write_text("garbage\n")
    with running(probe(root, host)) as node:
        for name in ("a", "b"):
            assert node.add(name, "/disk") == NEAR, "its list of cpus is good"
        assert node.complaints() == [
            f"/{CONTROLLER}/numa_node: 'garbage' is not a whole number — no hint comes from it; see"
            " the device's driver or firmware"
        ]
        assert node.tally.unhinted == 0


def test_a_fault_in_finding_is_told_and_the_container_placed() -> None:
    class Broken(CombinedHints):
        def looks(self, container: Container, *, with_kubelet: bool) -> bool:
            return True

        def find(self, container: Container, *, with_kubelet: bool, seconds: float) -> FoundHints:
            raise RuntimeError("a fault")

    with running(Broken()) as node:
        assert node.add("c") == NEAR
        assert [one.what for one in node.happenings if isinstance(one, Crashed)] == ["hints"]


def test_nothing_is_looked_for_where_nobody_is_to_be_asked() -> None:
    class Idle(CombinedHints):
        def find(self, container: Container, *, with_kubelet: bool, seconds: float) -> FoundHints:
            raise AssertionError(container.path)

    with running(Idle()) as node:
        assert node.add("c") == NEAR
        assert not [one for one in node.happenings if isinstance(one, Crashed)]


@pytest.mark.parametrize("environment", [{}, {"ENABLE_TEST_APIS": ""}, {"ENABLE_TEST_APIS": "1"}])
def test_hints_in_annotations_count_where_tests_are_allowed(environment: dict[str, str]) -> None:
    text = "disk: {CPUs: 4-7, Nodes: 1}\nport: {NUMAs: '1'}"
    with running(find_hint_sources(None, environment)) as node:
        node.add("neighbour")
        cpus = node.add("c", annotations={TEST_HINTS: text})
        is_allowed = bool(environment.get("ENABLE_TEST_APIS"))
        assert cpus == (NEAR if is_allowed else ELSEWHERE)
        assert node.plugin.settle()
        (problems,) = [
            one.problems
            for one in node.happenings
            if isinstance(one, Decided) and one.container.name == "c"
        ]
        assert ["unknown field 'Nodes'" in str(one) for one in problems] == [True] * is_allowed


class Kubelet:
    """A server of the pod-resources service whose pods all have one device, near node 1."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.node = 1
        self.answers = threading.Event()
        self.answers.set()

    def find(self, request: api.GetPodResourcesRequest, _: grpc.ServicerContext) -> object:
        self.calls.append(f"Get {request.pod_namespace}/{request.pod_name}")
        self.answers.wait(SECONDS)
        return api.GetPodResourcesResponse(pod_resources=resources_of(request.pod_name, self.node))

    def list(self, _request: api.ListPodResourcesRequest, _: grpc.ServicerContext) -> object:
        self.calls.append("List")
        self.answers.wait(SECONDS)
        return api.ListPodResourcesResponse(pod_resources=[resources_of("c")])


def resources_of(name: str, node: int = 1) -> api.PodResources:
    topology = api.TopologyInfo(nodes=[api.NUMANode(ID=node)])
    device = api.ContainerDevices(resource_name="x/gpu", device_ids=["0"], topology=topology)
    container = api.ContainerResources(name=name, devices=[device])
    return api.PodResources(name=name, namespace="default", containers=[container])


@pytest.fixture(name="path")
def fixture_path(tmp_path: Path) -> str:
    return str(tmp_path / "kubelet.sock")


@pytest.fixture(name="kubelet")
def fixture_kubelet(path: str) -> Iterator[Kubelet]:
    kubelet = Kubelet()
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    serve_pod_resources(server, path, kubelet.list, kubelet.find)
    yield kubelet
    kubelet.answers.set()
    server.stop(None).wait(SECONDS)


@pytest.fixture(name="asking")
def fixture_asking(path: str) -> Iterator[CombinedHints]:
    surroundings = CombinedHints(kubelet=KubeletHints(PodResources(time.monotonic, path)))
    yield surroundings
    surroundings.close()


def test_the_kubelet_is_asked_when_a_pod_begins_and_its_containers_land_near(
    kubelet: Kubelet, asking: CombinedHints
) -> None:
    with running(asking, WITH_KUBELET) as node:
        node.run_pod("warm")
        await_that(lambda: bool(kubelet.calls))
        node.create("warm")
        assert node.cpus("warm") == NEAR
        node.run_pod("c")
        await_that(lambda: "Get default/c" in kubelet.calls)
        assert node.create("c") == NEAR
        assert node.decided_by("c").startswith("hints")
        assert kubelet.calls == ["Get default/warm", "Get default/c"]
        node.run_pod("d", {HINTS: "mounts"})
        await_that(lambda: "Get default/d" in kubelet.calls)
        assert node.create("d") == ELSEWHERE


def test_the_kubelet_is_not_asked_unless_the_configuration_says_so(
    kubelet: Kubelet, asking: CombinedHints
) -> None:
    with running(asking) as node:
        node.add("neighbour")
        assert node.add("c") == ELSEWHERE
        node.reconnect()
        assert kubelet.calls == []


def test_the_kubelet_is_asked_once_about_all_that_runs(
    kubelet: Kubelet, asking: CombinedHints
) -> None:
    node = Node(asking, WITH_KUBELET)
    for name in ("a", "b", "c"):
        node.add(name)
        node.runtime.start(name)
    node.start()
    try:
        assert node.cpus("c") == NEAR
        assert kubelet.calls == ["List"]
        hints = {name: one.hints for name, one in node.plugin.events.policy.containers.items()}
        assert {name: len(found) for name, found in hints.items()} == {"a": 0, "b": 0, "c": 1}
    finally:
        node.plugin.stop()
        node.thread.join(SECONDS)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_container_that_starts_again_in_an_adopted_pod_has_its_hints(
    kubelet: Kubelet, asking: CombinedHints, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(asking, WITH_KUBELET)
    for name in ("neighbour", "c"):
        node.add(name)
        node.runtime.start(name)
    if is_late:
        monkeypatch.setattr("pinfold.nri.plugin.container_reader._FIND_ALL_SECONDS", 0.2)
        kubelet.answers.clear()
    node.start()
    try:
        assert node.tally.unhinted == (2 if is_late else 0)
        kubelet.answers.set()
        node.runtime.stop("c")
        assert node.create("c", container_id="c again") == NEAR
        assert kubelet.calls == ["List"], "nobody waits for another answer"
    finally:
        node.plugin.stop()
        node.thread.join(SECONDS)


def test_a_node_that_cannot_be_is_one_warning(kubelet: Kubelet, asking: CombinedHints) -> None:
    kubelet.node = 2**40

    with running(asking, WITH_KUBELET) as node:
        for name in ("a", "b", "c"):
            assert node.add(name)
        assert len(kubelet.calls) == 3
        (complaint,) = node.complaints()
        assert complaint.startswith("the kubelet's devices 'x/gpu': 1099511627776 is no NUMA node")


def test_a_kubelet_that_hangs_keeps_nobody_waiting(
    kubelet: Kubelet, asking: CombinedHints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinfold.nri.hints.combined_hints._COLLECT_SECONDS", 0.005)
    kubelet.answers.clear()
    with running(asking, WITH_KUBELET) as node:
        started = time.monotonic()
        assert node.add("first") == NEAR
        assert time.monotonic() - started < SECONDS / 4, "the kubelet has longer"
        assert node.tally.unhinted == 1
        assert "the kubelet did not tell the devices in time" in node.complaints()[0]
        assert node.tally.connections == 1
    # Else whoever lets go of it waits for it.
    kubelet.answers.set()


def test_a_kubelet_that_is_not_there_is_one_line_in_the_log(
    asking: CombinedHints, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = DecisionLog(logging.getLogger("test"), "runtime")
    with running(asking, WITH_KUBELET) as node:
        for number in range(4):
            assert node.add(f"c{number}")
        node.runtime.start("c0")
        node.reconnect()
        for happening in node.happenings:
            log(happening)
    lines = [one.getMessage() for one in caplog.records if path in one.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith(f"{path}: Get: unavailable: ")
    assert "see whether the kubelet runs" in lines[0]


def test_the_kubelets_silence_is_told_again_after_an_answer(
    kubelet: Kubelet, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        now = 0.0

    lister = PodResources(lambda: Clock.now, path)
    surroundings = CombinedHints(kubelet=KubeletHints(lister))
    with running(surroundings, WITH_KUBELET) as node:
        for number, is_answering in enumerate((False, True, False)):
            Clock.now += 60
            if is_answering:
                kubelet.answers.set()
            else:
                kubelet.answers.clear()
            seconds = SECONDS if is_answering else 0.2
            monkeypatch.setattr("pinfold.nri.hints.pod_resources._GET_SECONDS", seconds)
            node.add(f"c{number}")
        assert sum("deadline exceeded" in one for one in node.complaints()) == 2
    surroundings.close()


def test_paths_are_those_below_the_root(root: Path) -> None:
    surroundings = find_hint_sources(str(root), {})
    with running(surroundings) as node:
        node.add("neighbour")
        assert node.add("c", "/null") == NEAR
        assert node.add("d", "/dev/null") == ELSEWHERE, "there is none below the root"
    surroundings.close()


@pytest.mark.parametrize("option", ["--sysfs-root", "--machine"])
def test_the_daemon_has_hints_on_a_machine_and_none_on_paper(
    root: Path, tmp_path: Path, option: str
) -> None:
    machine = str(root) if option == "--sysfs-root" else "socket:2 numa:1 core:4 mem:4G"
    config = tmp_path / "pinfold.yaml"
    config.touch()
    runtime = EmbeddedRuntime(request_timeout_seconds=SECONDS)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "nri.sock"))
        listener.listen(1)
        listener.settimeout(SECONDS)
        process = subprocess.Popen(
            [
                *(sys.executable, str(PATIENT_PINFOLDD), f"{option}={machine}"),
                *(f"--config={config}", f"--nri-socket={tmp_path}/nri.sock"),
                f"--kernel-root={tmp_path}",
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            connection, _ = listener.accept()
            connection.settimeout(None)
            runtime.serve(connection)
            assert runtime.wait_until_synchronized(SECONDS)
            for name, source in (("neighbour", "/x"), ("c", "/null")):
                pod = nri_pb2.PodSandbox(
                    id=name, name=name, linux={"cgroup_parent": "/kubepods/pod1"}
                )
                runtime.run_pod(pod)
                container = nri_pb2.Container(id=name, pod_sandbox_id=name, name=name)
                container.mounts.add(source=source, destination="/m")
                container.linux.resources.cpu.shares.value = 512
                runtime.create(container)
        finally:
            process.terminate()
            assert process.wait(SECONDS) == 0
    cpus = runtime.containers["c"].linux.resources.cpu.cpus
    assert cpus == (NEAR if option == "--sysfs-root" else ELSEWHERE)


def test_idle_fields_of_the_agent_are_named_exactly() -> None:
    asks = read_config("agent: {podResourceAPI: true}", "a.yaml")
    assert asks.config.agent.pod_resource_api
    assert asks.warnings == ()
    (warning,) = read_config("agent: {nodeResourceTopology: false}", "a.yaml").warnings
    assert warning.startswith("a.yaml:1:9: agent.nodeResourceTopology: accepted, but has no effect")
